/* The server under test: attached, launched, or the bundled mock; one table of functions.
 * For run and bench. */
#ifndef KVC_TARGET_TARGET_H
#define KVC_TARGET_TARGET_H

#include "src/target/identify.h"

/* How a server should be set up. Checks that need another set-up than the default name it. The mock
 * can give every one of them, a launched server those that `arguments` are given for. Zero members: the
 * default. */
struct kvc_target_setup {
    const char *name; /* for messages: "short-lease", "no-pool", "tiny-pool" */
    bool no_pool;     /* inline transfer only */
    int64_t read_ttl_ms;
    int64_t write_ttl_ms;
    int64_t pool_bytes;
    int64_t reap_ms; /* a silent instance that has pinged is dropped after this */
    bool l2;         /* files below its memory, in the target's l2_folder */
};

/* In what a launched server can be set up otherwise: a name, and the values of which its arguments have one. */
enum kvc_setup_part {
    KVC_SETUP_POOL,    /* {pool_bytes}, {pool_gb}: 2^30 bytes */
    KVC_SETUP_NO_POOL, /* no values */
    KVC_SETUP_LEASE,   /* {lease_seconds}: of reads and of writes */
    KVC_SETUP_REAP,    /* {reap_seconds} */
    KVC_SETUP_PART_COUNT,
};
struct kvc_setup_part_name {
    const char *name;      /* "pool" */
    const char *values[2]; /* "{pool_bytes}"; NULL: no more */
};
extern const struct kvc_setup_part_name kvc_setup_parts[KVC_SETUP_PART_COUNT];

struct kvc_target_options {
    const char *rpc_url;  /* attach: required; launch: needed if launch has no {rpc_port} */
    const char *http_url; /* NULL: none; launch: {http_port} in the command comes first */
    bool http_is_default; /* nobody gave http_url, and nobody may answer there */
    const char *launch;   /* the command, with {rpc_port}, {http_port} and {l2_dir} */
    const char *setup_arguments
        [KVC_SETUP_PART_COUNT]; /* launch: what is added to the command for each; NULL:
                                                          it cannot be asked for that */
    const char *launch_log; /* file for its output; NULL: a temporary one, shown when it fails */
    const char *const *defects;        /* mock: NULL-terminated; NULL: none */
    const struct kvc_dialect *dialect; /* what it speaks; NULL: found out (mock: the newest) */
    int64_t chunk_size;                /* mock: 0 is the default */
    int64_t pool_bytes;                /* mock: 0 is the default */
    int64_t connect_timeout_ms;
    int64_t start_timeout_ms; /* launch: until it answers */
    int64_t timeout_ms;       /* for each question asked of it */
};

struct kvc_target;

/* How a server's process is ended on purpose. */
enum kvc_ending {
    KVC_END_TERMINATE, /* SIGTERM */
    KVC_END_INTERRUPT, /* SIGINT */
    KVC_END_KILL,      /* SIGKILL */
};

struct kvc_target_ops {
    const char *name; /* "mock", "launch", "attach" */
    bool can_restart;
    bool is_private; /* nobody else uses it: destructive checks may run */
    /* Whether it can be started with that set-up; NULL: with none. */
    bool (*takes)(const struct kvc_target *target, const struct kvc_target_setup *setup);
    int64_t time_unit_ms; /* with takes: what times of a set-up are multiples of */
    kvc_status (*start)(struct kvc_target *target, const struct kvc_target_setup *setup,
                        struct kvc_error *err);
    void (*stop)(struct kvc_target *target);
    void (*end)(struct kvc_target *target, enum kvc_ending ending); /* with can_restart */
};

struct kvc_target {
    const struct kvc_target_ops *ops;
    struct kvc_target_options options;
    char rpc_url[256];
    char http_url[256];           /* "": none */
    struct kvc_identity identity; /* once started */
    int process;                  /* pid of what we started; 0: nothing */
    char l2_folder[256];          /* of the files below the server; "": none */
    int64_t
        l2_bytes; /* the next start gives it that much room below, and none of what was there; 0: all */
    void *state;
};

/* The function that is the mock server (kvc_mock_run): given here by the program, since this part
 * must not depend on the mock. Without it there is no mock target. */
struct kvc_mock_options;
typedef kvc_status kvc_target_mock_func(const struct kvc_mock_options *options,
                                        struct kvc_error *err);
void kvc_target_set_mock(kvc_target_mock_func *run);

/* Chooses attach, launch or mock from the options. Nothing is started. KVC_EUSAGE when they
 * contradict each other. */
kvc_status kvc_target_init(const struct kvc_target_options *options, struct kvc_target *target,
                           struct kvc_error *err);
/* Whether the target can be started with that set-up, which *setup becomes as it would really be: servers
 * that are launched are told times in whole seconds. */
bool kvc_target_takes(const struct kvc_target *target, struct kvc_target_setup *setup);
/* Starts (or just connects to) the server, waits until it answers, and fills target->identity.
 * setup, one that the target takes, may be NULL.
 * KVC_ECONNECT (cannot be reached), KVC_ELOST (ended while starting; the log's last lines in what),
 * KVC_ETIMEOUT, KVC_EUNSUPPORTED (this target cannot give that setup). */
kvc_status kvc_target_start(struct kvc_target *target, const struct kvc_target_setup *setup,
                            struct kvc_error *err);
/* Ends what we started: asks, waits, kills; its segments are gone afterwards. Safe twice. */
void kvc_target_stop(struct kvc_target *target);
/* The same, and the files below it go, which outlive a stop. */
void kvc_target_clear(struct kvc_target *target);
/* Ends the server's process in that way and waits until it has ended, killing it if it takes too long.
 * What it leaves behind stays until kvc_target_stop, which is still to be called. Only where the
 * target can_restart. */
void kvc_target_end(struct kvc_target *target, enum kvc_ending ending);
/* One question from a fresh connection: does it answer NOOP within timeout_ms? */
bool kvc_target_answers(const struct kvc_target *target, const struct kvc_dialect *dialect,
                        int64_t timeout_ms);

#endif
