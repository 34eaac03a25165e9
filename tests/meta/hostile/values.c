/* Lies in replies that read well: about pools, chunk sizes, counts. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/meta/hostile/peer.h"

enum { DECOY = 4 << 20 };

/* ---- pools ---- */

static void offer(struct kvc_reply *reply, struct kvc_str name, int64_t size)
{
    reply->pool = (struct kvc_pool_info){name, size};
}

#define POOL(function, pool_name, size)                                                            \
    static void function(struct peer *peer, struct kvc_reply *reply)                               \
    {                                                                                              \
        (void)peer;                                                                                \
        offer(reply, KVC_STR(pool_name), size);                                                    \
    }
POOL(pool_with_slash, "a/b", DECOY)
POOL(pool_out_of_the_folder, "../../etc/passwd", 4096)
POOL(pool_dots, "..", 4096)
POOL(pool_missing, "kvconform-no-such-pool", DECOY)
POOL(pool_with_nul, "pool\0hidden", DECOY)
POOL(pool_with_escapes, "\x1b]0;owned\x07\x1b[2J\r\nkvconform: all passed", DECOY)

static void pool_name_5000(struct peer *peer, struct kvc_reply *reply)
{
    (void)peer;
    offer(reply, reply_repeat(reply, 'p', 5000), DECOY);
}

static void pool_unnamed(struct peer *peer, struct kvc_reply *reply)
{
    (void)peer;
    reply->pool.shm_name.size = 0;
}

static void pool_of_no_size(struct peer *peer, struct kvc_reply *reply)
{
    (void)peer;
    reply->pool.pool_size = 0;
}

static void pool_of_negative_size(struct peer *peer, struct kvc_reply *reply)
{
    (void)peer;
    reply->pool.pool_size = -4096;
}

static void pool_of_8_eib(struct peer *peer, struct kvc_reply *reply)
{
    (void)peer;
    reply->pool.pool_size = INT64_MAX;
}

static void pool_shorter_than_said(struct peer *peer, struct kvc_reply *reply)
{
    offer(reply, kvc_str_of(peer->decoy.name + 1), DECOY + 1);
}

/* What shm_open finds under a name that is made to be something else than a segment. */
static void pool_made_by(struct peer *peer, struct kvc_reply *reply, int (*make)(const char *path))
{
    char name[80];
    if (peer->made_path[0] == '\0') {
        kvc_segment_name("hostile-", name, sizeof(name));
        snprintf(peer->made_path, sizeof(peer->made_path), "/dev/shm%s", name);
        if (make(peer->made_path) != 0)
            perror(peer->made_path);
    }
    offer(reply, kvc_str_of(strrchr(peer->made_path, '/') + 1), 4096);
}

static int make_folder(const char *path)
{
    return mkdir(path, 0700);
}

static int make_fifo(const char *path)
{
    return mkfifo(path, 0600);
}

static int make_link(const char *path)
{
    return symlink("/etc/passwd", path);
}

static void pool_is_folder(struct peer *peer, struct kvc_reply *reply)
{
    pool_made_by(peer, reply, make_folder);
}

static void pool_is_fifo(struct peer *peer, struct kvc_reply *reply)
{
    pool_made_by(peer, reply, make_fifo);
}

static void pool_is_link(struct peer *peer, struct kvc_reply *reply)
{
    pool_made_by(peer, reply, make_link);
}

/* The pool is there when it is mapped, and half gone when the slots are named. */
static void pool_shrinks(struct peer *peer, struct kvc_reply *reply)
{
    (void)reply;
    const int fd = shm_open(peer->decoy.name, O_RDWR, 0);
    if (fd >= 0 && ftruncate(fd, 0) == 0)
        peer->decoy.size = 0;
    close(fd);
}

/* ---- counts and answers ---- */

#define COUNT(function, value)                                                                     \
    static void function(struct peer *peer, struct kvc_reply *reply)                               \
    {                                                                                              \
        (void)peer;                                                                                \
        reply->is_void = false;                                                                    \
        reply->count = (value);                                                                    \
    }
