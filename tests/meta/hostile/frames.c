/* Lies about the shape of a message, and about the bytes of a result: for any reply. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/wire/pack.h"
#include "tests/meta/hostile/peer.h"

enum { MIB = 1 << 20, NESTING = 200000 };

/* ---- the frames of a message ---- */

static void add_frame(struct exchange *exchange, const void *data, size_t size)
{
    kvc_frames_append_copy(&exchange->reply, data, size);
}

/* The reply with another first or second frame. */
static void replace_frame(struct exchange *exchange, size_t index, const void *data, size_t size)
{
    struct kvc_frames changed = {0};
    for (size_t i = 0; i < exchange->reply.count; i++) {
        const struct kvc_bytes frame = kvc_frames_view(&exchange->reply, i);
        kvc_frames_append_copy(&changed, i == index ? data : frame.data,
                               i == index ? size : frame.size);
    }
    kvc_frames_clear(&exchange->reply);
    exchange->reply = changed;
}

static void keep_frames(struct exchange *exchange, size_t count)
{
    struct kvc_frames kept = {0};
    for (size_t i = 0; i < count && i < exchange->reply.count; i++) {
        const struct kvc_bytes frame = kvc_frames_view(&exchange->reply, i);
        kvc_frames_append_copy(&kept, frame.data, frame.size);
    }
    kvc_frames_clear(&exchange->reply);
    exchange->reply = kept;
}

static void void_for_value(struct peer *peer, struct exchange *exchange)
{
    (void)peer;
    if (exchange->reply.count > 2)
        exchange_drop_result(exchange);
    else
        add_frame(exchange, "\xc0", 1);
}

static void surplus_frame(struct peer *peer, struct exchange *exchange)
{
    (void)peer;
    if (exchange->reply.count == 2)
        add_frame(exchange, "\xc0", 1);
    add_frame(exchange, "\xc0", 1);
}

static void many_frames(struct peer *peer, struct exchange *exchange)
{
    (void)peer;
    for (int i = 0; i < 20000; i++)
        add_frame(exchange, "\xc0", 1);
}

static void uid_alone(struct peer *peer, struct exchange *exchange)
{
    (void)peer;
    keep_frames(exchange, 1);
}

static void one_empty_frame(struct peer *peer, struct exchange *exchange)
{
    (void)peer;
    keep_frames(exchange, 0);
    add_frame(exchange, NULL, 0);
}

static void all_frames_empty(struct peer *peer, struct exchange *exchange)
{
    (void)peer;
    for (size_t i = 0; i < exchange->reply.count; i++)
        replace_frame(exchange, i, NULL, 0);
}

static void no_uid(struct peer *peer, struct exchange *exchange)
{
    struct kvc_frames rest = {0};
    (void)peer;
    for (size_t i = 1; i < exchange->reply.count; i++)
        kvc_frames_append_copy(&rest, exchange->reply.items[i].data, exchange->reply.items[i].size);
    kvc_frames_clear(&exchange->reply);
    exchange->reply = rest;
}

/* ---- whose reply it is ---- */

static void uid_of_nobody(struct peer *peer, struct exchange *exchange)
{
    (void)peer;
    replace_frame(exchange, 0, "\xcf\xff\xff\xff\xff\xff\xff\xff\xff", 9);
}

static void uid_of_first_request(struct peer *peer, struct exchange *exchange)
{
    (void)peer;
    replace_frame(exchange, 0, "\x00", 1);
}

static void uid_of_next_request(struct peer *peer, struct exchange *exchange)
{
    uint8_t next = (uint8_t)(exchange->reply.items[0].data[0] + 1);
    (void)peer;
    replace_frame(exchange, 0, &next, 1);
}

static void uid_in_another_form(struct peer *peer, struct exchange *exchange)
{
    const uint8_t longer[] = {0xcd, 0, exchange->reply.items[0].data[0]};
    (void)peer;
    replace_frame(exchange, 0, longer, sizeof(longer));
}

/* The reply goes to whoever asked before, who then gets the next one's. */
static void to_another_client(struct peer *peer, struct exchange *exchange)
{
    struct kvc_buffer identity = {0};
    kvc_buffer_append(&identity, exchange->identity.data, exchange->identity.size);
    if (peer->held.size > 0)
        peer_send(peer, kvc_buffer_view(&peer->held), &exchange->reply);
    kvc_buffer_clear(&peer->held);
    peer->held = identity;
    keep_frames(exchange, 0);
}

/* The reply is kept until the next one is due, and sent in its place. */
static void one_late(struct peer *peer, struct exchange *exchange)
{
    struct kvc_frames late = peer->held_reply;
    peer->held_reply = exchange->reply;
    exchange->reply = late;
}

static void other_operation(struct peer *peer, struct exchange *exchange)
{
    (void)peer;
    replace_frame(exchange, 1, "\xcd\x03\xe7", 3);
}

static void empty_operation(struct peer *peer, struct exchange *exchange)
{
    (void)peer;
    replace_frame(exchange, 1, NULL, 0);
}

