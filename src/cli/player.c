#include "src/cli/player.h"

#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "src/base/clock.h"
#include "src/kv/segment.h"
#include "src/link/client.h"
#include "src/watch/compare.h"
#include "src/wire/message.h"

enum {
    LONGEST_PAUSE_MS = 50, /* of the recorded pauses that are kept */
    SILENCE_MS = 200,      /* at the end, for replies where none was recorded */
    RACE_MS = 100,         /* a lookup so soon after a STORE may see it or not */
};

/* A request that was sent and not answered yet. */
struct waiting {
    TAILQ_ENTRY(waiting) in_list;
    struct kvc_bytes uid; /* in the recording */
    enum kvc_op op;
    size_t message;
};

/* A reply that came before the recorded one of its place. */
struct early {
    TAILQ_ENTRY(early) in_list;
    struct kvc_frames frames;
};

struct connection {
    TAILQ_ENTRY(connection) in_list;
    int64_t number; /* in the recording */
    struct kvc_client *client;
    TAILQ_HEAD(, waiting) waiting;
    TAILQ_HEAD(, early) early;
};

/* A segment in the place of a recorded one. */
struct stand_in {
    TAILQ_ENTRY(stand_in) in_list;
    char *recorded_name;
    struct kvc_segment segment;
};

struct player {
    const struct kvc_recording *recording;
    const struct kvc_player_options *options;
    struct kvc_played *played;
    TAILQ_HEAD(, connection) connections;
    TAILQ_HEAD(, stand_in) stand_ins;
    double last_store;   /* recorded time of the latest reply to a STORE */
    bool lookup_is_racy; /* the latest one */
};

/* ---- connections ---- */

static kvc_status connection_of(struct player *player, int64_t number,
                                struct connection **connection, struct kvc_error *err)
{
    TAILQ_FOREACH(*connection, &player->connections, in_list)
    {
        if ((*connection)->number == number)
            return KVC_OK;
    }
    struct kvc_client *client = NULL;
    KVC_GUARD(kvc_client_open(player->options->rpc_url, player->options->connect_timeout_ms,
                              &client, err));
    struct connection *opened = kvc_alloc_zero(1, sizeof(*opened));
    opened->number = number;
    opened->client = client;
    TAILQ_INIT(&opened->waiting);
    TAILQ_INIT(&opened->early);
    TAILQ_INSERT_TAIL(&player->connections, opened, in_list);
    *connection = opened;
    return KVC_OK;
}

static void forget_waiting(struct connection *connection, struct waiting *waiting)
{
    TAILQ_REMOVE(&connection->waiting, waiting, in_list);
    free(waiting);
}

static void forget_early(struct connection *connection, struct early *early)
{
    TAILQ_REMOVE(&connection->early, early, in_list);
    kvc_frames_clear(&early->frames);
    free(early);
}

static void close_connection(struct player *player, struct connection *connection)
{
    while (!TAILQ_EMPTY(&connection->waiting))
        forget_waiting(connection, TAILQ_FIRST(&connection->waiting));
    while (!TAILQ_EMPTY(&connection->early))
        forget_early(connection, TAILQ_FIRST(&connection->early));
    TAILQ_REMOVE(&player->connections, connection, in_list);
    kvc_client_close(connection->client);
    free(connection);
}

static struct waiting *waiting_for(struct connection *connection, struct kvc_bytes uid)
{
    struct waiting *waiting;
    TAILQ_FOREACH(waiting, &connection->waiting, in_list)
    {
        if (kvc_bytes_equal(waiting->uid, uid))
            return waiting;
    }
    return NULL;
}

/* ---- segments ---- */

/* A segment of our own for a recorded name; the same one when it is named again. */
static kvc_status stand_in_of(struct player *player, const struct kvc_tensor_handle *handle,
                              struct stand_in **stand_in, struct kvc_error *err)
{
    TAILQ_FOREACH(*stand_in, &player->stand_ins, in_list)
    {
        if (kvc_str_is(handle->shm_name, (*stand_in)->recorded_name) &&
            (*stand_in)->segment.size >= (size_t)handle->nbytes)
            return KVC_OK;
    }
    struct kvc_segment segment = {0};
    char name[sizeof(segment.name)];
    kvc_segment_name("lmcache_kv_", name, sizeof(name));
    KVC_GUARD(kvc_segment_create(name, (size_t)handle->nbytes, &segment, err));
    struct stand_in *made = kvc_alloc_zero(1, sizeof(*made));
    made->recorded_name = kvc_format(KVC_STR_FMT, KVC_STR_ARG(handle->shm_name));
    made->segment = segment;
    TAILQ_INSERT_TAIL(&player->stand_ins, made, in_list);
    *stand_in = made;
    return KVC_OK;
}

