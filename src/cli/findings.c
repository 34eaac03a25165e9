#include "src/cli/findings.h"

#include <string.h>

#include "src/wire/message.h"

/* Prints text with every line indented. */
static void print_indented(FILE *out, const char *indent, const char *text)
{
    while (*text != '\0') {
        const size_t size = strcspn(text, "\n");
        fprintf(out, "%s%.*s\n", indent, (int)size, text);
        text += size + (text[size] == '\n');
    }
}

static void print_frames(const struct kvc_checker *checker, const struct kvc_frames *frames)
{
    struct kvc_buffer text = {0};
    kvc_frames_describe(frames, checker->dialect, false, &text);
    print_indented(checker->out, "        ", kvc_buffer_text(&text));
    kvc_buffer_clear(&text);
}

static void on_found(void *user, const struct kvc_finding *finding)
{
    const struct kvc_checker *checker = user;
    fprintf(checker->out, "%s: %s", finding->rule->name, finding->detail);
    if (finding->op != KVC_OP_NONE)
        fprintf(checker->out, " (%s, " KVC_STR_FMT ")", kvc_op_name(finding->op),
                KVC_STR_ARG(finding->client));
    fprintf(checker->out, "\n    %s: %s [%s]\n", finding->rule->wrong, finding->rule->matter,
            finding->rule->source);
    if (finding->frames != NULL)
        print_frames(checker, finding->frames);
    fflush(checker->out);
}

void kvc_checker_open(struct kvc_checker *checker, const struct kvc_dialect *dialect,
                      int64_t chunk_size, FILE *out)
{
    *checker = (struct kvc_checker){.dialect = dialect, .out = out};
    const struct kvc_watch_options options = {
        .dialect = dialect, .chunk_size = chunk_size, .found = on_found, .user = checker};
    checker->watch = kvc_watch_open(&options);
}

/* Times are the recorder's: of a file, they can be anything. */
static int64_t milliseconds(double seconds)
{
    return seconds > -1e12 && seconds < 1e12 ? (int64_t)(seconds * 1000) : 0;
}

void kvc_checker_feed(struct kvc_checker *checker, const struct kvc_recorded_message *message)
{
    char client[32];
    if (checker->watch == NULL)
        return;
    snprintf(client, sizeof(client), "connection %lld", (long long)message->client);
    if (message->from_server)
        kvc_watch_reply(checker->watch, kvc_str_of(client), &message->frames);
    else
        kvc_watch_request(checker->watch, kvc_str_of(client), &message->frames,
                          milliseconds(message->seconds));
}

size_t kvc_checker_finish(struct kvc_checker *checker)
{
    if (checker->watch == NULL)
        return 0;
    kvc_watch_finish(checker->watch);
    const size_t findings = kvc_watch_findings(checker->watch);
    const size_t unanswered = kvc_watch_unanswered(checker->watch);
    fprintf(checker->out, "%zu finding%s", findings, findings == 1 ? "" : "s");
    if (unanswered > 0)
        fprintf(checker->out, "; %zu request%s never answered", unanswered,
                unanswered == 1 ? " was" : "s were");
    fprintf(checker->out, "\n");
    kvc_watch_close(checker->watch);
    checker->watch = NULL;
    return findings;
}

void kvc_rules_print(FILE *out)
{
    for (size_t i = 0; i < KVC_RULE_COUNT; i++)
        fprintf(out, "%-24s %s: %s [%s]\n", kvc_rules[i].name, kvc_rules[i].wrong,
                kvc_rules[i].matter, kvc_rules[i].source);
}
