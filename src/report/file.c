#include "src/report/file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static kvc_status cannot_write(const char *path, int code, struct kvc_error *err)
{
    return kvc_fail(err, KVC_EUSAGE, "cannot write the report '%s': %s", path, strerror(code));
}

kvc_status kvc_report_file_open(const char *path, struct kvc_report_file *file,
                                struct kvc_error *err)
{
    *file = (struct kvc_report_file){0};
    if (strcmp(path, "-") == 0) {
        file->stream = stdout;
        return KVC_OK;
    }
    struct stat there;
    if (stat(path, &there) == 0 && S_ISDIR(there.st_mode))
        return cannot_write(path, EISDIR, err);
    char *temporary = kvc_format("%s.%d.tmp", path, (int)getpid());
    file->stream = fopen(temporary, "wx");
    if (file->stream == NULL) {
        const int code = errno;
        free(temporary);
        return cannot_write(path, code, err);
    }
    file->path = kvc_strdup(path);
    file->temporary = temporary;
    return KVC_OK;
}

kvc_status kvc_report_file_commit(struct kvc_report_file *file, struct kvc_bytes text,
                                  struct kvc_error *err)
{
    const char *name = file->path != NULL ? file->path : "stdout";
    bool written =
        fwrite(text.data, 1, text.size, file->stream) == text.size && fflush(file->stream) == 0;
    if (file->path != NULL) {
        written = fclose(file->stream) == 0 && written;
        file->stream = NULL;
        written = written && rename(file->temporary, file->path) == 0;
    }
    if (!written)
        return kvc_fail_errno(err, "cannot write the report '%s'", name);
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
