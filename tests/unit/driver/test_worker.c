#include <criterion/criterion.h>
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "src/base/clock.h"
#include "src/kv/stamp.h"
#include "src/wire/inline_data.h"
#include "tests/unit/driver/fake_server.h"

static const struct kvc_stamp_source source = {11, 1};
static int64_t tokens[4 * FAKE_CHUNK];
static const int64_t four_blocks[] = {6, 1, 7, 3}; /* two chunks of two blocks */

static struct kvc_key two_chunks(const struct kvc_worker *worker)
{
    return kvc_worker_key(worker, (struct kvc_ints){tokens, 2 * FAKE_CHUNK}, 0, 2 * FAKE_CHUNK,
                          KVC_STR("r"), KVC_STR(""));
}

static const int64_t chunk_shape[] = {2, 2, FAKE_CHUNK, 16};

static struct kvc_slot slot_at(int64_t offset)
{
    return (struct kvc_slot){offset, SMALL_CHUNK_BYTES, {chunk_shape, 4}, KVC_STR("float16")};
}

/* A pool of four chunks in real shared memory, offered by the fake server. */
static void offer_pool(struct fake_server *fake, struct kvc_segment *pool)
{
    char name[96];
    kvc_segment_name("test-", name, sizeof(name));
    cr_assert_eq(kvc_segment_create(name, 4 * SMALL_CHUNK_BYTES, pool, NULL), KVC_OK);
    fake->pool = (struct kvc_pool_info){kvc_str_of(pool->name + 1), 4 * SMALL_CHUNK_BYTES};
}

static void expect_chunk(const struct kvc_worker *worker, int64_t first_token, const uint8_t *chunk)
{
    struct kvc_error err = KVC_ERROR_INIT;
    cr_assert_eq(kvc_stamp_check_chunk(&worker->options.geometry, source, first_token, FAKE_CHUNK,
                                       chunk, NULL, 0, &err),
                 KVC_OK, "%s: %s, got %s", err.what, err.expected, err.got);
}

/* ---- registration ---- */

Test(worker, registers_engine_driven_with_what_its_memory_is)
{
    struct fake_server fake;
    struct kvc_rpc rpc;
    fake_start(&fake, "0.5.6");
    const struct kvc_worker_options options = small_worker(KVC_MODE_ENGINE_DRIVEN);
    struct kvc_worker *worker = open_small(&fake, &rpc, &options);
    const struct kvc_engine_driven_register sent =
        fake_last(&fake, KVC_OP_REGISTER_ENGINE_DRIVEN).engine_driven;
    cr_assert_eq(sent.instance_id, 77);
    cr_assert_eq(sent.world_size, 1);
    cr_assert_eq(sent.block_size, 16);
    cr_assert_eq(sent.num_layers, 2);
    cr_assert_eq(sent.hidden_dim_size, 16);
    cr_assert(kvc_str_is(sent.dtype_str, "float16"));
    cr_assert_not(sent.use_mla);
    cr_assert_eq(sent.num_physical_slots.value, FAKE_CHUNK);
    cr_assert_eq(worker->path, KVC_PATH_ENGINE_DRIVEN_INLINE);
    cr_assert_str_eq(worker->path_reason, "the server offers no shared-memory pool");
    cr_assert_eq(kvc_worker_close(worker, NULL), KVC_OK);
    cr_assert_eq(fake_last(&fake, KVC_OP_UNREGISTER_ENGINE_DRIVEN).instance_id, 77);
    kvc_client_close(rpc.client);
    fake_stop(&fake);
}

Test(worker, registers_mla_as_such)
{
    struct fake_server fake;
    struct kvc_rpc rpc;
    fake_start(&fake, "0.5.1");
    struct kvc_worker_options options = small_worker(KVC_MODE_ENGINE_DRIVEN);
    options.world_size = 4;
    cr_assert_eq(kvc_geometry_parse("(1,8,16,1,32):bfloat16:3", &options.geometry, NULL), KVC_OK);
    struct kvc_worker *worker = open_small(&fake, &rpc, &options);
    const struct kvc_engine_driven_register sent =
        fake_last(&fake, KVC_OP_REGISTER_ENGINE_DRIVEN).engine_driven;
    cr_assert(sent.use_mla);
    cr_assert_eq(sent.hidden_dim_size, 32);
    cr_assert_eq(sent.world_size, 4);
    cr_assert(kvc_str_is(sent.dtype_str, "bfloat16"));
    kvc_worker_close(worker, NULL);
    kvc_client_close(rpc.client);
    fake_stop(&fake);
}

