/* When the locks of a lookup end. */
#include "src/base/clock.h"
#include "tests/conformance/transfer_fixture.h"

enum { LEASE_MS = 400 };
static const struct kvc_target_setup lease = {
    .name = "short-lease", .read_ttl_ms = LEASE_MS, .write_ttl_ms = LEASE_MS};

/* One try: -1 when this machine was too slow for it to say anything. */
static int try_restarted_lease(struct kvc_ctx *ctx, struct kvc_worker *worker,
                               const struct kvc_key *key)
{
    const int64_t lease_ms = kvc_ctx_setup(ctx)->read_ttl_ms;
    const struct kvc_key first = kvc_key_renamed(ctx, key), second = kvc_key_renamed(ctx, key);
    kvc_lookup(ctx, worker, &first);
    const int64_t first_ms = kvc_now_ms();
    kvc_sleep_ms(lease_ms * 6 / 10);
    const int64_t second_ms = kvc_now_ms();
    kvc_lookup(ctx, worker, &second);
    if (kvc_now_ms() - first_ms >= lease_ms * 9 / 10)
        return -1; /* the first lease may have ended before the second began */
    while (kvc_now_ms() < first_ms + lease_ms * 11 / 10)
        kvc_sleep_ms(5);
    const bool once = kvc_retrieve(ctx, worker, &first, kvc_chunk_blocks(ctx, worker, 1), 0);
    const bool twice = kvc_retrieve(ctx, worker, &second, kvc_chunk_blocks(ctx, worker, 1), 0);
    if (kvc_now_ms() - second_ms >= lease_ms * 9 / 10)
        return -1;
    return once && twice;
}

static void restarts_lease(struct kvc_ctx *ctx)
{
    enum { TRIES = 8 };
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 1));
    kvc_store_stamped(ctx, worker, &key, kvc_chunk_blocks(ctx, worker, 1), 0);
    for (int i = 0; i < TRIES; i++) {
        const int result = try_restarted_lease(ctx, worker, &key);
        if (result < 0) {
            kvc_sleep_ms(kvc_ctx_setup(ctx)->read_ttl_ms); /* until nothing is locked any more */
            continue;
        }
        kvc_expect_true(ctx, "both retrieves after the first lookup's lease, within the second's",
                        result == 1);
        return;
    }
    kvc_ctx_skip(ctx, "this machine is too busy to tell one lease from the next");
}
KVC_CHECK(restarts_lease, .id = "locks/lease-restarts",
          .clause = "Each lookup of a chunk starts the lease of all its locks afresh.",
          .source = "protocol 4.1, B31",
          .exchange = "REGISTER, store, LOOKUP, LOOKUP by another request, retrieve x 2",
          .level = KVC_LEVEL_OBSERVED, .flags = KVC_FLAG_WAITS, .setup = &lease,
          .run = restarts_lease);
