#include <criterion/criterion.h>
#include <string.h>

#include "src/base/clock.h"
#include "tests/unit/driver/fake_server.h"

static struct kvc_key some_key(void)
{
    static const int64_t tokens[] = {1, 2, 3, 4, 5, 6, 7, 8};
    return (struct kvc_key){.model_name = KVC_STR("m"),
                            .world_size = 1,
                            .token_ids = {tokens, 8},
                            .end = 8,
                            .request_id = KVC_STR("r"),
                            .num_kv_readers = 1};
}

Test(rpc, the_small_calls)
{
    struct fake_server fake;
    fake_start(&fake, "0.5.6");
    struct kvc_rpc rpc = fake_rpc(&fake);
    int64_t chunk_size = 0;
    cr_assert_eq(kvc_rpc_noop(&rpc, NULL), KVC_OK);
    cr_assert_eq(kvc_rpc_chunk_size(&rpc, &chunk_size, NULL), KVC_OK);
    cr_assert_eq(chunk_size, FAKE_CHUNK);
    cr_assert_eq(kvc_rpc_end_session(&rpc, KVC_STR("r"), NULL), KVC_OK);
    cr_assert(kvc_str_is(fake_last(&fake, KVC_OP_END_SESSION).request_id, "r"));
    const struct kvc_request ping = {.op = KVC_OP_PING, .ping_instance = KVC_SOME_INT(5)};
    bool ok = false;
    cr_assert_eq(kvc_rpc_call_bool(&rpc, &ping, &ok, NULL), KVC_OK);
    cr_assert(ok);
    kvc_client_close(rpc.client);
    fake_stop(&fake);
}

Test(rpc, clear_carries_force_where_the_dialect_has_it)
{
    static const char *const releases[] = {"0.5.1", "0.5.6"};
    static const size_t frame_counts[] = {2, 3};
    for (size_t i = 0; i < 2; i++) {
        struct fake_server fake;
        fake_start(&fake, releases[i]);
        struct kvc_rpc rpc = fake_rpc(&fake);
        cr_assert_eq(kvc_rpc_clear(&rpc, true, NULL), KVC_OK);
        cr_assert_eq(fake.last[KVC_OP_CLEAR].count, frame_counts[i]);
        if (i == 1)
            cr_assert(fake_last(&fake, KVC_OP_CLEAR).force);
        kvc_client_close(rpc.client);
        fake_stop(&fake);
    }
}

Test(rpc, a_lookup_asks_until_there_is_a_number)
{
    struct fake_server fake;
    fake_start(&fake, "0.5.6");
    fake.loading = 3;
    fake.found[0] = 2;
    fake.found_count = 1;
    struct kvc_rpc rpc = fake_rpc(&fake);
    const struct kvc_key key = some_key();
    int64_t chunks = -1;
    struct kvc_error err = KVC_ERROR_INIT;
    cr_assert_eq(kvc_rpc_lookup(&rpc, &key, 4, &chunks, &err), KVC_OK, "%s: %s", err.where,
                 err.what);
    cr_assert_eq(chunks, 2);
    cr_assert_eq(fake.asked[KVC_OP_QUERY_PREFETCH_STATUS], 4);
    cr_assert_eq(fake_last(&fake, KVC_OP_LOOKUP).tp_size, 4);
    cr_assert_eq(kvc_rpc_free_locks(&rpc, &key, 4, NULL), KVC_OK);
    cr_assert_eq(fake_last(&fake, KVC_OP_FREE_LOOKUP_LOCKS).tp_size, 4);
    kvc_client_close(rpc.client);
    fake_stop(&fake);
}

Test(rpc, a_lookup_that_loads_for_ever_is_a_timeout)
{
    struct fake_server fake;
    fake_start(&fake, "0.5.6");
    fake.loading = INT64_MAX;
    struct kvc_rpc rpc = fake_rpc(&fake);
    const struct kvc_key key = some_key();
    struct kvc_error err = KVC_ERROR_INIT;
    int64_t chunks;
    const int64_t started = kvc_now_ms();
    cr_assert_eq(kvc_rpc_lookup(&rpc, &key, 1, &chunks, &err), KVC_ETIMEOUT);
    cr_assert_not_null(strstr(err.what, "still loading after 300 ms"), "%s", err.what);
    cr_assert_str_eq(err.where, "query_prefetch_status");
    cr_assert_lt(kvc_now_ms() - started, 2000);
    kvc_client_close(rpc.client);
    fake_stop(&fake);
}

Test(rpc, silence_is_a_timeout_that_names_the_operation)
{
    struct fake_server fake;
    fake_start(&fake, "0.5.6");
    fake.silent[KVC_OP_LOOKUP] = true;
    struct kvc_rpc rpc = fake_rpc(&fake);
    const struct kvc_key key = some_key();
    struct kvc_error err = KVC_ERROR_INIT;
    int64_t chunks;
    cr_assert_eq(kvc_rpc_lookup(&rpc, &key, 1, &chunks, &err), KVC_ETIMEOUT);
    cr_assert_str_eq(err.where, "lookup");
    cr_assert_eq(fake.asked[KVC_OP_QUERY_PREFETCH_STATUS], 0);
    kvc_client_close(rpc.client);
    fake_stop(&fake);
}

