/* A server that is correct but for one named lie.
 *
 * usage: hostile --list             one behaviour a line: name, allowed exit statuses, what it does
 *        hostile BEHAVIOUR [RELEASE]  serves until its standard input closes; first prints two lines,
 *                                   the RPC and the HTTP address; ends with status 3 when a byte of
 *                                   its decoy pool was written though no slot in it was good */
#include "tests/meta/hostile/peer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <zmq.h>

#include "src/link/socket.h"
#include "tests/mock_server/mock.h"

enum { POOL_BYTES = 4 << 20, DECOY_FILL = 0x77, SLICE_MS = 1000, WROTE = 3 };

/* ---- behaviours by name ---- */

/* Whose replies a behaviour of hostile_frames spoils, and what the commands may then end with. */
static const struct scope {
    const char *name;
    uint64_t ops;
    const char *exits;
} scopes[] = {
    {"everything", ALL_OPS, "3 3 3 3"},
    {"registering", REGISTER_OPS, "0 1 3 3"},
    {"sessions", SESSION_OPS, "0 1 1 1"},
    {"transfers", TRANSFER_OPS, "0 1 1 1"},
};

static const struct behaviours *const fixed_tables[] = {
    &hostile_values, &hostile_slots, &hostile_inline, &hostile_sockets, &hostile_web};

static void list_behaviours(void)
{
    for (size_t s = 0; s < KVC_COUNT_OF(scopes); s++) {
        for (size_t i = 0; i < hostile_frames.count; i++) {
            const struct behaviour *row = &hostile_frames.items[i];
            printf("%s/%s\t%s\t%s\n", scopes[s].name, row->name,
                   row->exits != NULL ? row->exits : scopes[s].exits, row->summary);
        }
    }
    for (size_t t = 0; t < KVC_COUNT_OF(fixed_tables); t++) {
        for (size_t i = 0; i < fixed_tables[t]->count; i++) {
            const struct behaviour *row = &fixed_tables[t]->items[i];
            printf("%s\t%s\t%s\n", row->name, row->exits, row->summary);
        }
    }
}

static bool find_in(const struct behaviours *table, const char *name, struct behaviour *found)
{
    for (size_t i = 0; i < table->count; i++) {
        if (strcmp(table->items[i].name, name) == 0) {
            *found = table->items[i];
            return true;
        }
    }
    return false;
}

static bool find_behaviour(const char *name, struct behaviour *found)
{
    for (size_t t = 0; t < KVC_COUNT_OF(fixed_tables); t++)
        if (find_in(fixed_tables[t], name, found))
            return true;
    for (size_t s = 0; s < KVC_COUNT_OF(scopes); s++) {
        const size_t size = strlen(scopes[s].name);
        if (strncmp(name, scopes[s].name, size) == 0 && name[size] == '/' &&
            find_in(&hostile_frames, name + size + 1, found)) {
            found->ops = scopes[s].ops;
            return true;
        }
    }
    return false;
}

/* ---- the mock behind ---- */

struct behind {
    pid_t process;
    int stop_fd; /* the mock ends when this closes */
    void *zmq;
    void *dealer;
    char http_url[256];
};

static _Noreturn void be_mock(const struct peer *peer, int ready_fd, int stop_fd)
{
    const struct kvc_mock_options options = {
        .bind = "tcp://127.0.0.1:0",
        .http = "127.0.0.1:0",
        .dialect = peer->dialect,
        .pool_size = POOL_BYTES,
        .no_pool = peer->behaviour->inline_only,
        .ready_fd = ready_fd,
        .stop_fd = stop_fd,
    };
    struct kvc_error err = KVC_ERROR_INIT;
    if (kvc_mock_run(&options, &err) != KVC_OK)
        fprintf(stderr, "hostile: the mock does not run: %s\n", err.what);
    _exit(0);
}

static bool read_line(FILE *file, char *line, size_t size)
{
    if (fgets(line, (int)size, file) == NULL)
        return false;
    line[strcspn(line, "\n")] = '\0';
    return true;
}

static bool start_behind(const struct peer *peer, struct behind *behind)
{
    int ready[2], stop[2];
    char rpc_url[256] = "";
    if (pipe(ready) != 0 || pipe(stop) != 0)
        return false;
    const pid_t child = fork();
    if (child == 0) {
        close(stop[1]);
        be_mock(peer, ready[1], stop[0]);
    }
    close(ready[1]);
    close(stop[0]);
    behind->process = child;
    behind->stop_fd = stop[1];
    FILE *told = fdopen(ready[0], "r");
    const bool started = child > 0 && told != NULL && read_line(told, rpc_url, sizeof(rpc_url)) &&
                         read_line(told, behind->http_url, sizeof(behind->http_url));
    if (told != NULL)
        fclose(told);
    behind->zmq = zmq_ctx_new();
    behind->dealer = zmq_socket(behind->zmq, ZMQ_DEALER);
    kvc_socket_set_int(behind->dealer, ZMQ_LINGER, 0);
    return started && zmq_connect(behind->dealer, rpc_url) == 0;
}

/* ---- requests under way ---- */

