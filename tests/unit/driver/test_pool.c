/* Store and retrieve through a shared-memory pool. */
#include <criterion/criterion.h>
#include <string.h>

#include "tests/unit/driver/fake_server.h"

Test(pool, writes_the_chunks_that_have_slots_and_commits)
{
    struct fake_server fake;
    struct kvc_rpc rpc;
    fake_start(&fake, "0.5.6");
    struct kvc_segment pool = {0};
    fake_offer_pool(&fake, &pool);
    const struct kvc_slot slots[] = {small_slot(2 * SMALL_CHUNK_BYTES)};
    static const int64_t second[] = {1};
    fake.store_context = (struct kvc_transfer_context){true, {slots, 1}, true, {second, 1}};
    struct kvc_worker_options options = small_worker(KVC_MODE_ENGINE_DRIVEN);
    options.worker_id = 3;
    options.num_kv_readers = 2;
    struct kvc_worker *worker = open_small(&fake, &rpc, &options);
    cr_assert_eq(worker->path, KVC_PATH_ENGINE_DRIVEN);

    kvc_stamp_blocks(&worker->paged, small_source, 0, small_blocks, 4);
    memset(pool.data, 0x77, pool.size);
    const struct kvc_key key = small_key(worker);
    struct kvc_store_result result;
    cr_assert_eq(kvc_worker_store(worker, &key, (struct kvc_ints){small_blocks, 4}, &result, NULL),
                 KVC_OK);
    cr_assert(result.success);
    cr_assert_eq(result.chunks_asked, 2);
    cr_assert_eq(result.chunks_written, 1);
    expect_stamped_chunk(worker, FAKE_CHUNK, pool.data + 2 * SMALL_CHUNK_BYTES);
    for (size_t i = 0; i < pool.size; i++) {
        const bool inside = i / SMALL_CHUNK_BYTES == 2;
        cr_assert(inside || pool.data[i] == 0x77, "byte %zu is outside the slot", i);
    }
    const struct kvc_request commit = fake_last(&fake, KVC_OP_COMMIT_STORE);
    cr_assert_eq(commit.data.size, 0);
    cr_assert_eq(commit.instance_id, 77);
    cr_assert_eq(commit.key.worker_id.value, 3);
    cr_assert_eq(commit.key.num_kv_readers, 2);
    cr_assert_gt(worker->timing.wait_ns, 0);
    cr_assert_gt(worker->timing.copy_ns, 0);
    kvc_worker_close(worker, NULL);
    kvc_segment_close(&pool);
    kvc_client_close(rpc.client);
    fake_stop(&fake);
}

Test(pool, neither_writes_nor_commits_without_slots)
{
    struct fake_server fake;
    struct kvc_rpc rpc;
    fake_start(&fake, "0.5.1");
    struct kvc_segment pool = {0};
    fake_offer_pool(&fake, &pool);
    fake.store_context =
        (struct kvc_transfer_context){.has_slots = true, .has_chunk_indices = true};
    const struct kvc_worker_options options = small_worker(KVC_MODE_ENGINE_DRIVEN);
    struct kvc_worker *worker = open_small(&fake, &rpc, &options);
    const struct kvc_key key = small_key(worker);
    struct kvc_store_result result;
    cr_assert_eq(kvc_worker_store(worker, &key, (struct kvc_ints){small_blocks, 4}, &result, NULL),
                 KVC_OK);
    cr_assert(result.success);
    cr_assert_eq(result.chunks_written, 0);
    cr_assert_eq(fake.asked[KVC_OP_COMMIT_STORE], 0);
    kvc_worker_close(worker, NULL);
    kvc_segment_close(&pool);
    kvc_client_close(rpc.client);
    fake_stop(&fake);
}

