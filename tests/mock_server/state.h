/* The mock's whole state, and what a handler of one request gets and may do. For the mock's files. */
#ifndef KVC_TESTS_MOCK_SERVER_STATE_H
#define KVC_TESTS_MOCK_SERVER_STATE_H

#include "src/device/cuda.h"
#include "src/watch/watch.h"
#include "src/wire/message.h"
#include "tests/mock_server/defects.h"
#include "tests/mock_server/l2.h"
#include "tests/mock_server/memory.h"
#include "tests/mock_server/mock.h"
#include "tests/mock_server/p2p.h"
#include "tests/mock_server/pool.h"
#include "tests/mock_server/registry.h"
#include "tests/mock_server/session.h"
#include "tests/mock_server/store.h"
#include "tests/mock_server/transfers.h"

/* A limit that was set over HTTP for one salt. */
struct mock_quota {
    LIST_ENTRY(mock_quota) in_list;
    struct kvc_str salt; /* its own copy */
    double limit_gb;
};

struct mock_asker;

/* What defects that end the request loop go by. */
struct mock_endings {
    LIST_HEAD(, mock_asker) askers;
};

/* A client opens a reply's event soon, but not before it has the reply. */
enum { MOCK_GPU_EVENTS = 64 };

/* What copies to and from GPUs need; opened when first needed. */
struct mock_gpu {
    struct kvc_cuda_queue *queue;
    struct kvc_cu_event *events[MOCK_GPU_EVENTS]; /* of the latest replies */
    size_t next_event;
    struct mock_memory mapped_before; /* a defect: handles */
};

struct mock {
    struct kvc_mock_options options; /* with every default filled in */
    bool defects[MOCK_DEFECT_COUNT];
    struct mock_pool pool;
    struct mock_store store;
    struct mock_l2 l2;
    struct mock_sessions sessions;
    struct mock_registry registry;
    struct mock_transfers transfers;
    struct mock_p2p p2p;
    LIST_HEAD(, mock_quota) quotas;
    struct mock_holder orphans; /* a defect: locks of sessions and reads that have ended */
    struct mock_memory used_up; /* a defect: mode and id of instances that have left */
    int64_t now_ms;             /* when the messages at hand were taken up */
    int64_t next_sweep_ms;
    struct mock_endings endings;
    struct mock_gpu gpu;
    bool loop_is_dead;       /* a defect: nothing is answered any more */
    struct kvc_watch *watch; /* what clients do wrong; NULL: not --strict */
};

static inline bool mock_has(const struct mock *mock, enum mock_defect defect)
{
    return mock->defects[defect];
}

static inline bool mock_speaks(const struct mock *mock, enum kvc_feature feature)
{
    return kvc_dialect_has(mock->options.dialect, feature);
}

/* A transfer has been asked for: its instance is alive. */
static inline void mock_hear_of(const struct mock *mock, struct mock_instance *instance)
{
    if (!mock_has(mock, MOCK_DEFECT_TRANSFERS_NO_LIFE_SIGN))
        instance->seen_ms = mock->now_ms;
}

/* One request while it is handled. */
struct mock_call {
    struct mock *mock;
    struct kvc_bytes identity; /* the client's */
    const struct kvc_frames *frames;
    const struct kvc_request *request;
    struct kvc_reply *reply;   /* zeroed but for op; views into arena, or into buffer */
    struct kvc_arena *arena;   /* lives until the reply is sent */
    struct kvc_buffer *buffer; /* large results; the same life */
    int64_t delay_ms;          /* the reply leaves that much later */
};

/* What a handler says. There is no error reply: what is refused is not answered. */
enum mock_answer { MOCK_SILENCE, MOCK_REPLY };

typedef enum mock_answer mock_handler(struct mock_call *call);

/* Ends a handler without a reply; with --strict, the reason goes to stderr. */
enum mock_answer mock_refuse(const struct mock_call *call, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* With --strict, says what only the server can see: a client's mistake with shared memory. */
void mock_saw(const struct mock_call *call, enum kvc_rule_id rule, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* With --strict, what is said about clients goes to stderr from here on. */
void mock_watch_open(struct mock *mock);
void mock_watch_request(const struct mock *mock, struct kvc_bytes identity,
                        const struct kvc_frames *frames);
void mock_watch_reply(const struct mock *mock, struct kvc_bytes identity,
                      const struct kvc_frames *frames);

/* Takes an instance away: what it has under way ends, its locks are given back. */
void mock_leave(struct mock *mock, struct mock_instance *instance);
/* CLEAR: everything goes; without force, locked chunks and those being written stay. */
void mock_clear(struct mock *mock, bool force);
void mock_quotas_clear(struct mock *mock);

#endif
