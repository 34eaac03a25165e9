/* Store and retrieve with the bytes inside the message. */
#include <criterion/criterion.h>
#include <string.h>

#include "src/wire/inline_data.h"
#include "tests/unit/driver/fake_server.h"

Test(inline_path, sends_the_chunks_inline)
{
    struct fake_server fake;
    struct kvc_rpc rpc;
    fake_start(&fake, "0.5.6");
    const struct kvc_worker_options options = small_worker(KVC_MODE_ENGINE_DRIVEN);
    struct kvc_worker *worker = open_small(&fake, &rpc, &options);
    kvc_stamp_blocks(&worker->paged, small_source, 0, small_blocks, 4);
    const struct kvc_key key = small_key(worker);
    struct kvc_store_result result;
    cr_assert_eq(kvc_worker_store(worker, &key, (struct kvc_ints){small_blocks, 4}, &result, NULL),
                 KVC_OK);
    cr_assert(result.success);
    cr_assert_eq(result.chunks_written, 2);
    cr_assert_eq(fake.asked[KVC_OP_PREPARE_STORE], 1);

    struct kvc_arena arena = {0};
    struct kvc_inline_tensor *tensors;
    size_t count;
    const struct kvc_request commit = fake_last(&fake, KVC_OP_COMMIT_STORE);
    cr_assert_eq(kvc_inline_decode(commit.data, &arena, &tensors, &count, NULL), KVC_OK);
    cr_assert_eq(count, 2);
    cr_assert_eq(tensors[1].shape.count, 4);
    cr_assert_eq(memcmp(tensors[1].shape.items, small_shape, sizeof(small_shape)), 0);
    expect_stamped_chunk(worker, 0, tensors[0].data.data);
    expect_stamped_chunk(worker, FAKE_CHUNK, tensors[1].data.data);
    kvc_arena_clear(&arena);
    kvc_worker_close(worker, NULL);
    kvc_client_close(rpc.client);
    fake_stop(&fake);
}

/* Payloads of all three bin heads: below 256 bytes, a little above that, below 65536, and above. */
Test(inline_path, inline_payloads_of_every_size_are_well_formed)
{
    static const struct {
        const char *spec;
        int64_t chunks;
    } cases[] = {{"(1,8,16,1,1):uint8:1", 0},
                 {"(1,8,16,1,2):uint8:1", 2},
                 {"(1,8,16,1,16):float16:2", 2},
                 {"(1,8,16,1,512):float32:2", 2}};
    struct fake_server fake;
    fake_start(&fake, "0.5.6");
    for (size_t i = 0; i < KVC_COUNT_OF(cases); i++) {
        struct kvc_rpc rpc;
        struct kvc_worker_options options = small_worker(KVC_MODE_ENGINE_DRIVEN);
        cr_assert_eq(kvc_geometry_parse(cases[i].spec, &options.geometry, NULL), KVC_OK);
        struct kvc_worker *worker = open_small(&fake, &rpc, &options);
        struct kvc_key key = small_key(worker);
        key.end = cases[i].chunks * FAKE_CHUNK;
        const struct kvc_ints blocks = {small_blocks, 2 * (size_t)cases[i].chunks};
        struct kvc_store_result result;
        cr_assert_eq(kvc_worker_store(worker, &key, blocks, &result, NULL), KVC_OK);
        struct kvc_arena arena = {0};
        struct kvc_inline_tensor *tensors;
        size_t count;
        const struct kvc_request commit = fake_last(&fake, KVC_OP_COMMIT_STORE);
        cr_assert_eq(kvc_inline_decode(commit.data, &arena, &tensors, &count, NULL), KVC_OK);
        cr_assert_eq(count, (size_t)cases[i].chunks);
        kvc_arena_clear(&arena);
        kvc_worker_close(worker, NULL);
        kvc_client_close(rpc.client);
    }
    fake_stop(&fake);
}

Test(inline_path, reads_chunks_that_came_inline)
{
    struct fake_server fake;
    struct kvc_rpc rpc;
    fake_start(&fake, "0.5.6");
    const struct kvc_worker_options options = small_worker(KVC_MODE_ENGINE_DRIVEN);
    struct kvc_worker *worker = open_small(&fake, &rpc, &options);
    static uint8_t chunks[2][SMALL_CHUNK_BYTES];
    struct kvc_inline_tensor tensors[2];
    for (size_t i = 0; i < 2; i++) {
        kvc_stamp_chunk(&options.geometry, small_source, (int64_t)i * FAKE_CHUNK, FAKE_CHUNK,
                        chunks[i]);
        tensors[i] = (struct kvc_inline_tensor){.dtype = KVC_STR("float16"),
                                                .shape = {small_shape, 4},
                                                .data = {chunks[i], SMALL_CHUNK_BYTES}};
    }
    struct kvc_buffer data = {0};
    cr_assert_eq(kvc_inline_encode_torch(tensors, 2, &data, NULL), KVC_OK);
    fake.retrieved =
        (struct kvc_prepare_retrieve_result){.success = true, .data = kvc_buffer_view(&data)};
    kvc_paged_fill(&worker->paged, 0x5a);
    const struct kvc_key key = small_key(worker);
    bool success = false;
    cr_assert_eq(
        kvc_worker_retrieve(worker, &key, (struct kvc_ints){small_blocks, 4}, 40, &success, NULL),
        KVC_OK);
    cr_assert(success);
    cr_assert_eq(kvc_stamp_check_blocks(&worker->paged, small_source, 32, small_blocks + 2, 2, NULL,
                                        0, NULL),
                 KVC_OK);
    cr_assert_eq(kvc_paged_check_block_is(&worker->paged, small_blocks[1], 0x5a, NULL), KVC_OK);
    cr_assert_eq(fake.asked[KVC_OP_COMMIT_RETRIEVE], 1);
    kvc_buffer_clear(&data);
    kvc_worker_close(worker, NULL);
    kvc_client_close(rpc.client);
    fake_stop(&fake);
}

Test(inline_path, inline_beside_an_offered_pool_reserves_nothing_in_it)
{
    struct fake_server fake;
    struct kvc_rpc rpc;
    fake_start(&fake, "0.5.1");
    fake.pool = (struct kvc_pool_info){KVC_STR("nobody-opens-this"), 4096};
    struct kvc_worker_options options = small_worker(KVC_MODE_ENGINE_DRIVEN);
    options.force_inline = true;
    struct kvc_worker *worker = open_small(&fake, &rpc, &options);
    cr_assert_eq(worker->path, KVC_PATH_ENGINE_DRIVEN_INLINE);
    const struct kvc_key key = small_key(worker);
    struct kvc_store_result result;
    cr_assert_eq(kvc_worker_store(worker, &key, (struct kvc_ints){small_blocks, 4}, &result, NULL),
                 KVC_OK);
    cr_assert_eq(fake.asked[KVC_OP_PREPARE_STORE], 0);
    cr_assert_eq(fake.asked[KVC_OP_COMMIT_STORE], 1);
    kvc_worker_close(worker, NULL);
    kvc_client_close(rpc.client);
    fake_stop(&fake);
}
