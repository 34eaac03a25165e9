/* The flags that say which server is meant, shared by run, bench and identify. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/cli/cli.h"
#include "src/run/nearest.h"
#include "tests/mock_server/mock.h"

#define FLAG(member) offsetof(struct kvc_target_flags, member)

static const struct kvc_option target_table[] = {
    {.name = "rpc-url",
     .kind = KVC_OPTION_TEXT,
     .offset = FLAG(rpc_url),
     .argument = "URL",
     .help = "a running server: tcp://HOST:PORT or ipc://PATH"},
    {.name = "url",
     .kind = KVC_OPTION_TEXT,
     .offset = FLAG(url),
     .argument = "URL",
     .help =
         "its HTTP address: http://HOST:PORT, where it must answer; without it, what needs HTTP "
         "is skipped"},
    {.name = "launch",
     .kind = KVC_OPTION_TEXT,
     .offset = FLAG(launch),
     .argument = "CMD",
     .help = "start the server with this shell command and stop it at the end; {rpc_port} and "
             "{http_port} in it become free ports, {l2_dir} an empty folder for files below it"},
    {.name = "setup",
     .kind = KVC_OPTION_TEXTS,
     .offset = FLAG(setups),
     .argument = "NAME=ARGUMENTS",
     .help =
         "what to add to CMD where checks need the server set up otherwise; without it they are "
         "skipped. pool: one of {pool_bytes} or {pool_gb}; no-pool; lease: locks that end after "
         "{lease_seconds}; reap: silent instances that are dropped after {reap_seconds}"},
    {.name = "launch-log",
     .kind = KVC_OPTION_TEXT,
     .offset = FLAG(launch_log),
     .argument = "FILE",
     .help =
         "where the output of a launched server goes, those of --setup to FILE.NAME (default: a "
         "temporary file, whose end is shown when the server does not start)"},
    {.name = "dialect",
     .kind = KVC_OPTION_TEXT,
     .offset = FLAG(dialect),
     .argument = "RELEASE",
     .help =
         "what the server speaks, by any release that speaks it, such as 0.5.1; auto (default): "
         "find out without changing the server's state"},
    {.name = "timeout",
     .kind = KVC_OPTION_SECONDS,
     .offset = FLAG(timeout_ms),
     .argument = "SECONDS",
     .help = "how long a call may take (default 5)"},
    {.name = "start-timeout",
     .kind = KVC_OPTION_SECONDS,
     .offset = FLAG(start_timeout_ms),
     .argument = "SECONDS",
     .help = "how long a launched server may take to start (default 90)"},
    {.name = "defect",
     .kind = KVC_OPTION_TEXTS,
     .offset = FLAG(defects),
     .argument = "NAME",
     .help = "start the bundled mock server with a defect; may be given several times; `kvconform "
             "mock --list-defects` shows them"},
};

struct kvc_option_group kvc_target_flag_group(bool or_mock, struct kvc_target_flags *flags)
{
    enum { COUNT = KVC_COUNT_OF(target_table), ABOUT_THE_MOCK = 1 };
    return or_mock
               ? (struct kvc_option_group){"Target (default: the bundled mock server, which "
                                           "speaks what --dialect says)",
                                           target_table, COUNT, flags}
               : (struct kvc_option_group){"Target", target_table, COUNT - ABOUT_THE_MOCK, flags};
}

void kvc_target_flags_clear(struct kvc_target_flags *flags)
{
    kvc_texts_clear(&flags->setups);
    kvc_texts_clear(&flags->defects);
}

kvc_status kvc_dialect_flag_resolve(const char *text, const struct kvc_dialect **dialect,
                                    struct kvc_error *err)
{
    *dialect = NULL;
    if (text == NULL || strcmp(text, "auto") == 0)
        return KVC_OK;
    *dialect = kvc_dialect_find(kvc_str_of(text));
    if (*dialect != NULL)
        return KVC_OK;
    kvc_fail(err, KVC_EUSAGE,
             "no dialect is known for '%s': give auto or a release that `kvconform "
             "list --dialects` shows",
             text);
    kvc_error_set_where(err, "--dialect");
    return KVC_EUSAGE;
}

kvc_status kvc_release_flag_resolve(const char *flag, const char *release,
                                    const struct kvc_dialect **dialect, struct kvc_error *err)
{
    *dialect = release != NULL ? kvc_dialect_find(kvc_str_of(release)) : NULL;
    if (release == NULL || *dialect != NULL)
        return KVC_OK;
    kvc_fail(err, KVC_EUSAGE,
             "no dialect is known for '%s': give a release that `kvconform list --dialects` shows",
             release);
    kvc_error_set_where(err, "%s", flag);
    return KVC_EUSAGE;
}

static bool defect_exists(const char *name)
{
    for (size_t i = 0; i < kvc_mock_defect_count; i++)
        if (strcmp(kvc_mock_defects[i].name, name) == 0)
            return true;
    return false;
}

static kvc_status unknown_defect(const char *name, struct kvc_error *err)
{
    const char **names = kvc_alloc_zero(kvc_mock_defect_count, sizeof(names[0]));
    for (size_t i = 0; i < kvc_mock_defect_count; i++)
        names[i] = kvc_mock_defects[i].name;
    struct kvc_buffer nearest = {0};
    kvc_nearest_append(name, names, kvc_mock_defect_count, &nearest);
    kvc_fail(err, KVC_EUSAGE,
             "the mock has no defect '%s'%s%s; `kvconform mock --list-defects` shows "
             "all",
             name, nearest.size > 0 ? "; nearest: " : "", kvc_buffer_text(&nearest));
    kvc_error_set_where(err, "--defect");
    kvc_buffer_clear(&nearest);
    free(names);
    return KVC_EUSAGE;
}

static kvc_status refuse_setup(const char *text, struct kvc_error *err)
{
    kvc_fail(err, KVC_EUSAGE,
             "'%s' is not accepted: give pool, no-pool, lease or reap, =, and what to add to the "
             "command, with {pool_bytes} or {pool_gb}, {lease_seconds}, {reap_seconds} in it",
             kvc_text_show(kvc_str_of(text)).text);
    kvc_error_set_where(err, "--setup");
    return KVC_EUSAGE;
}

/* What comes behind "NAME=", if it has one of the part's values: without, a server would be set up alike for every
 * check. Else NULL. */
