/* CLEAR: what it drops, what it keeps. Each empties the server's whole cache. */
#include "tests/conformance/fixture.h"
#include "tests/conformance/transfer_fixture.h"

static void expect_nothing_after(struct kvc_ctx *ctx, bool force)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 2));
    kvc_store_stamped(ctx, worker, &key, kvc_chunk_blocks(ctx, worker, 2), 0);
    kvc_clear(ctx, force);
    kvc_expect_hits(ctx, worker, &key, 0);
}

static void forced_drops_chunks(struct kvc_ctx *ctx)
{
    expect_nothing_after(ctx, true);
}
KVC_CHECK(
    forced_drops_chunks, .id = "control/clear",
    .clause =
        "After CLEAR, forced where it has that flag, nothing that was stored before is found.",
    .source = "protocol 4.15, B70", .exchange = "REGISTER, store, CLEAR, LOOKUP, QUERY",
    .level = KVC_LEVEL_MUST, .flags = KVC_FLAG_DESTRUCTIVE | KVC_FLAG_EXCLUSIVE,
    .paths = KVC_PATHS_ALL, .run = forced_drops_chunks);

static void unforced_drops_chunks(struct kvc_ctx *ctx)
{
    expect_nothing_after(ctx, false);
}
KVC_CHECK(unforced_drops_chunks, .id = "control/clear-unforced",
          .clause = "After CLEAR without force nothing is found of what nobody had locked.",
          .source = "protocol 4.15, B70", .exchange = "REGISTER, store, CLEAR, LOOKUP, QUERY",
          .level = KVC_LEVEL_MUST, .features = KVC_FEATURE_CLEAR_FORCE,
          .flags = KVC_FLAG_DESTRUCTIVE | KVC_FLAG_EXCLUSIVE, .paths = KVC_PATHS_ALL,
          .run = unforced_drops_chunks);

static void stores_again(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 2));
    const struct kvc_key again = kvc_key_renamed(ctx, &key);
    kvc_store_stamped(ctx, worker, &key, kvc_chunk_blocks(ctx, worker, 2), 0);
    kvc_clear(ctx, true);
    kvc_store_stamped(ctx, worker, &again, kvc_chunk_blocks(ctx, worker, 2), 1);
    kvc_retrieve_stamped(ctx, worker, &again, kvc_chunk_blocks(ctx, worker, 2), 1);
}
KVC_CHECK(
    stores_again, .id = "control/clear-then-store",
    .clause = "What is stored after CLEAR is found, with its own bytes and not with those from "
              "before.",
    .source = "protocol 4.15, B70", .exchange = "REGISTER, store, CLEAR, store, LOOKUP, retrieve",
    .level = KVC_LEVEL_MUST, .flags = KVC_FLAG_DESTRUCTIVE | KVC_FLAG_EXCLUSIVE,
    .paths = KVC_PATHS_ALL, .run = stores_again);

/* ---- chunks that somebody is about to read ---- */

static void spares_locked(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_key locked = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 2));
    const struct kvc_key other = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 2));
    const struct kvc_ints blocks = kvc_chunk_blocks(ctx, worker, 2);
    kvc_store_stamped(ctx, worker, &locked, blocks, 0);
    kvc_store_stamped(ctx, worker, &other, blocks, 1);
    kvc_expect_int(ctx, "chunks found", kvc_lookup(ctx, worker, &locked), 2);
    kvc_clear(ctx, false);
    kvc_expect_hits(ctx, worker, &other, 0);
    kvc_poison(worker);
    kvc_expect_true(ctx, "success of the retrieve", kvc_retrieve(ctx, worker, &locked, blocks, 0));
    kvc_expect_stamped(ctx, worker, &locked, blocks, 0);
}
KVC_CHECK(
    spares_locked, .id = "control/clear-spares-locked",
    .clause = "CLEAR without force keeps the chunks that a lookup has locked, and drops the rest.",
    .source = "protocol 4.15, B70",
    .exchange = "REGISTER, store x 2, LOOKUP one, CLEAR, LOOKUP the other, retrieve",
    .level = KVC_LEVEL_MUST, .features = KVC_FEATURE_CLEAR_FORCE,
    .flags = KVC_FLAG_DESTRUCTIVE | KVC_FLAG_EXCLUSIVE, .paths = KVC_PATHS_ALL,
    .run = spares_locked);

