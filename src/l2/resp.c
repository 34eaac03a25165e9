/* Objects as strings of a server that speaks Redis' protocol: SET, EXISTS, GET, DEL by hiredis, but
 * for the objects' bytes (resp_bulk.h). */
#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>

#include "src/l2/l2.h"
#include "src/l2/resp_bulk.h"

enum { CONNECT_SECONDS = 5, ANSWER_SECONDS = 30 };

struct config {
    const char *host;
    int64_t port;
    int64_t num_workers;
    const char *username;
    const char *password;
};

struct store {
    const struct config *config;
};

struct lane {
    const struct config *config;
    redisContext *context; /* NULL: not connected */
    struct kvc_resp_input input;
};

#define FIELD(member) offsetof(struct config, member)

static const struct kvc_l2_field fields[] = {
    {.name = "host",
     .kind = KVC_L2_TEXT,
     .offset = FIELD(host),
     .required = true,
     .accepted = "a host's name or address"},
    {.name = "port",
     .kind = KVC_L2_INTEGER,
     .offset = FIELD(port),
     .required = true,
     .minimum = 1,
     .maximum = 65535,
     .accepted = "a port from 1 to 65535"},
    {.name = "num_workers",
     .kind = KVC_L2_INTEGER,
     .offset = FIELD(num_workers),
     .minimum = 1,
     .maximum = 256,
     .accepted = "a number of connections from 1 to 256"},
    {.name = "username",
     .kind = KVC_L2_TEXT,
     .offset = FIELD(username),
     .accepted = "a user's name"},
    {.name = "password",
     .kind = KVC_L2_TEXT,
     .offset = FIELD(password),
     .secret = true,
     .accepted = "a password"},
    {.name = "max_capacity_gb", .kind = KVC_L2_NO_MATTER},
};

static const struct config defaults = {.num_workers = 8, .username = "", .password = ""};

/* ---- connections ---- */

static void disconnect(struct lane *lane)
{
    if (lane->context != NULL)
        redisFree(lane->context);
    lane->context = NULL;
}

static kvc_status lose(struct lane *lane, const char *why, struct kvc_error *err)
{
    kvc_fail(err, KVC_ELOST, "%s:%lld: %s", lane->config->host, (long long)lane->config->port, why);
    disconnect(lane);
    return KVC_ELOST;
}

static kvc_status authenticate(struct lane *lane, struct kvc_error *err)
{
    const struct config *config = lane->config;
    if (config->password[0] == '\0')
        return KVC_OK;
    redisReply *reply =
        config->username[0] == '\0'
            ? redisCommand(lane->context, "AUTH %s", config->password)
            : redisCommand(lane->context, "AUTH %s %s", config->username, config->password);
    if (reply == NULL)
        return lose(lane, lane->context->errstr, err);
    kvc_status status = KVC_OK;
    if (reply->type != REDIS_REPLY_STATUS) {
        status = kvc_fail(err, KVC_EREFUSED, "%s:%lld: %s", config->host, (long long)config->port,
                          reply->type == REDIS_REPLY_ERROR ? reply->str : "no reply to AUTH");
        disconnect(lane);
    }
    freeReplyObject(reply);
    return status;
}

/* Connects unless it is connected: what a lane lost, its next operation tries to have again. */
static kvc_status connect_lane(struct lane *lane, struct kvc_error *err)
{
    const struct config *config = lane->config;
    if (lane->context != NULL)
        return KVC_OK;
    lane->context = redisConnectWithTimeout(config->host, (int)config->port,
                                            (struct timeval){.tv_sec = CONNECT_SECONDS});
    if (lane->context == NULL || lane->context->err != 0) {
        kvc_fail(err, KVC_ECONNECT, "cannot connect to %s:%lld: %s", config->host,
                 (long long)config->port,
                 lane->context == NULL ? "no memory" : lane->context->errstr);
        disconnect(lane);
        return KVC_ECONNECT;
    }
    redisSetTimeout(lane->context, (struct timeval){.tv_sec = ANSWER_SECONDS});
    lane->input = (struct kvc_resp_input){0};
    return authenticate(lane, err);
}

static kvc_status resp_open(const void *config, const struct kvc_l2_memory *memory, void **opened,
                            struct kvc_error *err)
{
    (void)memory, (void)err;
    struct store *store = kvc_alloc_zero(1, sizeof(*store));
    store->config = config;
    *opened = store;
    return KVC_OK;
}

static kvc_status resp_open_lane(void *opened, void **made, struct kvc_error *err)
{
    const struct store *store = opened;
    struct lane *lane = kvc_alloc_zero(1, sizeof(*lane));
    lane->config = store->config;
    const kvc_status status = connect_lane(lane, err);
    if (status == KVC_OK)
        *made = lane;
    else
        free(lane);
    return status;
}

static void resp_close_lane(void *lane)
{
    disconnect(lane);
    free(lane);
}

static kvc_status resp_close(void *store, struct kvc_error *err)
{
    (void)err;
    free(store);
    return KVC_OK;
}

