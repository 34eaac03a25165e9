/* Clauses that no check tests, each with the reason. What is here is still the protocol: whoever writes a
 * server or a client needs it, and a later version of the suite may test it. */
#include "src/run/clause.h"

/* Reasons that several clauses share. */
#define NO_STREAM "the event stream is not in this version of the suite, nor in the mock"
#define NO_GRPC   "this version of the suite speaks ZMQ only"
#define NO_BLEND                                                                                   \
    "blend operations need a server with the blend engine; their payloads are not written here"
#define NO_SLOW_L2 "needs an L2 adapter that can be made to be slow, which no server here has"
#define NO_CUDA                                                                                    \
    "needs a server whose driver takes long to close handles; registration/holds-up-nobody tests it on the CPU"
#define NO_WINDOWS                                                                                 \
    "needs a server with --separate-object-groups and layers with a sliding window, which workers here do not have"
#define NO_START                                                                                   \
    "needs a server that was started with other options, which the suite cannot ask a target for"
#define OF_CLIENTS                                                                                 \
    "a clause for clients, not for servers: see the documents on the mock's --strict and on `record --check`"

const struct kvc_untested kvc_untested_clauses[] = {
    /* ---- the event stream ---- */
    {.id = "stream/credit",
     .clause = "SUBSCRIBE_KV_EVENTS sends one batch at once and a further one for each credit.",
     .source = "protocol 1.7",
     .level = KVC_LEVEL_MUST,
     .first = "0.5.6",
     .reason = NO_STREAM},
    {.id = "stream/end",
     .clause =
         "A stream ends with two frames: when it is cancelled, or when the same instance opens another.",
     .source = "protocol 1.7",
     .level = KVC_LEVEL_MUST,
     .first = "0.5.6",
     .reason = NO_STREAM},
    {.id = "stream/lost-events",
     .clause =
         "A batch says so when events were lost, and when the cursor is from another life of the server.",
     .source = "protocol 1.7",
     .level = KVC_LEVEL_MUST,
     .first = "0.5.6",
     .reason = NO_STREAM},
    {.id = "stream/bad-arguments",
     .clause = "A negative cursor, or max_events outside 1 to 1024, is not answered.",
     .source = "protocol 1.7",
     .level = KVC_LEVEL_SHOULD,
     .first = "0.5.6",
     .reason = NO_STREAM},
    {.id = "stream/of-worker-zero",
     .clause =
         "Chunks that worker 0 stored by STORE are announced once, with the hashes of protocol 7; removals "
         "always are.",
     .source = "protocol 1.7, 7.3",
     .level = KVC_LEVEL_OBSERVED,
     .first = "0.5.6",
     .reason = NO_STREAM},

    /* ---- other operations ---- */
    {.id = "blend/handshake",
     .clause =
         "CB_PROTOCOL_HANDSHAKE answers the server's version and whether the client's is compatible.",
     .source = "protocol 2, B09",
     .level = KVC_LEVEL_MUST,
     .first = "0.5.5",
     .reason = NO_BLEND},
    {.id = "blend/locks",
     .clause = "What a blend lookup locked is released also when no retrieve follows.",
     .source = "protocol 2, B30",
     .level = KVC_LEVEL_MUST,
     .reason = NO_BLEND},
    {.id = "query-cache/store",
     .clause = "STORE_Q stores the tensors that REGISTER_Q_CACHE named, as STORE does.",
     .source = "protocol 2",
     .level = KVC_LEVEL_MUST,
     .first = "0.5.3",
     .reason = NO_START},
    {.id = "server-module/call",
     .clause = "SERVER_MODULE_CALL answers what the module answers, or says that it failed.",
     .source = "protocol 2",
     .level = KVC_LEVEL_MUST,
     .first = "0.5.6",
     .reason = NO_START},
    {.id = "grpc/same-clauses",
     .clause = "Over gRPC the same operations keep the same clauses, and failures have a status.",
     .source = "protocol 9, 1.4, B02",
     .level = KVC_LEVEL_MUST,
     .first = "0.5.6",
     .reason = NO_GRPC},

    /* ---- L2 ---- */
    {.id = "l2/result-after-load",
     .clause =
         "While chunks are loaded from L2 a query is answered without a result, and then with the number "
         "that is ready; a wait that gives up loses nothing.",
     .source = "protocol 4.7, B39",
     .level = KVC_LEVEL_MUST,
     .reason = NO_SLOW_L2},
    {.id = "l2/objects",
     .clause =
         "GET and DELETE /cache/objects and POST /cache/prefetches list, remove and load objects of L2, and "
         "refuse tier l1 where only l2 is meant.",
     .source = "protocol 8.3",
     .level = KVC_LEVEL_OBSERVED,
     .reason = "no worker uses them, and what is below is seen in its files"},

    /* ---- CUDA ---- */
    {.id = "cuda/teardown",
     .clause = "Closing a worker's IPC handles holds up nobody else.",
     .source = "protocol 1.5, B44",
     .level = KVC_LEVEL_SHOULD,
     .reason = NO_CUDA},

    /* ---- layouts and groups ---- */
    {.id = "layout/fused",
     .clause =
         "Tensors of four axes hold K and V of a head side by side: split into two up to 0.5.2, kept as one "
         "from 0.5.3.",
     .source = "protocol 6.1, 6.2, 10.13, B52",
     .level = KVC_LEVEL_MUST,
     .reason =
         "workers of this version have the five layouts of vLLM; no engine on CPU makes fused ones"},
    {.id = "layout/other-engines",
     .clause =
         "The tensors of SGLang, TensorRT-LLM and cross-layer caches are read by their own formulas.",
     .source = "protocol 4.2, 6.1, 6.2",
     .level = KVC_LEVEL_MUST,
     .reason = "releases do not take them on CPU"},
    {.id = "groups/own-objects",
     .clause =
         "With separate object groups a lookup finds a chunk only if each group has it, and locks what each "
         "group needs.",
     .source = "protocol 6.4, 10.12, B28, N14",
     .level = KVC_LEVEL_MUST,
     .reason = NO_WINDOWS},
    {.id = "groups/window",
     .clause =
         "Of a group with a sliding window only the blocks of the window are stored and retrieved.",
     .source = "protocol 6.4, B57, B59, B63",
     .level = KVC_LEVEL_MUST,
     .reason = NO_WINDOWS},
    {.id = "groups/left-out-layer",
     .clause = "A layer that is in no group is never transferred.",
     .source = "protocol 6.4",
     .level = KVC_LEVEL_OBSERVED,
     .reason =
         "a worker that leaves a layer out makes a mistake; that the server keeps silent about it is no right of "
         "the worker's"},

    /* ---- servers that were started otherwise ---- */
    {.id = "options/transfer-mode",
     .clause = "The operations of a transfer mode that is switched off are not answered.",
     .source = "protocol 2, 10.16",
     .level = KVC_LEVEL_OBSERVED,
     .reason =
         "the suite takes silence for the sign of a mode that is off, and then asks nothing more of it"},
    {.id = "options/pool-too-large",
     .clause = "A server whose pool does not fit /dev/shm says so and works without one.",
     .source = "protocol 5.2, B64, N07",
     .level = KVC_LEVEL_SHOULD,
     .reason = NO_START},
    {.id = "options/hash-algorithm",
     .clause = "With another hash algorithm chunks are found as well, as long as the server lives.",
     .source = "protocol 7.3, B20",
     .level = KVC_LEVEL_SHOULD,
     .reason = NO_START},
    {.id = "options/quota-kept",
     .clause = "With the eviction policy IsolatedLRU a salt takes no more memory than its quota.",
     .source = "protocol 8.4",
     .level = KVC_LEVEL_SHOULD,
     .reason = NO_START},
    {.id = "options/no-eviction",
     .clause =
         "With the eviction policy noop nothing is dropped, and stores into a full pool do nothing.",
     .source = "protocol 4.16",
     .level = KVC_LEVEL_OBSERVED,
     .reason = NO_START},
    {.id = "options/reconfigure",
     .clause = "/reconfigure/… changes adapters of the server while it runs.",
     .source = "protocol 8.5",
     .level = KVC_LEVEL_OBSERVED,
     .reason =
         "there is nothing to change on a server without L2, and a server in use is to be left as it was found"},
    {.id = "session/expires",
     .clause = "A session that is never ended is forgotten ten minutes after it began.",
     .source = "protocol 4.1, 11.5, B37",
     .level = KVC_LEVEL_OBSERVED,
     .reason = "ten minutes are too long for a check, and only 0.5.6 can be told otherwise"},
    {.id = "registration/grace",
     .clause = "An instance that never pings is dropped after an hour without a transfer.",
     .source = "protocol 4.5, B42",
     .level = KVC_LEVEL_OBSERVED,
     .reason = "an hour is too long for a check"},

    /* ---- HTTP ---- */
    {.id = "http/old-routes",
     .clause = "Up to 0.5.0 the routes are /conf, /kvcache/check and /clear-cache.",
     .source = "protocol 8.6, 10 row 31, B15",
     .level = KVC_LEVEL_OBSERVED,
     .last = "0.5.0",
     .reason =
         "0.5.0 speaks the dialect of 0.5.1, and checks ask for the routes of 0.5.1; where these are missing they "
         "are skipped"},
    {.id = "http/run-script",
     .clause = "POST /run_script runs nothing unless that was switched on.",
     .source = "protocol 8.1",
     .level = KVC_LEVEL_MUST,
     .reason = "asking would run a script on releases up to 0.5.5; this is to be known, not tried"},
    {.id = "http/diagnostics",
     .clause = "GET /metrics, /periodic-threads, /threads, /env and /loglevel tell of the process.",
     .source = "protocol 8.1",
     .level = KVC_LEVEL_OBSERVED,
     .reason = "what they tell belongs to the implementation, not to the protocol"},

    /* ---- what cannot be seen from outside ---- */
    {.id = "robust/memory-after-failures",
     .clause = "Requests that fail leave no memory behind in the server's process.",
     .source = "protocol 1.4, B02",
     .level = KVC_LEVEL_SHOULD,
     .reason =
         "a process's memory is not seen over the wire; what /status counts is, by robust/refusals-leave-nothing"},
    {.id = "robust/identity-of-the-gone",
     .clause = "When a client is gone another may come with its socket identity.",
     .source = "protocol 1.6, N27",
     .level = KVC_LEVEL_SHOULD,
     .reason = "libzmq decides it, and when: no server can do otherwise"},
    {.id = "framing/no-greeting",
     .clause =
         "There is no ipc:// address, no encryption and no limit of size; a client must know the dialect.",
     .source = "protocol 1.1, 1.8, B07, B08",
     .level = KVC_LEVEL_OBSERVED,
     .reason =
         "that something is not there leaves nothing to ask; `kvconform identify` finds the dialect out"},
    {.id = "slots/no-fences",
     .clause =
         "The order of writes in the pool comes from the messages alone: a client finishes its writes before it "
         "sends COMMIT_STORE.",
     .source = "protocol 5",
     .level = KVC_LEVEL_MUST,
     .reason = OF_CLIENTS},

    /* ---- clients ---- */
    {.id = "client/encoding-fails",
     .clause = "A request that cannot be encoded fails at once, and the next one is sent.",
     .source = "B03",
     .level = KVC_LEVEL_MUST,
     .reason = OF_CLIENTS},
    {.id = "client/answers-by-uid",
     .clause = "A client takes an answer for the request whose uid it has, however late it comes.",
     .source = "protocol 1.1, B04",
     .level = KVC_LEVEL_MUST,
     .reason = OF_CLIENTS},
    {.id = "client/connecting",
     .clause = "A client gives up a connection that does not come about, and tries again.",
     .source = "protocol 1.1, B05",
     .level = KVC_LEVEL_SHOULD,
     .reason = OF_CLIENTS},
    {.id = "client/knows-the-dialect",
     .clause =
         "A client finds out that a server speaks another dialect before it changes anything there, and "
         "refuses no pair that works.",
     .source = "protocol 1.8, B07, B08, B14, N02, N03",
     .level = KVC_LEVEL_SHOULD,
     .reason = "a clause for clients: `kvconform run --client-dialect` is such a verdict"},
    {.id = "client/notices-restarts",
     .clause =
         "A client notices that its server was started again between two heartbeats, and registers anew.",
     .source = "protocol 4.5, B41",
     .level = KVC_LEVEL_SHOULD,
     .reason = OF_CLIENTS},
    {.id = "client/leaves-nothing",
     .clause =
         "A tool unregisters what it registered, ends its sessions, and ends when the server does not answer.",
     .source = "protocol 4.17, B69",
     .level = KVC_LEVEL_SHOULD,
     .reason = OF_CLIENTS},
    {.id = "client/mismatch-is-no-miss",
     .clause = "Bytes that differ are reported as such, and not as chunks that were not found.",
     .source = "N20",
     .level = KVC_LEVEL_MUST,
     .reason =
         "a clause for tools: a check fails with the bytes that differ, and `bench server` has a count for them"},
    {.id = NULL},
};
