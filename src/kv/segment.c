#include "src/kv/segment.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define SEGMENT_FOLDER "/dev/shm"
#define NAME_MARK      "kvconform-"

/* Who made a name. A pid means something only in its own pid namespace, and a /dev/shm may be
 * shared by several; the start time tells a process from a later one with the same pid. */
struct maker {
    uint64_t pid_namespace;
    uint64_t pid;
    uint64_t start_time; /* clock ticks after boot */
};

/* ---- who is alive ---- */

/* False when there is no such process, or only its zombie: a zombie maps nothing any more. */
static bool read_start_time(uint64_t pid, uint64_t *start_time)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%" PRIu64 "/stat", pid);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return false;
    char line[1024];
    const size_t size = fread(line, 1, sizeof(line) - 1, file);
    fclose(file);
    line[size] = '\0';
    /* The second field is the program's name in brackets, which may hold anything. */
    const char *after_name = strrchr(line, ')');
    char state;
    if (after_name == NULL ||
        sscanf(after_name + 1,
               " %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s"
               " %" SCNu64,
               &state, start_time) != 2)
        return false;
    return state != 'Z' && state != 'X';
}

static uint64_t read_pid_namespace(void)
{
    char link[64];
    const ssize_t size = readlink("/proc/self/ns/pid", link, sizeof(link) - 1);
    if (size < 0)
        return 0;
    link[size] = '\0';
    uint64_t number = 0;
    return sscanf(link, "pid:[%" SCNu64 "]", &number) == 1 ? number : 0;
}

/* ---- names ---- */

void kvc_segment_name(const char *prefix, char *name, size_t name_size)
{
    static atomic_uint counter;
    const uint64_t pid = (uint64_t)getpid();
    uint64_t start_time = 0;
    read_start_time(pid, &start_time);
    snprintf(name, name_size, "/%s" NAME_MARK "%" PRIu64 "-%" PRIu64 "-%" PRIu64 "-%u", prefix,
             read_pid_namespace(), pid, start_time, atomic_fetch_add(&counter, 1));
}

static bool read_digits(const char **text, uint64_t *number)
{
    if (**text < '0' || **text > '9')
        return false;
    char *end;
    errno = 0;
    *number = strtoull(*text, &end, 10);
    *text = end;
    return errno == 0;
}

/* Whether a name is one of kvc_segment_name, to the last character. */
static bool read_maker(const char *name, struct maker *maker)
{
    const char *mark = NULL;
    for (const char *at = strstr(name, NAME_MARK); at != NULL; at = strstr(at + 1, NAME_MARK))
        mark = at;
    if (mark == NULL)
        return false;
    const char *at = mark + strlen(NAME_MARK);
    uint64_t *const numbers[] = {&maker->pid_namespace, &maker->pid, &maker->start_time};
    for (size_t i = 0; i < KVC_COUNT_OF(numbers); i++) {
        if (!read_digits(&at, numbers[i]) || *at++ != '-')
            return false;
    }
    uint64_t counter;
    return read_digits(&at, &counter) && *at == '\0';
}

/* With leading slash, into segment->name. */
static kvc_status copy_name(struct kvc_segment *segment, const char *name, struct kvc_error *err)
{
    const char *bare = name[0] == '/' ? name + 1 : name;
    const char *fault = NULL;
    if (bare[0] == '\0')
        fault = "is empty";
    else if (strchr(bare, '/') != NULL)
        fault = "has a slash in it";
    else if (strlen(bare) + 2 > sizeof(segment->name))
        fault = "is too long";
    if (fault != NULL) {
        struct kvc_buffer shown = {0};
        kvc_text_escape((struct kvc_str){name, strnlen(name, 200)}, &shown);
        kvc_fail(err, KVC_EFORMAT, "the name of a shared-memory segment %s", fault);
        kvc_error_set_expected(err, "at most %zu characters, none of them a slash",
                               sizeof(segment->name) - 2);
        kvc_error_set_got(err, "\"%s\"", kvc_buffer_text(&shown));
        kvc_buffer_clear(&shown);
        return KVC_EFORMAT;
    }
    snprintf(segment->name, sizeof(segment->name), "/%s", bare);
    return KVC_OK;
}

