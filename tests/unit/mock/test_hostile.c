/* Clients that mean harm: the mock says no, and serves the next one. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "src/base/clock.h"
#include "src/kv/segment.h"
#include "src/link/http.h"
#include "tests/unit/mock/child.h"

enum { CHUNK = 16, LAYER_BYTES = 8 * 16 * 32 * 2 };

static struct child child;
static struct kvc_segment segment;

static const int64_t shape[] = {8, 16, 32}, stride[] = {512, 32, 1};
static int64_t tokens[CHUNK];

static void start(void)
{
    char name[96];
    child_start(&child, (struct kvc_mock_options){.pool_size = 1 << 20, .chunk_size = CHUNK});
    kvc_segment_name("", name, sizeof(name));
    cr_assert_eq(kvc_segment_create(name, LAYER_BYTES, &segment, NULL), KVC_OK);
}

static void finish(void)
{
    cr_assert_eq(kvc_rpc_noop(&child.rpc, NULL), KVC_OK, "it still answers");
    cr_assert_eq(child_stop(&child), 0);
    kvc_segment_close(&segment);
}

/* The registration of one MLA layer in the segment. */
static struct kvc_request registration(struct kvc_tensor_handle *handle)
{
    *handle = (struct kvc_tensor_handle){
        .shm_name = kvc_str_of(segment.name),
        .nbytes = LAYER_BYTES,
        .dtype = KVC_STR("float16"),
        .shape = {shape, 3},
        .stride = {stride, 3},
        .device_uuid = KVC_STR("cpu"),
    };
    return (struct kvc_request){
        .op = KVC_OP_REGISTER_KV_CACHE,
        .instance_id = 1,
        .handles = {handle, 1},
        .model_name = KVC_STR("m"),
        .world_size = 1,
        .engine_type = KVC_STR("vllm"),
    };
}

static struct kvc_request transfer(enum kvc_op op, const struct kvc_int_lists *block_ids)
{
    return (struct kvc_request){
        .op = op,
        .key = {.model_name = KVC_STR("m"),
                .world_size = 1,
                .worker_id = KVC_SOME_INT(0),
                .token_ids = {tokens, CHUNK},
                .end = CHUNK,
                .request_id = KVC_STR("r"),
                .num_kv_readers = 1},
        .instance_id = 1,
        .block_ids = *block_ids,
        .tp_size = 1,
    };
}

static bool succeeds(const struct kvc_request *request)
{
    struct kvc_reply reply = {0};
    struct kvc_error err = KVC_ERROR_INIT;
    cr_assert_eq(kvc_rpc_call(&child.rpc, request, &reply, &err), KVC_OK, "%s", err.what);
    const bool success = reply.transfer.success;
    kvc_reply_clear(&reply);
    return success;
}

static void cut_segment(off_t size)
{
    const int file = shm_open(segment.name, O_RDWR, 0);
    cr_assert_eq(ftruncate(file, size), 0);
    close(file);
}

Test(hostile, a_segment_cut_short_fails_what_needs_it_and_nothing_else)
{
    static const int64_t block[] = {7};
    static const struct kvc_ints list = {block, 1};
    static const struct kvc_int_lists lists = {&list, 1};
    struct kvc_tensor_handle handle;
    int64_t chunks = 0;
    start();
    const struct kvc_request request = registration(&handle);
    const struct kvc_request store = transfer(KVC_OP_STORE, &lists);
    const struct kvc_request retrieve = transfer(KVC_OP_RETRIEVE, &lists);
    cr_assert_eq(kvc_rpc_call_void(&child.rpc, &request, NULL), KVC_OK);
    cut_segment(4096);
    cr_assert_not(succeeds(&store));
    cut_segment(LAYER_BYTES);
    cr_assert(succeeds(&store), "nothing stays reserved");
    cr_assert_eq(kvc_rpc_end_session(&child.rpc, KVC_STR("r"), NULL), KVC_OK);
    cr_assert_eq(kvc_rpc_lookup(&child.rpc, &store.key, 1, &chunks, NULL), KVC_OK);
    cr_assert_eq(chunks, 1);
    cut_segment(0);
    cr_assert_not(succeeds(&retrieve));
    struct kvc_http_response response = {0};
    cr_assert_eq(kvc_http_request("POST", child.http_url, "/cache/checksums",
                                  "{\"instance_id\":1,\"block_ids\":[7],\"chunk_size\":1}", 5000,
                                  &response, NULL),
                 KVC_OK);
    cr_assert_eq(response.status, 500);
    kvc_http_response_clear(&response);
    finish();
}

