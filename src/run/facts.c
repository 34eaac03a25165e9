#include "src/run/facts.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/base/clock.h"
#include "src/link/http.h"
#include "src/target/aside.h"
#include "src/wire/compatible.h"

enum {
    /* How long silence must last: the mock answers at once, a real server may be busy. */
    SILENCE_MOCK_MS = 150,
    SILENCE_OTHER_MS = 500,
    /* Questions of a probe that may each run into the limit. */
    MAX_QUESTIONS = 12,
};

int64_t kvc_facts_block_size(int64_t chunk_size)
{
    int64_t size = 16;
    while (size > 1 && (chunk_size % size != 0 || chunk_size / size < 4))
        size /= 2;
    return size;
}

struct probe {
    const struct kvc_target *target;
    const struct kvc_facts_options *options;
    struct kvc_facts_record *record;
    struct kvc_rpc rpc;
    int64_t instance_id; /* of the next registration */
    char model[64];
};

/* ---- which paths work ---- */

static struct kvc_worker_options probe_worker(struct probe *probe, enum kvc_transfer_mode mode)
{
    const int64_t block_size = probe->record->facts.block_size;
    return (struct kvc_worker_options){
        .geometry = {.groups = {{.kv_size = 2,
                                 .num_blocks = 2 * probe->record->facts.chunk_size / block_size,
                                 .block_size = block_size,
                                 .num_heads = 2,
                                 .head_size = 8,
                                 .num_layers = 1,
                                 .dtype = kvc_dtype_find(KVC_STR("float16")),
                                 .layout = KVC_LAYOUT_HND}},
                     .group_count = 1},
        .instance_id = probe->instance_id++,
        .model_name = kvc_str_of(probe->model),
        .mode = mode,
        .chunk_size = probe->record->facts.chunk_size,
    };
}

static void say(struct probe *probe, enum kvc_path path, const char *text)
{
    char *reason = probe->record->path_reasons[path];
    snprintf(reason, sizeof(probe->record->path_reasons[path]), "%s", text);
}

static void say_error(struct probe *probe, enum kvc_path path, const struct kvc_error *err)
{
    char line[200];
    kvc_error_line(err, line, sizeof(line));
    say(probe, path, line);
}

/* Silence is how a server says that it does not have an operation. Whatever else goes wrong is a fault
 * for the checks to find: they are run. So is an answer to something else than was asked. */
static bool is_absent(const struct probe *probe, const struct kvc_error *err)
{
    const struct kvc_client_counters counters = kvc_client_counters(probe->rpc.client);
    const uint64_t strays = counters.late + counters.duplicate + counters.unknown;
    return err->status == KVC_ETIMEOUT && strays == 0;
}

static bool checksums_answer(const struct probe *probe, int64_t instance_id)
{
    if (!probe->record->http_answers)
        return false;
    char body[128];
    snprintf(body, sizeof(body),
             "{\"instance_id\": %lld, \"block_ids\": [1], \"chunk_size\": 1, \"layerwise\": false}",
             (long long)instance_id);
    struct kvc_http_response response = {0};
    const kvc_status status = kvc_http_request("POST", probe->target->http_url, "/cache/checksums",
                                               body, probe->options->timeout_ms, &response, NULL);
    const bool answers = status == KVC_OK && response.status == 200;
    kvc_http_response_clear(&response);
    return answers;
}

static void probe_lmcache_driven(struct probe *probe)
{
    const struct kvc_worker_options options = probe_worker(probe, KVC_MODE_LMCACHE_DRIVEN);
    struct kvc_worker *worker = NULL;
    struct kvc_error err = KVC_ERROR_INIT;
    if (kvc_worker_open(&probe->rpc, &options, &worker, &err) != KVC_OK) {
        say_error(probe, KVC_PATH_LMCACHE_DRIVEN, &err);
        if (!is_absent(probe, &err))
            probe->record->facts.paths |= 1u << KVC_PATH_LMCACHE_DRIVEN;
        return;
    }
    probe->record->facts.paths |= 1u << KVC_PATH_LMCACHE_DRIVEN;
    say(probe, KVC_PATH_LMCACHE_DRIVEN, worker->path_reason);
    probe->record->facts.has_checksums = checksums_answer(probe, options.instance_id);
    kvc_worker_close(worker, &err);
}

