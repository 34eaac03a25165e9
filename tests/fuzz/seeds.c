/* Writes what the fuzzers of the wire start from: the messages of recorded exchanges, written in every
 * dialect, a few that nobody recorded, and the values inside them.
 *
 * usage: fuzz_seeds OUT_FOLDER [RELEASE RECORDING]…   of all seeds with one name the smallest stays */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "src/kv/dtype.h"
#include "src/wire/handle.h"
#include "src/wire/inline_data.h"
#include "src/wire/message.h"
#include "src/wire/pack.h"
#include "src/wire/recording.h"

enum { LARGEST = 16 << 10 };

static const char *out_folder;

static void write_seed(const char *target, const char *name, const struct kvc_buffer *seed)
{
    struct stat status;
    char *folder = kvc_format("%s/%s", out_folder, target);
    char *path = kvc_format("%s/%s", folder, name);
    mkdir(folder, 0777);
    if (seed->size <= LARGEST &&
        (stat(path, &status) != 0 || (size_t)status.st_size > seed->size)) {
        FILE *file = fopen(path, "w");
        if (file == NULL || fwrite(seed->data, 1, seed->size, file) != seed->size) {
            perror(path);
            exit(1);
        }
        fclose(file);
    }
    free(path);
    free(folder);
}

/* ---- values inside messages ---- */

static void write_parts(const struct kvc_dialect *dialect, const msgpack_object *object)
{
    struct kvc_buffer seed = {0};
    if (object->type == MSGPACK_OBJECT_ARRAY)
        for (uint32_t i = 0; i < object->via.array.size; i++)
            write_parts(dialect, &object->via.array.ptr[i]);
    if (object->type == MSGPACK_OBJECT_EXT && object->via.ext.type == KVC_HANDLE_EXT_TYPE) {
        const bool is_pickle = kvc_dialect_has(dialect, KVC_FEATURE_HANDLE_PICKLE);
        kvc_buffer_append_byte(&seed, is_pickle ? 0 : 1);
        kvc_buffer_append(&seed, object->via.ext.ptr, object->via.ext.size);
        write_seed("handle", is_pickle ? "pickle" : "descriptor", &seed);
    }
    kvc_buffer_clear(&seed);
}

static void write_value(const struct kvc_dialect *dialect, const char *name, struct kvc_bytes frame)
{
    struct kvc_buffer seed = {0};
    msgpack_zone zone;
    msgpack_object object;
    if (kvc_msgpack_read(frame, &zone, &object, NULL) == KVC_OK) {
        write_parts(dialect, &object);
        kvc_buffer_append(&seed, frame.data, frame.size);
        write_seed("msgpack", name, &seed);
    }
    msgpack_zone_destroy(&zone);
    kvc_buffer_clear(&seed);
}

/* ---- messages ---- */

static void append_frame(struct kvc_buffer *seed, struct kvc_bytes frame)
{
    for (int shift = 0; shift < 24; shift += 8)
        kvc_buffer_append_byte(seed, (uint8_t)(frame.size >> shift));
    kvc_buffer_append(seed, frame.data, frame.size);
}

static void write_message(size_t dialect, enum kvc_op op, bool is_reply,
                          const struct kvc_frames *frames)
{
    struct kvc_buffer seed = {0};
    char *name = kvc_format("%s-%s", kvc_dialects[dialect]->name, kvc_op_name(op));
    kvc_buffer_append_byte(&seed, (uint8_t)dialect);
    if (is_reply)
        kvc_buffer_append_byte(&seed, (uint8_t)op);
    for (size_t i = 0; i < frames->count; i++)
        append_frame(&seed, kvc_frames_view(frames, i));
    write_seed(is_reply ? "reply" : "request", name, &seed);
    kvc_buffer_clear(&seed);
    free(name);
    for (size_t i = 2; i < frames->count; i++) {
        name = kvc_format("%s-%s-%zu", kvc_op_name(op), is_reply ? "result" : "payload", i - 2);
        write_value(kvc_dialects[dialect], name, kvc_frames_view(frames, i));
        free(name);
    }
}

static void write_request(const struct kvc_request *request)
{
    for (size_t i = 0; i < kvc_dialect_count; i++) {
        struct kvc_frames frames = {0};
        kvc_frames_append_copy(&frames, "\x07", 1);
        if (kvc_request_encode(kvc_dialects[i], request, &frames, NULL) == KVC_OK)
            write_message(i, request->op, false, &frames);
        kvc_frames_clear(&frames);
    }
}

