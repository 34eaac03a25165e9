#include "src/wire/torch_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "src/wire/pickle.h"

/* The file is five pickles of protocol 2 (magic number, version, facts about the machine, the
 * storage, the list of keys), then for each key its element count and its bytes. */

static const uint8_t magic[] = {0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19};
enum { FILE_VERSION = 1001, COUNT_SIZE = 8 };

static const char untyped_module[] = "torch.storage";
static const char untyped_class[] = "UntypedStorage";

/* ---- dtypes by their other names ---- */

static const char *const dtype_names[] = {"float16", "bfloat16", "float32", "float64",  "uint8",
                                          "int8",    "int16",    "int32",   "int64",    "bool",
                                          "uint16",  "uint32",   "uint64",  "complex64"};

const struct kvc_dtype *kvc_torch_dtype_by_storage(struct kvc_str storage_class)
{
    for (size_t i = 0; i < KVC_COUNT_OF(dtype_names); i++) {
        const struct kvc_dtype *dtype = kvc_dtype_find(kvc_str_of(dtype_names[i]));
        if (dtype != NULL && dtype->torch_storage != NULL &&
            kvc_str_is(storage_class, dtype->torch_storage))
            return dtype;
    }
    return NULL;
}

const struct kvc_dtype *kvc_torch_dtype_by_numpy(struct kvc_str numpy)
{
    for (size_t i = 0; i < KVC_COUNT_OF(dtype_names); i++) {
        const struct kvc_dtype *dtype = kvc_dtype_find(kvc_str_of(dtype_names[i]));
        if (dtype != NULL && !dtype->numpy_view && kvc_str_is(numpy, dtype->numpy))
            return dtype;
    }
    return NULL;
}

/* ---- writing: the pickles of torch.save, opcode by opcode ---- */

static void put_number(struct kvc_buffer *out, uint64_t value, size_t size)
{
    for (size_t i = 0; i < size; i++)
        kvc_buffer_append_byte(out, (uint8_t)(value >> 8 * i));
}

static void put_text(struct kvc_buffer *out, struct kvc_str text)
{
    kvc_buffer_append_byte(out, KVC_PICKLE_OP_BINUNICODE);
    put_number(out, text.size, 4);
    kvc_buffer_append(out, text.data, text.size);
}

/* A text that is the number-th value to be remembered. */
static void put_remembered(struct kvc_buffer *out, struct kvc_str text, uint8_t number)
{
    put_text(out, text);
    kvc_buffer_append_byte(out, KVC_PICKLE_OP_BINPUT);
    kvc_buffer_append_byte(out, number);
}

/* Everything before the storage is the same in every file of a little-endian machine. */
static void put_preamble(struct kvc_buffer *out)
{
    static const char version[] = "\x80\x02M\xe9\x03.";
    static const char machine[] = "\x80\x02}q\0(X\x10\0\0\0protocol_versionq\x01M\xe9\x03"
                                  "X\x0d\0\0\0little_endianq\x02\x88"
                                  "X\x0a\0\0\0type_sizesq\x03}q\x04("
                                  "X\x05\0\0\0shortq\x05K\x02X\x03\0\0\0intq\x06K\x04"
                                  "X\x04\0\0\0longq\x07K\x04uu.";
    static const char magic_head[] = "\x80\x02\x8a\x0a";
    kvc_buffer_append(out, magic_head, sizeof(magic_head) - 1);
    kvc_buffer_append(out, magic, sizeof(magic));
    kvc_buffer_append_byte(out, KVC_PICKLE_OP_STOP);
    kvc_buffer_append(out, version, sizeof(version) - 1);
    kvc_buffer_append(out, machine, sizeof(machine) - 1);
}

static void put_storage(const struct kvc_torch_storage *storage, int64_t count,
                        struct kvc_buffer *out)
{
    kvc_buffer_append_text(out, "\x80\x02(");
    put_remembered(out, KVC_STR("storage"), 0);
    kvc_buffer_printf(out, "ctorch\n%s\nq\x01", storage->dtype->torch_storage);
    put_remembered(out, storage->key, 2);
    put_remembered(out, KVC_STR("cpu"), 3);
    kvc_pickle_append_int(out, count);
    kvc_buffer_append_text(out, "Ntq\x04Q.");
}

static void put_keys(struct kvc_str key, struct kvc_buffer *out)
{
    static const char head[] = "\x80\x02]q\0";
    kvc_buffer_append(out, head, sizeof(head) - 1);
    put_remembered(out, key, 1);
    kvc_buffer_append_text(out, "a.");
}

void kvc_torch_file_head(const struct kvc_torch_storage *storage, struct kvc_buffer *out)
{
    const size_t count = storage->data.size / storage->dtype->size;
    put_preamble(out);
    put_storage(storage, (int64_t)count, out);
    put_keys(storage->key, out);
    put_number(out, count, COUNT_SIZE);
}

/* ---- reading ---- */

struct reader {
    struct kvc_bytes file;
    size_t position;
    struct kvc_arena *arena;
    struct kvc_error *err;
};

