#include "src/base/clock.h"
#include "tests/mock_server/handlers.h"
#include "tests/mock_server/text.h"
#include "tests/mock_server/window.h"

/* As many readers as the servers allow; more are taken for a mistake. */
enum { MOCK_MAX_READERS = 128 };

/* A defect: when a lookup takes long, and how long. */
enum { MANY_RESULTS = 32, SLOW_LOOKUP_MS = 100 };

/* Locks that one lookup takes on each object (protocol.md 4.6); 0: the key does not say. */
static int64_t reader_count(const struct mock_call *call)
{
    const struct kvc_key *key = &call->request->key;
    const int64_t tp_size = call->request->tp_size;
    int64_t readers = key->num_kv_readers;
    if (!mock_speaks(call->mock, KVC_FEATURE_KV_READERS))
        readers = tp_size > 1 && tp_size > key->world_size ? tp_size : 1;
    if (readers == 0 && mock_has(call->mock, MOCK_DEFECT_NO_READERS_IS_ONE))
        return 1;
    return readers < MOCK_MAX_READERS ? readers : MOCK_MAX_READERS;
}

/* The ranks that a lookup key means: one, or all of them. */
struct ranks {
    int64_t first, end;
};

static struct ranks ranks_of(const struct kvc_key *key)
{
    if (key->worker_id.present)
        return (struct ranks){key->worker_id.value, key->worker_id.value + 1};
    return (struct ranks){0, key->world_size};
}

static struct mock_object *find(const struct mock_window *window, int64_t chunk, int64_t rank)
{
    const struct mock_object_key key = mock_window_key(window, chunk, rank);
    struct mock_object *object = mock_store_find(&window->mock->store, &key);
    return object != NULL && mock_object_is_visible(window->mock, object) ? object : NULL;
}

/* A defect: what there is below counts. */
static bool is_below(const struct mock_window *window, int64_t chunk, int64_t rank)
{
    const struct mock *mock = window->mock;
    const struct mock_object_key key = mock_window_key(window, chunk, rank);
    return mock->l2.is_open && mock_has(mock, MOCK_DEFECT_L2_EXISTENCE_COUNTS) &&
           mock_l2_has(&mock->l2, &key);
}

/* Whether every rank has the chunk. */
static bool is_complete(const struct mock_window *window, int64_t chunk)
{
    struct ranks ranks = ranks_of(window->key);
    if (mock_has(window->mock, MOCK_DEFECT_LOOKUP_ALL_HITS))
        return true;
    if (mock_has(window->mock, MOCK_DEFECT_LOOKUP_IGNORES_RANK) && ranks.end - ranks.first > 1)
        ranks.end--;
    for (int64_t rank = ranks.first; rank < ranks.end; rank++) {
        if (find(window, chunk, rank) == NULL && !is_below(window, chunk, rank))
            return false;
    }
    return true;
}

/* Brings into memory what is missing there of the leading chunks, as far as it lies below. */
static void fetch_missing(struct mock *mock, const struct mock_window *window, int64_t chunks,
                          const struct mock_chunk_layout *layout)
{
    const struct ranks ranks = ranks_of(window->key);
    for (int64_t chunk = 0; chunk < chunks; chunk++) {
        for (int64_t rank = ranks.first; rank < ranks.end; rank++) {
            const struct mock_object_key key = mock_window_key(window, chunk, rank);
            const struct mock_object *object = mock_store_find(&mock->store, &key);
            if (object == NULL)
                object = mock_l2_fetch(&mock->l2, &mock->store, &key, layout, mock->now_ms);
            if (object == NULL)
                return;
        }
    }
}

static int64_t count_hits(const struct mock_window *window, int64_t chunks)
{
    int64_t hits = 0;
    int64_t first = 0;
    if (mock_has(window->mock, MOCK_DEFECT_LOOKUP_FROM_START) && window->key->start > 0)
        first = window->key->start / window->mock->options.chunk_size;
    for (int64_t chunk = first; chunk < chunks; chunk++) {
        if (is_complete(window, chunk))
            hits++;
        else if (!mock_has(window->mock, MOCK_DEFECT_LOOKUP_COUNTS_GAPS))
            break;
    }
    return hits;
}

static void lock_chunk(struct mock *mock, const struct mock_window *window, int64_t chunk,
                       int64_t readers)
{
    const struct ranks ranks = ranks_of(window->key);
    for (int64_t rank = ranks.first; rank < ranks.end; rank++) {
        struct mock_object *object = find(window, chunk, rank);
        if (object == NULL || (mock_has(mock, MOCK_DEFECT_LOCKS_DO_NOT_ADD_UP) &&
                               mock_object_locks(object, mock->now_ms) > 0))
            continue;
        mock_store_lock(&mock->store, object, &window->session->locks, readers, mock->now_ms);
        mock_store_touch(&mock->store, object);
    }
}

static void remember_lookup(struct mock_session *session, const struct kvc_key *key, int64_t result)
{
    session->lookups++;
    session->has_result = true;
    session->result = result;
    mock_text_free(session->model);
    session->model = mock_text_copy(key->model_name);
    session->world_size = key->world_size;
}

