#include <string.h>

#include "src/wire/pickle.h"

/* CPython's framing: a frame ends at the first value that begins once it holds this much, bytes
 * of this size stand outside frames, and a frame shorter than the minimum loses its header. */
enum { FRAME_TARGET = 64 * 1024, FRAME_MIN = 4, FRAME_HEADER = 9 };

static void put_little_endian(uint8_t *out, uint64_t value, size_t size)
{
    for (size_t i = 0; i < size; i++)
        out[i] = (uint8_t)(value >> 8 * i);
}

static size_t frame_length(const struct kvc_pickle_writer *writer)
{
    return writer->out->size - writer->frame_start - FRAME_HEADER;
}

static void close_frame(struct kvc_pickle_writer *writer)
{
    if (!writer->frame_open)
        return;
    struct kvc_buffer *out = writer->out;
    const size_t length = frame_length(writer);
    uint8_t *header = out->data + writer->frame_start;
    if (length >= FRAME_MIN) {
        header[0] = KVC_PICKLE_OP_FRAME;
        put_little_endian(header + 1, length, 8);
    } else {
        memmove(header, header + FRAME_HEADER, length);
        out->size -= FRAME_HEADER;
    }
    writer->frame_open = false;
}

static void open_frame(struct kvc_pickle_writer *writer)
{
    static const uint8_t header[FRAME_HEADER];
    if (writer->frame_open)
        return;
    writer->frame_start = writer->out->size;
    writer->frame_open = true;
    kvc_buffer_append(writer->out, header, sizeof(header));
}

static void put(struct kvc_pickle_writer *writer, const void *data, size_t size)
{
    open_frame(writer);
    kvc_buffer_append(writer->out, data, size);
}

/* An opcode with a number of `size` bytes. */
static void put_number(struct kvc_pickle_writer *writer, uint8_t opcode, uint64_t value,
                       size_t size)
{
    uint8_t bytes[9] = {opcode};
    put_little_endian(bytes + 1, value, size);
    put(writer, bytes, 1 + size);
}

void kvc_pickle_begin(struct kvc_pickle_writer *writer, struct kvc_buffer *out)
{
    static const uint8_t protocol[] = {KVC_PICKLE_OP_PROTO, 4};
    *writer = (struct kvc_pickle_writer){.out = out};
    kvc_buffer_append(out, protocol, sizeof(protocol));
}

void kvc_pickle_end(struct kvc_pickle_writer *writer)
{
    kvc_pickle_opcode(writer, KVC_PICKLE_OP_STOP);
    close_frame(writer);
}

void kvc_pickle_begin_value(struct kvc_pickle_writer *writer)
{
    if (writer->frame_open && frame_length(writer) >= FRAME_TARGET)
        close_frame(writer);
}

void kvc_pickle_opcode(struct kvc_pickle_writer *writer, uint8_t opcode)
{
    put(writer, &opcode, 1);
}

uint32_t kvc_pickle_memoize(struct kvc_pickle_writer *writer)
{
    kvc_pickle_opcode(writer, KVC_PICKLE_OP_MEMOIZE);
    return writer->memo_count++;
}

void kvc_pickle_get(struct kvc_pickle_writer *writer, uint32_t number)
{
    kvc_pickle_begin_value(writer);
    if (number <= UINT8_MAX)
        put_number(writer, KVC_PICKLE_OP_BINGET, number, 1);
    else
        put_number(writer, KVC_PICKLE_OP_LONG_BINGET, number, 4);
}

void kvc_pickle_append_int(struct kvc_buffer *out, int64_t value)
{
    uint8_t bytes[10];
    size_t head = 1;
    size_t size;
    if (value >= 0 && value <= UINT8_MAX) {
        bytes[0] = KVC_PICKLE_OP_BININT1;
        size = 1;
    } else if (value >= 0 && value <= UINT16_MAX) {
        bytes[0] = KVC_PICKLE_OP_BININT2;
        size = 2;
    } else if (value >= INT32_MIN && value <= INT32_MAX) {
        bytes[0] = KVC_PICKLE_OP_BININT;
        size = 4;
    } else {
        /* LONG1: as few bytes as keep the sign; at least 5 here, or 4 would have done. */
        size = 8;
        while (value >> (8 * size - 9) == 0 || value >> (8 * size - 9) == -1)
            size--;
        bytes[0] = KVC_PICKLE_OP_LONG1;
        bytes[1] = (uint8_t)size;
        head = 2;
    }
    put_little_endian(bytes + head, (uint64_t)value, size);
    kvc_buffer_append(out, bytes, head + size);
}

