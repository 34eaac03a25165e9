/* What a client may do: nothing is found. */
#include <criterion/criterion.h>

#include "tests/unit/watch/scene.h"

Test(clean, stores_and_retrieves_over_the_pool)
{
    struct scene scene;
    scene_open(&scene, "0.5.1");
    scene_enroll(&scene, true);
    const struct kvc_key cold = scene_key("cold", 2, 0, 2), warm = scene_key("warm", 2, 0, 2);
    scene_look_up(&scene, "cold", 2, 0);
    scene_prepare_store(&scene, &cold, 2);
    scene_commit_store(&scene, &cold);
    scene_end(&scene, "cold");
    scene_look_up(&scene, "warm", 2, 2);
    scene_prepare_retrieve(&scene, &warm, 2);
    scene_commit_retrieve(&scene, &warm);
    scene_end(&scene, "warm");
    scene_leave(&scene);
    scene_expect(&scene, "");
}

Test(clean, does_not_commit_where_no_slot_was_given)
{
    struct scene scene;
    scene_open(&scene, "0.5.6");
    scene_enroll(&scene, true);
    const struct kvc_key key = scene_key("r", 2, 0, 2);
    scene_prepare_store(&scene, &key, 0);
    scene_end(&scene, "r");
    scene_leave(&scene);
    scene_expect(&scene, "");
}

Test(clean, stores_and_retrieves_mapped_memory)
{
    struct scene scene;
    scene_open(&scene, "0.5.6");
    scene_enroll_mapped(&scene);
    const struct kvc_key cold = scene_key("cold", 2, 0, 2), warm = scene_key("warm", 2, 0, 2);
    scene_look_up(&scene, "cold", 2, 0);
    scene_transfer(&scene, KVC_OP_STORE, &cold);
    scene_end(&scene, "cold");
    scene_look_up(&scene, "warm", 2, 2);
    scene_transfer(&scene, KVC_OP_RETRIEVE, &warm);
    scene_end(&scene, "warm");
    scene_leave_mapped(&scene);
    scene_expect(&scene, "");
}

Test(clean, retrieves_a_part_and_frees_the_rest)
{
    struct scene scene;
    scene_open(&scene, "0.5.6");
    scene_enroll_mapped(&scene);
    const struct kvc_key part = scene_key("r", 2, 0, 1);
    scene_look_up(&scene, "r", 2, 2);
    scene_transfer(&scene, KVC_OP_RETRIEVE, &part);
    const struct kvc_request free_rest = {
        .op = KVC_OP_FREE_LOOKUP_LOCKS, .key = scene_key("r", 2, 1, 2), .tp_size = 1};
    scene_call(&scene, &free_rest, &(struct kvc_reply){.op = free_rest.op});
    scene_end(&scene, "r");
    scene_leave_mapped(&scene);
    scene_expect(&scene, "");
}

Test(clean, goes_on_with_a_session_and_more_of_its_tokens)
{
    struct scene scene;
    scene_open(&scene, "0.5.6");
    scene_enroll_mapped(&scene);
    const struct kvc_key first = scene_key("r", 1, 0, 1), second = scene_key("r", 2, 1, 2);
    scene_look_up(&scene, "r", 1, 0);
    scene_transfer(&scene, KVC_OP_STORE, &first);
    scene_transfer(&scene, KVC_OP_STORE, &second);
    scene_end(&scene, "r");
    scene_leave_mapped(&scene);
    scene_expect(&scene, "");
}

