#include <criterion/criterion.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/report/file.h"
#include "src/report/report.h"
#include "src/report/text.h"

/* ---- text ---- */

static const char *clean(const char *text)
{
    static char kept[256];
    struct kvc_buffer out = {0};
    kvc_report_clean(text, &out);
    snprintf(kept, sizeof(kept), "%s", kvc_buffer_text(&out));
    kvc_buffer_clear(&out);
    return kept;
}

Test(text, clean)
{
    static const char *const rows[][2] = {
        {"plain \"text\" <&>", "plain \"text\" <&>"},
        {"line\n\ttab", "line\n\ttab"},
        {"\r\x01\x1b\x7f", "\\x0d\\x01\\x1b\\x7f"},
        {"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80", "\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"},
        {"\xff\xfe", "\\xff\\xfe"},
        {"\xc0\x80", "\\xc0\\x80"},                                     /* overlong */
        {"\xed\xa0\x80", "\\xed\\xa0\\x80"},                            /* a surrogate */
        {"\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80"},                   /* beyond U+10FFFF */
        {"\xe2\x82", "\\xe2\\x82"},                                     /* cut short */
        {"\xef\xbf\xbe\xef\xbf\xbf", "\\xef\\xbf\\xbe\\xef\\xbf\\xbf"}, /* no XML characters */
        {"\xef\xbf\xbd", "\xef\xbf\xbd"},                               /* U+FFFD is one */
        {"\xc2\x9b\xc2\xa0", "\\xc2\\x9b\xc2\xa0"}, /* C1 is not, a no-break space is */
        {"", ""},
    };
    for (size_t i = 0; i < KVC_COUNT_OF(rows); i++)
        cr_assert_str_eq(clean(rows[i][0]), rows[i][1]);
}

Test(text, one_line)
{
    struct kvc_buffer out = {0};
    kvc_report_clean_line("a\nb\tc\rd", &out);
    cr_assert_str_eq(kvc_buffer_text(&out), "a b c\\x0dd");
    kvc_buffer_clear(&out);
}

Test(text, block)
{
    struct kvc_buffer out = {0};
    kvc_report_clean_block("a\n\nb\x01", "> ", &out);
    cr_assert_str_eq(kvc_buffer_text(&out), "> a\n> \n> b\\x01\n");
    out.size = 0;
    kvc_report_clean_block("", "> ", &out);
    cr_assert_eq(out.size, 0);
    kvc_buffer_clear(&out);
}

/* ---- files ---- */

static char folder[] = "/tmp/kvconform-report-XXXXXX";
static char path[64];

