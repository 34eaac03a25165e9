#include "src/target/l2_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/target/aside.h"

#define STORE "/store"

enum { TRY_MS = 5000 };

kvc_status kvc_l2_folder_make(struct kvc_target *target, struct kvc_error *err)
{
    const char *temporary = getenv("TMPDIR");
    if (target->l2_folder[0] != '\0')
        return KVC_OK;
    char *path = kvc_format("%s/kvconform-l2-XXXXXX" STORE,
                            temporary != NULL && temporary[0] == '/' ? temporary : "/tmp");
    char *end = path + strlen(path) - strlen(STORE);
    kvc_status status = KVC_OK;
    *end = '\0';
    bool made = mkdtemp(path) != NULL;
    *end = '/';
    made = made && strlen(path) < sizeof(target->l2_folder) && mkdir(path, 0777) == 0;
    if (made)
        snprintf(target->l2_folder, sizeof(target->l2_folder), "%s", path);
    else
        status = kvc_fail_errno(err, "cannot make the folder '%s'", path);
    free(path);
    return status;
}

static int remove_entry(const char *path, const struct stat *about, int kind, struct FTW *place)
{
    (void)about, (void)kind, (void)place;
    remove(path);
    return 0;
}

void kvc_l2_folder_remove(struct kvc_target *target)
{
    enum { DESCRIPTORS = 16 };
    if (target->l2_folder[0] == '\0')
        return;
    target->l2_folder[strlen(target->l2_folder) - strlen(STORE)] = '\0';
    nftw(target->l2_folder, remove_entry, DESCRIPTORS, FTW_DEPTH | FTW_PHYS);
    target->l2_folder[0] = '\0';
}

/* ---- a small one ---- */

static bool write_text(const char *path, const char *text)
{
    const int file = open(path, O_WRONLY | O_CLOEXEC);
    if (file < 0)
        return false;
    const bool written = write(file, text, strlen(text)) == (ssize_t)strlen(text);
    close(file);
    return written;
}

/* Mounts of our own: as root, or as the root of a world of our own in which we are who we were. */
static bool leave_mounts(void)
{
    char users[64], groups[64];
    snprintf(users, sizeof(users), "%u %u 1", getuid(), getuid());
    snprintf(groups, sizeof(groups), "%u %u 1", getgid(), getgid());
    if (unshare(CLONE_NEWNS) == 0)
        return true;
    return unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 &&
           write_text("/proc/self/setgroups", "deny") && write_text("/proc/self/uid_map", users) &&
           write_text("/proc/self/gid_map", groups);
}

kvc_status kvc_l2_folder_confine(const char *folder, int64_t bytes, struct kvc_error *err)
{
    char size[48];
    snprintf(size, sizeof(size), "size=%lld", (long long)bytes);
    if (leave_mounts() && mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
        mount("none", folder, "tmpfs", 0, size) == 0)
        return KVC_OK;
    return kvc_fail(err, KVC_EUNSUPPORTED, "no small file system can be mounted here: %s",
                    strerror(errno));
}

static kvc_status try_confine(const void *arg, void *result, struct kvc_error *err)
{
    (void)arg, (void)result;
    return kvc_l2_folder_confine("/tmp", 1 << 20, err);
}

kvc_status kvc_l2_folder_try_confine(struct kvc_error *err)
{
    char nothing;
    return kvc_aside_run(try_confine, NULL, &nothing, sizeof(nothing), TRY_MS, err);
}
