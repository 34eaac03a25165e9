#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/mock/child.h"

static char log_path[64];
static char log_text[8192];

static void start(struct child *child)
{
    snprintf(log_path, sizeof(log_path), "/tmp/kvc-strict-%d", (int)getpid());
    child->stderr_path = log_path;
    child_start(child, (struct kvc_mock_options){.pool_size = 1 << 20, .strict = true});
}

/* Ends the mock and reads what it said. */
static void finish(struct child *child)
{
    cr_assert_eq(child_stop(child), 0);
    FILE *file = fopen(log_path, "re");
    cr_assert_not_null(file);
    log_text[fread(log_text, 1, sizeof(log_text) - 1, file)] = '\0';
    fclose(file);
    unlink(log_path);
}

static size_t lines(void)
{
    size_t count = 0;
    for (const char *at = log_text; (at = strchr(at, '\n')) != NULL; at++)
        count++;
    return count;
}

static struct kvc_request lookup(const int64_t *tokens, int64_t readers)
{
    return (struct kvc_request){
        .op = KVC_OP_LOOKUP,
        .key = {.model_name = KVC_STR("m"),
                .world_size = 1,
                .token_ids = {tokens, 2},
                .end = 2,
                .request_id = KVC_STR("bad\n\x1b[1mid"),
                .num_kv_readers = readers},
        .tp_size = 1,
    };
}

Test(strict, is_silent_about_a_client_that_does_nothing_wrong)
{
    struct child child = {0};
    start(&child);
    cr_assert_eq(kvc_rpc_noop(&child.rpc, NULL), KVC_OK);
    finish(&child);
    cr_assert_str_eq(log_text, "");
}

Test(strict, names_operation_and_mistake_of_what_is_not_answered)
{
    static const int64_t tokens[] = {1, 2};
    struct child child = {0};
    start(&child);
    const struct kvc_request request = lookup(tokens, 0);
    uint64_t uid = 0;
    cr_assert_eq(kvc_rpc_send(&child.rpc, &request, &uid, NULL), KVC_OK);
    cr_assert_eq(kvc_rpc_noop(&child.rpc, NULL), KVC_OK);
    finish(&child);
    cr_assert_eq(lines(), 1u, "%s", log_text);
    cr_assert_not_null(
        strstr(log_text, "lookup: no-kv-readers: num_kv_readers is 0; it is never answered"), "%s",
        log_text);
}

Test(strict, tells_what_was_left_behind_and_shows_names_escaped)
{
    static const int64_t tokens[] = {1, 2};
    struct child child = {0};
    start(&child);
    const struct kvc_request request = lookup(tokens, 1);
    cr_assert_eq(kvc_rpc_call_void(&child.rpc, &request, NULL), KVC_OK);
    int64_t count = -1;
    const struct kvc_request query = {.op = KVC_OP_QUERY_PREFETCH_STATUS,
                                      .request_id = KVC_STR("other\nid")};
    cr_assert_eq(kvc_rpc_call_count(&child.rpc, &query, &count, NULL), KVC_OK);
    cr_assert_eq(count, 0);
    finish(&child);
    cr_assert_eq(lines(), 4u, "%s", log_text);
    cr_assert_not_null(strstr(log_text, "lookup: model-not-registered: m in a world of 1; "));
    cr_assert_not_null(strstr(log_text, "polled-without-lookup: request other\\x0aid; "), "%s",
                       log_text);
    cr_assert_not_null(strstr(log_text, "strict: session-not-ended: request bad\\x0a"), "%s",
                       log_text);
    cr_assert_not_null(strstr(log_text, "strict: result-not-fetched: "), "%s", log_text);
}
