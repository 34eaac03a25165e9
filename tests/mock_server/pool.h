/* The memory that chunks are kept in: one shared-memory segment that clients map too, or private
 * memory; and who has which part of it. For the mock's store. */
#ifndef KVC_TESTS_MOCK_SERVER_POOL_H
#define KVC_TESTS_MOCK_SERVER_POOL_H

#include "src/kv/segment.h"

enum { MOCK_POOL_ALIGN = 4096 };

struct mock_range;

struct mock_pool {
    uint8_t *data;
    int64_t size; /* bytes */
    int64_t used; /* bytes handed out, alignment included */
    bool shared;
    int64_t guard; /* bytes kept free before and behind each range; a multiple of MOCK_POOL_ALIGN */
    struct kvc_segment segment; /* shared pools only */
    bool keeps_name, is_cut;    /* defects: what becomes of the segment in the end */
    struct mock_range *free;    /* free ranges by offset, never adjacent */
};

/* Makes a pool of size bytes: shared under `name` (NULL: one of our own making), or private when
 * shared is false or shared memory has no room for it (then a warning goes to stderr). */
kvc_status mock_pool_open(struct mock_pool *pool, bool shared, const char *name, int64_t size,
                          struct kvc_error *err);
void mock_pool_close(struct mock_pool *pool);

/* What size bytes take up, with all that is kept free around them. */
int64_t mock_pool_footprint(const struct mock_pool *pool, int64_t size);
/* A defect: lets everybody open it. */
void mock_pool_open_to_all(const struct mock_pool *pool);

/* The first free range that size bytes fit into, from a multiple of MOCK_POOL_ALIGN. False when
 * there is none. */
bool mock_pool_take(struct mock_pool *pool, int64_t size, int64_t *offset);
/* A defect: lets everything in an empty pool begin a byte later. */
void mock_pool_shift(struct mock_pool *pool);
/* Gives back what mock_pool_take gave for the same size. */
void mock_pool_give(struct mock_pool *pool, int64_t offset, int64_t size);

#endif
