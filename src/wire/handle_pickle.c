#include <string.h>

#include "src/wire/handle_forms.h"
#include "src/wire/pickle.h"

enum attribute_kind {
    ATTRIBUTE_STR,
    ATTRIBUTE_INT,
    ATTRIBUTE_INTS, /* a tuple of ints */
    ATTRIBUTE_BYTES,
    ATTRIBUTE_DTYPE, /* a global of torch */
    ATTRIBUTE_NONE,
    ATTRIBUTE_ZERO, /* the number 0; written, and not looked at */
};

struct attribute {
    const char *name;
    enum attribute_kind kind;
    size_t offset; /* in struct kvc_tensor_handle */
};

#define ATTRIBUTE(name, kind, member)                                                              \
    {                                                                                              \
        name, ATTRIBUTE_##kind, offsetof(struct kvc_tensor_handle, member)                         \
    }

/* The states, in the order in which Python writes them. */
#define VIEW_ATTRIBUTES                                                                            \
    {"handle", ATTRIBUTE_NONE, 0}, ATTRIBUTE("dtype", DTYPE, dtype),                               \
        ATTRIBUTE("shape", INTS, shape), ATTRIBUTE("stride", INTS, stride),                        \
        ATTRIBUTE("storage_offset", INT, storage_offset)
#define UUID_ATTRIBUTE ATTRIBUTE("device_uuid", STR, device_uuid)

static const struct attribute cpu_attributes[] = {
    ATTRIBUTE("shm_name", STR, shm_name),
    ATTRIBUTE("nbytes", INT, nbytes),
    VIEW_ATTRIBUTES,
    UUID_ATTRIBUTE,
};
static const struct attribute cuda_attributes[] = {
    ATTRIBUTE("_ipc_handle_reserved", BYTES, ipc_handle),
    ATTRIBUTE("_nbytes", INT, nbytes),
    VIEW_ATTRIBUTES,
    UUID_ATTRIBUTE,
};
static const struct attribute cuda_offset_attributes[] = {
    ATTRIBUTE("_ipc_handle_reserved", BYTES, ipc_handle),
    ATTRIBUTE("_alloc_offset", INT, alloc_offset),
    ATTRIBUTE("_nbytes", INT, nbytes),
    VIEW_ATTRIBUTES,
    {"_opens", ATTRIBUTE_ZERO, 0},
    UUID_ATTRIBUTE,
};

struct form {
    const char *module;
    const char *class;
    const struct attribute *attributes;
    size_t count;
};

static struct form form_of(const struct kvc_dialect *dialect, enum kvc_handle_kind kind)
{
    static const char cuda_module[] = "lmcache.v1.platform.cuda.ipc_wrapper";
    static const char cuda_class[] = "RawCudaIPCWrapper";
    if (kind == KVC_HANDLE_CPU)
        return (struct form){"lmcache.v1.platform.cpu.shm", "CpuShmTensorWrapper", cpu_attributes,
                             KVC_COUNT_OF(cpu_attributes)};
    if (kvc_dialect_has(dialect, KVC_FEATURE_ALLOC_OFFSET))
        return (struct form){cuda_module, cuda_class, cuda_offset_attributes,
                             KVC_COUNT_OF(cuda_offset_attributes)};
    return (struct form){cuda_module, cuda_class, cuda_attributes, KVC_COUNT_OF(cuda_attributes)};
}

static void write_attribute(struct kvc_pickle_writer *writer, enum attribute_kind kind,
                            const void *value)
{
    switch (kind) {
    case ATTRIBUTE_STR:
        kvc_pickle_str(writer, *(const struct kvc_str *)value);
        break;
    case ATTRIBUTE_INT:
        kvc_pickle_int(writer, *(const int64_t *)value);
        break;
    case ATTRIBUTE_INTS:
        kvc_pickle_int_tuple(writer, *(const struct kvc_ints *)value);
        break;
    case ATTRIBUTE_DTYPE:
        kvc_pickle_global(writer, KVC_STR("torch"), *(const struct kvc_str *)value);
        break;
    case ATTRIBUTE_BYTES:
        kvc_pickle_bytes(writer, value, 1);
        break;
    case ATTRIBUTE_NONE:
        kvc_pickle_opcode(writer, KVC_PICKLE_OP_NONE);
        break;
    case ATTRIBUTE_ZERO:
        kvc_pickle_int(writer, 0);
        break;
    }
}