static void remove_stand_in(struct player *player, struct stand_in *stand_in)
{
    TAILQ_REMOVE(&player->stand_ins, stand_in, in_list);
    kvc_segment_close(&stand_in->segment);
    free(stand_in->recorded_name);
    free(stand_in);
}

/* The request with its handles naming segments that there are. */
static kvc_status rename_segments(struct player *player, struct kvc_request *request,
                                  struct kvc_arena *arena, struct kvc_error *err)
{
    struct kvc_tensor_handle *handles =
        kvc_arena_alloc_array(arena, request->handles.count, sizeof(*handles));
    for (size_t i = 0; i < request->handles.count; i++) {
        struct stand_in *stand_in = NULL;
        handles[i] = request->handles.items[i];
        KVC_GUARD(stand_in_of(player, &handles[i], &stand_in, err));
        handles[i].shm_name = kvc_str_of(stand_in->segment.name);
    }
    request->handles.items = handles;
    return KVC_OK;
}

/* Encodes a request anew, under the uid and operation frames of the recorded one. */
static kvc_status encode_like(const struct kvc_dialect *dialect, const struct kvc_request *request,
                              const struct kvc_frames *recorded, struct kvc_frames *frames,
                              struct kvc_error *err)
{
    struct kvc_frames body = {0};
    const kvc_status status = kvc_request_encode(dialect, request, &body, err);
    for (size_t i = 0; status == KVC_OK && i < body.count + 1; i++) {
        const struct kvc_bytes frame =
            i < 2 ? kvc_frames_view(recorded, i) : kvc_frames_view(&body, i - 1);
        kvc_frames_append_copy(frames, frame.data, frame.size);
    }
    kvc_frames_clear(&body);
    return status;
}

/* What is sent for a recorded request; requests that do not read are sent as they are. */
static kvc_status prepare(struct player *player, const struct kvc_frames *recorded,
                          struct kvc_frames *frames, enum kvc_op *op, struct kvc_error *err)
{
    struct kvc_arena arena = {0};
    struct kvc_request request;
    const struct kvc_dialect *dialect = player->options->dialect;
    kvc_status status = kvc_request_decode(dialect, recorded, &arena, &request, NULL);
    *op = request.op;
    if (status == KVC_OK && request.handles.count > 0) {
        status = rename_segments(player, &request, &arena, err);
        if (status == KVC_OK)
            status = encode_like(dialect, &request, recorded, frames, err);
    } else {
        kvc_frames_copy(recorded, frames);
        status = KVC_OK;
    }
    kvc_arena_clear(&arena);
    return status;
}

/* ---- differences ---- */

static void say_difference(const struct player *player, size_t number, enum kvc_op op,
                           const char *lines)
{
    const struct kvc_recorded_message *message = &player->recording->messages[number];
    player->played->differences++;
    while (*lines != '\0') {
        const size_t size = strcspn(lines, "\n");
        fprintf(player->options->out, "message %zu (connection %lld): %s: %.*s\n", number,
                (long long)message->client, op == KVC_OP_NONE ? "no operation" : kvc_op_name(op),
                (int)size, lines);
        lines += size + (lines[size] == '\n');
    }
}

/* ---- messages ---- */

static bool is_soon(double earlier, double later)
{
    return later - earlier < RACE_MS / 1000.0;
}

/* Keeps the recorded pause before a request, if it was short. */
static void pause_before(const struct kvc_recording *recording, size_t number)
{
    if (number == 0)
        return;
    const double seconds =
        recording->messages[number].seconds - recording->messages[number - 1].seconds;
    if (seconds > 0)
        kvc_sleep_ms(seconds * 1000 < LONGEST_PAUSE_MS ? (int64_t)(seconds * 1000)
                                                       : LONGEST_PAUSE_MS);
}

static kvc_status play_request(struct player *player, size_t number, struct kvc_error *err)
{
    const struct kvc_recorded_message *message = &player->recording->messages[number];
    struct connection *connection = NULL;
    struct kvc_frames frames = {0};
    enum kvc_op op = KVC_OP_NONE;
    KVC_GUARD(connection_of(player, message->client, &connection, err));
    const kvc_status status = prepare(player, &message->frames, &frames, &op, err);
    if (status != KVC_OK) {
        kvc_frames_clear(&frames);
        return status;
    }
    if (op == KVC_OP_LOOKUP)
        player->lookup_is_racy = is_soon(player->last_store, message->seconds);
    pause_before(player->recording, number);
    struct waiting *waiting = kvc_alloc_zero(1, sizeof(*waiting));
    *waiting =
        (struct waiting){.uid = message->frames.count > 0 ? kvc_frames_view(&message->frames, 0)
                                                          : (struct kvc_bytes){0},
                         .op = op,
                         .message = number};
    TAILQ_INSERT_TAIL(&connection->waiting, waiting, in_list);
    player->played->requests++;
    return kvc_client_send_raw(connection->client, &frames, err);
}

