#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "src/wire/compatible.h"
#include "tests/unit/wire/samples.h"

/* What the releases do, by protocol.md 2, 3.1, 3.6 and 4.6, and by their `lmcache bench server`. A release
 * stands for its dialect. */
static const struct {
    const char *client;
    const char *server;
    enum kvc_op first; /* NONE: it works */
    const char *reason;
    bool engine_driven; /* that mode works all the same */
} pairs[] = {
    {"0.5.1", "0.5.2", KVC_OP_NONE, NULL, true},
    {"0.5.4", "0.5.3", KVC_OP_NONE, NULL, true},
    {"0.5.6", "0.5.6", KVC_OP_NONE, NULL, true},
    /* a server reads past the fields that it does not know */
    {"0.5.5", "0.5.4", KVC_OP_NONE, NULL, true},
    {"0.5.4", "0.5.5", KVC_OP_LOOKUP, "the client's key has no num_kv_readers", false},
    {"0.5.2", "0.5.3", KVC_OP_STORE,
     "sends id 3, the server has it as 6 and takes the other for register_q_cache", false},
    {"0.5.3", "0.5.2", KVC_OP_STORE,
     "sends id 6, the server has it as 3 and takes the other for query_prefetch_status", false},
    {"0.5.1", "0.5.6", KVC_OP_REGISTER_KV_CACHE, "handles are pickles, the server reads msgpack",
     false},
    {"0.5.4", "0.5.6", KVC_OP_REGISTER_KV_CACHE, "handles are pickles, the server reads msgpack",
     false},
    {"0.5.5", "0.5.6", KVC_OP_REGISTER_KV_CACHE, "handles are pickles, the server reads msgpack",
     true},
    {"0.5.6", "0.5.5", KVC_OP_REGISTER_KV_CACHE, "handles are msgpack, the server reads pickles",
     true},
    {"0.5.6", "0.5.4", KVC_OP_REGISTER_KV_CACHE, "handles are msgpack, the server reads pickles",
     true},
};

Test(compatible, pairs_of_releases)
{
    for (size_t i = 0; i < KVC_COUNT_OF(pairs); i++) {
        struct kvc_incompatibility first = {.op = KVC_OP_NONE};
        const bool works = kvc_dialect_serves(sample_dialect(pairs[i].server),
                                              sample_dialect(pairs[i].client), &first);
        cr_assert_eq(works, pairs[i].first == KVC_OP_NONE, "%s with %s", pairs[i].client,
                     pairs[i].server);
        cr_assert_eq(first.op, pairs[i].first, "%s with %s: %s", pairs[i].client, pairs[i].server,
                     kvc_op_name(first.op));
        if (works)
            continue;
        cr_assert_not_null(strstr(first.reason, pairs[i].reason), "'%s'", first.reason);
        cr_assert_eq(strstr(first.reason, "; engine-driven workers store and retrieve") != NULL,
                     pairs[i].engine_driven, "%s with %s", pairs[i].client, pairs[i].server);
        free(first.reason);
    }
}

/* 0.5.5 and 0.5.6 differ in the handles first; without that, in the payload of CLEAR. */
Test(compatible, payloads_are_counted)
{
    struct kvc_dialect client = *sample_dialect("0.5.6");
    client.features &= ~(uint32_t)KVC_FEATURE_CLEAR_FORCE;
    struct kvc_incompatibility first = {.op = KVC_OP_NONE};
    cr_assert_not(kvc_dialect_serves(sample_dialect("0.5.6"), &client, &first));
    cr_assert_eq(first.op, KVC_OP_CLEAR);
    cr_assert_str_eq(first.reason,
                     "the client sends 0 payloads, the server wants 1; workers store and "
                     "retrieve all the same");
    free(first.reason);
}