/* ---- how many, and when ---- */

static void twice(struct peer *peer, struct exchange *exchange)
{
    peer_send(peer, exchange->identity, &exchange->reply);
}

static void a_thousand_times(struct peer *peer, struct exchange *exchange)
{
    for (int i = 0; i < 1000; i++)
        peer_send(peer, exchange->identity, &exchange->reply);
}

static void replies_to_nothing(struct peer *peer, struct exchange *exchange)
{
    struct kvc_frames stray = {0};
    kvc_frames_append_copy(&stray, "stray", 5);
    kvc_frames_append_copy(&stray, "\x01", 1);
    for (int i = 0; i < 10000; i++)
        peer_send(peer, exchange->identity, &stray);
    kvc_frames_clear(&stray);
}

static void megabytes_to_nothing(struct peer *peer, struct exchange *exchange)
{
    struct kvc_frames stray = {0};
    uint8_t *bytes = kvc_alloc_zero(1, MIB);
    kvc_frames_append_copy(&stray, "stray", 5);
    kvc_frames_append_copy(&stray, bytes, MIB);
    for (int i = 0; i < 16; i++)
        peer_send(peer, exchange->identity, &stray);
    kvc_frames_clear(&stray);
    free(bytes);
}

static void silence(struct peer *peer, struct exchange *exchange)
{
    (void)peer;
    keep_frames(exchange, 0);
}

static void answers_and_dies(struct peer *peer, struct exchange *exchange)
{
    if (peer->spoiled < 3)
        return;
    peer_send(peer, exchange->identity, &exchange->reply);
    usleep(20000); /* so that the answer is out */
    kvc_segment_close(&peer->decoy);
    _exit(0);
}

static void dies(struct peer *peer, struct exchange *exchange)
{
    (void)exchange;
    kvc_segment_close(&peer->decoy);
    _exit(0);
}

/* ---- the bytes of a result ---- */

static void truncated(struct peer *peer, struct exchange *exchange)
{
    (void)peer;
    if (exchange->reply.count < 3 || exchange->reply.items[2].size < 2) {
        add_frame(exchange, "\x92\x01", 2);
        return;
    }
    const struct kvc_bytes result = kvc_frames_view(&exchange->reply, 2);
    replace_frame(exchange, 2, result.data, result.size / 2);
}

static void trailing_byte(struct peer *peer, struct exchange *exchange)
{
    struct kvc_buffer longer = {0};
    (void)peer;
    if (exchange->reply.count > 2)
        kvc_buffer_append(&longer, exchange->reply.items[2].data, exchange->reply.items[2].size);
    kvc_buffer_append_byte(&longer, 0xc0);
    kvc_buffer_append_byte(&longer, 0xc0);
    exchange_set_result(exchange, &longer);
}

static void repeat_into_result(struct exchange *exchange, struct kvc_bytes head, uint8_t byte,
                               size_t count)
{
    struct kvc_buffer result = {0};
    uint8_t *bytes = kvc_alloc(count);
    memset(bytes, byte, count);
    kvc_buffer_append(&result, head.data, head.size);
    kvc_buffer_append(&result, bytes, count);
    free(bytes);
    exchange_set_result(exchange, &result);
}

static void nested_arrays(struct peer *peer, struct exchange *exchange)
{
    (void)peer;
    repeat_into_result(exchange, (struct kvc_bytes){NULL, 0}, 0x91, NESTING);
}

static void nested_maps(struct peer *peer, struct exchange *exchange)
{
    (void)peer;
    repeat_into_result(exchange, (struct kvc_bytes){NULL, 0}, 0x81, NESTING);
}

static void garbage_64_mib(struct peer *peer, struct exchange *exchange)
{
    (void)peer;
    repeat_into_result(exchange, (struct kvc_bytes){NULL, 0}, 0xc1, 64 * MIB);
}

static void bin_64_mib(struct peer *peer, struct exchange *exchange)
{
    static const uint8_t head[] = {0xc6, 0x04, 0x00, 0x00, 0x00};
    (void)peer;
    repeat_into_result(exchange, (struct kvc_bytes){head, sizeof(head)}, 'x', 64 * MIB);
}

static void array_of_67_million(struct peer *peer, struct exchange *exchange)
{
    static const uint8_t head[] = {0xdd, 0x04, 0x00, 0x00, 0x00};
    (void)peer;
    repeat_into_result(exchange, (struct kvc_bytes){head, sizeof(head)}, 0xc0, 64 * MIB);
}

/* {"a": nil, "a": nil, …} */
static void map_of_a_million(struct peer *peer, struct exchange *exchange)
{
    struct kvc_buffer result = {0};
    (void)peer;
    kvc_msgpack_write_map(&result, MIB);
    for (int i = 0; i < MIB; i++)
        kvc_buffer_append(&result, "\xa1\x61\xc0", 3);
    exchange_set_result(exchange, &result);
}

#define SPOIL(id, text, function)                                                                  \
    {                                                                                              \
        .name = id, .summary = text, .spoil = function                                             \
    }