/* Defects: what LOOKUP makes of the chunks that it has found. */
static int64_t miscount(const struct mock *mock, const struct mock_window *window, int64_t hits)
{
    const int64_t chunk_size = mock->options.chunk_size;
    const bool ends_inside_chunk = (int64_t)window->key->token_ids.count % chunk_size != 0;
    const bool has_all = hits == window->chunks;
    if (mock_has(mock, MOCK_DEFECT_LOOKUP_ONE_SHORT) && ends_inside_chunk && hits > 0)
        return hits - 1;
    if (mock_has(mock, MOCK_DEFECT_LOOKUP_ROUNDS_UP) && ends_inside_chunk && has_all)
        return hits + 1;
    if (mock_has(mock, MOCK_DEFECT_LOOKUP_END_UNBOUNDED) && has_all &&
        window->key->end > hits * chunk_size)
        return window->key->end / chunk_size;
    return hits;
}

/* Finds and locks the leading chunks that every rank has; returns how many. */
static int64_t look_up(struct mock *mock, const struct mock_window *window, int64_t chunks,
                       int64_t readers)
{
    const int64_t hits = miscount(mock, window, count_hits(window, chunks));
    if (mock_has(mock, MOCK_DEFECT_READERS_IGNORED))
        readers = 1;
    for (int64_t chunk = 0; chunk < hits; chunk++)
        lock_chunk(mock, window, chunk, readers);
    if (mock_has(mock, MOCK_DEFECT_LOOKUP_LOCKS_BEYOND) && hits < chunks)
        lock_chunk(mock, window, hits, readers);
    return hits;
}

/* A defect: how many results wait to be fetched. */
static size_t count_results(const struct mock_sessions *sessions)
{
    size_t count = 0;
    for (size_t i = 0; i < MOCK_SESSION_BUCKETS; i++) {
        const struct mock_session *session;
        LIST_FOREACH(session, &sessions->buckets[i], in_bucket)
        {
            count += session->has_result;
        }
    }
    return count;
}

enum mock_answer mock_on_lookup(struct mock_call *call)
{
    struct mock *mock = call->mock;
    const struct kvc_key *key = &call->request->key;
    if (mock_has(mock, MOCK_DEFECT_RESULTS_SLOW_LOOKUPS) &&
        count_results(&mock->sessions) > MANY_RESULTS)
        kvc_sleep_ms(SLOW_LOOKUP_MS);
    const int64_t readers = reader_count(call);
    if (readers < 1)
        return mock_refuse(call, "num_kv_readers is %lld, it must be at least 1",
                           (long long)key->num_kv_readers);
    struct mock_window window;
    if (!mock_window_of_tokens(call, &window))
        return MOCK_SILENCE;

    int64_t chunks = window.chunks;
    if (mock_speaks(mock, KVC_FEATURE_LOOKUP_END) !=
        mock_has(mock, MOCK_DEFECT_LOOKUP_END_INVERTED)) {
        const int64_t end = key->end > 0 ? key->end / mock->options.chunk_size : 0;
        chunks = end < chunks ? end : chunks;
    }
    int64_t hits = 0;
    struct mock_model *model =
        mock_registry_model(&mock->registry, key->model_name, key->world_size);
    if (model != NULL && mock->l2.is_open)
        fetch_missing(mock, &window, chunks, &model->last_layout);
    if (model != NULL || mock_has(mock, MOCK_DEFECT_LOOKUP_UNREGISTERED))
        hits = look_up(mock, &window, chunks, readers);
    if (model != NULL)
        model->last_result = hits;
    remember_lookup(window.session, key, hits);
    return MOCK_REPLY;
}

/* The session that has a result to fetch, or NULL. */
static struct mock_session *session_with_result(struct mock_call *call)
{
    struct mock_session *session =
        mock_session_find(&call->mock->sessions, call->request->request_id);
    return session != NULL && session->has_result ? session : NULL;
}

static int64_t result_of(const struct mock *mock, const struct mock_session *session)
{
    const struct mock_model *model =
        mock_registry_model(&mock->registry, session->model, session->world_size);
    return model != NULL && mock_has(mock, MOCK_DEFECT_RESULT_OF_LAST) ? model->last_result
                                                                       : session->result;
}

/* The result is delivered once; what nobody waits for is 0. */
enum mock_answer mock_on_query_status(struct mock_call *call)
{
    const struct mock *mock = call->mock;
    struct mock_session *session = session_with_result(call);
    call->reply->is_void = session == NULL
                               ? mock_has(mock, MOCK_DEFECT_UNKNOWN_REQUEST_VOID)
                               : session->lookups > 1 && mock_has(mock, MOCK_DEFECT_RESULT_LOST);
    if (session == NULL || call->reply->is_void)
        return MOCK_REPLY;
    call->reply->count = result_of(mock, session);
    session->has_result = mock_has(mock, MOCK_DEFECT_RESULT_KEPT);
    return MOCK_REPLY;
}

