/* Workers against servers that lie: an error that names the place, and not one byte written. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "src/wire/inline_data.h"
#include "tests/unit/driver/fake_server.h"

static const int64_t blocks[] = {1, 2, 3, 4};
static const int64_t other_order[] = {2, FAKE_CHUNK, 2, 16};
static const int64_t both[] = {0, 1};

enum { POOL = 4 * SMALL_CHUNK_BYTES };

struct stage {
    struct fake_server fake;
    struct kvc_rpc rpc;
    struct kvc_segment pool;
    struct kvc_worker *worker;
    struct kvc_key key;
};

static void open_stage(struct stage *stage, bool with_pool)
{
    memset(stage, 0, sizeof(*stage));
    fake_start(&stage->fake, "0.5.6");
    if (with_pool) {
        fake_offer_pool(&stage->fake, &stage->pool);
        memset(stage->pool.data, 0x77, POOL);
    }
    const struct kvc_worker_options options = small_worker(KVC_MODE_ENGINE_DRIVEN);
    stage->worker = open_small(&stage->fake, &stage->rpc, &options);
    stage->key = small_key(stage->worker);
    kvc_paged_fill(&stage->worker->paged, 0x5a);
}

static void close_stage(struct stage *stage)
{
    kvc_worker_close(stage->worker, NULL);
    kvc_segment_close(&stage->pool);
    kvc_client_close(stage->rpc.client);
    fake_stop(&stage->fake);
}

/* A store is refused at `where`, before the pool is touched and without a commit. */
static struct kvc_error expect_store_refused(struct stage *stage,
                                             struct kvc_transfer_context context, const char *where)
{
    stage->fake.store_context = context;
    struct kvc_error err = KVC_ERROR_INIT;
    struct kvc_store_result result;
    cr_assert_eq(
        kvc_worker_store(stage->worker, &stage->key, (struct kvc_ints){blocks, 4}, &result, &err),
        KVC_EFORMAT);
    cr_assert_str_eq(err.where, where);
    for (size_t i = 0; i < stage->pool.size; i++)
        cr_assert_eq(stage->pool.data[i], 0x77);
    cr_assert_eq(stage->fake.asked[KVC_OP_COMMIT_STORE], 0);
    return err;
}

static struct kvc_transfer_context context_of(const struct kvc_slot *slots, size_t count,
                                              const int64_t *indices, size_t index_count)
{
    return (struct kvc_transfer_context){true, {slots, count}, true, {indices, index_count}};
}

Test(hostile, slots_outside_the_pool_or_overlapping)
{
    struct stage stage;
    open_stage(&stage, true);
    const struct kvc_slot outside[] = {small_slot(0), small_slot(POOL - SMALL_CHUNK_BYTES + 1)};
    expect_store_refused(&stage, context_of(outside, 2, both, 2),
                         "prepare_store: context.slots[1].offset");
    const struct kvc_slot overlapping[] = {small_slot(1), small_slot(SMALL_CHUNK_BYTES)};
    expect_store_refused(&stage, context_of(overlapping, 2, both, 2),
                         "prepare_store: context.slots[1].offset");
    struct kvc_slot shorter[] = {small_slot(0), small_slot(SMALL_CHUNK_BYTES)};
    shorter[0].length = SMALL_CHUNK_BYTES / 2;
    expect_store_refused(&stage, context_of(shorter, 2, both, 2),
                         "prepare_store: context.slots[0].length");
    close_stage(&stage);
}

Test(hostile, slots_of_another_shape_or_dtype_of_the_same_size)
{
    struct stage stage;
    open_stage(&stage, true);
    struct kvc_slot slots[] = {small_slot(0), small_slot(SMALL_CHUNK_BYTES)};
    slots[1].shape = (struct kvc_ints){other_order, 4};
    expect_store_refused(&stage, context_of(slots, 2, both, 2), "prepare_store: context.slots[1]");
    slots[1] = small_slot(SMALL_CHUNK_BYTES);
    slots[0].dtype = KVC_STR("bfloat16");
    expect_store_refused(&stage, context_of(slots, 2, both, 2), "prepare_store: context.slots[0]");
    close_stage(&stage);
}

Test(hostile, chunk_indices_that_do_not_fit)
{
    static const struct {
        int64_t indices[3];
        size_t count;
        const char *where;
    } wrong[] = {
        {{0}, 1, "prepare_store: context.chunk_indices"},
        {{0, 1, 2}, 3, "prepare_store: context.chunk_indices"},
        {{0}, 0, "prepare_store: context.chunk_indices"},
        {{0, 2}, 2, "prepare_store: context.chunk_indices[1]"},
        {{-1, 0}, 2, "prepare_store: context.chunk_indices[0]"},
        {{1, 0}, 2, "prepare_store: context.chunk_indices[1]"},
        {{1, 1}, 2, "prepare_store: context.chunk_indices[1]"},
        {{INT64_MIN, INT64_MAX}, 2, "prepare_store: context.chunk_indices[0]"},
    };
    struct stage stage;
    open_stage(&stage, true);
    const struct kvc_slot slots[] = {small_slot(0), small_slot(SMALL_CHUNK_BYTES)};
    for (size_t i = 0; i < KVC_COUNT_OF(wrong); i++)
        expect_store_refused(&stage, context_of(slots, 2, wrong[i].indices, wrong[i].count),
                             wrong[i].where);
    close_stage(&stage);
}