void kvc_pickle_int(struct kvc_pickle_writer *writer, int64_t value)
{
    kvc_pickle_begin_value(writer);
    open_frame(writer);
    kvc_pickle_append_int(writer->out, value);
}

void kvc_pickle_str(struct kvc_pickle_writer *writer, struct kvc_str text)
{
    kvc_pickle_begin_value(writer);
    if (text.size <= UINT8_MAX)
        put_number(writer, KVC_PICKLE_OP_SHORT_BINUNICODE, text.size, 1);
    else
        put_number(writer, KVC_PICKLE_OP_BINUNICODE, text.size, 4);
    put(writer, text.data, text.size);
    kvc_pickle_memoize(writer);
}

uint32_t kvc_pickle_bytes(struct kvc_pickle_writer *writer, const struct kvc_bytes *parts,
                          size_t count)
{
    size_t size = 0;
    for (size_t i = 0; i < count; i++)
        size += parts[i].size;
    kvc_pickle_begin_value(writer);
    const bool outside_frames = size >= FRAME_TARGET;
    if (outside_frames)
        close_frame(writer);
    uint8_t head[9] = {size <= UINT8_MAX    ? KVC_PICKLE_OP_SHORT_BINBYTES
                       : size <= UINT32_MAX ? KVC_PICKLE_OP_BINBYTES
                                            : KVC_PICKLE_OP_BINBYTES8};
    const size_t length_size = size <= UINT8_MAX ? 1 : size <= UINT32_MAX ? 4 : 8;
    put_little_endian(head + 1, size, length_size);
    if (outside_frames)
        kvc_buffer_append(writer->out, head, 1 + length_size);
    else
        put(writer, head, 1 + length_size);
    for (size_t i = 0; i < count; i++)
        kvc_buffer_append(writer->out, parts[i].data, parts[i].size);
    return kvc_pickle_memoize(writer);
}

void kvc_pickle_global(struct kvc_pickle_writer *writer, struct kvc_str module, struct kvc_str name)
{
    for (size_t i = 0; i < writer->global_count; i++) {
        const struct kvc_pickle_known_global *known = &writer->globals[i];
        if (kvc_str_equal(known->module, module) && kvc_str_equal(known->name, name)) {
            kvc_pickle_get(writer, known->number);
            return;
        }
    }
    kvc_pickle_begin_value(writer);
    kvc_pickle_str(writer, module);
    kvc_pickle_str(writer, name);
    kvc_pickle_opcode(writer, KVC_PICKLE_OP_STACK_GLOBAL);
    const uint32_t number = kvc_pickle_memoize(writer);
    if (writer->global_count < KVC_COUNT_OF(writer->globals))
        writer->globals[writer->global_count++] =
            (struct kvc_pickle_known_global){module, name, number};
}

void kvc_pickle_tuple(struct kvc_pickle_writer *writer, size_t count)
{
    static const uint8_t opcodes[] = {KVC_PICKLE_OP_EMPTY_TUPLE, KVC_PICKLE_OP_TUPLE1,
                                      KVC_PICKLE_OP_TUPLE2, KVC_PICKLE_OP_TUPLE3};
    kvc_pickle_opcode(writer, count <= 3 ? opcodes[count] : KVC_PICKLE_OP_TUPLE);
    if (count > 0)
        kvc_pickle_memoize(writer);
}

void kvc_pickle_int_tuple(struct kvc_pickle_writer *writer, struct kvc_ints ints)
{
    kvc_pickle_begin_value(writer);
    if (ints.count > 3)
        kvc_pickle_opcode(writer, KVC_PICKLE_OP_MARK);
    for (size_t i = 0; i < ints.count; i++)
        kvc_pickle_int(writer, ints.items[i]);
    kvc_pickle_tuple(writer, ints.count);
}
