#include <string.h>

#include "src/wire/handle_forms.h"
#include "src/wire/pickle.h"

enum attribute_kind {
    ATTRIBUTE_STR,
    ATTRIBUTE_INT,
    ATTRIBUTE_BOOL,
    ATTRIBUTE_INTS, /* a tuple of ints */
    ATTRIBUTE_BYTES,
    ATTRIBUTE_OPTIONAL_BYTES, /* None when their data is NULL */
    ATTRIBUTE_BYTES_AGAIN,    /* the object of the last ATTRIBUTE_BYTES */
    ATTRIBUTE_DTYPE,          /* a global of torch */
    ATTRIBUTE_STORAGE,        /* torch's tuple */
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
#define NO_HANDLE                                                                                  \
    {                                                                                              \
        "handle", ATTRIBUTE_NONE, 0                                                                \
    }
#define VIEW_ATTRIBUTES                                                                            \
    ATTRIBUTE("dtype", DTYPE, dtype), ATTRIBUTE("shape", INTS, shape),                             \
        ATTRIBUTE("stride", INTS, stride), ATTRIBUTE("storage_offset", INT, storage_offset)
#define UUID_ATTRIBUTE ATTRIBUTE("device_uuid", STR, device_uuid)

static const struct attribute cpu_attributes[] = {
    ATTRIBUTE("shm_name", STR, shm_name),
    ATTRIBUTE("nbytes", INT, nbytes),
    NO_HANDLE,
    VIEW_ATTRIBUTES,
    UUID_ATTRIBUTE,
};
static const struct attribute raw_attributes[] = {
    ATTRIBUTE("_ipc_handle_reserved", BYTES, ipc_handle),
    ATTRIBUTE("_nbytes", INT, nbytes),
    NO_HANDLE,
    VIEW_ATTRIBUTES,
    UUID_ATTRIBUTE,
};
static const struct attribute raw_offset_attributes[] = {
    ATTRIBUTE("_ipc_handle_reserved", BYTES, ipc_handle),
    ATTRIBUTE("_alloc_offset", INT, alloc_offset),
    ATTRIBUTE("_nbytes", INT, nbytes),
    NO_HANDLE,
    VIEW_ATTRIBUTES,
    {"_opens", ATTRIBUTE_ZERO, 0},
    UUID_ATTRIBUTE,
};
static const struct attribute torch_attributes[] = {
    {"handle", ATTRIBUTE_STORAGE, 0},
    VIEW_ATTRIBUTES,
    UUID_ATTRIBUTE,
};
static const struct attribute vmm_attributes[] = {
    ATTRIBUTE("_export_id", BYTES, vmm.id),
    ATTRIBUTE("_kind", STR, vmm.kind),
    ATTRIBUTE("_fabric_blob", OPTIONAL_BYTES, vmm.fabric),
    {"_fd", ATTRIBUTE_NONE, 0},
    ATTRIBUTE("_alloc_size", INT, vmm.alloc_size),
    ATTRIBUTE("_alloc_offset", INT, alloc_offset),
    ATTRIBUTE("_nbytes", INT, nbytes),
    ATTRIBUTE("handle", BYTES_AGAIN, vmm.id),
    VIEW_ATTRIBUTES,
    UUID_ATTRIBUTE,
    {"_opens", ATTRIBUTE_ZERO, 0},
};

/* The tuple that torch shares a CUDA storage as. */
static const struct attribute storage_items[] = {
    ATTRIBUTE("[0]", INT, torch.device_index),
    ATTRIBUTE("[1]", OPTIONAL_BYTES, ipc_handle),
    ATTRIBUTE("[2]", INT, nbytes),
    ATTRIBUTE("[3]", INT, alloc_offset),
    ATTRIBUTE("[4]", OPTIONAL_BYTES, torch.ref_counter),
    ATTRIBUTE("[5]", INT, torch.ref_counter_offset),
    ATTRIBUTE("[6]", OPTIONAL_BYTES, torch.ready_event),
    ATTRIBUTE("[7]", BOOL, torch.has_event),
};

struct form {
    const char *module;
    const char *class;
    const struct attribute *attributes;
    size_t count;
};

#define FORM(module, class, attributes)                                                            \
    {                                                                                              \
        module, class, attributes, KVC_COUNT_OF(attributes)                                        \
    }
#define CUDA_MODULE "lmcache.v1.platform.cuda.ipc_wrapper"

/* Where the classes on a GPU were in 0.5.0. */
static const char old_cuda_module[] = "lmcache.v1.multiprocess.custom_types";

static const struct form forms[KVC_HANDLE_KIND_COUNT] = {
    [KVC_HANDLE_CPU] = FORM("lmcache.v1.platform.cpu.shm", "CpuShmTensorWrapper", cpu_attributes),
    [KVC_HANDLE_CUDA] = FORM(CUDA_MODULE, "RawCudaIPCWrapper", raw_attributes),
    [KVC_HANDLE_CUDA_TORCH] = FORM(CUDA_MODULE, "CudaIPCWrapper", torch_attributes),
    [KVC_HANDLE_CUDA_VMM] = FORM(CUDA_MODULE, "VmmCudaIPCWrapper", vmm_attributes),
};
static const struct form raw_offset_form =
    FORM(CUDA_MODULE, "RawCudaIPCWrapper", raw_offset_attributes);

static const struct form *form_of(const struct kvc_dialect *dialect, enum kvc_handle_kind kind)
{
    return kind == KVC_HANDLE_CUDA && kvc_dialect_has(dialect, KVC_FEATURE_ALLOC_OFFSET)
               ? &raw_offset_form
               : &forms[kind];
}

/* ---- writing ---- */

struct state_writer {
    struct kvc_pickle_writer pickle;
    uint32_t last_bytes; /* in the memo */
};

static void write_attribute(struct state_writer *state, enum attribute_kind kind,
                            const void *value);

static void write_storage(struct state_writer *state, const void *handle)
{
    kvc_pickle_begin_value(&state->pickle);
    kvc_pickle_opcode(&state->pickle, KVC_PICKLE_OP_MARK);
    for (size_t i = 0; i < KVC_COUNT_OF(storage_items); i++)
        write_attribute(state, storage_items[i].kind,
                        (const uint8_t *)handle + storage_items[i].offset);
    kvc_pickle_tuple(&state->pickle, KVC_COUNT_OF(storage_items));
}

static void write_optional_bytes(struct kvc_pickle_writer *writer, const struct kvc_bytes *bytes)
{
    if (bytes->data != NULL)
        kvc_pickle_bytes(writer, bytes, 1);
    else
        kvc_pickle_opcode(writer, KVC_PICKLE_OP_NONE);
}

static void write_attribute(struct state_writer *state, enum attribute_kind kind, const void *value)
{
    struct kvc_pickle_writer *writer = &state->pickle;
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
    case ATTRIBUTE_BOOL:
        kvc_pickle_opcode(writer, *(const bool *)value ? KVC_PICKLE_OP_TRUE : KVC_PICKLE_OP_FALSE);
        break;
    case ATTRIBUTE_BYTES:
        state->last_bytes = kvc_pickle_bytes(writer, value, 1);
        break;
    case ATTRIBUTE_OPTIONAL_BYTES:
        write_optional_bytes(writer, value);
        break;
    case ATTRIBUTE_BYTES_AGAIN:
        kvc_pickle_get(writer, state->last_bytes);
        break;
    case ATTRIBUTE_STORAGE:
        write_storage(state, value);
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
    const struct form *form = form_of(dialect, handle->kind);
    struct state_writer state = {.last_bytes = 0};
    struct kvc_pickle_writer *writer = &state.pickle;
    kvc_pickle_begin(writer, out);
    kvc_pickle_global(writer, kvc_str_of(form->module), kvc_str_of(form->class));
    kvc_pickle_opcode(writer, KVC_PICKLE_OP_EMPTY_TUPLE);
    kvc_pickle_opcode(writer, KVC_PICKLE_OP_NEWOBJ);
    kvc_pickle_memoize(writer);
    kvc_pickle_opcode(writer, KVC_PICKLE_OP_EMPTY_DICT);
    kvc_pickle_memoize(writer);
    kvc_pickle_opcode(writer, KVC_PICKLE_OP_MARK);
    for (size_t i = 0; i < form->count; i++) {
        kvc_pickle_str(writer, kvc_str_of(form->attributes[i].name));
        write_attribute(&state, form->attributes[i].kind,
                        (const uint8_t *)handle + form->attributes[i].offset);
    }
    kvc_pickle_opcode(writer, KVC_PICKLE_OP_SETITEMS);
    kvc_pickle_opcode(writer, KVC_PICKLE_OP_BUILD);
    kvc_pickle_end(writer);
}

/* ---- reading ---- */

static bool read_attribute(const struct kvc_pickle *node, enum attribute_kind kind,
                           struct kvc_arena *arena, void *value);

static bool read_storage(const struct kvc_pickle *node, struct kvc_arena *arena, void *handle)
{
    bool right = node->kind == KVC_PICKLE_TUPLE && node->list.count == KVC_COUNT_OF(storage_items);
    for (size_t i = 0; right && i < KVC_COUNT_OF(storage_items); i++)
        right = read_attribute(node->list.items[i], storage_items[i].kind, arena,
                               (uint8_t *)handle + storage_items[i].offset);
    return right;
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
    case ATTRIBUTE_BOOL:
        if (node->kind != KVC_PICKLE_BOOL)
            return false;
        memcpy(value, &node->boolean, sizeof(node->boolean));
        return true;
    case ATTRIBUTE_OPTIONAL_BYTES:
        if (node->kind == KVC_PICKLE_NONE)
            return true;
        return read_attribute(node, ATTRIBUTE_BYTES, arena, value);
    case ATTRIBUTE_BYTES:
    case ATTRIBUTE_BYTES_AGAIN:
        if (node->kind != KVC_PICKLE_BYTES)
            return false;
        memcpy(value, &node->bytes, sizeof(node->bytes));
        return true;
    case ATTRIBUTE_STORAGE:
        return read_storage(node, arena, value);
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

/* Whether the pickle is an object of the form's class, with a state. */
static bool is_of_form(const struct kvc_pickle *root, const struct form *form,
                       enum kvc_handle_kind kind)
{
    return (kvc_pickle_call_args(root, form->module, form->class) != NULL ||
            (kind != KVC_HANDLE_CPU &&
             kvc_pickle_call_args(root, old_cuda_module, form->class) != NULL)) &&
           root->list.state != NULL && root->list.state->kind == KVC_PICKLE_DICT;
}

kvc_status kvc_handle_decode_pickle(const struct kvc_dialect *dialect, struct kvc_bytes body,
                                    struct kvc_arena *arena, struct kvc_tensor_handle *handle,
                                    struct kvc_error *err)
{
    struct kvc_pickle *root;
    size_t used;
    KVC_GUARD(kvc_pickle_read(body, arena, &root, &used, err));
    if (used != body.size)
        return kvc_fail(err, KVC_EFORMAT, "%zu bytes after the handle's pickle", body.size - used);
    for (enum kvc_handle_kind kind = 0; kind < KVC_HANDLE_KIND_COUNT; kind++) {
        const struct form *form = form_of(dialect, kind);
        if (!is_of_form(root, form, kind))
            continue;
        handle->kind = kind;
        return read_state(form, root->list.state, arena, handle, err);
    }
    return kvc_fail(err, KVC_EFORMAT,
                    "the pickle is no CpuShmTensorWrapper, CudaIPCWrapper, RawCudaIPCWrapper or "
                    "VmmCudaIPCWrapper");
}
