#include "src/run/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- servers ---- */

/* The name of a set-up for checks that may do harm. */
#define FOR_HARM "for-harm"

static bool setups_equal(const struct kvc_target_setup *a, const struct kvc_target_setup *b)
{
    return a->no_pool == b->no_pool && a->read_ttl_ms == b->read_ttl_ms &&
           a->write_ttl_ms == b->write_ttl_ms && a->pool_bytes == b->pool_bytes &&
           a->reap_ms == b->reap_ms && a->l2 == b->l2;
}

static struct kvc_server *add_server(struct kvc_plan *plan, const struct kvc_run_options *options,
                                     const struct kvc_target_setup *setup, bool is_for_harm)
{
    for (size_t i = 1; i < plan->server_count; i++)
        if (setups_equal(&plan->servers[i].setup, setup) &&
            plan->servers[i].is_for_harm == is_for_harm)
            return &plan->servers[i];
    struct kvc_server *server = &plan->servers[plan->server_count++];
    server->target.ops = options->target->ops;
    server->target.options = options->target->options;
    server->has_setup = true;
    server->is_for_harm = is_for_harm;
    server->setup = *setup;
    snprintf(server->setup_name, sizeof(server->setup_name), "%s%s", setup->name,
             is_for_harm && strcmp(setup->name, FOR_HARM) != 0 ? "-" FOR_HARM : "");
    server->setup.name = server->setup_name;
    return server;
}

static bool may_do_harm(const struct kvc_instance *instance)
{
    return (instance->check->flags & KVC_FLAG_DESTRUCTIVE) != 0;
}

bool kvc_plan_takes_no_pool(const struct kvc_target *target)
{
    struct kvc_target_setup setup = {.name = "no-pool", .no_pool = true};
    return kvc_target_takes(target, &setup);
}

static bool takes_for_harm(const struct kvc_target *target)
{
    struct kvc_target_setup setup = {.name = FOR_HARM};
    return kvc_target_takes(target, &setup);
}

/* The set-up that an instance needs; false when the default server will do. */
static bool wanted_setup(const struct kvc_instance *instance, const struct kvc_facts *facts,
                         const struct kvc_target *target, struct kvc_target_setup *setup)
{
    const struct kvc_check *check = instance->check;
    const bool wants_no_pool =
        (check->needs & KVC_NEED_NO_POOL) != 0 || instance->path == KVC_PATH_ENGINE_DRIVEN_INLINE;
    const bool add_no_pool = wants_no_pool && facts->offers_pool && kvc_plan_takes_no_pool(target);
    *setup = check->setup != NULL
                 ? *check->setup
                 : (struct kvc_target_setup){.name = add_no_pool ? "no-pool" : FOR_HARM};
    setup->no_pool = setup->no_pool || add_no_pool;
    return check->setup != NULL || add_no_pool || (may_do_harm(instance) && takes_for_harm(target));
}

static const char *how_to_set_up(const struct kvc_target *target)
{
    return target->options.launch != NULL ? ": --setup says how" : ": --launch and --setup say how";
}

static bool asks_only_for_files(const struct kvc_target_setup *setup)
{
    return setups_equal(setup, &(struct kvc_target_setup){.l2 = true});
}

static void assign_server(struct kvc_plan *plan, const struct kvc_run_options *options,
                          struct kvc_entry *entry)
{
    const struct kvc_facts *facts = &plan->servers[0].facts.facts;
    struct kvc_buffer reason = {0};
    struct kvc_target_setup setup;
    if (!kvc_applies_to_dialect(entry->instance, facts->dialect, &reason)) {
        entry->skip = kvc_buffer_take_text(&reason);
    } else if (!wanted_setup(entry->instance, facts, options->target, &setup)) {
        entry->server = &plan->servers[0];
    } else if (!kvc_target_takes(options->target, &setup) && asks_only_for_files(&setup)) {
        entry->server = &plan->servers[0]; /* which has them, or the need is not met */
    } else if (!kvc_target_takes(options->target, &setup)) {
        entry->skip = kvc_format("needs a server set up as '%s'%s", setup.name,
                                 how_to_set_up(options->target));
    } else {
        entry->server = add_server(plan, options, &setup, may_do_harm(entry->instance));
    }
    if (entry->server != NULL)
        entry->server->left++;
    kvc_buffer_clear(&reason);
}

/* ---- order ---- */

/* On the default server ordinary checks side by side come first, then those that need quiet, those that
 * may do harm last. Before them comes who has another server: most of these run one after the other or wait
 * for leases to end, and others can run meanwhile. */
static int rank(const struct kvc_entry *entry)
{
    const bool has_setup = entry->server != NULL && entry->server->has_setup;
    if (kvc_entry_is_alone(entry) && has_setup)
        return 0;
    if (has_setup)
        return 1;
    const uint32_t flags = entry->instance->check->flags;
    return (flags & KVC_FLAG_DESTRUCTIVE) != 0 ? 4 : (flags & KVC_FLAG_EXCLUSIVE) != 0 ? 3 : 2;
}

