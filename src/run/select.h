/* Patterns over ids, and which instances a run takes. For run, list, and expectation files. */
#ifndef KVC_RUN_SELECT_H
#define KVC_RUN_SELECT_H

#include "src/run/registry.h"

/* `*` is any text within a component, `?` one character, `**` any number of components. A pattern
 * that ends at a component's end also matches everything below: "framing", "data/round-trip",
 * "**" "/f16". */
bool kvc_pattern_matches(const char *pattern, const char *id);

/* A list of patterns; each remembers the argument it came from. */
struct kvc_pattern {
    char *text;
    char *where; /* "--select", or "FILE:LINE" */
};

struct kvc_patterns {
    struct kvc_pattern *items;
    size_t count;
    bool given; /* also when all that was given is a file without a pattern */
};

/* Adds one pattern, or those in a file for "@FILE" (one a line, # comments). flag names the option
 * in errors. KVC_EUSAGE when the file cannot be read or the pattern is empty. */
kvc_status kvc_patterns_add(struct kvc_patterns *patterns, const char *flag, const char *text,
                            struct kvc_error *err);
void kvc_patterns_clear(struct kvc_patterns *patterns);

struct kvc_selection_options {
    struct kvc_patterns select; /* none: everything */
    struct kvc_patterns skip;
    enum kvc_level level; /* the last level that is taken */
};

struct kvc_selection {
    const struct kvc_instance **items; /* sorted by id; point into the registry */
    size_t count;
};

/* KVC_EUSAGE when a pattern matches nothing (the message has the nearest ids) or when nothing is
 * left. */
kvc_status kvc_select(const struct kvc_registry *registry,
                      const struct kvc_selection_options *options, struct kvc_selection *selection,
                      struct kvc_error *err);
void kvc_selection_clear(struct kvc_selection *selection);

/* Appends the ids of checks nearest to a pattern that matches none: "; nearest: a/b, c/d". */
void kvc_select_nearest(const struct kvc_registry *registry, const char *pattern,
                        struct kvc_buffer *out);

#endif
