/* Finding out what a server can do before checks run on it. For the runner and `run`. */
#ifndef KVC_RUN_FACTS_H
#define KVC_RUN_FACTS_H

#include "src/run/check.h"

struct kvc_facts_options {
    int64_t timeout_ms;
    int64_t silence_ms;               /* 0: chosen by the kind of target */
    const struct kvc_dialect *client; /* a client's, which must be able to work with the server */
    const char *client_release;       /* as it was named; both NULL: none */
    bool cuda;                        /* there is a GPU that checks are to use */
};

/* Facts, and the texts that they point into. Plain data: it travels through a pipe. */
struct kvc_facts_record {
    struct kvc_facts facts; /* its pointers are set by kvc_facts_probe */
    char rpc_url[256];
    char http_url[256];
    char l2_folder[256];
    bool http_answers;
    char version[64];
    char path_reasons[KVC_PATH_COUNT][200]; /* how it works, or why it does not */
    char cuda_reason[200];                  /* why the server does not map a GPU's memory */
};

/* Asks the started target (from a process of its own): which paths work, by registering an instance
 * of a model nobody uses on each and unregistering it; whether it offers a pool; whether HTTP,
 * /status, checksums and the P2P operations answer. What does not answer is a fact, not an error.
 * KVC_EMISMATCH, before any of that, when the client cannot work with the server; KVC_EFORMAT for a
 * chunk size that cannot be; else errors are those of kvc_aside_run. *record must stay where it is: facts points into it. */
kvc_status kvc_facts_probe(const struct kvc_target *target, const struct kvc_facts_options *options,
                           struct kvc_facts_record *record, struct kvc_error *err);

/* Points the facts at the target's present addresses and folder: after it was started again. */
void kvc_facts_readdress(const struct kvc_target *target, struct kvc_facts_record *record);

/* Tokens a block: at most 16, and at least 4 blocks a chunk where the chunk has so many tokens. */
int64_t kvc_facts_block_size(int64_t chunk_size);

#endif
