/* What a real server answered, the mock answers too: each recorded exchange is played against it, and
 * every reply must be the recorded one: byte for byte, or, of pickled tensors, tensor for tensor. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "src/kv/segment.h"
#include "src/wire/inline_data.h"
#include "src/wire/recording.h"
#include "tests/unit/mock/child.h"

enum { MAX_SEGMENTS = 16 };

/* How the recorded names of shared memory begin: of equal length. */
#define POOL_PREFIX    "lmcache_l1_"
#define SEGMENT_PREFIX "lmcache_kv_"

struct replay {
    struct child child;
    const struct kvc_dialect *dialect;
    struct kvc_recording recording;
    struct kvc_segment segments[MAX_SEGMENTS]; /* that the recorded client had */
    size_t segment_count;
};

static void load(struct replay *replay, const char *name, const char *release)
{
    char path[512];
    struct kvc_error err = KVC_ERROR_INIT;
    snprintf(path, sizeof(path), FRAMES_FOLDER "/%s.json", name);
    cr_assert_eq(kvc_recording_load(path, &replay->recording, &err), KVC_OK, "%s", err.what);
    replay->dialect = kvc_dialect_find(kvc_str_of(release));
}

/* The recorded names of shared memory as they are in this process: two tests at once do not meet. */
static void localise(struct kvc_frames *frames)
{
    static const char *const prefixes[] = {POOL_PREFIX, SEGMENT_PREFIX};
    char own[32];
    snprintf(own, sizeof(own), "kvc_%06d_", (int)(getpid() % 1000000));
    for (size_t i = 2; i < frames->count; i++) {
        uint8_t *data = (uint8_t *)frames->items[i].data;
        uint8_t *const end = data + frames->items[i].size;
        for (size_t p = 0; p < KVC_COUNT_OF(prefixes); p++) {
            const size_t size = strlen(prefixes[p]);
            for (uint8_t *at = data; (at = memmem(at, (size_t)(end - at), prefixes[p], size));)
                memcpy(at, own, size);
        }
    }
}

/* Makes the segments that a registration names. */
static void make_segments(struct replay *replay, const struct kvc_frames *frames)
{
    struct kvc_arena arena = {0};
    struct kvc_request request;
    cr_assert_eq(kvc_request_decode(replay->dialect, frames, &arena, &request, NULL), KVC_OK);
    for (size_t i = 0; i < request.handles.count; i++) {
        const struct kvc_tensor_handle *handle = &request.handles.items[i];
        char name[96];
        struct kvc_error err = KVC_ERROR_INIT;
        snprintf(name, sizeof(name), KVC_STR_FMT, KVC_STR_ARG(handle->shm_name));
        cr_assert_lt(replay->segment_count, (size_t)MAX_SEGMENTS);
        cr_assert_eq(kvc_segment_create(name, (size_t)handle->nbytes,
                                        &replay->segments[replay->segment_count++], &err),
                     KVC_OK, "%s", err.what);
    }
    kvc_arena_clear(&arena);
}

static enum kvc_op op_of(const struct replay *replay, const struct kvc_frames *frames)
{
    enum kvc_op op = KVC_OP_NONE;
    kvc_request_op(replay->dialect, kvc_frames_view(frames, 1), &op, NULL);
    return op;
}

static void expect_equal_frames(const struct replay *replay, const struct kvc_frames *got,
                                const struct kvc_frames *expected)
{
    struct kvc_buffer got_text = {0}, expected_text = {0};
    kvc_frames_describe(got, replay->dialect, true, &got_text);
    kvc_frames_describe(expected, replay->dialect, true, &expected_text);
    cr_assert(kvc_frames_equal(got, expected), "got\n%s\nexpected\n%s", kvc_buffer_text(&got_text),
              kvc_buffer_text(&expected_text));
    kvc_buffer_clear(&got_text);
    kvc_buffer_clear(&expected_text);
}

static void read_tensors(const struct replay *replay, const struct kvc_frames *frames,
                         struct kvc_reply *reply, struct kvc_inline_tensor **tensors, size_t *count)
{
    struct kvc_frames copy = {0};
    struct kvc_error err = KVC_ERROR_INIT;
    kvc_frames_copy(frames, &copy);
    cr_assert_eq(kvc_reply_decode(replay->dialect, KVC_OP_PREPARE_RETRIEVE, &copy, reply, &err),
                 KVC_OK, "%s", err.what);
    cr_assert_eq(kvc_inline_decode(reply->retrieve.data, &reply->arena, tensors, count, &err),
                 KVC_OK, "%s", err.what);
}