/* ---- create, open, close ---- */

/* A tmpfs without a limit reports no blocks at all. */
static uint64_t room_of(const struct statvfs *system)
{
    return system->f_blocks == 0 ? UINT64_MAX : (uint64_t)system->f_bavail * system->f_frsize;
}

uint64_t kvc_segment_room(void)
{
    struct statvfs system;
    return statvfs(SEGMENT_FOLDER, &system) == 0 ? room_of(&system) : 0;
}

/* A page that the file system has no room for kills the process that touches it. */
static kvc_status check_room(int file, const char *name, size_t size, struct kvc_error *err)
{
    struct statvfs system;
    if (fstatvfs(file, &system) != 0)
        return kvc_fail_errno(err, "cannot see how much room there is for %s", name);
    const uint64_t room = room_of(&system);
    if (size <= room)
        return KVC_OK;
    return kvc_fail(err, KVC_ESYSTEM,
                    "no room for segment %s: %zu bytes wanted, %" PRIu64 " free in " SEGMENT_FOLDER,
                    name, size, room);
}

static kvc_status map(int file, size_t size, struct kvc_segment *segment, struct kvc_error *err)
{
    void *data = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (data == MAP_FAILED)
        return kvc_fail_errno(err, "cannot map %zu bytes of segment %s", size, segment->name);
    segment->data = data;
    segment->size = size;
    return KVC_OK;
}

/* Others may take the same room before it is used, and whoever touches a page that has none gets
 * SIGBUS, which looks as if somebody had cut the segment off. What is large is not reserved: most of a
 * pool may never be used. */
static kvc_status reserve(int file, size_t size, const struct kvc_segment *segment,
                          struct kvc_error *err)
{
    enum { MAX_RESERVED = 64 << 20 };
    if (size == 0 || size > MAX_RESERVED)
        return KVC_OK;
    while (fallocate(file, 0, 0, (off_t)size) != 0) {
        if (errno == EOPNOTSUPP)
            return KVC_OK;
        if (errno != EINTR)
            return kvc_fail_errno(err, "no room for segment %s of %zu bytes in " SEGMENT_FOLDER,
                                  segment->name, size);
    }
    return KVC_OK;
}

static kvc_status fill_new(int file, size_t size, struct kvc_segment *segment,
                           struct kvc_error *err)
{
    KVC_GUARD(check_room(file, segment->name, size, err));
    if (size > (size_t)INT64_MAX || ftruncate(file, (off_t)size) != 0)
        return kvc_fail_errno(err, "cannot make segment %s %zu bytes long", segment->name, size);
    KVC_GUARD(reserve(file, size, segment, err));
    return map(file, size, segment, err);
}

kvc_status kvc_segment_create(const char *name, size_t size, struct kvc_segment *segment,
                              struct kvc_error *err)
{
    struct kvc_segment made = {.owned = true, .owner_pid = (int32_t)getpid()};
    KVC_GUARD(copy_name(&made, name, err));
    const int file = shm_open(made.name, O_CREAT | O_EXCL | O_RDWR, 0600);
    if (file < 0)
        return kvc_fail_errno(err, "cannot create segment %s", made.name);
    const kvc_status status = fill_new(file, size, &made, err);
    close(file);
    if (status != KVC_OK) {
        shm_unlink(made.name);
        return status;
    }
    *segment = made;
    return KVC_OK;
}