Test(pool, says_that_a_commit_was_refused)
{
    struct fake_server fake;
    struct kvc_rpc rpc;
    fake_start(&fake, "0.5.1");
    struct kvc_segment pool = {0};
    fake_offer_pool(&fake, &pool);
    const struct kvc_slot slots[] = {small_slot(0), small_slot(SMALL_CHUNK_BYTES)};
    static const int64_t both[] = {0, 1};
    fake.store_context = (struct kvc_transfer_context){true, {slots, 2}, true, {both, 2}};
    fake.ok = false;
    const struct kvc_worker_options options = small_worker(KVC_MODE_ENGINE_DRIVEN);
    struct kvc_worker *worker = open_small(&fake, &rpc, &options);
    const struct kvc_key key = small_key(worker);
    struct kvc_store_result result;
    cr_assert_eq(kvc_worker_store(worker, &key, (struct kvc_ints){small_blocks, 4}, &result, NULL),
                 KVC_OK);
    cr_assert_not(result.success);
    cr_assert_eq(result.chunks_written, 2);
    kvc_worker_close(worker, NULL);
    kvc_segment_close(&pool);
    kvc_client_close(rpc.client);
    fake_stop(&fake);
}

Test(pool, retrieves_into_the_blocks_behind_the_skipped_ones)
{
    struct fake_server fake;
    struct kvc_rpc rpc;
    fake_start(&fake, "0.5.6");
    struct kvc_segment pool = {0};
    fake_offer_pool(&fake, &pool);
    const struct kvc_slot slots[] = {small_slot(3 * SMALL_CHUNK_BYTES), small_slot(0)};
    fake.retrieved = (struct kvc_prepare_retrieve_result){
        .success = true, .context = {.has_slots = true, .slots = {slots, 2}}};
    const struct kvc_worker_options options = small_worker(KVC_MODE_ENGINE_DRIVEN);
    struct kvc_worker *worker = open_small(&fake, &rpc, &options);
    kvc_stamp_chunk(&options.geometry, small_source, 0, FAKE_CHUNK,
                    pool.data + 3 * SMALL_CHUNK_BYTES);
    kvc_stamp_chunk(&options.geometry, small_source, FAKE_CHUNK, FAKE_CHUNK, pool.data);
    kvc_paged_fill(&worker->paged, 0x5a);

    const struct kvc_key key = small_key(worker);
    bool success = false;
    cr_assert_eq(kvc_worker_retrieve(worker, &key, (struct kvc_ints){small_blocks, 4}, 16 + 15,
                                     &success, NULL),
                 KVC_OK);
    cr_assert(success);
    cr_assert_eq(kvc_stamp_check_blocks(&worker->paged, small_source, 16, small_blocks + 1, 3, NULL,
                                        0, NULL),
                 KVC_OK);
    static const int64_t untouched[] = {0, 2, 4, 5, 6};
    for (size_t i = 0; i < KVC_COUNT_OF(untouched); i++)
        cr_assert_eq(kvc_paged_check_block_is(&worker->paged, untouched[i], 0x5a, NULL), KVC_OK);
    cr_assert_eq(kvc_paged_check_guards(&worker->paged, NULL), KVC_OK);
    cr_assert_eq(fake.asked[KVC_OP_COMMIT_RETRIEVE], 1);
    kvc_worker_close(worker, NULL);
    kvc_segment_close(&pool);
    kvc_client_close(rpc.client);
    fake_stop(&fake);
}

Test(pool, does_not_commit_a_retrieve_that_missed)
{
    struct fake_server fake;
    struct kvc_segment pool = {0};
    fake_start(&fake, "0.5.6");
    for (int with_pool = 0; with_pool < 2; with_pool++) {
        struct kvc_rpc rpc;
        if (with_pool)
            fake_offer_pool(&fake, &pool);
        const struct kvc_worker_options options = small_worker(KVC_MODE_ENGINE_DRIVEN);
        struct kvc_worker *worker = open_small(&fake, &rpc, &options);
        const struct kvc_key key = small_key(worker);
        bool success = true;
        cr_assert_eq(kvc_worker_retrieve(worker, &key, (struct kvc_ints){small_blocks, 4}, 0,
                                         &success, NULL),
                     KVC_OK);
        cr_assert_not(success);
        cr_assert_eq(fake.asked[KVC_OP_COMMIT_RETRIEVE], 0);
        kvc_worker_close(worker, NULL);
        kvc_client_close(rpc.client);
    }
    kvc_segment_close(&pool);
    fake_stop(&fake);
}
