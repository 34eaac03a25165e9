#include "src/link/client.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/base/clock.h"
#include "src/link/connect.h"
#include "src/link/socket.h"
#include "src/link/url.h"

enum {
    MAX_UID_BYTES = 9,
    /* Replies kept for kvc_client_receive_raw, and bytes in them; a flood beyond is dropped. */
    MAX_UNCLAIMED = 4096,
    MAX_UNCLAIMED_BYTES = 64 << 20,
    TAKE_IN_BATCH = 256, /* messages taken in before the clock is looked at again */
};

#define NOT_A_UID UINT64_MAX

enum request_state { IN_FLIGHT, ARRIVED, TAKEN, GIVEN_UP }; /* the last two: over */

/* A reply that has come and was not fetched yet. */
struct arrived {
    uint64_t uid;
    struct kvc_frames reply;
};

struct raw_request {
    struct kvc_buffer uid;
    bool answered;
};

struct kvc_client {
    struct kvc_connection connection;
    pid_t owner; /* a forked child must not touch the parent's sockets */
    bool lost;
    uint8_t *states; /* a request_state, one byte, for each uid ever sent: millions in a bench */
    size_t request_count, request_capacity;
    struct arrived *arrived; /* in no order */
    size_t arrived_count;
    struct raw_request *raw_requests;
    size_t raw_count;
    struct kvc_frames unclaimed[MAX_UNCLAIMED]; /* a ring */
    size_t unclaimed_first, unclaimed_count, unclaimed_bytes;
    struct kvc_client_counters counters;
    int64_t waited_ns;
    kvc_client_trace_func *trace;
    void *trace_user;
};

kvc_status kvc_client_check_url(const char *url, struct kvc_error *err)
{
    struct kvc_url parts;
    return kvc_url_parse(url, KVC_URL_CONNECT, &parts, err);
}

kvc_status kvc_client_open(const char *url, int64_t connect_timeout_ms, struct kvc_client **client,
                           struct kvc_error *err)
{
    *client = NULL;
    struct kvc_connection connection;
    KVC_GUARD(kvc_connection_open(url, connect_timeout_ms, &connection, err));
    *client = kvc_alloc_zero(1, sizeof(**client));
    (*client)->connection = connection;
    (*client)->owner = getpid();
    return KVC_OK;
}

void kvc_client_close(struct kvc_client *client)
{
    if (client == NULL)
        return;
    if (client->owner == getpid())
        kvc_connection_close(&client->connection);
    for (size_t i = 0; i < client->arrived_count; i++)
        kvc_frames_clear(&client->arrived[i].reply);
    for (size_t i = 0; i < client->raw_count; i++)
        kvc_buffer_clear(&client->raw_requests[i].uid);
    for (size_t i = 0; i < client->unclaimed_count; i++)
        kvc_frames_clear(&client->unclaimed[(client->unclaimed_first + i) % MAX_UNCLAIMED]);
    free(client->states);
    free(client->arrived);
    free(client->raw_requests);
    free(client);
}

void kvc_client_set_trace(struct kvc_client *client, kvc_client_trace_func *trace, void *user)
{
    client->trace = trace;
    client->trace_user = user;
}

struct kvc_client_counters kvc_client_counters(const struct kvc_client *client)
{
    return client->counters;
}

int64_t kvc_client_waited_ns(const struct kvc_client *client)
{
    return client->waited_ns;
}

void kvc_client_pause(struct kvc_client *client, int64_t milliseconds)
{
    const int64_t begin = kvc_now_ns();
    kvc_sleep_ms(milliseconds);
    client->waited_ns += kvc_now_ns() - begin;
}

/* ---- uids: msgpack uints in their shortest form ---- */

static size_t write_big_endian(uint8_t *out, uint8_t head, uint64_t value, size_t bytes)
{
    out[0] = head;
    for (size_t i = 0; i < bytes; i++)
        out[1 + i] = (uint8_t)(value >> (8 * (bytes - 1 - i)));
    return 1 + bytes;
}

static size_t encode_uid(uint64_t uid, uint8_t out[MAX_UID_BYTES])
{
    if (uid < 0x80) {
        out[0] = (uint8_t)uid;
        return 1;
    }
    if (uid <= UINT8_MAX)
        return write_big_endian(out, 0xcc, uid, 1);
    if (uid <= UINT16_MAX)
        return write_big_endian(out, 0xcd, uid, 2);
    if (uid <= UINT32_MAX)
        return write_big_endian(out, 0xce, uid, 4);
    return write_big_endian(out, 0xcf, uid, 8);
}

/* The uid of a frame that kvc_client_send could have written, else NOT_A_UID: an echo that is not
 * byte for byte what was sent is nobody's. */
static uint64_t decode_uid(const struct kvc_frame *frame)
{
    if (frame->size == 0 || frame->size > MAX_UID_BYTES)
        return NOT_A_UID;
    uint64_t uid = frame->size == 1 ? frame->data[0] : 0;
    for (size_t i = 1; i < frame->size; i++)
        uid = uid << 8 | frame->data[i];
    uint8_t again[MAX_UID_BYTES];
    const size_t size = encode_uid(uid, again);
    const bool same = size == frame->size && memcmp(again, frame->data, size) == 0;
    return same ? uid : NOT_A_UID;
}

