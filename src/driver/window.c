#include "src/driver/paths.h"

#include <stdlib.h>
#include <string.h>

#include "src/base/clock.h"
#include "src/kv/transfer.h"

static kvc_status check_window(const struct kvc_worker *worker, const struct kvc_key *key,
                               struct kvc_error *err)
{
    const int64_t chunk = worker->options.chunk_size;
    const bool aligned = key->start % chunk == 0 && key->end % chunk == 0;
    if (key->start >= 0 && key->end >= key->start && aligned)
        return KVC_OK;
    return kvc_fail(err, KVC_EUSAGE, "the window [%lld, %lld) is not whole chunks of %lld tokens",
                    (long long)key->start, (long long)key->end, (long long)chunk);
}

static kvc_status check_block_ids(struct kvc_ints block_ids, int64_t needed, int64_t num_blocks,
                                  struct kvc_error *err)
{
    if (block_ids.count != (size_t)needed)
        return kvc_fail(err, KVC_EUSAGE, "the window needs %lld block ids, there are %zu",
                        (long long)needed, block_ids.count);
    for (size_t i = 0; i < block_ids.count; i++) {
        if (block_ids.items[i] < 0 || block_ids.items[i] >= num_blocks)
            return kvc_fail(err, KVC_EUSAGE, "block id %lld is not among the cache's %lld blocks",
                            (long long)block_ids.items[i], (long long)num_blocks);
    }
    return KVC_OK;
}

kvc_status kvc_window_open(struct kvc_worker *worker, const struct kvc_key *key,
                           struct kvc_ints block_ids, struct kvc_window *window,
                           struct kvc_error *err)
{
    const struct kvc_group *group = &worker->paged.geometry.groups[0];
    const int64_t chunk = worker->options.chunk_size;
    *window = (struct kvc_window){
        .blocks_per_chunk = chunk / group->block_size,
        .chunk_tokens = chunk,
        .chunk_bytes = kvc_group_chunk_bytes(group, chunk),
        .block_ids = block_ids.items,
        .group = group,
    };
    KVC_GUARD(check_window(worker, key, err));
    window->chunks = (key->end - key->start) / chunk;
    KVC_GUARD(check_block_ids(block_ids, window->chunks * window->blocks_per_chunk,
                              group->num_blocks, err));
    window->tensors = kvc_alloc_zero(worker->paged.tensor_count, sizeof(*window->tensors));
    for (size_t i = 0; i < worker->paged.tensor_count; i++)
        window->tensors[i] =
            worker->on_gpu != NULL ? worker->on_gpu->tensors[i] : worker->paged.tensors[i].data;
    return KVC_OK;
}

void kvc_window_close(struct kvc_window *window)
{
    free(window->tensors);
    window->tensors = NULL;
}

static const int64_t *ids_of_chunk(const struct kvc_window *window, int64_t chunk)
{
    return window->block_ids + chunk * window->blocks_per_chunk;
}

/* The same on a GPU. */
static kvc_status begin_on_gpu(const struct kvc_worker *worker, const struct kvc_window *window,
                               const struct kvc_cuda_chunk *chunk, bool gathers,
                               struct kvc_error *err)
{
    const struct kvc_cuda_transfer transfer = {
        .group = window->group,
        .tensors = window->tensors,
        .chunk_tokens = window->chunk_tokens,
        .chunks = chunk,
        .chunk_count = 1,
    };
    struct kvc_cuda_queue *queue = worker->on_gpu->queue;
    return gathers ? kvc_cuda_gather_to_host(queue, &transfer, err)
                   : kvc_cuda_scatter_from_host(queue, &transfer, err);
}

