/* Registrations by hand, for the checks of registration. For tests/conformance only. */
#ifndef KVC_TESTS_CONFORMANCE_REGISTRATION_FIXTURE_H
#define KVC_TESTS_CONFORMANCE_REGISTRATION_FIXTURE_H

#include "tests/conformance/fixture.h"

/* A cache that a server can map; closed when the check ends. */
struct kvc_paged *kvc_shared_cache(struct kvc_ctx *ctx, const struct kvc_geometry *geometry);
/* The request that a worker with these options sends. paged is its shared cache for the
 * lmcache-driven path, else NULL. Whether it is sent or not, the instance is unregistered when the
 * check ends. */
struct kvc_request kvc_registration(struct kvc_ctx *ctx, const struct kvc_worker_options *options,
                                    const struct kvc_paged *paged);
/* The same with a cache made for it where the path needs one. */
struct kvc_request kvc_fresh_registration(struct kvc_ctx *ctx,
                                          const struct kvc_worker_options *options);
/* The request that a worker with this mode sends when it leaves. */
struct kvc_request kvc_unregistration(enum kvc_transfer_mode mode, int64_t instance_id);
/* The handles of a request, to be changed; they are the check's own. */
struct kvc_tensor_handle *kvc_own_handles(struct kvc_ctx *ctx, struct kvc_request *registration);

#endif
