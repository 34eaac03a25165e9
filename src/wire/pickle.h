/* The part of Python's pickle format that tensors and tensor handles use: an interpreter that
 * builds a tree and calls nothing, and an emitter that writes what CPython writes (protocol 4,
 * framed, memoised). Inside src/wire only. */
#ifndef KVC_WIRE_PICKLE_H
#define KVC_WIRE_PICKLE_H

#include "src/wire/types.h"

enum kvc_pickle_kind {
    KVC_PICKLE_NONE,
    KVC_PICKLE_BOOL,
    KVC_PICKLE_INT,
    KVC_PICKLE_STR,
    KVC_PICKLE_BYTES,
    KVC_PICKLE_GLOBAL, /* a name in a module */
    KVC_PICKLE_TUPLE,
    KVC_PICKLE_LIST,
    KVC_PICKLE_DICT,       /* items: key, value, key, value, … */
    KVC_PICKLE_CALL,       /* items[0] called with the tuple items[1]; NEWOBJ is one, too */
    KVC_PICKLE_PERSISTENT, /* items[0]: what the file calls the object outside it */
};

/* A node of the tree. Views point into the pickle, nodes live in the arena. A node may be reached
 * on several ways, and a list may hold itself: walk to a fixed depth only. */
struct kvc_pickle {
    enum kvc_pickle_kind kind;
    union {
        bool boolean;
        int64_t integer;
        struct kvc_str text;    /* STR */
        struct kvc_bytes bytes; /* BYTES */
        struct {
            struct kvc_str module;
            struct kvc_str name;
        } global;
        struct {
            struct kvc_pickle **items;
            size_t count;
            size_t capacity;
            struct kvc_pickle *state; /* CALL: what BUILD gave the object, or NULL */
        } list;
    };
};

/* Reads one pickle from the start of bytes; *used (may be NULL) is where it ends. KVC_EFORMAT for
 * an opcode that is none of the few, a stack that runs empty, a memo entry that is not there, a
 * length beyond the end. Time and memory are proportional to the bytes read. */
kvc_status kvc_pickle_read(struct kvc_bytes bytes, struct kvc_arena *arena,
                           struct kvc_pickle **root, size_t *used, struct kvc_error *err);

bool kvc_pickle_is_global(const struct kvc_pickle *node, const char *module, const char *name);
/* The arguments when node is a call of that global, else NULL. */
const struct kvc_pickle *kvc_pickle_call_args(const struct kvc_pickle *node, const char *module,
                                              const char *name);
/* The value of a str key in a dict, or NULL. */
const struct kvc_pickle *kvc_pickle_dict_get(const struct kvc_pickle *dict, const char *key);
/* The ints of a tuple or list, in the arena. False when node is none, or holds something else. */
bool kvc_pickle_read_ints(const struct kvc_pickle *node, struct kvc_arena *arena,
                          struct kvc_ints *ints);

/* Writes one pickle. A value is written by one call; what it consists of comes before, as the
 * opcodes of a stack machine. Zero-initialise, then begin; end writes the last frame's length. */
struct kvc_pickle_writer {
    struct kvc_buffer *out;
    size_t frame_start; /* of the frame that is open */
    bool frame_open;
    uint32_t memo_count;
    struct kvc_pickle_known_global {
        struct kvc_str module;
        struct kvc_str name;
        uint32_t number;
    } globals[8]; /* those written so far: the next time they come from the memo */
    size_t global_count;
};

void kvc_pickle_begin(struct kvc_pickle_writer *writer, struct kvc_buffer *out);
void kvc_pickle_end(struct kvc_pickle_writer *writer);
/* Before each value: a frame that is large enough ends here. The values below do it themselves;
 * needed where a value begins with an opcode (a MARK, an empty list). */
