/* The store below the mock's memory: chunks are written there when they are published, and fetched
 * from there when a lookup misses them. For the mock's store and lookups. */
#ifndef KVC_TESTS_MOCK_SERVER_L2_H
#define KVC_TESTS_MOCK_SERVER_L2_H

#include "src/l2/l2.h"
#include "tests/mock_server/defects.h"
#include "tests/mock_server/store.h"

struct mock_l2 {
    struct kvc_l2_config config;
    void *store, *lane;
    const bool *defects;
    bool is_open;
    bool has_failed; /* to write something */
    uint8_t *last;   /* a defect: what was fetched before, last_size bytes */
    int64_t last_size;
    char folder[256]; /* of its files; "": it has none */
};

/* Opens what the JSON of --l2-adapter names, and puts it below the store. Errors are those of the
 * adapter. */
kvc_status mock_l2_open(struct mock_l2 *l2, const char *json, const bool *defects,
                        struct mock_store *above, struct kvc_error *err);
/* Safe for one that is not open. */
void mock_l2_close(struct mock_l2 *l2);

/* Writes a chunk. What goes wrong is not the writer's concern: it is in memory. */
void mock_l2_keep(struct mock_l2 *l2, const struct mock_object *object, const uint8_t *data);
/* Brings a chunk of that layout into memory, if it is there whole and there is room. NULL: it is not. */
struct mock_object *mock_l2_fetch(struct mock_l2 *l2, struct mock_store *above,
                                  const struct mock_object_key *key,
                                  const struct mock_chunk_layout *layout, int64_t now_ms);
/* A defect: whether there is a chunk, of any size. */
bool mock_l2_has(const struct mock_l2 *l2, const struct mock_object_key *key);
/* A defect: something below has failed, or is not where it was. */
bool mock_l2_is_in_trouble(const struct mock_l2 *l2);

#endif
