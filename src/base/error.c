#include "src/base/error.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* So that `return kvc_error_set_where(err, …)` is right when err is NULL, too. */
static _Thread_local kvc_status last_status = KVC_OK;

static void write_text(char *out, size_t out_size, const char *format, va_list args)
{
    const int written = vsnprintf(out, out_size, format, args);
    if (written < 0)
        out[0] = '\0';
}

kvc_status kvc_fail(struct kvc_error *err, kvc_status status, const char *format, ...)
{
    last_status = status;
    if (err == NULL)
        return status;
    err->status = status;
    err->where[0] = err->expected[0] = err->got[0] = '\0';
    va_list args;
    va_start(args, format);
    write_text(err->what, sizeof(err->what), format, args);
    va_end(args);
    return status;
}

kvc_status kvc_fail_errno(struct kvc_error *err, const char *format, ...)
{
    const int code = errno;
    if (err == NULL)
        return kvc_fail(err, KVC_ESYSTEM, "%s", "");
    char text[400];
    va_list args;
    va_start(args, format);
    write_text(text, sizeof(text), format, args);
    va_end(args);
    return kvc_fail(err, KVC_ESYSTEM, "%s: %s", text, strerror(code));
}

/* The three setters differ only in the member they write. */
#define DEFINE_SETTER(member)                                                                      \
    kvc_status kvc_error_set_##member(struct kvc_error *err, const char *format, ...)              \
    {                                                                                              \
        if (err == NULL)                                                                           \
            return last_status;                                                                    \
        va_list args;                                                                              \
        va_start(args, format);                                                                    \
        write_text(err->member, sizeof(err->member), format, args);                                \
        va_end(args);                                                                              \
        return err->status;                                                                        \
    }

DEFINE_SETTER(where)
DEFINE_SETTER(expected)
DEFINE_SETTER(got)

void kvc_error_prepend_where(struct kvc_error *err, const char *format, ...)
{
    if (err == NULL)
        return;
    char joined[sizeof(err->where)];
    va_list args;
    va_start(args, format);
    write_text(joined, sizeof(joined), format, args);
    va_end(args);
    const size_t used = strlen(joined);
    snprintf(joined + used, sizeof(joined) - used, "%s", err->where);
    memcpy(err->where, joined, sizeof(joined));
}

void kvc_error_append(struct kvc_error *err, const char *format, ...)
{
    if (err == NULL)
        return;
    const size_t used = strlen(err->what);
    va_list args;
    va_start(args, format);
    write_text(err->what + used, sizeof(err->what) - used, format, args);
    va_end(args);
}

void kvc_error_line(const struct kvc_error *err, char *out, unsigned long out_size)
{
    if (out_size == 0)
        return;
    int used =
        snprintf(out, out_size, "%s%s%s", err->where, err->where[0] != '\0' ? ": " : "", err->what);
    if (used < 0 || (size_t)used >= out_size)
        return;
    if (err->expected[0] != '\0')
        used += snprintf(out + used, out_size - (size_t)used, "; expected %s", err->expected);
    if ((size_t)used < out_size && err->got[0] != '\0')
        snprintf(out + used, out_size - (size_t)used, "; got %s", err->got);
}

const char *kvc_status_name(kvc_status status)
{
    static const char *const names[] = {
        [KVC_OK] = "ok",
        [KVC_EUSAGE] = "usage",
        [KVC_EFORMAT] = "format",
        [KVC_ETIMEOUT] = "timeout",
        [KVC_ECONNECT] = "connect",
        [KVC_ELOST] = "lost",
        [KVC_EREFUSED] = "refused",
        [KVC_EUNSUPPORTED] = "unsupported",
        [KVC_EMISMATCH] = "mismatch",
        [KVC_ENOMEM] = "memory",
        [KVC_ESYSTEM] = "system",
        [KVC_EINTERRUPTED] = "interrupted",
    };
    return (size_t)status < sizeof(names) / sizeof(names[0]) ? names[status] : "unknown";
}
