#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/kv/segment.h"

static struct kvc_segment fresh(size_t size)
{
    struct kvc_segment segment;
    struct kvc_error err = KVC_ERROR_INIT;
    char name[96];
    kvc_segment_name("unit_", name, sizeof(name));
    cr_assert_eq(kvc_segment_create(name, size, &segment, &err), KVC_OK, "%s", err.what);
    return segment;
}

static bool exists(const char *name)
{
    const int file = shm_open(name, O_RDONLY, 0);
    if (file >= 0)
        close(file);
    return file >= 0;
}

Test(segment, has_its_room_before_it_is_used)
{
    char path[128];
    struct stat info;
    struct kvc_segment segment = fresh(1 << 20);
    snprintf(path, sizeof(path), "/dev/shm%s", segment.name);
    cr_assert_eq(stat(path, &info), 0);
    cr_assert_geq(info.st_blocks * 512, 1 << 20);
    kvc_segment_close(&segment);
}

Test(segment, is_zeroed_private_and_gone_when_closed)
{
    struct kvc_segment segment = fresh(10000);
    char name[sizeof(segment.name)];
    memcpy(name, segment.name, sizeof(name));
    cr_assert_eq(segment.size, 10000);
    for (size_t i = 0; i < segment.size; i++)
        cr_assert_eq(segment.data[i], 0);
    struct stat info;
    const int file = shm_open(name, O_RDONLY, 0);
    cr_assert_eq(fstat(file, &info), 0);
    close(file);
    cr_assert_eq(info.st_mode & 0777, 0600);
    cr_assert_eq(info.st_size, 10000);
    kvc_segment_close(&segment);
    cr_assert(!exists(name));
    kvc_segment_close(&segment);
    struct kvc_segment zeroed = {0};
    kvc_segment_close(&zeroed);
}

static int64_t blocks_of(const struct kvc_segment *segment)
{
    char path[128];
    struct stat info;
    snprintf(path, sizeof(path), "/dev/shm%s", segment->name);
    cr_assert_eq(stat(path, &info), 0);
    return info.st_blocks;
}

/* How many faults it costs to write a byte to each page. */
static long faults_of_writing(uint8_t *data, size_t size)
{
    struct rusage before, after;
    getrusage(RUSAGE_THREAD, &before);
    for (size_t i = 0; i < size; i += 4096)
        data[i] = 1;
    getrusage(RUSAGE_THREAD, &after);
    return after.ru_minflt - before.ru_minflt;
}

/* Large enough not to be reserved: a part of it exists when it is mapped for the second time. */
Test(segment, is_mapped_ahead_where_it_exists)
{
    enum { SIZE = 96 << 20, USED = 8 << 20 };
    struct kvc_segment made = fresh(SIZE), opened = {0};
    memset(made.data + USED, 1, USED);
    const int64_t blocks = blocks_of(&made);
    cr_assert_eq(kvc_segment_open(made.name, SIZE, &opened, NULL), KVC_OK);
    kvc_segment_map_ahead(&opened);
    cr_assert_eq(blocks_of(&made), blocks);
    /* Without, there is one for each page; a sanitizer has some of its own. */
    cr_assert_lt(faults_of_writing(opened.data + USED, USED), USED / 4096 / 4);
    cr_assert_geq(faults_of_writing(opened.data, USED), USED / (2 << 20));
    cr_assert_gt(blocks_of(&made), blocks);
    kvc_segment_close(&opened);
    kvc_segment_close(&made);
}

Test(segment, is_shared_by_name_with_and_without_slash)
{
    struct kvc_segment made = fresh(4096), with, without;
    cr_assert_eq(kvc_segment_open(made.name, 4096, &with, NULL), KVC_OK);
    cr_assert_eq(kvc_segment_open(made.name + 1, 100, &without, NULL), KVC_OK);
    made.data[99] = 7;
    cr_assert_eq(with.data[99], 7);
    cr_assert_eq(without.data[99], 7);
    /* Who only opened it does not remove it. */
    kvc_segment_close(&with);
    kvc_segment_close(&without);
    cr_assert(exists(made.name));
    kvc_segment_close(&made);
}

