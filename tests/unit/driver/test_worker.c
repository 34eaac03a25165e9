#include <criterion/criterion.h>
#include <string.h>

#include "tests/unit/driver/fake_server.h"

/* ---- lmcache-driven ---- */

Test(worker, hands_block_ids_and_skip_to_the_server_as_they_are)
{
    struct fake_server fake;
    struct kvc_rpc rpc;
    fake_start(&fake, "0.5.6");
    struct kvc_worker_options options = small_worker(KVC_MODE_LMCACHE_DRIVEN);
    cr_assert_eq(kvc_geometry_parse("(1,8,16,1,8):float16:1;(2,8,16,2,8):float16:2",
                                    &options.geometry, NULL),
                 KVC_OK);
    struct kvc_worker *worker = open_small(&fake, &rpc, &options);
    const struct kvc_key key = small_key(worker);
    static const int64_t strange[] = {999, -1, 3};
    const struct kvc_ints blocks = {strange, 3};
    struct kvc_store_result result;
    bool success;
    cr_assert_eq(kvc_worker_store(worker, &key, blocks, &result, NULL), KVC_OK);
    cr_assert(result.success);
    cr_assert_eq(result.chunks_written, -1);
    fake.ok = false;
    cr_assert_eq(kvc_worker_retrieve(worker, &key, blocks, -5, &success, NULL), KVC_OK);
    cr_assert_not(success);
    const struct kvc_request sent = fake_last(&fake, KVC_OP_RETRIEVE);
    cr_assert_eq(sent.skip_first_n_tokens, -5);
    cr_assert_eq(sent.block_ids.count, 2);
    for (size_t g = 0; g < 2; g++) {
        cr_assert_eq(sent.block_ids.items[g].count, 3);
        cr_assert_eq(memcmp(sent.block_ids.items[g].items, strange, sizeof(strange)), 0);
    }
    kvc_worker_close(worker, NULL);
    kvc_client_close(rpc.client);
    fake_stop(&fake);
}

/* ---- lookups ---- */

Test(worker, looks_up_for_all_ranks)
{
    struct fake_server fake;
    struct kvc_rpc rpc;
    fake_start(&fake, "0.5.6");
    fake.found[0] = 2;
    fake.found_count = 1;
    const struct kvc_worker_options options = small_worker(KVC_MODE_ENGINE_DRIVEN);
    struct kvc_worker *worker = open_small(&fake, &rpc, &options);
    const struct kvc_key key = small_key(worker);
    cr_assert(key.worker_id.present);
    int64_t chunks = 0;
    cr_assert_eq(kvc_worker_lookup(worker, &key, &chunks, NULL), KVC_OK);
    cr_assert_eq(chunks, 2);
    const struct kvc_request sent = fake_last(&fake, KVC_OP_LOOKUP);
    cr_assert_not(sent.key.worker_id.present);
    cr_assert_eq(sent.key.num_kv_readers, 1);
    cr_assert_eq(sent.tp_size, 1);
    cr_assert_eq(kvc_worker_end_session(worker, key.request_id, NULL), KVC_OK);
    kvc_worker_close(worker, NULL);
    kvc_client_close(rpc.client);
    fake_stop(&fake);
}

Test(worker, waits_until_a_store_is_visible_and_frees_what_it_locked)
{
    struct fake_server fake;
    struct kvc_rpc rpc;
    fake_start(&fake, "0.5.6");
    memcpy(fake.found, (int64_t[]){0, 1, 2}, 3 * sizeof(int64_t));
    fake.found_count = 3;
    const struct kvc_worker_options options = small_worker(KVC_MODE_LMCACHE_DRIVEN);
    struct kvc_worker *worker = open_small(&fake, &rpc, &options);
    struct kvc_key key = small_key(worker);
    key.end = FAKE_CHUNK; /* older servers look beyond the window, and lock what they find there */
    cr_assert_eq(kvc_worker_wait_visible(worker, &key, 2, 5000, NULL), KVC_OK);
    cr_assert_eq(fake.asked[KVC_OP_LOOKUP], 3);
    cr_assert_eq(fake.asked[KVC_OP_FREE_LOOKUP_LOCKS], 2, "nothing was locked the first time");
    cr_assert_eq(fake.asked[KVC_OP_END_SESSION], 3);
    const struct kvc_request freed = fake_last(&fake, KVC_OP_FREE_LOOKUP_LOCKS);
    cr_assert_eq(freed.key.start, 0);
    cr_assert_eq(freed.key.end, 2 * FAKE_CHUNK);
    cr_assert_not(freed.key.worker_id.present);
    cr_assert(kvc_str_is(freed.key.request_id, "r-visible-2"));
    struct kvc_error err = KVC_ERROR_INIT;
    cr_assert_eq(kvc_worker_wait_visible(worker, &key, 3, 30, &err), KVC_ETIMEOUT);
    cr_assert_str_eq(err.expected, "3 chunks");
    cr_assert_str_eq(err.got, "2");
    kvc_worker_close(worker, NULL);
    kvc_client_close(rpc.client);
    fake_stop(&fake);
}

/* ---- callers that are wrong ---- */

Test(worker, refuses_windows_and_blocks_before_anything_is_sent)
{
    struct fake_server fake;
    struct kvc_rpc rpc;
    fake_start(&fake, "0.5.6");
    const struct kvc_worker_options options = small_worker(KVC_MODE_ENGINE_DRIVEN);
    struct kvc_worker *worker = open_small(&fake, &rpc, &options);
    static const struct {
        int64_t start, end;
        int64_t blocks[5];
        size_t block_count;
        const char *problem;
    } wrong[] = {
        {1, 64, {1, 2}, 2, "is not whole chunks"},
        {0, 63, {1, 2}, 2, "is not whole chunks"},
        {64, 0, {0}, 0, "is not whole chunks"},
        {-32, 32, {1, 2, 3, 4}, 4, "is not whole chunks"},
        {0, 64, {1, 2, 3}, 3, "needs 4 block ids, there are 3"},
        {0, 64, {1, 2, 3, 4, 5}, 5, "needs 4 block ids, there are 5"},
        {0, 64, {1, 2, 3, 8}, 4, "block id 8 is not among"},
        {0, 64, {1, -1, 3, 4}, 4, "block id -1 is not among"},
        {0, 64, {1, 2, INT64_MAX, 4}, 4, "is not among"},
    };
    for (size_t i = 0; i < KVC_COUNT_OF(wrong); i++) {
        struct kvc_key key = small_key(worker);
        key.start = wrong[i].start;
        key.end = wrong[i].end;
        const struct kvc_ints blocks = {wrong[i].blocks, wrong[i].block_count};
        struct kvc_store_result result;
        struct kvc_error err = KVC_ERROR_INIT;
        bool success;
        cr_assert_eq(kvc_worker_store(worker, &key, blocks, &result, &err), KVC_EUSAGE, "%zu", i);
        cr_assert_not_null(strstr(err.what, wrong[i].problem), "%s", err.what);
        cr_assert_eq(kvc_worker_retrieve(worker, &key, blocks, 0, &success, NULL), KVC_EUSAGE);
    }
    cr_assert_eq(fake.peer.received, 1, "only the registration");
    kvc_worker_close(worker, NULL);
    kvc_client_close(rpc.client);
    fake_stop(&fake);
}