/* So much that a server with one thread cannot answer everybody in time. */
#define HEAVY(id, text, function)                                                                  \
    {                                                                                              \
        .name = id, .summary = text, .exits = "03 13 13 13", .spoil = function                     \
    }
#define RESULT(id, bytes)                                                                          \
    {                                                                                              \
        .name = id, .summary = "the result is " #bytes, .result = {                                \
            (const uint8_t *)(bytes),                                                              \
            sizeof(bytes) - 1                                                                      \
        }                                                                                          \
    }

static const struct behaviour rows[] = {
    SPOIL("void-for-value", "no result where one must be, one where none must be", void_for_value),
    SPOIL("surplus-frame", "one frame too many", surplus_frame),
    HEAVY("many-frames", "20,000 frames too many", many_frames),
    SPOIL("uid-alone", "the uid and nothing else", uid_alone),
    SPOIL("one-empty-frame", "a message of one empty frame", one_empty_frame),
    SPOIL("all-frames-empty", "as many frames as right, all empty", all_frames_empty),
    SPOIL("no-uid", "operation and result without a uid", no_uid),
    SPOIL("uid-of-nobody", "a uid that was never sent", uid_of_nobody),
    SPOIL("uid-of-first-request", "the uid of a request long answered", uid_of_first_request),
    SPOIL("uid-of-next-request", "the uid of a request that comes later", uid_of_next_request),
    SPOIL("uid-in-another-form", "the same number in other bytes", uid_in_another_form),
    SPOIL("to-another-client", "replies go to somebody else", to_another_client),
    SPOIL("one-late", "each reply comes when the next is due", one_late),
    SPOIL("other-operation", "an operation that was not asked for", other_operation),
    SPOIL("empty-operation", "an empty operation frame", empty_operation),
    {.name = "twice", .summary = "each reply twice", .exits = "0 1 1 1", .spoil = twice},
    {.name = "a-thousand-times",
     .summary = "each reply a thousand times",
     .exits = "0 1 1 1",
     .spoil = a_thousand_times},
    {.name = "replies-to-nothing",
     .summary = "10,000 replies that nobody asked for before each",
     .exits = "03 013 13 13",
     .spoil = replies_to_nothing},
    {.name = "megabytes-to-nothing",
     .summary = "16 MiB that nobody asked for before each reply",
     .exits = "03 013 13 13",
     .spoil = megabytes_to_nothing},
    SPOIL("silence", "no reply", silence),
    {.name = "answers-and-dies",
     .summary = "the process ends after the third answer",
     .exits = "03 13 013 013", /* a bench may ask less than three times */
     .spoil = answers_and_dies},
    {.name = "dies",
     .summary = "the process ends instead of answering",
     .exits = "03 3 13 13",
     .spoil = dies},
    SPOIL("truncated", "half of the result", truncated),
    SPOIL("trailing-byte", "a byte after the result", trailing_byte),
    SPOIL("nested-arrays", "200,000 arrays inside each other", nested_arrays),
    SPOIL("nested-maps", "200,000 maps inside each other", nested_maps),
    HEAVY("garbage-64-mib", "64 MiB that are no msgpack", garbage_64_mib),
    HEAVY("bin-64-mib", "64 MiB of bytes", bin_64_mib),
    HEAVY("array-of-67-million", "an array of 67 million nils", array_of_67_million),
    HEAVY("map-of-a-million", "a map that has one key a million times", map_of_a_million),
    RESULT("empty-result", ""),
    RESULT("never-used-tag", "\xc1"),
    RESULT("nil", "\xc0"),
    RESULT("minus-one", "\xff"),
    RESULT("largest-uint", "\xcf\xff\xff\xff\xff\xff\xff\xff\xff"),
    RESULT("smallest-int", "\xd3\x80\x00\x00\x00\x00\x00\x00\x00"),
    RESULT("nan", "\xcb\x7f\xf8\x00\x00\x00\x00\x00\x00"),
    RESULT("text-with-escapes", "\xb0\x1b[2J\x1b[31mred\x00\nnew"),
    RESULT("text-not-utf-8", "\xa3\xff\xfe\xfd"),
    RESULT("empty-array", "\x90"),
    RESULT("empty-map", "\x80"),
    RESULT("map-of-int-keys", "\x82\x01\x02\x03\x04"),
    RESULT("ext", "\xc7\x04\x01\x01\x02\x03\x04"),
    RESULT("timestamp", "\xd6\xff\x00\x00\x00\x00"),
    RESULT("array-without-end", "\xdd\xff\xff\xff\xff"),
    RESULT("map-without-end", "\xdf\xff\xff\xff\xff"),
    RESULT("text-without-end", "\xdb\xff\xff\xff\xff"),
    RESULT("bin-without-end", "\xc6\xff\xff\xff\xff"),
    RESULT("ext-without-end", "\xc9\xff\xff\xff\xff\x01"),
};

const struct behaviours hostile_frames = {rows, KVC_COUNT_OF(rows)};