Test(worker, sends_the_layout_hint_of_its_layout)
{
    static const struct {
        enum kvc_layout layout;
        const char *hint;
        int64_t shape[5];
    } cases[] = {{KVC_LAYOUT_NHD, "NHD", {2, 8, 16, 2, 8}},
                 {KVC_LAYOUT_HND, "HND", {2, 8, 2, 16, 8}},
                 {KVC_LAYOUT_FLASHINFER_NHD, "NHD", {8, 2, 16, 2, 8}},
                 {KVC_LAYOUT_FLASHINFER_HND, "HND", {8, 2, 2, 16, 8}}};
    struct fake_server fake;
    fake_start(&fake, "0.5.6");
    for (size_t i = 0; i < KVC_COUNT_OF(cases); i++) {
        struct kvc_rpc rpc;
        struct kvc_worker_options options = small_worker(KVC_MODE_LMCACHE_DRIVEN);
        options.geometry.groups[0].layout = cases[i].layout;
        struct kvc_worker *worker = open_small(&fake, &rpc, &options);
        const struct kvc_request sent = fake_last(&fake, KVC_OP_REGISTER_KV_CACHE);
        cr_assert(kvc_str_is(sent.layout_hints.kv_layout, cases[i].hint));
        cr_assert_eq(sent.handles.count, 2);
        cr_assert_eq(sent.handles.items[0].shape.count, 5);
        cr_assert_eq(memcmp(sent.handles.items[0].shape.items, cases[i].shape, 40), 0);
        kvc_worker_close(worker, NULL);
        kvc_client_close(rpc.client);
    }
    fake_stop(&fake);
}

Test(worker, leaves_the_groups_to_the_server_when_asked)
{
    struct fake_server fake;
    struct kvc_rpc rpc;
    fake_start(&fake, "0.5.6");
    struct kvc_worker_options options = small_worker(KVC_MODE_LMCACHE_DRIVEN);
    options.keep_groups_empty = true;
    struct kvc_worker *worker = open_small(&fake, &rpc, &options);
    cr_assert_eq(fake_last(&fake, KVC_OP_REGISTER_KV_CACHE).groups.count, 0);
    kvc_worker_close(worker, NULL);
    kvc_client_close(rpc.client);
    fake_stop(&fake);
}

static size_t own_segments(void)
{
    char pid[32];
    snprintf(pid, sizeof(pid), "-%d-", (int)getpid());
    size_t count = 0;
    DIR *folder = opendir("/dev/shm");
    for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;)
        count += strstr(entry->d_name, "kvconform") != NULL && strstr(entry->d_name, pid) != NULL;
    closedir(folder);
    return count;
}

Test(worker, owns_one_segment_a_layer_and_leaves_none)
{
    struct fake_server fake;
    struct kvc_rpc rpc;
    fake_start(&fake, "0.5.6");
    const struct kvc_worker_options options = small_worker(KVC_MODE_LMCACHE_DRIVEN);
    struct kvc_worker *worker = open_small(&fake, &rpc, &options);
    cr_assert_eq(own_segments(), 2);
    kvc_worker_close(worker, NULL);
    cr_assert_eq(own_segments(), 0);
    fake.silent[KVC_OP_REGISTER_KV_CACHE] = true;
    cr_assert_eq(kvc_worker_open(&rpc, &options, &worker, NULL), KVC_ETIMEOUT);
    cr_assert_null(worker);
    cr_assert_eq(own_segments(), 0);
    cr_assert_eq(fake.asked[KVC_OP_UNREGISTER_KV_CACHE], 1,
                 "nothing to unregister the second time");
    kvc_client_close(rpc.client);
    fake_stop(&fake);
}

Test(worker, unregisters_once)
{
    struct fake_server fake;
    struct kvc_rpc rpc;
    fake_start(&fake, "0.5.1");
    const struct kvc_worker_options options = small_worker(KVC_MODE_ENGINE_DRIVEN);
    struct kvc_worker *worker = open_small(&fake, &rpc, &options);
    cr_assert_eq(kvc_worker_unregister(worker, NULL), KVC_OK);
    cr_assert_eq(kvc_worker_unregister(worker, NULL), KVC_OK);
    cr_assert_eq(kvc_worker_close(worker, NULL), KVC_OK);
    cr_assert_eq(fake.asked[KVC_OP_UNREGISTER_ENGINE_DRIVEN], 1);
    kvc_client_close(rpc.client);
    worker = open_small(&fake, &rpc, &options);
    fake.silent[KVC_OP_UNREGISTER_ENGINE_DRIVEN] = true;
    struct kvc_error err = KVC_ERROR_INIT;
    cr_assert_eq(kvc_worker_close(worker, &err), KVC_ETIMEOUT, "what the server did is said");
    cr_assert_eq(kvc_worker_close(NULL, NULL), KVC_OK);
    kvc_client_close(rpc.client);
    fake_stop(&fake);
}

