/* What an instance had under way when it fell silent and was dropped. On a server that drops soon. */
#include "src/base/clock.h"
#include "tests/conformance/transfer_fixture.h"

enum { REAP_MS = 400, PATIENCE_MS = 10000 };
static const struct kvc_target_setup soon_reaped = {.name = "soon-reaped", .reap_ms = REAP_MS};

static void ping(struct kvc_ctx *ctx, const struct kvc_worker *worker)
{
    const struct kvc_request request = {.op = KVC_OP_PING,
                                        .ping_instance = KVC_SOME_INT(worker->options.instance_id)};
    kvc_call(ctx, &worker->rpc, &request);
}

static void drops_reservation(struct kvc_ctx *ctx)
{
    struct kvc_worker *silent = kvc_default_worker(ctx);
    struct kvc_worker *other = kvc_sibling_worker(ctx, silent);
    const struct kvc_key key = kvc_key_for(ctx, silent, kvc_fresh_chunks(ctx, 1));
    const struct kvc_key again = kvc_key_renamed(ctx, &key);
    kvc_prepare_slots(ctx, silent, &key, 1);
    ping(ctx, silent);
    const int64_t deadline = kvc_now_ms() + PATIENCE_MS;
    const struct kvc_transfer_context *context = kvc_prepare_store(ctx, other, &again);
    while (context->slots.count == 0) {
        KVC_EXPECT(ctx, kvc_now_ms() < deadline,
                   "chunks of an instance that fell silent cannot be stored after %d ms",
                   PATIENCE_MS);
        kvc_expect_hits(ctx, other, &key, 0);
        kvc_sleep_ms(kvc_ctx_setup(ctx)->reap_ms / 10);
        context = kvc_prepare_store(ctx, other, &again);
    }
    kvc_expect_hits(ctx, other, &key, 0);
    kvc_stamp_slots(ctx, other, &again, context, 0);
    kvc_expect_true(ctx, "the answer of COMMIT_STORE", kvc_commit_store(ctx, other, &again));
    kvc_retrieve_stamped(ctx, other, &again, kvc_chunk_blocks(ctx, other, 1), 0);
}
KVC_CHECK(
    drops_reservation, .id = "prepare/silent-instance",
    .clause =
        "Chunks that an instance had prepared when it fell silent and was dropped never become "
        "a hit, and can be stored by another one.",
    .source = "protocol 4.4, 4.5, 11.3, B33",
    .exchange = "REGISTER x 2, PREPARE_STORE, PING; (LOOKUP, PREPARE_STORE) by the other until "
                "there are slots, COMMIT_STORE, LOOKUP, retrieve",
    .level = KVC_LEVEL_MUST, .needs = KVC_NEED_POOL | KVC_NEED_ENGINE_DRIVEN,
    .flags = KVC_FLAG_WAITS, .setup = &soon_reaped, .run = drops_reservation);

static void takes_dropped_back(struct kvc_ctx *ctx)
{
    struct kvc_worker *silent = kvc_default_worker(ctx);
    const bool mapped = silent->path == KVC_PATH_LMCACHE_DRIVEN;
    const struct kvc_key key = kvc_key_for(ctx, silent, kvc_fresh_chunks(ctx, 1));
    kvc_store_stamped(ctx, silent, &key, kvc_chunk_blocks(ctx, silent, 1), 0);
    ping(ctx, silent);
    const int64_t deadline = kvc_now_ms() + PATIENCE_MS;
    struct kvc_key asked = kvc_key_renamed(ctx, &key);
    while (kvc_lookup(ctx, silent, &asked) > 0) { /* a lookup is no sign of life */
        KVC_EXPECT(ctx, kvc_now_ms() < deadline, "a silent instance is still there after %d ms",
                   PATIENCE_MS);
        kvc_sleep_ms(kvc_ctx_setup(ctx)->reap_ms / 10);
    }
    const struct kvc_request request =
        kvc_blocks_request(ctx, mapped ? KVC_OP_STORE : KVC_OP_PREPARE_STORE, silent, &key,
                           kvc_chunk_blocks(ctx, silent, 1));
    if (!mapped || !kvc_ctx_has(ctx, KVC_FEATURE_STORE_UNKNOWN_ANSWERED))
        kvc_expect_silence(ctx, &silent->rpc, &request, "an instance that was dropped");
    else
        kvc_expect_false(ctx, "success of a STORE of an instance that was dropped",
                         kvc_call(ctx, &silent->rpc, &request)->transfer.success);
    struct kvc_worker *again = kvc_open_worker(ctx, &silent->options);
    kvc_retrieve_stamped(ctx, again, &key, kvc_chunk_blocks(ctx, again, 1), 0);
}
KVC_CHECK(
    takes_dropped_back, .id = "registration/dropped-instance",
    .clause =
        "An instance that was dropped is refused like an unknown one, can register again under "
        "its id, and then reads what it had stored.",
    .source = "protocol 4.5, 4.13, B42",
    .exchange = "REGISTER, store, PING, LOOKUP until it finds nothing, STORE, REGISTER, LOOKUP, "
                "retrieve",
    .level = KVC_LEVEL_MUST, .paths = KVC_PATHS_ALL, .flags = KVC_FLAG_WAITS, .setup = &soon_reaped,
    .run = takes_dropped_back);
