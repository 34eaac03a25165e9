#include "src/target/launch_setup.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* What of a set-up is asked for by the same arguments. */
struct part {
    bool is_wanted;
    const char *arguments;
    struct {
        const char *name; /* "{pool_gb}" */
        char text[32];
    } values[2]; /* name NULL: no value */
};

enum { PART_COUNT = 4 };

static void split(const struct kvc_setup_arguments *arguments, const struct kvc_target_setup *setup,
                  struct part parts[PART_COUNT])
{
    const int64_t lease_ms =
        setup->read_ttl_ms > setup->write_ttl_ms ? setup->read_ttl_ms : setup->write_ttl_ms;
    const struct part split[PART_COUNT] = {
        {setup->pool_bytes != 0, arguments->pool, {{"{pool_bytes}", ""}, {"{pool_gb}", ""}}},
        {setup->no_pool, arguments->no_pool, {{NULL, ""}}},
        {lease_ms != 0, arguments->lease, {{"{lease_seconds}", ""}}},
        {setup->reap_ms != 0, arguments->reap, {{"{reap_seconds}", ""}}},
    };
    memcpy(parts, split, sizeof(split));
    snprintf(parts[0].values[0].text, sizeof(parts[0].values[0].text), "%" PRId64,
             setup->pool_bytes);
    snprintf(parts[0].values[1].text, sizeof(parts[0].values[1].text), "%.12g",
             (double)setup->pool_bytes / (1 << 30));
    snprintf(parts[2].values[0].text, sizeof(parts[2].values[0].text), "%" PRId64, lease_ms / 1000);
    snprintf(parts[3].values[0].text, sizeof(parts[3].values[0].text), "%" PRId64,
             setup->reap_ms / 1000);
}

bool kvc_launch_takes(const struct kvc_target *target, const struct kvc_target_setup *setup)
{
    struct part parts[PART_COUNT];
    bool asks_for_something = false;
    if (setup->l2 && strstr(target->options.launch, KVC_LAUNCH_L2_DIR) == NULL)
        return false;
    split(&target->options.arguments, setup, parts);
    for (size_t i = 0; i < PART_COUNT; i++) {
        if (parts[i].is_wanted && parts[i].arguments == NULL)
            return false;
        asks_for_something = asks_for_something || parts[i].is_wanted;
    }
    return asks_for_something;
}

/* Appends the text with every value's name replaced by the value. */
static void append_filled(const struct part *part, struct kvc_buffer *command)
{
    for (const char *at = part->arguments; *at != '\0';) {
        size_t taken = 0;
        for (size_t i = 0; i < KVC_COUNT_OF(part->values) && taken == 0; i++) {
            const char *name = part->values[i].name;
            if (name == NULL || strncmp(at, name, strlen(name)) != 0)
                continue;
            kvc_buffer_append_text(command, part->values[i].text);
            taken = strlen(name);
        }
        if (taken == 0)
            kvc_buffer_append_byte(command, (uint8_t)*at);
        at += taken > 0 ? taken : 1;
    }
}

void kvc_launch_append_setup(const struct kvc_setup_arguments *arguments,
                             const struct kvc_target_setup *setup, struct kvc_buffer *command)
{
    struct part parts[PART_COUNT];
    if (setup == NULL)
        return;
    split(arguments, setup, parts);
    for (size_t i = 0; i < PART_COUNT; i++) {
        if (!parts[i].is_wanted)
            continue;
        kvc_buffer_append_byte(command, ' ');
        append_filled(&parts[i], command);
    }
}
