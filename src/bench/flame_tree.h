/* Stacks that a profiler saw, merged into a tree, and the tree drawn as a flame graph. For profile.c. */
#ifndef KVC_BENCH_FLAME_TREE_H
#define KVC_BENCH_FLAME_TREE_H

#include "src/base/bytes.h"

/* A function as called by its parent. */
struct kvc_flame_node {
    struct kvc_str name;
    uint64_t weight; /* samples, or microseconds, in it and in what it called */
    struct kvc_flame_node *first_child, *next; /* children by name */
};

/* Zero-initialise; free with kvc_flame_tree_clear. The root has no name. */
struct kvc_flame_tree {
    struct kvc_flame_node root;
    struct kvc_arena arena;
};

/* Adds one stack, the outermost function first. */
void kvc_flame_tree_add(struct kvc_flame_tree *tree, const struct kvc_str *frames, size_t count,
                        uint64_t weight);
/* Adds what `perf script -F comm,ip,sym` prints: for each sample its command, then its frames,
 * innermost first, each on an indented line; a blank line ends it. */
void kvc_flame_tree_add_perf(struct kvc_flame_tree *tree, struct kvc_str text);
/* Adds "outermost;…;innermost WEIGHT" lines, as offcputime prints them. */
void kvc_flame_tree_add_folded(struct kvc_flame_tree *tree, struct kvc_str text);
/* Appends an SVG; title is its heading, unit what weights count. */
void kvc_flame_tree_draw(const struct kvc_flame_tree *tree, const char *title, const char *unit,
                         struct kvc_buffer *out);
void kvc_flame_tree_clear(struct kvc_flame_tree *tree);

#endif