static void write_reply(const struct kvc_reply *reply)
{
    for (size_t i = 0; i < kvc_dialect_count; i++) {
        struct kvc_frames frames = {0};
        kvc_frames_append_copy(&frames, "\x07", 1);
        kvc_frames_append_copy(&frames, "\x01", 1);
        if (kvc_dialects[i]->has[reply->op] &&
            kvc_reply_encode(kvc_dialects[i], reply, &frames, NULL) == KVC_OK)
            write_message(i, reply->op, true, &frames);
        kvc_frames_clear(&frames);
    }
}

static void write_recorded(const struct kvc_dialect *dialect,
                           const struct kvc_recorded_message *message)
{
    enum kvc_op op;
    if (message->frames.count < 2 ||
        kvc_request_op(dialect, kvc_frames_view(&message->frames, 1), &op, NULL) != KVC_OK)
        return;
    if (message->from_server) {
        struct kvc_frames taken = {0};
        struct kvc_reply reply;
        kvc_frames_copy(&message->frames, &taken);
        if (kvc_reply_decode(dialect, op, &taken, &reply, NULL) == KVC_OK)
            write_reply(&reply);
        kvc_reply_clear(&reply);
    } else {
        struct kvc_arena arena = {0};
        struct kvc_request request;
        if (kvc_request_decode(dialect, &message->frames, &arena, &request, NULL) == KVC_OK)
            write_request(&request);
        kvc_arena_clear(&arena);
    }
}

static bool write_recording(const char *release, const char *path)
{
    struct kvc_recording recording;
    struct kvc_error err = KVC_ERROR_INIT;
    const struct kvc_dialect *dialect = kvc_dialect_find(kvc_str_of(release));
    if (dialect == NULL || kvc_recording_load(path, &recording, &err) != KVC_OK) {
        fprintf(stderr, "fuzz_seeds: %s %s: %s\n", release, path, err.what);
        return false;
    }
    for (size_t i = 0; i < recording.count; i++)
        write_recorded(dialect, &recording.messages[i]);
    kvc_recording_clear(&recording);
    return true;
}

/* ---- what nobody recorded ---- */

static const int64_t numbers[] = {0, 1, 255, 65536};
static const struct kvc_ints shape = {numbers, 4};
static const struct kvc_str dtype = {"float16", 7};
static const struct kvc_object_key object_key = {
    .chunk_hash = {(const uint8_t *)"0123456789abcdef0123456789abcdef", 32},
    .model_name = {"m", 1},
    .kv_rank = 16777472,
};
static const struct kvc_block_allocation allocation = {{"r", 1}, {numbers, 2}, {numbers, 3}};
static const struct kvc_object_address addresses[] = {{4096, 16384}, {-1, 0}};

static void write_unrecorded(void)
{
    const struct kvc_request requests[] = {
        {.op = KVC_OP_PING, .ping_instance = KVC_SOME_INT(7)},
        {.op = KVC_OP_NOOP},
        {.op = KVC_OP_CLEAR, .force = true},
        {.op = KVC_OP_WAIT_PREFETCH_STATUS, .request_id = KVC_STR("r"), .timeout_seconds = 0.5},
        {.op = KVC_OP_QUERY_PREFETCH_LOOKUP_HITS, .request_id = KVC_STR("r")},
        {.op = KVC_OP_FREE_LOOKUP_LOCKS, .key = {.token_ids = shape}, .tp_size = 1},
        {.op = KVC_OP_REPORT_BLOCK_ALLOCATION, .allocations = {&allocation, 1}},
        {.op = KVC_OP_P2P_LOOKUP_AND_LOCK,
         .object_keys = {&object_key, 1},
         .object_layout = {{&shape, 1}, {&dtype, 1}}},
        {.op = KVC_OP_P2P_QUERY_LOOKUP_RESULTS, .task_id = 3},
        {.op = KVC_OP_P2P_UNLOCK_OBJECTS, .object_keys = {&object_key, 1}},
        {.op = KVC_OP_GET_EXPERIMENTAL},
        {.op = KVC_OP_SUBSCRIBE_KV_EVENTS, .model_name = KVC_STR("m"), .max_events = 16},
    };
    const struct kvc_reply replies[] = {
        {.op = KVC_OP_NOOP, .text = KVC_STR("OK")},
        {.op = KVC_OP_PING, .ok = true},
        {.op = KVC_OP_WAIT_PREFETCH_STATUS, .is_void = true},
        {.op = KVC_OP_P2P_LOOKUP_AND_LOCK, .count = 3},
        {.op = KVC_OP_P2P_QUERY_LOOKUP_RESULTS, .addresses = {addresses, 2}},
        {.op = KVC_OP_GET_EXPERIMENTAL, .names = {&dtype, 1}},
    };
    for (size_t i = 0; i < KVC_COUNT_OF(requests); i++)
        write_request(&requests[i]);
    for (size_t i = 0; i < KVC_COUNT_OF(replies); i++)
        write_reply(&replies[i]);
}

