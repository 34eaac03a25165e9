/* What a check is, how it is declared, and what it may ask of the run. For the authors of checks
 * (tests/conformance), and for the runner. docs/writing-a-check.md shows one from start to end. */
#ifndef KVC_RUN_CHECK_H
#define KVC_RUN_CHECK_H

#include "src/driver/worker.h"
#include "src/target/target.h"

struct kvc_ctx;

enum kvc_level {
    KVC_LEVEL_MUST, /* without it a correct worker reads wrong bytes, loses data, or cannot work */
    KVC_LEVEL_SHOULD,   /* what a good server does */
    KVC_LEVEL_OBSERVED, /* what releases do where either way would be right */
};

/* What a check needs of the server or the machine; a check whose needs are not met is skipped, with
 * the reason. Paths (see .paths) are needed in themselves. */
enum kvc_need {
    KVC_NEED_HTTP = 1u << 0,      /* an HTTP address, and a server that answers on it */
    KVC_NEED_POOL = 1u << 1,      /* the server offers a shared-memory pool */
    KVC_NEED_NO_POOL = 1u << 2,   /* it offers none */
    KVC_NEED_STATUS = 1u << 3,    /* GET /status with the counters of the L1 manager */
    KVC_NEED_P2P = 1u << 4,       /* the P2P operations answer: an oracle for locks and offsets */
    KVC_NEED_CHECKSUMS = 1u << 5, /* POST /cache/checksums */
    KVC_NEED_RESTART = 1u << 6,   /* a server that we can start again */
    KVC_NEED_ENGINE_DRIVEN = 1u << 7, /* either engine-driven path */
    KVC_NEED_LMCACHE_DRIVEN = 1u << 8,
    /* A GPU, where the check's workers have their caches; and for the lmcache-driven path a server that maps
     * its memory. Checks without this need have them on the CPU. */
    KVC_NEED_CUDA = 1u << 9,
    /* Files below the server's memory, in a folder that we can look into and that nobody else uses. */
    KVC_NEED_L2 = 1u << 10,
};

enum kvc_check_flag {
    /* May end the server, empty its cache, or hold its memory: not on a server of somebody else
     * without --destructive. */
    KVC_FLAG_DESTRUCTIVE = 1u << 0,
    /* Looks at counters or memory of the whole server: no other check runs at the same time. */
    KVC_FLAG_EXCLUSIVE = 1u << 1,
    /* Mostly waits for the server's clock: with -j 2 and more it runs beside the others, and takes no
     * place of theirs. */
    KVC_FLAG_WAITS = 1u << 2,
};

#define KVC_PATHS_ENGINE_DRIVEN (1u << KVC_PATH_ENGINE_DRIVEN | 1u << KVC_PATH_ENGINE_DRIVEN_INLINE)
#define KVC_PATHS_ALL           (KVC_PATHS_ENGINE_DRIVEN | 1u << KVC_PATH_LMCACHE_DRIVEN)
#define KVC_LAYOUT_BIT(x)       (1u << (x))

/* One check. An axis (paths, layouts, dtypes, variants) that is set makes one instance for each of
 * its values; their names follow the id: family/name/<layout>/<dtype>/<path>/<variant>. */
struct kvc_check {
    const char *id;       /* family/check-name, kebab-case */
    const char *clause;   /* one sentence: what a server does */
    const char *source;   /* where the rule comes from: "protocol 4.10, B32" */
    const char *exchange; /* the operations in order, for `explain` */
    enum kvc_level level;
    const char *first; /* first dialect that has the clause, by any release; NULL: the oldest */
    const char *last;  /* last one; NULL: the newest */
    uint32_t features; /* enum kvc_feature that the dialect must have */
    uint32_t needs;    /* enum kvc_need */
    uint32_t flags;    /* enum kvc_check_flag */
    uint32_t paths;    /* bits 1 << enum kvc_path; 0: no such axis */
    uint32_t layouts;  /* bits KVC_LAYOUT_BIT(enum kvc_layout); 0: no such axis */
    const char *const *dtypes;   /* torch names, NULL-terminated; NULL: no such axis */
    const char *const *variants; /* kebab-case names, NULL-terminated; NULL: no such axis */
    const struct kvc_target_setup
        *setup;        /* another server set-up than the default; NULL: default */
    const char *after; /* id of a check without which this one says nothing; NULL: none */
    int64_t limit_ms;  /* 0: the default limit of a check */
    void (*run)(struct kvc_ctx *ctx);
};

/* Declares a check where it is written:
 *   KVC_CHECK(echoes_uid, .id = "framing/echo-uid", .clause = "…", .run = echoes_uid);       */
#define KVC_CHECK(name, ...)                                                                       \
    static const struct kvc_check kvc_check_##name = {__VA_ARGS__};                                \
    static const struct kvc_check *const kvc_check_pointer_##name                                  \
        __attribute__((section("kvc_checks"), used)) = &kvc_check_##name

