#include <stdarg.h>
#include <stdio.h>

#include "tests/mock_server/state.h"

/* One line on stderr, whatever bytes a client put into its names. */
static void say(const char *about, const char *format, va_list args)
{
    char text[512];
    struct kvc_buffer line = {0};
    vsnprintf(text, sizeof(text), format, args);
    kvc_buffer_printf(&line, "strict: %s", about);
    kvc_text_escape(kvc_str_of(text), &line);
    kvc_buffer_append_byte(&line, '\n');
    fwrite(line.data, 1, line.size, stderr);
    kvc_buffer_clear(&line);
}

static void say_of_call(const struct mock_call *call, const char *verdict, const char *format,
                        va_list args)
{
    struct kvc_buffer about = {0};
    kvc_buffer_append_text(&about, "client ");
    kvc_hex_encode(call->identity, &about);
    if (call->request != NULL && call->request->op != KVC_OP_NONE)
        kvc_buffer_printf(&about, ": %s", kvc_op_name(call->request->op));
    kvc_buffer_printf(&about, "%s: ", verdict);
    say(kvc_buffer_text(&about), format, args);
    kvc_buffer_clear(&about);
}

enum mock_answer mock_refuse(const struct mock_call *call, const char *format, ...)
{
    if (call->mock->options.strict) {
        va_list args;
        va_start(args, format);
        say_of_call(call, " not answered", format, args);
        va_end(args);
    }
    return MOCK_SILENCE;
}

void mock_remark(const struct mock_call *call, const char *format, ...)
{
    if (!call->mock->options.strict)
        return;
    va_list args;
    va_start(args, format);
    say_of_call(call, "", format, args);
    va_end(args);
}

void mock_remark_at_large(const struct mock *mock, const char *format, ...)
{
    if (!mock->options.strict)
        return;
    va_list args;
    va_start(args, format);
    say("", format, args);
    va_end(args);
}
