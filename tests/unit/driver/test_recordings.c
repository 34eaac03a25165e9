/* A worker does what the reference client did, and every frame it sends must be the recorded one. The
 * peer answers with the recorded replies. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "src/kv/digest.h"
#include "src/kv/stamp.h"
#include "src/kv/transfer.h"
#include "src/wire/recording.h"
#include "tests/unit/driver/fake_server.h"

#define POOL_NAME "kvconform-test-recorded-pool-%d"

struct replay {
    struct kvc_recording recording;
    const struct kvc_dialect *dialect;
    size_t next;         /* message of the recording */
    size_t masked_hints; /* frame of REGISTER_KV_CACHE that may differ; 0: none */
    char pool_name[64];  /* replaces the recorded pool's; "": there is none */
    char mismatch[256];  /* the first frame that differs; "": none */
};

static enum kvc_op op_of(const struct replay *replay, const struct kvc_frames *frames)
{
    enum kvc_op op = KVC_OP_NONE;
    cr_assert_eq(kvc_request_op(replay->dialect, kvc_frames_view(frames, 1), &op, NULL), KVC_OK);
    return op;
}

/* Handles name our own segments, and inline data are pickled in another, equally valid way. */
static bool may_differ(const struct replay *replay, enum kvc_op op, size_t frame)
{
    if (op == KVC_OP_REGISTER_KV_CACHE)
        return frame == 3 || (replay->masked_hints != 0 && frame == replay->masked_hints);
    return op == KVC_OP_COMMIT_STORE && frame == 4 && replay->pool_name[0] == '\0';
}

static void compare(struct replay *replay, const struct kvc_frames *expected,
                    const struct kvc_frames *sent)
{
    const enum kvc_op op = op_of(replay, expected);
    size_t frame = 0;
    while (frame < expected->count && frame < sent->count &&
           (may_differ(replay, op, frame) ||
            kvc_bytes_equal(kvc_frames_view(expected, frame), kvc_frames_view(sent, frame))))
        frame++;
    if ((frame < expected->count || frame < sent->count) && replay->mismatch[0] == '\0')
        snprintf(replay->mismatch, sizeof(replay->mismatch), "message %zu (%s), frame %zu of %zu",
                 replay->next, kvc_op_name(op), frame, expected->count);
}

/* The recorded reply, but for the pool's name. */
static void send_recorded(struct replay *replay, struct peer *peer,
                          const struct kvc_frames *recorded)
{
    struct kvc_frames frames = {0};
    const bool has_pool = replay->pool_name[0] != '\0';
    if (has_pool && op_of(replay, recorded) == KVC_OP_REGISTER_ENGINE_DRIVEN) {
        const struct kvc_reply reply = {
            .op = KVC_OP_REGISTER_ENGINE_DRIVEN,
            .pool = {kvc_str_of(replay->pool_name), 2147483648},
        };
        kvc_frames_append_copy(&frames, recorded->items[0].data, recorded->items[0].size);
        kvc_frames_append_copy(&frames, recorded->items[1].data, recorded->items[1].size);
        cr_assert_eq(kvc_reply_encode(replay->dialect, &reply, &frames, NULL), KVC_OK);
    } else {
        kvc_frames_copy(recorded, &frames);
    }
    cr_assert_eq(kvc_server_send(peer->server, peer->identity, &frames, NULL), KVC_OK);
}

static void play(struct peer *peer, const struct kvc_frames *sent)
{
    struct replay *replay = peer->user;
    const struct kvc_recorded_message *messages = replay->recording.messages;
    if (replay->next + 1 >= replay->recording.count)
        return;
    compare(replay, &messages[replay->next].frames, sent);
    replay->next += 2; /* before the reply: then the test looks at it */
    send_recorded(replay, peer, &messages[replay->next - 1].frames);
}

