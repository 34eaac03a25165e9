/* One stream against a server that answers with given bytes. Many at once: tests/meta/engine.py. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/clock.h"
#include "src/engine/client.h"
#include "tests/unit/link/web.h"

#define HEAD       "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n\r\n"
#define TEXT(text) "data: {\"choices\":[{\"delta\":{\"content\":\"" text "\"}}]}\n\n"
#define FINISH     "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"length\"}]}\n\n"
#define USAGE(prompt, completion)                                                                  \
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":" prompt                                   \
    ",\"completion_tokens\":" completion "}}\n\n"
#define END "data: [DONE]\n\n"

struct outcome {
    struct kvc_engine_reply reply;
    char text[64];
    int done, tokens;
    int64_t gaps;
};

static void on_token(void *user, int64_t gap_ns)
{
    struct outcome *outcome = user;
    outcome->tokens++;
    outcome->gaps += gap_ns;
}

static void on_done(void *user, const struct kvc_engine_reply *reply)
{
    struct outcome *outcome = user;
    outcome->reply = *reply;
    outcome->done++;
    snprintf(outcome->text, sizeof(outcome->text), KVC_STR_FMT, KVC_STR_ARG(reply->text));
}

static struct outcome ask(const char *url, int64_t max_tokens, int64_t timeout_ms)
{
    struct outcome outcome = {0};
    struct kvc_engine_client *client;
    const struct kvc_engine_options options = {
        .base_url = url, .api_key = "sk-1", .timeout_ms = timeout_ms};
    cr_assert_eq(kvc_engine_client_open(&options, &client, NULL), KVC_OK);
    struct kvc_engine_request request = {.max_tokens = max_tokens,
                                         .keep_text = true,
                                         .on_token = on_token,
                                         .on_done = on_done,
                                         .user = &outcome};
    kvc_buffer_append_text(&request.body, "{\"model\":\"m\"}");
    kvc_engine_client_send(client, &request);
    cr_assert_eq(kvc_engine_client_in_flight(client), 1);
    const int64_t limit = kvc_now_ns() + INT64_C(5000000000);
    while (outcome.done == 0 && kvc_now_ns() < limit)
        cr_assert_eq(kvc_engine_client_step(client, limit, NULL), KVC_OK);
    cr_assert_eq(outcome.done, 1);
    cr_assert_eq(kvc_engine_client_in_flight(client), 0);
    kvc_engine_client_close(client);
    return outcome;
}

static struct outcome answered(const char *answer, int64_t max_tokens)
{
    struct web web = {0};
    web_start(&web, answer);
    const struct outcome outcome = ask(web.url, max_tokens, 2000);
    web_stop(&web);
    return outcome;
}

Test(client, a_stream_with_everything)
{
    struct web web = {0};
    web_start(&web, HEAD TEXT("") TEXT("one") TEXT(" two") FINISH USAGE("12", "2") END);
    const struct outcome outcome = ask(web.url, 2, 2000);
    web_stop(&web);
    cr_assert_eq(strncmp(web.request, "POST /chat/completions HTTP/1.1\r\n", 33), 0, "%s",
                 web.request);
    cr_assert_not_null(strstr(web.request, "\r\nAuthorization: Bearer sk-1\r\n"));
    cr_assert_not_null(strstr(web.request, "\r\n\r\n{\"model\":\"m\"}"));
    const struct kvc_engine_reply *reply = &outcome.reply;
    cr_assert(reply->is_ok, "%s", reply->problem);
    cr_assert_str_eq(outcome.text, "one two");
    cr_assert_eq(reply->text_events, 2, "an empty text is no token");
    cr_assert_eq(outcome.tokens, 1);
    cr_assert_eq(outcome.gaps, reply->last_token_ns - reply->first_token_ns);
    cr_assert_eq(reply->prompt_tokens, 12);
    cr_assert_eq(reply->completion_tokens, 2);
    cr_assert(reply->sent_ns < reply->first_token_ns && reply->last_token_ns <= reply->finished_ns);
}

Test(client, a_token_without_text_comes_when_the_choice_is_finished)
{
    const struct outcome outcome = answered(HEAD TEXT("") FINISH USAGE("12", "1") END, 1);
    cr_assert(outcome.reply.is_ok, "%s", outcome.reply.problem);
    cr_assert_eq(outcome.reply.text_events, 0);
    cr_assert_gt(outcome.reply.first_token_ns, outcome.reply.sent_ns);
}

Test(client, a_finish_reason_ends_a_stream_without_done)
{
    cr_assert(answered(HEAD TEXT("x") FINISH USAGE("12", "1"), 1).reply.is_ok);
}

static const struct {
    const char *answer;
    kvc_status status;
    const char *words;
} failures[] = {
    {HEAD TEXT("x") FINISH END, KVC_EFORMAT, "sent no usage"},
    {HEAD USAGE("12", "0") END, KVC_EFORMAT, "generated no token"},
    {HEAD TEXT("x") USAGE("12", "3") END, KVC_EFORMAT, "counts 3 generated tokens, at most 2"},
    {HEAD TEXT("x") USAGE("0", "1") END, KVC_EFORMAT, "counts 0 prompt tokens"},
    {HEAD TEXT("x") USAGE("9223372036854775807", "1") END, KVC_EFORMAT, "prompt tokens, which no"},
    {HEAD TEXT("x"), KVC_ELOST, "ended halfway, after 1 events"},
    {HEAD TEXT("x") "data: {\"choi", KVC_ELOST, "ended halfway, after 1 events"},
    {HEAD, KVC_ELOST, "ended halfway, after 0 events"},
    {HEAD TEXT("x") "data: nonsense\n\n" END, KVC_EFORMAT, "no JSON object"},
    {HEAD "data: {\"error\":{\"message\":\"engine died\"}}\n\n" END, KVC_EREFUSED, "engine died"},
    {"HTTP/1.1 500 Oops\r\nContent-Length: 4\r\n\r\nboom", KVC_EREFUSED, "HTTP 500: boom"},
    {"HTTP/1.1 400 Bad\r\n\r\n{\"error\":{\"message\":\"too long\"}}", KVC_EREFUSED,
     "HTTP 400: too long"},
    {"HTTP/1.1 204 No Content\r\n\r\n", KVC_EREFUSED, "HTTP 204"},
    {"HTTP/1.1 307 Away\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n",
     KVC_EREFUSED, "HTTP 307: redirects are not followed"},
    {"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
     KVC_EFORMAT, "its Content-Type is application/json"},
    {"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", KVC_EFORMAT, "Content-Type is missing"},
    {"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: "
     "chunked\r\n\r\n4\r\n: x\n\r\n",
     KVC_ELOST, ""},
    {"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 100\r\n\r\n: x\n",
     KVC_ELOST, ""},
    {"SSH-2.0-OpenSSH\r\n", KVC_EFORMAT, ""},
    {"", KVC_ELOST, ""},
};

Test(client, each_failure_has_its_reason)
{
    for (size_t i = 0; i < KVC_COUNT_OF(failures); i++) {
        const struct outcome outcome = answered(failures[i].answer, 2);
        cr_assert_not(outcome.reply.is_ok, "case %zu", i);
        cr_assert_eq(outcome.reply.status, failures[i].status, "case %zu: %s", i,
                     outcome.reply.problem);
        cr_assert_not_null(strstr(outcome.reply.problem, failures[i].words), "case %zu: %s", i,
                           outcome.reply.problem);
        cr_assert_neq(outcome.reply.problem[0], '\0', "case %zu", i);
    }
}

Test(client, silence_is_given_up)
{
    struct web web = {0};
    web_start(&web, NULL);
    const struct outcome outcome = ask(web.url, 2, 150);
    web_stop(&web);
    cr_assert_eq(outcome.reply.status, KVC_ETIMEOUT);
    cr_assert_not_null(strstr(outcome.reply.problem, "nothing came for 0.15 s, after 0 events"));
}

Test(client, nobody_there)
{
    const struct outcome outcome = ask("http://127.0.0.1:1", 2, 2000);
    cr_assert_eq(outcome.reply.status, KVC_ECONNECT);
}

Test(client, an_engine_that_does_not_stop_is_stopped)
{
    struct kvc_buffer answer = {0};
    kvc_buffer_append_text(&answer, HEAD);
    for (int i = 0; i < 200; i++)
        kvc_buffer_append_text(&answer, TEXT("x"));
    const struct outcome outcome = answered(kvc_buffer_text(&answer), 2);
    cr_assert_eq(outcome.reply.status, KVC_EFORMAT);
    cr_assert_not_null(strstr(outcome.reply.problem, "does not stop: 67 events"));
    kvc_buffer_clear(&answer);
}

Test(client, what_is_in_flight_can_be_dropped)
{
    struct web web = {0};
    web_start(&web, NULL);
    struct outcome outcome = {0};
    struct kvc_engine_client *client;
    const struct kvc_engine_options options = {.base_url = web.url, .timeout_ms = 2000};
    cr_assert_eq(kvc_engine_client_open(&options, &client, NULL), KVC_OK);
    struct kvc_engine_request request = {.max_tokens = 1, .on_done = on_done, .user = &outcome};
    kvc_buffer_append_text(&request.body, "{}");
    kvc_engine_client_send(client, &request);
    cr_assert_eq(kvc_engine_client_step(client, kvc_now_ns() + 20000000, NULL), KVC_OK);
    kvc_engine_client_close(client);
    web_stop(&web);
    cr_assert_eq(outcome.done, 1);
    cr_assert_eq(outcome.reply.status, KVC_EINTERRUPTED);
}