/* Takes the reply with that uid: one that came early, or the next that comes. */
static kvc_status take_reply(struct connection *connection, struct kvc_bytes uid,
                             int64_t timeout_ms, struct kvc_frames *reply, struct kvc_error *err)
{
    const int64_t deadline = kvc_now_ms() + timeout_ms;
    struct early *early;
    TAILQ_FOREACH(early, &connection->early, in_list)
    {
        if (!kvc_bytes_equal(kvc_frames_view(&early->frames, 0), uid))
            continue;
        *reply = early->frames;
        early->frames = (struct kvc_frames){0};
        forget_early(connection, early);
        return KVC_OK;
    }
    for (;;) {
        const int64_t left = deadline - kvc_now_ms();
        KVC_GUARD(kvc_client_receive_raw(connection->client, left > 0 ? left : 0, reply, err));
        if (reply->count > 0 && kvc_bytes_equal(kvc_frames_view(reply, 0), uid))
            return KVC_OK;
        early = kvc_alloc_zero(1, sizeof(*early));
        early->frames = *reply;
        *reply = (struct kvc_frames){0};
        if (early->frames.count == 0)
            free(early);
        else
            TAILQ_INSERT_TAIL(&connection->early, early, in_list);
    }
}

static void compare(struct player *player, size_t number, const struct waiting *waiting,
                    const struct kvc_frames *reply)
{
    const struct kvc_recorded_message *message = &player->recording->messages[number];
    struct kvc_buffer lines = {0};
    player->played->compared++;
    kvc_replies_compare(waiting->op, player->lookup_is_racy, &message->frames, reply, &lines);
    if (lines.size > 0)
        say_difference(player, number, waiting->op, kvc_buffer_text(&lines));
    kvc_buffer_clear(&lines);
}

/* A reply that was recorded must come. */
static kvc_status play_reply(struct player *player, size_t number, struct kvc_error *err)
{
    const struct kvc_recorded_message *message = &player->recording->messages[number];
    struct connection *connection = NULL;
    struct kvc_frames reply = {0};
    if (message->frames.count == 0)
        return KVC_OK;
    KVC_GUARD(connection_of(player, message->client, &connection, err));
    const struct kvc_bytes uid = kvc_frames_view(&message->frames, 0);
    struct waiting *waiting = waiting_for(connection, uid);
    if (waiting == NULL)
        return KVC_OK; /* a stream, or to a request before the recording began */
    const kvc_status status = take_reply(connection, uid, player->options->timeout_ms, &reply, err);
    if (status == KVC_OK)
        compare(player, number, waiting, &reply);
    else if (status == KVC_ETIMEOUT)
        say_difference(player, number, waiting->op, "recorded a reply, now none");
    if (waiting->op == KVC_OP_STORE)
        player->last_store = message->seconds;
    forget_waiting(connection, waiting);
    kvc_frames_clear(&reply);
    return status == KVC_ETIMEOUT ? KVC_OK : status;
}

/* Requests that nobody answered when they were recorded must stay so. */
static kvc_status await_silence(struct player *player, struct kvc_error *err)
{
    struct connection *connection;
    TAILQ_FOREACH(connection, &player->connections, in_list)
    {
        struct waiting *waiting;
        TAILQ_FOREACH(waiting, &connection->waiting, in_list)
        {
            struct kvc_frames reply = {0};
            const kvc_status status = take_reply(connection, waiting->uid, SILENCE_MS, &reply, err);
            kvc_frames_clear(&reply);
            if (status == KVC_OK)
                say_difference(player, waiting->message, waiting->op,
                               "recorded no reply, now there is one");
            else if (status != KVC_ETIMEOUT)
                return status;
        }
    }
    return KVC_OK;
}

static kvc_status play_all(struct player *player, struct kvc_error *err)
{
    for (size_t i = 0; i < player->recording->count; i++)
        KVC_GUARD(player->recording->messages[i].from_server ? play_reply(player, i, err)
                                                             : play_request(player, i, err));
    return await_silence(player, err);
}

kvc_status kvc_play(const struct kvc_recording *recording, const struct kvc_player_options *options,
                    struct kvc_played *played, struct kvc_error *err)
{
    struct player player = {
        .recording = recording, .options = options, .played = played, .last_store = -1e9};
    *played = (struct kvc_played){0};
    TAILQ_INIT(&player.connections);
    TAILQ_INIT(&player.stand_ins);
    const kvc_status status = play_all(&player, err);
    while (!TAILQ_EMPTY(&player.connections))
        close_connection(&player, TAILQ_FIRST(&player.connections));
    while (!TAILQ_EMPTY(&player.stand_ins))
        remove_stand_in(&player, TAILQ_FIRST(&player.stand_ins));
    return status;
}
