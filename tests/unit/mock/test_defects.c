#include <criterion/criterion.h>
#include <string.h>

#include "tests/mock_server/defects.h"
#include "tests/mock_server/mock.h"

Test(defects, there_are_many_each_with_its_own_name_a_summary_and_an_origin)
{
    cr_assert_geq(kvc_mock_defect_count, 40u);
    for (size_t i = 0; i < kvc_mock_defect_count; i++) {
        const struct kvc_mock_defect *defect = &kvc_mock_defects[i];
        cr_assert_eq(strspn(defect->name, "abcdefghijklmnopqrstuvwxyz0123456789-"),
                     strlen(defect->name), "%s", defect->name);
        cr_assert_gt(strlen(defect->summary), 10u);
        cr_assert_gt(strlen(defect->origin), 1u);
        for (size_t j = 0; j < i; j++)
            cr_assert_neq(strcmp(defect->name, kvc_mock_defects[j].name), 0, "%s", defect->name);
    }
}

Test(defects, names_switch_on_what_they_name_and_nothing_else)
{
    const char *const names[] = {"salt-not-in-key", "ping-false", NULL};
    bool on[MOCK_DEFECT_COUNT];
    cr_assert_eq(mock_defects_read(names, on, NULL), KVC_OK);
    for (size_t i = 0; i < MOCK_DEFECT_COUNT; i++)
        cr_assert_eq(on[i], i == MOCK_DEFECT_SALT_NOT_IN_KEY || i == MOCK_DEFECT_PING_FALSE);
}

Test(defects, no_list_is_none)
{
    bool on[MOCK_DEFECT_COUNT];
    cr_assert_eq(mock_defects_read(NULL, on, NULL), KVC_OK);
    for (size_t i = 0; i < MOCK_DEFECT_COUNT; i++)
        cr_assert_not(on[i]);
}

Test(defects, an_unknown_name_is_refused_with_the_nearest_one)
{
    const char *const names[] = {"salt-in-key", NULL};
    bool on[MOCK_DEFECT_COUNT];
    struct kvc_error err = KVC_ERROR_INIT;
    cr_assert_eq(mock_defects_read(names, on, &err), KVC_EUSAGE);
    cr_assert_not_null(strstr(err.what, "\"salt-in-key\""), "%s", err.what);
    cr_assert_not_null(strstr(err.what, "\"salt-not-in-key\""), "%s", err.what);
}
