/* Reservations that are never committed: the worker leaves, its session ends, its lease runs
 * out. */
#include "src/base/clock.h"
#include "tests/conformance/transfer_fixture.h"

/* ---- the worker leaves ---- */

/* Reserves a key at `worker` and unregisters it; another instance keeps the model known. */
static struct kvc_worker *abandon(struct kvc_ctx *ctx, struct kvc_key *key)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    struct kvc_worker *other = kvc_sibling_worker(ctx, worker);
    *key = kvc_key_for(ctx, other, kvc_fresh_chunks(ctx, 2));
    kvc_prepare_slots(ctx, worker, key, 2);
    struct kvc_error err = KVC_ERROR_INIT;
    kvc_expect_ok(ctx, "UNREGISTER", kvc_worker_unregister(worker, &err), &err);
    return other;
}

static void unregister_makes_no_hit(struct kvc_ctx *ctx)
{
    struct kvc_key key;
    struct kvc_worker *other = abandon(ctx, &key);
    kvc_expect_hits(ctx, other, &key, 0);
}

KVC_CHECK(unregister_makes_no_hit, .id = "prepare/unregister-makes-no-hit",
          .clause = "Chunks that were prepared and not committed when their instance unregisters "
                    "never become a hit.",
          .source = "protocol 4.4, B33", .exchange = "PREPARE_STORE, UNREGISTER, LOOKUP",
          .level = KVC_LEVEL_MUST, .needs = KVC_NEED_POOL, .run = unregister_makes_no_hit);

static void unregister_frees_the_chunk(struct kvc_ctx *ctx)
{
    struct kvc_key key;
    struct kvc_worker *other = abandon(ctx, &key);
    const struct kvc_key again = kvc_key_renamed(ctx, &key);
    kvc_store_slots(ctx, other, &again, 1);
    kvc_expect_slots_stamped(ctx, other, &again, kvc_open_slots(ctx, other, &again), 1);
    kvc_commit_retrieve(ctx, other, &again);
}

KVC_CHECK(unregister_frees_the_chunk, .id = "prepare/unregister-frees-the-chunk",
          .clause = "Chunks that an instance had prepared when it unregistered can be stored by "
                    "another one at once.",
          .source = "protocol 4.4, N09",
          .exchange = "PREPARE_STORE, UNREGISTER; from another instance: PREPARE_STORE, "
                      "COMMIT_STORE, LOOKUP, PREPARE_RETRIEVE",
          .level = KVC_LEVEL_SHOULD, .needs = KVC_NEED_POOL, .run = unregister_frees_the_chunk);

static void end_of_session_makes_no_hit(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 2));
    kvc_stamp_slots(ctx, worker, &key, kvc_prepare_slots(ctx, worker, &key, 2), 0);
    kvc_end_session(ctx, worker, &key);
    kvc_expect_hits(ctx, worker, &key, 0);
    const struct kvc_key late = kvc_key_renamed(ctx, &key);
    const bool committed = kvc_commit_store(ctx, worker, &late);
    kvc_expect_hits(ctx, worker, &key, committed ? 2 : 0);
}

KVC_CHECK(end_of_session_makes_no_hit, .id = "prepare/end-of-session-makes-no-hit",
          .clause = "END_SESSION publishes nothing that is prepared, and a COMMIT_STORE after it "
                    "answers true only if it publishes.",
          .source = "protocol 4.9, B37",
          .exchange = "PREPARE_STORE, END_SESSION, LOOKUP, COMMIT_STORE", .level = KVC_LEVEL_MUST,
          .needs = KVC_NEED_POOL, .run = end_of_session_makes_no_hit);

/* ---- leases ---- */

enum { LEASE_MS = 60 };

static const struct kvc_target_setup short_lease = {
    .name = "short-lease", .read_ttl_ms = LEASE_MS, .write_ttl_ms = LEASE_MS};

/* Watches a key whose lease runs out: no hit before, while and after it does. */
static void watch_lease_run_out(struct kvc_ctx *ctx, struct kvc_worker *worker,
                                const struct kvc_key *key)
{
    const int64_t lease_ms = kvc_ctx_setup(ctx)->write_ttl_ms;
    const int64_t end = kvc_now_ms() + 2 * lease_ms;
    while (kvc_now_ms() < end) {
        kvc_expect_hits(ctx, worker, key, 0);
        kvc_sleep_ms(lease_ms / 10);
    }
    kvc_expect_hits(ctx, worker, key, 0);
}