/* ---- sending ---- */

static void trace_sent(struct kvc_client *client, struct kvc_bytes uid,
                       const struct kvc_frames *frames)
{
    if (client->trace == NULL)
        return;
    struct kvc_frames whole = {0};
    if (uid.data != NULL)
        kvc_frames_append_view(&whole, uid.data, uid.size);
    for (size_t i = 0; i < frames->count; i++)
        kvc_frames_append_view(&whole, frames->items[i].data, frames->items[i].size);
    client->trace(client->trace_user, false, &whole, kvc_now_ns());
    kvc_frames_clear(&whole);
}

static void notice_loss(struct kvc_client *client);

static kvc_status send_frames(struct kvc_client *client, struct kvc_bytes uid,
                              struct kvc_frames *frames, struct kvc_error *err)
{
    struct pollfd news = {.fd = client->connection.monitor_fd, .events = POLLIN};
    if (!client->lost && poll(&news, 1, 0) > 0)
        notice_loss(client);
    if (client->lost) {
        kvc_frames_clear(frames);
        return kvc_fail(err, KVC_ELOST, "the server closed the connection");
    }
    trace_sent(client, uid, frames);
    if (!kvc_socket_send(client->connection.socket, uid, frames))
        return kvc_fail(err, KVC_ESYSTEM, "the socket does not take the request");
    return KVC_OK;
}

kvc_status kvc_client_send(struct kvc_client *client, struct kvc_frames *body, uint64_t *uid,
                           struct kvc_error *err)
{
    uint8_t encoded[MAX_UID_BYTES];
    *uid = client->request_count;
    const struct kvc_bytes frame = {encoded, encode_uid(*uid, encoded)};
    KVC_GUARD(send_frames(client, frame, body, err));
    if (client->request_count == client->request_capacity) {
        client->request_capacity =
            client->request_capacity == 0 ? 64 : 2 * client->request_capacity;
        client->states = kvc_realloc(client->states, client->request_capacity);
    }
    client->states[client->request_count++] = IN_FLIGHT;
    return KVC_OK;
}

kvc_status kvc_client_send_raw(struct kvc_client *client, struct kvc_frames *frames,
                               struct kvc_error *err)
{
    if (frames->count == 0)
        return kvc_fail(err, KVC_EUSAGE, "a message has at least one frame");
    struct raw_request raw = {0};
    kvc_buffer_append(&raw.uid, frames->items[0].data, frames->items[0].size);
    const kvc_status status = send_frames(client, (struct kvc_bytes){NULL, 0}, frames, err);
    if (status != KVC_OK) {
        kvc_buffer_clear(&raw.uid);
        return status;
    }
    client->raw_requests =
        kvc_realloc(client->raw_requests, (client->raw_count + 1) * sizeof(*client->raw_requests));
    client->raw_requests[client->raw_count++] = raw;
    return KVC_OK;
}

/* ---- receiving: every message is counted, kept for who waits for it, or dropped ---- */

static size_t bytes_of(const struct kvc_frames *frames)
{
    size_t bytes = 0;
    for (size_t i = 0; i < frames->count; i++)
        bytes += frames->items[i].size;
    return bytes;
}

/* Counts a reply that no kvc_client_send asked for, and keeps it for kvc_client_receive_raw. */
static void keep_unclaimed(struct kvc_client *client, struct kvc_frames *frames)
{
    struct raw_request *answered = NULL;
    struct raw_request *open = NULL;
    for (size_t i = 0; frames->count > 0 && open == NULL && i < client->raw_count; i++) {
        struct raw_request *raw = &client->raw_requests[i];
        if (!kvc_bytes_equal(kvc_buffer_view(&raw->uid), kvc_frames_view(frames, 0)))
            continue;
        if (raw->answered)
            answered = raw;
        else
            open = raw;
    }
    if (open != NULL)
        open->answered = true;
    else if (answered != NULL)
        client->counters.duplicate++;
    else
        client->counters.unknown++;
    const size_t bytes = bytes_of(frames);
    const bool too_large = client->unclaimed_bytes + bytes > MAX_UNCLAIMED_BYTES;
    if (client->unclaimed_count == MAX_UNCLAIMED || (too_large && client->unclaimed_count > 0)) {
        kvc_frames_clear(frames);
        return;
    }
    const size_t last = (client->unclaimed_first + client->unclaimed_count) % MAX_UNCLAIMED;
    client->unclaimed[last] = *frames;
    client->unclaimed_count++;
    client->unclaimed_bytes += bytes;
}

static void keep_arrived(struct kvc_client *client, uint64_t uid, const struct kvc_frames *frames)
{
    client->arrived =
        kvc_realloc(client->arrived, (client->arrived_count + 1) * sizeof(*client->arrived));
    client->arrived[client->arrived_count++] = (struct arrived){uid, *frames};
    client->states[uid] = ARRIVED;
}

