/* What the structs of types.h look like on the wire, as tables, and the one encoder and the one
 * decoder that walk them. Inside src/wire only. */
#ifndef KVC_WIRE_SCHEMA_H
#define KVC_WIRE_SCHEMA_H

#include "src/wire/dialect.h"
#include "src/wire/pack.h"
#include "src/wire/types.h"

enum kvc_kind {
    KVC_KIND_INT,          /* int64_t */
    KVC_KIND_OPTIONAL_INT, /* struct kvc_optional_int; nil when not present */
    KVC_KIND_BOOL,         /* bool */
    KVC_KIND_FLOAT,        /* double */
    KVC_KIND_STR,          /* struct kvc_str */
    KVC_KIND_BIN,          /* struct kvc_bytes */
    KVC_KIND_OPTIONAL_BIN, /* struct kvc_bytes; nil when its data is NULL */
    KVC_KIND_PACKED_MAP,   /* struct kvc_bytes: a map kept as msgpack; nil when empty */
    KVC_KIND_LIST,         /* {const T *items; size_t count}: an array of `element` */
    KVC_KIND_MAP,          /* a C struct: a map from names to `fields` */
    KVC_KIND_TUPLE,        /* a C struct: an array of `fields` in their order */
    KVC_KIND_ZERO_MAP,     /* an `element`: the map {0: element} */
    KVC_KIND_HANDLE,       /* struct kvc_tensor_handle: an ext */
};

/* How a field may be missing. */
enum kvc_presence {
    KVC_REQUIRED = 0,
    KVC_DEFAULTED, /* written always; may be left out by others: then it is default_int or zero */
    KVC_OMITTED,   /* left out when empty or not present, both ways */
};

struct kvc_type;

/* A field of a map or tuple. */
struct kvc_field {
    const char *name;
    const struct kvc_type *type;
    size_t offset; /* in the C struct */
    enum kvc_presence presence;
    int64_t default_int;
    uint32_t features; /* the dialect must have all of them; 0: every dialect has the field */
    size_t flag;       /* KVC_OMITTED: offset of the bool that says "present"; KVC_NO_FLAG: none */
};

#define KVC_NO_FLAG ((size_t)-1)

struct kvc_type {
    enum kvc_kind kind;
    size_t size;                    /* sizeof of the C value */
    const struct kvc_type *element; /* KVC_KIND_LIST, KVC_KIND_ZERO_MAP */
    const struct kvc_field *fields; /* KVC_KIND_MAP, KVC_KIND_TUPLE */
    size_t field_count;
    /* KVC_KIND_MAP: offset of a struct kvc_packed_pairs that keeps unknown pairs; 0: drop them. */
    size_t others;
    bool closed; /* KVC_KIND_MAP: an unknown key is an error */
    /* What a server refuses though the type is right; NULL: nothing. For requests only. */
    kvc_status (*check)(const struct kvc_dialect *dialect, const void *value,
                        struct kvc_error *err);
};

extern const struct kvc_type kvc_type_int;
extern const struct kvc_type kvc_type_optional_int;
extern const struct kvc_type kvc_type_bool;
extern const struct kvc_type kvc_type_float;
extern const struct kvc_type kvc_type_str;
extern const struct kvc_type kvc_type_bin;
extern const struct kvc_type kvc_type_optional_bin;
extern const struct kvc_type kvc_type_ints;
extern const struct kvc_type kvc_type_int_lists;
extern const struct kvc_type kvc_type_strs;

/* The shape of every list in types.h. Copied in and out with memcpy, which keeps clear of
 * aliasing. */
struct kvc_list {
    const void *items;
    size_t count;
};

bool kvc_field_exists(const struct kvc_field *field, const struct kvc_dialect *dialect);

/* What a decoder needs on its way. */
struct kvc_decoding {
    const struct kvc_dialect *dialect;
    struct kvc_arena *arena;
    bool is_request; /* `check` applies */
};

/* Appends the value. KVC_EUNSUPPORTED for a byte string of 4 GiB and more. */
kvc_status kvc_schema_encode(const struct kvc_dialect *dialect, const struct kvc_type *type,
                             const void *value, struct kvc_buffer *out, struct kvc_error *err);

/* Reads the object into *value (type->size bytes, zeroed). Views point into the message that the
 * object was read from, and into the arena. KVC_EFORMAT with the path below the value in where. */
kvc_status kvc_schema_decode(const struct kvc_decoding *decoding, const struct kvc_type *type,
                             const msgpack_object *object, void *value, struct kvc_error *err);

/* "expected …; got …" for an object of the wrong type. */
kvc_status kvc_schema_wrong_type(const msgpack_object *object, const char *expected,
                                 struct kvc_error *err);

#endif
