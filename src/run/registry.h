/* All checks that are linked into the program, expanded into instances. For run, list, explain. */
#ifndef KVC_RUN_REGISTRY_H
#define KVC_RUN_REGISTRY_H

#include "src/run/outcome.h"

/* Both lists are sorted by id. */
struct kvc_registry {
    const struct kvc_check **checks;
    size_t check_count;
    struct kvc_instance *instances;
    size_t instance_count;
};

/* Collects every check declared with KVC_CHECK. KVC_EFORMAT when a declaration is wrong: an id twice
 * or badly formed, no clause, an unknown dialect or dtype, an `after` that names no check or leads
 * back to the check itself. Free with kvc_registry_clear whatever is returned. */
kvc_status kvc_registry_load(struct kvc_registry *registry, struct kvc_error *err);
/* The same for a given list (NULL entries are passed over). */
kvc_status kvc_registry_build(const struct kvc_check *const *checks, size_t count,
                              struct kvc_registry *registry, struct kvc_error *err);
void kvc_registry_clear(struct kvc_registry *registry);
/* What a declaration must be by itself: its id, clause, dialects and axes. KVC_EFORMAT. */
kvc_status kvc_check_declaration(const struct kvc_check *check, struct kvc_error *err);

/* NULL when there is none. */
const struct kvc_check *kvc_registry_find(const struct kvc_registry *registry, const char *id);
/* The part of an id before the first slash. */
struct kvc_str kvc_check_family(const struct kvc_check *check);

/* "must", "should", "observed". */
const char *kvc_level_name(enum kvc_level level);

/* A name and what it stands for. */
struct kvc_flag_name {
    uint32_t bit;
    const char *name;    /* kebab-case: "status" */
    const char *meaning; /* "GET /status with the counters of the L1 manager" */
};

/* The needs of checks (enum kvc_need) and their names, for `explain`, --require and skip reasons. */
extern const struct kvc_flag_name kvc_need_names[];
extern const size_t kvc_need_name_count;

/* In which dialects the clause holds, by range and features: by releases:
 * "all", "0.5.3 and later", "up to 0.5.5", "0.5.6 only", "none". */
void kvc_check_dialects_append(const struct kvc_check *check, struct kvc_buffer *out);
/* Whether the dialect lies between the check's first and last. */
bool kvc_check_in_range(const struct kvc_check *check, const struct kvc_dialect *dialect);

#endif
