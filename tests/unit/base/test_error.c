#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "src/base/error.h"

Test(error, fail_fills_what_and_clears_the_rest)
{
    struct kvc_error err = KVC_ERROR_INIT;
    kvc_fail(&err, KVC_EFORMAT, "first");
    kvc_error_set_where(&err, "there");
    kvc_error_set_expected(&err, "%d", 1);
    kvc_error_set_got(&err, "%d", 2);
    const kvc_status status = kvc_fail(&err, KVC_ETIMEOUT, "no reply in %d ms", 250);
    cr_assert_eq(status, KVC_ETIMEOUT);
    cr_assert_eq(err.status, KVC_ETIMEOUT);
    cr_assert_str_eq(err.what, "no reply in 250 ms");
    cr_assert_str_eq(err.where, "");
    cr_assert_str_eq(err.expected, "");
    cr_assert_str_eq(err.got, "");
}

Test(error, setters_return_the_status)
{
    struct kvc_error err = KVC_ERROR_INIT;
    kvc_fail(&err, KVC_EMISMATCH, "differs");
    cr_assert_eq(kvc_error_set_where(&err, "byte 3"), KVC_EMISMATCH);
    cr_assert_eq(kvc_error_set_expected(&err, "1"), KVC_EMISMATCH);
    cr_assert_eq(kvc_error_set_got(&err, "2"), KVC_EMISMATCH);
}

Test(error, nobody_needs_the_details)
{
    cr_assert_eq(kvc_fail(NULL, KVC_EUSAGE, "unseen"), KVC_EUSAGE);
    cr_assert_eq(kvc_error_set_where(NULL, "unseen"), KVC_EUSAGE);
    cr_assert_eq(kvc_fail_errno(NULL, "unseen"), KVC_ESYSTEM);
    cr_assert_eq(kvc_error_set_got(NULL, "unseen"), KVC_ESYSTEM);
    kvc_error_prepend_where(NULL, "unseen");
}

Test(error, errno_is_named)
{
    struct kvc_error err = KVC_ERROR_INIT;
    errno = ENOENT;
    cr_assert_eq(kvc_fail_errno(&err, "cannot open %s", "x"), KVC_ESYSTEM);
    cr_assert_str_eq(err.what, "cannot open x: No such file or directory");
}

Test(error, where_grows_at_the_front)
{
    struct kvc_error err = KVC_ERROR_INIT;
    kvc_fail(&err, KVC_EFORMAT, "wrong type");
    kvc_error_prepend_where(&err, "[%d]", 3);
    kvc_error_prepend_where(&err, ".token_ids");
    kvc_error_prepend_where(&err, "payload 0");
    cr_assert_str_eq(err.where, "payload 0.token_ids[3]");
}

Test(error, long_texts_are_cut)
{
    char text[2000];
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    struct kvc_error err = KVC_ERROR_INIT;
    kvc_fail(&err, KVC_EFORMAT, "%s", text);
    kvc_error_set_where(&err, "%s", text);
    kvc_error_prepend_where(&err, "%s", text);
    kvc_error_set_expected(&err, "%s", text);
    kvc_error_set_got(&err, "%s", text);
    cr_assert_eq(strlen(err.what), sizeof(err.what) - 1);
    cr_assert_eq(strlen(err.where), sizeof(err.where) - 1);
    cr_assert_eq(strlen(err.expected), sizeof(err.expected) - 1);
    cr_assert_eq(strlen(err.got), sizeof(err.got) - 1);
}

Test(error, line_names_everything_there_is)
{
    char line[128];
    struct kvc_error err = KVC_ERROR_INIT;
    kvc_fail(&err, KVC_EFORMAT, "wrong type");
    kvc_error_line(&err, line, sizeof(line));
    cr_assert_str_eq(line, "wrong type");
    kvc_error_set_where(&err, "result");
    kvc_error_set_expected(&err, "int");
    kvc_error_set_got(&err, "str");
    kvc_error_line(&err, line, sizeof(line));
    cr_assert_str_eq(line, "result: wrong type; expected int; got str");
}

Test(error, line_fits_any_size)
{
    struct kvc_error err = KVC_ERROR_INIT;
    kvc_fail(&err, KVC_EFORMAT, "wrong type");
    kvc_error_set_where(&err, "result");
    kvc_error_set_expected(&err, "int");
    kvc_error_set_got(&err, "str");
    const char whole[] = "result: wrong type; expected int; got str";
    for (size_t size = 0; size <= sizeof(whole); size++) {
        char line[sizeof(whole) + 1];
        memset(line, '#', sizeof(line));
        kvc_error_line(&err, line, size);
        cr_assert_eq(line[size], '#', "size %zu", size);
        if (size > 0) {
            cr_assert_lt(strlen(line), size);
            cr_assert_eq(strncmp(line, whole, strlen(line)), 0, "size %zu", size);
        }
    }
}

Test(error, statuses_have_names)
{
    cr_assert_str_eq(kvc_status_name(KVC_OK), "ok");
    cr_assert_str_eq(kvc_status_name(KVC_EUSAGE), "usage");
    cr_assert_str_eq(kvc_status_name(KVC_EINTERRUPTED), "interrupted");
    cr_assert_str_eq(kvc_status_name((kvc_status)99), "unknown");
}

Test(error, more_is_put_behind_what_is_said)
{
    struct kvc_error err = KVC_ERROR_INIT;
    kvc_fail(&err, KVC_ECONNECT, "cannot reach %s", "x");
    kvc_error_append(&err, "; is there %s?", "one");
    cr_assert_str_eq(err.what, "cannot reach x; is there one?");
    cr_assert_eq(err.status, KVC_ECONNECT);
    for (size_t i = 0; i < sizeof(err.what); i++)
        kvc_error_append(&err, "more");
    cr_assert_lt(strlen(err.what), sizeof(err.what));
    kvc_error_append(NULL, "nobody asks");
}
