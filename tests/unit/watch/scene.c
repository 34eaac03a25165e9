#include "tests/unit/watch/scene.h"

#include <criterion/criterion.h>
#include <string.h>

#include "src/wire/pack.h"

static void on_found(void *user, const struct kvc_finding *finding)
{
    struct scene *scene = user;
    if (scene->found.size > 0)
        kvc_buffer_append_text(&scene->found, ", ");
    kvc_buffer_append_text(&scene->found, finding->rule->name);
    kvc_buffer_printf(&scene->details, "%s: %s: %s\n", kvc_op_name(finding->op),
                      finding->rule->name, finding->detail);
}

static void open_with(struct scene *scene, const char *release, int64_t chunk_size)
{
    *scene =
        (struct scene){.dialect = kvc_dialect_find(kvc_str_of(release)), .client = KVC_STR("a")};
    const struct kvc_watch_options options = {
        .dialect = scene->dialect, .chunk_size = chunk_size, .found = on_found, .user = scene};
    scene->watch = kvc_watch_open(&options);
}

void scene_open(struct scene *scene, const char *release)
{
    open_with(scene, release, CHUNK);
}

void scene_open_unknown(struct scene *scene, const char *release)
{
    open_with(scene, release, 0);
}

void scene_expect(struct scene *scene, const char *expected)
{
    kvc_watch_finish(scene->watch);
    kvc_watch_close(scene->watch);
    cr_assert_str_eq(kvc_buffer_text(&scene->found), expected, "found \"%s\", not \"%s\"\n%s",
                     kvc_buffer_text(&scene->found), expected, kvc_buffer_text(&scene->details));
    kvc_buffer_clear(&scene->found);
    kvc_buffer_clear(&scene->details);
}

/* ---- messages ---- */

static void append_uid(int64_t uid, struct kvc_frames *frames)
{
    struct kvc_buffer buffer = {0};
    kvc_msgpack_write_int(&buffer, uid);
    kvc_frames_append_buffer(frames, &buffer);
}

void scene_send(struct scene *scene, struct kvc_frames *frames)
{
    kvc_watch_request(scene->watch, scene->client, frames, scene->now_ms);
    kvc_frames_clear(frames);
}

int64_t scene_ask(struct scene *scene, const struct kvc_request *request)
{
    struct kvc_frames frames = {0};
    const int64_t uid = scene->uid++;
    append_uid(uid, &frames);
    cr_assert_eq(kvc_request_encode(scene->dialect, request, &frames, NULL), KVC_OK);
    scene_send(scene, &frames);
    return uid;
}

void scene_answer(struct scene *scene, int64_t uid, const struct kvc_reply *reply)
{
    struct kvc_frames frames = {0};
    append_uid(uid, &frames);
    append_uid(scene->dialect->id[reply->op], &frames);
    cr_assert_eq(kvc_reply_encode(scene->dialect, reply, &frames, NULL), KVC_OK);
    kvc_watch_reply(scene->watch, scene->client, &frames);
    kvc_frames_clear(&frames);
}

void scene_call(struct scene *scene, const struct kvc_request *request,
                const struct kvc_reply *reply)
{
    scene_answer(scene, scene_ask(scene, request), reply);
}

/* ---- steps ---- */

struct kvc_key scene_key(const char *request_id, int64_t chunks, int64_t start, int64_t end)
{
    static int64_t tokens[MAX_TOKENS];
    for (int64_t i = 0; i < MAX_TOKENS; i++)
        tokens[i] = 100 + i;
    return (struct kvc_key){
        .model_name = KVC_STR("m"),
        .world_size = 1,
        .worker_id = KVC_SOME_INT(0),
        .token_ids = {tokens, (size_t)(chunks * CHUNK)},
        .start = start * CHUNK,
        .end = end * CHUNK,
        .request_id = kvc_str_of(request_id),
        .num_kv_readers = 1,
    };
}

void scene_enroll(struct scene *scene, bool has_pool)
{
    const struct kvc_request request = {
        .op = KVC_OP_REGISTER_ENGINE_DRIVEN,
        .engine_driven = {.instance_id = 1,
                          .model_name = KVC_STR("m"),
                          .world_size = 1,
                          .block_size = 4,
                          .num_layers = 2,
                          .hidden_dim_size = 8,
                          .dtype_str = KVC_STR("float16")},
    };
    struct kvc_reply reply = {.op = request.op};
    if (has_pool)
        reply.pool = (struct kvc_pool_info){KVC_STR("pool"), 1 << 20};
    scene_call(scene, &request, &reply);
}