COUNT(count_0, 0)
COUNT(count_1, 1)
COUNT(count_7, 7)
COUNT(count_minus_1, -1)
COUNT(count_2_20_plus_1, (1 << 20) + 1)
COUNT(count_2_62, (int64_t)1 << 62)
COUNT(count_smallest, INT64_MIN)
COUNT(count_largest, INT64_MAX)

static void loading_for_ever(struct peer *peer, struct kvc_reply *reply)
{
    (void)peer;
    reply->is_void = true;
}

static void success_without_slots(struct peer *peer, struct kvc_reply *reply)
{
    (void)peer;
    reply->retrieve = (struct kvc_prepare_retrieve_result){.success = true};
}

static void never_success(struct peer *peer, struct kvc_reply *reply)
{
    (void)peer;
    reply->retrieve = (struct kvc_prepare_retrieve_result){.success = false};
    reply->transfer.success = false;
    reply->ok = false;
}

static void long_event_handle(struct peer *peer, struct kvc_reply *reply)
{
    (void)peer;
    const struct kvc_str handle = reply_repeat(reply, 'h', 64 << 20);
    reply->transfer.event_handle = (struct kvc_bytes){(const uint8_t *)handle.data, handle.size};
    reply->transfer.success = false;
}

static void addresses_outside(struct peer *peer, struct kvc_reply *reply)
{
    struct kvc_object_address *addresses =
        (struct kvc_object_address *)(uintptr_t)reply->addresses.items;
    (void)peer;
    for (size_t i = 0; i < reply->addresses.count; i++)
        addresses[i] = (struct kvc_object_address){INT64_MAX - 10, INT64_MAX};
}

static void noop_16_mib(struct peer *peer, struct kvc_reply *reply)
{
    (void)peer;
    reply->text = reply_repeat(reply, '\x1b', 16 << 20);
}

static void a_million_names(struct peer *peer, struct kvc_reply *reply)
{
    const size_t count = 1 << 20;
    struct kvc_str *names = kvc_arena_alloc_array(&reply->arena, count, sizeof(*names));
    (void)peer;
    for (size_t i = 0; i < count; i++)
        names[i] = KVC_STR("x");
    reply->names = (struct kvc_strs){names, count};
}

#define REGISTER OP_BIT(KVC_OP_REGISTER_ENGINE_DRIVEN)
#define READ     OP_BIT(KVC_OP_PREPARE_RETRIEVE)
#define QUERY    OP_BIT(KVC_OP_QUERY_PREFETCH_STATUS)
#define CHUNK    OP_BIT(KVC_OP_GET_CHUNK_SIZE)

#define ROW(id, text, statuses, operations, function)                                              \
    {                                                                                              \
        .name = id, .summary = text, .exits = statuses, .ops = operations, .revise = function      \
    }
