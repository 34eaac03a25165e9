/* Transfers in both modes: what is stored and retrieved, prepared and committed. */
#include <stdlib.h>
#include <string.h>

#include "src/watch/state.h"
#include "src/wire/inline_data.h"

/* ---- lmcache-driven ---- */

static void check_mapped(struct kvc_watch *watch, const struct kvc_request *request)
{
    const struct watch_instance *instance = watch_instance_of(watch, WATCH_MAPPED, request);
    watch_check_transfer_key(watch, &request->key, instance);
    if (instance != NULL)
        watch_check_blocks(watch, request, instance);
}

void watch_on_store(struct kvc_watch *watch, const struct kvc_request *request)
{
    check_mapped(watch, request);
    watch_session_get(watch, &request->key);
}

void watch_on_retrieve(struct kvc_watch *watch, const struct kvc_request *request)
{
    check_mapped(watch, request);
    const struct watch_window window = watch_window_of(watch, &request->key);
    watch_locks_use(watch, watch_session_get(watch, &request->key), &window);
}

/* ---- what is prepared ---- */

static struct watch_transfer *find(struct kvc_watch *watch, bool is_store, int64_t instance_id,
                                   const uint8_t identity[KVC_BLAKE3_SIZE])
{
    struct watch_transfer *transfer;
    LIST_FOREACH(transfer, &watch->transfers, in_list)
    {
        if (transfer->is_store == is_store && transfer->instance_id == instance_id &&
            memcmp(transfer->identity, identity, KVC_BLAKE3_SIZE) == 0)
            return transfer;
    }
    return NULL;
}

static struct watch_transfer *find_of_key(struct kvc_watch *watch, bool is_store,
                                          const struct kvc_request *request)
{
    uint8_t identity[KVC_BLAKE3_SIZE];
    watch_key_identity(&request->key, identity);
    return find(watch, is_store, request->instance_id, identity);
}

static struct watch_transfer *find_of_flight(struct kvc_watch *watch,
                                             const struct watch_flight *flight)
{
    return find(watch, flight->op == KVC_OP_PREPARE_STORE, flight->instance_id, flight->identity);
}

static void end(struct watch_transfer *transfer)
{
    LIST_REMOVE(transfer, in_list);
    watch_free(transfer->request_id);
    free(transfer);
}

/* Begins one, unless the same was prepared already. */
static void prepare(struct kvc_watch *watch, bool is_store, const struct kvc_request *request)
{
    if (find_of_key(watch, is_store, request) != NULL)
        return;
    struct watch_transfer *transfer = kvc_alloc_zero(1, sizeof(*transfer));
    transfer->is_store = is_store;
    transfer->instance_id = request->instance_id;
    transfer->request_id = watch_copy(request->key.request_id);
    watch_key_identity(&request->key, transfer->identity);
    LIST_INSERT_HEAD(&watch->transfers, transfer, in_list);
}

void watch_not_prepared(struct kvc_watch *watch, const struct watch_flight *flight)
{
    struct watch_transfer *transfer = find_of_flight(watch, flight);
    if (transfer != NULL && !transfer->answered)
        end(transfer);
}

/* The instance of an engine-driven transfer, with its key checked and its session begun. */
static const struct watch_instance *begin(struct kvc_watch *watch,
                                          const struct kvc_request *request)
{
    const struct watch_instance *instance = watch_instance_of(watch, WATCH_ENGINE_DRIVEN, request);
    watch_check_transfer_key(watch, &request->key, instance);
    watch_session_get(watch, &request->key);
    return instance;
}

/* ---- storing ---- */

void watch_on_prepare_store(struct kvc_watch *watch, const struct kvc_request *request)
{
    if (begin(watch, request) != NULL)
        prepare(watch, true, request);
}

void watch_prepared_store(struct kvc_watch *watch, const struct watch_flight *flight,
                          const struct kvc_reply *reply)
{
    struct watch_transfer *transfer = find_of_flight(watch, flight);
    if (transfer == NULL)
        return;
    transfer->answered = true;
    transfer->slots += reply->context.slots.count;
}

static bool is_chunk(const struct watch_instance *instance, const struct kvc_inline_tensor *tensor)
{
    bool fits = tensor->shape.count == instance->rank;
    for (size_t i = 0; fits && i < instance->rank; i++)
        fits = instance->shape[i] == 0 || instance->shape[i] == tensor->shape.items[i];
    return fits;
}

static void check_inline_data(struct kvc_watch *watch, const struct kvc_request *request,
                              const struct watch_instance *instance)
{
    const int64_t chunks = watch_window_of(watch, &request->key).count;
    struct kvc_arena arena = {0};
    struct kvc_inline_tensor *tensors = NULL;
    size_t count = 0;
    struct kvc_error err = KVC_ERROR_INIT;
    if (kvc_inline_decode(request->data, &arena, &tensors, &count, &err) != KVC_OK) {
        char line[256];
        kvc_error_line(&err, line, sizeof(line));
        watch_found(watch, KVC_RULE_BAD_INLINE_DATA, "%zu bytes: %s", request->data.size, line);
    } else if ((int64_t)count < chunks) {
        watch_found(watch, KVC_RULE_BAD_INLINE_DATA, "%zu tensors for %lld chunks", count,
                    (long long)chunks);
    }
    for (size_t i = 0; i < count && (int64_t)i < chunks; i++) {
        if (!is_chunk(instance, &tensors[i]))
            watch_found(watch, KVC_RULE_BAD_INLINE_DATA, "tensor %zu has not the shape of a chunk",
                        i);
    }
    kvc_arena_clear(&arena);
}

