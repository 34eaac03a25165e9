#include "tests/mock_server/window.h"

#include <string.h>

/* Ranks and world sizes take 8 bits each in an object's rank. */
enum { MOCK_MAX_RANKS = 255 };

/* How many chunks behind the tokens even a server that does not look will believe in. */
enum { MOCK_MAX_UNBOUNDED = 64 };

static bool tokens_fit(struct mock_call *call, struct kvc_ints *tokens)
{
    const int width = mock_has(call->mock, MOCK_DEFECT_TOKENS_SIGNED) ? 31 : 32;
    uint64_t high_bits = 0;
    for (size_t i = 0; i < tokens->count; i++)
        high_bits |= (uint64_t)tokens->items[i] >> width;
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

/* Defects: only these of the tokens are hashed, and so. */
static struct kvc_ints tokens_to_hash(struct mock_call *call, const struct mock_session *session,
                                      struct kvc_ints tokens)
{
    const struct mock *mock = call->mock;
    if (mock_has(mock, MOCK_DEFECT_SESSION_HASHES_FROZEN) && session->token_count > 0 &&
        session->token_count < tokens.count &&
        memcmp(session->tokens, tokens.items, session->token_count * sizeof(int64_t)) == 0)
        tokens.count = session->token_count;
    if (!mock_has(mock, MOCK_DEFECT_HASH_DROPS_LAST_TOKEN))
        return tokens;
    int64_t *items = kvc_arena_alloc_array(call->arena, tokens.count, sizeof(*items));
    for (size_t i = 0; i < tokens.count; i++)
        items[i] = (i + 1) % (size_t)mock->options.chunk_size == 0 ? 0 : tokens.items[i];
    return (struct kvc_ints){items, tokens.count};
}

/* A defect: model and salt as one text. */
static struct kvc_str joined_to_salt(struct mock_call *call, const struct kvc_key *key)
{
    const size_t size = key->model_name.size + 1 + key->cache_salt.size;
    char *text = kvc_arena_alloc(call->arena, size);
    memcpy(text, key->model_name.data, key->model_name.size);
    text[key->model_name.size] = '@';
    memcpy(text + key->model_name.size + 1, key->cache_salt.data, key->cache_salt.size);
    return (struct kvc_str){text, size};
}

/* What the objects' keys have beside hash and rank, each wrong in its own way with a defect. */
static void name_objects(struct mock_call *call, struct mock_window *window)
{
    const struct mock *mock = call->mock;
    const struct kvc_key *key = window->key;
    if (!mock_has(mock, MOCK_DEFECT_MODEL_NOT_IN_KEY))
        window->model = key->model_name;
    if (!mock_has(mock, MOCK_DEFECT_SALT_NOT_IN_KEY))
        window->salt = key->cache_salt;
    if (mock_has(mock, MOCK_DEFECT_MODEL_JOINED_TO_SALT) && key->cache_salt.size > 0) {
        window->model = joined_to_salt(call, key);
        window->salt = (struct kvc_str){0};
    }
    if (mock_has(mock, MOCK_DEFECT_CHUNKS_OF_ONE_CLIENT)) {
        uint8_t digest[KVC_BLAKE3_SIZE];
        kvc_blake3(call->identity.data, call->identity.size, digest);
        memcpy(&window->client, digest, sizeof(window->client));
    }
}

/* Defects: names that a server should take. */
static bool names_fit(struct mock_call *call)
{
    const struct kvc_key *key = &call->request->key;
    if (mock_has(call->mock, MOCK_DEFECT_SALT_TOO_STRICT) && key->cache_salt.size > 64) {
        mock_refuse(call, "the salt is too long");
        return false;
    }
    if (mock_has(call->mock, MOCK_DEFECT_EMPTY_REQUEST_ID_REFUSED) &&
        (key->request_id.size == 0 || key->request_id.size > 1024)) {
        mock_refuse(call, "the request id is empty or too long");
        return false;
    }
    return true;
}

bool mock_window_of_tokens(struct mock_call *call, struct mock_window *window)
{
    struct mock *mock = call->mock;
    const struct kvc_key *key = &call->request->key;
    const int64_t worker = key->worker_id.present ? key->worker_id.value : 0;
    const bool is_odd = worker < 0 || worker > MOCK_MAX_RANKS;
    if (key->world_size < 1 || key->world_size > MOCK_MAX_RANKS ||
        (is_odd && !mock_has(mock, MOCK_DEFECT_ODD_RANKS_TAKEN))) {
        mock_refuse(call, "worker %lld of a world of %lld is none", (long long)worker,
                    (long long)key->world_size);
        return false;
    }
    struct kvc_ints tokens = key->token_ids;
    if (!tokens_fit(call, &tokens) || !names_fit(call))
        return false;
    struct mock_session *session = mock_session_get(&mock->sessions, key->request_id, mock->now_ms);
    tokens = tokens_to_hash(call, session, tokens);
    *window = (struct mock_window){
        .mock = mock,
        .key = key,
        .session = session,
        .hashes = mock_session_hashes(session, tokens, mock->options.chunk_size,
                                      mock_has(mock, MOCK_DEFECT_SESSION_HASH_TRAP)),
        .chunks = (int64_t)tokens.count / mock->options.chunk_size,
        .worker = worker,
    };
    name_objects(call, window);
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
    const bool starts_early = key->start < 0;
    if (key->start < key->end && key->end > 0 &&
        (!starts_early || mock_has(mock, MOCK_DEFECT_NEGATIVE_START_CUT))) {
        window->first = starts_early ? 0 : key->start / chunk_size;
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
    const uint64_t world = (uint64_t)world_size, rank = (uint64_t)worker;
    return (int64_t)(world << 24 | rank << 16 | world << 8 | rank);
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
    struct mock_object_key object = {
        .model = window->model, .salt = window->salt, .client = window->client};
    chunk_hash(window, chunk, object.hash);
    object.kv_rank = kv_rank(mock_has(mock, MOCK_DEFECT_WORLD_NOT_IN_KEY) ? 1 : key->world_size,
                             mock_has(mock, MOCK_DEFECT_WORKER_NOT_IN_KEY) ? 0 : worker);
    return object;
}

struct mock_object *mock_window_object(const struct mock_window *window, int64_t i)
{
    const struct mock_object_key key = mock_window_key(window, window->first + i, window->worker);
    return mock_store_find(&window->mock->store, &key);
}

/* Whether the window's request may read an object: somebody has a lock on it. */
static bool may_read(const struct mock_window *window, struct mock_object *object)
{
    const struct mock *mock = window->mock;
    if (mock_object_locks(object, mock->now_ms) == 0)
        return mock_has(mock, MOCK_DEFECT_RETRIEVE_NEEDS_NO_LOCK);
    return !mock_has(mock, MOCK_DEFECT_LOCKS_OWNED) ||
           mock_object_lock_of(object, &window->session->locks) != NULL;
}

/* A defect: an object whose locks have expired stays readable, and its memory is used otherwise. */
static bool has_faded(const struct mock *mock, struct mock_object *object)
{
    if (!mock_has(mock, MOCK_DEFECT_EXPIRED_READ_ZEROS) || object->locks_end_ms == 0 ||
        mock->now_ms < object->locks_end_ms)
        return false;
    memset(mock_object_data(&mock->store, object), 0, (size_t)object->layout.bytes);
    return true;
}

struct mock_object *mock_window_readable(const struct mock_window *window, int64_t i)
{
    const struct mock *mock = window->mock;
    struct mock_object *object = mock_window_object(window, i);
    if (object == NULL || !mock_object_is_visible(mock, object))
        return NULL;
    return has_faded(mock, object) || may_read(window, object) ? object : NULL;
}

bool mock_window_suffices(const struct mock_window *window, int64_t found)
{
    const struct mock *mock = window->mock;
    if (window->count == 0)
        return mock_has(mock, MOCK_DEFECT_EMPTY_RETRIEVE_TRUE);
    if (found == 0)
        return mock_has(mock, MOCK_DEFECT_MISS_ALL_IS_SUCCESS);
    return found == window->count ||
           (found == window->count - 1 && mock_has(mock, MOCK_DEFECT_MISS_IS_SUCCESS));
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
    if (mock_has(mock, MOCK_DEFECT_OTHER_SIZE_SERVED))
        return layout->bytes <= mock->pool.size - object->offset;
    if (mock_has(mock, MOCK_DEFECT_OTHER_GEOMETRY_SERVED))
        return object->layout.bytes == layout->bytes;
    return mock_chunk_layout_equal(&object->layout, layout);
}