static bool is_answered(struct kvc_request request)
{
    uint64_t uid = 0;
    struct kvc_reply reply = {0};
    cr_assert_eq(kvc_rpc_send(&child.rpc, &request, &uid, NULL), KVC_OK);
    const kvc_status status = kvc_rpc_receive(&child.rpc, uid, request.op, 150, &reply, NULL);
    kvc_reply_clear(&reply);
    cr_assert(status == KVC_OK || status == KVC_ETIMEOUT);
    return status == KVC_OK;
}

static struct kvc_request engine_driven(int64_t layers, int64_t hidden)
{
    return (struct kvc_request){
        .op = KVC_OP_REGISTER_ENGINE_DRIVEN,
        .engine_driven = {.instance_id = 1,
                          .model_name = KVC_STR("m"),
                          .world_size = 1,
                          .block_size = 16,
                          .num_layers = layers,
                          .hidden_dim_size = hidden,
                          .dtype_str = KVC_STR("float16")},
    };
}

/* No slot comes out of a geometry that cannot be, whether or not its registration is answered. */
Test(hostile, impossible_geometries_get_no_slot)
{
    static const int64_t sizes[][2] = {
        {0, 8}, {2, -1}, {-1, -1}, {INT64_MAX, 2}, {1 << 30, 1 << 30}, {INT64_MIN, INT64_MIN}};
    static const struct kvc_int_lists none = {NULL, 0};
    start();
    for (size_t i = 0; i < KVC_COUNT_OF(sizes); i++) {
        is_answered(engine_driven(sizes[i][0], sizes[i][1]));
        cr_assert_not(is_answered(transfer(KVC_OP_PREPARE_STORE, &none)), "%zu", i);
    }
    finish();
}

Test(hostile, windows_and_worlds_out_of_range_are_not_answered)
{
    static const struct kvc_int_lists none = {NULL, 0};
    start();
    cr_assert(is_answered(engine_driven(2, 8)));
    struct kvc_request requests[6];
    for (size_t i = 0; i < KVC_COUNT_OF(requests); i++)
        requests[i] = transfer(KVC_OP_PREPARE_STORE, &none);
    requests[0].key.end = INT64_MAX / CHUNK * CHUNK;
    requests[1].key.start = 1;
    requests[2].key.world_size = INT64_MAX;
    requests[3].key.worker_id.value = -1;
    requests[4].key.worker_id.value = 1 << 20;
    requests[5].key.end = CHUNK + 1;
    for (size_t i = 0; i < KVC_COUNT_OF(requests); i++)
        cr_assert_not(is_answered(requests[i]), "%zu", i);
    struct kvc_request lookup = transfer(KVC_OP_LOOKUP, &none);
    lookup.key.worker_id = KVC_NIL_INT;
    lookup.key.world_size = INT64_MAX;
    cr_assert_not(is_answered(lookup));
    lookup.key.world_size = 1;
    lookup.key.num_kv_readers = INT64_MAX;
    cr_assert(is_answered(lookup), "as many readers as there may be");
    finish();
}

/* Every cut of every frame of a good STORE, and noise in its place. */
Test(hostile, cut_and_random_frames_are_survived)
{
    static const int64_t block[] = {7};
    static const struct kvc_ints list = {block, 1};
    static const struct kvc_int_lists lists = {&list, 1};
    struct kvc_random random = {.state = 7};
    struct kvc_frames good = {0};
    start();
    const struct kvc_request store = transfer(KVC_OP_STORE, &lists);
    cr_assert_eq(kvc_request_encode(child.rpc.dialect, &store, &good, NULL), KVC_OK);
    for (size_t frame = 0; frame < good.count; frame++) {
        for (size_t size = 0; size < good.items[frame].size; size++) {
            struct kvc_frames bad = {0};
            kvc_frames_append_copy(&bad, "u", 1);
            for (size_t i = 0; i < good.count; i++)
                kvc_frames_append_copy(&bad, good.items[i].data,
                                       i == frame ? size : good.items[i].size);
            uint8_t *data = (uint8_t *)bad.items[frame + 1].data;
            for (size_t i = 0; i < size && size % 3 == 0; i++)
                data[i] = (uint8_t)kvc_random_next(&random);
            cr_assert_eq(kvc_client_send_raw(child.client, &bad, NULL), KVC_OK);
        }
    }
    kvc_frames_clear(&good);
    finish();
}