static kvc_status read_pickle(struct reader *reader, struct kvc_pickle **root)
{
    const struct kvc_bytes rest = {reader->file.data + reader->position,
                                   reader->file.size - reader->position};
    size_t used;
    KVC_GUARD(kvc_pickle_read(rest, reader->arena, root, &used, reader->err));
    reader->position += used;
    return KVC_OK;
}

static kvc_status refuse(const struct reader *reader, const char *what)
{
    return kvc_fail(reader->err, KVC_EFORMAT, "the torch file does not read: %s", what);
}

static kvc_status read_preamble(struct reader *reader)
{
    struct kvc_pickle *node = NULL;
    KVC_GUARD(read_pickle(reader, &node));
    if (node->kind != KVC_PICKLE_BYTES ||
        !kvc_bytes_equal(node->bytes, (struct kvc_bytes){magic, sizeof(magic)}))
        return refuse(reader, "no magic number");
    KVC_GUARD(read_pickle(reader, &node));
    if (node->kind != KVC_PICKLE_INT || node->integer != FILE_VERSION)
        return refuse(reader, "a version other than 1001");
    KVC_GUARD(read_pickle(reader, &node));
    const struct kvc_pickle *little =
        node->kind == KVC_PICKLE_DICT ? kvc_pickle_dict_get(node, "little_endian") : NULL;
    if (little == NULL || little->kind != KVC_PICKLE_BOOL || !little->boolean)
        return refuse(reader, "not from a little-endian machine");
    return KVC_OK;
}

static bool read_class(const struct kvc_pickle *node, const struct kvc_dtype **dtype)
{
    *dtype = NULL;
    if (kvc_pickle_is_global(node, untyped_module, untyped_class))
        return true;
    if (node->kind == KVC_PICKLE_GLOBAL && kvc_str_is(node->global.module, "torch"))
        *dtype = kvc_torch_dtype_by_storage(node->global.name);
    return *dtype != NULL;
}

/* ("storage", class, key, "cpu", element count, None), as a persistent id. */
static kvc_status read_storage(struct reader *reader, struct kvc_torch_storage *storage,
                               int64_t *count)
{
    enum { KIND, CLASS, KEY, LOCATION, COUNT, VIEW, ENTRIES };
    struct kvc_pickle *root = NULL;
    KVC_GUARD(read_pickle(reader, &root));
    const struct kvc_pickle *tuple =
        root->kind == KVC_PICKLE_PERSISTENT ? root->list.items[0] : root;
    if (tuple->kind != KVC_PICKLE_TUPLE || tuple->list.count != ENTRIES)
        return refuse(reader, "no description of a storage");
    struct kvc_pickle *const *items = tuple->list.items;
    if (items[KIND]->kind != KVC_PICKLE_STR || !kvc_str_is(items[KIND]->text, "storage") ||
        items[KEY]->kind != KVC_PICKLE_STR || items[LOCATION]->kind != KVC_PICKLE_STR ||
        items[COUNT]->kind != KVC_PICKLE_INT || items[VIEW]->kind != KVC_PICKLE_NONE)
        return refuse(reader, "the description of the storage has another form");
    if (!read_class(items[CLASS], &storage->dtype))
        return refuse(reader, "a storage class that is not known");
    storage->key = items[KEY]->text;
    *count = items[COUNT]->integer;
    return KVC_OK;
}

static kvc_status read_keys(struct reader *reader, struct kvc_str key)
{
    struct kvc_pickle *node = NULL;
    KVC_GUARD(read_pickle(reader, &node));
    if (node->kind != KVC_PICKLE_LIST || node->list.count != 1 ||
        node->list.items[0]->kind != KVC_PICKLE_STR ||
        !kvc_str_equal(node->list.items[0]->text, key))
        return refuse(reader, "the list of keys is not the one storage");
    return KVC_OK;
}

static kvc_status read_data(struct reader *reader, int64_t count, struct kvc_torch_storage *storage)
{
    const size_t left = reader->file.size - reader->position;
    if (left < COUNT_SIZE)
        return refuse(reader, "cut short");
    uint64_t written = 0;
    for (size_t i = 0; i < COUNT_SIZE; i++)
        written |= (uint64_t)reader->file.data[reader->position + i] << 8 * i;
    const size_t size = left - COUNT_SIZE;
    const size_t item = storage->dtype != NULL ? storage->dtype->size : 1;
    if (count < 0 || (uint64_t)count != written || size % item != 0 || written != size / item)
        return refuse(reader, "the element count does not fit the bytes");
    storage->data = (struct kvc_bytes){reader->file.data + reader->position + COUNT_SIZE, size};
    return KVC_OK;
}

kvc_status kvc_torch_file_read(struct kvc_bytes file, struct kvc_arena *arena,
                               struct kvc_torch_storage *storage, struct kvc_error *err)
{
    struct reader reader = {.file = file, .arena = arena, .err = err};
    int64_t count = 0;
    KVC_GUARD(read_preamble(&reader));
    KVC_GUARD(read_storage(&reader, storage, &count));
    KVC_GUARD(read_keys(&reader, storage->key));
    return read_data(&reader, count, storage);
}