/* Chunks, but with a defect. */
static int64_t in_chunks(const struct mock *mock, int64_t chunks)
{
    return mock_has(mock, MOCK_DEFECT_WAIT_COUNTS_TOKENS) ? chunks * mock->options.chunk_size
                                                          : chunks;
}

enum mock_answer mock_on_query_hits(struct mock_call *call)
{
    const struct mock_session *session = session_with_result(call);
    if (session != NULL)
        call->reply->count = in_chunks(call->mock, session->result);
    return MOCK_REPLY;
}

/* Everything is in memory, so there is never anything to wait for. */
enum mock_answer mock_on_wait_status(struct mock_call *call)
{
    if (mock_has(call->mock, MOCK_DEFECT_WAIT_SLEEPS) && call->request->timeout_seconds > 0)
        kvc_sleep_ms((int64_t)(call->request->timeout_seconds < 60
                                   ? call->request->timeout_seconds * 1000
                                   : 60000));
    const enum mock_answer answer = mock_on_query_status(call);
    call->reply->count = in_chunks(call->mock, call->reply->count);
    return answer;
}

/* The window of a FREE_LOOKUP_LOCKS, clipped to the tokens. */
static struct ranks chunks_to_free(const struct mock_window *window)
{
    const int64_t chunk_size = window->mock->options.chunk_size;
    struct ranks chunks = {window->key->start / chunk_size, window->key->end / chunk_size};
    if (mock_has(window->mock, MOCK_DEFECT_FREE_IGNORES_RANGE))
        chunks = (struct ranks){0, window->chunks};
    chunks.first = chunks.first > 0 ? chunks.first : 0;
    chunks.end = chunks.end < window->chunks ? chunks.end : window->chunks;
    return chunks;
}

/* Gives back what one lookup of this session took on the object. */
static void free_object(const struct mock_window *window, struct mock_object *object)
{
    struct mock_lock *lock = mock_object_lock_of(object, &window->session->locks);
    if (lock == NULL && mock_has(window->mock, MOCK_DEFECT_FREE_TAKES_OTHERS))
        lock = LIST_FIRST(&object->locks);
    if (lock != NULL)
        mock_lock_release(lock, lock->step < lock->count ? lock->step : lock->count);
}

enum mock_answer mock_on_free_locks(struct mock_call *call)
{
    const struct mock *mock = call->mock;
    struct mock_window window;
    if (!mock_window_of_tokens(call, &window))
        return MOCK_SILENCE;
    if (mock_has(mock, MOCK_DEFECT_FREE_IGNORED))
        return MOCK_REPLY;
    if (mock_has(mock, MOCK_DEFECT_FREE_SILENT) &&
        mock_registry_model(&mock->registry, window.key->model_name, window.key->world_size) ==
            NULL)
        return MOCK_SILENCE;
    struct ranks ranks = ranks_of(window.key);
    const struct ranks chunks = chunks_to_free(&window);
    if (mock_has(mock, MOCK_DEFECT_FREE_FIRST_RANK_ONLY))
        ranks.end = ranks.first + 1;
    for (int64_t chunk = chunks.first; chunk < chunks.end; chunk++) {
        for (int64_t rank = ranks.first; rank < ranks.end; rank++) {
            struct mock_object_key key = mock_window_key(&window, chunk, rank);
            if (mock_has(mock, MOCK_DEFECT_FREE_FORGETS_SALT))
                key.salt = (struct kvc_str){0};
            struct mock_object *object = mock_store_find(&mock->store, &key);
            if (object != NULL && mock_object_locks(object, mock->now_ms) > 0)
                free_object(&window, object);
        }
    }
    return MOCK_REPLY;
}

enum mock_answer mock_on_end_session(struct mock_call *call)
{
    struct mock *mock = call->mock;
    struct mock_session *session = mock_session_find(&mock->sessions, call->request->request_id);
    mock_transfers_end_session(&mock->transfers, &mock->store, call->request->request_id,
                               mock_has(mock, MOCK_DEFECT_END_SESSION_ABORTS_STORE));
    if (mock_has(mock, MOCK_DEFECT_END_SESSION_DROPS_CHUNKS))
        mock_transfers_drop_stored(&mock->store, call->request->request_id);
    if (session == NULL)
        return mock_has(mock, MOCK_DEFECT_END_UNKNOWN_SILENT) ? MOCK_SILENCE : MOCK_REPLY;
    const bool model_is_gone =
        session->lookups > 0 &&
        mock_registry_model(&mock->registry, session->model, session->world_size) == NULL;
    if (mock_has(mock, MOCK_DEFECT_END_SESSION_KEEPS_LOCKS))
        mock_holder_pass(&session->locks, &mock->orphans);
    if (mock_has(mock, MOCK_DEFECT_SESSIONS_STAY))
        mock_holder_release(&session->locks);
    else
        mock_session_end(&mock->sessions, session);
    if (mock_has(mock, MOCK_DEFECT_END_SESSION_SILENT) && model_is_gone)
        return MOCK_SILENCE;
    return MOCK_REPLY;
}
