/* A store opened by its JSON, and one operation at a time on it. For the tests of the adapters. */
#ifndef KVC_TESTS_UNIT_L2_STORE_H
#define KVC_TESTS_UNIT_L2_STORE_H

#include "src/l2/l2.h"

struct store {
    struct kvc_l2_config config;
    void *opened;
    void *lane;
    struct kvc_error err; /* of the last thing done */
};

/* A new folder, "…" without end; the test's process leaves it behind only when it crashes. */
char *make_folder(void);
void remove_folder(const char *folder);

/* Ends the test when it cannot be opened. */
void store_open(struct store *store, const char *json);
kvc_status store_try_open(struct store *store, const char *json, size_t object_size, size_t align);
void store_close(struct store *store);

/* The key that `lmcache bench l2` gives to its key number index. */
struct kvc_l2_key bench_key(uint32_t index);

/* One operation on one object. */
enum kvc_l2_outcome store_do(struct store *store, enum kvc_l2_operation operation,
                             const struct kvc_l2_key *key, void *data, size_t size);

#endif
