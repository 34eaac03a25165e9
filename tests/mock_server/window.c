#include "tests/mock_server/window.h"

#include <string.h>

/* Ranks and world sizes take 8 bits each in an object's rank. */
enum { MOCK_MAX_RANKS = 255 };

/* How many chunks behind the tokens even a server that does not look will believe in. */
enum { MOCK_MAX_UNBOUNDED = 64 };

static bool tokens_fit(struct mock_call *call, struct kvc_ints *tokens)
{
    uint64_t high_bits = 0;
    for (size_t i = 0; i < tokens->count; i++)
        high_bits |= (uint64_t)tokens->items[i] >> 32;
    if (high_bits == 0)
        return true;
    if (!mock_has(call->mock, MOCK_DEFECT_TOKENS_WRAPPED)) {
        mock_refuse(call, "a token does not fit 32 bits");
        return false;
    }
    int64_t *cut = kvc_arena_alloc_array(call->arena, tokens->count, sizeof(*cut));
    for (size_t i = 0; i < tokens->count; i++)
        cut[i] = (int64_t)(uint32_t)tokens->items[i];
    tokens->items = cut;
    return true;
}

bool mock_window_of_tokens(struct mock_call *call, struct mock_window *window)
{
    struct mock *mock = call->mock;
    const struct kvc_key *key = &call->request->key;
    const int64_t worker = key->worker_id.present ? key->worker_id.value : 0;
    if (key->world_size < 1 || key->world_size > MOCK_MAX_RANKS || worker < 0 ||
        worker > MOCK_MAX_RANKS) {
        mock_refuse(call, "worker %lld of a world of %lld is none", (long long)worker,
                    (long long)key->world_size);
        return false;
    }
    struct kvc_ints tokens = key->token_ids;
    if (!tokens_fit(call, &tokens))
        return false;
    struct mock_session *session = mock_session_get(&mock->sessions, key->request_id, mock->now_ms);
    *window = (struct mock_window){
        .mock = mock,
        .key = key,
        .session = session,
        .hashes = mock_session_hashes(session, tokens, mock->options.chunk_size,
                                      mock_has(mock, MOCK_DEFECT_SESSION_HASH_TRAP)),
        .chunks = (int64_t)tokens.count / mock->options.chunk_size,
        .worker = worker,
    };
    return true;
}

bool mock_window_read(struct mock_call *call, struct mock_window *window)
{
    const struct mock *mock = call->mock;
    const struct kvc_key *key = &call->request->key;
    const int64_t chunk_size = mock->options.chunk_size;
    if (!key->worker_id.present && !mock_has(mock, MOCK_DEFECT_NIL_WORKER_IS_ZERO)) {
        mock_refuse(call, "a transfer needs a worker_id");
        return false;
    }
    if ((key->start % chunk_size != 0 || key->end % chunk_size != 0) &&
        !mock_has(mock, MOCK_DEFECT_UNALIGNED_ROUNDED)) {
        mock_refuse(call, "[%lld, %lld) does not begin and end on a chunk of %lld tokens",
                    (long long)key->start, (long long)key->end, (long long)chunk_size);
        return false;
    }
    if (key->end > (int64_t)key->token_ids.count && !mock_has(mock, MOCK_DEFECT_END_UNBOUNDED)) {
        mock_refuse(call, "the window ends at %lld, there are %zu tokens", (long long)key->end,
                    key->token_ids.count);
        return false;
    }
    if (!mock_window_of_tokens(call, window))
        return false;
    if (key->start >= 0 && key->start < key->end) {
        window->first = key->start / chunk_size;
        window->count = key->end / chunk_size - window->first;
    }
    if (window->first + window->count > window->chunks + MOCK_MAX_UNBOUNDED) {
        mock_refuse(call, "the window ends at %lld", (long long)key->end);
        return false;
    }
    return true;
}

static int64_t kv_rank(int64_t world_size, int64_t worker)
{
    return world_size << 24 | worker << 16 | world_size << 8 | worker;
}

static void chunk_hash(const struct mock_window *window, int64_t chunk,
                       uint8_t hash[KVC_BLAKE3_SIZE])
{
    const int64_t chunk_size = window->mock->options.chunk_size;
    if (chunk >= window->chunks) {
        memset(hash, 0, KVC_BLAKE3_SIZE);
        memcpy(hash, &chunk, sizeof(chunk));
    } else if (mock_has(window->mock, MOCK_DEFECT_HASH_NOT_CHAINED)) {
        kvc_chunk_hashes(window->key->token_ids.items + chunk * chunk_size, (size_t)chunk_size,
                         chunk_size, hash);
    } else {
        memcpy(hash, window->hashes + chunk * KVC_BLAKE3_SIZE, KVC_BLAKE3_SIZE);
    }
}

struct mock_object_key mock_window_key(const struct mock_window *window, int64_t chunk,
                                       int64_t worker)
{
    const struct mock *mock = window->mock;
    const struct kvc_key *key = window->key;
    struct mock_object_key object = {0};
    chunk_hash(window, chunk, object.hash);
    if (!mock_has(mock, MOCK_DEFECT_MODEL_NOT_IN_KEY))
        object.model = key->model_name;
    if (!mock_has(mock, MOCK_DEFECT_SALT_NOT_IN_KEY))
        object.salt = key->cache_salt;
    object.kv_rank = kv_rank(mock_has(mock, MOCK_DEFECT_WORLD_NOT_IN_KEY) ? 1 : key->world_size,
                             mock_has(mock, MOCK_DEFECT_WORKER_NOT_IN_KEY) ? 0 : worker);
    return object;
}

struct mock_object *mock_window_object(const struct mock_window *window, int64_t i)
{
    const struct mock_object_key key = mock_window_key(window, window->first + i, window->worker);
    return mock_store_find(&window->mock->store, &key);
}

struct mock_object *mock_window_readable(const struct mock_window *window, int64_t i)
{
    struct mock_object *object = mock_window_object(window, i);
    if (object == NULL || !mock_object_is_visible(window->mock, object))
        return NULL;
    if (mock_object_locks(object, window->mock->now_ms) == 0 &&
        !mock_has(window->mock, MOCK_DEFECT_RETRIEVE_NEEDS_NO_LOCK))
        return NULL;
    return object;
}

void mock_window_unlock(const struct mock_window *window)
{
    for (int64_t i = 0; i < window->count; i++) {
        struct mock_object *object = mock_window_object(window, i);
        if (object != NULL && mock_object_locks(object, window->mock->now_ms) > 0)
            mock_object_unlock(object, &window->session->locks);
    }
}

void mock_window_reserve_for_nobody(struct mock *mock, const struct mock_window *window,
                                    const struct mock_chunk_layout *layout)
{
    for (int64_t i = 0; i < window->count; i++) {
        const struct mock_object_key key =
            mock_window_key(window, window->first + i, window->worker);
        if (mock_store_find(&mock->store, &key) == NULL)
            mock_store_reserve(&mock->store, &key, layout, mock->now_ms);
    }
}

bool mock_object_is_visible(const struct mock *mock, const struct mock_object *object)
{
    return object->ready || mock_has(mock, MOCK_DEFECT_LOOKUP_SEES_UNCOMMITTED);
}

bool mock_object_fits(const struct mock *mock, const struct mock_object *object,
                      const struct mock_chunk_layout *layout)
{
    if (mock_has(mock, MOCK_DEFECT_OTHER_GEOMETRY_SERVED))
        return object->layout.bytes == layout->bytes;
    return mock_chunk_layout_equal(&object->layout, layout);
}