/* ---- operations ---- */

static kvc_status send_command(struct lane *lane, const char *command,
                               const struct kvc_l2_item *item, struct kvc_error *err)
{
    struct kvc_buffer name = {0};
    int done = 0;
    kvc_l2_key_append(&item->key, &name);
    const char *words[] = {command, (const char *)name.data};
    const size_t sizes[] = {strlen(command), name.size};
    redisAppendCommandArgv(lane->context, 2, words, sizes);
    kvc_buffer_clear(&name);
    while (!done)
        if (redisBufferWrite(lane->context, &done) != REDIS_OK)
            return lose(lane, lane->context->errstr, err);
    return KVC_OK;
}

/* The number, or 0 for a status, that a command was answered with. */
static kvc_status receive_number(struct lane *lane, int type, long long *number,
                                 struct kvc_error *err)
{
    void *received;
    if (redisGetReply(lane->context, &received) != REDIS_OK)
        return lose(lane, lane->context->errstr, err);
    redisReply *reply = received;
    kvc_status status = KVC_OK;
    *number = reply->type == REDIS_REPLY_INTEGER ? reply->integer : 0;
    if (reply->type == REDIS_REPLY_ERROR)
        status = kvc_fail(err, KVC_EREFUSED, "%s", kvc_text_show(kvc_str_of(reply->str)).text);
    else if (reply->type != type)
        status = kvc_fail(err, KVC_EFORMAT, "a reply of type %d, not %d", reply->type, type);
    freeReplyObject(reply);
    return status;
}

static kvc_status store_one(struct lane *lane, struct kvc_l2_item *item, struct kvc_error *err)
{
    struct kvc_buffer name = {0};
    struct kvc_error problem = KVC_ERROR_INIT;
    long long nothing;
    kvc_l2_key_append(&item->key, &name);
    const kvc_status sent = kvc_resp_send_set(lane->context->fd, kvc_buffer_view(&name),
                                              (struct kvc_bytes){item->data, item->size}, &problem);
    kvc_buffer_clear(&name);
    if (sent != KVC_OK)
        return lose(lane, problem.what, err);
    KVC_GUARD(receive_number(lane, REDIS_REPLY_STATUS, &nothing, err));
    item->outcome = KVC_L2_DONE;
    return KVC_OK;
}

static kvc_status load_one(struct lane *lane, struct kvc_l2_item *item, struct kvc_error *err)
{
    struct kvc_error problem = KVC_ERROR_INIT;
    bool found = false;
    KVC_GUARD(send_command(lane, "GET", item, err));
    const kvc_status status = kvc_resp_receive_bulk(lane->context->fd, &lane->input, item->data,
                                                    item->size, &found, &problem);
    if (status == KVC_ELOST)
        return lose(lane, problem.what, err);
    if (status != KVC_OK)
        return kvc_fail(err, status, "%s", problem.what);
    item->outcome = found ? KVC_L2_DONE : KVC_L2_ABSENT;
    return KVC_OK;
}

static kvc_status resp_store(void *opaque, struct kvc_l2_item *item, struct kvc_error *err)
{
    struct lane *lane = opaque;
    KVC_GUARD(connect_lane(lane, err));
    return store_one(lane, item, err);
}

static kvc_status resp_load(void *opaque, struct kvc_l2_item *item, struct kvc_error *err)
{
    struct lane *lane = opaque;
    KVC_GUARD(connect_lane(lane, err));
    return load_one(lane, item, err);
}

static kvc_status count_one(struct lane *lane, const char *command, struct kvc_l2_item *item,
                            struct kvc_error *err)
{
    long long count = 0;
    KVC_GUARD(connect_lane(lane, err));
    KVC_GUARD(send_command(lane, command, item, err));
    KVC_GUARD(receive_number(lane, REDIS_REPLY_INTEGER, &count, err));
    item->outcome = count > 0 ? KVC_L2_DONE : KVC_L2_ABSENT;
    return KVC_OK;
}

static kvc_status resp_lookup(void *lane, struct kvc_l2_item *item, struct kvc_error *err)
{
    return count_one(lane, "EXISTS", item, err);
}

static kvc_status resp_remove(void *lane, struct kvc_l2_item *item, struct kvc_error *err)
{
    return count_one(lane, "DEL", item, err);
}

static size_t resp_lanes(const void *config)
{
    return (size_t)((const struct config *)config)->num_workers;
}

const struct kvc_l2_adapter kvc_l2_resp = {
    .type = "resp",
    .title = "NativeConnectorL2Adapter",
    .fields = fields,
    .field_count = KVC_COUNT_OF(fields),
    .config_size = sizeof(struct config),
    .defaults = &defaults,
    .batch = 4,
    .lanes = resp_lanes,
    .open = resp_open,
    .open_lane = resp_open_lane,
    .operations = {resp_store, resp_lookup, resp_load, resp_remove},
    .close_lane = resp_close_lane,
    .close = resp_close,
};