/* Who asked, by the number that is the uid towards the mock. */
struct asked {
    struct kvc_buffer identity;
    struct kvc_frames request;
    enum kvc_op op;
};

struct ledger {
    struct asked *items;
    uint32_t count;
};

static uint32_t enter(struct ledger *ledger, const struct asked *asked)
{
    ledger->items = kvc_realloc(ledger->items, (ledger->count + 1) * sizeof(*ledger->items));
    ledger->items[ledger->count] = *asked;
    return ledger->count++;
}

static void strike_out(struct asked *asked)
{
    kvc_buffer_clear(&asked->identity);
    kvc_frames_clear(&asked->request);
}

static void ask_behind(const struct peer *peer, struct behind *behind, struct ledger *ledger,
                       struct kvc_buffer *identity, struct kvc_frames *request)
{
    struct asked asked = {.identity = *identity, .request = *request};
    struct kvc_frames forwarded = {0};
    if (request->count > 1)
        kvc_request_op(peer->dialect, kvc_frames_view(request, 1), &asked.op, NULL);
    const uint32_t number = enter(ledger, &asked);
    kvc_frames_append_copy(&forwarded, &number, sizeof(number));
    for (size_t i = 1; i < request->count; i++)
        kvc_frames_append_copy(&forwarded, request->items[i].data, request->items[i].size);
    kvc_socket_send(behind->dealer, (struct kvc_bytes){NULL, 0}, &forwarded);
}

/* ---- replies ---- */

void peer_send(struct peer *peer, struct kvc_bytes identity, const struct kvc_frames *frames)
{
    struct kvc_frames copy = {0};
    kvc_frames_copy(frames, &copy);
    kvc_server_send(peer->front, identity, &copy, NULL);
}

struct kvc_str reply_repeat(struct kvc_reply *reply, char c, size_t count)
{
    char *text = kvc_arena_alloc(&reply->arena, count);
    memset(text, c, count);
    return (struct kvc_str){text, count};
}

void exchange_drop_result(struct exchange *exchange)
{
    struct kvc_frames kept = {0};
    for (size_t i = 0; i < 2 && i < exchange->reply.count; i++)
        kvc_frames_append_copy(&kept, exchange->reply.items[i].data, exchange->reply.items[i].size);
    kvc_frames_clear(&exchange->reply);
    exchange->reply = kept;
}

void exchange_set_result(struct exchange *exchange, struct kvc_buffer *result)
{
    exchange_drop_result(exchange);
    kvc_frames_append_buffer(&exchange->reply, result);
}

static void revise(struct peer *peer, struct exchange *exchange)
{
    struct kvc_frames copy = {0};
    struct kvc_frames again = {0};
    struct kvc_reply reply;
    kvc_frames_copy(&exchange->reply, &copy);
    if (kvc_reply_decode(peer->dialect, exchange->op, &copy, &reply, NULL) == KVC_OK) {
        peer->behaviour->revise(peer, &reply);
        kvc_reply_encode(peer->dialect, &reply, &again, NULL);
        exchange_drop_result(exchange);
        if (again.count > 0)
            kvc_frames_append_copy(&exchange->reply, again.items[0].data, again.items[0].size);
    }
    kvc_frames_clear(&again);
    kvc_reply_clear(&reply);
}

/* The registration offers the peer's own pool. */
static void offer_decoy(struct peer *peer, struct exchange *exchange)
{
    struct kvc_buffer result = {0};
    const struct kvc_reply reply = {
        .op = exchange->op,
        .pool = {kvc_str_of(peer->decoy.name + 1), peer->behaviour->decoy_bytes}};
    struct kvc_frames frames = {0};
    kvc_reply_encode(peer->dialect, &reply, &frames, NULL);
    kvc_buffer_append(&result, frames.items[0].data, frames.items[0].size);
    kvc_frames_clear(&frames);
    exchange_set_result(exchange, &result);
}

static void spoil(struct peer *peer, struct exchange *exchange)
{
    const struct behaviour *behaviour = peer->behaviour;
    if (behaviour->decoy_bytes > 0 && exchange->op == KVC_OP_REGISTER_ENGINE_DRIVEN)
        offer_decoy(peer, exchange);
    if ((behaviour->ops & OP_BIT(exchange->op)) == 0)
        return;
    peer->spoiled++;
    if (behaviour->result.data != NULL) {
        struct kvc_buffer result = {0};
        kvc_buffer_append(&result, behaviour->result.data, behaviour->result.size);
        exchange_set_result(exchange, &result);
    }
    if (behaviour->revise != NULL)
        revise(peer, exchange);
    if (behaviour->spoil != NULL)
        behaviour->spoil(peer, exchange);
}

