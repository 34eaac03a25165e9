/* Which way the bytes travel, and why: the rules of LMCache's client (docs/coverage.md lists the
 * cases they come from). For drivers, run and bench. */
#ifndef KVC_DRIVER_MODE_H
#define KVC_DRIVER_MODE_H

#include "src/device/device.h"

enum kvc_transfer_mode {
    KVC_MODE_AUTO,
    KVC_MODE_ENGINE_DRIVEN,
    KVC_MODE_LMCACHE_DRIVEN,
};

/* The path that a mode ends in. */
enum kvc_path {
    KVC_PATH_ENGINE_DRIVEN,        /* the worker copies into the server's shared-memory pool */
    KVC_PATH_ENGINE_DRIVEN_INLINE, /* the bytes travel inside the message */
    KVC_PATH_LMCACHE_DRIVEN,       /* the server maps the worker's memory and copies itself */
    KVC_PATH_COUNT,
};

#define KVC_MODE_ENVIRONMENT "LMCACHE_MP_TRANSFER_MODE"

/* "auto", "engine_driven", "lmcache_driven". KVC_EUSAGE names the accepted ones. */
kvc_status kvc_mode_parse(struct kvc_str text, enum kvc_transfer_mode *mode, struct kvc_error *err);
const char *kvc_mode_name(enum kvc_transfer_mode mode);
/* "engine_driven", "engine_driven_inline", "lmcache_driven". */
const char *kvc_path_name(enum kvc_path path);

struct kvc_mode_choice {
    enum kvc_transfer_mode mode; /* never KVC_MODE_AUTO */
    char reason[160];            /* "auto: device cpu copies for itself" */
};

/* Resolves a mode: flag if not NULL, else the environment variable if set and not empty, else auto.
 * auto is lmcache_driven for a GPU and engine_driven for cpu. KVC_EUSAGE for an invalid mode (says
 * whether flag or variable), or lmcache_driven on a device that cannot share a handle. */
kvc_status kvc_mode_choose(const char *flag, const char *environment,
                           const struct kvc_device *device, struct kvc_mode_choice *choice,
                           struct kvc_error *err);

/* What engine-driven ends in, from the registration's reply: inline when shm_name is empty or
 * pool_size <= 0, or when forced. reason says which. Opening the pool is the driver's business. */
enum kvc_path kvc_path_from_pool(struct kvc_str shm_name, int64_t pool_size, bool force_inline,
                                 char *reason, size_t reason_size);

#endif
