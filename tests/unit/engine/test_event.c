/* Events as vLLM, `transformers serve` and others send them. */
#include <criterion/criterion.h>
#include <string.h>

#include "src/engine/event.h"

static kvc_status read_event(const char *data, struct kvc_engine_event *event,
                             struct kvc_error *err)
{
    *err = (struct kvc_error)KVC_ERROR_INIT;
    return kvc_engine_event_read(kvc_str_of(data), event, err);
}

static const struct {
    const char *data, *text;
    bool is_finish;
    int64_t prompt, completion;
} events[] = {
    {"{\"choices\":[{\"index\":0,\"delta\":{\"content\":\" hi\"},\"finish_reason\":null}]}", " hi",
     false, -1, -1},
    {"{\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}],\"usage\":null}", "",
     false, -1, -1},
    {"{\"choices\":[{\"delta\":{\"content\":null,\"reasoning_content\":\"so\"}}]}", "so", false, -1,
     -1},
    {"{\"choices\":[{\"delta\":{\"reasoning\":\"r\"}}]}", "r", false, -1, -1},
    {"{\"choices\":[{\"delta\":{},\"finish_reason\":\"length\"}]}", "", true, -1, -1},
    {"{\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":3,\"total_tokens\":10}}",
     "", false, 7, 3},
    {"{\"choices\":[{\"delta\":{\"content\":\"x\"},\"finish_reason\":\"stop\"}],\"usage\":"
     "{\"prompt_tokens\":0,\"completion_tokens\":1}}",
     "x", true, 0, 1},
    {"{\"choices\":[{\"delta\":{\"content\":\"a\\u0000b\"}}]}", "a", false, -1, -1},
    {"{}", "", false, -1, -1},
};

Test(event, what_an_event_carries)
{
    struct kvc_engine_event event = {0};
    struct kvc_error err;
    for (size_t i = 0; i < KVC_COUNT_OF(events); i++) {
        cr_assert_eq(read_event(events[i].data, &event, &err), KVC_OK, "event %zu: %s", i,
                     err.what);
        cr_assert_str_eq(kvc_buffer_text(&event.text), events[i].text, "event %zu", i);
        cr_assert_eq(event.is_finish, events[i].is_finish, "event %zu", i);
        cr_assert_eq(event.prompt_tokens, events[i].prompt, "event %zu", i);
        cr_assert_eq(event.completion_tokens, events[i].completion, "event %zu", i);
        cr_assert_not(event.is_end);
    }
    cr_assert_eq(read_event("[DONE]", &event, &err), KVC_OK);
    cr_assert(event.is_end);
    kvc_engine_event_clear(&event);
}

Test(event, what_is_none)
{
    static const struct {
        const char *data;
        kvc_status status;
        const char *words;
    } bad[] = {
        {"", KVC_EFORMAT, "no JSON object"},
        {"hello", KVC_EFORMAT, "no JSON object"},
        {"[1]", KVC_EFORMAT, "no JSON object"},
        {"{\"choices\":[{\"delta\":{\"content\":\" hi\"}}]", KVC_EFORMAT, "no JSON object"},
        {"{\"choices\":{}}", KVC_EFORMAT, "a list belongs"},
        {"{\"choices\":[7]}", KVC_EFORMAT, "an object belongs"},
        {"{\"choices\":[{\"delta\":{\"content\":7}}]}", KVC_EFORMAT, "text belongs"},
        {"{\"usage\":7}", KVC_EFORMAT, "an object belongs"},
        {"{\"usage\":{\"prompt_tokens\":1}}", KVC_EFORMAT, "a number of tokens belongs"},
        {"{\"usage\":{\"prompt_tokens\":-1,\"completion_tokens\":1}}", KVC_EFORMAT,
         "number of tokens"},
        {"{\"usage\":{\"prompt_tokens\":1.5,\"completion_tokens\":1}}", KVC_EFORMAT,
         "number of tokens"},
        {"{\"error\":{\"message\":\"out\\nof memory\",\"code\":500}}", KVC_EREFUSED,
         "out\\x0aof memory"},
        {"{\"error\":\"no\"}", KVC_EREFUSED, "error: no"},
    };
    struct kvc_engine_event event = {0};
    struct kvc_error err;
    for (size_t i = 0; i < KVC_COUNT_OF(bad); i++) {
        cr_assert_eq(read_event(bad[i].data, &event, &err), bad[i].status, "event %zu", i);
        cr_assert_not_null(strstr(err.what, bad[i].words), "event %zu: %s", i, err.what);
    }
    kvc_engine_event_clear(&event);
}

Test(event, words_of_an_error)
{
    static const struct {
        const char *body, *words;
    } errors[] = {
        {"{\"error\":{\"message\":\"too long\",\"type\":\"BadRequestError\"}}", "too long"},
        {"{\"object\":\"error\",\"message\":\"too long\"}", "too long"},
        {"{\"detail\":\"Not Found\"}", "Not Found"},
        {"{\"detail\":[{\"msg\":\"x\"}]}", "[{\\x22msg\\x22:\\x22x\\x22}]"},
        {"<h1>Bad\x1b[0m</h1>", "<h1>Bad\\x1b[0m</h1>"},
        {"", ""},
        {"<!DOCTYPE HTML>\n<html>\n</html>\n", "<!DOCTYPE HTML>"},
    };
    for (size_t i = 0; i < KVC_COUNT_OF(errors); i++) {
        struct kvc_buffer words = {0};
        kvc_engine_error_text(kvc_str_of(errors[i].body), &words);
        cr_assert_str_eq(kvc_buffer_text(&words), errors[i].words, "error %zu", i);
        kvc_buffer_clear(&words);
    }
}
