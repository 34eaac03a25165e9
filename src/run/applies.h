/* Whether an instance can run on a server, and if not, why: the reasons of skips. For the runner. */
#ifndef KVC_RUN_APPLIES_H
#define KVC_RUN_APPLIES_H

#include "src/run/facts.h"
#include "src/run/registry.h"

struct kvc_applies_options {
    bool destructive;         /* allowed on a server of somebody else */
    uint32_t paths;           /* those that --transfer leaves */
    const char *paths_reason; /* why it leaves only those */
    bool without_cpu;         /* only checks on a GPU are wanted */
    const char *cuda_skip;    /* why checks on a GPU cannot run; NULL: they can */
};

/* The needs (enum kvc_need) that the server meets. */
uint32_t kvc_needs_met(const struct kvc_target *target, const struct kvc_facts *facts);

/* False, with the reason appended, when the instance cannot run on the target whose facts these
 * are. */
bool kvc_applies(const struct kvc_instance *instance, const struct kvc_target *target,
                 const struct kvc_facts_record *record, const struct kvc_applies_options *options,
                 struct kvc_buffer *reason);
/* The same for what does not depend on how the server is set up: decided before one is started. */
bool kvc_applies_to_dialect(const struct kvc_instance *instance, const struct kvc_dialect *dialect,
                            struct kvc_buffer *reason);

#endif