Test(segment, keeps_its_mapping_when_unlinked)
{
    struct kvc_segment segment = fresh(4096);
    kvc_segment_unlink(&segment);
    cr_assert(!exists(segment.name));
    segment.data[0] = 1;
    kvc_segment_close(&segment);
}

Test(segment, is_refused_when_it_exists)
{
    struct kvc_segment segment = fresh(4096), second;
    struct kvc_error err = KVC_ERROR_INIT;
    cr_assert_eq(kvc_segment_create(segment.name, 4096, &second, &err), KVC_ESYSTEM);
    cr_assert_not_null(strstr(err.what, segment.name), "%s", err.what);
    cr_assert(exists(segment.name));
    kvc_segment_close(&segment);
}

Test(segment, is_refused_and_gone_when_it_does_not_fit)
{
    struct kvc_segment segment;
    struct kvc_error err = KVC_ERROR_INIT;
    char name[96];
    kvc_segment_name("unit_", name, sizeof(name));
    cr_assert_eq(kvc_segment_create(name, (size_t)1 << 50, &segment, &err), KVC_ESYSTEM);
    cr_assert_not_null(strstr(err.what, "no room"), "%s", err.what);
    cr_assert(!exists(name));
    cr_assert_eq(kvc_segment_create(name, 0, &segment, &err), KVC_ESYSTEM);
    cr_assert(!exists(name));
}

/* What a server may say its pool is called. */
Test(segment, takes_no_name_with_a_slash_or_none)
{
    char too_long[200];
    memset(too_long, 'x', sizeof(too_long) - 1);
    too_long[sizeof(too_long) - 1] = '\0';
    const char *const names[] = {"", "/", "//x", "../etc/passwd", "/a/b", "a/", too_long};
    for (size_t i = 0; i < KVC_COUNT_OF(names); i++) {
        struct kvc_segment segment = {0};
        struct kvc_error err = KVC_ERROR_INIT;
        cr_assert_eq(kvc_segment_open(names[i], 1, &segment, &err), KVC_EFORMAT, "%s", names[i]);
        cr_assert_null(segment.data);
    }
    struct kvc_segment segment;
    struct kvc_error err = KVC_ERROR_INIT;
    cr_assert_eq(kvc_segment_open("unit_kvconform_no_such_segment", 1, &segment, &err), KVC_EFORMAT,
                 "who named it is wrong, nothing of ours");
    cr_assert_str_eq(err.what, "there is no segment /unit_kvconform_no_such_segment");
}

Test(segment, must_be_as_long_as_it_is_said_to_be)
{
    struct kvc_segment made = fresh(5000), opened;
    struct kvc_error err = KVC_ERROR_INIT;
    cr_assert_eq(kvc_segment_open(made.name, 5001, &opened, &err), KVC_EFORMAT);
    cr_assert_str_eq(err.expected, "5001 bytes");
    cr_assert_str_eq(err.got, "5000 bytes");
    cr_assert_eq(kvc_segment_open(made.name, SIZE_MAX, &opened, &err), KVC_EFORMAT);
    cr_assert_eq(kvc_segment_open(made.name, 0, &opened, &err), KVC_EFORMAT);
    kvc_segment_close(&made);
}

