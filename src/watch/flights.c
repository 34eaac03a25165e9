/* Requests that wait for their replies, and what must not be sent meanwhile. */
#include <stdlib.h>
#include <string.h>

#include "src/watch/state.h"

struct watch_flight *watch_flight_find(struct kvc_watch *watch, struct kvc_str client,
                                       struct kvc_bytes uid)
{
    const struct kvc_str wanted = {(const char *)uid.data, uid.size};
    struct watch_flight *flight;
    TAILQ_FOREACH(flight, &watch->flights, in_list)
    {
        if (kvc_str_equal(flight->client, client) && kvc_str_equal(flight->uid, wanted))
            return flight;
    }
    return NULL;
}

struct watch_flight *watch_flight_add(struct kvc_watch *watch, struct kvc_str client,
                                      struct kvc_bytes uid, enum kvc_op op)
{
    struct watch_flight *flight = kvc_alloc_zero(1, sizeof(*flight));
    flight->client = watch_copy(client);
    flight->uid = watch_copy((struct kvc_str){(const char *)uid.data, uid.size});
    flight->op = op;
    flight->sent_ms = watch->now_ms;
    TAILQ_INSERT_TAIL(&watch->flights, flight, in_list);
    watch->flight_count++;
    return flight;
}

void watch_flight_remove(struct kvc_watch *watch, struct watch_flight *flight)
{
    TAILQ_REMOVE(&watch->flights, flight, in_list);
    watch->flight_count--;
    watch_free(flight->client);
    watch_free(flight->uid);
    watch_free(flight->request_id);
    free(flight);
}

#define BIT(op) (UINT64_C(1) << KVC_OP_##op)

_Static_assert(KVC_OP_COUNT <= 64, "sets of operations are bits of one word");

static const uint64_t with_a_key = BIT(STORE) | BIT(RETRIEVE) | BIT(LOOKUP) |
                                   BIT(FREE_LOOKUP_LOCKS) | BIT(PREPARE_STORE) | BIT(COMMIT_STORE) |
                                   BIT(PREPARE_RETRIEVE) | BIT(COMMIT_RETRIEVE);

static bool is_in(uint64_t set, enum kvc_op op)
{
    return (set >> op & 1) != 0;
}

void watch_flight_describe(struct watch_flight *flight, const struct kvc_request *request)
{
    flight->has_key = is_in(with_a_key, request->op);
    if (flight->has_key)
        watch_key_identity(&request->key, flight->identity);
    flight->request_id =
        watch_copy(flight->has_key ? request->key.request_id : request->request_id);
    flight->instance_id = request->op == KVC_OP_REGISTER_ENGINE_DRIVEN
                              ? request->engine_driven.instance_id
                              : request->instance_id;
}

/* What makes two requests depend on each other. */
enum bond { BY_INSTANCE, BY_REQUEST, BY_KEY };

/* None of `later` may be sent while one of `earlier` is not answered (protocol.md 1.5). */
static const struct dependency {
    uint64_t earlier, later;
    enum bond bond;
} dependencies[] = {
    {BIT(REGISTER_KV_CACHE), BIT(STORE) | BIT(RETRIEVE) | BIT(UNREGISTER_KV_CACHE), BY_INSTANCE},
    {BIT(REGISTER_ENGINE_DRIVEN),
     BIT(PREPARE_STORE) | BIT(COMMIT_STORE) | BIT(PREPARE_RETRIEVE) | BIT(COMMIT_RETRIEVE) |
         BIT(UNREGISTER_ENGINE_DRIVEN),
     BY_INSTANCE},
    {BIT(STORE) | BIT(RETRIEVE), BIT(UNREGISTER_KV_CACHE), BY_INSTANCE},
    {BIT(PREPARE_STORE) | BIT(COMMIT_STORE) | BIT(PREPARE_RETRIEVE) | BIT(COMMIT_RETRIEVE),
     BIT(UNREGISTER_ENGINE_DRIVEN), BY_INSTANCE},
    {BIT(LOOKUP),
     BIT(QUERY_PREFETCH_STATUS) | BIT(WAIT_PREFETCH_STATUS) | BIT(QUERY_PREFETCH_LOOKUP_HITS) |
         BIT(FREE_LOOKUP_LOCKS) | BIT(RETRIEVE) | BIT(PREPARE_RETRIEVE) | BIT(END_SESSION),
     BY_REQUEST},
    {BIT(QUERY_PREFETCH_STATUS) | BIT(WAIT_PREFETCH_STATUS), BIT(RETRIEVE) | BIT(PREPARE_RETRIEVE),
     BY_REQUEST},
    {BIT(STORE) | BIT(RETRIEVE) | BIT(PREPARE_STORE) | BIT(COMMIT_STORE) | BIT(PREPARE_RETRIEVE) |
         BIT(COMMIT_RETRIEVE),
     BIT(END_SESSION), BY_REQUEST},
    {BIT(PREPARE_STORE), BIT(COMMIT_STORE), BY_KEY},
    {BIT(PREPARE_RETRIEVE), BIT(COMMIT_RETRIEVE), BY_KEY},
};

static bool are_bound(const struct watch_flight *a, const struct watch_flight *b, enum bond bond)
{
    if (bond == BY_INSTANCE)
        return a->instance_id == b->instance_id;
    if (bond == BY_REQUEST)
        return kvc_str_equal(a->request_id, b->request_id);
    return a->instance_id == b->instance_id &&
           memcmp(a->identity, b->identity, sizeof(a->identity)) == 0;
}

static bool depends_on(const struct watch_flight *later, const struct watch_flight *earlier)
{
    for (size_t i = 0; i < KVC_COUNT_OF(dependencies); i++) {
        const struct dependency *row = &dependencies[i];
        if (is_in(row->earlier, earlier->op) && is_in(row->later, later->op) &&
            are_bound(earlier, later, row->bond))
            return true;
    }
    return false;
}

void watch_check_order(struct kvc_watch *watch, const struct watch_flight *flight)
{
    const struct watch_flight *earlier;
    TAILQ_FOREACH(earlier, &watch->flights, in_list)
    {
        if (earlier == flight)
            return;
        /* What is wrong in itself is not answered, and has been said. */
        if (!earlier->found && depends_on(flight, earlier)) {
            watch_found(watch, KVC_RULE_SENT_BEFORE_REPLY, "%s has not been answered",
                        kvc_op_name(earlier->op));
            return;
        }
    }
}
