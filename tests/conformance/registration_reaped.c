/* Instances that fall silent: who is dropped, who is not. On a server that drops them soon. */
#include "src/base/clock.h"
#include "tests/conformance/fixture.h"
#include "tests/conformance/transfer_fixture.h"

enum { REAP_MS = 400 };
static const struct kvc_target_setup soon_reaped = {.name = "soon-reaped", .reap_ms = REAP_MS};

static void ping(struct kvc_ctx *ctx, const struct kvc_worker *worker)
{
    const struct kvc_request request = {.op = KVC_OP_PING,
                                        .ping_instance = KVC_SOME_INT(worker->options.instance_id)};
    kvc_call(ctx, &worker->rpc, &request);
}

/* An instance with a model of its own and one stored chunk: a lookup sees whether it is still there,
 * and is no sign of life. */
struct tenant {
    struct kvc_worker *worker;
    struct kvc_key key;
};

static struct tenant new_tenant(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 1));
    kvc_store_stamped(ctx, worker, &key, kvc_chunk_blocks(ctx, worker, 1), 0);
    return (struct tenant){worker, key};
}

static bool is_there(struct kvc_ctx *ctx, const struct tenant *tenant)
{
    struct kvc_key key = kvc_key_renamed(ctx, &tenant->key);
    return kvc_lookup(ctx, tenant->worker, &key) == 1;
}

/* Waits until an instance that has pinged once is dropped; keeps another one busy meanwhile. */
static void wait_for_reaper(struct kvc_ctx *ctx, const struct tenant *silent,
                            const struct tenant *busy)
{
    const int64_t deadline = kvc_now_ms() + 10 * 1000;
    ping(ctx, silent->worker);
    while (is_there(ctx, silent)) {
        KVC_EXPECT(ctx, kvc_now_ms() < deadline,
                   "an instance that has pinged and fallen silent is still there after 10 s");
        if (busy != NULL)
            kvc_store(ctx, busy->worker, &busy->key, kvc_chunk_blocks(ctx, busy->worker, 1));
        kvc_sleep_ms(kvc_ctx_setup(ctx)->reap_ms / 20);
    }
}

static void drops_silent_pinger(struct kvc_ctx *ctx)
{
    const struct tenant silent = new_tenant(ctx);
    wait_for_reaper(ctx, &silent, NULL);
}
KVC_CHECK(
    drops_silent_pinger, .id = "registration/silent-instance-dropped",
    .clause = "An instance that has pinged and then falls silent is dropped after the server's "
              "time limit.",
    .source = "protocol 4.5, B42",
    .exchange = "REGISTER, store, PING, LOOKUP until it finds nothing", .level = KVC_LEVEL_SHOULD,
    .flags = KVC_FLAG_WAITS, .setup = &soon_reaped, .run = drops_silent_pinger);

static void keeps_busy_pinger(struct kvc_ctx *ctx)
{
    const struct tenant silent = new_tenant(ctx), busy = new_tenant(ctx);
    ping(ctx, busy.worker);
    wait_for_reaper(ctx, &silent, &busy);
    kvc_retrieve_stamped(ctx, busy.worker, &busy.key, kvc_chunk_blocks(ctx, busy.worker, 1), 0);
}
KVC_CHECK(
    keeps_busy_pinger, .id = "registration/busy-instance-stays",
    .clause = "Transfers are signs of life, too: an instance that stores and does not ping stays.",
    .source = "protocol 4.5, B42",
    .exchange = "REGISTER x 2, PING x 2, stores by one until the other is dropped, retrieve",
    .level = KVC_LEVEL_MUST, .paths = KVC_PATHS_ALL, .flags = KVC_FLAG_WAITS, .setup = &soon_reaped,
    .run = keeps_busy_pinger);

static void keeps_who_never_pinged(struct kvc_ctx *ctx)
{
    const struct tenant silent = new_tenant(ctx), idle = new_tenant(ctx);
    wait_for_reaper(ctx, &silent, NULL);
    kvc_retrieve_stamped(ctx, idle.worker, &idle.key, kvc_chunk_blocks(ctx, idle.worker, 1), 0);
}
KVC_CHECK(
    keeps_who_never_pinged, .id = "registration/idle-instance-stays",
    .clause = "An instance that never pings is not dropped by the time limit of those that do.",
    .source = "protocol 4.5, B42",
    .exchange = "REGISTER x 2, PING by one until it is dropped, LOOKUP and retrieve by the other",
    .level = KVC_LEVEL_MUST, .paths = KVC_PATHS_ALL, .flags = KVC_FLAG_WAITS, .setup = &soon_reaped,
    .run = keeps_who_never_pinged);
