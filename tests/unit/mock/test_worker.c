/* What needs a whole mock and its clock: order of replies, leases, the reaper, eviction. What any right
 * server does is checked by tests/conformance. */
#include <criterion/criterion.h>
#include <jansson.h>
#include <string.h>

#include "src/base/clock.h"
#include "src/driver/worker.h"
#include "src/link/http.h"
#include "tests/unit/mock/child.h"

enum { CHUNK = 16, CHUNK_BYTES = 2 * 2 * 16 * 32 * 2 };

static struct child child;
static struct kvc_worker *worker;

static void start(struct kvc_mock_options options)
{
    struct kvc_error err = KVC_ERROR_INIT;
    options.chunk_size = CHUNK;
    if (options.pool_size == 0)
        options.pool_size = 1 << 20;
    child_start(&child, options);
    struct kvc_worker_options wanted = {
        .instance_id = 1,
        .model_name = KVC_STR("m"),
        .mode = KVC_MODE_ENGINE_DRIVEN,
        .chunk_size = CHUNK,
    };
    cr_assert_eq(kvc_geometry_parse("(2,8,16,2,16):float16:2", &wanted.geometry, &err), KVC_OK);
    cr_assert_eq(kvc_worker_open(&child.rpc, &wanted, &worker, &err), KVC_OK, "%s", err.what);
}

static void finish(void)
{
    cr_assert_eq(kvc_worker_close(worker, NULL), KVC_OK);
    cr_assert_eq(child_stop(&child), 0);
}

static int64_t tokens[CHUNK];

/* A key of one chunk that is like no other's. */
static struct kvc_key one_chunk(int64_t which, const char *request_id)
{
    tokens[0] = which;
    return kvc_worker_key(worker, (struct kvc_ints){tokens, CHUNK}, 0, CHUNK,
                          kvc_str_of(request_id), KVC_STR(""));
}

static struct kvc_request of_key(enum kvc_op op, const struct kvc_key *key)
{
    struct kvc_request request = {
        .op = op, .key = *key, .instance_id = 1, .tp_size = 1, .request_id = key->request_id};
    request.key.worker_id =
        op == KVC_OP_LOOKUP || op == KVC_OP_FREE_LOOKUP_LOCKS ? KVC_NIL_INT : KVC_SOME_INT(0);
    return request;
}

/* Slots that PREPARE_STORE offers. */
static size_t prepare(int64_t which)
{
    const struct kvc_key key = one_chunk(which, "prepare");
    const struct kvc_request request = of_key(KVC_OP_PREPARE_STORE, &key);
    struct kvc_reply reply = {0};
    cr_assert_eq(kvc_rpc_call(&child.rpc, &request, &reply, NULL), KVC_OK);
    const size_t count = reply.context.slots.count;
    kvc_reply_clear(&reply);
    return count;
}

static bool commit(int64_t which)
{
    bool ok = false;
    const struct kvc_key key = one_chunk(which, "commit");
    const struct kvc_request request = of_key(KVC_OP_COMMIT_STORE, &key);
    cr_assert_eq(kvc_rpc_call_bool(&child.rpc, &request, &ok, NULL), KVC_OK);
    return ok;
}

static int64_t look_up(int64_t which, const char *request_id)
{
    int64_t chunks = -1;
    const struct kvc_key key = one_chunk(which, request_id);
    cr_assert_eq(kvc_rpc_lookup(&child.rpc, &key, 1, &chunks, NULL), KVC_OK);
    return chunks;
}

static bool is_cached(int64_t which)
{
    const int64_t chunks = look_up(which, "peek");
    cr_assert_eq(kvc_rpc_end_session(&child.rpc, KVC_STR("peek"), NULL), KVC_OK);
    return chunks == 1;
}

static void put(int64_t which)
{
    cr_assert_eq(prepare(which), 1u);
    cr_assert(commit(which));
}

/* A number of GET /status below storage_manager.l1_manager. */
static int64_t l1_count(const char *name)
{
    struct kvc_http_response response = {0};
    cr_assert_eq(kvc_http_request("GET", child.http_url, "/status", NULL, 5000, &response, NULL),
                 KVC_OK);
    json_t *status = json_loads(kvc_buffer_text(&response.body), 0, NULL);
    json_int_t count = -1;
    json_unpack(status, "{s:{s:{s:I}}}", "storage_manager", "l1_manager", name, &count);
    json_decref(status);
    kvc_http_response_clear(&response);
    return count;
}