/* What does not answer is not tested; any other trouble is for the checks to find. */
static void probe_cuda(struct probe *probe)
{
    struct kvc_worker_options options = probe_worker(probe, KVC_MODE_LMCACHE_DRIVEN);
    struct kvc_facts *facts = &probe->record->facts;
    struct kvc_worker *worker = NULL;
    struct kvc_error err = KVC_ERROR_INIT;
    facts->has_cuda = probe->options->cuda;
    if (!facts->has_cuda)
        return;
    options.device = &kvc_device_cuda;
    if (kvc_worker_open(&probe->rpc, &options, &worker, &err) == KVC_OK) {
        facts->maps_cuda = true;
        kvc_worker_close(worker, &err);
        return;
    }
    kvc_error_line(&err, probe->record->cuda_reason, sizeof(probe->record->cuda_reason));
    facts->maps_cuda = !is_absent(probe, &err);
}

static void probe_engine_driven(struct probe *probe)
{
    const struct kvc_worker_options options = probe_worker(probe, KVC_MODE_ENGINE_DRIVEN);
    struct kvc_worker *worker = NULL;
    struct kvc_error err = KVC_ERROR_INIT;
    struct kvc_facts *facts = &probe->record->facts;
    if (kvc_worker_open(&probe->rpc, &options, &worker, &err) != KVC_OK) {
        say_error(probe, KVC_PATH_ENGINE_DRIVEN, &err);
        say_error(probe, KVC_PATH_ENGINE_DRIVEN_INLINE, &err);
        facts->offers_pool = !is_absent(probe, &err);
        if (facts->offers_pool)
            facts->paths |= 1u << KVC_PATH_ENGINE_DRIVEN;
        return;
    }
    const enum kvc_path other = worker->path == KVC_PATH_ENGINE_DRIVEN
                                    ? KVC_PATH_ENGINE_DRIVEN_INLINE
                                    : KVC_PATH_ENGINE_DRIVEN;
    facts->paths |= 1u << worker->path;
    facts->offers_pool = worker->path == KVC_PATH_ENGINE_DRIVEN;
    say(probe, worker->path, worker->path_reason);
    say(probe, other,
        facts->offers_pool ? "the server offers a shared-memory pool"
                           : "the server offers no shared-memory pool");
    kvc_worker_close(worker, &err);
}

/* ---- what else answers ---- */

/* Until its result is fetched the server keeps a task. */
static void fetch_p2p_result(const struct probe *probe, int64_t task)
{
    enum { RETRY_MS = 10 };
    const struct kvc_request query = {.op = KVC_OP_P2P_QUERY_LOOKUP_RESULTS, .task_id = task};
    const int64_t deadline = kvc_now_ms() + probe->options->timeout_ms;
    bool is_running = true;
    while (is_running && kvc_now_ms() < deadline) {
        struct kvc_reply reply;
        is_running = kvc_rpc_call(&probe->rpc, &query, &reply, NULL) == KVC_OK && reply.is_void;
        kvc_reply_clear(&reply);
        if (is_running)
            kvc_sleep_ms(RETRY_MS);
    }
}

static bool p2p_answers(const struct probe *probe)
{
    if (!probe->rpc.dialect->has[KVC_OP_P2P_LOOKUP_AND_LOCK])
        return false;
    static const uint8_t no_hash[32] = {0};
    static const int64_t dimensions[] = {2, 1, 16, 16};
    const struct kvc_object_key key = {.chunk_hash = {no_hash, sizeof(no_hash)},
                                       .model_name = kvc_str_of(probe->model),
                                       .kv_rank = 1 << 24 | 1 << 8};
    const struct kvc_ints shape = {dimensions, KVC_COUNT_OF(dimensions)};
    const struct kvc_str dtype = KVC_STR("float16");
    const struct kvc_request request = {.op = KVC_OP_P2P_LOOKUP_AND_LOCK,
                                        .object_keys = {&key, 1},
                                        .object_layout = {{&shape, 1}, {&dtype, 1}}};
    int64_t task = 0;
    struct kvc_error err = KVC_ERROR_INIT;
    if (kvc_rpc_call_count(&probe->rpc, &request, &task, &err) != KVC_OK)
        return !is_absent(probe, &err);
    fetch_p2p_result(probe, task);
    return true;
}

static bool status_has_counters(const struct kvc_buffer *body)
{
    json_t *root = json_loadb((const char *)body->data, body->size, 0, NULL);
    const json_t *l1 = json_object_get(json_object_get(root, "storage_manager"), "l1_manager");
    const bool has = json_is_integer(json_object_get(l1, "read_locked_count"));
    json_decref(root);
    return has;
}

