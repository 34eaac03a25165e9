/* --strict: what the mock says. Which mistakes are found is tested in tests/unit/watch. */
#include <criterion/criterion.h>
#include <string.h>

#include "tests/unit/mock/strict_log.h"

static size_t count_lines(const char *text)
{
    size_t count = 0;
    while ((text = strchr(text, '\n')) != NULL) {
        count++;
        text++;
    }
    return count;
}

static void expect_in(const char *text, const char *part)
{
    cr_assert_not_null(strstr(text, part), "\"%s\" is not in:\n%s", part, text);
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
    strict_start(&child, (struct kvc_mock_options){0});
    cr_assert_eq(kvc_rpc_noop(&child.rpc, NULL), KVC_OK);
    cr_assert_str_eq(strict_finish(&child), "");
}

Test(strict, names_client_operation_rule_and_mistake)
{
    static const int64_t tokens[] = {1, 2};
    struct child child = {0};
    strict_start(&child, (struct kvc_mock_options){0});
    const struct kvc_request request = lookup(tokens, 0);
    uint64_t uid = 0;
    cr_assert_eq(kvc_rpc_send(&child.rpc, &request, &uid, NULL), KVC_OK);
    cr_assert_eq(kvc_rpc_noop(&child.rpc, NULL), KVC_OK);
    const char *text = strict_finish(&child);
    cr_assert_eq(count_lines(text), 1u, "%s", text);
    cr_assert_eq(strncmp(text, "strict: client 00", strlen("strict: client 00")), 0, "%s", text);
    expect_in(text, ": lookup: no-kv-readers: num_kv_readers is 0; it is never answered");
}

Test(strict, says_why_a_request_is_not_answered)
{
    struct child child = {0};
    strict_start(&child, (struct kvc_mock_options){0});
    const struct kvc_request request = {
        .op = KVC_OP_REGISTER_ENGINE_DRIVEN,
        .engine_driven = {.model_name = KVC_STR("m"),
                          .world_size = 1,
                          .num_layers = 1,
                          .hidden_dim_size = 1,
                          .dtype_str = KVC_STR("torch.float16")},
    };
    uint64_t uid = 0;
    cr_assert_eq(kvc_rpc_send(&child.rpc, &request, &uid, NULL), KVC_OK);
    cr_assert_eq(kvc_rpc_noop(&child.rpc, NULL), KVC_OK);
    const char *text = strict_finish(&child);
    cr_assert_eq(count_lines(text), 1u, "%s", text);
    expect_in(text, "context: refused: unknown dtype torch.float16; ");
}

Test(strict, tells_what_was_left_behind_and_shows_names_escaped)
{
    static const int64_t tokens[] = {1, 2};
    struct child child = {0};
    strict_start(&child, (struct kvc_mock_options){0});
    const struct kvc_request request = lookup(tokens, 1);
    cr_assert_eq(kvc_rpc_call_void(&child.rpc, &request, NULL), KVC_OK);
    int64_t count = -1;
    const struct kvc_request query = {.op = KVC_OP_QUERY_PREFETCH_STATUS,
                                      .request_id = KVC_STR("other\nid")};
    cr_assert_eq(kvc_rpc_call_count(&child.rpc, &query, &count, NULL), KVC_OK);
    cr_assert_eq(count, 0);
    const char *text = strict_finish(&child);
    cr_assert_eq(count_lines(text), 4u, "%s", text);
    expect_in(text, "lookup: model-not-registered: m in a world of 1; ");
    expect_in(text, "polled-without-lookup: request other\\x0aid; ");
    expect_in(text, "strict: session-not-ended: request bad\\x0a");
    expect_in(text, "strict: result-not-fetched: ");
}
