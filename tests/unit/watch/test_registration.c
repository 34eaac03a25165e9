#include <criterion/criterion.h>

#include "tests/unit/watch/scene.h"

/* Every operation of an instance that is not there is found, and nothing else. */
static void of_nobody(enum kvc_op op, bool has_session)
{
    struct scene scene;
    scene_open(&scene, "0.5.6");
    const struct kvc_key key = scene_key("r", 1, 0, 1);
    struct kvc_request request = scene_mapped(op, &key);
    request.ping_instance = KVC_SOME_INT(1);
    scene_ask(&scene, &request);
    scene.now_ms = 10000;
    if (has_session)
        scene_end(&scene, "r");
    cr_assert_eq(scene.details.size > 0, true);
    scene_expect(&scene, "not-registered");
}

Test(registration, transfers_need_one)
{
    static const enum kvc_op ops[] = {
        KVC_OP_STORE,        KVC_OP_RETRIEVE,         KVC_OP_PREPARE_STORE,
        KVC_OP_COMMIT_STORE, KVC_OP_PREPARE_RETRIEVE, KVC_OP_COMMIT_RETRIEVE};
    for (size_t i = 0; i < KVC_COUNT_OF(ops); i++)
        of_nobody(ops[i], true);
}

Test(registration, leaving_and_pinging_need_one)
{
    of_nobody(KVC_OP_UNREGISTER_KV_CACHE, false);
    of_nobody(KVC_OP_UNREGISTER_ENGINE_DRIVEN, false);
    of_nobody(KVC_OP_PING, false);
}

Test(registration, of_the_other_mode_does_not_count)
{
    struct scene scene;
    scene_open(&scene, "0.5.6");
    scene_enroll(&scene, true);
    const struct kvc_key key = scene_key("r", 1, 0, 1);
    scene_transfer(&scene, KVC_OP_STORE, &key);
    scene_end(&scene, "r");
    scene_leave(&scene);
    scene_expect(&scene, "not-registered");
}

Test(registration, that_was_not_answered_does_not_count)
{
    struct scene scene;
    scene_open(&scene, "0.5.6");
    const struct kvc_request enroll = {
        .op = KVC_OP_REGISTER_ENGINE_DRIVEN,
        .engine_driven = {.instance_id = 1,
                          .model_name = KVC_STR("m"),
                          .world_size = 1,
                          .num_layers = 1,
                          .hidden_dim_size = 1,
                          .dtype_str = KVC_STR("no_such")},
    };
    scene_ask(&scene, &enroll);
    scene.now_ms = 10000;
    const struct kvc_key key = scene_key("r", 1, 0, 1);
    scene_prepare_store(&scene, &key, 0);
    scene_end(&scene, "r");
    scene_expect(&scene, "not-registered");
}

Test(registration, again_with_other_arguments)
{
    struct scene scene;
    scene_open(&scene, "0.5.6");
    scene_enroll(&scene, true);
    const struct kvc_request other = {
        .op = KVC_OP_REGISTER_ENGINE_DRIVEN,
        .engine_driven = {.instance_id = 1,
                          .model_name = KVC_STR("m"),
                          .world_size = 1,
                          .num_layers = 9,
                          .hidden_dim_size = 1,
                          .dtype_str = KVC_STR("float16")},
    };
    scene_call(&scene, &other, &(struct kvc_reply){.op = other.op});
    scene_leave(&scene);
    scene_expect(&scene, "registered-again");
}

Test(registration, of_no_tensor)
{
    struct scene scene;
    scene_open(&scene, "0.5.6");
    const struct kvc_request empty = {.op = KVC_OP_REGISTER_KV_CACHE,
                                      .instance_id = 1,
                                      .model_name = KVC_STR("m"),
                                      .world_size = 1,
                                      .engine_type = KVC_STR("vllm")};
    scene_ask(&scene, &empty);
    scene_expect(&scene, "registered-nothing");
}

Test(registration, of_no_layer)
{
    struct scene scene;
    scene_open(&scene, "0.5.6");
    const struct kvc_request empty = {
        .op = KVC_OP_REGISTER_ENGINE_DRIVEN,
        .engine_driven = {.instance_id = 1,
                          .model_name = KVC_STR("m"),
                          .world_size = 1,
                          .hidden_dim_size = 1,
                          .dtype_str = KVC_STR("float16")},
    };
    scene_call(&scene, &empty, &(struct kvc_reply){.op = empty.op});
    scene_leave(&scene);
    scene_expect(&scene, "registered-nothing");
}

Test(registration, never_taken_back)
{
    struct scene scene;
    scene_open(&scene, "0.5.6");
    scene_enroll(&scene, true);
    scene_expect(&scene, "not-unregistered");
}

Test(registration, of_an_instance_that_the_server_dropped)
{
    struct scene scene;
    scene_open(&scene, "0.5.6");
    scene_enroll(&scene, true);
    kvc_watch_dropped(scene.watch, 1);
    scene_expect(&scene, "fell-silent");
}