kvc_status kvc_window_gather(struct kvc_worker *worker, const struct kvc_window *window,
                             int64_t chunk, uint8_t *to, struct kvc_error *err)
{
    const int64_t started = kvc_now_ns();
    const int64_t *ids = ids_of_chunk(window, chunk);
    kvc_status status = KVC_OK;
    if (worker->on_gpu != NULL)
        status = begin_on_gpu(worker, window, &(struct kvc_cuda_chunk){to, ids, 0}, true, err);
    else
        kvc_gather_chunk(window->group, window->tensors, ids, window->chunk_tokens, to);
    worker->timing.copy_ns += kvc_now_ns() - started;
    return status;
}

kvc_status kvc_window_scatter(struct kvc_worker *worker, const struct kvc_window *window,
                              int64_t chunk, int64_t skip_first_n_tokens, const uint8_t *from,
                              struct kvc_error *err)
{
    const int64_t started = kvc_now_ns();
    const int64_t *ids = ids_of_chunk(window, chunk);
    const int64_t skip = kvc_skip_blocks(skip_first_n_tokens, chunk, window->chunk_tokens,
                                         window->group->block_size);
    /* A chunk of the GPU's can be for writing; this one is only read. */
    const struct kvc_cuda_chunk source = {(uint8_t *)from, ids, skip};
    kvc_status status = KVC_OK;
    if (worker->on_gpu != NULL)
        status = begin_on_gpu(worker, window, &source, false, err);
    else
        kvc_scatter_chunk(window->group, window->tensors, ids, window->chunk_tokens, skip, from);
    worker->timing.copy_ns += kvc_now_ns() - started;
    return status;
}

kvc_status kvc_window_finish(struct kvc_worker *worker, kvc_status status, struct kvc_error *err)
{
    if (worker->on_gpu == NULL)
        return status;
    const int64_t started = kvc_now_ns();
    const kvc_status finished =
        kvc_cuda_queue_wait(worker->on_gpu->queue, status == KVC_OK ? err : NULL);
    worker->timing.copy_ns += kvc_now_ns() - started;
    return status == KVC_OK ? finished : status;
}

size_t kvc_window_shape(const struct kvc_window *window, int64_t shape[4])
{
    size_t rank = 0;
    if (window->group->kv_size == 2)
        shape[rank++] = 2;
    shape[rank++] = window->group->num_layers;
    shape[rank++] = window->chunk_tokens;
    shape[rank++] = kvc_group_hidden(window->group);
    return rank;
}

bool kvc_window_matches(const struct kvc_window *window, struct kvc_ints shape,
                        struct kvc_str dtype)
{
    int64_t own[4];
    const size_t rank = kvc_window_shape(window, own);
    if (kvc_dtype_find(dtype) != window->group->dtype)
        return false;
    if (shape.count == rank + 1 && shape.items[0] == 1)
        shape = (struct kvc_ints){shape.items + 1, rank};
    return shape.count == rank && memcmp(shape.items, own, rank * sizeof(own[0])) == 0;
}

static void describe(struct kvc_ints shape, struct kvc_str dtype, struct kvc_buffer *out)
{
    kvc_buffer_append_text(out, "[");
    for (size_t i = 0; i < shape.count && i < 6; i++)
        kvc_buffer_printf(out, "%s%lld", i == 0 ? "" : ", ", (long long)shape.items[i]);
    kvc_buffer_append_text(out, shape.count > 6 ? ", …] " : "] ");
    kvc_text_escape(dtype, out);
}

kvc_status kvc_window_mismatch(const struct kvc_window *window, struct kvc_ints shape,
                               struct kvc_str dtype, struct kvc_error *err)
{
    int64_t own[4];
    const size_t rank = kvc_window_shape(window, own);
    struct kvc_buffer text = {0};
    kvc_fail(err, KVC_EFORMAT, "the shape or the dtype is not that of the worker's chunks");
    describe((struct kvc_ints){own, rank}, kvc_str_of(window->group->dtype->name), &text);
    kvc_error_set_expected(err, "%s", kvc_buffer_text(&text));
    text.size = 0;
    describe(shape, dtype, &text);
    kvc_error_set_got(err, "%s", kvc_buffer_text(&text));
    kvc_buffer_clear(&text);
    return KVC_EFORMAT;
}
