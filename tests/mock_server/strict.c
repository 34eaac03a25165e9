/* --strict: the watch, and what it finds as lines on stderr. */
#include <stdarg.h>
#include <stdio.h>

#include "src/base/clock.h"
#include "tests/mock_server/slot_guard.h"

/* The client's identity as people see it; to be cleared. */
static struct kvc_buffer name_of(struct kvc_bytes identity)
{
    struct kvc_buffer name = {0};
    kvc_hex_encode(identity, &name);
    return name;
}

static struct kvc_str text_of(const struct kvc_buffer *buffer)
{
    return (struct kvc_str){(const char *)buffer->data, buffer->size};
}

static void on_found(void *user, const struct kvc_finding *finding)
{
    const struct mock *mock = user;
    struct kvc_buffer line = {0};
    kvc_buffer_append_text(&line, "strict: ");
    if (finding->client.size > 0)
        kvc_buffer_printf(&line, "client " KVC_STR_FMT ": ", KVC_STR_ARG(finding->client));
    if (finding->op != KVC_OP_NONE)
        kvc_buffer_printf(&line, "%s: ", kvc_op_name(finding->op));
    kvc_buffer_printf(&line, "%s: %s; %s\n", finding->rule->name, finding->detail,
                      finding->rule->matter);
    fwrite(line.data, 1, line.size, stderr);
    kvc_buffer_clear(&line);
    if (mock->options.findings != NULL)
        ++*mock->options.findings;
}

void mock_watch_open(struct mock *mock)
{
    if (!mock->options.strict)
        return;
    const struct kvc_watch_options options = {
        .dialect = mock->options.dialect,
        .chunk_size = mock->options.chunk_size,
        .session_ttl_ms = mock->options.session_ttl_ms,
        .found = on_found,
        .user = mock,
    };
    mock->watch = kvc_watch_open(&options);
    mock_slots_guard(&mock->pool);
}

void mock_watch_request(const struct mock *mock, struct kvc_bytes identity,
                        const struct kvc_frames *frames)
{
    if (mock->watch == NULL)
        return;
    struct kvc_buffer client = name_of(identity);
    kvc_watch_request(mock->watch, text_of(&client), frames, kvc_now_ms());
    kvc_buffer_clear(&client);
}

void mock_watch_reply(const struct mock *mock, struct kvc_bytes identity,
                      const struct kvc_frames *frames)
{
    if (mock->watch == NULL)
        return;
    struct kvc_buffer client = name_of(identity);
    kvc_watch_reply(mock->watch, text_of(&client), frames);
    kvc_buffer_clear(&client);
}

enum mock_answer mock_refuse(const struct mock_call *call, const char *format, ...)
{
    if (call->mock->watch == NULL)
        return MOCK_SILENCE;
    char reason[512];
    va_list args;
    va_start(args, format);
    vsnprintf(reason, sizeof(reason), format, args);
    va_end(args);
    struct kvc_buffer client = name_of(call->identity);
    kvc_watch_refused(call->mock->watch, text_of(&client), call->frames, reason);
    kvc_buffer_clear(&client);
    return MOCK_SILENCE;
}

void mock_saw(const struct mock_call *call, enum kvc_rule_id rule, const char *format, ...)
{
    if (call->mock->watch == NULL)
        return;
    char detail[512];
    va_list args;
    va_start(args, format);
    vsnprintf(detail, sizeof(detail), format, args);
    va_end(args);
    struct kvc_buffer client = name_of(call->identity);
    kvc_watch_saw(call->mock->watch, rule, text_of(&client), call->frames, "%s", detail);
    kvc_buffer_clear(&client);
}