static const struct behaviour rows[] = {
    ROW("pool/with-slash", "a pool name with a slash", "0 1 13 0", REGISTER, pool_with_slash),
    ROW("pool/out-of-the-folder", "a pool name with ..", "0 1 13 0", REGISTER,
        pool_out_of_the_folder),
    ROW("pool/dots", "a pool called ..", "0 1 13 0", REGISTER, pool_dots),
    ROW("pool/missing", "a pool that does not exist", "0 1 13 0", REGISTER, pool_missing),
    ROW("pool/with-nul", "a NUL in the pool's name", "0 1 13 0", REGISTER, pool_with_nul),
    ROW("pool/with-escapes", "escape codes in the pool's name", "0 1 13 0", REGISTER,
        pool_with_escapes),
    ROW("pool/name-5000", "a pool name of 5000 characters", "0 1 13 0", REGISTER, pool_name_5000),
    ROW("pool/unnamed", "a pool without a name", "0 1 13 0", REGISTER, pool_unnamed),
    ROW("pool/of-no-size", "a pool of 0 bytes", "0 1 13 0", REGISTER, pool_of_no_size),
    ROW("pool/of-negative-size", "a pool of -4096 bytes", "0 1 13 0", REGISTER,
        pool_of_negative_size),
    ROW("pool/of-8-eib", "a pool of 2^63-1 bytes", "0 1 13 0", REGISTER, pool_of_8_eib),
    {.name = "pool/shorter-than-said",
     .summary = "a pool one byte shorter than said",
     .exits = "0 1 13 0",
     .ops = REGISTER,
     .revise = pool_shorter_than_said,
     .decoy_bytes = DECOY},
    ROW("pool/is-folder", "a pool that is a folder", "0 1 13 0", REGISTER, pool_is_folder),
    ROW("pool/is-fifo", "a pool that is a named pipe", "0 1 13 0", REGISTER, pool_is_fifo),
    ROW("pool/is-link", "a pool that is a symbolic link", "0 1 13 0", REGISTER, pool_is_link),
    {.name = "pool/shrinks",
     .summary = "a pool that is cut to nothing once it is mapped",
     .exits = "0 1 13 0",
     .ops = OP_BIT(KVC_OP_PREPARE_STORE),
     .revise = pool_shrinks,
     .decoy_bytes = DECOY},

    ROW("chunk-size/0", "chunks of 0 tokens", "3 3 3 3", CHUNK, count_0),
    ROW("chunk-size/1", "chunks of 1 token, where they have 256", "0 1 123 123", CHUNK, count_1),
    ROW("chunk-size/7", "chunks of 7 tokens, where they have 256", "0 1 23 23", CHUNK, count_7),
    ROW("chunk-size/minus-1", "chunks of -1 token", "3 3 3 3", CHUNK, count_minus_1),
    ROW("chunk-size/2-20-plus-1", "chunks of a million tokens", "3 3 3 3", CHUNK,
        count_2_20_plus_1),
    ROW("chunk-size/2-62", "chunks of 2^62 tokens", "3 3 3 3", CHUNK, count_2_62),
    ROW("chunk-size/smallest", "chunks of -2^63 tokens", "3 3 3 3", CHUNK, count_smallest),
    ROW("chunk-size/largest", "chunks of 2^63-1 tokens", "3 3 3 3", CHUNK, count_largest),

    ROW("lookup/minus-1", "-1 chunks found", "0 1 1 1", QUERY, count_minus_1),
    ROW("lookup/7", "7 chunks found, whatever was asked", "0 1 1 1", QUERY, count_7),
    ROW("lookup/smallest", "-2^63 chunks found", "0 1 1 1", QUERY, count_smallest),
    ROW("lookup/largest", "2^63-1 chunks found", "0 1 1 1", QUERY, count_largest),
    ROW("lookup/loading-for-ever", "a lookup that never ends", "0 1 1 1", QUERY, loading_for_ever),
    ROW("retrieve/success-without-slots", "success without slots or data", "0 1 1 0", READ,
        success_without_slots),
    ROW("never-success", "every transfer fails", "0 1 1 1", TRANSFER_OPS, never_success),
    ROW("long-event-handle", "an event handle of 64 MiB", "0 13 0 13",
        OP_BIT(KVC_OP_STORE) | OP_BIT(KVC_OP_RETRIEVE), long_event_handle),
    ROW("p2p-addresses-outside", "objects behind the pool's end", "0 1 0 0",
        OP_BIT(KVC_OP_P2P_QUERY_LOOKUP_RESULTS), addresses_outside),
    ROW("noop-16-mib", "16 MiB of escape codes instead of OK", "0 13 0 0", OP_BIT(KVC_OP_NOOP),
        noop_16_mib),
    ROW("a-million-names", "a million experimental features", "0 01 0 0",
        OP_BIT(KVC_OP_GET_EXPERIMENTAL), a_million_names),
};

const struct behaviours hostile_values = {rows, KVC_COUNT_OF(rows)};
