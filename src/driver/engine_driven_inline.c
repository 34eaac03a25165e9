#include <stdlib.h>

#include "src/driver/paths.h"
#include "src/wire/inline_data.h"

enum { BIN_HEAD_BYTES = 5 };

/* Every chunk of the window, gathered and encoded behind room for a msgpack header. */
static kvc_status encode_chunks(struct kvc_worker *worker, const struct kvc_window *window,
                                struct kvc_buffer *out, struct kvc_error *err)
{
    int64_t shape[4];
    const size_t rank = kvc_window_shape(window, shape);
    const size_t count = (size_t)window->chunks;
    const size_t chunk_bytes = (size_t)window->chunk_bytes;
    uint8_t *bytes = kvc_alloc(count * chunk_bytes);
    struct kvc_inline_tensor *tensors = kvc_alloc_zero(count, sizeof(*tensors));
    kvc_status status = KVC_OK;
    for (size_t i = 0; i < count && status == KVC_OK; i++) {
        status = kvc_window_gather(worker, window, (int64_t)i, bytes + i * chunk_bytes, err);
        tensors[i] = (struct kvc_inline_tensor){
            .dtype = kvc_str_of(window->group->dtype->name),
            .shape = {shape, rank},
            .data = {bytes + i * chunk_bytes, chunk_bytes},
        };
    }
    static const uint8_t room[BIN_HEAD_BYTES];
    kvc_buffer_append(out, room, sizeof(room));
    status = kvc_window_finish(worker, status, err);
    if (status == KVC_OK)
        status = kvc_inline_encode_numpy(tensors, count, out, err);
    free(tensors);
    free(bytes);
    return status;
}

/* Writes the msgpack head of a bin of `size` bytes so that it ends at `end`; returns its start. */
static uint8_t *write_bin_head(uint8_t *end, size_t size)
{
    const size_t length_bytes = size <= UINT8_MAX ? 1 : size <= UINT16_MAX ? 2 : 4;
    uint8_t *start = end - 1 - length_bytes;
    start[0] = size <= UINT8_MAX ? 0xc4 : size <= UINT16_MAX ? 0xc5 : 0xc6;
    for (size_t i = 0; i < length_bytes; i++)
        start[1 + i] = (uint8_t)(size >> (8 * (length_bytes - 1 - i)));
    return start;
}

/* Makes the encoded chunks the last frame of the request, in place and taken over: the payload may
 * be large, and libzmq then sends it without another copy. */
static kvc_status put_data(struct kvc_frames *frames, struct kvc_buffer *data,
                           struct kvc_error *err)
{
    const size_t size = data->size - BIN_HEAD_BYTES;
    if (size > UINT32_MAX)
        return kvc_fail(err, KVC_EUNSUPPORTED,
                        "%zu bytes are more than one message can carry inline", size);
    const uint8_t *start = write_bin_head(data->data + BIN_HEAD_BYTES, size);
    struct kvc_frame *last = &frames->items[frames->count - 1];
    if (last->release != NULL)
        last->release(last->owner);
    *last = (struct kvc_frame){
        .data = start,
        .size = (size_t)(data->data + data->size - start),
        .release = free,
        .owner = data->data,
    };
    *data = (struct kvc_buffer){0};
    return KVC_OK;
}

static kvc_status commit_store(struct kvc_worker *worker, const struct kvc_key *key,
                               const struct kvc_window *window, bool *success,
                               struct kvc_error *err)
{
    const struct kvc_request request = {
        .op = KVC_OP_COMMIT_STORE, .key = *key, .instance_id = worker->options.instance_id};
    struct kvc_frames frames = {0};
    struct kvc_buffer data = {0};
    struct kvc_reply reply = {0};
    kvc_status status = kvc_request_encode(worker->rpc.dialect, &request, &frames, err);
    if (status == KVC_OK)
        status = encode_chunks(worker, window, &data, err);
    if (status == KVC_OK)
        status = put_data(&frames, &data, err);
    if (status == KVC_OK)
        status = kvc_worker_call_frames(worker, KVC_OP_COMMIT_STORE, &frames, &reply, err);
    *success = reply.ok;
    kvc_reply_clear(&reply);
    kvc_buffer_clear(&data);
    kvc_frames_clear(&frames);
    return status;
}

/* Asks for permission as the reference client does. Not where the server has a pool that is to be
 * left alone: it would reserve slots, and then take the chunks for busy. */
