/* Which check runs when, and on which server: the order and the rules, without the running. For the
 * runner. */
#ifndef KVC_RUN_PLAN_H
#define KVC_RUN_PLAN_H

#include "src/run/job.h"
#include "src/run/runner.h"

enum kvc_server_state {
    KVC_SERVER_DOWN, /* not needed yet, or no more */
    KVC_SERVER_UP,
    KVC_SERVER_LOST, /* gone, and cannot be started again */
};

/* One server that checks run on. The default server is the first; the others are the set-ups that
 * checks ask for, and those for checks that may do harm, which then disturb no other check. */
struct kvc_server {
    struct kvc_target target;
    struct kvc_target_setup setup;
    bool has_setup;
    bool is_for_harm;
    enum kvc_server_state state;
    struct kvc_facts_record facts;
    size_t running;  /* checks */
    size_t left;     /* checks that are not done */
    bool alone_runs; /* the one that runs must have the server for itself */
    bool was_ended;  /* by the check that runs, which may start it again */
    char setup_name[64];
    /* Checks that ran when the server died, and now each run alone to find out which it was. */
    size_t suspects;
    bool suspects_explained;
    struct kvc_buffer suspect_ids;
};

enum kvc_entry_state { KVC_ENTRY_WAITING, KVC_ENTRY_RUNNING, KVC_ENTRY_DONE };

/* One instance in a run. */
struct kvc_entry {
    const struct kvc_instance *instance;
    struct kvc_server *server; /* NULL: it cannot run, see skip */
    char *skip;                /* why it cannot run; NULL: not known yet, or it can */
    enum kvc_entry_state state;
    bool suspect;         /* see struct kvc_server */
    enum kvc_outcome raw; /* once done */
    struct kvc_job job;
};

struct kvc_plan {
    struct kvc_server *servers;
    size_t server_count;
    struct kvc_entry *entries; /* in the order in which they should start */
    size_t entry_count;
};

/* Makes the plan's default server, down. */
void kvc_plan_open(const struct kvc_run_options *options, struct kvc_plan *plan);
/* Lays out the selection, once the default server's facts are known: instances that need another
 * set-up get a server of their own where the target takes set-ups (the inline path on a server that
 * offers a pool is such a need, and so is leave to do harm), else a reason to be skipped. */
void kvc_plan_fill(const struct kvc_run_options *options, struct kvc_plan *plan);
void kvc_plan_clear(struct kvc_plan *plan);
/* Whether the inline path can be had on a second server of a target that offers a pool. */
bool kvc_plan_takes_no_pool(const struct kvc_target *target);

/* The next entry that may start now; NULL: none. At most `jobs` run at a time and, where that is more than
 * one, beside them as many that mostly wait. A dependency that failed is given in *failed: the entry is
 * then not to be run. */
struct kvc_entry *kvc_plan_next(struct kvc_plan *plan, size_t jobs,
                                const struct kvc_entry **failed);
/* The entry must have the server for itself. */
bool kvc_entry_is_alone(const struct kvc_entry *entry);

#endif