Test(worker, options_that_cannot_be)
{
    struct fake_server fake;
    fake_start(&fake, "0.5.6");
    struct kvc_rpc rpc = fake_rpc(&fake);
    struct kvc_worker *worker = NULL;
    struct kvc_worker_options options = small_worker(KVC_MODE_AUTO);
    cr_assert_eq(kvc_worker_open(&rpc, &options, &worker, NULL), KVC_EUSAGE);
    options = small_worker(KVC_MODE_ENGINE_DRIVEN);
    options.chunk_size = 40;
    cr_assert_eq(kvc_worker_open(&rpc, &options, &worker, NULL), KVC_EUSAGE);
    options.chunk_size = 0;
    cr_assert_eq(kvc_worker_open(&rpc, &options, &worker, NULL), KVC_EUSAGE);
    options = small_worker(KVC_MODE_ENGINE_DRIVEN);
    options.geometry.groups[1] = options.geometry.groups[0];
    options.geometry.group_count = 2;
    cr_assert_eq(kvc_worker_open(&rpc, &options, &worker, NULL), KVC_EUNSUPPORTED);
    cr_assert_null(worker);
    cr_assert_eq(fake.peer.received, 0);
    kvc_client_close(rpc.client);
    fake_stop(&fake);
}

/* ---- store and retrieve over the pool ---- */

