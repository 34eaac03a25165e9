#include "tests/conformance/eviction_fixture.h"

#include "src/base/clock.h"

enum { POOL_CHUNKS = 8, SLOT_ALIGN = 4096, LEASE_MS = 150 };

const struct kvc_target_setup kvc_tiny_pool = {.name = "tiny-pool",
                                               .pool_bytes = KVC_TINY_POOL_BYTES};
const struct kvc_target_setup kvc_tiny_pool_short_lease = {.name = "tiny-pool-short-lease",
                                                           .pool_bytes = KVC_TINY_POOL_BYTES,
                                                           .read_ttl_ms = LEASE_MS,
                                                           .write_ttl_ms = LEASE_MS};

struct kvc_worker *kvc_crowding_worker(struct kvc_ctx *ctx)
{
    struct kvc_worker_options options = kvc_worker_defaults(ctx);
    struct kvc_group *group = &options.geometry.groups[0];
    group->head_size = 1;
    const int64_t smallest = kvc_geometry_chunk_bytes(&options.geometry, options.chunk_size);
    group->head_size = KVC_TINY_POOL_BYTES / POOL_CHUNKS / smallest;
    kvc_clear(ctx, true);
    return kvc_open_worker(ctx, &options);
}

int64_t kvc_pool_chunks(const struct kvc_worker *worker)
{
    const int64_t bytes =
        kvc_geometry_chunk_bytes(&worker->options.geometry, worker->options.chunk_size);
    return KVC_TINY_POOL_BYTES / ((bytes + SLOT_ALIGN - 1) / SLOT_ALIGN * SLOT_ALIGN);
}

/* Stores one fresh chunk; whether it is found within that time. STORE shows a little after its answer,
 * the engine-driven stores at once. */
static bool store_and_find(struct kvc_ctx *ctx, struct kvc_worker *worker, int64_t patience_ms)
{
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 1));
    kvc_store(ctx, worker, &key, kvc_chunk_blocks(ctx, worker, 1));
    const int64_t deadline = kvc_now_ms() + patience_ms;
    while (kvc_peek(ctx, worker, &key) == 0) {
        if (worker->path != KVC_PATH_LMCACHE_DRIVEN || kvc_now_ms() >= deadline)
            return false;
        kvc_sleep_ms(2);
    }
    return true;
}

bool kvc_finds_room(struct kvc_ctx *ctx, struct kvc_worker *worker)
{
    return store_and_find(ctx, worker, kvc_ctx_facts(ctx)->silence_ms);
}

void kvc_crowd(struct kvc_ctx *ctx, struct kvc_worker *worker, int64_t chunks)
{
    for (int64_t i = 0; i < chunks; i++) {
        const int64_t deadline = kvc_now_ms() + kvc_ctx_facts(ctx)->timeout_ms;
        while (!kvc_finds_room(ctx, worker)) {
            KVC_EXPECT(
                ctx, kvc_now_ms() < deadline,
                "of %lld chunks stored one after the other, number %lld is not found, though "
                "older ones that nobody has locked could go",
                (long long)chunks, (long long)(i + 1));
            kvc_sleep_ms(10);
        }
    }
}

bool kvc_soon_finds_room(struct kvc_ctx *ctx, struct kvc_worker *worker)
{
    const int64_t deadline = kvc_now_ms() + kvc_ctx_setup(ctx)->write_ttl_ms + 2000;
    while (!kvc_finds_room(ctx, worker)) {
        if (kvc_now_ms() >= deadline)
            return false;
        kvc_sleep_ms(10);
    }
    return true;
}

/* The pair of chunks from `first` on, or what is left of it. */
static struct kvc_key pair_of(const struct kvc_worker *worker, const struct kvc_key *key,
                              int64_t first)
{
    const int64_t left = key->end / worker->options.chunk_size - first;
    return kvc_key_chunks(worker, key, first, left < 2 ? left : 2);
}

