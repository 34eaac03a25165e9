/* Clauses that no check tests, each with the reason. */
#include "src/run/clause.h"

const struct kvc_untested kvc_untested_clauses[] = {
    {.id = "stream/credit",
     .clause = "A further batch of KV events is sent for each credit, and none without one.",
     .source = "protocol 1.7",
     .level = KVC_LEVEL_MUST,
     .first = "0.5.6",
     .reason = "the event stream is not in this version of the suite"},
    {.id = NULL},
};