/* What is known of the server before any check runs. */
struct kvc_facts {
    const struct kvc_dialect *dialect;
    const char *rpc_url;
    const char *http_url; /* NULL: none */
    const char *version;  /* as HTTP says; "" if unknown */
    int64_t chunk_size;   /* tokens */
    int64_t block_size;   /* tokens a block that checks use: chunk_size has at least 4 blocks */
    uint32_t paths;       /* bits of the paths that work */
    bool offers_pool;
    bool has_status;
    bool has_p2p;
    bool has_checksums;
    bool has_cuda;         /* there is a GPU, and checks are to use it */
    bool maps_cuda;        /* the server maps its memory */
    int64_t timeout_ms;    /* for each call that must be answered */
    int64_t silence_ms;    /* how long to wait before silence counts as silence */
    bool stand_in;         /* the server is the bundled mock */
    const char *l2_folder; /* where its files are; NULL: it has none */
};

/* ---- asking ---- */

const struct kvc_facts *kvc_ctx_facts(const struct kvc_ctx *ctx);
/* How the check's server was set up: its leases and limits as they really are. */
const struct kvc_target_setup *kvc_ctx_setup(const struct kvc_ctx *ctx);
/* The check that is running: which axes and needs it declares. For what checks share. */
const struct kvc_check *kvc_ctx_check(const struct kvc_ctx *ctx);
bool kvc_ctx_has(const struct kvc_ctx *ctx, enum kvc_feature feature);
/* The values of this instance's axes. Asking for an axis that the check does not have is our error. */
enum kvc_path kvc_ctx_path(const struct kvc_ctx *ctx);
enum kvc_layout kvc_ctx_layout(const struct kvc_ctx *ctx);
const struct kvc_dtype *kvc_ctx_dtype(const struct kvc_ctx *ctx);
bool kvc_ctx_variant_is(const struct kvc_ctx *ctx, const char *variant);

/* Drawn from the run's seed and the instance's id: the same on every run with that seed, and unlike
 * what any other check uses. */
struct kvc_random *kvc_ctx_random(struct kvc_ctx *ctx);
uint64_t kvc_ctx_seed(const struct kvc_ctx *ctx);

/* Memory that lives as long as the check. */
struct kvc_arena *kvc_ctx_arena(struct kvc_ctx *ctx);

/* A connection of this check, made on first use; and a further one. Both are closed for it, and
 * trace into its report. */
const struct kvc_rpc *kvc_ctx_rpc(struct kvc_ctx *ctx);
const struct kvc_rpc *kvc_ctx_rpc_new(struct kvc_ctx *ctx);

/* For checks that need KVC_NEED_RESTART, which run alone. Ends the server in that way; returns when its
 * process has ended, and what it leaves behind is still there. Connections to it are lost. */
void kvc_ctx_end_server(struct kvc_ctx *ctx, enum kvc_ending ending);
/* Starts it again, set up as before, perhaps at another address: facts and kvc_ctx_rpc are then the new
 * server's. The runner does the same after a check that leaves its server ended. */
void kvc_ctx_start_server(struct kvc_ctx *ctx);
/* The same, with nothing below it and room for so many bytes there; the runner starts it as before when the
 * check has ended. Where that cannot be done the check is skipped. */
void kvc_ctx_start_server_cramped(struct kvc_ctx *ctx, int64_t l2_bytes);

/* Runs func(arg) when the check ends, however it ends (the last deferred first); not after a crash. */
void kvc_ctx_defer(struct kvc_ctx *ctx, void (*func)(void *arg), void *arg);

/* ---- saying ---- the first of these that is called ends the check. */

_Noreturn void kvc_ctx_fail(struct kvc_ctx *ctx, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* With expected and actual side by side. */
_Noreturn void kvc_ctx_fail_values(struct kvc_ctx *ctx, const char *what, const char *expected,
                                   const char *got);
/* From an error; what says what was being done. */
_Noreturn void kvc_ctx_fail_error(struct kvc_ctx *ctx, const char *what,
                                  const struct kvc_error *err);
_Noreturn void kvc_ctx_skip(struct kvc_ctx *ctx, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Something of ours (a segment that cannot be created, …) is in the way: outcome "error". */
_Noreturn void kvc_ctx_error(struct kvc_ctx *ctx, const char *what, const struct kvc_error *err);
/* Adds text that a failure will show below everything else: bytes, a table. */
void kvc_ctx_note(struct kvc_ctx *ctx, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#define KVC_EXPECT(ctx, condition, ...)                                                            \
    do {                                                                                           \
        if (!(condition))                                                                          \
            kvc_ctx_fail(ctx, __VA_ARGS__);                                                        \
    } while (0)

/* Fails unless got == expected; what names the value: "chunks found by LOOKUP". */
void kvc_expect_int(struct kvc_ctx *ctx, const char *what, int64_t got, int64_t expected);
void kvc_expect_true(struct kvc_ctx *ctx, const char *what, bool got);
void kvc_expect_false(struct kvc_ctx *ctx, const char *what, bool got);
void kvc_expect_str(struct kvc_ctx *ctx, const char *what, struct kvc_str got,
                    const char *expected);
void kvc_expect_bytes(struct kvc_ctx *ctx, const char *what, struct kvc_bytes got,
                      struct kvc_bytes expected);
/* Fails with the error unless status is KVC_OK: `kvc_expect_ok(ctx, "STORE", status, &err)`. A
 * KVC_ENOMEM, KVC_ESYSTEM or KVC_EUSAGE is ours: outcome "error". */
void kvc_expect_ok(struct kvc_ctx *ctx, const char *what, kvc_status status,
                   const struct kvc_error *err);

#endif
