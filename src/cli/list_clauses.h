/* `kvconform list --clauses`. For list.c. */
#ifndef KVC_CLI_LIST_CLAUSES_H
#define KVC_CLI_LIST_CLAUSES_H

#include "src/cli/options.h"
#include "src/run/clause.h"

/* Prints every clause whose id a pattern matches (no pattern: all): its level, its dialects, where it
 * comes from, and the check that tests it, or the reason why none does. KVC_EUSAGE for a pattern that
 * matches none. */
kvc_status kvc_list_clauses(const struct kvc_registry *registry, const struct kvc_texts *select,
                            bool as_json, struct kvc_error *err);

#endif