/* Pickles of tensors name the addresses of their storages: two of equal tensors differ. */
static void expect_equal_tensors(const struct replay *replay, const struct kvc_frames *got,
                                 const struct kvc_frames *expected)
{
    struct kvc_reply replies[2] = {0};
    struct kvc_inline_tensor *tensors[2] = {0};
    size_t counts[2] = {0};
    read_tensors(replay, got, &replies[0], &tensors[0], &counts[0]);
    read_tensors(replay, expected, &replies[1], &tensors[1], &counts[1]);
    cr_assert_eq(counts[0], counts[1]);
    for (size_t i = 0; i < counts[0]; i++) {
        cr_assert(kvc_bytes_equal(tensors[0][i].data, tensors[1][i].data));
        cr_assert(kvc_str_equal(tensors[0][i].dtype, tensors[1][i].dtype));
        cr_assert_eq(tensors[0][i].shape.count, tensors[1][i].shape.count);
        cr_assert_arr_eq(tensors[0][i].shape.items, tensors[1][i].shape.items,
                         tensors[0][i].shape.count * sizeof(int64_t));
    }
    kvc_reply_clear(&replies[0]);
    kvc_reply_clear(&replies[1]);
}

/* A request is always followed by its reply in these recordings. */
static void play(struct replay *replay, bool is_inline)
{
    for (size_t i = 0; i + 1 < replay->recording.count; i += 2) {
        const struct kvc_recorded_message *messages = &replay->recording.messages[i];
        struct kvc_frames request = {0}, expected = {0}, reply = {0};
        cr_assert(!messages[0].from_server && messages[1].from_server, "message %zu", i);
        kvc_frames_copy(&messages[0].frames, &request);
        kvc_frames_copy(&messages[1].frames, &expected);
        localise(&request);
        localise(&expected);
        const enum kvc_op op = op_of(replay, &request);
        if (op == KVC_OP_REGISTER_KV_CACHE)
            make_segments(replay, &request);
        cr_assert_eq(kvc_client_send_raw(replay->child.client, &request, NULL), KVC_OK);
        cr_assert_eq(kvc_client_receive_raw(replay->child.client, 5000, &reply, NULL), KVC_OK,
                     "message %zu is not answered", i);
        if (is_inline && op == KVC_OP_PREPARE_RETRIEVE)
            expect_equal_tensors(replay, &reply, &expected);
        else
            expect_equal_frames(replay, &reply, &expected);
        kvc_frames_clear(&expected);
        kvc_frames_clear(&reply);
    }
}

static void finish(struct replay *replay)
{
    cr_assert_eq(child_stop(&replay->child), 0);
    for (size_t i = 0; i < replay->segment_count; i++)
        kvc_segment_close(&replay->segments[i]);
    kvc_recording_clear(&replay->recording);
}

static void play_all(const char *name, const char *release, struct kvc_mock_options options)
{
    struct replay replay = {0};
    load(&replay, name, release);
    options.dialect = replay.dialect;
    child_start(&replay.child, options);
    play(&replay, options.no_pool);
    finish(&replay);
}

Test(replay, engine_driven_over_the_pool)
{
    char pool_name[64];
    snprintf(pool_name, sizeof(pool_name), "kvc_%06d_pool_bench", (int)(getpid() % 1000000));
    play_all("0.5.6-engine_driven-pool", "0.5.6",
             (struct kvc_mock_options){.pool_size = (int64_t)2 << 30, .pool_name = pool_name});
}

Test(replay, engine_driven_inline)
{
    play_all("0.5.6-engine_driven", "0.5.6", (struct kvc_mock_options){.no_pool = true});
}

Test(replay, lmcache_driven)
{
    play_all("0.5.6-lmcache_driven-warm-hit", "0.5.6", (struct kvc_mock_options){0});
}

Test(replay, lmcache_driven_by_pickled_handles)
{
    play_all("0.5.1-lmcache_driven", "0.5.1", (struct kvc_mock_options){0});
}

Test(replay, lmcache_driven_with_two_groups)
{
    play_all("0.5.6-lmcache_driven-two-groups", "0.5.6", (struct kvc_mock_options){0});
}
