#include "tests/mock_server/transfers.h"

#include <stdlib.h>
#include <string.h>

static void add_int(struct kvc_buffer *buffer, int64_t value)
{
    kvc_buffer_append(buffer, &value, sizeof(value));
}

static void add_text(struct kvc_buffer *buffer, struct kvc_str text)
{
    add_int(buffer, (int64_t)text.size);
    kvc_buffer_append(buffer, text.data, text.size);
}

void mock_key_identity(const struct kvc_key *key, uint8_t identity[KVC_BLAKE3_SIZE])
{
    struct kvc_buffer buffer = {0};
    add_text(&buffer, key->model_name);
    add_int(&buffer, key->world_size);
    add_int(&buffer, key->worker_id.present ? key->worker_id.value : -1);
    add_int(&buffer, key->start);
    add_int(&buffer, key->end);
    add_text(&buffer, key->cache_salt);
    kvc_buffer_append(&buffer, key->token_ids.items, key->token_ids.count * sizeof(int64_t));
    kvc_blake3(buffer.data, buffer.size, identity);
    kvc_buffer_clear(&buffer);
}

static uint64_t request_hash(struct kvc_str request_id)
{
    uint8_t digest[KVC_BLAKE3_SIZE];
    uint64_t hash;
    kvc_blake3(request_id.data, request_id.size, digest);
    memcpy(&hash, digest, sizeof(hash));
    return hash;
}

struct mock_transfer *mock_transfer_begin(struct mock_transfers *transfers,
                                          enum mock_transfer_kind kind, int64_t instance_id,
                                          const struct kvc_key *key, struct mock_object **objects,
                                          size_t object_count, int64_t end_ms)
{
    struct mock_transfer *transfer = kvc_alloc_zero(1, sizeof(*transfer));
    transfer->kind = kind;
    transfer->instance_id = instance_id;
    mock_key_identity(key, transfer->identity);
    transfer->request = request_hash(key->request_id);
    transfer->end_ms = end_ms;
    transfer->objects = objects;
    transfer->object_count = object_count;
    for (size_t i = 0; i < object_count; i++)
        objects[i]->request = transfer->request;
    LIST_INSERT_HEAD(&transfers->list, transfer, in_list);
    return transfer;
}

struct mock_transfer *mock_transfer_find(struct mock_transfers *transfers,
                                         enum mock_transfer_kind kind, int64_t instance_id,
                                         const struct kvc_key *key)
{
    uint8_t identity[KVC_BLAKE3_SIZE];
    struct mock_transfer *transfer;
    mock_key_identity(key, identity);
    LIST_FOREACH(transfer, &transfers->list, in_list)
    {
        if (transfer->kind == kind && transfer->instance_id == instance_id &&
            memcmp(transfer->identity, identity, sizeof(identity)) == 0)
            return transfer;
    }
    return NULL;
}

bool mock_transfer_is_of(const struct mock_transfer *transfer, struct kvc_str request_id)
{
    return transfer->request == request_hash(request_id);
}

static void end_transfer(struct mock_transfer *transfer)
{
    mock_holder_release(&transfer->locks);
    LIST_REMOVE(transfer, in_list);
    mock_late_copy_free(transfer->late);
    free(transfer->objects);
    free(transfer);
}

void mock_transfer_publish_and_keep(struct mock_transfer *transfer, struct mock_store *store)
{
    for (size_t i = 0; i < transfer->object_count; i++)
        mock_store_publish(store, transfer->objects[i]);
    transfer->object_count = 0;
}

void mock_transfer_publish(struct mock_transfer *transfer, struct mock_store *store)
{
    mock_transfer_publish_and_keep(transfer, store);
    end_transfer(transfer);
}

void mock_transfer_put_off(struct mock_transfer *transfer, int64_t end_ms)
{
    transfer->kind = MOCK_STORED;
    transfer->end_ms = end_ms;
}

void mock_transfer_drop(struct mock_transfer *transfer, struct mock_store *store)
{
    for (size_t i = 0; i < transfer->object_count; i++)
        mock_store_remove(store, transfer->objects[i]);
    end_transfer(transfer);
}

/* Drops a reservation that its owner has given up. */
static void give_up(struct mock_transfers *transfers, struct mock_transfer *transfer,
                    struct mock_store *store)
{
    for (size_t i = 0; i < transfer->object_count; i++)
        transfer->objects[i]->keeps_room |= transfers->loses_room;
    mock_transfer_drop(transfer, store);
}

void mock_transfers_expire(struct mock_transfers *transfers, struct mock_store *store,
                           int64_t now_ms, bool leases_publish)
{
    struct mock_transfer *transfer = LIST_FIRST(&transfers->list);
    while (transfer != NULL) {
        struct mock_transfer *next = LIST_NEXT(transfer, in_list);
        if (now_ms >= transfer->end_ms) {
            if (transfer->kind == MOCK_STORED || leases_publish)
                mock_transfer_publish(transfer, store);
            else
                give_up(transfers, transfer, store);
        }
        transfer = next;
    }
}

void mock_transfers_end_session(struct mock_transfers *transfers, struct mock_store *store,
                                struct kvc_str request_id, bool drop)
{
    const uint64_t request = request_hash(request_id);
    struct mock_transfer *transfer = LIST_FIRST(&transfers->list);
    while (transfer != NULL) {
        struct mock_transfer *next = LIST_NEXT(transfer, in_list);
        if (transfer->kind == MOCK_STORED && transfer->request == request) {
            if (drop)
                mock_transfer_drop(transfer, store);
            else
                mock_transfer_publish(transfer, store);
        }
        transfer = next;
    }
}

void mock_transfers_drop_stored(struct mock_store *store, struct kvc_str request_id)
{
    const uint64_t request = request_hash(request_id);
    struct mock_object *object = TAILQ_FIRST(&store->by_use);
    while (object != NULL) {
        struct mock_object *next = TAILQ_NEXT(object, by_use);
        if (object->ready && object->request == request)
            mock_store_remove(store, object);
        object = next;
    }
}

void mock_transfers_leave(struct mock_transfers *transfers, struct mock_store *store,
                          int64_t instance_id, bool publish)
{
    struct mock_transfer *transfer = LIST_FIRST(&transfers->list);
    while (transfer != NULL) {
        struct mock_transfer *next = LIST_NEXT(transfer, in_list);
        if (transfer->kind != MOCK_STORED && transfer->instance_id == instance_id) {
            if (publish)
                mock_transfer_publish(transfer, store);
            else
                give_up(transfers, transfer, store);
        }
        transfer = next;
    }
}

void mock_transfers_drop_all(struct mock_transfers *transfers, struct mock_store *store)
{
    while (!LIST_EMPTY(&transfers->list))
        mock_transfer_drop(LIST_FIRST(&transfers->list), store);
}

int64_t mock_transfers_next_ms(const struct mock_transfers *transfers)
{
    int64_t next_ms = INT64_MAX;
    const struct mock_transfer *transfer;
    LIST_FOREACH(transfer, &transfers->list, in_list)
    {
        if (transfer->end_ms < next_ms)
            next_ms = transfer->end_ms;
    }
    return next_ms;
}