/* Each rank retrieves its own chunks, and every reader of a shared chunk has a lock. */
static void retrieve_by_two(const char *release, int64_t world_size, int64_t readers,
                            int64_t tp_size)
{
    struct scene scene;
    scene_open(&scene, release);
    struct kvc_request request = {.op = KVC_OP_REGISTER_ENGINE_DRIVEN,
                                  .engine_driven = {.model_name = KVC_STR("m"),
                                                    .world_size = world_size,
                                                    .num_layers = 1,
                                                    .hidden_dim_size = 8,
                                                    .dtype_str = KVC_STR("float16")}};
    for (int64_t i = 1; i <= 2; i++) {
        request.engine_driven.instance_id = i;
        const struct kvc_reply reply = {.op = request.op, .pool = {KVC_STR("pool"), 4096}};
        scene_call(&scene, &request, &reply);
    }
    struct kvc_request lookup = {
        .op = KVC_OP_LOOKUP, .key = scene_key("r", 2, 0, 2), .tp_size = tp_size};
    lookup.key.world_size = world_size;
    lookup.key.num_kv_readers = readers;
    lookup.key.worker_id = KVC_NIL_INT;
    scene_call(&scene, &lookup, &(struct kvc_reply){.op = lookup.op});
    const struct kvc_request query = {.op = KVC_OP_WAIT_PREFETCH_STATUS,
                                      .request_id = KVC_STR("r")};
    scene_call(&scene, &query, &(struct kvc_reply){.op = query.op, .is_void = true});
    scene_call(&scene, &query, &(struct kvc_reply){.op = query.op, .count = 2});
    static const struct kvc_slot slots[2] = {{.dtype = {"float16", 7}}, {.dtype = {"float16", 7}}};
    for (int64_t i = 1; i <= 2; i++) {
        struct kvc_request prepare = {
            .op = KVC_OP_PREPARE_RETRIEVE, .key = lookup.key, .instance_id = i};
        prepare.key.worker_id = KVC_SOME_INT(world_size > 1 ? i - 1 : 0);
        const struct kvc_reply reply = {
            .op = prepare.op,
            .retrieve = {.success = true, .context = {.has_slots = true, .slots = {slots, 2}}}};
        scene_call(&scene, &prepare, &reply);
        scene_call(&scene, &prepare, &reply); /* may be repeated until it is committed */
        prepare.op = KVC_OP_COMMIT_RETRIEVE;
        scene_call(&scene, &prepare, &(struct kvc_reply){.op = prepare.op, .ok = true});
    }
    scene_end(&scene, "r");
    for (int64_t i = 1; i <= 2; i++) {
        const struct kvc_request leave = {.op = KVC_OP_UNREGISTER_ENGINE_DRIVEN, .instance_id = i};
        scene_call(&scene, &leave, &(struct kvc_reply){.op = leave.op});
    }
    scene_expect(&scene, "");
}

Test(clean, two_ranks_of_a_world)
{
    retrieve_by_two("0.5.6", 2, 1, 1);
}

Test(clean, two_readers_of_one_rank)
{
    retrieve_by_two("0.5.6", 1, 2, 1);
}

Test(clean, two_readers_of_one_rank_as_older_releases_count_them)
{
    retrieve_by_two("0.5.1", 1, 0, 2);
}

Test(clean, asks_for_hits_that_stay_to_be_fetched)
{
    struct scene scene;
    scene_open(&scene, "0.5.1");
    scene_enroll_mapped(&scene);
    struct kvc_request request = {
        .op = KVC_OP_LOOKUP, .key = scene_key("r", 1, 0, 1), .tp_size = 1};
    scene_call(&scene, &request, &(struct kvc_reply){.op = request.op});
    request =
        (struct kvc_request){.op = KVC_OP_QUERY_PREFETCH_LOOKUP_HITS, .request_id = KVC_STR("r")};
    scene_call(&scene, &request, &(struct kvc_reply){.op = request.op, .count = 1});
    request.op = KVC_OP_QUERY_PREFETCH_STATUS;
    scene_call(&scene, &request, &(struct kvc_reply){.op = request.op, .count = 1});
    const struct kvc_key key = scene_key("r", 1, 0, 1);
    scene_transfer(&scene, KVC_OP_RETRIEVE, &key);
    scene_end(&scene, "r");
    scene_leave_mapped(&scene);
    scene_expect(&scene, "");
}

