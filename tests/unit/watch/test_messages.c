#include <criterion/criterion.h>

#include "tests/unit/watch/scene.h"

static void send_raw(struct scene *scene, const char *const *frames, const size_t *sizes,
                     size_t count)
{
    struct kvc_frames message = {0};
    for (size_t i = 0; i < count; i++)
        kvc_frames_append_copy(&message, frames[i], sizes[i]);
    scene_send(scene, &message);
}

Test(messages, short_message)
{
    struct scene scene;
    scene_open(&scene, "0.5.6");
    send_raw(&scene, (const char *[]){"\x01"}, (size_t[]){1}, 1);
    scene_expect(&scene, "short-message");
}

Test(messages, operation_that_the_dialect_does_not_have)
{
    struct scene scene;
    scene_open(&scene, "0.5.6");
    send_raw(&scene, (const char *[]){"\x01", "\x0b"}, (size_t[]){1, 1}, 2);
    scene_expect(&scene, "unknown-operation");
}

Test(messages, operation_by_name_where_there_are_no_names)
{
    struct scene scene;
    scene_open(&scene, "0.5.1");
    send_raw(&scene, (const char *[]){"\x01", "\xa4noop"}, (size_t[]){1, 5}, 2);
    scene_expect(&scene, "unknown-operation");
}

Test(messages, empty_operation_where_there_are_no_streams)
{
    struct scene scene;
    scene_open(&scene, "0.5.1");
    send_raw(&scene, (const char *[]){"\x01", "", "ack"}, (size_t[]){1, 0, 3}, 3);
    scene_expect(&scene, "unknown-operation");
}

Test(messages, clear_of_another_release_has_another_number_of_payloads)
{
    struct scene scene;
    scene_open(&scene, "0.5.6");
    send_raw(&scene, (const char *[]){"\x01", "\x14"}, (size_t[]){1, 1}, 2);
    scene_expect(&scene, "payload-count");
}

Test(messages, payload_of_another_type)
{
    struct scene scene;
    scene_open(&scene, "0.5.6");
    /* PING takes an int or nil */
    send_raw(&scene, (const char *[]){"\x01", "\x16", "\xa1x"}, (size_t[]){1, 1, 2}, 3);
    scene_expect(&scene, "payload-type");
}

Test(messages, salt_with_a_separator)
{
    struct scene scene;
    scene_open(&scene, "0.5.6");
    scene_enroll_mapped(&scene);
    struct kvc_key key = scene_key("r", 1, 0, 1);
    key.cache_salt = KVC_STR("a@b");
    const struct kvc_request store = scene_mapped(KVC_OP_STORE, &key);
    scene_ask(&scene, &store);
    scene_leave_mapped(&scene);
    scene_expect(&scene, "bad-salt");
}

Test(messages, uid_of_a_request_in_flight)
{
    struct scene scene;
    scene_open(&scene, "0.5.6");
    const struct kvc_request noop = {.op = KVC_OP_NOOP};
    scene_ask(&scene, &noop);
    scene.uid--;
    scene_ask(&scene, &noop);
    scene_expect(&scene, "uid-in-flight");
}

Test(messages, uid_is_free_again_after_the_reply_and_for_other_clients)
{
    struct scene scene;
    scene_open(&scene, "0.5.6");
    const struct kvc_request noop = {.op = KVC_OP_NOOP};
    scene_call(&scene, &noop, &(struct kvc_reply){.op = noop.op, .text = KVC_STR("OK")});
    scene.uid--;
    scene_ask(&scene, &noop);
    scene.uid--;
    scene.client = KVC_STR("b");
    scene_ask(&scene, &noop);
    scene_expect(&scene, "");
}

/* ---- order ---- */

Test(order, retrieve_before_the_lookup_is_answered)
{
    struct scene scene;
    scene_open(&scene, "0.5.6");
    scene_enroll_mapped(&scene);
    const struct kvc_key key = scene_key("r", 1, 0, 1);
    const struct kvc_request lookup = {.op = KVC_OP_LOOKUP, .key = key, .tp_size = 1};
    const int64_t uid = scene_ask(&scene, &lookup);
    const struct kvc_request retrieve = scene_mapped(KVC_OP_RETRIEVE, &key);
    const int64_t second = scene_ask(&scene, &retrieve);
    scene_answer(&scene, second, &(struct kvc_reply){.op = KVC_OP_RETRIEVE});
    scene_answer(&scene, uid, &(struct kvc_reply){.op = KVC_OP_LOOKUP});
    const struct kvc_request query = {.op = KVC_OP_QUERY_PREFETCH_STATUS,
                                      .request_id = KVC_STR("r")};
    scene_call(&scene, &query, &(struct kvc_reply){.op = query.op, .count = 1});
    scene_end(&scene, "r");
    scene_leave_mapped(&scene);
    scene_expect(&scene, "sent-before-reply");
}