static struct kvc_ints blocks_for(struct kvc_ctx *ctx, const struct kvc_worker *worker,
                                  const struct kvc_key *pair)
{
    return kvc_chunk_blocks(ctx, worker, (pair->end - pair->start) / worker->options.chunk_size);
}

static void send_in_pairs(struct kvc_ctx *ctx, struct kvc_worker *worker, const struct kvc_key *key)
{
    for (int64_t first = 0; first < key->end / worker->options.chunk_size; first += 2) {
        const struct kvc_key pair = pair_of(worker, key, first);
        const struct kvc_ints blocks = blocks_for(ctx, worker, &pair);
        kvc_stamp(ctx, worker, &pair, blocks, 0);
        kvc_expect_true(ctx, "success of the store", kvc_store(ctx, worker, &pair, blocks));
    }
}

void kvc_store_in_pairs(struct kvc_ctx *ctx, struct kvc_worker *worker, const struct kvc_key *key)
{
    send_in_pairs(ctx, worker, key);
    kvc_expect_visible(ctx, worker, key, key->end / worker->options.chunk_size);
}

static bool soon_found(struct kvc_ctx *ctx, struct kvc_worker *worker, const struct kvc_key *key)
{
    const int64_t deadline = kvc_now_ms() + kvc_ctx_facts(ctx)->silence_ms;
    while (kvc_peek(ctx, worker, key) < key->end / worker->options.chunk_size) {
        if (kvc_now_ms() >= deadline)
            return false;
        kvc_sleep_ms(2);
    }
    return true;
}

struct kvc_key kvc_store_pressed(struct kvc_ctx *ctx, struct kvc_worker *worker, int64_t chunks)
{
    const int64_t deadline = kvc_now_ms() + kvc_ctx_facts(ctx)->timeout_ms;
    struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, chunks));
    for (;; key = kvc_key_renamed(ctx, &key)) {
        send_in_pairs(ctx, worker, &key);
        if (soon_found(ctx, worker, &key))
            return key;
        KVC_EXPECT(
            ctx, kvc_now_ms() < deadline,
            "%lld chunks, stored again and again, are never all found, though older ones that "
            "nobody has locked could go",
            (long long)chunks);
    }
}

/* Gives back what a lookup that found so many chunks has locked. */
static void unlock(struct kvc_ctx *ctx, struct kvc_worker *worker, const struct kvc_key *key,
                   int64_t chunks)
{
    const struct kvc_key found = kvc_key_chunks(worker, key, 0, chunks);
    if (chunks > 0)
        kvc_free_locks(ctx, worker, &found);
    kvc_end_session(ctx, worker, key);
}

struct kvc_key kvc_fill_with_locked(struct kvc_ctx *ctx, struct kvc_worker *worker)
{
    const int64_t chunks = kvc_pool_chunks(worker);
    const int64_t deadline = kvc_now_ms() + kvc_ctx_facts(ctx)->timeout_ms;
    struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, chunks));
    key.cache_salt = kvc_fresh_name(ctx, "salt");
    for (;;) {
        send_in_pairs(ctx, worker, &key);
        const int64_t locked = kvc_lookup(ctx, worker, &key);
        if (locked == chunks || kvc_now_ms() >= deadline) {
            kvc_expect_int(ctx, "chunks that LOOKUP finds", locked, chunks);
            return key;
        }
        unlock(ctx, worker, &key, locked);
        kvc_sleep_ms(5);
        key = kvc_key_renamed(ctx, &key);
    }
}

void kvc_retrieve_in_pairs(struct kvc_ctx *ctx, struct kvc_worker *worker,
                           const struct kvc_key *key, int64_t first)
{
    for (; first < key->end / worker->options.chunk_size; first += 2) {
        const struct kvc_key pair = pair_of(worker, key, first);
        const struct kvc_ints blocks = blocks_for(ctx, worker, &pair);
        kvc_poison(worker);
        kvc_expect_true(ctx, "success of the retrieve of locked chunks",
                        kvc_retrieve(ctx, worker, &pair, blocks, 0));
        kvc_expect_stamped(ctx, worker, &pair, blocks, 0);
    }
}
