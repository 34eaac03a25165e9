/* What workers tell a server about themselves, and what they leave behind. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/driver/fake_server.h"

Test(registration, registers_engine_driven_with_what_its_memory_is)
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

Test(registration, registers_mla_as_such)
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

Test(registration, sends_the_layout_hint_of_its_layout)
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

Test(registration, leaves_the_groups_to_the_server_when_asked)
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

Test(registration, owns_one_segment_a_layer_and_leaves_none)
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

Test(registration, unregisters_once)
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

Test(registration, options_that_cannot_be)
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
