/* Whether a client of one dialect can work with a server of another, from the tables alone: ids,
 * payloads, the form of tensor handles. For `identify` and `run`. */
#ifndef KVC_WIRE_COMPATIBLE_H
#define KVC_WIRE_COMPATIBLE_H

#include "src/wire/dialect.h"

/* The first operation that keeps a client from working with a server, and why. */
struct kvc_incompatibility {
    enum kvc_op op;
    char *reason; /* for a person; free() it */
};

/* Walks the operations that every worker sends, in their order. True: none differs, and *first is left alone.
 * The other way round the answer may be another one: a server knows fewer fields without harm,
 * and a client does not (protocol.md 10). */
bool kvc_dialect_serves(const struct kvc_dialect *server, const struct kvc_dialect *client,
                        struct kvc_incompatibility *first);

#endif