static void probe_http(struct probe *probe)
{
    struct kvc_http_response response = {0};
    if (probe->target->http_url[0] == '\0')
        return;
    if (kvc_http_request("GET", probe->target->http_url, "/status", NULL,
                         probe->options->timeout_ms, &response, NULL) == KVC_OK) {
        probe->record->http_answers = true;
        probe->record->facts.has_status =
            response.status == 200 && status_has_counters(&response.body);
    }
    kvc_http_response_clear(&response);
}

/* ---- the whole, in a process of its own ---- */

struct probe_request {
    const struct kvc_target *target;
    const struct kvc_facts_options *options;
};

static void fill_limits(struct kvc_facts *facts, const struct kvc_facts_options *options)
{
    const int64_t silence = facts->stand_in ? SILENCE_MOCK_MS : SILENCE_OTHER_MS;
    facts->timeout_ms = options->timeout_ms;
    facts->silence_ms = options->silence_ms != 0 ? options->silence_ms : silence;
    if (facts->silence_ms > facts->timeout_ms)
        facts->silence_ms = facts->timeout_ms;
}

static kvc_status probe_server(const void *arg, void *result, struct kvc_error *err)
{
    const struct probe_request *request = arg;
    const struct kvc_identity *identity = &request->target->identity;
    struct kvc_facts_record *record = result;
    KVC_GUARD(kvc_rpc_check_chunk_size(identity->chunk_size, err));
    memcpy(record->version, identity->version, sizeof(record->version));
    record->facts.chunk_size = identity->chunk_size;
    record->facts.block_size = kvc_facts_block_size(identity->chunk_size);
    record->facts.stand_in = strcmp(request->target->ops->name, "mock") == 0;
    fill_limits(&record->facts, request->options);

    struct probe probe = {
        .target = request->target,
        .options = request->options,
        .record = record,
        .rpc = {.dialect = identity->dialect, .timeout_ms = request->options->timeout_ms}};
    /* A name and ids that nobody else has: the server may be in use. */
    const uint64_t unique = kvc_mix((uint64_t)kvc_now_ns() ^ (uint64_t)getpid() << 32);
    probe.instance_id = (int64_t)(unique >> 34); /* 30 bits: any server has room for those */
    snprintf(probe.model, sizeof(probe.model), "kvconform-probe-%016llx",
             (unsigned long long)unique);
    KVC_GUARD(kvc_client_open(request->target->rpc_url, request->target->options.connect_timeout_ms,
                              &probe.rpc.client, err));
    probe_http(&probe);
    probe_lmcache_driven(&probe);
    probe_engine_driven(&probe);
    probe_cuda(&probe);
    record->facts.has_p2p = p2p_answers(&probe);
    kvc_client_close(probe.rpc.client);
    return KVC_OK;
}

static kvc_status check_client(const struct kvc_target *target,
                               const struct kvc_facts_options *options, struct kvc_error *err)
{
    const struct kvc_dialect *server = target->identity.dialect;
    struct kvc_incompatibility first;
    if (options->client == NULL || kvc_dialect_serves(server, options->client, &first))
        return KVC_OK;
    kvc_fail(err, KVC_EMISMATCH,
             "a client of %s and this server, which speaks %s, are incompatible, first differing "
             "operation %s: %s",
             options->client_release, server->name, kvc_op_name(first.op), first.reason);
    free(first.reason);
    return KVC_EMISMATCH;
}

kvc_status kvc_facts_probe(const struct kvc_target *target, const struct kvc_facts_options *options,
                           struct kvc_facts_record *record, struct kvc_error *err)
{
    const struct probe_request request = {target, options};
    KVC_GUARD(check_client(target, options, err));
    *record = (struct kvc_facts_record){0};
    KVC_GUARD(kvc_aside_run(probe_server, &request, record, sizeof(*record),
                            MAX_QUESTIONS * options->timeout_ms, err));
    record->facts.dialect = target->identity.dialect;
    record->facts.version = record->version;
    kvc_facts_readdress(target, record);
    return KVC_OK;
}

void kvc_facts_readdress(const struct kvc_target *target, struct kvc_facts_record *record)
{
    memcpy(record->rpc_url, target->rpc_url, sizeof(record->rpc_url));
    memcpy(record->http_url, target->http_url, sizeof(record->http_url));
    record->facts.rpc_url = record->rpc_url;
    record->facts.http_url = record->http_answers ? record->http_url : NULL;
    memcpy(record->l2_folder, target->l2_folder, sizeof(record->l2_folder));
    record->facts.l2_folder = record->l2_folder[0] != '\0' ? record->l2_folder : NULL;
}