Test(hostile, more_slots_than_chunks)
{
    struct stage stage;
    open_stage(&stage, true);
    const struct kvc_slot slots[] = {small_slot(0), small_slot(SMALL_CHUNK_BYTES),
                                     small_slot(2 * SMALL_CHUNK_BYTES)};
    static const int64_t three[] = {0, 1, 2};
    expect_store_refused(&stage, context_of(slots, 3, three, 3),
                         "prepare_store: context.chunk_indices[2]");
    close_stage(&stage);
}

Test(hostile, a_pool_was_offered_but_slots_or_indices_are_missing)
{
    struct stage stage;
    open_stage(&stage, true);
    struct kvc_error err =
        expect_store_refused(&stage, (struct kvc_transfer_context){0}, "prepare_store: context");
    cr_assert_not_null(strstr(err.what, "names no slots"), "%s", err.what);
    const struct kvc_slot slots[] = {small_slot(0), small_slot(SMALL_CHUNK_BYTES)};
    err = expect_store_refused(
        &stage, (struct kvc_transfer_context){.has_slots = true, .slots = {slots, 2}},
        "prepare_store: context");
    cr_assert_not_null(strstr(err.what, "no chunk_indices"), "%s", err.what);
    close_stage(&stage);
}

/* A retrieve is refused, no block is touched, and nothing is committed. */
static void expect_retrieve_refused(struct stage *stage, struct kvc_prepare_retrieve_result reply,
                                    kvc_status status, const char *where)
{
    stage->fake.retrieved = reply;
    struct kvc_error err = KVC_ERROR_INIT;
    bool success = false;
    cr_assert_eq(kvc_worker_retrieve(stage->worker, &stage->key, (struct kvc_ints){blocks, 4}, 0,
                                     &success, &err),
                 status);
    cr_assert_not(success);
    cr_assert_eq(strncmp(err.where, where, strlen(where)), 0, "%s", err.where);
    for (int64_t block = 0; block < 8; block++)
        cr_assert_eq(kvc_paged_check_block_is(&stage->worker->paged, block, 0x5a, NULL), KVC_OK);
    cr_assert_eq(stage->fake.asked[KVC_OP_COMMIT_RETRIEVE], 0);
}

Test(hostile, a_retrieve_with_wrong_slots)
{
    struct stage stage;
    open_stage(&stage, true);
    const struct kvc_slot outside[] = {small_slot(-2), small_slot(0)};
    struct kvc_prepare_retrieve_result reply = {
        .success = true, .context = {.has_slots = true, .slots = {outside, 2}}};
    expect_retrieve_refused(&stage, reply, KVC_EFORMAT,
                            "prepare_retrieve: context.slots[0].offset");
    reply.context.slots = (struct kvc_slots){outside + 1, 1};
    expect_retrieve_refused(&stage, reply, KVC_EFORMAT, "prepare_retrieve: context.slots");
    reply.context = (struct kvc_transfer_context){0};
    expect_retrieve_refused(&stage, reply, KVC_EFORMAT, "prepare_retrieve: context");
    close_stage(&stage);
}