Test(worker, writes_the_chunks_that_have_slots_and_commits)
{
    struct fake_server fake;
    struct kvc_rpc rpc;
    fake_start(&fake, "0.5.6");
    struct kvc_segment pool = {0};
    offer_pool(&fake, &pool);
    const struct kvc_slot slots[] = {slot_at(2 * SMALL_CHUNK_BYTES)};
    static const int64_t second[] = {1};
    fake.store_context = (struct kvc_transfer_context){true, {slots, 1}, true, {second, 1}};
    struct kvc_worker_options options = small_worker(KVC_MODE_ENGINE_DRIVEN);
    options.worker_id = 3;
    options.num_kv_readers = 2;
    struct kvc_worker *worker = open_small(&fake, &rpc, &options);
    cr_assert_eq(worker->path, KVC_PATH_ENGINE_DRIVEN);

    kvc_stamp_blocks(&worker->paged, source, 0, four_blocks, 4);
    memset(pool.data, 0x77, pool.size);
    const struct kvc_key key = two_chunks(worker);
    struct kvc_store_result result;
    cr_assert_eq(kvc_worker_store(worker, &key, (struct kvc_ints){four_blocks, 4}, &result, NULL),
                 KVC_OK);
    cr_assert(result.success);
    cr_assert_eq(result.chunks_asked, 2);
    cr_assert_eq(result.chunks_written, 1);
    expect_chunk(worker, FAKE_CHUNK, pool.data + 2 * SMALL_CHUNK_BYTES);
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

Test(worker, neither_writes_nor_commits_without_slots)
{
    struct fake_server fake;
    struct kvc_rpc rpc;
    fake_start(&fake, "0.5.1");
    struct kvc_segment pool = {0};
    offer_pool(&fake, &pool);
    fake.store_context =
        (struct kvc_transfer_context){.has_slots = true, .has_chunk_indices = true};
    const struct kvc_worker_options options = small_worker(KVC_MODE_ENGINE_DRIVEN);
    struct kvc_worker *worker = open_small(&fake, &rpc, &options);
    const struct kvc_key key = two_chunks(worker);
    struct kvc_store_result result;
    cr_assert_eq(kvc_worker_store(worker, &key, (struct kvc_ints){four_blocks, 4}, &result, NULL),
                 KVC_OK);
    cr_assert(result.success);
    cr_assert_eq(result.chunks_written, 0);
    cr_assert_eq(fake.asked[KVC_OP_COMMIT_STORE], 0);
    kvc_worker_close(worker, NULL);
    kvc_segment_close(&pool);
    kvc_client_close(rpc.client);
    fake_stop(&fake);
}

Test(worker, says_that_a_commit_was_refused)
{
    struct fake_server fake;
    struct kvc_rpc rpc;
    fake_start(&fake, "0.5.1");
    struct kvc_segment pool = {0};
    offer_pool(&fake, &pool);
    const struct kvc_slot slots[] = {slot_at(0), slot_at(SMALL_CHUNK_BYTES)};
    static const int64_t both[] = {0, 1};
    fake.store_context = (struct kvc_transfer_context){true, {slots, 2}, true, {both, 2}};
    fake.ok = false;
    const struct kvc_worker_options options = small_worker(KVC_MODE_ENGINE_DRIVEN);
    struct kvc_worker *worker = open_small(&fake, &rpc, &options);
    const struct kvc_key key = two_chunks(worker);
    struct kvc_store_result result;
    cr_assert_eq(kvc_worker_store(worker, &key, (struct kvc_ints){four_blocks, 4}, &result, NULL),
                 KVC_OK);
    cr_assert_not(result.success);
    cr_assert_eq(result.chunks_written, 2);
    kvc_worker_close(worker, NULL);
    kvc_segment_close(&pool);
    kvc_client_close(rpc.client);
    fake_stop(&fake);
}

Test(worker, retrieves_into_the_blocks_behind_the_skipped_ones)
{
    struct fake_server fake;
    struct kvc_rpc rpc;
    fake_start(&fake, "0.5.6");
    struct kvc_segment pool = {0};
    offer_pool(&fake, &pool);
    const struct kvc_slot slots[] = {slot_at(3 * SMALL_CHUNK_BYTES), slot_at(0)};
    fake.retrieved = (struct kvc_prepare_retrieve_result){
        .success = true, .context = {.has_slots = true, .slots = {slots, 2}}};
    const struct kvc_worker_options options = small_worker(KVC_MODE_ENGINE_DRIVEN);
    struct kvc_worker *worker = open_small(&fake, &rpc, &options);
    kvc_stamp_chunk(&options.geometry, source, 0, FAKE_CHUNK, pool.data + 3 * SMALL_CHUNK_BYTES);
    kvc_stamp_chunk(&options.geometry, source, FAKE_CHUNK, FAKE_CHUNK, pool.data);
    kvc_paged_fill(&worker->paged, 0x5a);

    const struct kvc_key key = two_chunks(worker);
    bool success = false;
    cr_assert_eq(kvc_worker_retrieve(worker, &key, (struct kvc_ints){four_blocks, 4}, 16 + 15,
                                     &success, NULL),
                 KVC_OK);
    cr_assert(success);
    cr_assert_eq(
        kvc_stamp_check_blocks(&worker->paged, source, 16, four_blocks + 1, 3, NULL, 0, NULL),
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

Test(worker, does_not_commit_a_retrieve_that_missed)
{
    struct fake_server fake;
    struct kvc_segment pool = {0};
    fake_start(&fake, "0.5.6");
    for (int with_pool = 0; with_pool < 2; with_pool++) {
        struct kvc_rpc rpc;
        if (with_pool)
            offer_pool(&fake, &pool);
        const struct kvc_worker_options options = small_worker(KVC_MODE_ENGINE_DRIVEN);
        struct kvc_worker *worker = open_small(&fake, &rpc, &options);
        const struct kvc_key key = two_chunks(worker);
        bool success = true;
        cr_assert_eq(
            kvc_worker_retrieve(worker, &key, (struct kvc_ints){four_blocks, 4}, 0, &success, NULL),
            KVC_OK);
        cr_assert_not(success);
        cr_assert_eq(fake.asked[KVC_OP_COMMIT_RETRIEVE], 0);
        kvc_worker_close(worker, NULL);
        kvc_client_close(rpc.client);
    }
    kvc_segment_close(&pool);
    fake_stop(&fake);
}

/* ---- inline ---- */

Test(worker, sends_the_chunks_inline)
{
    struct fake_server fake;
    struct kvc_rpc rpc;
    fake_start(&fake, "0.5.6");
    const struct kvc_worker_options options = small_worker(KVC_MODE_ENGINE_DRIVEN);
    struct kvc_worker *worker = open_small(&fake, &rpc, &options);
    kvc_stamp_blocks(&worker->paged, source, 0, four_blocks, 4);
    const struct kvc_key key = two_chunks(worker);
    struct kvc_store_result result;
    cr_assert_eq(kvc_worker_store(worker, &key, (struct kvc_ints){four_blocks, 4}, &result, NULL),
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
    cr_assert_eq(memcmp(tensors[1].shape.items, chunk_shape, sizeof(chunk_shape)), 0);
    expect_chunk(worker, 0, tensors[0].data.data);
    expect_chunk(worker, FAKE_CHUNK, tensors[1].data.data);
    kvc_arena_clear(&arena);
    kvc_worker_close(worker, NULL);
    kvc_client_close(rpc.client);
    fake_stop(&fake);
}

/* Payloads of all three bin heads: below 256 bytes (an empty list), below 65536, and above. */
Test(worker, inline_payloads_of_every_size_are_well_formed)
{
    static const struct {
        const char *spec;
        int64_t chunks;
    } cases[] = {{"(1,8,16,1,1):uint8:1", 0},
                 {"(1,8,16,1,1):uint8:1", 2},
                 {"(1,8,16,1,16):float16:2", 2},
                 {"(1,8,16,1,512):float32:2", 2}};
    struct fake_server fake;
    fake_start(&fake, "0.5.6");
    for (size_t i = 0; i < KVC_COUNT_OF(cases); i++) {
        struct kvc_rpc rpc;
        struct kvc_worker_options options = small_worker(KVC_MODE_ENGINE_DRIVEN);
        cr_assert_eq(kvc_geometry_parse(cases[i].spec, &options.geometry, NULL), KVC_OK);
        struct kvc_worker *worker = open_small(&fake, &rpc, &options);
        struct kvc_key key = two_chunks(worker);
        key.end = cases[i].chunks * FAKE_CHUNK;
        const struct kvc_ints blocks = {four_blocks, 2 * (size_t)cases[i].chunks};
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

Test(worker, reads_chunks_that_came_inline)
{
    struct fake_server fake;
    struct kvc_rpc rpc;
    fake_start(&fake, "0.5.6");
    const struct kvc_worker_options options = small_worker(KVC_MODE_ENGINE_DRIVEN);
    struct kvc_worker *worker = open_small(&fake, &rpc, &options);
    static uint8_t chunks[2][SMALL_CHUNK_BYTES];
    struct kvc_inline_tensor tensors[2];
    for (size_t i = 0; i < 2; i++) {
        kvc_stamp_chunk(&options.geometry, source, (int64_t)i * FAKE_CHUNK, FAKE_CHUNK, chunks[i]);
        tensors[i] = (struct kvc_inline_tensor){.dtype = KVC_STR("float16"),
                                                .shape = {chunk_shape, 4},
                                                .data = {chunks[i], SMALL_CHUNK_BYTES}};
    }
    struct kvc_buffer data = {0};
    cr_assert_eq(kvc_inline_encode_torch(tensors, 2, &data, NULL), KVC_OK);
    fake.retrieved =
        (struct kvc_prepare_retrieve_result){.success = true, .data = kvc_buffer_view(&data)};
    kvc_paged_fill(&worker->paged, 0x5a);
    const struct kvc_key key = two_chunks(worker);
    bool success = false;
    cr_assert_eq(
        kvc_worker_retrieve(worker, &key, (struct kvc_ints){four_blocks, 4}, 40, &success, NULL),
        KVC_OK);
    cr_assert(success);
    cr_assert_eq(
        kvc_stamp_check_blocks(&worker->paged, source, 32, four_blocks + 2, 2, NULL, 0, NULL),
        KVC_OK);
    cr_assert_eq(kvc_paged_check_block_is(&worker->paged, four_blocks[1], 0x5a, NULL), KVC_OK);
    cr_assert_eq(fake.asked[KVC_OP_COMMIT_RETRIEVE], 1);
    kvc_buffer_clear(&data);
    kvc_worker_close(worker, NULL);
    kvc_client_close(rpc.client);
    fake_stop(&fake);
}

Test(worker, inline_beside_an_offered_pool_reserves_nothing_in_it)
{
    struct fake_server fake;
    struct kvc_rpc rpc;
    fake_start(&fake, "0.5.1");
    fake.pool = (struct kvc_pool_info){KVC_STR("nobody-opens-this"), 4096};
    struct kvc_worker_options options = small_worker(KVC_MODE_ENGINE_DRIVEN);
    options.force_inline = true;
    struct kvc_worker *worker = open_small(&fake, &rpc, &options);
    cr_assert_eq(worker->path, KVC_PATH_ENGINE_DRIVEN_INLINE);
    const struct kvc_key key = two_chunks(worker);
    struct kvc_store_result result;
    cr_assert_eq(kvc_worker_store(worker, &key, (struct kvc_ints){four_blocks, 4}, &result, NULL),
                 KVC_OK);
    cr_assert_eq(fake.asked[KVC_OP_PREPARE_STORE], 0);
    cr_assert_eq(fake.asked[KVC_OP_COMMIT_STORE], 1);
    kvc_worker_close(worker, NULL);
    kvc_client_close(rpc.client);
    fake_stop(&fake);
}

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
    const struct kvc_key key = two_chunks(worker);
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
    const struct kvc_key key = two_chunks(worker);
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
    struct kvc_key key = two_chunks(worker);
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
        struct kvc_key key = two_chunks(worker);
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