void kvc_pickle_begin_value(struct kvc_pickle_writer *writer);
void kvc_pickle_opcode(struct kvc_pickle_writer *writer, uint8_t opcode);
/* Remembers the value on top of the stack; returns its number for kvc_pickle_get. */
uint32_t kvc_pickle_memoize(struct kvc_pickle_writer *writer);
void kvc_pickle_get(struct kvc_pickle_writer *writer, uint32_t number);
void kvc_pickle_int(struct kvc_pickle_writer *writer, int64_t value);
/* The same opcode without a writer, for pickles without frames. */
void kvc_pickle_append_int(struct kvc_buffer *out, int64_t value);
void kvc_pickle_str(struct kvc_pickle_writer *writer, struct kvc_str text);
/* Bytes that are made up of parts; memoised, and its number returned. */
uint32_t kvc_pickle_bytes(struct kvc_pickle_writer *writer, const struct kvc_bytes *parts,
                          size_t count);
/* A global, memoised; from the memo when it was written before. Module and name must live as long
 * as the writer. */
void kvc_pickle_global(struct kvc_pickle_writer *writer, struct kvc_str module,
                       struct kvc_str name);
void kvc_pickle_int_tuple(struct kvc_pickle_writer *writer, struct kvc_ints items);
/* Makes a tuple of the count values on top of the stack; with more than 3 a MARK precedes them. */
void kvc_pickle_tuple(struct kvc_pickle_writer *writer, size_t count);

enum {
    KVC_PICKLE_OP_MARK = '(',
    KVC_PICKLE_OP_STOP = '.',
    KVC_PICKLE_OP_NONE = 'N',
    KVC_PICKLE_OP_TRUE = 0x88,
    KVC_PICKLE_OP_FALSE = 0x89,
    KVC_PICKLE_OP_EMPTY_TUPLE = ')',
    KVC_PICKLE_OP_EMPTY_LIST = ']',
    KVC_PICKLE_OP_EMPTY_DICT = '}',
    KVC_PICKLE_OP_TUPLE = 't',
    KVC_PICKLE_OP_TUPLE1 = 0x85,
    KVC_PICKLE_OP_TUPLE2 = 0x86,
    KVC_PICKLE_OP_TUPLE3 = 0x87,
    KVC_PICKLE_OP_APPEND = 'a',
    KVC_PICKLE_OP_APPENDS = 'e',
    KVC_PICKLE_OP_SETITEM = 's',
    KVC_PICKLE_OP_SETITEMS = 'u',
    KVC_PICKLE_OP_REDUCE = 'R',
    KVC_PICKLE_OP_BUILD = 'b',
    KVC_PICKLE_OP_NEWOBJ = 0x81,
    KVC_PICKLE_OP_GLOBAL = 'c',
    KVC_PICKLE_OP_STACK_GLOBAL = 0x93,
    KVC_PICKLE_OP_MEMOIZE = 0x94,
    KVC_PICKLE_OP_FRAME = 0x95,
    KVC_PICKLE_OP_PROTO = 0x80,
    KVC_PICKLE_OP_BININT = 'J',
    KVC_PICKLE_OP_BININT1 = 'K',
    KVC_PICKLE_OP_BININT2 = 'M',
    KVC_PICKLE_OP_LONG1 = 0x8a,
    KVC_PICKLE_OP_SHORT_BINUNICODE = 0x8c,
    KVC_PICKLE_OP_BINUNICODE = 'X',
    KVC_PICKLE_OP_BINUNICODE8 = 0x8d,
    KVC_PICKLE_OP_SHORT_BINBYTES = 'C',
    KVC_PICKLE_OP_BINBYTES = 'B',
    KVC_PICKLE_OP_BINBYTES8 = 0x8e,
    KVC_PICKLE_OP_BINPUT = 'q',
    KVC_PICKLE_OP_LONG_BINPUT = 'r',
    KVC_PICKLE_OP_BINGET = 'h',
    KVC_PICKLE_OP_LONG_BINGET = 'j',
    KVC_PICKLE_OP_BINPERSID = 'Q',
};

#endif
