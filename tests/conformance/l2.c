/* Chunks that a server keeps in files below its memory: found and read from there, whole and their own,
 * or not found. */
#include <sys/stat.h>
#include <unistd.h>

#include "src/base/clock.h"
#include "tests/conformance/l2_fixture.h"

enum { CHUNKS = 3 };

static void names_files(struct kvc_ctx *ctx)
{
    kvc_l2_store(ctx, kvc_default_worker(ctx), CHUNKS);
}
KVC_CHECK(names_files, .id = "l2/file-names",
          .clause = "What is stored is soon in files below, a file a chunk, named as LMCache's fs "
                    "adapter names them.",
          .source = "protocol 7.5", .exchange = "REGISTER, store; a look into the folder",
          .level = KVC_LEVEL_OBSERVED, KVC_L2_CHECK, .run = names_files);

static void reads_back(struct kvc_ctx *ctx)
{
    const struct kvc_stored stored = kvc_l2_store(ctx, kvc_default_worker(ctx), CHUNKS);
    kvc_clear(ctx, true);
    kvc_l2_expect(ctx, &stored, CHUNKS, 0);
}
KVC_CHECK(reads_back, .id = "l2/round-trip",
          .clause =
              "What memory has forgotten and is below is found by LOOKUP, and retrieved as it "
              "was stored.",
          .source = "protocol 4.7, 7.5", .exchange = "REGISTER, store, CLEAR, LOOKUP, retrieve",
          .level = KVC_LEVEL_MUST, .after = "l2/file-names", KVC_L2_CHECK, .paths = KVC_PATHS_ALL,
          .run = reads_back);

/* ---- other keys ---- */

static const char *const neighbours[] = {"other-model", "other-salt", "other-tokens", NULL};

static void finds_no_neighbour(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_stored stored = kvc_l2_store(ctx, worker, CHUNKS);
    struct kvc_worker_options options = worker->options;
    options.instance_id = kvc_fresh_instance_id(ctx);
    options.model_name = kvc_fresh_name(ctx, "model");
    struct kvc_worker *other = kvc_open_worker(ctx, &options);
    const struct kvc_key of_model = kvc_key_for(ctx, other, stored.key.token_ids);
    const struct kvc_key of_tokens = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, CHUNKS));
    struct kvc_key of_salt = kvc_key_renamed(ctx, &stored.key);
    of_salt.cache_salt = kvc_fresh_name(ctx, "salt");
    const struct kvc_key keys[] = {of_model, of_salt, of_tokens};
    const size_t index = kvc_variant_index(ctx);
    kvc_clear(ctx, true);
    kvc_expect_hits(ctx, index == 0 ? other : worker, &keys[index], 0);
    kvc_l2_expect(ctx, &stored, CHUNKS, 0);
}
KVC_CHECK(finds_no_neighbour, .id = "l2/miss",
          .clause = "What is below under one key is not found under another.",
          .source = "protocol 7.5, B18, B24",
          .exchange = "REGISTER x 2, store, CLEAR, LOOKUP of the other key, LOOKUP, retrieve",
          .level = KVC_LEVEL_MUST, .after = "l2/file-names", KVC_L2_CHECK, .variants = neighbours,
          .run = finds_no_neighbour);

static const char *const other_sizes[] = {"larger", "smaller", NULL};

static void serves_no_other_size(struct kvc_ctx *ctx)
{
    struct kvc_worker_options wide = kvc_worker_defaults(ctx), narrow = wide;
    wide.geometry.groups[0].head_size *= 2;
    narrow.instance_id = kvc_fresh_instance_id(ctx);
    const bool stores_wide = kvc_ctx_variant_is(ctx, "larger");
    const struct kvc_stored stored =
        kvc_l2_store(ctx, kvc_open_worker(ctx, stores_wide ? &wide : &narrow), 1);
    kvc_worker_unregister(stored.worker, NULL); /* how it is answered is not the matter */
    kvc_clear(ctx, true);
    struct kvc_worker *reader = kvc_open_worker(ctx, stores_wide ? &narrow : &wide);
    const struct kvc_key key = kvc_key_renamed(ctx, &stored.key);
    bool success = false;
    kvc_poison(reader);
    kvc_lookup(ctx, reader, &key);
    const kvc_status status =
        kvc_worker_retrieve(reader, &key, kvc_chunk_blocks(ctx, reader, 1), 0, &success, NULL);
    KVC_EXPECT(ctx, status != KVC_OK || !success,
               "a chunk of another size, from below, is served as if it were of the reader's");
    kvc_expect_untouched(ctx, reader);
}
KVC_CHECK(serves_no_other_size, .id = "l2/other-size",
          .clause = "What lies below in another size than the reader's chunks is not served to it.",
          .source = "protocol 4.3, B24, B25",
          .exchange = "REGISTER, store, UNREGISTER, CLEAR; REGISTER of another shape, LOOKUP, "
                      "retrieve",
          .level = KVC_LEVEL_MUST, .after = "l2/file-names", KVC_L2_CHECK, .variants = other_sizes,
          .run = serves_no_other_size);

/* ---- objects that are not as they were ---- */

/* What becomes of which chunk's file. */
static const char *const losses[] = {
    "first-missing", "middle-missing", "last-missing", "cut-in-half", "byte-less", "empty", NULL};
static const int64_t lost_chunks[] = {0, 1, CHUNKS - 1, 1, 1, 1};