void kvc_handle_encode_pickle(const struct kvc_dialect *dialect,
                              const struct kvc_tensor_handle *handle, struct kvc_buffer *out)
{
    const struct form form = form_of(dialect, handle->kind);
    struct kvc_pickle_writer writer;
    kvc_pickle_begin(&writer, out);
    kvc_pickle_global(&writer, kvc_str_of(form.module), kvc_str_of(form.class));
    kvc_pickle_opcode(&writer, KVC_PICKLE_OP_EMPTY_TUPLE);
    kvc_pickle_opcode(&writer, KVC_PICKLE_OP_NEWOBJ);
    kvc_pickle_memoize(&writer);
    kvc_pickle_opcode(&writer, KVC_PICKLE_OP_EMPTY_DICT);
    kvc_pickle_memoize(&writer);
    kvc_pickle_opcode(&writer, KVC_PICKLE_OP_MARK);
    for (size_t i = 0; i < form.count; i++) {
        kvc_pickle_str(&writer, kvc_str_of(form.attributes[i].name));
        write_attribute(&writer, form.attributes[i].kind,
                        (const uint8_t *)handle + form.attributes[i].offset);
    }
    kvc_pickle_opcode(&writer, KVC_PICKLE_OP_SETITEMS);
    kvc_pickle_opcode(&writer, KVC_PICKLE_OP_BUILD);
    kvc_pickle_end(&writer);
}

static bool read_attribute(const struct kvc_pickle *node, enum attribute_kind kind,
                           struct kvc_arena *arena, void *value)
{
    switch (kind) {
    case ATTRIBUTE_STR:
        if (node->kind != KVC_PICKLE_STR)
            return false;
        memcpy(value, &node->text, sizeof(node->text));
        return true;
    case ATTRIBUTE_INT:
        if (node->kind != KVC_PICKLE_INT)
            return false;
        memcpy(value, &node->integer, sizeof(node->integer));
        return true;
    case ATTRIBUTE_INTS:
        return kvc_pickle_read_ints(node, arena, value);
    case ATTRIBUTE_DTYPE:
        if (node->kind != KVC_PICKLE_GLOBAL || !kvc_str_is(node->global.module, "torch"))
            return false;
        memcpy(value, &node->global.name, sizeof(node->global.name));
        return true;
    case ATTRIBUTE_BYTES:
        if (node->kind != KVC_PICKLE_BYTES)
            return false;
        memcpy(value, &node->bytes, sizeof(node->bytes));
        return true;
    case ATTRIBUTE_NONE:
        return node->kind == KVC_PICKLE_NONE;
    case ATTRIBUTE_ZERO:
        return node->kind == KVC_PICKLE_INT;
    }
    return false;
}

static kvc_status read_state(const struct form *form, const struct kvc_pickle *state,
                             struct kvc_arena *arena, struct kvc_tensor_handle *handle,
                             struct kvc_error *err)
{
    for (size_t i = 0; i < form->count; i++) {
        const struct attribute *attribute = &form->attributes[i];
        const struct kvc_pickle *node = kvc_pickle_dict_get(state, attribute->name);
        if (node == NULL ||
            !read_attribute(node, attribute->kind, arena, (uint8_t *)handle + attribute->offset)) {
            kvc_fail(err, KVC_EFORMAT, "%s attribute", node == NULL ? "missing" : "wrong type of");
            kvc_error_set_where(err, ".%s", attribute->name);
            return KVC_EFORMAT;
        }
    }
    return KVC_OK;
}

kvc_status kvc_handle_decode_pickle(const struct kvc_dialect *dialect, struct kvc_bytes body,
                                    struct kvc_arena *arena, struct kvc_tensor_handle *handle,
                                    struct kvc_error *err)
{
    static const enum kvc_handle_kind kinds[] = {KVC_HANDLE_CPU, KVC_HANDLE_CUDA};
    struct kvc_pickle *root;
    size_t used;
    KVC_GUARD(kvc_pickle_read(body, arena, &root, &used, err));
    if (used != body.size)
        return kvc_fail(err, KVC_EFORMAT, "%zu bytes after the handle's pickle", body.size - used);
    for (size_t i = 0; i < KVC_COUNT_OF(kinds); i++) {
        const struct form form = form_of(dialect, kinds[i]);
        if (kvc_pickle_call_args(root, form.module, form.class) == NULL ||
            root->list.state == NULL || root->list.state->kind != KVC_PICKLE_DICT)
            continue;
        handle->kind = kinds[i];
        return read_state(&form, root->list.state, arena, handle, err);
    }
    return kvc_fail(err, KVC_EFORMAT, "the pickle is no CpuShmTensorWrapper or RawCudaIPCWrapper");
}