static struct kvc_frames fetch_arrived(struct kvc_client *client, uint64_t uid)
{
    size_t place = 0;
    while (client->arrived[place].uid != uid)
        place++;
    client->states[uid] = TAKEN;
    const struct kvc_frames reply = client->arrived[place].reply;
    client->arrived[place] = client->arrived[--client->arrived_count];
    return reply;
}

/* Gives one message that has arrived to its request. Takes the frames over. */
static void deliver(struct kvc_client *client, struct kvc_frames *frames)
{
    if (client->trace != NULL)
        client->trace(client->trace_user, true, frames, kvc_now_ns());
    const uint64_t uid = frames->count > 0 ? decode_uid(&frames->items[0]) : NOT_A_UID;
    if (uid >= client->request_count) {
        keep_unclaimed(client, frames);
        return;
    }
    if (client->states[uid] == IN_FLIGHT) {
        keep_arrived(client, uid, frames);
        return;
    }
    if (client->states[uid] == GIVEN_UP) {
        client->counters.late++;
        client->states[uid] = TAKEN; /* a reply after this one is a duplicate */
    } else {
        client->counters.duplicate++;
    }
    kvc_frames_clear(frames);
}

/* What a wait is for: one request, or the next unclaimed reply. */
static bool has_come(const struct kvc_client *client, uint64_t uid)
{
    if (uid == NOT_A_UID)
        return client->unclaimed_count > 0;
    return client->states[uid] == ARRIVED;
}

/* Takes in what has arrived, until the awaited reply is there. True when there may be more. */
static bool take_in(struct kvc_client *client, uint64_t uid)
{
    for (size_t i = 0; i < TAKE_IN_BATCH; i++) {
        struct kvc_frames frames = {0};
        if (!kvc_socket_receive(client->connection.socket, NULL, &frames))
            return false;
        deliver(client, &frames);
        if (has_come(client, uid))
            return true;
    }
    return true;
}

/* Looks at the connection's news. A client whose peer is gone stays lost: libzmq would connect anew
 * and hand what is unsent to whoever listens there then. */
static void notice_loss(struct kvc_client *client)
{
    if (!kvc_connection_is_lost(&client->connection))
        return;
    while (take_in(client, NOT_A_UID) && client->unclaimed_count < MAX_UNCLAIMED) {
    }
    client->lost = true;
    kvc_connection_close(&client->connection);
}

static void wait_for_news(struct kvc_client *client, int64_t deadline_ns)
{
    struct pollfd news[] = {
        {.fd = client->connection.socket_fd, .events = POLLIN},
        {.fd = client->connection.monitor_fd, .events = POLLIN},
    };
    if (poll(news, 2, kvc_socket_wait_ms(deadline_ns)) > 0 && news[1].revents != 0)
        notice_loss(client);
}

static kvc_status await(struct kvc_client *client, uint64_t uid, int64_t timeout_ms,
                        struct kvc_error *err)
{
    const int64_t deadline = kvc_socket_deadline(timeout_ms);
    while (!has_come(client, uid)) {
        const bool more = !client->lost && take_in(client, uid);
        if (has_come(client, uid))
            break;
        if (kvc_link_stopped())
            return kvc_fail(err, KVC_EINTERRUPTED, "interrupted while waiting for the server");
        if (client->lost)
            return kvc_fail(err, KVC_ELOST, "the server closed the connection");
        if (kvc_now_ns() >= deadline)
            return kvc_fail(err, KVC_ETIMEOUT, "no answer within %lld ms", (long long)timeout_ms);
        if (!more)
            wait_for_news(client, deadline);
    }
    return KVC_OK;
}

kvc_status kvc_client_await(struct kvc_client *client, uint64_t uid, int64_t timeout_ms,
                            struct kvc_error *err)
{
    if (uid >= client->request_count || client->states[uid] >= TAKEN)
        return kvc_fail(err, KVC_EUSAGE, "request %llu is not in flight", (unsigned long long)uid);
    const int64_t begin = kvc_now_ns();
    const kvc_status status = await(client, uid, timeout_ms, err);
    client->waited_ns += kvc_now_ns() - begin;
    return status;
}

kvc_status kvc_client_wait(struct kvc_client *client, uint64_t uid, int64_t timeout_ms,
                           struct kvc_frames *reply, struct kvc_error *err)
{
    const kvc_status status = kvc_client_await(client, uid, timeout_ms, err);
    if (status == KVC_ETIMEOUT)
        client->states[uid] = GIVEN_UP;
    KVC_GUARD(status);
    *reply = fetch_arrived(client, uid);
    return KVC_OK;
}

kvc_status kvc_client_receive_raw(struct kvc_client *client, int64_t timeout_ms,
                                  struct kvc_frames *reply, struct kvc_error *err)
{
    KVC_GUARD(await(client, NOT_A_UID, timeout_ms, err));
    *reply = client->unclaimed[client->unclaimed_first];
    client->unclaimed_first = (client->unclaimed_first + 1) % MAX_UNCLAIMED;
    client->unclaimed_count--;
    client->unclaimed_bytes -= bytes_of(reply);
    return KVC_OK;
}
