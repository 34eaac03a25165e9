#include "src/report/file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/base/clock.h"

static kvc_status cannot_write(const char *path, int code, struct kvc_error *err)
{
    return kvc_fail(err, KVC_EUSAGE, "cannot write '%s': %s", path, strerror(code));
}

/* Where a path leads that may be a link; the caller frees it. NULL and errno when it leads nowhere. */
static char *resolve(const char *path)
{
    struct stat there;
    if (path[0] == '\0') {
        errno = ENOENT;
        return NULL;
    }
    if (lstat(path, &there) == 0 && S_ISLNK(there.st_mode))
        return realpath(path, NULL);
    return kvc_strdup(path);
}

/* A name that only this process gives, so that what a killed one has left is in nobody's way, and that
 * it gives to a path only once. */
static char *temporary_name(const char *path)
{
    static int64_t started;
    if (started == 0)
        started = kvc_now_ns();
    return kvc_format("%s.%d-%lld.tmp", path, (int)getpid(), (long long)started);
}

static kvc_status open_beside(const char *path, struct kvc_report_file *file, struct kvc_error *err)
{
    char *target = resolve(path);
    if (target == NULL)
        return cannot_write(path, errno, err);
    char *temporary = temporary_name(target);
    file->stream = fopen(temporary, "wx");
    if (file->stream == NULL) {
        const int code = errno;
        free(temporary);
        free(target);
        return cannot_write(path, code, err);
    }
    file->path = target;
    file->temporary = temporary;
    return KVC_OK;
}

/* A device or a pipe is written to. A file moved to its place would take it away from everybody. */
static kvc_status open_in_place(const char *path, struct kvc_report_file *file,
                                struct kvc_error *err)
{
    file->stream = fopen(path, "w");
    if (file->stream == NULL)
        return cannot_write(path, errno, err);
    file->path = kvc_strdup(path);
    return KVC_OK;
}

/* Also for a path that leads to the same file, such as /dev/stdout. */
static bool is_stdout(const char *path)
{
    struct stat there, out;
    return strcmp(path, "-") == 0 || (stat(path, &there) == 0 && fstat(STDOUT_FILENO, &out) == 0 &&
                                      there.st_dev == out.st_dev && there.st_ino == out.st_ino);
}

kvc_status kvc_report_file_open(const char *path, struct kvc_report_file *file,
                                struct kvc_error *err)
{
    *file = (struct kvc_report_file){0};
    if (is_stdout(path)) {
        file->stream = stdout;
        return KVC_OK;
    }
    struct stat there;
    const bool exists = stat(path, &there) == 0;
    if (exists && S_ISDIR(there.st_mode))
        return cannot_write(path, EISDIR, err);
    return exists && !S_ISREG(there.st_mode) ? open_in_place(path, file, err)
                                             : open_beside(path, file, err);
}

kvc_status kvc_report_file_commit(struct kvc_report_file *file, struct kvc_bytes text,
                                  struct kvc_error *err)
{
    bool written =
        fwrite(text.data, 1, text.size, file->stream) == text.size && fflush(file->stream) == 0;
    if (file->path != NULL) {
        written = fclose(file->stream) == 0 && written;
        file->stream = NULL;
        written = written && (file->temporary == NULL || rename(file->temporary, file->path) == 0);
    }
    if (!written)
        return file->path != NULL ? kvc_fail_errno(err, "cannot write '%s'", file->path)
                                  : kvc_fail_errno(err, "cannot write to stdout");
    free(file->temporary);
    file->temporary = NULL;
    return KVC_OK;
}

void kvc_report_file_close(struct kvc_report_file *file)
{
    if (file->path != NULL && file->stream != NULL)
        fclose(file->stream);
    if (file->temporary != NULL)
        unlink(file->temporary);
    free(file->temporary);
    free(file->path);
    *file = (struct kvc_report_file){0};
}
