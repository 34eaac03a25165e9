/* What engine and LMCache server say about themselves: model, and how much KV cache a token takes. For the
 * bench. */
#ifndef KVC_ENGINE_DISCOVER_H
#define KVC_ENGINE_DISCOVER_H

#include "src/base/bytes.h"

/* The first model that GET BASE_URL/models lists; the caller frees *model. KVC_ECONNECT, KVC_ETIMEOUT,
 * KVC_ELOST: not reached; KVC_EREFUSED: it answers something else than 200; KVC_EFORMAT: no list of models. */
kvc_status kvc_engine_find_model(const char *base_url, const char *api_key, int64_t timeout_ms,
                                 char **model, struct kvc_error *err);

/* Tokens that fit into 1 GiB of KV cache, from GET LMCACHE_URL/status: 1 GiB over cache_size_per_token times
 * world_size of the instance that serves the model. Errors as above; KVC_EREFUSED also when the server knows
 * no such model. */
kvc_status kvc_engine_find_tokens_per_gb(const char *lmcache_url, const char *model,
                                         int64_t timeout_ms, int64_t *tokens,
                                         struct kvc_error *err);

#endif