static kvc_status prepare_store(struct kvc_worker *worker, const struct kvc_key *key,
                                struct kvc_error *err)
{
    if (worker->pool_size > 0)
        return KVC_OK;
    const struct kvc_request request = {
        .op = KVC_OP_PREPARE_STORE, .key = *key, .instance_id = worker->options.instance_id};
    struct kvc_reply reply;
    kvc_status status = kvc_worker_call(worker, &request, &reply, err);
    if (status == KVC_OK && reply.context.has_slots) {
        status = kvc_fail(err, KVC_EFORMAT, "the server offered no pool, but names slots in one");
        kvc_error_set_where(err, "prepare_store: context.slots");
    }
    kvc_reply_clear(&reply);
    return status;
}

static kvc_status store(struct kvc_worker *worker, const struct kvc_key *key,
                        struct kvc_ints block_ids, struct kvc_store_result *result,
                        struct kvc_error *err)
{
    struct kvc_window window;
    KVC_GUARD(kvc_window_open(worker, key, block_ids, &window, err));
    result->chunks_asked = window.chunks;
    kvc_status status = prepare_store(worker, key, err);
    if (status == KVC_OK)
        status = commit_store(worker, key, &window, &result->success, err);
    if (status == KVC_OK)
        result->chunks_written = window.chunks;
    kvc_window_close(&window);
    return status;
}

/* One tensor for each chunk, each of the chunk's shape and dtype. */
static kvc_status check_tensors(const struct kvc_window *window,
                                const struct kvc_inline_tensor *tensors, size_t count,
                                struct kvc_error *err)
{
    if (count != (size_t)window->chunks) {
        kvc_fail(err, KVC_EFORMAT, "there is not one tensor for each chunk");
        kvc_error_set_expected(err, "%lld tensors", (long long)window->chunks);
        return kvc_error_set_got(err, "%zu", count), KVC_EFORMAT;
    }
    for (size_t i = 0; i < count; i++) {
        const struct kvc_inline_tensor *tensor = &tensors[i];
        if (kvc_window_matches(window, tensor->shape, tensor->dtype) &&
            tensor->data.size == (size_t)window->chunk_bytes)
            continue;
        kvc_window_mismatch(window, tensor->shape, tensor->dtype, err);
        return kvc_error_set_where(err, "[%zu]", i), KVC_EFORMAT;
    }
    return KVC_OK;
}

static kvc_status scatter_data(struct kvc_worker *worker, const struct kvc_window *window,
                               struct kvc_bytes data, int64_t skip_first_n_tokens,
                               struct kvc_error *err)
{
    struct kvc_arena arena = {0};
    struct kvc_inline_tensor *tensors = NULL;
    size_t count = 0;
    kvc_status status = kvc_inline_decode(data, &arena, &tensors, &count, err);
    if (status == KVC_OK)
        status = check_tensors(window, tensors, count, err);
    for (size_t i = 0; status == KVC_OK && i < count; i++)
        status = kvc_window_scatter(worker, window, (int64_t)i, skip_first_n_tokens,
                                    tensors[i].data.data, err);
    status = kvc_window_finish(worker, status, err);
    if (status != KVC_OK)
        kvc_error_prepend_where(err, "prepare_retrieve: data");
    kvc_arena_clear(&arena);
    return status;
}

static kvc_status retrieve(struct kvc_worker *worker, const struct kvc_key *key,
                           struct kvc_ints block_ids, int64_t skip_first_n_tokens, bool *success,
                           struct kvc_error *err)
{
    struct kvc_window window;
    KVC_GUARD(kvc_window_open(worker, key, block_ids, &window, err));
    struct kvc_request request = {
        .op = KVC_OP_PREPARE_RETRIEVE, .key = *key, .instance_id = worker->options.instance_id};
    struct kvc_reply reply;
    kvc_status status = kvc_worker_call(worker, &request, &reply, err);
    const bool hit = status == KVC_OK && reply.retrieve.success;
    if (hit && reply.retrieve.context.has_slots) {
        status = kvc_fail(err, KVC_EUNSUPPORTED,
                          "the server answers with slots of its pool, not with the bytes");
        kvc_error_set_where(err, "prepare_retrieve: context.slots");
    } else if (hit) {
        status = scatter_data(worker, &window, reply.retrieve.data, skip_first_n_tokens, err);
    }
    if (hit && status == KVC_OK) {
        request.op = KVC_OP_COMMIT_RETRIEVE;
        status = kvc_worker_call_bool(worker, &request, success, err);
    }
    kvc_reply_clear(&reply);
    kvc_window_close(&window);
    return status;
}

const struct kvc_worker_ops kvc_engine_driven_inline_ops = {
    .name = "engine_driven_inline",
    .enroll = kvc_engine_driven_enroll,
    .store = store,
    .retrieve = retrieve,
    .withdraw = kvc_engine_driven_withdraw,
};