/* A pool as large as the recorded one, of which only the touched pages take memory. */
static uint8_t *make_pool(struct replay *replay)
{
    snprintf(replay->pool_name, sizeof(replay->pool_name), POOL_NAME, (int)getpid());
    const int fd = shm_open(replay->pool_name, O_RDWR | O_CREAT | O_EXCL, 0600);
    cr_assert_geq(fd, 0);
    cr_assert_eq(ftruncate(fd, 2147483648), 0);
    uint8_t *pool =
        mmap(NULL, 2147483648, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    cr_assert_neq(pool, MAP_FAILED);
    close(fd);
    return pool;
}

struct session {
    struct replay replay;
    struct peer peer;
    struct kvc_rpc rpc;
    struct kvc_worker *worker;
    struct kvc_arena arena;
};

static const struct kvc_stamp_source source = {5, 1};

static void open_session(struct session *session, const char *file, const char *release,
                         const char *spec, enum kvc_transfer_mode mode, int64_t instance)
{
    struct kvc_error err = KVC_ERROR_INIT;
    char path[300];
    snprintf(path, sizeof(path), FRAMES_FOLDER "/%s.json", file);
    cr_assert_eq(kvc_recording_load(path, &session->replay.recording, &err), KVC_OK, "%s",
                 err.what);
    session->replay.dialect = kvc_dialect_find(kvc_str_of(release));
    peer_start(&session->peer, "tcp://127.0.0.1:0", play, &session->replay);
    session->rpc = (struct kvc_rpc){client_for(&session->peer), session->replay.dialect, 2000};
    struct kvc_worker_options options = {
        .instance_id = instance, .model_name = KVC_STR("test-model"), .mode = mode};
    cr_assert_eq(kvc_rpc_chunk_size(&session->rpc, &options.chunk_size, &err), KVC_OK);
    cr_assert_eq(kvc_geometry_parse(spec, &options.geometry, &err), KVC_OK, "%s", err.what);
    cr_assert_eq(kvc_worker_open(&session->rpc, &options, &session->worker, &err), KVC_OK, "%s",
                 err.what);
}

static void close_session(struct session *session)
{
    if (session->replay.next < session->replay.recording.count)
        cr_assert_eq(kvc_worker_close(session->worker, NULL), KVC_OK);
    kvc_client_close(session->rpc.client);
    peer_stop(&session->peer);
    kvc_recording_clear(&session->replay.recording);
    kvc_arena_clear(&session->arena);
}

/* The reference client's blocks: 0 to 31 for 512 tokens. */
static struct kvc_ints first_blocks(void)
{
    static int64_t ids[32];
    for (int64_t i = 0; i < 32; i++)
        ids[i] = i;
    return (struct kvc_ints){ids, 32};
}

/* Does the step that the next recorded request begins. */
static void follow(struct session *session)
{
    const struct kvc_frames *frames =
        &session->replay.recording.messages[session->replay.next].frames;
    struct kvc_worker *worker = session->worker;
    struct kvc_request request;
    struct kvc_store_result result;
    struct kvc_error err = KVC_ERROR_INIT;
    kvc_status status = KVC_OK;
    bool success = true;
    int64_t chunks;
    cr_assert_eq(
        kvc_request_decode(session->replay.dialect, frames, &session->arena, &request, &err),
        KVC_OK, "%s", err.what);
    const struct kvc_ints blocks =
        request.block_ids.count > 0 ? request.block_ids.items[0] : first_blocks();
    const struct kvc_key key =
        kvc_worker_key(worker, request.key.token_ids, request.key.start, request.key.end,
                       request.key.request_id, request.key.cache_salt);
    switch (request.op) {
    case KVC_OP_LOOKUP:
        status = kvc_worker_lookup(worker, &key, &chunks, &err);
        break;
    case KVC_OP_STORE:
    case KVC_OP_PREPARE_STORE:
        kvc_stamp_blocks(&worker->paged, source, 0, blocks.items, blocks.count);
        status = kvc_worker_store(worker, &key, blocks, &result, &err);
        success = result.success;
        break;
    case KVC_OP_RETRIEVE:
    case KVC_OP_PREPARE_RETRIEVE:
        kvc_paged_fill(&worker->paged, 0x5a);
        status = kvc_worker_retrieve(worker, &key, blocks, 0, &success, &err);
        break;
    case KVC_OP_END_SESSION:
        status = kvc_worker_end_session(worker, request.request_id, &err);
        break;
    default:
        cr_assert(false, "no step for %s", kvc_op_name(request.op));
    }
    cr_assert_eq(status, KVC_OK, "%s: %s", err.where, err.what);
    cr_assert(success);
}

/* Everything up to the recording's end, or to its unregistration. */
static void follow_all(struct session *session)
{
    const struct kvc_recording *recording = &session->replay.recording;
    while (session->replay.next + 1 < recording->count) {
        const enum kvc_op op =
            op_of(&session->replay, &recording->messages[session->replay.next].frames);
        if (op == KVC_OP_UNREGISTER_KV_CACHE || op == KVC_OP_UNREGISTER_ENGINE_DRIVEN)
            break;
        follow(session);
        cr_assert_str_empty(session->replay.mismatch, "%s", session->replay.mismatch);
    }
}

static void expect_stamped(const struct kvc_worker *worker)
{
    struct kvc_error err = KVC_ERROR_INIT;
    cr_assert_eq(
        kvc_stamp_check_blocks(&worker->paged, source, 0, first_blocks().items, 32, NULL, 0, &err),
        KVC_OK, "%s: %s, got %s", err.what, err.expected, err.got);
}

static void follow_pool_recording(const char *file, const char *release, int64_t instance,
                                  int64_t first_offset)
{
    static struct session session;
    uint8_t *pool = make_pool(&session.replay);
    open_session(&session, file, release, "(2,64,16,2,8):float16:2", KVC_MODE_ENGINE_DRIVEN,
                 instance);
    shm_unlink(session.replay.pool_name); /* both sides have mapped it */
    cr_assert_eq(session.worker->path, KVC_PATH_ENGINE_DRIVEN);
    follow_all(&session);
    expect_stamped(session.worker);
    const struct kvc_geometry *geometry = &session.worker->options.geometry;
    for (int64_t chunk = 0; chunk < 2; chunk++)
        cr_assert_eq(kvc_stamp_check_chunk(geometry, source, chunk * 256, 256,
                                           pool + first_offset + chunk * 32768, NULL, 0, NULL),
                     KVC_OK);
    close_session(&session);
    cr_assert_str_empty(session.replay.mismatch, "%s", session.replay.mismatch);
    munmap(pool, 2147483648);
}

Test(recordings, engine_driven_0_5_1)
{
    follow_pool_recording("0.5.1-engine_driven", "0.5.1", 0, 671088640);
}

Test(recordings, engine_driven_pool_0_5_6)
{
    follow_pool_recording("0.5.6-engine_driven-pool", "0.5.6", 1000, 0);
}

/* The recorded bytes came from the reference client through a real server; digests by Python. */
Test(recordings, engine_driven_inline_0_5_6)
{
    static struct session session;
    open_session(&session, "0.5.6-engine_driven", "0.5.6", "(2,64,16,2,8):float16:2",
                 KVC_MODE_ENGINE_DRIVEN, 1000);
    cr_assert_eq(session.worker->path, KVC_PATH_ENGINE_DRIVEN_INLINE);
    follow_all(&session);
    static const char *const digests[] = {"91358712044b56a088fb7d5bc2dea9f4",
                                          "e8cb5c0d3ded71330ee587745240a6ea"};
    uint8_t *tensors[] = {session.worker->paged.tensors[0].data,
                          session.worker->paged.tensors[1].data};
    static uint8_t chunk[32768];
    for (size_t i = 0; i < 2; i++) {
        char hex[KVC_MD5_HEX_SIZE];
        kvc_gather_chunk(&session.worker->options.geometry.groups[0], tensors,
                         first_blocks().items + 16 * i, 256, chunk);
        kvc_md5_hex(chunk, sizeof(chunk), hex);
        cr_assert_str_eq(hex, digests[i]);
    }
    close_session(&session);
    cr_assert_str_empty(session.replay.mismatch, "%s", session.replay.mismatch);
}

/* Handles must be the recorded ones but for the segments' names. */
static void expect_handles(struct session *session, const struct kvc_frames *recorded)
{
    struct kvc_request request;
    cr_assert_eq(
        kvc_request_decode(session->replay.dialect, recorded, &session->arena, &request, NULL),
        KVC_OK);
    const struct kvc_paged *paged = &session->worker->paged;
    cr_assert_eq(request.handles.count, paged->tensor_count);
    for (size_t i = 0; i < paged->tensor_count; i++) {
        const struct kvc_tensor_handle *handle = &request.handles.items[i];
        const struct kvc_group *group = &paged->geometry.groups[paged->tensors[i].group];
        int64_t shape[5], stride[5];
        const size_t rank = kvc_group_tensor_shape(group, shape, stride);
        cr_assert_eq(handle->nbytes, paged->tensors[i].bytes);
        cr_assert_eq(handle->shape.count, rank);
        cr_assert_eq(memcmp(handle->shape.items, shape, rank * sizeof(shape[0])), 0);
        cr_assert_eq(memcmp(handle->stride.items, stride, rank * sizeof(stride[0])), 0);
        cr_assert_eq(paged->tensors[i].storage_offset, 0);
        cr_assert(kvc_str_is(handle->dtype, group->dtype->name));
    }
}

static void follow_handle_recording(const char *file, const char *release, const char *spec,
                                    int64_t instance, size_t masked_hints)
{
    static struct session session;
    session.replay.masked_hints = masked_hints;
    open_session(&session, file, release, spec, KVC_MODE_LMCACHE_DRIVEN, instance);
    expect_handles(&session, &session.replay.recording.messages[2].frames);
    follow_all(&session);
    close_session(&session);
    cr_assert_str_empty(session.replay.mismatch, "%s", session.replay.mismatch);
}

/* The client of 0.5.1 adds hints of its own that no server reads (frame 7). */
Test(recordings, lmcache_driven_0_5_1)
{
    follow_handle_recording("0.5.1-lmcache_driven", "0.5.1", "(2,64,16,2,8):float16:2", 0, 7);
}

Test(recordings, lmcache_driven_0_5_6)
{
    follow_handle_recording("0.5.6-lmcache_driven", "0.5.6", "(2,64,16,2,8):float16:2", 1000, 0);
}

Test(recordings, lmcache_driven_two_groups_0_5_6)
{
    follow_handle_recording("0.5.6-lmcache_driven-two-groups", "0.5.6",
                            "(1,64,16,1,32):float16:2;(2,64,16,2,8):float16:2", 1000, 0);
}