static void write_tensors(const char *dtype_name)
{
    static const int64_t dimensions[] = {2, 3};
    static const uint8_t bytes[2 * 3 * 8];
    const size_t size = 6 * kvc_dtype_find(kvc_str_of(dtype_name))->size;
    struct kvc_inline_tensor tensors[2];
    for (size_t i = 0; i < 2; i++)
        tensors[i] = (struct kvc_inline_tensor){
            .dtype = kvc_str_of(dtype_name), .shape = {dimensions, 2}, .data = {bytes, size}};
    struct kvc_buffer seed = {0};
    char *name = kvc_format("torch-%s", dtype_name);
    kvc_inline_encode_torch(tensors, 2, &seed, NULL);
    write_seed("inline_data", name, &seed);
    free(name);
    seed.size = 0;
    name = kvc_format("numpy-%s", dtype_name);
    kvc_inline_encode_numpy(tensors, 1, &seed, NULL);
    write_seed("inline_data", name, &seed);
    free(name);
    kvc_buffer_clear(&seed);
}

/* Handles of a GPU's memory, which no recording has. */
static void write_gpu_handles(void)
{
    static const char *const releases[] = {"0.5.1", "0.5.6"};
    static const uint8_t bytes[KVC_TORCH_HANDLE_SIZE] = {1, 'c'};
    static const int64_t dimensions[] = {2, 3}, strides[] = {3, 1};
    struct kvc_tensor_handle handle = {
        .torch = {.ready_event = {bytes, KVC_IPC_HANDLE_SIZE}, .has_event = true},
        .vmm = {.id = {bytes, 16}, .kind = KVC_STR("fabric"), .fabric = {bytes, 64}},
        .nbytes = 12,
        .dtype = KVC_STR("float16"),
        .shape = {dimensions, 2},
        .stride = {strides, 2},
        .device_uuid = KVC_STR("u"),
    };
    handle.vmm.alloc_size = handle.nbytes;
    for (handle.kind = KVC_HANDLE_CUDA; handle.kind < KVC_HANDLE_KIND_COUNT; handle.kind++) {
        const bool is_torch = handle.kind == KVC_HANDLE_CUDA_TORCH;
        handle.ipc_handle =
            (struct kvc_bytes){bytes, is_torch ? KVC_TORCH_HANDLE_SIZE : KVC_IPC_HANDLE_SIZE};
        for (uint8_t form = 0; form < KVC_COUNT_OF(releases); form++) {
            struct kvc_buffer seed = {0};
            kvc_buffer_append_byte(&seed, form);
            kvc_handle_encode(kvc_dialect_find(kvc_str_of(releases[form])), &handle, &seed, NULL);
            write_seed("handle", "gpu", &seed);
            kvc_buffer_clear(&seed);
        }
    }
}

int main(int argc, char **argv)
{
    static const char *const dtype_names[] = {"float16", "bfloat16", "float8_e4m3fn", "int64"};
    if (argc < 2 || argc % 2 != 0) {
        fprintf(stderr, "usage: fuzz_seeds OUT_FOLDER [RELEASE RECORDING]...\n");
        return 2;
    }
    out_folder = argv[1];
    for (int i = 2; i < argc; i += 2)
        if (!write_recording(argv[i], argv[i + 1]))
            return 1;
    write_unrecorded();
    write_gpu_handles();
    for (size_t i = 0; i < KVC_COUNT_OF(dtype_names); i++)
        write_tensors(dtype_names[i]);
    return 0;
}