static void forces_locked(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 2));
    kvc_store_stamped(ctx, worker, &key, kvc_chunk_blocks(ctx, worker, 2), 0);
    kvc_expect_int(ctx, "chunks found", kvc_lookup(ctx, worker, &key), 2);
    kvc_clear(ctx, true);
    kvc_poison(worker);
    kvc_expect_false(ctx, "success of a retrieve of dropped chunks",
                     kvc_retrieve(ctx, worker, &key, kvc_chunk_blocks(ctx, worker, 2), 0));
    kvc_expect_untouched(ctx, worker);
    kvc_expect_hits(ctx, worker, &key, 0);
}
KVC_CHECK(forces_locked, .id = "control/clear-forces-locked",
          .clause = "CLEAR with force, and every CLEAR without the flag, drops locked chunks, too; "
                    "retrieving them is refused.",
          .source = "protocol 4.15, B70",
          .exchange = "REGISTER, store, LOOKUP, CLEAR, retrieve, LOOKUP",
          .level = KVC_LEVEL_OBSERVED, .flags = KVC_FLAG_DESTRUCTIVE | KVC_FLAG_EXCLUSIVE,
          .paths = KVC_PATHS_ALL, .run = forces_locked);

/* ---- chunks that somebody is writing ---- */

static void spares_pending(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 1));
    const struct kvc_transfer_context *context = kvc_prepare_slots(ctx, worker, &key, 1);
    kvc_clear(ctx, false);
    kvc_stamp_slots(ctx, worker, &key, context, 0);
    kvc_expect_true(ctx, "COMMIT_STORE after CLEAR", kvc_commit_store(ctx, worker, &key));
    kvc_retrieve_stamped(ctx, worker, &key, kvc_chunk_blocks(ctx, worker, 1), 0);
}
KVC_CHECK(
    spares_pending, .id = "control/clear-spares-pending",
    .clause = "CLEAR without force keeps a store that is under way: it can be committed and read.",
    .source = "protocol 4.10, 4.15, B70",
    .exchange = "REGISTER, PREPARE_STORE, CLEAR, COMMIT_STORE, LOOKUP, retrieve",
    .level = KVC_LEVEL_OBSERVED, .features = KVC_FEATURE_CLEAR_FORCE,
    .needs = KVC_NEED_POOL | KVC_NEED_ENGINE_DRIVEN,
    .flags = KVC_FLAG_DESTRUCTIVE | KVC_FLAG_EXCLUSIVE, .run = spares_pending);

static void publishes_nothing_dropped(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    struct kvc_worker *other = kvc_sibling_worker(ctx, worker);
    const struct kvc_key dropped = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 1));
    const struct kvc_key later = kvc_key_for(ctx, other, kvc_fresh_chunks(ctx, 1));
    kvc_prepare_slots(ctx, worker, &dropped, 1);
    kvc_clear(ctx, true);
    kvc_store_stamped(ctx, other, &later, kvc_chunk_blocks(ctx, other, 1), 1);
    kvc_commit_store(ctx, worker, &dropped); /* true or false: both are seen */
    kvc_expect_hits(ctx, worker, &dropped, 0);
    kvc_retrieve_stamped(ctx, other, &later, kvc_chunk_blocks(ctx, other, 1), 1);
}
KVC_CHECK(
    publishes_nothing_dropped, .id = "control/clear-drops-pending",
    .clause = "A store that was under way at a forced CLEAR does not become a hit when it is "
              "committed, and takes nothing from stores after it.",
    .source = "protocol 4.10, 4.15, 11.3, B70",
    .exchange = "REGISTER x 2, PREPARE_STORE, CLEAR, store by the other, COMMIT_STORE, LOOKUP",
    .level = KVC_LEVEL_MUST, .needs = KVC_NEED_POOL | KVC_NEED_ENGINE_DRIVEN,
    .flags = KVC_FLAG_DESTRUCTIVE | KVC_FLAG_EXCLUSIVE, .run = publishes_nothing_dropped);

/* ---- a CLEAR of another dialect ---- */

static void ignores_foreign_clear(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 1));
    kvc_store_stamped(ctx, worker, &key, kvc_chunk_blocks(ctx, worker, 1), 0);
    const struct kvc_request request = {.op = KVC_OP_CLEAR, .force = true};
    struct kvc_frames own = {0}, foreign = {0};
    struct kvc_error err = KVC_ERROR_INIT;
    kvc_expect_ok(ctx, "CLEAR", kvc_request_encode(worker->rpc.dialect, &request, &own, &err),
                  &err);
    kvc_frames_append_copy(&foreign, own.items[0].data, own.items[0].size);
    if (own.count == 1)
        kvc_frames_append_copy(&foreign, "\xc3", 1);
    kvc_frames_clear(&own);
    kvc_expect_silence_raw(ctx, &worker->rpc, &foreign, "a CLEAR as another dialect sends it");
    kvc_expect_hits(ctx, worker, &key, 1);
}
KVC_CHECK(ignores_foreign_clear, .id = "control/clear-of-another-dialect",
          .clause = "CLEAR with the payload of another dialect is not answered and clears nothing.",
          .source = "protocol 4.15, 10.26, B13",
          .exchange = "REGISTER, store, CLEAR, NOOP, LOOKUP, QUERY", .level = KVC_LEVEL_SHOULD,
          .flags = KVC_FLAG_DESTRUCTIVE | KVC_FLAG_EXCLUSIVE, .run = ignores_foreign_clear);
