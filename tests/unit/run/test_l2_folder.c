#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/target/aside.h"
#include "src/target/l2_folder.h"

static bool is_folder(const char *path)
{
    struct stat there;
    return stat(path, &there) == 0 && S_ISDIR(there.st_mode);
}

Test(l2_folder, it_is_made_once_and_goes_with_all_that_is_in_it)
{
    struct kvc_target target = {0};
    char made[sizeof(target.l2_folder)], inside[300];
    cr_assert_eq(kvc_l2_folder_make(&target, NULL), KVC_OK);
    strcpy(made, target.l2_folder);
    cr_assert_eq(kvc_l2_folder_make(&target, NULL), KVC_OK);
    cr_assert_str_eq(target.l2_folder, made);
    snprintf(inside, sizeof(inside), "%s/folder", made);
    cr_assert_eq(mkdir(inside, 0777), 0);
    snprintf(inside, sizeof(inside), "%s/../beside", made);
    cr_assert_eq(mkdir(inside, 0777), 0);
    kvc_l2_folder_remove(&target);
    *strrchr(made, '/') = '\0';
    cr_assert_not(is_folder(made));
    kvc_l2_folder_remove(&target);
}

Test(l2_folder, a_folder_that_cannot_be_made_is_an_error)
{
    struct kvc_target target = {0};
    struct kvc_error err = KVC_ERROR_INIT;
    setenv("TMPDIR", "/no/such/folder", 1);
    cr_assert_eq(kvc_l2_folder_make(&target, &err), KVC_ESYSTEM);
    cr_assert_not_null(strstr(err.what, "/no/such/folder"));
    cr_assert_eq(target.l2_folder[0], '\0');
}

enum { SMALL = 64 << 10 };

/* How many bytes a file in it can have. */
static kvc_status fill(const void *arg, void *result, struct kvc_error *err)
{
    static const char bytes[4096];
    const char *folder = arg;
    char path[300];
    KVC_GUARD(kvc_l2_folder_confine(folder, SMALL, err));
    snprintf(path, sizeof(path), "%s/file", folder);
    const int file = open(path, O_WRONLY | O_CREAT, 0644);
    for (int64_t *written = result; *written < 4 * SMALL; *written += (int64_t)sizeof(bytes))
        if (write(file, bytes, sizeof(bytes)) != (ssize_t)sizeof(bytes))
            break;
    close(file);
    return KVC_OK;
}

Test(l2_folder, a_small_one_is_seen_by_its_process_alone)
{
    struct kvc_target target = {0};
    struct kvc_error err = KVC_ERROR_INIT;
    char path[300];
    int64_t written = 0;
    if (kvc_l2_folder_try_confine(&err) != KVC_OK)
        cr_skip_test("%s", err.what);
    cr_assert_eq(kvc_l2_folder_make(&target, NULL), KVC_OK);
    cr_assert_eq(kvc_aside_run(fill, target.l2_folder, &written, sizeof(written), 5000, &err),
                 KVC_OK, "%s", err.what);
    cr_assert_eq(written, SMALL);
    snprintf(path, sizeof(path), "%s/file", target.l2_folder);
    cr_assert_neq(access(path, F_OK), 0);
    kvc_l2_folder_remove(&target);
}
