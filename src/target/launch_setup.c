#include "src/target/launch_setup.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct kvc_setup_part_name kvc_setup_parts[KVC_SETUP_PART_COUNT] = {
    [KVC_SETUP_POOL] = {"pool", {"{pool_bytes}", "{pool_gb}"}},
    [KVC_SETUP_NO_POOL] = {"no-pool", {NULL}},
    [KVC_SETUP_LEASE] = {"lease", {"{lease_seconds}"}},
    [KVC_SETUP_REAP] = {"reap", {"{reap_seconds}"}},
};

/* What a set-up asks of each part: the values in the order of the table; none where it asks for nothing. */
struct wish {
    bool is_there;
    char values[2][32];
};

static void read_wishes(const struct kvc_target_setup *setup,
                        struct wish wishes[KVC_SETUP_PART_COUNT])
{
    const int64_t lease_ms =
        setup->read_ttl_ms > setup->write_ttl_ms ? setup->read_ttl_ms : setup->write_ttl_ms;
    struct wish *pool = &wishes[KVC_SETUP_POOL], *lease = &wishes[KVC_SETUP_LEASE],
                *reap = &wishes[KVC_SETUP_REAP];
    pool->is_there = setup->pool_bytes != 0;
    snprintf(pool->values[0], sizeof(pool->values[0]), "%" PRId64, setup->pool_bytes);
    snprintf(pool->values[1], sizeof(pool->values[1]), "%.12g",
             (double)setup->pool_bytes / (1 << 30));
    wishes[KVC_SETUP_NO_POOL].is_there = setup->no_pool;
    lease->is_there = lease_ms != 0;
    snprintf(lease->values[0], sizeof(lease->values[0]), "%" PRId64, lease_ms / 1000);
    reap->is_there = setup->reap_ms != 0;
    snprintf(reap->values[0], sizeof(reap->values[0]), "%" PRId64, setup->reap_ms / 1000);
}

bool kvc_launch_takes(const struct kvc_target *target, const struct kvc_target_setup *setup)
{
    struct wish wishes[KVC_SETUP_PART_COUNT] = {{.is_there = false}};
    bool asks_for_something = false;
    if (setup->l2 && strstr(target->options.launch, KVC_LAUNCH_L2_DIR) == NULL)
        return false;
    read_wishes(setup, wishes);
    for (size_t part = 0; part < KVC_SETUP_PART_COUNT; part++) {
        if (wishes[part].is_there && target->options.setup_arguments[part] == NULL)
            return false;
        asks_for_something = asks_for_something || wishes[part].is_there;
    }
    return asks_for_something;
}

char *kvc_launch_fill_in(const char *text, const char *name, const char *value)
{
    struct kvc_buffer out = {0};
    const char *found;
    while ((found = strstr(text, name)) != NULL) {
        kvc_buffer_append(&out, text, (size_t)(found - text));
        kvc_buffer_append_text(&out, value);
        text = found + strlen(name);
    }
    kvc_buffer_append_text(&out, text);
    return kvc_buffer_take_text(&out);
}

static void append_filled(const char *arguments, const struct kvc_setup_part_name *part,
                          const struct wish *wish, struct kvc_buffer *command)
{
    char *filled = kvc_strdup(arguments);
    for (size_t i = 0; i < KVC_COUNT_OF(part->values) && part->values[i] != NULL; i++) {
        char *more = kvc_launch_fill_in(filled, part->values[i], wish->values[i]);
        free(filled);
        filled = more;
    }
    kvc_buffer_printf(command, " %s", filled);
    free(filled);
}

void kvc_launch_append_setup(const struct kvc_target_options *options,
                             const struct kvc_target_setup *setup, struct kvc_buffer *command)
{
    struct wish wishes[KVC_SETUP_PART_COUNT] = {{.is_there = false}};
    if (setup == NULL)
        return;
    read_wishes(setup, wishes);
    for (size_t part = 0; part < KVC_SETUP_PART_COUNT; part++) {
        if (wishes[part].is_there)
            append_filled(options->setup_arguments[part], &kvc_setup_parts[part], &wishes[part],
                          command);
    }
}
