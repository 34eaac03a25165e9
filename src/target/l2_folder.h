/* The folder for files below a server (its "L2"): of our own making, in a folder that holds nothing else,
 * so that what leads out of it is seen. For the targets, and for checks that need a full one. */
#ifndef KVC_TARGET_L2_FOLDER_H
#define KVC_TARGET_L2_FOLDER_H

#include "src/target/target.h"

/* Makes it unless there is one, and sets target->l2_folder. KVC_ESYSTEM. */
kvc_status kvc_l2_folder_make(struct kvc_target *target, struct kvc_error *err);
/* Removes it with all that lies in it. Safe twice. */
void kvc_l2_folder_remove(struct kvc_target *target);

/* For a process just forked: what it and its children see at `folder` from now on is an empty file system
 * of so many bytes in memory, which is gone with them. KVC_EUNSUPPORTED where a process may not have
 * mounts of its own. */
kvc_status kvc_l2_folder_confine(const char *folder, int64_t bytes, struct kvc_error *err);
/* Whether it would work; tried in a process of its own. */
kvc_status kvc_l2_folder_try_confine(struct kvc_error *err);

#endif
