#include "tests/conformance/l2_fixture.h"

#include <stdlib.h>
#include <unistd.h>

#include "src/base/clock.h"
#include "src/l2/key.h"

enum { POLL_MS = 2 };

const struct kvc_target_setup kvc_files_below = {.name = "files-below", .l2 = true};

static uint32_t rank_of(const struct kvc_worker_options *options)
{
    const uint32_t world = options->world_size > 0 ? (uint32_t)options->world_size : 1;
    const uint32_t rank = (uint32_t)options->worker_id;
    return world << 24 | rank << 16 | world << 8 | rank;
}

const char *kvc_l2_path(struct kvc_ctx *ctx, const struct kvc_worker *worker,
                        const struct kvc_key *key, int64_t chunk)
{
    const int64_t chunk_size = worker->options.chunk_size;
    const size_t tokens = (size_t)((chunk + 1) * chunk_size);
    uint8_t *hashes =
        kvc_arena_alloc(kvc_ctx_arena(ctx), tokens / (size_t)chunk_size * KVC_BLAKE3_SIZE);
    kvc_chunk_hashes(key->token_ids.items, tokens, chunk_size, hashes);
    const struct kvc_l2_key object = {
        .chunk_hash = {hashes + chunk * KVC_BLAKE3_SIZE, KVC_BLAKE3_SIZE},
        .model = key->model_name,
        .kv_rank = rank_of(&worker->options),
        .salt = key->cache_salt,
    };
    struct kvc_buffer path = {0};
    const char *kept = NULL;
    kvc_buffer_printf(&path, "%s/", kvc_ctx_facts(ctx)->l2_folder);
    if (kvc_l2_key_check(&object, NULL) == KVC_OK &&
        kvc_l2_key_append_file_name(&object, &path, NULL) == KVC_OK)
        kept = kvc_arena_copy_str(kvc_ctx_arena(ctx), kvc_str_of(kvc_buffer_text(&path))).data;
    kvc_buffer_clear(&path);
    return kept;
}

bool kvc_l2_is_there(struct kvc_ctx *ctx, const struct kvc_worker *worker,
                     const struct kvc_key *key, int64_t chunk)
{
    const char *path = kvc_l2_path(ctx, worker, key, chunk);
    return path != NULL && access(path, F_OK) == 0;
}

void kvc_l2_await(struct kvc_ctx *ctx, const struct kvc_worker *worker, const struct kvc_key *key)
{
    const int64_t limit_ms = kvc_ctx_facts(ctx)->timeout_ms;
    const int64_t deadline = kvc_now_ms() + limit_ms;
    for (int64_t chunk = 0; chunk < key->end / worker->options.chunk_size;) {
        if (kvc_l2_is_there(ctx, worker, key, chunk)) {
            chunk++;
            continue;
        }
        KVC_EXPECT(ctx, kvc_now_ms() < deadline,
                   "chunk %lld was stored, and %.1f s later there is no file %s", (long long)chunk,
                   (double)limit_ms / 1000, kvc_l2_path(ctx, worker, key, chunk));
        kvc_sleep_ms(POLL_MS);
    }
}

struct kvc_stored kvc_l2_store(struct kvc_ctx *ctx, struct kvc_worker *worker, int64_t chunks)
{
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, chunks));
    kvc_store_stamped(ctx, worker, &key, kvc_chunk_blocks(ctx, worker, chunks), 0);
    kvc_l2_await(ctx, worker, &key);
    return (struct kvc_stored){worker, key};
}

/* Of what a LOOKUP under this key has found and locked. */
static void retrieve(struct kvc_ctx *ctx, struct kvc_worker *worker, const struct kvc_key *key,
                     int64_t chunks, uint64_t request)
{
    if (chunks == 0)
        return;
    const struct kvc_key window = kvc_key_chunks(worker, key, 0, chunks);
    const struct kvc_ints blocks = kvc_chunk_blocks(ctx, worker, chunks);
    kvc_poison(worker);
    kvc_expect_true(ctx, "success of the retrieve of what LOOKUP has found",
                    kvc_retrieve(ctx, worker, &window, blocks, 0));
    kvc_expect_stamped(ctx, worker, &window, blocks, request);
}

void kvc_l2_expect(struct kvc_ctx *ctx, const struct kvc_stored *stored, int64_t chunks,
                   uint64_t request)
{
    const struct kvc_key key = kvc_key_renamed(ctx, &stored->key);
    kvc_expect_int(ctx, "leading chunks that LOOKUP finds", kvc_lookup(ctx, stored->worker, &key),
                   chunks);
    retrieve(ctx, stored->worker, &key, chunks, request);
}

int64_t kvc_l2_expect_whole(struct kvc_ctx *ctx, const struct kvc_stored *stored, uint64_t request)
{
    const struct kvc_key key = kvc_key_renamed(ctx, &stored->key);
    const int64_t chunks = kvc_lookup(ctx, stored->worker, &key);
    retrieve(ctx, stored->worker, &key, chunks, request);
    return chunks;
}
