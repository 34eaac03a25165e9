#include <criterion/criterion.h>
#include <string.h>

#include "tests/unit/watch/scene.h"

Test(rules, have_a_name_of_their_own_and_say_everything)
{
    for (size_t i = 0; i < KVC_RULE_COUNT; i++) {
        cr_assert_not_null(kvc_rules[i].name);
        cr_assert_gt(strlen(kvc_rules[i].wrong), 10u);
        cr_assert_gt(strlen(kvc_rules[i].matter), 10u);
        cr_assert_gt(strlen(kvc_rules[i].source), 2u);
        cr_assert_eq(strspn(kvc_rules[i].name, "abcdefghijklmnopqrstuvwxyz-"),
                     strlen(kvc_rules[i].name), "%s", kvc_rules[i].name);
        for (size_t j = 0; j < i; j++)
            cr_assert_str_neq(kvc_rules[i].name, kvc_rules[j].name);
    }
}

static void count(void *user, const struct kvc_finding *finding)
{
    cr_assert_eq(finding->op, KVC_OP_COMMIT_STORE);
    cr_assert_str_eq(finding->detail, "slot \\x0a 3");
    cr_assert(kvc_str_is(finding->client, "b"));
    (*(int *)user)++;
}

Test(rules, what_somebody_else_saw_is_a_finding)
{
    int found = 0;
    const struct kvc_watch_options options = {
        .dialect = kvc_dialect_find(KVC_STR("0.5.6")), .found = count, .user = &found};
    struct kvc_watch *watch = kvc_watch_open(&options);
    struct kvc_frames frames = {0};
    kvc_frames_append_copy(&frames, "\x01", 1);
    kvc_frames_append_copy(&frames, "\x11", 1);
    kvc_watch_saw(watch, KVC_RULE_SLOT_NOT_WRITTEN, KVC_STR("b"), &frames, "slot \n %d", 3);
    cr_assert_eq(found, 1);
    cr_assert_eq(kvc_watch_findings(watch), 1);
    kvc_frames_clear(&frames);
    kvc_watch_close(watch);
}
