#include "tests/unit/driver/fake_server.h"

#include <criterion/criterion.h>
#include <string.h>

static int64_t next_found(struct fake_server *fake)
{
    const size_t asked = (size_t)fake->asked[KVC_OP_LOOKUP];
    if (fake->found_count == 0 || asked == 0)
        return 0;
    return fake->found[asked <= fake->found_count ? asked - 1 : fake->found_count - 1];
}

static void fill_reply(struct fake_server *fake, struct kvc_reply *reply)
{
    reply->ok = fake->ok;
    reply->transfer = (struct kvc_transfer_result){{(const uint8_t *)"h", 1}, fake->ok};
    reply->pool = fake->pool;
    reply->context = fake->store_context;
    reply->retrieve = fake->retrieved;
    reply->text = KVC_STR("OK");
    reply->count = reply->op == KVC_OP_GET_CHUNK_SIZE ? FAKE_CHUNK : next_found(fake);
    if (reply->op == KVC_OP_QUERY_PREFETCH_STATUS && fake->loading > 0) {
        fake->loading--;
        reply->is_void = true;
    }
    if (kvc_reply_always_void(reply->op))
        reply->is_void = true;
}

static void answer(struct peer *peer, const struct kvc_frames *message)
{
    struct fake_server *fake = peer->user;
    struct kvc_reply reply = {0};
    struct kvc_frames frames = {0};
    cr_assert_eq(kvc_request_op(fake->dialect, kvc_frames_view(message, 1), &reply.op, NULL),
                 KVC_OK);
    fake->asked[reply.op]++;
    kvc_frames_clear(&fake->last[reply.op]);
    kvc_frames_copy(message, &fake->last[reply.op]);
    if (fake->silent[reply.op])
        return;
    fill_reply(fake, &reply);
    kvc_frames_append_copy(&frames, message->items[0].data, message->items[0].size);
    kvc_frames_append_copy(&frames, message->items[1].data, message->items[1].size);
    cr_assert_eq(kvc_reply_encode(fake->dialect, &reply, &frames, NULL), KVC_OK);
    cr_assert_eq(kvc_server_send(peer->server, peer->identity, &frames, NULL), KVC_OK);
}

void fake_start(struct fake_server *fake, const char *release)
{
    *fake = (struct fake_server){.dialect = kvc_dialect_find(kvc_str_of(release)), .ok = true};
    cr_assert_not_null(fake->dialect);
    peer_start(&fake->peer, "tcp://127.0.0.1:0", answer, fake);
}

void fake_stop(struct fake_server *fake)
{
    peer_stop(&fake->peer);
    for (size_t i = 0; i < KVC_OP_COUNT; i++)
        kvc_frames_clear(&fake->last[i]);
}

struct kvc_rpc fake_rpc(struct fake_server *fake)
{
    return (struct kvc_rpc){client_for(&fake->peer), fake->dialect, 300};
}

struct kvc_request fake_last(struct fake_server *fake, enum kvc_op op)
{
    static struct kvc_arena arena; /* one process a test */
    struct kvc_request request;
    cr_assert_gt(fake->last[op].count, 0, "%s was never sent", kvc_op_name(op));
    cr_assert_eq(kvc_request_decode(fake->dialect, &fake->last[op], &arena, &request, NULL),
                 KVC_OK);
    return request;
}

struct kvc_worker_options small_worker(enum kvc_transfer_mode mode)
{
    struct kvc_worker_options options = {.instance_id = 77,
                                         .model_name = KVC_STR("model"),
                                         .worker_id = 0,
                                         .mode = mode,
                                         .chunk_size = FAKE_CHUNK};
    cr_assert_eq(kvc_geometry_parse("(2,8,16,2,8):float16:2", &options.geometry, NULL), KVC_OK);
    return options;
}

struct kvc_worker *open_small(struct fake_server *fake, struct kvc_rpc *rpc,
                              const struct kvc_worker_options *options)
{
    struct kvc_error err = KVC_ERROR_INIT;
    struct kvc_worker *worker = NULL;
    *rpc = fake_rpc(fake);
    cr_assert_eq(kvc_worker_open(rpc, options, &worker, &err), KVC_OK, "%s", err.what);
    return worker;
}

const int64_t small_shape[4] = {2, 2, FAKE_CHUNK, 16};
const int64_t small_blocks[4] = {6, 1, 7, 3};
const struct kvc_stamp_source small_source = {11, 1};

struct kvc_key small_key(const struct kvc_worker *worker)
{
    static const int64_t tokens[2 * FAKE_CHUNK];
    return kvc_worker_key(worker, (struct kvc_ints){tokens, 2 * FAKE_CHUNK}, 0, 2 * FAKE_CHUNK,
                          KVC_STR("r"), KVC_STR(""));
}

struct kvc_slot small_slot(int64_t offset)
{
    return (struct kvc_slot){offset, SMALL_CHUNK_BYTES, {small_shape, 4}, KVC_STR("float16")};
}

void fake_offer_pool(struct fake_server *fake, struct kvc_segment *pool)
{
    char name[96];
    kvc_segment_name("test-", name, sizeof(name));
    cr_assert_eq(kvc_segment_create(name, 4 * SMALL_CHUNK_BYTES, pool, NULL), KVC_OK);
    fake->pool = (struct kvc_pool_info){kvc_str_of(pool->name + 1), 4 * SMALL_CHUNK_BYTES};
}

void expect_stamped_chunk(const struct kvc_worker *worker, int64_t first_token,
                          const uint8_t *chunk)
{
    struct kvc_error err = KVC_ERROR_INIT;
    cr_assert_eq(kvc_stamp_check_chunk(&worker->options.geometry, small_source, first_token,
                                       FAKE_CHUNK, chunk, NULL, 0, &err),
                 KVC_OK, "%s: %s, got %s", err.what, err.expected, err.got);
}