static void expired_makes_no_hit(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 1));
    kvc_prepare_slots(ctx, worker, &key, 1);
    watch_lease_run_out(ctx, worker, &key);
}

KVC_CHECK(expired_makes_no_hit, .id = "prepare/expired-makes-no-hit",
          .clause = "A reservation whose lease runs out never becomes a hit.",
          .source = "protocol 4.10, B32", .exchange = "PREPARE_STORE, LOOKUP until after the lease",
          .level = KVC_LEVEL_MUST, .needs = KVC_NEED_POOL, .flags = KVC_FLAG_WAITS,
          .setup = &short_lease, .run = expired_makes_no_hit);

static void expired_frees_the_chunk(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    struct kvc_worker *other = kvc_sibling_worker(ctx, worker);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 1));
    const struct kvc_key again = kvc_key_renamed(ctx, &key);
    kvc_prepare_slots(ctx, worker, &key, 1);
    watch_lease_run_out(ctx, worker, &key);
    kvc_store_slots(ctx, other, &again, 1);
    kvc_expect_slots_stamped(ctx, other, &again, kvc_open_slots(ctx, other, &again), 1);
}

KVC_CHECK(expired_frees_the_chunk, .id = "prepare/expired-frees-the-chunk",
          .clause = "A chunk whose reservation has expired can be stored by another instance.",
          .source = "protocol 4.10, N09",
          .exchange = "PREPARE_STORE; after the lease, from another instance: PREPARE_STORE, "
                      "COMMIT_STORE, LOOKUP, PREPARE_RETRIEVE",
          .level = KVC_LEVEL_SHOULD, .needs = KVC_NEED_POOL, .flags = KVC_FLAG_WAITS,
          .setup = &short_lease, .run = expired_frees_the_chunk);

static void late_commit_is_honest(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 1));
    kvc_stamp_slots(ctx, worker, &key, kvc_prepare_store(ctx, worker, &key), 0);
    watch_lease_run_out(ctx, worker, &key);
    if (kvc_commit_store(ctx, worker, &key))
        kvc_expect_slots_stamped(ctx, worker, &key, kvc_open_slots(ctx, worker, &key), 0);
    else
        kvc_expect_hits(ctx, worker, &key, 0);
}

KVC_CHECK(late_commit_is_honest, .id = "prepare/late-commit-is-honest",
          .clause =
              "COMMIT_STORE after the lease of its reservation either says true, and what was "
              "written is found, or says false and makes no hit.",
          .source = "B32, N10",
          .exchange = "PREPARE_STORE; after the lease: COMMIT_STORE, LOOKUP, PREPARE_RETRIEVE",
          .level = KVC_LEVEL_MUST, .needs = KVC_NEED_POOL, .flags = KVC_FLAG_WAITS,
          .setup = &short_lease, .run = late_commit_is_honest);

static void late_commit_of_a_new_reservation(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    struct kvc_worker *other = kvc_sibling_worker(ctx, worker);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 1));
    const struct kvc_key again = kvc_key_renamed(ctx, &key);
    kvc_prepare_slots(ctx, worker, &key, 1);
    watch_lease_run_out(ctx, worker, &key);
    kvc_prepare_store(ctx, other, &again);
    kvc_commit_store(ctx, worker, &key);
    kvc_expect_hits(ctx, worker, &key, 0);
}

KVC_CHECK(late_commit_of_a_new_reservation, .id = "prepare/late-commit-of-a-new-reservation",
          .clause = "A COMMIT_STORE that comes too late does not publish what another instance is "
                    "now writing.",
          .source = "B32, N10",
          .exchange = "PREPARE_STORE; after the lease, from another instance: PREPARE_STORE; "
                      "from the first: COMMIT_STORE, LOOKUP",
          .level = KVC_LEVEL_MUST, .needs = KVC_NEED_POOL, .flags = KVC_FLAG_WAITS,
          .setup = &short_lease, .run = late_commit_of_a_new_reservation);
