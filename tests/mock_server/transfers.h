/* Transfers under way: chunks that somebody has been given to write or to read, until they commit,
 * and stores that become visible in a moment. For the mock's handlers. */
#ifndef KVC_TESTS_MOCK_SERVER_TRANSFERS_H
#define KVC_TESTS_MOCK_SERVER_TRANSFERS_H

#include "src/wire/types.h"
#include "tests/mock_server/registry.h"
#include "tests/mock_server/store.h"

struct mock_late_copy;

enum mock_transfer_kind {
    MOCK_PREPARED_STORE,    /* PREPARE_STORE, until COMMIT_STORE or the end of its lease */
    MOCK_PREPARED_RETRIEVE, /* PREPARE_RETRIEVE, until COMMIT_RETRIEVE */
    MOCK_STORED,            /* STORE, copied, visible at its end */
};

struct mock_transfer {
    LIST_ENTRY(mock_transfer) in_list;
    enum mock_transfer_kind kind;
    int64_t instance_id;
    uint8_t identity[KVC_BLAKE3_SIZE]; /* of the key, see mock_key_identity */
    uint64_t request;                  /* hash of the request id */
    int64_t end_ms;                    /* when it ends by itself */
    struct mock_object **objects;      /* reserved; a prepared retrieve has none */
    size_t object_count;
    struct mock_holder locks;    /* of a prepared retrieve */
    struct mock_late_copy *late; /* a defect: what a store has yet to read */
};

void mock_late_copy_free(struct mock_late_copy *late);

struct mock_transfers {
    LIST_HEAD(, mock_transfer) list;
    bool loses_room; /* a defect: reservations that expire or are left give no room back */
};

/* What makes two keys the same transfer: all fields but request_id, request_configs and
 * num_kv_readers (protocol.md 3.1). */
void mock_key_identity(const struct kvc_key *key, uint8_t identity[KVC_BLAKE3_SIZE]);

/* Begins one. objects (may be NULL) is taken over. */
struct mock_transfer *mock_transfer_begin(struct mock_transfers *transfers,
                                          enum mock_transfer_kind kind, int64_t instance_id,
                                          const struct kvc_key *key, struct mock_object **objects,
                                          size_t object_count, int64_t end_ms);
/* The one of that kind, instance and key; NULL: none. */
struct mock_transfer *mock_transfer_find(struct mock_transfers *transfers,
                                         enum mock_transfer_kind kind, int64_t instance_id,
                                         const struct kvc_key *key);
/* Whether it was begun under that request id. */
bool mock_transfer_is_of(const struct mock_transfer *transfer, struct kvc_str request_id);
/* Ends one: what it reserved becomes visible, or is dropped; locks are given back. */
void mock_transfer_publish(struct mock_transfer *transfer, struct mock_store *store);
void mock_transfer_drop(struct mock_transfer *transfer, struct mock_store *store);
/* A defect: publishes, and goes on waiting for a commit. */
void mock_transfer_publish_and_keep(struct mock_transfer *transfer, struct mock_store *store);
/* A defect: what it reserved becomes visible at that time, not before. */
void mock_transfer_put_off(struct mock_transfer *transfer, int64_t end_ms);
/* Ends those whose time has come: stores become visible, leases run out (and publish, with a
 * defect). */
void mock_transfers_expire(struct mock_transfers *transfers, struct mock_store *store,
                           int64_t now_ms, bool leases_publish);
/* Publishes the stores of a request at once: with its session, all that it began is over. drop, a
 * defect: they are dropped. */
void mock_transfers_end_session(struct mock_transfers *transfers, struct mock_store *store,
                                struct kvc_str request_id, bool drop);
/* A defect: drops what transfers of a request have made visible. */
void mock_transfers_drop_stored(struct mock_store *store, struct kvc_str request_id);
/* Ends what an engine-driven instance has under way: dropped, or published with a defect. */
void mock_transfers_leave(struct mock_transfers *transfers, struct mock_store *store,
                          int64_t instance_id, bool publish);
void mock_transfers_drop_all(struct mock_transfers *transfers, struct mock_store *store);
/* When the next one ends by itself; INT64_MAX: none does. */
int64_t mock_transfers_next_ms(const struct mock_transfers *transfers);

#endif
