#include <criterion/criterion.h>
#include <stdio.h>

#include "tests/unit/watch/scene.h"

Test(leftovers, session_never_ended)
{
    struct scene scene;
    scene_open(&scene, "0.5.6");
    scene_enroll_mapped(&scene);
    const struct kvc_key key = scene_key("r", 1, 0, 1);
    scene_transfer(&scene, KVC_OP_STORE, &key);
    scene_leave_mapped(&scene);
    scene_expect(&scene, "session-not-ended");
}

Test(leftovers, session_never_ended_with_its_locks)
{
    struct scene scene;
    scene_open(&scene, "0.5.6");
    scene_enroll_mapped(&scene);
    scene_look_up(&scene, "r", 1, 1);
    scene_leave_mapped(&scene);
    scene_expect(&scene, "session-not-ended, lock-not-released");
}

Test(leftovers, session_that_the_server_forgot)
{
    struct scene scene;
    scene_open(&scene, "0.5.6");
    scene_enroll_mapped(&scene);
    const struct kvc_key key = scene_key("r", 1, 0, 1);
    scene_transfer(&scene, KVC_OP_STORE, &key);
    scene.now_ms = 600000;
    scene_leave_mapped(&scene);
    scene_expect(&scene, "session-not-ended");
}

Test(leftovers, sessions_without_end)
{
    enum { SESSIONS = 5000 };
    struct scene scene;
    scene_open(&scene, "0.5.6");
    for (int i = 0; i < SESSIONS; i++) {
        char id[16];
        snprintf(id, sizeof(id), "%d", i);
        struct kvc_request lookup = {
            .op = KVC_OP_LOOKUP, .key = scene_key(id, 0, 0, 0), .tp_size = 1};
        const int64_t uid = scene_ask(&scene, &lookup);
        scene_answer(&scene, uid, &(struct kvc_reply){.op = lookup.op});
    }
    /* model-not-registered of each; those beyond 4096 are forgotten with two findings each */
    cr_assert_eq(kvc_watch_findings(scene.watch), SESSIONS + 2 * (SESSIONS - 4096 - 1));
    kvc_watch_close(scene.watch);
    kvc_buffer_clear(&scene.found);
    kvc_buffer_clear(&scene.details);
}

Test(leftovers, session_ended_after_the_last_instance_has_left)
{
    struct scene scene;
    scene_open(&scene, "0.5.6");
    scene_enroll_mapped(&scene);
    scene_look_up(&scene, "r", 1, 0);
    scene_leave_mapped(&scene);
    scene_end(&scene, "r");
    scene_expect(&scene, "ended-after-unregister");
}

Test(leftovers, session_ended_twice_or_never_begun_harms_nobody)
{
    struct scene scene;
    scene_open(&scene, "0.5.6");
    scene_end(&scene, "r");
    scene_expect(&scene, "");
}

Test(leftovers, session_of_which_nothing_was_answered_never_began)
{
    struct scene scene;
    scene_open(&scene, "0.5.6");
    scene_enroll_mapped(&scene);
    struct kvc_request lookup = {.op = KVC_OP_LOOKUP, .key = scene_key("r", 1, 0, 1), .tp_size = 1};
    lookup.key.num_kv_readers = 0;
    scene_ask(&scene, &lookup);
    scene.now_ms = 10000;
    scene_leave_mapped(&scene);
    scene_expect(&scene, "no-kv-readers");
}