void scene_enroll_mapped(struct scene *scene)
{
    static const int64_t shape[] = {2, 8, 4, 2, 8}, stride[] = {512, 64, 16, 8, 1};
    static const struct kvc_tensor_handle handle = {
        .shm_name = {"/s", 2},
        .nbytes = 2048,
        .dtype = {"float16", 7},
        .shape = {shape, 5},
        .stride = {stride, 5},
        .device_uuid = {"cpu", 3},
    };
    const struct kvc_request request = {
        .op = KVC_OP_REGISTER_KV_CACHE,
        .instance_id = 1,
        .handles = {&handle, 1},
        .model_name = KVC_STR("m"),
        .world_size = 1,
        .engine_type = KVC_STR("vllm"),
        .layout_hints = {.kv_layout = KVC_STR("NHD")},
    };
    scene_call(scene, &request, &(struct kvc_reply){.op = request.op});
}

static void leave(struct scene *scene, enum kvc_op op)
{
    const struct kvc_request request = {.op = op, .instance_id = 1};
    scene_call(scene, &request, &(struct kvc_reply){.op = op});
}

void scene_leave(struct scene *scene)
{
    leave(scene, KVC_OP_UNREGISTER_ENGINE_DRIVEN);
}

void scene_leave_mapped(struct scene *scene)
{
    leave(scene, KVC_OP_UNREGISTER_KV_CACHE);
}

void scene_look_up(struct scene *scene, const char *request_id, int64_t chunks, int64_t hits)
{
    struct kvc_request lookup = {
        .op = KVC_OP_LOOKUP, .key = scene_key(request_id, chunks, 0, chunks), .tp_size = 1};
    lookup.key.worker_id = KVC_NIL_INT;
    scene_call(scene, &lookup, &(struct kvc_reply){.op = KVC_OP_LOOKUP});
    const struct kvc_request query = {.op = KVC_OP_QUERY_PREFETCH_STATUS,
                                      .request_id = kvc_str_of(request_id)};
    scene_call(scene, &query, &(struct kvc_reply){.op = query.op, .count = hits});
}

void scene_end(struct scene *scene, const char *request_id)
{
    const struct kvc_request request = {.op = KVC_OP_END_SESSION,
                                        .request_id = kvc_str_of(request_id)};
    scene_call(scene, &request, &(struct kvc_reply){.op = request.op});
}

static struct kvc_slots some_slots(size_t count)
{
    static struct kvc_slot slots[8];
    for (size_t i = 0; i < count; i++)
        slots[i] = (struct kvc_slot){.offset = (int64_t)i * 4096, .dtype = KVC_STR("float16")};
    return (struct kvc_slots){slots, count};
}

void scene_prepare_store(struct scene *scene, const struct kvc_key *key, size_t slots)
{
    static const int64_t indices[] = {0, 1, 2, 3, 4, 5, 6, 7};
    const struct kvc_request request = {.op = KVC_OP_PREPARE_STORE, .key = *key, .instance_id = 1};
    const struct kvc_reply reply = {.op = request.op,
                                    .context = {.has_slots = true,
                                                .slots = some_slots(slots),
                                                .has_chunk_indices = true,
                                                .chunk_indices = {indices, slots}}};
    scene_call(scene, &request, &reply);
}

void scene_commit_store(struct scene *scene, const struct kvc_key *key)
{
    const struct kvc_request request = {.op = KVC_OP_COMMIT_STORE, .key = *key, .instance_id = 1};
    scene_call(scene, &request, &(struct kvc_reply){.op = request.op, .ok = true});
}

void scene_prepare_retrieve(struct scene *scene, const struct kvc_key *key, size_t slots)
{
    const struct kvc_request request = {
        .op = KVC_OP_PREPARE_RETRIEVE, .key = *key, .instance_id = 1};
    const struct kvc_reply reply = {
        .op = request.op,
        .retrieve = {.success = slots > 0,
                     .context = {.has_slots = slots > 0, .slots = some_slots(slots)}}};
    scene_call(scene, &request, &reply);
}

void scene_commit_retrieve(struct scene *scene, const struct kvc_key *key)
{
    const struct kvc_request request = {
        .op = KVC_OP_COMMIT_RETRIEVE, .key = *key, .instance_id = 1};
    scene_call(scene, &request, &(struct kvc_reply){.op = request.op, .ok = true});
}

struct kvc_request scene_mapped(enum kvc_op op, const struct kvc_key *key)
{
    static const int64_t blocks[] = {0, 1, 2, 3, 4, 5, 6, 7};
    static struct kvc_ints list;
    list = (struct kvc_ints){blocks, (size_t)(key->end - key->start) / 4};
    return (struct kvc_request){.op = op, .key = *key, .instance_id = 1, .block_ids = {&list, 1}};
}

void scene_transfer(struct scene *scene, enum kvc_op op, const struct kvc_key *key)
{
    const struct kvc_request request = scene_mapped(op, key);
    scene_call(scene, &request, &(struct kvc_reply){.op = op, .transfer.success = true});
}