void watch_on_commit_store(struct kvc_watch *watch, const struct kvc_request *request)
{
    const struct watch_instance *instance = begin(watch, request);
    if (instance == NULL || !instance->confirmed)
        return;
    struct watch_transfer *transfer = find_of_key(watch, true, request);
    if (!instance->has_pool)
        check_inline_data(watch, request, instance);
    else if (request->data.size > 0)
        watch_found(watch, KVC_RULE_INLINE_DESPITE_POOL, "%zu bytes", request->data.size);
    else if (transfer == NULL)
        watch_found(watch, KVC_RULE_COMMIT_WITHOUT_PREPARE, "[%lld, %lld) of request %s",
                    (long long)request->key.start, (long long)request->key.end,
                    kvc_text_show(request->key.request_id).text);
    else if (transfer->answered && transfer->slots == 0)
        watch_found(watch, KVC_RULE_COMMIT_WITHOUT_SLOTS, "[%lld, %lld) of request %s",
                    (long long)request->key.start, (long long)request->key.end,
                    kvc_text_show(request->key.request_id).text);
    if (transfer != NULL)
        end(transfer);
}

/* ---- retrieving ---- */

/* A retrieve that is prepared twice goes on with the locks of the first time. */
void watch_on_prepare_retrieve(struct kvc_watch *watch, const struct kvc_request *request)
{
    if (begin(watch, request) == NULL || find_of_key(watch, false, request) != NULL)
        return;
    const struct watch_window window = watch_window_of(watch, &request->key);
    watch_locks_use(watch, watch_session_find(watch, request->key.request_id), &window);
    prepare(watch, false, request);
}

/* Without slots there is nothing to give back: the data came inline, or the retrieve failed. */
void watch_prepared_retrieve(struct kvc_watch *watch, const struct watch_flight *flight,
                             const struct kvc_reply *reply)
{
    struct watch_transfer *transfer = find_of_flight(watch, flight);
    if (transfer == NULL)
        return;
    transfer->answered = true;
    transfer->slots = reply->retrieve.context.slots.count;
    if (transfer->slots == 0)
        end(transfer);
}

void watch_on_commit_retrieve(struct kvc_watch *watch, const struct kvc_request *request)
{
    const struct watch_instance *instance = begin(watch, request);
    struct watch_transfer *transfer = find_of_key(watch, false, request);
    if (transfer != NULL)
        end(transfer);
    else if (instance != NULL && instance->has_pool)
        watch_found(watch, KVC_RULE_COMMIT_WITHOUT_PREPARE, "[%lld, %lld) of request %s",
                    (long long)request->key.start, (long long)request->key.end,
                    kvc_text_show(request->key.request_id).text);
}

/* ---- what is left ---- */

static void account(struct kvc_watch *watch, const struct watch_transfer *transfer)
{
    if (transfer->slots == 0)
        return;
    watch_left(watch,
               transfer->is_store ? KVC_RULE_STORE_NOT_COMMITTED : KVC_RULE_RETRIEVE_NOT_COMMITTED,
               "%zu slots of request %s, instance %lld", transfer->slots,
               kvc_text_show(transfer->request_id).text, (long long)transfer->instance_id);
}

/* Of one request, or one instance, or (both NULL) all. */
static void end_all_of(struct kvc_watch *watch, const struct kvc_str *request_id,
                       const int64_t *instance_id)
{
    struct watch_transfer *transfer = LIST_FIRST(&watch->transfers);
    while (transfer != NULL) {
        struct watch_transfer *next = LIST_NEXT(transfer, in_list);
        if ((request_id == NULL || kvc_str_equal(transfer->request_id, *request_id)) &&
            (instance_id == NULL || transfer->instance_id == *instance_id)) {
            account(watch, transfer);
            end(transfer);
        }
        transfer = next;
    }
}

void watch_transfers_end_request(struct kvc_watch *watch, struct kvc_str request_id)
{
    end_all_of(watch, &request_id, NULL);
}

void watch_transfers_leave(struct kvc_watch *watch, int64_t instance_id)
{
    end_all_of(watch, NULL, &instance_id);
}

void watch_transfers_account(struct kvc_watch *watch)
{
    end_all_of(watch, NULL, NULL);
}

void watch_transfers_forget(struct kvc_watch *watch)
{
    while (!LIST_EMPTY(&watch->transfers))
        end(LIST_FIRST(&watch->transfers));
}

/* After it nothing is locked any more; a commit is still answered (protocol.md 4.10). */
void watch_on_clear(struct kvc_watch *watch, const struct kvc_request *request)
{
    if (kvc_dialect_has(watch->options.dialect, KVC_FEATURE_CLEAR_FORCE) && !request->force)
        return;
    const struct watch_transfer *transfer;
    LIST_FOREACH(transfer, &watch->transfers, in_list)
    {
        if (transfer->slots > 0)
            watch_found(watch, KVC_RULE_CLEAR_UNDER_TRANSFER, "request %s, instance %lld",
                        kvc_text_show(transfer->request_id).text, (long long)transfer->instance_id);
    }
    struct watch_session *session;
    TAILQ_FOREACH(session, &watch->sessions, in_list)
    {
        watch_locks_clear(session);
    }
}
