/* Lies in the bytes that PREPARE_RETRIEVE carries where there is no pool: pickles of tensors. */
#include <string.h>

#include "src/wire/inline_data.h"
#include "tests/meta/hostile/peer.h"

enum { MIB = 1 << 20 };

static void set_data(struct kvc_reply *reply, const void *data, size_t size)
{
    uint8_t *copy = kvc_arena_alloc(&reply->arena, size);
    if (size > 0)
        memcpy(copy, data, size);
    reply->retrieve = (struct kvc_prepare_retrieve_result){.success = true, .data = {copy, size}};
}

#define DATA(function, bytes)                                                                      \
    static void function(struct peer *peer, struct kvc_reply *reply)                               \
    {                                                                                              \
        (void)peer;                                                                                \
        set_data(reply, bytes, sizeof(bytes) - 1);                                                 \
    }
DATA(no_bytes, "")
DATA(garbage, "\x80\x04garbage")
DATA(never_stops, "\x80\x04](")
DATA(an_int, "\x80\x04K\x01.")
DATA(runs_a_command, "cos\nsystem\n(X\x18\0\0\0touch kvconform-was-heretR.")
DATA(bytes_of_2_63, "\x80\x04]\x8e\xff\xff\xff\xff\xff\xff\xff\x7f"
                    "aa.")
DATA(text_of_4_gib, "\x80\x04]X\xff\xff\xff\xff"
                    "aa.")
DATA(list_in_itself, "\x80\x04]\x94h\0a.")
DATA(memo_beyond_end, "\x80\x04h\xff.")
DATA(memo_of_4_billion, "\x80\x04]r\xff\xff\xff\xff.")

/* The data as it is, with something cut off or changed. */
static void cut_in_half(struct peer *peer, struct kvc_reply *reply)
{
    (void)peer;
    reply->retrieve.data.size /= 2;
}

static void one_tensor_less(struct peer *peer, struct kvc_reply *reply)
{
    struct kvc_inline_tensor *tensors = NULL;
    size_t count = 0;
    struct kvc_buffer data = {0};
    (void)peer;
    if (kvc_inline_decode(reply->retrieve.data, &reply->arena, &tensors, &count, NULL) != KVC_OK ||
        count == 0)
        return;
    kvc_inline_encode_torch(tensors, count - 1, &data, NULL);
    set_data(reply, data.data, data.size);
    kvc_buffer_clear(&data);
}

/* Every tensor again, after a change of each. */
static void change_tensors(struct kvc_reply *reply, void (*change)(struct kvc_inline_tensor *))
{
    struct kvc_inline_tensor *tensors = NULL;
    size_t count = 0;
    struct kvc_buffer data = {0};
    if (kvc_inline_decode(reply->retrieve.data, &reply->arena, &tensors, &count, NULL) != KVC_OK)
        return;
    for (size_t i = 0; i < count; i++)
        change(&tensors[i]);
    kvc_inline_encode_torch(tensors, count, &data, NULL);
    set_data(reply, data.data, data.size);
    kvc_buffer_clear(&data);
}

static void flatten(struct kvc_inline_tensor *tensor)
{
    static int64_t shape[1];
    shape[0] = (int64_t)tensor->data.size / 2;
    tensor->shape = (struct kvc_ints){shape, 1};
}

static void other_shape(struct peer *peer, struct kvc_reply *reply)
{
    (void)peer;
    change_tensors(reply, flatten);
}

static void rename_dtype(struct kvc_inline_tensor *tensor)
{
    tensor->dtype = KVC_STR("int16");
}

static void other_dtype(struct peer *peer, struct kvc_reply *reply)
{
    (void)peer;
    change_tensors(reply, rename_dtype);
}

static void empty(struct kvc_inline_tensor *tensor)
{
    static const int64_t shape[] = {0, INT64_MAX, INT64_MAX};
    tensor->shape = (struct kvc_ints){shape, KVC_COUNT_OF(shape)};
    tensor->data.size = 0;
}

static void tensors_of_nothing(struct peer *peer, struct kvc_reply *reply)
{
    (void)peer;
    change_tensors(reply, empty);
}

/* reshape(frombuffer(16 bytes, '<f2'), (2**30, 2**30)): far more than the bytes there are. */
static void larger_than_its_bytes(struct peer *peer, struct kvc_reply *reply)
{
    static const char pickle[] = "\x80\x04]"
                                 "\x8c\x05torch\x8c\x0a"
                                 "from_numpy\x93"
                                 "\x8c\x05numpy\x8c\x05"
                                 "array\x93"
                                 "\x8c\x05numpy\x8c\x07reshape\x93"
                                 "\x8c\x05numpy\x8c\x0a"
                                 "frombuffer\x93"
                                 "C\x10"
                                 "0123456789abcdef\x8c\x03<f2\x86R"
                                 "J\0\0\0\x40J\0\0\0\x40\x86\x86R\x85R\x85Ra.";
    (void)peer;
    set_data(reply, pickle, sizeof(pickle) - 1);
}

