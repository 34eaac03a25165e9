/* What the interpreter of pickles works with: its stack and its memo, and the arguments in the bytes. For
 * pickle_read.c, which has the opcodes. */
#ifndef KVC_WIRE_UNPICKLER_H
#define KVC_WIRE_UNPICKLER_H

#include "src/wire/pickle.h"

/* A growing list of nodes. */
struct kvc_unpickler_nodes {
    struct kvc_pickle **items;
    size_t count;
    size_t capacity;
};

struct kvc_unpickler {
    struct kvc_bytes bytes;
    size_t position;
    struct kvc_arena *arena;
    struct kvc_unpickler_nodes stack; /* a NULL is a MARK */
    struct kvc_unpickler_nodes memo;
    bool stopped;
    struct kvc_error *err;
};

/* KVC_EFORMAT, with what is wrong and the position in the pickle. */
kvc_status kvc_unpickler_fail(struct kvc_unpickler *unpickler, const char *what);

void kvc_unpickler_push(struct kvc_unpickler_nodes *nodes, struct kvc_pickle *node);
struct kvc_pickle *kvc_unpickler_push_new(struct kvc_unpickler *unpickler,
                                          enum kvc_pickle_kind kind);
/* Fails unless there are count nodes on top, none of them a MARK. */
kvc_status kvc_unpickler_need(struct kvc_unpickler *unpickler, size_t count);
/* There must be one. */
struct kvc_pickle *kvc_unpickler_top(struct kvc_unpickler *unpickler);
/* How many nodes lie above the last MARK; fails when there is none. */
kvc_status kvc_unpickler_count_to_mark(struct kvc_unpickler *unpickler, size_t *count);
/* Moves the top count nodes to the end of a container's list. */
void kvc_unpickler_move_items(struct kvc_unpickler *unpickler, struct kvc_pickle *container,
                              size_t count);

/* The next bytes, as such, as a little-endian number of up to 8 bytes, or up to the end of a line. All fail
 * where the pickle ends before. */
kvc_status kvc_unpickler_take(struct kvc_unpickler *unpickler, uint64_t size,
                              struct kvc_bytes *taken);
kvc_status kvc_unpickler_take_number(struct kvc_unpickler *unpickler, size_t size, uint64_t *value);
kvc_status kvc_unpickler_take_line(struct kvc_unpickler *unpickler, struct kvc_str *line);

#endif
