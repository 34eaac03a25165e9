/* Numbers that no server can mean: refused where they come in, before anything is computed from them. */
#include <criterion/criterion.h>
#include <string.h>

#include "src/target/identify.h"
#include "tests/unit/driver/fake_server.h"

static const struct {
    const char *hex;
    const char *shown;
} chunk_sizes[] = {
    {"00", "0"},
    {"ff", "-1"},
    {"ce00100001", "1048577"},
    {"cf7fffffffffffffff", "9223372036854775807"},
    {"d38000000000000000", "-9223372036854775808"},
};

/* Answers every question as 0.5.6 does, but for the chunk size. */
static void serve_chunk_size(struct peer *peer, const struct kvc_frames *message)
{
    if (frame_is(message, 1, "15"))
        peer_answer(peer, message, peer->user);
}

Test(impossible, chunk_sizes)
{
    for (size_t i = 0; i < KVC_COUNT_OF(chunk_sizes); i++) {
        struct peer peer;
        peer_start(&peer, "tcp://127.0.0.1:0", serve_chunk_size,
                   (void *)(uintptr_t)chunk_sizes[i].hex);
        struct kvc_rpc rpc = {client_for(&peer), kvc_dialect_find(KVC_STR("0.5.6")), 1000};
        struct kvc_error err = KVC_ERROR_INIT;
        int64_t chunk_size;
        cr_assert_eq(kvc_rpc_chunk_size(&rpc, &chunk_size, &err), KVC_EFORMAT);
        cr_assert_not_null(strstr(err.what, chunk_sizes[i].shown), "%s", err.what);
        cr_assert_str_eq(err.where, "get_chunk_size");
        cr_assert_str_eq(err.expected, "1 to 1048576");

        struct kvc_identity identity;
        cr_assert_eq(kvc_identify(peer.url, NULL, 3000, 1000, &identity, &err), KVC_EFORMAT);
        kvc_client_close(rpc.client);
        peer_stop(&peer);
    }
}

Test(impossible, largest_chunk_size_that_is_taken)
{
    struct peer peer;
    peer_start(&peer, "tcp://127.0.0.1:0", serve_chunk_size, (void *)(uintptr_t) "ce00100000");
    struct kvc_rpc rpc = {client_for(&peer), kvc_dialect_find(KVC_STR("0.5.6")), 1000};
    int64_t chunk_size;
    cr_assert_eq(kvc_rpc_chunk_size(&rpc, &chunk_size, NULL), KVC_OK);
    cr_assert_eq(chunk_size, 1 << 20);
    kvc_client_close(rpc.client);
    peer_stop(&peer);
}

/* Right but for the frames: one too many, another operation, none. */
static void serve_wrong_frames(struct peer *peer, const struct kvc_frames *message)
{
    static const char *const shapes[][4] = {
        {"15", "cd0100", "c0"}, {"16", "cd0100"}, {"cc15", "cd0100"}, {"", "cd0100"}, {NULL}};
    const char *const *shape = shapes[*(const size_t *)peer->user];
    const char *hex[4] = {"00"};
    size_t count = 1;
    cr_assert(frame_is(message, 0, "00"), "nothing more is asked");
    for (size_t i = 0; i < 3 && shape[i] != NULL; i++)
        hex[count++] = shape[i];
    peer_send_hex(peer, hex, count);
}

Test(impossible, answers_to_the_first_question)
{
    for (size_t i = 0; i < 5; i++) {
        struct peer peer;
        struct kvc_identity identity;
        struct kvc_error err = KVC_ERROR_INIT;
        peer_start(&peer, "tcp://127.0.0.1:0", serve_wrong_frames, &i);
        cr_assert_eq(kvc_identify(peer.url, NULL, 3000, 1000, &identity, &err), KVC_EUNSUPPORTED);
        cr_assert_not_null(strstr(err.what, "operation id 21 with something else"), "%s", err.what);
        peer_stop(&peer);
    }
}

Test(impossible, chunks_found)
{
    static const int64_t tokens[] = {1, 2, 3};
    static const int64_t found[] = {-1, 4, INT64_MAX, INT64_MIN};
    const struct kvc_key key = {.model_name = KVC_STR("m"),
                                .world_size = 1,
                                .token_ids = {tokens, 3},
                                .end = 3,
                                .request_id = KVC_STR("r"),
                                .num_kv_readers = 1};
    for (size_t i = 0; i < KVC_COUNT_OF(found); i++) {
        struct fake_server fake;
        fake_start(&fake, "0.5.6");
        fake.found[0] = found[i];
        fake.found_count = 1;
        struct kvc_rpc rpc = fake_rpc(&fake);
        struct kvc_error err = KVC_ERROR_INIT;
        int64_t chunks;
        cr_assert_eq(kvc_rpc_lookup(&rpc, &key, 1, &chunks, &err), KVC_EFORMAT);
        cr_assert_str_eq(err.where, "query_prefetch_status");
        kvc_client_close(rpc.client);
        fake_stop(&fake);
    }
}

/* Two seconds: longer than a pause that doubles each time can be counted in 64 bits. */
Test(impossible, lookup_that_loads_for_two_seconds)
{
    struct fake_server fake;
    fake_start(&fake, "0.5.6");
    fake.loading = INT64_MAX;
    struct kvc_rpc rpc = fake_rpc(&fake);
    rpc.timeout_ms = 2000;
    const struct kvc_key key = {.model_name = KVC_STR("m"), .request_id = KVC_STR("r")};
    int64_t chunks;
    cr_assert_eq(kvc_rpc_lookup(&rpc, &key, 1, &chunks, NULL), KVC_ETIMEOUT);
    cr_assert_lt(fake.asked[KVC_OP_QUERY_PREFETCH_STATUS], 120, "it asks without pause");
    kvc_client_close(rpc.client);
    fake_stop(&fake);
}

/* A name is shown to people: one that speaks to their terminal is no segment's. */
Test(impossible, pool_names_with_control_characters)
{
    static const char *const names[] = {"a\x1b[2J", "a\nb", "a\x7f", "a\xff"};
    for (size_t i = 0; i < KVC_COUNT_OF(names); i++) {
        struct fake_server fake;
        fake_start(&fake, "0.5.6");
        fake.pool = (struct kvc_pool_info){kvc_str_of(names[i]), 4096};
        struct kvc_rpc rpc = fake_rpc(&fake);
        struct kvc_error err = KVC_ERROR_INIT;
        struct kvc_worker *worker = NULL;
        const struct kvc_worker_options options = small_worker(KVC_MODE_ENGINE_DRIVEN);
        cr_assert_eq(kvc_worker_open(&rpc, &options, &worker, &err), KVC_EFORMAT);
        cr_assert_null(strpbrk(err.what, "\x1b\n\x7f\xff"));
        kvc_client_close(rpc.client);
        fake_stop(&fake);
    }
}