static void make_folder(void)
{
    cr_assert_not_null(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/r.xml", folder);
}

static void remove_folder(void)
{
    unlink(path);
    cr_assert_eq(rmdir(folder), 0, "a file was left behind");
}

TestSuite(file, .init = make_folder, .fini = remove_folder);

static const char *read_file(const char *name)
{
    static char text[4096];
    FILE *file = fopen(name, "r");
    cr_assert_not_null(file);
    text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
    fclose(file);
    return text;
}

static struct kvc_bytes bytes_of(const char *text)
{
    return (struct kvc_bytes){(const uint8_t *)text, strlen(text)};
}

Test(file, appears_when_it_is_complete)
{
    struct kvc_report_file file;
    cr_assert_eq(kvc_report_file_open(path, &file, NULL), KVC_OK);
    cr_assert_neq(access(path, F_OK), 0);
    cr_assert_eq(kvc_report_file_commit(&file, bytes_of("all"), NULL), KVC_OK);
    kvc_report_file_close(&file);
    cr_assert_str_eq(read_file(path), "all");
}

Test(file, an_unfinished_one_leaves_the_old_one)
{
    struct kvc_report_file file;
    FILE *old = fopen(path, "w");
    fputs("old", old);
    fclose(old);
    cr_assert_eq(kvc_report_file_open(path, &file, NULL), KVC_OK);
    kvc_report_file_close(&file);
    cr_assert_str_eq(read_file(path), "old");
}

Test(file, places_that_cannot_be_written)
{
    struct kvc_report_file file;
    struct kvc_error err = KVC_ERROR_INIT;
    cr_assert_eq(kvc_report_file_open("/no/such/r.xml", &file, &err), KVC_EUSAGE);
    cr_assert_not_null(strstr(err.what, "/no/such/r.xml"));
    cr_assert_eq(kvc_report_file_open(folder, &file, &err), KVC_EUSAGE);
    cr_assert_eq(kvc_report_file_open("", &file, &err), KVC_EUSAGE);
    cr_assert_eq(symlink("r.xml", path), 0); /* to itself */
    cr_assert_eq(kvc_report_file_open(path, &file, &err), KVC_EUSAGE);
}

Test(file, nothing_takes_the_place_of_a_pipe)
{
    cr_assert_eq(mkfifo(path, 0600), 0);
    const int reader = open(path, O_RDONLY | O_NONBLOCK);
    struct kvc_report_file file;
    cr_assert_eq(kvc_report_file_open(path, &file, NULL), KVC_OK);
    cr_assert_eq(kvc_report_file_commit(&file, bytes_of("all"), NULL), KVC_OK);
    kvc_report_file_close(&file);
    char text[8] = "";
    cr_assert_eq(read(reader, text, sizeof(text) - 1), 3);
    cr_assert_str_eq(text, "all");
    close(reader);
    struct stat there;
    cr_assert_eq(lstat(path, &there), 0);
    cr_assert(S_ISFIFO(there.st_mode));
}

Test(file, a_link_stays_one)
{
    char target[80];
    snprintf(target, sizeof(target), "%s/target", folder);
    fclose(fopen(target, "w"));
    cr_assert_eq(symlink("target", path), 0);
    struct kvc_report_file file;
    cr_assert_eq(kvc_report_file_open(path, &file, NULL), KVC_OK);
    cr_assert_eq(kvc_report_file_commit(&file, bytes_of("all"), NULL), KVC_OK);
    kvc_report_file_close(&file);
    struct stat there;
    cr_assert_eq(lstat(path, &there), 0);
    cr_assert(S_ISLNK(there.st_mode));
    cr_assert_str_eq(read_file(target), "all");
    unlink(target);
}

Test(file, two_of_one_path)
{
    struct kvc_report_file first, second;
    cr_assert_eq(kvc_report_file_open(path, &first, NULL), KVC_OK);
    cr_assert_eq(kvc_report_file_open(path, &second, NULL), KVC_EUSAGE);
    kvc_report_file_close(&first);
}

Test(file, a_full_disk)
{
    struct kvc_report_file file = {.stream = fopen("/dev/full", "w"), .path = kvc_strdup(path)};
    struct kvc_error err = KVC_ERROR_INIT;
    cr_assert_eq(kvc_report_file_commit(&file, bytes_of("all"), &err), KVC_ESYSTEM);
    kvc_report_file_close(&file);
}

Test(file, reports_that_are_not_finished_leave_nothing)
{
    struct kvc_report *report = NULL;
    cr_assert_eq(kvc_report_junit(path, false, &report, NULL), KVC_OK);
    report->ops->free(report);
    cr_assert_eq(kvc_report_json(path, false, &report, NULL), KVC_OK);
    report->ops->free(report);
    cr_assert_neq(access(path, F_OK), 0);
}

/* ---- console ---- */

/* What the console prints while one check runs and passes. */
static const char *console_output(bool live, bool quiet, bool verbose)
{
    static char text[4096];
    static char *none[] = {NULL};
    static const struct kvc_check check = {.id = "a/b", .clause = "c"};
    static const struct kvc_instance instance = {.check = &check, .id = (char *)"a/b"};
    FILE *stream = tmpfile();
    const struct kvc_console_options options = {
        .stream = stream, .live = live, .quiet = quiet, .verbose = verbose, .fixed_times = true};
    const struct kvc_run_info info = {.suite_version = "1",
                                      .device = "",
                                      .target = "attach",
                                      .rpc_url = "tcp://h:1",
                                      .dialect = "0.5.6",
                                      .server_version = "",
                                      .how = "",
                                      .paths = ""};
    const struct kvc_summary summary = {.total = 1,
                                        .counts = {[KVC_OUTCOME_PASS] = 1},
                                        .stale_expectations = none,
                                        .problems = none};
    struct kvc_report *report = kvc_report_console(&options);
    struct kvc_result result;
    kvc_result_init(&result, &instance);
    report->ops->begin(report, &info, 1, NULL);
    report->ops->started(report, &instance);
    report->ops->tick(report);
    report->ops->result(report, &result);
    report->ops->finish(report, &summary, NULL);
    report->ops->free(report);
    kvc_result_clear(&result);
    rewind(stream);
    text[fread(text, 1, sizeof(text) - 1, stream)] = '\0';
    fclose(stream);
    return text;
}

Test(console, quiet_and_verbose)
{
    static const char last[] = "1 check in 0.0 s: 1 passed, 0 failed\n";
    cr_assert_str_eq(console_output(false, true, false), last);
    cr_assert_not_null(strstr(console_output(false, false, false), "1 check of tcp://h:1"));
    cr_assert_null(strstr(console_output(false, false, false), "pass a/b"));
    cr_assert_not_null(strstr(console_output(false, false, true), "pass a/b"));
}

Test(console, live_line_is_wiped)
{
    const char *text = console_output(true, false, false);
    cr_assert_not_null(strstr(text, "[0/1]"));
    const char *last = strrchr(text, '\r');
    cr_assert_not_null(last);
    cr_assert_eq(strncmp(last, "\r\033[K1 check in", 14), 0);
    cr_assert_null(strchr(console_output(false, false, false), '\r'));
}
