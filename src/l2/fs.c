/* Objects as files of a folder: bare bytes, written under another name and moved to their own when
 * they are whole. */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "src/l2/l2.h"

struct config {
    const char *base_path;
    const char *relative_tmp_dir; /* "": beside the objects */
    int64_t read_ahead_size;      /* 0: none */
    bool use_odirect;
};

struct store {
    int folder;
    char *temporary_prefix; /* "" or "tmp/" */
    size_t read_ahead;
    int flags; /* O_DIRECT or 0 */
    atomic_ulong names_given;
};

#define FIELD(member) offsetof(struct config, member)

static const struct kvc_l2_field fields[] = {
    {.name = "base_path",
     .kind = KVC_L2_TEXT,
     .offset = FIELD(base_path),
     .required = true,
     .accepted = "the path of a folder"},
    {.name = "relative_tmp_dir",
     .kind = KVC_L2_TEXT,
     .offset = FIELD(relative_tmp_dir),
     .accepted = "the path of a folder below base_path, without \"..\""},
    {.name = "read_ahead_size",
     .kind = KVC_L2_INTEGER,
     .offset = FIELD(read_ahead_size),
     .minimum = 1,
     .accepted = "a number of bytes, at least 1"},
    {.name = "use_odirect",
     .kind = KVC_L2_BOOL,
     .offset = FIELD(use_odirect),
     .accepted = "true or false"},
};

static const struct config defaults = {.relative_tmp_dir = ""};

/* ---- opening ---- */

static kvc_status refuse_folder(const char *path, struct kvc_error *err)
{
    kvc_fail(err, KVC_EUSAGE, "cannot make or open the folder '%s': %s", path, strerror(errno));
    return kvc_error_set_where(err, "base_path");
}

static kvc_status make_folders(const char *path, struct kvc_error *err)
{
    char *partial = kvc_strdup(path);
    kvc_status status = KVC_OK;
    for (char *slash = partial + 1; status == KVC_OK; slash++) {
        slash += strcspn(slash, "/");
        const bool last = *slash == '\0';
        *slash = '\0';
        if (mkdir(partial, 0777) != 0 && errno != EEXIST)
            status = refuse_folder(partial, err);
        if (last)
            break;
        *slash = '/';
    }
    free(partial);
    return status;
}

static bool leads_out(const char *path)
{
    if (path[0] == '/')
        return true;
    for (const char *part = path; *part != '\0'; part += strspn(part, "/")) {
        const size_t length = strcspn(part, "/");
        if (length == 2 && memcmp(part, "..", 2) == 0)
            return true;
        part += length;
    }
    return false;
}

static kvc_status open_temporary_folder(struct store *store, const struct config *config,
                                        struct kvc_error *err)
{
    if (config->relative_tmp_dir[0] == '\0') {
        store->temporary_prefix = kvc_strdup("");
        return KVC_OK;
    }
    if (leads_out(config->relative_tmp_dir)) {
        kvc_fail(err, KVC_EUSAGE, "'%s' leads out of base_path", config->relative_tmp_dir);
        kvc_error_set_where(err, "relative_tmp_dir");
        return kvc_error_set_expected(err, "a folder below base_path");
    }
    if (mkdirat(store->folder, config->relative_tmp_dir, 0777) != 0 && errno != EEXIST)
        return kvc_fail_errno(err, "cannot make the folder '%s/%s'", config->base_path,
                              config->relative_tmp_dir);
    store->temporary_prefix = kvc_format("%s/", config->relative_tmp_dir);
    return KVC_OK;
}

