#include "tests/mock_server/pool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct mock_range {
    struct mock_range *next;
    int64_t offset;
    int64_t size;
};

static struct mock_range *new_range(int64_t offset, int64_t size, struct mock_range *next)
{
    struct mock_range *range = kvc_alloc(sizeof(*range));
    *range = (struct mock_range){.next = next, .offset = offset, .size = size};
    return range;
}

int64_t mock_pool_footprint(const struct mock_pool *pool, int64_t size)
{
    return (size + MOCK_POOL_ALIGN - 1) / MOCK_POOL_ALIGN * MOCK_POOL_ALIGN + 2 * pool->guard;
}

static kvc_status open_shared(struct mock_pool *pool, const char *name, struct kvc_error *err)
{
    char own_name[sizeof(pool->segment.name)];
    if (name == NULL)
        kvc_segment_name("lmcache_l1_pool_", own_name, sizeof(own_name));
    else
        snprintf(own_name, sizeof(own_name), "%s%s", name[0] == '/' ? "" : "/", name);
    KVC_GUARD(kvc_segment_create(own_name, (size_t)pool->size, &pool->segment, err));
    pool->data = pool->segment.data;
    pool->shared = true;
    return KVC_OK;
}

static kvc_status open_private(struct mock_pool *pool, struct kvc_error *err)
{
    void *memory = mmap(NULL, (size_t)pool->size, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) /* it is not reserved: that much has no place at all */
        return kvc_fail(err, KVC_EUSAGE, "--pool-size: cannot get %lld bytes of memory: %s",
                        (long long)pool->size, strerror(errno));
    pool->data = memory;
    pool->shared = false;
    return KVC_OK;
}

kvc_status mock_pool_open(struct mock_pool *pool, bool shared, const char *name, int64_t size,
                          struct kvc_error *err)
{
    *pool = (struct mock_pool){.size = size};
    if (size <= 0)
        return kvc_fail(err, KVC_EUSAGE, "the pool needs a size above 0, not %lld bytes",
                        (long long)size);
    struct kvc_error reason = KVC_ERROR_INIT;
    if (shared && open_shared(pool, name, &reason) != KVC_OK) {
        if (name != NULL) /* somebody counts on that segment */
            return kvc_fail(err, reason.status == KVC_EFORMAT ? KVC_EUSAGE : reason.status,
                            "--pool-name: %s", reason.what);
        shared = false;
    }
    if (!shared)
        KVC_GUARD(open_private(pool, err));
    if (reason.status != KVC_OK)
        fprintf(stderr, "kvconform mock: warning: no shared-memory pool, data travel inline: %s\n",
                reason.what);
    pool->free = new_range(0, size, NULL);
    return KVC_OK;
}

void mock_pool_open_to_all(const struct mock_pool *pool)
{
    const int segment = shm_open(pool->segment.name, O_RDWR, 0);
    if (segment < 0)
        return;
    fchmod(segment, 0666);
    close(segment);
}

static void close_shared(struct mock_pool *pool)
{
    const int segment = pool->is_cut ? shm_open(pool->segment.name, O_RDWR, 0) : -1;
    if (segment >= 0) {
        const int cut = ftruncate(segment, 0);
        (void)cut;
        close(segment);
    }
    pool->segment.owned = pool->segment.owned && !pool->keeps_name;
    kvc_segment_close(&pool->segment);
}

void mock_pool_close(struct mock_pool *pool)
{
    while (pool->free != NULL) {
        struct mock_range *range = pool->free;
        pool->free = range->next;
        free(range);
    }
    if (pool->shared)
        close_shared(pool);
    else if (pool->data != NULL)
        munmap(pool->data, (size_t)pool->size);
    *pool = (struct mock_pool){0};
}

bool mock_pool_take(struct mock_pool *pool, int64_t size, int64_t *offset)
{
    if (size <= 0 || size > pool->size)
        return false;
    const int64_t need = mock_pool_footprint(pool, size);
    for (struct mock_range **link = &pool->free; *link != NULL; link = &(*link)->next) {
        struct mock_range *range = *link;
        if (range->size < need)
            continue;
        *offset = range->offset + pool->guard;
        range->offset += need;
        range->size -= need;
        pool->used += need;
        if (range->size == 0) {
            *link = range->next;
            free(range);
        }
        return true;
    }
    return false;
}

void mock_pool_shift(struct mock_pool *pool)
{
    pool->free->offset++;
    pool->free->size--;
}

void mock_pool_give(struct mock_pool *pool, int64_t offset, int64_t size)
{
    const int64_t given = mock_pool_footprint(pool, size);
    struct mock_range *before = NULL;
    struct mock_range *after = pool->free;
    offset -= pool->guard;
    while (after != NULL && after->offset < offset) {
        before = after;
        after = after->next;
    }
    pool->used -= given;
    struct mock_range *range = new_range(offset, given, after);
    if (after != NULL && offset + given == after->offset) {
        range->size += after->size;
        range->next = after->next;
        free(after);
    }
    if (before == NULL) {
        pool->free = range;
    } else if (before->offset + before->size == offset) {
        before->size += range->size;
        before->next = range->next;
        free(range);
    } else {
        before->next = range;
    }
}