static void pass_on(struct peer *peer, struct ledger *ledger, struct kvc_frames *answer)
{
    uint32_t number;
    if (answer->count < 2 || answer->items[0].size != sizeof(number))
        return;
    memcpy(&number, answer->items[0].data, sizeof(number));
    struct asked *asked = &ledger->items[number];
    struct exchange exchange = {kvc_buffer_view(&asked->identity), &asked->request, asked->op, {0}};
    const struct kvc_bytes uid = kvc_frames_view(&asked->request, 0);
    kvc_frames_append_copy(&exchange.reply, uid.data, uid.size);
    for (size_t i = 1; i < answer->count; i++)
        kvc_frames_append_copy(&exchange.reply, answer->items[i].data, answer->items[i].size);
    spoil(peer, &exchange);
    if (exchange.reply.count > 0)
        kvc_server_send(peer->front, exchange.identity, &exchange.reply, NULL);
    kvc_frames_clear(&exchange.reply);
    strike_out(asked);
}

/* ---- the loop ---- */

static int wake_on(int first_fd, int second_fd)
{
    const int fd = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN};
    event.data.fd = first_fd;
    epoll_ctl(fd, EPOLL_CTL_ADD, first_fd, &event);
    event.data.fd = second_fd;
    epoll_ctl(fd, EPOLL_CTL_ADD, second_fd, &event);
    return fd;
}

static bool input_is_closed(int wake_fd)
{
    struct epoll_event events[2];
    const int count = epoll_wait(wake_fd, events, 2, 0);
    for (int i = 0; i < count; i++)
        if (events[i].data.fd == STDIN_FILENO)
            return true;
    return false;
}

static void serve(struct peer *peer, struct behind *behind)
{
    struct ledger ledger = {0};
    const int wake_fd = wake_on(kvc_socket_fd(behind->dealer), STDIN_FILENO);
    kvc_server_set_wake_fd(peer->front, wake_fd);
    while (!input_is_closed(wake_fd)) {
        struct kvc_buffer identity;
        struct kvc_frames frames = {0};
        if (kvc_server_receive(peer->front, SLICE_MS, &identity, &frames, NULL) == KVC_OK)
            ask_behind(peer, behind, &ledger, &identity, &frames);
        struct kvc_frames answer = {0};
        while (kvc_socket_receive(behind->dealer, NULL, &answer)) {
            pass_on(peer, &ledger, &answer);
            kvc_frames_clear(&answer);
        }
    }
    for (uint32_t i = 0; i < ledger.count; i++)
        strike_out(&ledger.items[i]);
    free(ledger.items);
    kvc_frames_clear(&peer->held_reply);
    kvc_buffer_clear(&peer->held);
    close(wake_fd);
}

/* ---- start and end ---- */

static bool open_decoy(struct peer *peer)
{
    char name[96];
    if (peer->behaviour->decoy_bytes == 0)
        return true;
    kvc_segment_name("hostile-", name, sizeof(name));
    if (kvc_segment_create(name, POOL_BYTES, &peer->decoy, NULL) != KVC_OK)
        return false;
    memset(peer->decoy.data, DECOY_FILL, peer->decoy.size);
    return true;
}

/* False when somebody wrote into it. */
static bool close_decoy(struct peer *peer)
{
    bool untouched = true;
    if (peer->made_path[0] != '\0')
        remove(peer->made_path);
    for (size_t i = 0; i < peer->decoy.size && untouched; i++)
        untouched = peer->decoy.data[i] == DECOY_FILL;
    kvc_segment_close(&peer->decoy);
    return untouched;
}

static int run(struct peer *peer)
{
    struct behind behind = {.stop_fd = -1};
    struct kvc_error err = KVC_ERROR_INIT;
    char rpc_url[256], http_url[256];
    if (!open_decoy(peer) || !start_behind(peer, &behind) ||
        kvc_server_open("tcp://127.0.0.1:*", &peer->front, &err) != KVC_OK) {
        fprintf(stderr, "hostile: cannot start: %s\n", err.what);
        return 2;
    }
    snprintf(rpc_url, sizeof(rpc_url), "%s", kvc_server_url(peer->front));
    snprintf(http_url, sizeof(http_url), "%s", behind.http_url);
    if (peer->behaviour->serve_zmq != NULL)
        hostile_listen(peer->behaviour->serve_zmq, "tcp", rpc_url, sizeof(rpc_url));
    if (peer->behaviour->serve_http != NULL)
        hostile_listen(peer->behaviour->serve_http, "http", http_url, sizeof(http_url));
    printf("%s\n%s\n", rpc_url, http_url);
    fflush(stdout);
    serve(peer, &behind);

    kvc_server_close(peer->front);
    zmq_close(behind.dealer);
    zmq_ctx_term(behind.zmq);
    close(behind.stop_fd);
    waitpid(behind.process, NULL, 0);
    return close_decoy(peer) ? 0 : WROTE;
}

int main(int argc, char **argv)
{
    struct behaviour behaviour;
    struct peer peer = {.behaviour = &behaviour};
    if (argc == 2 && strcmp(argv[1], "--list") == 0) {
        list_behaviours();
        return 0;
    }
    peer.dialect = kvc_dialect_find(kvc_str_of(argc > 2 ? argv[2] : "0.5.6"));
    if (argc < 2 || !find_behaviour(argv[1], &behaviour) || peer.dialect == NULL) {
        fprintf(stderr, "usage: hostile --list | BEHAVIOUR [RELEASE]\n");
        return 2;
    }
    return run(&peer);
}