Test(order, store_before_the_registration_is_answered)
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
                          .dtype_str = KVC_STR("int8")},
    };
    const int64_t uid = scene_ask(&scene, &enroll);
    const struct kvc_key key = scene_key("r", 1, 0, 1);
    const struct kvc_request prepare = {.op = KVC_OP_PREPARE_STORE, .key = key, .instance_id = 1};
    const int64_t second = scene_ask(&scene, &prepare);
    scene_answer(&scene, uid, &(struct kvc_reply){.op = enroll.op});
    scene_answer(&scene, second, &(struct kvc_reply){.op = prepare.op});
    scene_end(&scene, "r");
    scene_leave(&scene);
    scene_expect(&scene, "sent-before-reply");
}

Test(order, end_of_a_session_before_its_store_is_answered)
{
    struct scene scene;
    scene_open(&scene, "0.5.6");
    scene_enroll_mapped(&scene);
    const struct kvc_key key = scene_key("r", 1, 0, 1);
    const struct kvc_request store = scene_mapped(KVC_OP_STORE, &key);
    const int64_t uid = scene_ask(&scene, &store);
    scene_end(&scene, "r");
    scene_answer(&scene, uid, &(struct kvc_reply){.op = store.op});
    scene_leave_mapped(&scene);
    scene_expect(&scene, "sent-before-reply");
}

Test(order, commit_before_the_slots_are_known)
{
    struct scene scene;
    scene_open(&scene, "0.5.6");
    scene_enroll(&scene, true);
    const struct kvc_request prepare = {
        .op = KVC_OP_PREPARE_STORE, .key = scene_key("r", 1, 0, 1), .instance_id = 1};
    scene_ask(&scene, &prepare);
    struct kvc_request commit = prepare;
    commit.op = KVC_OP_COMMIT_STORE;
    scene_call(&scene, &commit, &(struct kvc_reply){.op = commit.op, .ok = true});
    scene.now_ms = 10000;
    scene_end(&scene, "r");
    scene_leave(&scene);
    scene_expect(&scene, "sent-before-reply");
}

Test(order, other_windows_of_the_same_request_may_be_pipelined)
{
    struct scene scene;
    scene_open(&scene, "0.5.6");
    scene_enroll(&scene, true);
    const struct kvc_key first = scene_key("r", 2, 0, 1), second = scene_key("r", 2, 1, 2);
    scene_prepare_store(&scene, &first, 1);
    const struct kvc_request prepare = {
        .op = KVC_OP_PREPARE_STORE, .key = second, .instance_id = 1};
    const int64_t uid = scene_ask(&scene, &prepare);
    scene_commit_store(&scene, &first);
    scene_answer(&scene, uid, &(struct kvc_reply){.op = prepare.op});
    scene_end(&scene, "r");
    scene_leave(&scene);
    scene_expect(&scene, "");
}

/* ---- what a server does not answer ---- */

Test(refused, says_why_when_nothing_else_was_found)
{
    struct scene scene;
    scene_open(&scene, "0.5.6");
    struct kvc_frames noop = {0};
    kvc_frames_append_copy(&noop, "\x07", 1);
    kvc_frames_append_copy(&noop, "\x18", 1);
    kvc_watch_request(scene.watch, scene.client, &noop, 0);
    kvc_watch_refused(scene.watch, scene.client, &noop, "it does not\nfeel like it");
    cr_assert_eq(kvc_watch_unanswered(scene.watch), 1);
    kvc_frames_clear(&noop);
    cr_assert_str_eq(kvc_buffer_text(&scene.details),
                     "noop: refused: it does not\\x0afeel like it\n");
    scene_expect(&scene, "refused");
}

Test(refused, adds_nothing_to_what_was_found)
{
    struct scene scene;
    scene_open(&scene, "0.5.6");
    struct kvc_frames ping = {0};
    kvc_frames_append_copy(&ping, "\x07", 1);
    kvc_frames_append_copy(&ping, "\x16", 1);
    kvc_watch_request(scene.watch, scene.client, &ping, 0);
    kvc_watch_refused(scene.watch, scene.client, &ping, "wrong number of payloads");
    kvc_frames_clear(&ping);
    scene_expect(&scene, "payload-count");
}