/* protocol.md 1.5: LOOKUP, PREPARE_RETRIEVE and NOOP of one burst come back in the reverse order. */
Test(worker, classes_of_operations_are_answered_out_of_order)
{
    start((struct kvc_mock_options){0});
    const struct kvc_key key = one_chunk(1, "r");
    const struct kvc_request requests[] = {
        of_key(KVC_OP_LOOKUP, &key), of_key(KVC_OP_PREPARE_RETRIEVE, &key), {.op = KVC_OP_NOOP}};
    bool reversed = false;
    /* The mock answers what has arrived together: a burst may be taken up in two parts. */
    for (int attempt = 0; attempt < 50 && !reversed; attempt++) {
        uint8_t order[3];
        for (uint8_t i = 0; i < 3; i++) {
            struct kvc_frames frames = {0};
            kvc_frames_append_copy(&frames, &(uint8_t){(uint8_t)(0x60 + i)}, 1);
            cr_assert_eq(kvc_request_encode(child.rpc.dialect, &requests[i], &frames, NULL),
                         KVC_OK);
            cr_assert_eq(kvc_client_send_raw(child.client, &frames, NULL), KVC_OK);
        }
        for (int i = 0; i < 3; i++) {
            struct kvc_frames reply = {0};
            cr_assert_eq(kvc_client_receive_raw(child.client, 5000, &reply, NULL), KVC_OK);
            order[i] = reply.items[0].data[0];
            kvc_frames_clear(&reply);
        }
        reversed = order[0] == 0x62 && order[1] == 0x61 && order[2] == 0x60;
    }
    cr_assert(reversed);
    finish();
}

Test(worker, an_expired_reservation_is_dropped)
{
    start((struct kvc_mock_options){.write_ttl_ms = 60});
    cr_assert_eq(prepare(1), 1u);
    cr_assert_eq(prepare(1), 0u, "somebody is writing it");
    kvc_sleep_ms(120);
    cr_assert_not(commit(1));
    cr_assert_not(is_cached(1));
    cr_assert_eq(prepare(1), 1u);
    finish();
}

Test(worker, a_lookup_s_locks_expire)
{
    start((struct kvc_mock_options){.read_ttl_ms = 100});
    put(1);
    cr_assert_eq(look_up(1, "r"), 1);
    cr_assert_eq(l1_count("read_locked_count"), 1);
    kvc_sleep_ms(150);
    cr_assert_eq(l1_count("read_locked_count"), 0);
    finish();
}

Test(worker, sessions_expire_and_give_their_locks_back)
{
    start((struct kvc_mock_options){.session_ttl_ms = 100});
    put(1);
    cr_assert_eq(look_up(1, "r"), 1);
    for (int i = 0; i < 40 && l1_count("read_locked_count") > 0; i++)
        kvc_sleep_ms(100);
    cr_assert_eq(l1_count("read_locked_count"), 0);
    finish();
}

Test(worker, one_that_pinged_and_fell_silent_is_dropped)
{
    bool ok = false;
    start((struct kvc_mock_options){.reap_ms = 100});
    put(1);
    const struct kvc_request ping = {.op = KVC_OP_PING, .ping_instance = KVC_SOME_INT(1)};
    cr_assert_eq(kvc_rpc_call_bool(&child.rpc, &ping, &ok, NULL), KVC_OK);
    cr_assert(ok);
    for (int i = 0; i < 40 && is_cached(1); i++)
        kvc_sleep_ms(100);
    cr_assert_not(is_cached(1), "its model is not served any more");
    finish();
}

Test(worker, a_full_pool_drops_the_least_recently_used)
{
    start((struct kvc_mock_options){.pool_size = 4 * CHUNK_BYTES});
    for (int64_t which = 1; which <= 3; which++)
        put(which);
    cr_assert_eq(look_up(1, "holds"), 1);
    put(4);
    put(5);
    cr_assert_eq(look_up(1, "holds"), 1, "what is locked stays");
    cr_assert_not(is_cached(2));
    cr_assert(is_cached(5));
    finish();
}

Test(worker, a_rather_full_pool_is_relieved_by_and_by)
{
    start((struct kvc_mock_options){.pool_size = 10 * CHUNK_BYTES});
    for (int64_t which = 1; which <= 9; which++)
        put(which);
    for (int i = 0; i < 40 && l1_count("total_object_count") == 9; i++)
        kvc_sleep_ms(100);
    cr_assert_eq(l1_count("total_object_count"), 8, "a fifth of nine");
    cr_assert_not(is_cached(1));
    finish();
}

Test(worker, leaving_gives_back_what_it_was_reading)
{
    start((struct kvc_mock_options){0});
    put(1);
    cr_assert_eq(look_up(1, "r"), 1);
    const struct kvc_key key = one_chunk(1, "r");
    const struct kvc_request request = of_key(KVC_OP_PREPARE_RETRIEVE, &key);
    struct kvc_reply reply = {0};
    cr_assert_eq(kvc_rpc_call(&child.rpc, &request, &reply, NULL), KVC_OK);
    cr_assert(reply.retrieve.success);
    kvc_reply_clear(&reply);
    cr_assert_eq(kvc_rpc_end_session(&child.rpc, KVC_STR("r"), NULL), KVC_OK);
    cr_assert_eq(l1_count("read_locked_count"), 1, "a read under way outlives its session");
    cr_assert_eq(kvc_worker_unregister(worker, NULL), KVC_OK);
    cr_assert_eq(l1_count("read_locked_count"), 0);
    finish();
}