/* Asked for O_DIRECT, nothing goes through the page cache in silence. */
static kvc_status prepare_direct(struct store *store, const struct kvc_l2_memory *memory,
                                 struct kvc_error *err)
{
    struct statvfs system;
    if (fstatvfs(store->folder, &system) != 0)
        return kvc_fail_errno(err, "cannot ask the file system for its block size");
    const size_t block = system.f_bsize == 0 ? 1 : system.f_bsize;
    if (memory->object_size % block != 0 || memory->align % block != 0) {
        kvc_fail(err, KVC_EUSAGE,
                 "objects of %zu bytes at addresses aligned to %zu cannot bypass the page cache",
                 memory->object_size, memory->align);
        kvc_error_set_where(err, "use_odirect");
        return kvc_error_set_expected(err, "both as multiples of %zu, the file system's block",
                                      block);
    }
    const int probe = openat(store->folder, ".", O_TMPFILE | O_WRONLY | O_DIRECT, 0600);
    if (probe < 0 && errno == EINVAL) {
        kvc_fail(err, KVC_EUSAGE, "this file system has no O_DIRECT");
        return kvc_error_set_where(err, "use_odirect");
    }
    if (probe >= 0)
        close(probe);
    store->flags = O_DIRECT;
    return KVC_OK;
}

static kvc_status fs_close(void *opaque, struct kvc_error *err)
{
    (void)err;
    struct store *store = opaque;
    if (store->folder >= 0)
        close(store->folder);
    free(store->temporary_prefix);
    free(store);
    return KVC_OK;
}

