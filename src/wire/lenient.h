/* How a server reads a whole payload that should be an int or a bool: anything that can be turned
 * into one (protocol.md 1.3). Inside src/wire only. */
#ifndef KVC_WIRE_LENIENT_H
#define KVC_WIRE_LENIENT_H

#include "src/wire/pack.h"

/* int, float (truncated), bool, or a decimal number as str or bin. KVC_EFORMAT otherwise. */
kvc_status kvc_lenient_int(const msgpack_object *object, int64_t *value, struct kvc_error *err);
/* False for nil, false, zero and everything that is empty. */
bool kvc_lenient_bool(const msgpack_object *object);

#endif
