/* A launched server that is set up otherwise: what is added to its command. For launch.c. */
#ifndef KVC_TARGET_LAUNCH_SETUP_H
#define KVC_TARGET_LAUNCH_SETUP_H

#include "src/target/target_impl.h"

/* What becomes a folder for files below the server's memory. */
#define KVC_LAUNCH_L2_DIR "{l2_dir}"

/* Whether there are arguments for all that the set-up asks for. Not for one that asks for nothing: a
 * second server like the first is not worth its memory. */
bool kvc_launch_takes(const struct kvc_target *target, const struct kvc_target_setup *setup);

/* Appends those arguments, with the set-up's values in them. setup may be NULL. */
void kvc_launch_append_setup(const struct kvc_target_options *options,
                             const struct kvc_target_setup *setup, struct kvc_buffer *command);

/* The text with every `name` replaced; the caller frees it. */
char *kvc_launch_fill_in(const char *text, const char *name, const char *value);

#endif