Test(segment, is_not_removed_by_a_forked_child)
{
    struct kvc_segment segment = fresh(4096);
    const pid_t child = fork();
    if (child == 0) {
        kvc_segment_close(&segment);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    cr_assert(exists(segment.name));
    kvc_segment_close(&segment);
}

/* A child makes a segment, tells its name, and waits to be killed. */
static pid_t start_owner(char name[96])
{
    int ends[2];
    cr_assert_eq(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
        struct kvc_segment segment;
        kvc_segment_name("lmcache_l1_pool_", name, 96);
        if (kvc_segment_create(name, 4096, &segment, NULL) != KVC_OK ||
            write(ends[1], name, 96) != 96)
            _exit(1);
        for (;;)
            pause();
    }
    cr_assert_eq(read(ends[0], name, 96), 96);
    close(ends[0]);
    close(ends[1]);
    return child;
}

Test(sweep, removes_what_a_killed_process_left)
{
    char name[96];
    struct kvc_segment own = fresh(4096);
    const pid_t child = start_owner(name);
    kvc_segment_sweep();
    cr_assert(exists(name), "the segment of a living process was removed");
    kill(child, SIGKILL);
    siginfo_t info;
    waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT);
    /* Killed, and not even waited for. Another program's sweep may be quicker than this one. */
    kvc_segment_sweep();
    cr_assert(!exists(name));
    cr_assert(exists(own.name), "the sweeper's own segment was removed");
    waitpid(child, NULL, 0);
    kvc_segment_close(&own);
}

Test(sweep, removes_one_process_s)
{
    char first[96], second[96];
    const pid_t one = start_owner(first), two = start_owner(second);
    cr_assert_eq(kvc_segment_sweep_pid(one), 1);
    cr_assert(!exists(first));
    cr_assert(exists(second));
    cr_assert_eq(kvc_segment_sweep_pid(two), 1);
    cr_assert_eq(kvc_segment_sweep_pid(0), 0);
    kill(one, SIGKILL);
    kill(two, SIGKILL);
    waitpid(one, NULL, 0);
    waitpid(two, NULL, 0);
}

/* A name like the sweeper's own, with some of its four numbers replaced, and a segment of it. */
static void make_like_own(const char *const numbers[4], char name[160])
{
    char own[96];
    kvc_segment_name("unit_", own, sizeof(own));
    char *rest = strstr(own, "kvconform-") + strlen("kvconform-");
    int size = snprintf(name, 160, "%.*s", (int)(rest - own), own);
    for (size_t i = 0; i < 4; i++) {
        const char *number = strsep(&rest, "-");
        size += snprintf(name + size, 160 - (size_t)size, "%s%s", i == 0 ? "" : "-",
                         numbers[i] != NULL ? numbers[i] : number);
    }
    const int file = shm_open(name, O_CREAT | O_EXCL | O_RDWR, 0600);
    cr_assert_geq(file, 0);
    close(file);
}

#define NO_PID "4194304999"

Test(sweep, judges_by_namespace_pid_and_start_time)
{
    static const struct {
        const char *numbers[4];
        bool goes;
    } cases[] = {
        {{NULL, NULL, NULL, NULL}, false},
        {{NULL, NO_PID, NULL, NULL}, true},  /* no such process */
        {{NULL, NULL, "1", NULL}, true},     /* the pid now belongs to a later process */
        {{"1", NO_PID, NULL, NULL}, false},  /* another pid namespace: nobody we can see */
        {{NULL, NO_PID, NULL, "0x"}, false}, /* not a name of ours */
        {{NULL, NO_PID, NULL, ""}, false},
        {{NULL, "x" NO_PID, NULL, NULL}, false},
        {{NULL, "99999999999999999999999", NULL, NULL}, false},
    };
    for (size_t i = 0; i < KVC_COUNT_OF(cases); i++) {
        char name[160];
        make_like_own(cases[i].numbers, name);
        kvc_segment_sweep();
        const bool is_there = exists(name);
        shm_unlink(name);
        cr_assert_eq(is_there, !cases[i].goes, "%s", name);
    }
}

Test(segment_name, is_another_each_time)
{
    char first[96], second[96];
    kvc_segment_name("", first, sizeof(first));
    kvc_segment_name("", second, sizeof(second));
    cr_assert_neq(strcmp(first, second), 0);
    cr_assert_eq(strncmp(first, "/kvconform-", 11), 0, "%s", first);
}