static kvc_status prepare(struct store *store, const struct config *config,
                          const struct kvc_l2_memory *memory, struct kvc_error *err)
{
    KVC_GUARD(make_folders(config->base_path, err));
    store->folder = open(config->base_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (store->folder < 0)
        return refuse_folder(config->base_path, err);
    KVC_GUARD(open_temporary_folder(store, config, err));
    store->read_ahead = (size_t)config->read_ahead_size;
    return config->use_odirect ? prepare_direct(store, memory, err) : KVC_OK;
}

static kvc_status fs_open(const void *config, const struct kvc_l2_memory *memory, void **opened,
                          struct kvc_error *err)
{
    struct store *store = kvc_alloc_zero(1, sizeof(*store));
    store->folder = -1;
    const kvc_status status = prepare(store, config, memory, err);
    if (status == KVC_OK)
        *opened = store;
    else
        fs_close(store, NULL);
    return status;
}

static kvc_status fs_open_lane(void *store, void **lane, struct kvc_error *err)
{
    (void)err;
    *lane = store; /* threads share the folder */
    return KVC_OK;
}

static void fs_close_lane(void *lane)
{
    (void)lane;
}

/* ---- objects ---- */

static kvc_status write_all(int file, const uint8_t *data, size_t size, struct kvc_error *err)
{
    for (size_t done = 0; done < size;) {
        const ssize_t written = write(file, data + done, size - done);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return kvc_fail_errno(err, "cannot write byte %zu of %zu", done, size);
        done += (size_t)written;
    }
    return KVC_OK;
}

static kvc_status write_file(const struct store *store, const char *temporary, const char *name,
                             const struct kvc_l2_item *item, struct kvc_error *err)
{
    const int file = openat(store->folder, temporary,
                            O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | store->flags, 0644);
    if (file < 0)
        return kvc_fail_errno(err, "cannot make the file '%s'", temporary);
    kvc_status status = write_all(file, item->data, item->size, err);
    if (close(file) != 0 && status == KVC_OK)
        status = kvc_fail_errno(err, "cannot write the file '%s'", temporary);
    if (status == KVC_OK && renameat(store->folder, temporary, store->folder, name) != 0)
        status = kvc_fail_errno(err, "cannot move '%s' to '%s'", temporary, name);
    if (status != KVC_OK)
        unlinkat(store->folder, temporary, 0);
    return status;
}

static kvc_status fs_store(void *lane, struct kvc_l2_item *item, struct kvc_error *err)
{
    struct store *store = lane;
    struct kvc_buffer name = {0};
    kvc_status status = kvc_l2_key_append_file_name(&item->key, &name, err);
    if (status == KVC_OK) {
        /* Its length must not depend on the object's name, which may have the most there is. */
        char *temporary = kvc_format("%skvconform-%d-%lu.tmp", store->temporary_prefix,
                                     (int)getpid(), atomic_fetch_add(&store->names_given, 1));
        status = write_file(store, temporary, kvc_buffer_text(&name), item, err);
        free(temporary);
    }
    if (status == KVC_OK)
        item->outcome = KVC_L2_DONE;
    kvc_buffer_clear(&name);
    return status;
}

static kvc_status fs_lookup(void *lane, struct kvc_l2_item *item, struct kvc_error *err)
{
    const struct store *store = lane;
    struct kvc_buffer name = {0};
    kvc_status status = kvc_l2_key_append_file_name(&item->key, &name, err);
    if (status == KVC_OK) {
        if (faccessat(store->folder, kvc_buffer_text(&name), F_OK, 0) == 0)
            item->outcome = KVC_L2_DONE;
        else if (errno == ENOENT)
            item->outcome = KVC_L2_ABSENT;
        else
            status = kvc_fail_errno(err, "cannot look for '%s'", kvc_buffer_text(&name));
    }
    kvc_buffer_clear(&name);
    return status;
}

static kvc_status read_part(int file, uint8_t *data, size_t size, size_t *done,
                            struct kvc_error *err)
{
    while (*done < size) {
        const ssize_t got = read(file, data + *done, size - *done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return kvc_fail_errno(err, "cannot read byte %zu", *done);
        if (got == 0)
            return kvc_fail(err, KVC_EFORMAT, "the file ends at byte %zu of %zu", *done, size);
        *done += (size_t)got;
    }
    return KVC_OK;
}

static kvc_status read_file(const struct store *store, int file, struct kvc_l2_item *item,
                            struct kvc_error *err)
{
    struct stat there;
    size_t done = 0;
    if (fstat(file, &there) != 0)
        return kvc_fail_errno(err, "cannot ask for its size");
    if (there.st_size != (off_t)item->size)
        return kvc_fail(err, KVC_EFORMAT, "it has %lld bytes, not %zu", (long long)there.st_size,
                        item->size);
    if (store->read_ahead > 0 && store->read_ahead < item->size)
        KVC_GUARD(read_part(file, item->data, store->read_ahead, &done, err));
    return read_part(file, item->data, item->size, &done, err);
}

static kvc_status fs_load(void *lane, struct kvc_l2_item *item, struct kvc_error *err)
{
    const struct store *store = lane;
    struct kvc_buffer name = {0};
    kvc_status status = kvc_l2_key_append_file_name(&item->key, &name, err);
    if (status == KVC_OK) {
        const char *text = kvc_buffer_text(&name);
        const int file = openat(store->folder, text, O_RDONLY | O_CLOEXEC | store->flags);
        if (file >= 0) {
            status = read_file(store, file, item, err);
            close(file);
            if (status == KVC_OK)
                item->outcome = KVC_L2_DONE;
            else
                kvc_error_set_where(err, "'%s'", text);
        } else if (errno == ENOENT) {
            item->outcome = KVC_L2_ABSENT;
        } else {
            status = kvc_fail_errno(err, "cannot open '%s'", text);
        }
    }
    kvc_buffer_clear(&name);
    return status;
}

static kvc_status fs_remove(void *lane, struct kvc_l2_item *item, struct kvc_error *err)
{
    const struct store *store = lane;
    struct kvc_buffer name = {0};
    kvc_status status = kvc_l2_key_append_file_name(&item->key, &name, err);
    if (status == KVC_OK) {
        if (unlinkat(store->folder, kvc_buffer_text(&name), 0) == 0)
            item->outcome = KVC_L2_DONE;
        else if (errno == ENOENT)
            item->outcome = KVC_L2_ABSENT;
        else
            status = kvc_fail_errno(err, "cannot remove '%s'", kvc_buffer_text(&name));
    }
    kvc_buffer_clear(&name);
    return status;
}

const struct kvc_l2_adapter kvc_l2_fs = {
    .type = "fs",
    .title = "FSL2Adapter",
    .fields = fields,
    .field_count = KVC_COUNT_OF(fields),
    .config_size = sizeof(struct config),
    .defaults = &defaults,
    .batch = 2,
    .open = fs_open,
    .open_lane = fs_open_lane,
    .operations = {fs_store, fs_lookup, fs_load, fs_remove},
    .close_lane = fs_close_lane,
    .close = fs_close,
};
