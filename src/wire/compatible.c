#include "src/wire/compatible.h"

#include <stdlib.h>

#include "src/wire/operations.h"
#include "src/wire/values.h"

static char *id_differs(const struct kvc_dialect *server, const struct kvc_dialect *client,
                        enum kvc_op op)
{
    const int id = client->id[op];
    if (!server->has[op])
        return kvc_format("the server has no such operation");
    if (server->id[op] == id)
        return NULL;
    const enum kvc_op taken_for = kvc_op_by_id(server, id);
    return kvc_format("the client sends id %d, the server has it as %d%s%s", id, server->id[op],
                      taken_for == KVC_OP_NONE ? "" : " and takes the other for ",
                      taken_for == KVC_OP_NONE ? "" : kvc_op_name(taken_for));
}

static size_t count_payloads(const struct kvc_dialect *dialect, enum kvc_op op)
{
    size_t count = 0;
    for (const struct kvc_payload *payload = kvc_operation_find(op)->payloads;
         payload != NULL && payload->name != NULL; payload++)
        count += kvc_payload_exists(payload, dialect) ? 1 : 0;
    return count;
}

static char *payload_count_differs(const struct kvc_dialect *server,
                                   const struct kvc_dialect *client, enum kvc_op op)
{
    const size_t sent = count_payloads(client, op);
    const size_t wanted = count_payloads(server, op);
    return sent == wanted
               ? NULL
               : kvc_format("the client sends %zu payloads, the server wants %zu", sent, wanted);
}

static bool has_payload_of(enum kvc_op op, const struct kvc_type *type)
{
    for (const struct kvc_payload *payload = kvc_operation_find(op)->payloads;
         payload != NULL && payload->name != NULL; payload++)
        if (payload->type == type)
            return true;
    return false;
}

static const char *handle_form(const struct kvc_dialect *dialect)
{
    return kvc_dialect_has(dialect, KVC_FEATURE_HANDLE_PICKLE) ? "pickles" : "msgpack";
}

static char *handle_form_differs(const struct kvc_dialect *server, const struct kvc_dialect *client,
                                 enum kvc_op op)
{
    const uint32_t forms = KVC_FEATURE_HANDLE_PICKLE | KVC_FEATURE_HANDLE_MSGPACK;
    if (!has_payload_of(op, &kvc_type_tensor_handles) ||
        (client->features & server->features & forms) != 0)
        return NULL;
    return kvc_format("the client's tensor handles are %s, the server reads %s",
                      handle_form(client), handle_form(server));
}

/* Of all fields that dialects added, this alone has a default that is refused. */
static char *readers_missing(const struct kvc_dialect *server, const struct kvc_dialect *client,
                             enum kvc_op op)
{
    if (op != KVC_OP_LOOKUP || kvc_dialect_has(client, KVC_FEATURE_KV_READERS) ||
        !kvc_dialect_has(server, KVC_FEATURE_KV_READERS))
        return NULL;
    return kvc_format("the client's key has no num_kv_readers, and the server does not answer");
}

/* NULL: the client's form of the operation is the server's. */
static char *difference(const struct kvc_dialect *server, const struct kvc_dialect *client,
                        enum kvc_op op)
{
    static char *(*const rules[])(const struct kvc_dialect *, const struct kvc_dialect *,
                                  enum kvc_op) = {
        id_differs,
        payload_count_differs,
        handle_form_differs,
        readers_missing,
    };
    char *reason = NULL;
    for (size_t i = 0; i < KVC_COUNT_OF(rules) && reason == NULL; i++)
        reason = rules[i](server, client, op);
    return reason;
}

/* What workers need to store and retrieve, which is less than all operations: in both modes, and in one. */
static const enum kvc_op needed[] = {KVC_OP_GET_CHUNK_SIZE,        KVC_OP_LOOKUP,
                                     KVC_OP_QUERY_PREFETCH_STATUS, KVC_OP_FREE_LOOKUP_LOCKS,
                                     KVC_OP_END_SESSION,           KVC_OP_NONE};
static const enum kvc_op needed_engine_driven[] = {KVC_OP_REGISTER_ENGINE_DRIVEN,
                                                   KVC_OP_UNREGISTER_ENGINE_DRIVEN,
                                                   KVC_OP_PREPARE_STORE,
                                                   KVC_OP_COMMIT_STORE,
                                                   KVC_OP_PREPARE_RETRIEVE,
                                                   KVC_OP_COMMIT_RETRIEVE,
                                                   KVC_OP_NONE};
static const enum kvc_op needed_lmcache_driven[] = {KVC_OP_REGISTER_KV_CACHE,
                                                    KVC_OP_UNREGISTER_KV_CACHE, KVC_OP_STORE,
                                                    KVC_OP_RETRIEVE, KVC_OP_NONE};

static bool serves_all(const struct kvc_dialect *server, const struct kvc_dialect *client,
                       const enum kvc_op *ops)
{
    char *reason = NULL;
    for (; *ops != KVC_OP_NONE && reason == NULL; ops++)
        reason = difference(server, client, *ops);
    free(reason);
    return reason == NULL;
}

/* Which workers get what they need in spite of a difference. */
static const char *still_served(const struct kvc_dialect *server, const struct kvc_dialect *client)
{
    if (!serves_all(server, client, needed))
        return "";
    const bool engine_driven = serves_all(server, client, needed_engine_driven);
    const bool lmcache_driven = serves_all(server, client, needed_lmcache_driven);
    if (engine_driven && lmcache_driven)
        return "; workers store and retrieve all the same";
    if (engine_driven)
        return "; engine-driven workers store and retrieve all the same";
    return lmcache_driven ? "; lmcache-driven workers store and retrieve all the same" : "";
}

/* What only clients send that were told to keep queries, too; no server answers it unless told so. */
static bool is_optional(enum kvc_op op)
{
    return op == KVC_OP_REGISTER_Q_CACHE || op == KVC_OP_UNREGISTER_Q_CACHE || op == KVC_OP_STORE_Q;
}

bool kvc_dialect_serves(const struct kvc_dialect *server, const struct kvc_dialect *client,
                        struct kvc_incompatibility *first)
{
    for (int op = KVC_OP_REGISTER_KV_CACHE; op <= KVC_OP_NOOP; op++) {
        const bool is_sent = client->has[op] && !is_optional((enum kvc_op)op);
        char *reason = is_sent ? difference(server, client, (enum kvc_op)op) : NULL;
        if (reason == NULL)
            continue;
        *first = (struct kvc_incompatibility){
            .op = (enum kvc_op)op,
            .reason = kvc_format("%s%s", reason, still_served(server, client))};
        free(reason);
        return false;
    }
    return true;
}