static int compare_entries(const void *a, const void *b)
{
    const struct kvc_entry *left = a, *right = b;
    if (rank(left) != rank(right))
        return rank(left) - rank(right);
    return strcmp(left->instance->id, right->instance->id);
}

void kvc_plan_open(const struct kvc_run_options *options, struct kvc_plan *plan)
{
    *plan = (struct kvc_plan){.server_count = 1};
    /* One server for each instance is the most there can be. */
    plan->servers = kvc_alloc_zero(options->selection->count + 1, sizeof(plan->servers[0]));
    plan->servers[0].target = *options->target;
}

void kvc_plan_fill(const struct kvc_run_options *options, struct kvc_plan *plan)
{
    plan->entry_count = options->selection->count;
    plan->entries = kvc_alloc_zero(plan->entry_count, sizeof(plan->entries[0]));
    for (size_t i = 0; i < plan->entry_count; i++) {
        plan->entries[i].instance = options->selection->items[i];
        assign_server(plan, options, &plan->entries[i]);
    }
    qsort(plan->entries, plan->entry_count, sizeof(plan->entries[0]), compare_entries);
}

void kvc_plan_clear(struct kvc_plan *plan)
{
    for (size_t i = 0; i < plan->entry_count; i++)
        free(plan->entries[i].skip);
    for (size_t i = 0; i < plan->server_count; i++) {
        kvc_target_clear(&plan->servers[i].target);
        kvc_buffer_clear(&plan->servers[i].suspect_ids);
    }
    free(plan->entries);
    free(plan->servers);
    *plan = (struct kvc_plan){0};
}

bool kvc_entry_is_alone(const struct kvc_entry *entry)
{
    const uint32_t flags = KVC_FLAG_DESTRUCTIVE | KVC_FLAG_EXCLUSIVE;
    return entry->suspect || (entry->instance->check->flags & flags) != 0;
}

/* ---- dependencies ---- */

static bool same_path_exists(const struct kvc_plan *plan, const char *id, enum kvc_path path)
{
    for (size_t i = 0; i < plan->entry_count; i++)
        if (strcmp(plan->entries[i].instance->check->id, id) == 0 &&
            plan->entries[i].instance->path == path)
            return true;
    return false;
}

/* Whether what the entry depends on is done. A dependency with the same path counts alone; one that
 * was not selected does not count. *failed: the first that is bad. */
static bool dependencies_done(const struct kvc_plan *plan, const struct kvc_entry *entry,
                              const struct kvc_entry **failed)
{
    const char *after = entry->instance->check->after;
    *failed = NULL;
    if (after == NULL)
        return true;
    const bool by_path = same_path_exists(plan, after, entry->instance->path);
    for (size_t i = 0; i < plan->entry_count; i++) {
        const struct kvc_entry *other = &plan->entries[i];
        if (strcmp(other->instance->check->id, after) != 0 ||
            (by_path && other->instance->path != entry->instance->path))
            continue;
        if (other->state != KVC_ENTRY_DONE)
            return false;
        if (other->raw != KVC_OUTCOME_PASS && other->raw != KVC_OUTCOME_SKIP)
            *failed = other;
    }
    return true;
}

static bool server_is_free(const struct kvc_entry *entry)
{
    const struct kvc_server *server = entry->server;
    if (server == NULL || server->state == KVC_SERVER_LOST)
        return true; /* it will not be run, only settled */
    if (kvc_entry_is_alone(entry))
        return server->running == 0;
    return !server->alone_runs && server->suspects == 0;
}

/* Whether it counts among those that mostly wait: not if only one is to run at a time. */
static bool mostly_waits(const struct kvc_entry *entry, size_t jobs)
{
    return jobs > 1 && (entry->instance->check->flags & KVC_FLAG_WAITS) != 0;
}

struct kvc_entry *kvc_plan_next(struct kvc_plan *plan, size_t jobs, const struct kvc_entry **failed)
{
    size_t running[2] = {0}; /* those that work, those that mostly wait */
    for (size_t i = 0; i < plan->entry_count; i++)
        if (plan->entries[i].state == KVC_ENTRY_RUNNING)
            running[mostly_waits(&plan->entries[i], jobs)]++;
    if (running[false] >= jobs && (running[true] >= jobs || jobs == 1))
        return NULL;
    for (size_t i = 0; i < plan->entry_count; i++) {
        struct kvc_entry *entry = &plan->entries[i];
        if (entry->state == KVC_ENTRY_WAITING && running[mostly_waits(entry, jobs)] < jobs &&
            server_is_free(entry) && dependencies_done(plan, entry, failed))
            return entry;
    }
    return NULL;
}