Test(rpc, an_operation_that_the_dialect_lacks_is_not_sent)
{
    struct fake_server fake;
    fake_start(&fake, "0.5.1");
    struct kvc_rpc rpc = fake_rpc(&fake);
    const struct kvc_request request = {.op = KVC_OP_GET_EXPERIMENTAL};
    struct kvc_reply reply;
    struct kvc_error err = KVC_ERROR_INIT;
    cr_assert_eq(kvc_rpc_call(&rpc, &request, &reply, &err), KVC_EUNSUPPORTED);
    kvc_reply_clear(&reply);
    cr_assert_eq(kvc_rpc_noop(&rpc, NULL), KVC_OK);
    cr_assert_eq(fake.peer.received, 1);
    kvc_client_close(rpc.client);
    fake_stop(&fake);
}

/* ---- replies that are wrong: scripted frames, dialect 0.5.1, where NOOP is 21 = 0x15 ---- */

/* Sends the frames that the test put into user, NULL-terminated. */
static void answer_with(struct peer *peer, const struct kvc_frames *message)
{
    (void)message;
    const char *const *frames = peer->user;
    size_t count = 0;
    while (frames[count] != NULL)
        count++;
    peer_send_hex(peer, frames, count);
}

static struct kvc_error noop_error(const char *const *frames)
{
    struct peer peer;
    peer_start(&peer, "tcp://127.0.0.1:0", answer_with, (void *)(uintptr_t)frames);
    const struct kvc_rpc rpc = {client_for(&peer), kvc_dialect_find(KVC_STR("0.5.1")), 300};
    struct kvc_error err = KVC_ERROR_INIT;
    cr_assert_eq(kvc_rpc_noop(&rpc, &err), KVC_EFORMAT);
    cr_assert_eq(err.status, KVC_EFORMAT);
    cr_assert_eq(strncmp(err.where, "noop", 4), 0, "%s", err.where);
    kvc_client_close(rpc.client);
    peer_stop(&peer);
    return err;
}

Test(rpc, the_op_frame_must_come_back_byte_for_byte)
{
    const struct kvc_error err = noop_error((const char *const[]){"00", "cc15", "a24f4b", NULL});
    cr_assert_not_null(strstr(err.what, "op frame is not the one that was sent"));
    cr_assert_str_eq(err.expected, "15");
    cr_assert_str_eq(err.got, "cc15");
    noop_error((const char *const[]){"00", "16", "a24f4b", NULL});
    noop_error((const char *const[]){"00", "", "a24f4b", NULL});
}

Test(rpc, a_reply_without_op_frame)
{
    const struct kvc_error err = noop_error((const char *const[]){"00", NULL});
    cr_assert_str_eq(err.what, "the reply has no op frame");
}

Test(rpc, a_void_reply_where_a_result_belongs)
{
    noop_error((const char *const[]){"00", "15", NULL});
}

Test(rpc, results_that_are_wrong)
{
    noop_error((const char *const[]){"00", "15", "a24f4c", NULL});           /* "OL" */
    noop_error((const char *const[]){"00", "15", "07", NULL});               /* a number */
    noop_error((const char *const[]){"00", "15", "a24f4b", "a24f4b", NULL}); /* a frame too many */
    noop_error((const char *const[]){"00", "15", "a24f", NULL});             /* cut */
    noop_error((const char *const[]){"00", "15", "a24f4b00", NULL});         /* a byte after it */
    noop_error((const char *const[]){"00", "15", "c1", NULL});               /* no msgpack */
}

Test(rpc, numbers_and_voids_are_told_apart)
{
    /* GET_CHUNK_SIZE is 18 = 0x12, END_SESSION 10 = 0x0a */
    struct peer peer;
    static const char *const no_number[] = {"00", "12", NULL};
    peer_start(&peer, "tcp://127.0.0.1:0", answer_with, (void *)(uintptr_t)no_number);
    struct kvc_rpc rpc = {client_for(&peer), kvc_dialect_find(KVC_STR("0.5.1")), 300};
    struct kvc_error err = KVC_ERROR_INIT;
    int64_t chunk_size = 0;
    cr_assert_eq(kvc_rpc_chunk_size(&rpc, &chunk_size, &err), KVC_EFORMAT);
    kvc_client_close(rpc.client);
    peer_stop(&peer);

    static const char *const surplus[] = {"00", "0a", "c0", NULL};
    peer_start(&peer, "tcp://127.0.0.1:0", answer_with, (void *)(uintptr_t)surplus);
    rpc.client = client_for(&peer);
    cr_assert_eq(kvc_rpc_end_session(&rpc, KVC_STR("r"), &err), KVC_EFORMAT);
    kvc_client_close(rpc.client);
    peer_stop(&peer);

    /* QUERY_PREFETCH_STATUS, 6, may be void ("still loading"), which is no number either */
    static const char *const loading[] = {"00", "06", NULL};
    peer_start(&peer, "tcp://127.0.0.1:0", answer_with, (void *)(uintptr_t)loading);
    rpc.client = client_for(&peer);
    const struct kvc_request query = {.op = KVC_OP_QUERY_PREFETCH_STATUS,
                                      .request_id = KVC_STR("r")};
    cr_assert_eq(kvc_rpc_call_count(&rpc, &query, &chunk_size, &err), KVC_EFORMAT);
    cr_assert_str_eq(err.where, "query_prefetch_status");
    kvc_client_close(rpc.client);
    peer_stop(&peer);

    static const char *const negative[] = {"00", "12", "ff", NULL};
    peer_start(&peer, "tcp://127.0.0.1:0", answer_with, (void *)(uintptr_t)negative);
    rpc.client = client_for(&peer);
    cr_assert_eq(kvc_rpc_chunk_size(&rpc, &chunk_size, &err), KVC_EFORMAT);
    kvc_client_close(rpc.client);
    peer_stop(&peer);
}