static kvc_status check_length(int file, size_t size, const char *name, struct kvc_error *err)
{
    struct stat info;
    if (fstat(file, &info) != 0)
        return kvc_fail_errno(err, "cannot see how long segment %s is", name);
    if (!S_ISREG(info.st_mode))
        return kvc_fail(err, KVC_EFORMAT, "%s is not a shared-memory segment", name);
    if (size == 0 || (uint64_t)info.st_size < size) {
        kvc_fail(err, KVC_EFORMAT, "segment %s is shorter than it is said to be", name);
        kvc_error_set_expected(err, "%zu bytes", size);
        kvc_error_set_got(err, "%lld bytes", (long long)info.st_size);
        return KVC_EFORMAT;
    }
    return KVC_OK;
}

kvc_status kvc_segment_open(const char *name, size_t size, struct kvc_segment *segment,
                            struct kvc_error *err)
{
    struct kvc_segment opened = {.owned = false};
    KVC_GUARD(copy_name(&opened, name, err));
    const int file = shm_open(opened.name, O_RDWR, 0);
    if (file < 0 && errno == ENOENT)
        return kvc_fail(err, KVC_EFORMAT, "there is no segment %s", opened.name);
    if (file < 0)
        return kvc_fail_errno(err, "cannot open segment %s", opened.name);
    kvc_status status = check_length(file, size, opened.name, err);
    if (status == KVC_OK)
        status = map(file, size, &opened, err);
    close(file);
    if (status == KVC_OK)
        *segment = opened;
    return status;
}

/* Part of a segment, as many pages as states has. */
static void map_part_ahead(uint8_t *data, size_t size, size_t page, unsigned char *states)
{
    if (mincore(data, size, states) != 0)
        return;
    const size_t count = (size + page - 1) / page;
    for (size_t first = 0, end; first < count; first = end + 1) {
        for (end = first; end < count && (states[end] & 1) != 0; end++) {
        }
        /* A system that does not know this, or a segment that has been cut off: nothing is lost. */
        if (end > first)
            madvise(data + first * page, (end - first) * page, MADV_POPULATE_READ);
    }
}

void kvc_segment_map_ahead(const struct kvc_segment *segment)
{
    enum { PART_PAGES = 1 << 14 };
    unsigned char states[PART_PAGES];
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t part = PART_PAGES * page;
    for (size_t at = 0; at < segment->size; at += part)
        map_part_ahead(segment->data + at, segment->size - at < part ? segment->size - at : part,
                       page, states);
}

void kvc_segment_unlink(struct kvc_segment *segment)
{
    if (segment->owned && segment->owner_pid == (int32_t)getpid())
        shm_unlink(segment->name);
    segment->owned = false;
}

void kvc_segment_close(struct kvc_segment *segment)
{
    kvc_segment_unlink(segment);
    if (segment->data != NULL)
        munmap(segment->data, segment->size);
    *segment = (struct kvc_segment){.owned = false};
}

/* ---- sweeping ---- */

static bool is_gone(const struct maker *maker)
{
    uint64_t start_time;
    return !read_start_time(maker->pid, &start_time) || start_time != maker->start_time;
}

static bool is_to_be_swept(const char *name, int32_t pid)
{
    struct maker maker;
    if (!read_maker(name, &maker) || maker.pid_namespace != read_pid_namespace())
        return false;
    return pid == 0 ? is_gone(&maker) : maker.pid == (uint64_t)pid;
}

/* pid 0: every process that is gone. */
static size_t sweep(int32_t pid)
{
    DIR *folder = opendir(SEGMENT_FOLDER);
    if (folder == NULL)
        return 0;
    size_t removed = 0;
    for (struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        if (is_to_be_swept(entry->d_name, pid) && unlinkat(dirfd(folder), entry->d_name, 0) == 0)
            removed++;
    }
    closedir(folder);
    return removed;
}

size_t kvc_segment_sweep(void)
{
    return sweep(0);
}

size_t kvc_segment_sweep_pid(int32_t pid)
{
    return pid > 0 ? sweep(pid) : 0;
}