static void damage(struct kvc_ctx *ctx, const struct kvc_stored *stored, int64_t chunk)
{
    const char *path = kvc_l2_path(ctx, stored->worker, &stored->key, chunk);
    const int64_t size = kvc_geometry_chunk_bytes(&stored->worker->options.geometry,
                                                  stored->worker->options.chunk_size);
    const int64_t left[] = {-1, -1, -1, size / 2, size - 1, 0};
    const int64_t new_size = left[kvc_variant_index(ctx)];
    struct kvc_error err = KVC_ERROR_INIT;
    if ((new_size < 0 ? unlink(path) : truncate(path, new_size)) != 0) {
        kvc_fail_errno(&err, "%s", path);
        kvc_ctx_error(ctx, "damaging an object", &err);
    }
}

static void finds_what_loads(struct kvc_ctx *ctx)
{
    const int64_t lost = lost_chunks[kvc_variant_index(ctx)];
    const struct kvc_stored stored = kvc_l2_store(ctx, kvc_default_worker(ctx), CHUNKS);
    damage(ctx, &stored, lost);
    kvc_clear(ctx, true);
    kvc_l2_expect(ctx, &stored, lost, 0);
}
KVC_CHECK(finds_what_loads, .id = "l2/failed-load",
          .clause = "A chunk that is not below, or not whole, is no hit, and ends the hits.",
          .source = "protocol 4.7, B35, N16, N18",
          .exchange = "REGISTER, store; a file is removed or cut; CLEAR, LOOKUP, retrieve",
          .level = KVC_LEVEL_MUST, .after = "l2/file-names", KVC_L2_CHECK, .variants = losses,
          .run = finds_what_loads);

/* Each chunk is whole, as one of two requests has stored it. */
static void expect_either(struct kvc_ctx *ctx, struct kvc_worker *worker, const struct kvc_key *key,
                          struct kvc_ints blocks)
{
    for (int64_t chunk = 0; chunk < CHUNKS; chunk++) {
        const struct kvc_key window = kvc_key_chunks(worker, key, chunk, 1);
        const struct kvc_ints own = kvc_blocks_of_chunks(worker, blocks, chunk, 1);
        const struct kvc_stamp_source first = {.seed = kvc_ctx_seed(ctx), .request = 0};
        if (kvc_stamp_check_blocks(&worker->paged, first, window.start, own.items, own.count, NULL,
                                   0, NULL) != KVC_OK)
            kvc_expect_stamped(ctx, worker, &window, own, 1);
    }
}

static void keeps_one_whole(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_stored stored = kvc_l2_store(ctx, worker, CHUNKS);
    const struct kvc_key again = kvc_key_renamed(ctx, &stored.key);
    const struct kvc_ints blocks = kvc_chunk_blocks(ctx, worker, CHUNKS);
    kvc_clear(ctx, true);
    kvc_store_stamped(ctx, worker, &again, blocks, 1);
    kvc_l2_store(ctx, worker, 1); /* what was stored before it is below by then, or soon */
    kvc_clear(ctx, true);
    const struct kvc_key key = kvc_key_renamed(ctx, &stored.key);
    kvc_expect_int(ctx, "leading chunks that LOOKUP finds", kvc_lookup(ctx, worker, &key), CHUNKS);
    kvc_poison(worker);
    kvc_expect_true(ctx, "success of the retrieve", kvc_retrieve(ctx, worker, &key, blocks, 0));
    expect_either(ctx, worker, &key, blocks);
}
KVC_CHECK(keeps_one_whole, .id = "l2/store-again",
          .clause = "Of a chunk that is stored a second time, with other bytes, one of the two is "
                    "below, whole.",
          .source = "B36", .exchange = "REGISTER, store, CLEAR, store, CLEAR, LOOKUP, retrieve",
          .level = KVC_LEVEL_MUST, .after = "l2/file-names", KVC_L2_CHECK, .run = keeps_one_whole);

static void await_size(struct kvc_ctx *ctx, const char *path, int64_t size)
{
    const int64_t limit_ms = kvc_ctx_facts(ctx)->timeout_ms;
    const int64_t deadline = kvc_now_ms() + limit_ms;
    struct stat there = {0};
    while (stat(path, &there) != 0 || there.st_size != size) {
        KVC_EXPECT(ctx, kvc_now_ms() < deadline,
                   "%.1f s after the chunk was stored again its file has %lld bytes, not %lld",
                   (double)limit_ms / 1000, (long long)there.st_size, (long long)size);
        kvc_sleep_ms(2);
    }
}

static void mends(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_stored stored = kvc_l2_store(ctx, worker, 1);
    const char *path = kvc_l2_path(ctx, worker, &stored.key, 0);
    struct stat whole;
    struct kvc_error err = KVC_ERROR_INIT;
    if (stat(path, &whole) != 0 || truncate(path, whole.st_size / 2) != 0) {
        kvc_fail_errno(&err, "%s", path);
        kvc_ctx_error(ctx, "cutting an object", &err);
    }
    kvc_clear(ctx, true);
    const struct kvc_key again = kvc_key_renamed(ctx, &stored.key);
    kvc_store_stamped(ctx, worker, &again, kvc_chunk_blocks(ctx, worker, 1), 0);
    await_size(ctx, path, whole.st_size);
    kvc_clear(ctx, true);
    kvc_l2_expect(ctx, &stored, 1, 0);
}
KVC_CHECK(mends, .id = "l2/mends",
          .clause = "A chunk that is stored when its file below is not whole is whole there "
                    "afterwards.",
          .source = "B35",
          .exchange = "REGISTER, store; its file is cut; CLEAR, store, CLEAR, LOOKUP, retrieve",
          .level = KVC_LEVEL_SHOULD, .after = "l2/file-names", KVC_L2_CHECK, .run = mends);
