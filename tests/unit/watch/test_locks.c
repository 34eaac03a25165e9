#include <criterion/criterion.h>

#include "tests/unit/watch/scene.h"

static void finish(struct scene *scene, const char *expected)
{
    scene_end(scene, "r");
    scene_leave_mapped(scene);
    scene_expect(scene, expected);
}

static void start(struct scene *scene)
{
    scene_open(scene, "0.5.6");
    scene_enroll_mapped(scene);
}

static void poll(struct scene *scene)
{
    const struct kvc_request query = {.op = KVC_OP_QUERY_PREFETCH_STATUS,
                                      .request_id = KVC_STR("r")};
    scene_call(scene, &query, &(struct kvc_reply){.op = query.op});
}

static void free_locks(struct scene *scene, int64_t start_chunk, int64_t end_chunk)
{
    const struct kvc_request request = {.op = KVC_OP_FREE_LOOKUP_LOCKS,
                                        .key = scene_key("r", 2, start_chunk, end_chunk),
                                        .tp_size = 1};
    scene_call(scene, &request, &(struct kvc_reply){.op = request.op});
}

Test(locks, polled_without_lookup)
{
    struct scene scene;
    start(&scene);
    poll(&scene);
    finish(&scene, "polled-without-lookup");
}

Test(locks, polled_after_the_result)
{
    struct scene scene;
    start(&scene);
    scene_look_up(&scene, "r", 1, 0);
    poll(&scene);
    finish(&scene, "polled-after-result");
}

static void look_up_only(struct scene *scene)
{
    const struct kvc_request lookup = {
        .op = KVC_OP_LOOKUP, .key = scene_key("r", 1, 0, 1), .tp_size = 1};
    scene_call(scene, &lookup, &(struct kvc_reply){.op = lookup.op});
}

Test(locks, result_not_fetched_before_the_end)
{
    struct scene scene;
    start(&scene);
    look_up_only(&scene);
    finish(&scene, "result-not-fetched");
}

Test(locks, result_not_fetched_before_the_next_lookup)
{
    struct scene scene;
    start(&scene);
    look_up_only(&scene);
    scene_look_up(&scene, "r", 1, 0);
    finish(&scene, "result-not-fetched");
}

Test(locks, result_not_fetched_before_the_retrieve)
{
    struct scene scene;
    start(&scene);
    look_up_only(&scene);
    const struct kvc_key key = scene_key("r", 1, 0, 1);
    scene_transfer(&scene, KVC_OP_RETRIEVE, &key);
    finish(&scene, "result-not-fetched");
}

Test(locks, retrieve_without_lookup)
{
    struct scene scene;
    start(&scene);
    const struct kvc_key key = scene_key("r", 1, 0, 1);
    scene_transfer(&scene, KVC_OP_RETRIEVE, &key);
    finish(&scene, "retrieve-without-lookup");
}

Test(locks, retrieve_by_slots_without_lookup)
{
    struct scene scene;
    scene_open(&scene, "0.5.6");
    scene_enroll(&scene, true);
    const struct kvc_key key = scene_key("r", 1, 0, 1);
    scene_prepare_retrieve(&scene, &key, 0);
    scene_end(&scene, "r");
    scene_leave(&scene);
    scene_expect(&scene, "retrieve-without-lookup");
}

Test(locks, retrieve_of_more_than_was_found)
{
    struct scene scene;
    start(&scene);
    const struct kvc_key key = scene_key("r", 2, 0, 2);
    scene_look_up(&scene, "r", 2, 1);
    scene_transfer(&scene, KVC_OP_RETRIEVE, &key);
    finish(&scene, "retrieve-beyond-hits");
}

Test(locks, retrieve_twice)
{
    struct scene scene;
    start(&scene);
    const struct kvc_key key = scene_key("r", 2, 0, 2);
    scene_look_up(&scene, "r", 2, 2);
    scene_transfer(&scene, KVC_OP_RETRIEVE, &key);
    scene_transfer(&scene, KVC_OP_RETRIEVE, &key);
    finish(&scene, "retrieve-beyond-hits");
}

Test(locks, of_the_chunks_that_were_not_retrieved)
{
    struct scene scene;
    start(&scene);
    const struct kvc_key key = scene_key("r", 2, 0, 1);
    scene_look_up(&scene, "r", 2, 2);
    scene_transfer(&scene, KVC_OP_RETRIEVE, &key);
    finish(&scene, "lock-not-released");
}

Test(locks, of_two_lookups_add_up)
{
    struct scene scene;
    start(&scene);
    const struct kvc_key key = scene_key("r", 2, 0, 2);
    scene_look_up(&scene, "r", 2, 2);
    scene_look_up(&scene, "r", 2, 2);
    scene_transfer(&scene, KVC_OP_RETRIEVE, &key);
    finish(&scene, "lock-not-released");
}

Test(locks, of_a_request_that_stores_all_the_same)
{
    struct scene scene;
    start(&scene);
    const struct kvc_key key = scene_key("r", 2, 0, 2);
    scene_look_up(&scene, "r", 2, 1);
    scene_transfer(&scene, KVC_OP_STORE, &key);
    finish(&scene, "lock-not-released");
}

Test(locks, freed_where_there_are_none)
{
    struct scene scene;
    start(&scene);
    scene_look_up(&scene, "r", 2, 1);
    free_locks(&scene, 0, 2);
    free_locks(&scene, 1, 2);
    finish(&scene, "freed-nothing");
}

Test(locks, of_a_lookup_that_is_freed_without_asking)
{
    struct scene scene;
    start(&scene);
    look_up_only(&scene);
    free_locks(&scene, 0, 1);
    finish(&scene, "");
}

Test(locks, of_a_world_that_changes_are_not_counted)
{
    struct scene scene;
    start(&scene);
    scene_look_up(&scene, "r", 2, 2);
    struct kvc_request lookup = {.op = KVC_OP_LOOKUP, .key = scene_key("r", 2, 0, 2), .tp_size = 1};
    lookup.key.world_size = 1 << 30;
    scene_call(&scene, &lookup, &(struct kvc_reply){.op = lookup.op});
    const struct kvc_request query = {.op = KVC_OP_QUERY_PREFETCH_STATUS,
                                      .request_id = KVC_STR("r")};
    scene_call(&scene, &query, &(struct kvc_reply){.op = query.op, .count = INT64_MAX});
    scene_end(&scene, "r");
    scene_leave_mapped(&scene);
    scene_expect(&scene, "model-not-registered, ended-after-unregister");
}