Test(clean, keeps_many_requests_in_flight_that_do_not_depend_on_each_other)
{
    struct scene scene;
    scene_open(&scene, "0.5.6");
    scene_enroll_mapped(&scene);
    const struct kvc_key first = scene_key("a", 1, 0, 1), second = scene_key("b", 1, 0, 1);
    const struct kvc_request stores[] = {scene_mapped(KVC_OP_STORE, &first),
                                         scene_mapped(KVC_OP_STORE, &second)};
    const int64_t uids[] = {scene_ask(&scene, &stores[0]), scene_ask(&scene, &stores[1])};
    const struct kvc_reply stored = {.op = KVC_OP_STORE, .transfer.success = true};
    scene_answer(&scene, uids[1], &stored);
    scene_end(&scene, "b");
    scene_answer(&scene, uids[0], &stored);
    scene_end(&scene, "a");
    scene_leave_mapped(&scene);
    scene_expect(&scene, "");
}

Test(clean, gives_up_what_is_not_answered)
{
    struct scene scene;
    scene_open(&scene, "0.5.6");
    scene_enroll_mapped(&scene);
    const struct kvc_key key = scene_key("r", 1, 0, 1);
    const struct kvc_request store = scene_mapped(KVC_OP_STORE, &key);
    scene_ask(&scene, &store);
    scene.now_ms = 10000;
    scene_end(&scene, "r");
    scene_leave_mapped(&scene);
    cr_assert_eq(kvc_watch_unanswered(scene.watch), 1);
    scene_expect(&scene, "");
}

Test(clean, registers_once_more_with_the_same_arguments)
{
    struct scene scene;
    scene_open(&scene, "0.5.6");
    scene_enroll(&scene, true);
    scene_enroll(&scene, true);
    scene_leave(&scene);
    scene_expect(&scene, "");
}

Test(clean, forced_clear_takes_the_locks_away)
{
    struct scene scene;
    scene_open(&scene, "0.5.6");
    scene_enroll_mapped(&scene);
    scene_look_up(&scene, "r", 2, 2);
    const struct kvc_request clear = {.op = KVC_OP_CLEAR, .force = true};
    scene_call(&scene, &clear, &(struct kvc_reply){.op = clear.op});
    scene_end(&scene, "r");
    scene_leave_mapped(&scene);
    scene_expect(&scene, "");
}

Test(clean, reads_a_stream_of_events)
{
    static const uint8_t name[] = "\xb3subscribe_kv_events", uid = 9;
    struct scene scene;
    scene_open(&scene, "0.5.6");
    const struct kvc_request subscribe = {.op = KVC_OP_SUBSCRIBE_KV_EVENTS,
                                          .instance_id = 1,
                                          .model_name = KVC_STR("m"),
                                          .max_events = 8};
    scene.uid = 9;
    scene_ask(&scene, &subscribe);
    struct kvc_frames batch = {0}, credit = {0}, end = {0};
    kvc_frames_append_view(&batch, &uid, 1);
    kvc_frames_append_view(&batch, name, sizeof(name) - 1);
    kvc_frames_copy(&batch, &end);
    kvc_frames_append_view(&batch, "\x80", 1);
    kvc_watch_reply(scene.watch, scene.client, &batch);
    kvc_frames_append_view(&credit, &uid, 1);
    kvc_frames_append_view(&credit, "", 0);
    kvc_frames_append_view(&credit, "ack", 3);
    scene_send(&scene, &credit);
    kvc_watch_reply(scene.watch, scene.client, &batch);
    cr_assert_eq(kvc_watch_unanswered(scene.watch), 1);
    kvc_watch_reply(scene.watch, scene.client, &end);
    cr_assert_eq(kvc_watch_unanswered(scene.watch), 0);
    kvc_frames_clear(&batch);
    kvc_frames_clear(&end);
    scene_expect(&scene, "");
}

Test(clean, does_not_judge_windows_before_it_knows_the_chunk_size)
{
    struct scene scene;
    scene_open_unknown(&scene, "0.5.6");
    scene_enroll_mapped(&scene);
    struct kvc_key key = scene_key("r", 2, 0, 2);
    key.end = 4;
    scene_transfer(&scene, KVC_OP_STORE, &key);
    scene_look_up(&scene, "r", 2, 2);
    scene_transfer(&scene, KVC_OP_RETRIEVE, &key);
    scene_end(&scene, "r");
    scene_leave_mapped(&scene);
    scene_expect(&scene, "");
}