static const char *arguments_of(const char *text, const struct kvc_setup_part_name *part)
{
    const size_t size = strlen(part->name);
    if (strncmp(text, part->name, size) != 0 || text[size] != '=')
        return NULL;
    const char *arguments = text + size + 1;
    bool has_value = part->values[0] == NULL;
    for (size_t i = 0; i < KVC_COUNT_OF(part->values) && part->values[i] != NULL; i++)
        has_value = has_value || strstr(arguments, part->values[i]) != NULL;
    return has_value ? arguments : NULL;
}

static kvc_status resolve_setups(const struct kvc_texts *setups, struct kvc_target_options *options,
                                 struct kvc_error *err)
{
    for (size_t i = 0; i < setups->count; i++) {
        const char *arguments = NULL;
        for (size_t part = 0; part < KVC_SETUP_PART_COUNT && arguments == NULL; part++) {
            arguments = arguments_of(setups->items[i], &kvc_setup_parts[part]);
            if (arguments != NULL)
                options->setup_arguments[part] = arguments;
        }
        if (arguments == NULL)
            return refuse_setup(setups->items[i], err);
    }
    return KVC_OK;
}

kvc_status kvc_target_flags_resolve(const struct kvc_target_flags *flags,
                                    struct kvc_target_options *options, struct kvc_error *err)
{
    *options = (struct kvc_target_options){
        .rpc_url = flags->rpc_url,
        .http_url = flags->url,
        .launch = flags->launch,
        .launch_log = flags->launch_log,
        .defects = flags->defects.items,
        .connect_timeout_ms = KVC_DEFAULT_CONNECT_TIMEOUT_MS,
        .start_timeout_ms =
            flags->start_timeout_ms != 0 ? flags->start_timeout_ms : KVC_DEFAULT_START_TIMEOUT_MS,
        .timeout_ms = flags->timeout_ms != 0 ? flags->timeout_ms : KVC_DEFAULT_TIMEOUT_MS,
    };
    if (flags->launch_log != NULL && flags->launch == NULL)
        return kvc_fail(err, KVC_EUSAGE, "--launch-log is for the server of --launch");
    if (flags->setups.count > 0 && flags->launch == NULL)
        return kvc_fail(err, KVC_EUSAGE, "--setup is for the server of --launch");
    KVC_GUARD(resolve_setups(&flags->setups, options, err));
    for (size_t i = 0; i < flags->defects.count; i++)
        if (!defect_exists(flags->defects.items[i]))
            return unknown_defect(flags->defects.items[i], err);
    return kvc_dialect_flag_resolve(flags->dialect, &options->dialect, err);
}

void kvc_shell_quote(const char *text, struct kvc_buffer *out)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "%+,-./:=@_";
    if (text[0] != '\0' && strspn(text, plain) == strlen(text)) {
        kvc_buffer_append_text(out, text);
        return;
    }
    kvc_buffer_append_byte(out, '\'');
    for (; *text != '\0'; text++) {
        if (*text == '\'')
            kvc_buffer_append_text(out, "'\\''");
        else
            kvc_buffer_append_byte(out, (uint8_t)*text);
    }
    kvc_buffer_append_byte(out, '\'');
}

static void append_texts(const char *flag, const struct kvc_texts *texts, struct kvc_buffer *out)
{
    for (size_t i = 0; i < texts->count; i++) {
        kvc_buffer_printf(out, " %s ", flag);
        kvc_shell_quote(texts->items[i], out);
    }
}

void kvc_target_flags_append(const struct kvc_target_flags *flags, struct kvc_buffer *out)
{
    const struct {
        const char *name, *value;
    } rows[] = {
        {"--rpc-url", flags->rpc_url},
        {"--url", flags->url},
        {"--launch", flags->launch},
        {"--dialect", flags->dialect},
    };
    for (size_t i = 0; i < KVC_COUNT_OF(rows); i++) {
        if (rows[i].value == NULL)
            continue;
        kvc_buffer_printf(out, " %s ", rows[i].name);
        kvc_shell_quote(rows[i].value, out);
    }
    append_texts("--setup", &flags->setups, out);
    append_texts("--defect", &flags->defects, out);
    if (flags->timeout_ms != 0)
        kvc_buffer_printf(out, " --timeout %g", (double)flags->timeout_ms / 1000);
}

const char *const kvc_color_choices[] = {"auto", "always", "never", NULL};

bool kvc_use_color(const char *choice, int fd)
{
    if (strcmp(choice, "auto") != 0)
        return strcmp(choice, "always") == 0;
    const char *no_color = getenv("NO_COLOR");
    return isatty(fd) && (no_color == NULL || no_color[0] == '\0');
}
