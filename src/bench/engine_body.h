/* The body of a request for a streamed chat completion. For `bench engine`. */
#ifndef KVC_BENCH_ENGINE_BODY_H
#define KVC_BENCH_ENGINE_BODY_H

#include <jansson.h>

#include "src/base/bytes.h"

/* Appends {"role": role, "content": text} to messages. Text that is no UTF-8 is left out. */
void kvc_bench_engine_message_add(json_t *messages, const char *role, struct kvc_str text);
/* Appends the body to out, and releases messages. */
void kvc_bench_engine_body_write(const char *model, json_t *messages, int64_t max_tokens,
                                 bool ignore_eos, struct kvc_buffer *out);

#endif