Test(hostile, inline_replies_that_do_not_fit)
{
    struct stage stage;
    open_stage(&stage, false);
    static uint8_t bytes[3][SMALL_CHUNK_BYTES];
    struct kvc_inline_tensor tensors[3];
    for (size_t i = 0; i < 3; i++)
        tensors[i] = (struct kvc_inline_tensor){.dtype = KVC_STR("float16"),
                                                .shape = {small_shape, 4},
                                                .data = {bytes[i], SMALL_CHUNK_BYTES}};
    struct kvc_buffer data = {0};

    cr_assert_eq(kvc_inline_encode_torch(tensors, 1, &data, NULL), KVC_OK);
    struct kvc_prepare_retrieve_result reply = {.success = true, .data = kvc_buffer_view(&data)};
    expect_retrieve_refused(&stage, reply, KVC_EFORMAT, "prepare_retrieve: data");

    data.size = 0;
    cr_assert_eq(kvc_inline_encode_torch(tensors, 3, &data, NULL), KVC_OK);
    reply.data = kvc_buffer_view(&data);
    expect_retrieve_refused(&stage, reply, KVC_EFORMAT, "prepare_retrieve: data");

    data.size = 0;
    tensors[1].shape = (struct kvc_ints){other_order, 4};
    cr_assert_eq(kvc_inline_encode_torch(tensors, 2, &data, NULL), KVC_OK);
    reply.data = kvc_buffer_view(&data);
    expect_retrieve_refused(&stage, reply, KVC_EFORMAT, "prepare_retrieve: data[1]");

    data.size = 0;
    tensors[1].shape = (struct kvc_ints){small_shape, 4};
    tensors[1].dtype = KVC_STR("int16");
    cr_assert_eq(kvc_inline_encode_torch(tensors, 2, &data, NULL), KVC_OK);
    reply.data = kvc_buffer_view(&data);
    expect_retrieve_refused(&stage, reply, KVC_EFORMAT, "prepare_retrieve: data[1]");

    reply.data = (struct kvc_bytes){(const uint8_t *)"\x80\x04garbage", 9};
    expect_retrieve_refused(&stage, reply, KVC_EFORMAT, "prepare_retrieve: data");
    reply.data = (struct kvc_bytes){NULL, 0};
    expect_retrieve_refused(&stage, reply, KVC_EFORMAT, "prepare_retrieve: data");

    const struct kvc_slot slots[] = {small_slot(0), small_slot(SMALL_CHUNK_BYTES)};
    reply.context = (struct kvc_transfer_context){.has_slots = true, .slots = {slots, 2}};
    expect_retrieve_refused(&stage, reply, KVC_EUNSUPPORTED, "prepare_retrieve: context.slots");
    kvc_buffer_clear(&data);

    stage.pool.size = 0;
    expect_store_refused(&stage, context_of(slots, 2, both, 2), "prepare_store: context.slots");
    close_stage(&stage);
}

/* ---- registrations ---- */

static struct kvc_error expect_no_worker(struct kvc_pool_info pool, kvc_status status)
{
    struct fake_server fake;
    fake_start(&fake, "0.5.6");
    fake.pool = pool;
    struct kvc_rpc rpc = fake_rpc(&fake);
    struct kvc_error err = KVC_ERROR_INIT;
    struct kvc_worker *worker = NULL;
    const struct kvc_worker_options options = small_worker(KVC_MODE_ENGINE_DRIVEN);
    cr_assert_eq(kvc_worker_open(&rpc, &options, &worker, &err), status, "%s", err.what);
    cr_assert_null(worker);
    cr_assert_eq(strncmp(err.where, "register_", 9), 0, "%s", err.where);
    cr_assert_eq(fake.asked[KVC_OP_UNREGISTER_ENGINE_DRIVEN], 1, "the server is told");
    kvc_client_close(rpc.client);
    fake_stop(&fake);
    return err;
}

Test(hostile, pool_names_that_no_segment_has)
{
    expect_no_worker((struct kvc_pool_info){KVC_STR("a/b"), 4096}, KVC_EFORMAT);
    expect_no_worker((struct kvc_pool_info){KVC_STR("../etc/passwd"), 4096}, KVC_EFORMAT);
    expect_no_worker((struct kvc_pool_info){KVC_STR("//"), 4096}, KVC_EFORMAT);
    expect_no_worker((struct kvc_pool_info){KVC_STR("/"), 4096}, KVC_EFORMAT);
    expect_no_worker((struct kvc_pool_info){KVC_STR("pool\0hidden"), 4096}, KVC_EFORMAT);
    static char longest[96];
    memset(longest, 'a', sizeof(longest));
    expect_no_worker((struct kvc_pool_info){{longest, sizeof(longest)}, 4096}, KVC_EFORMAT);
}

Test(hostile, a_pool_that_is_not_there)
{
    const struct kvc_error err = expect_no_worker(
        (struct kvc_pool_info){KVC_STR("kvconform-test-no-such-pool"), 4096}, KVC_EFORMAT);
    cr_assert_not_null(strstr(err.what, "kvconform-test-no-such-pool"), "%s", err.what);
}

Test(hostile, a_pool_that_is_shorter_than_said)
{
    struct kvc_segment pool = {0};
    char name[96];
    kvc_segment_name("test-", name, sizeof(name));
    cr_assert_eq(kvc_segment_create(name, 4096, &pool, NULL), KVC_OK);
    expect_no_worker((struct kvc_pool_info){kvc_str_of(pool.name + 1), 8192}, KVC_EFORMAT);
    expect_no_worker((struct kvc_pool_info){kvc_str_of(pool.name + 1), INT64_MAX}, KVC_EFORMAT);
    kvc_segment_close(&pool);
}

Test(hostile, a_server_that_goes_during_a_store)
{
    struct stage stage;
    open_stage(&stage, true);
    fake_stop(&stage.fake);
    struct kvc_store_result result;
    struct kvc_error err = KVC_ERROR_INIT;
    cr_assert_eq(
        kvc_worker_store(stage.worker, &stage.key, (struct kvc_ints){blocks, 4}, &result, &err),
        KVC_ELOST);
    cr_assert_eq(kvc_worker_close(stage.worker, &err), KVC_ELOST);
    kvc_segment_close(&stage.pool);
    kvc_client_close(stage.rpc.client);
}