static void tensors_100000(struct peer *peer, struct kvc_reply *reply)
{
    static uint8_t byte;
    static const int64_t shape[] = {1};
    const size_t count = 100000;
    struct kvc_inline_tensor *tensors =
        kvc_arena_alloc_array(&reply->arena, count, sizeof(*tensors));
    struct kvc_buffer data = {0};
    (void)peer;
    for (size_t i = 0; i < count; i++)
        tensors[i] = (struct kvc_inline_tensor){
            .dtype = KVC_STR("uint8"), .shape = {shape, 1}, .data = {&byte, 1}};
    kvc_inline_encode_numpy(tensors, count, &data, NULL);
    set_data(reply, data.data, data.size);
    kvc_buffer_clear(&data);
}

/* Sixty lists, each of which holds the one before it twice. */
static void lists_that_double(struct peer *peer, struct kvc_reply *reply)
{
    struct kvc_buffer pickle = {0};
    (void)peer;
    kvc_buffer_append(&pickle, "\x80\x04]\x94", 4);
    for (uint8_t i = 0; i < 60; i++) {
        const uint8_t twice[] = {']', 0x94, 'h', i, 'a', 'h', i, 'a'};
        kvc_buffer_append(&pickle, twice, sizeof(twice));
    }
    kvc_buffer_append_byte(&pickle, '.');
    set_data(reply, pickle.data, pickle.size);
    kvc_buffer_clear(&pickle);
}

static void repeated(struct kvc_reply *reply, uint8_t byte, size_t count)
{
    uint8_t *bytes = kvc_arena_alloc(&reply->arena, count);
    memset(bytes, byte, count);
    reply->retrieve = (struct kvc_prepare_retrieve_result){.success = true, .data = {bytes, count}};
}

static void garbage_64_mib(struct peer *peer, struct kvc_reply *reply)
{
    (void)peer;
    repeated(reply, 'x', 64 * MIB);
}

static void marks_64_mib(struct peer *peer, struct kvc_reply *reply)
{
    (void)peer;
    repeated(reply, '(', 64 * MIB);
}

static void lists_64_mib(struct peer *peer, struct kvc_reply *reply)
{
    (void)peer;
    repeated(reply, ']', 64 * MIB);
}

static void slots_as_well(struct peer *peer, struct kvc_reply *reply)
{
    static const int64_t shape[] = {2, 2, 256, 16};
    static const struct kvc_slot slot = {0, 32768, {shape, 4}, {"float16", 7}};
    (void)peer;
    reply->retrieve.context.has_slots = true;
    reply->retrieve.context.slots = (struct kvc_slots){&slot, 1};
}

#define ROW(id, text, function)                                                                    \
    {                                                                                              \
        .name = "inline/" id, .summary = text, .exits = "0 13 1 0",                                \
        .ops = OP_BIT(KVC_OP_PREPARE_RETRIEVE), .revise = function, .inline_only = true            \
    }

static const struct behaviour rows[] = {
    ROW("no-bytes", "success and no bytes", no_bytes),
    ROW("garbage", "bytes that are no pickle", garbage),
    ROW("never-stops", "a pickle without an end", never_stops),
    ROW("an-int", "a pickle of a number", an_int),
    ROW("runs-a-command", "a pickle that calls os.system", runs_a_command),
    ROW("bytes-of-2-63", "a byte string of 2^63-1 bytes", bytes_of_2_63),
    ROW("text-of-4-gib", "a text of 4 GiB", text_of_4_gib),
    ROW("list-in-itself", "a list that holds itself", list_in_itself),
    ROW("lists-that-double", "lists that hold others twice, sixty levels", lists_that_double),
    ROW("memo-beyond-end", "a memo entry that is not there", memo_beyond_end),
    ROW("memo-of-4-billion", "a memo entry of the number 2^32-1", memo_of_4_billion),
    ROW("cut-in-half", "half of the pickle", cut_in_half),
    ROW("one-tensor-less", "one tensor less than chunks", one_tensor_less),
    ROW("other-shape", "tensors in one dimension", other_shape),
    ROW("other-dtype", "tensors of int16", other_dtype),
    ROW("tensors-of-nothing", "shapes of 0 x 2^63-1 x 2^63-1", tensors_of_nothing),
    ROW("larger-than-its-bytes", "2^60 elements in 16 bytes", larger_than_its_bytes),
    ROW("tensors-100000", "100,000 tensors of one byte", tensors_100000),
    ROW("garbage-64-mib", "64 MiB that are no pickle", garbage_64_mib),
    ROW("marks-64-mib", "64 MiB of opening brackets", marks_64_mib),
    ROW("lists-64-mib", "64 MiB of empty lists", lists_64_mib),
    ROW("slots-as-well", "slots where there is no pool", slots_as_well),
};

const struct behaviours hostile_inline = {rows, KVC_COUNT_OF(rows)};
