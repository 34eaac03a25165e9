/* The one error idiom: functions return a status, the details travel in one object.
 * For every part of kvconform. */
#ifndef KVC_BASE_ERROR_H
#define KVC_BASE_ERROR_H

#include <stdarg.h>
#include <stdbool.h>

enum kvc_status {
    KVC_OK = 0,
    KVC_EUSAGE,       /* the user's flag, file or value */
    KVC_EFORMAT,      /* a peer's bytes, or a file's, do not read as what they should be */
    KVC_ETIMEOUT,     /* nothing came within the limit */
    KVC_ECONNECT,     /* the peer cannot be reached */
    KVC_ELOST,        /* the peer was there and is gone */
    KVC_EREFUSED,     /* the peer answered, and said no */
    KVC_EUNSUPPORTED, /* not possible in this dialect, build or machine */
    KVC_EMISMATCH,    /* data differ from what they must be */
    KVC_ENOMEM,
    KVC_ESYSTEM, /* a system call failed */
    KVC_EINTERRUPTED,
};

typedef enum kvc_status kvc_status;

/* What went wrong. Every text is NUL-terminated, cut if too long, never NULL. */
struct kvc_error {
    kvc_status status;
    char what[512];     /* one sentence for a person, without a final full stop */
    char where[192];    /* the place: a field path, a file and line, a flag; "" if it has none */
    char expected[256]; /* "" if it makes no sense here */
    char got[256];
};

#define KVC_ERROR_INIT                                                                             \
    {                                                                                              \
        .status = KVC_OK                                                                           \
    }

/* Fills *err (which may be NULL) and returns status, so that a caller can write
 * `return kvc_fail(err, KVC_EFORMAT, "…")`. Clears where, expected and got. */
kvc_status kvc_fail(struct kvc_error *err, kvc_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Like kvc_fail for KVC_ESYSTEM: appends the text of errno. */
kvc_status kvc_fail_errno(struct kvc_error *err, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Add details to an error just filled in. All return its status, also when err is NULL. */
kvc_status kvc_error_set_where(struct kvc_error *err, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
kvc_status kvc_error_set_expected(struct kvc_error *err, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
kvc_status kvc_error_set_got(struct kvc_error *err, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Puts "prefix" before err->where, joined without a separator: "args[0]" + ".token_ids". */
void kvc_error_prepend_where(struct kvc_error *err, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Puts more behind err->what: "cannot reach x" + "; is there …?". */
void kvc_error_append(struct kvc_error *err, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Writes the whole error as one line into out (always NUL-terminated). */
void kvc_error_line(const struct kvc_error *err, char *out, unsigned long out_size);

/* The name of a status, for logs and JSON: "ok", "usage", "format", "timeout", … */
const char *kvc_status_name(kvc_status status);

/* Returns from the calling function with the status of a failed call. */
#define KVC_GUARD(call)                                                                            \
    do {                                                                                           \
        const kvc_status kvc_guard_status_ = (call);                                               \
        if (kvc_guard_status_ != KVC_OK)                                                           \
            return kvc_guard_status_;                                                              \
    } while (0)

/* Jumps to a cleanup label with the status in `status`, which the caller declares. */
#define KVC_GUARD_GOTO(call, label)                                                                \
    do {                                                                                           \
        status = (call);                                                                           \
        if (status != KVC_OK)                                                                      \
            goto label;                                                                            \
    } while (0)

#endif
