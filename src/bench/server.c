#include "src/bench/server.h"

#include <stdlib.h>
#include <string.h>

#include "src/base/clock.h"
#include "src/kv/digest.h"
#include "src/kv/stamp.h"
#include "src/link/http.h"
#include "src/target/identify.h"

#include <jansson.h>

enum { POISON = 0x5a, VISIBLE_WITHIN_MS = 5000, HTTP_TIMEOUT_MS = 5000 };

/* What a run holds while it lasts. */
struct bench {
    const struct kvc_bench_server_options *options;
    struct kvc_bench_server_result *result;
    struct kvc_client *client;
    struct kvc_rpc rpc;
    struct kvc_worker **workers; /* one a rank */
    int64_t worker_count;
    bool is_mla;
    struct kvc_geometry geometry;
    int64_t chunk_tokens;
    int64_t chunk_count; /* full chunks a request */
    struct kvc_random random;
    bool compare_http;
};

/* One request: a token sequence, and where its blocks are in every rank's cache. */
struct request {
    int64_t sequence;
    int64_t *tokens;
    int64_t *permutation; /* all block ids, shuffled: stores use the front, retrieves the back */
    struct kvc_ints source_blocks;
    struct kvc_ints target_blocks;
};

static void progress(const struct bench *bench, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void progress(const struct bench *bench, const char *format, ...)
{
    if (bench->options->progress == NULL)
        return;
    va_list args;
    va_start(args, format);
    vfprintf(bench->options->progress, format, args);
    va_end(args);
    fputc('\n', bench->options->progress);
}

static bool stopped(const struct bench *bench)
{
    return bench->options->stop != NULL && *bench->options->stop != 0;
}

/* Keeps the first problem for the report; every one goes to the progress lines. */
static void problem(struct bench *bench, const struct request *request, const char *step,
                    const char *text)
{
    progress(bench, "[seq=%lld] %s: %s", (long long)request->sequence, step, text);
    char *first = bench->result->first_problem;
    if (first[0] == '\0')
        snprintf(first, sizeof(bench->result->first_problem), "seq %lld, %s: %s",
                 (long long)request->sequence, step, text);
}

static void problem_error(struct bench *bench, const struct request *request, const char *step,
                          const struct kvc_error *err)
{
    char line[400];
    kvc_error_line(err, line, sizeof(line));
    problem(bench, request, step, line);
}

static void rest(const struct bench *bench)
{
    int64_t left = (int64_t)(bench->options->interval * 1000);
    while (left > 0 && !stopped(bench)) {
        const int64_t step = left < 100 ? left : 100;
        kvc_sleep_ms(step);
        left -= step;
    }
}

/* ---- one request ---- */

static void request_init(struct bench *bench, int64_t sequence, struct request *request)
{
    const int64_t token_count = bench->options->num_tokens + 1;
    const int64_t num_blocks = bench->geometry.groups[0].num_blocks;
    const int64_t needed =
        bench->chunk_count * bench->chunk_tokens / bench->geometry.groups[0].block_size;

    *request = (struct request){.sequence = sequence};
    request->tokens = kvc_alloc((size_t)token_count * sizeof(*request->tokens));
    for (int64_t i = 0; i < token_count; i++)
        request->tokens[i] = (int64_t)kvc_random_below(&bench->random, 1u << 31);

    request->permutation = kvc_alloc((size_t)num_blocks * sizeof(*request->permutation));
    for (int64_t i = 0; i < num_blocks; i++)
        request->permutation[i] = i;
    for (int64_t i = num_blocks - 1; i > 0; i--) {
        const int64_t other = (int64_t)kvc_random_below(&bench->random, (uint64_t)i + 1);
        const int64_t kept = request->permutation[i];
        request->permutation[i] = request->permutation[other];
        request->permutation[other] = kept;
    }
    request->source_blocks = (struct kvc_ints){request->permutation, (size_t)needed};
    request->target_blocks =
        (struct kvc_ints){request->permutation + (num_blocks - needed), (size_t)needed};
}

static void request_clear(struct request *request)
{
    free(request->tokens);
    free(request->permutation);
}

static struct kvc_key request_key(const struct bench *bench, const struct request *request,
                                  struct kvc_str request_id)
{
    const struct kvc_ints tokens = {request->tokens, (size_t)(bench->options->num_tokens + 1)};
    return kvc_worker_key(bench->workers[0], tokens, 0, bench->chunk_count * bench->chunk_tokens,
                          request_id, KVC_STR(""));
}

static struct kvc_str request_name(const struct bench *bench, const struct request *request,
                                   const char *pass, char *out, size_t out_size)
{
    snprintf(out, out_size, "kvconform-%016llx-%lld-%s", (unsigned long long)bench->options->seed,
             (long long)request->sequence, pass);
    return kvc_str_of(out);
}

/* Whose stamps a rank's blocks hold: with MLA all ranks share what rank 0 stored. */
static struct kvc_stamp_source stamp_source(const struct bench *bench,
                                            const struct request *request, int64_t rank)
{
    const int64_t owner = bench->is_mla ? 0 : rank;
    return (struct kvc_stamp_source){
        .seed = bench->options->seed,
        .request = (uint64_t)(request->sequence * bench->worker_count + owner)};
}

static kvc_status timed_lookup(struct bench *bench, const struct kvc_key *key,
                               enum kvc_bench_operation operation, int64_t *chunks,
                               struct kvc_error *err)
{
    struct kvc_key all_ranks = *key;
    all_ranks.worker_id = KVC_NIL_INT;
    const int64_t begin = kvc_now_ns();
    KVC_GUARD(kvc_rpc_lookup(&bench->rpc, &all_ranks, bench->worker_count, chunks, err));
    kvc_series_add(&bench->result->series[operation], kvc_now_ns() - begin);
    return KVC_OK;
}

/* Stores from every rank that writes; one sample for all of them. */
static kvc_status store_all(struct bench *bench, const struct request *request,
                            const struct kvc_key *key, struct kvc_error *err)
{
    int64_t spent = 0;
    const int64_t writers = bench->is_mla ? 1 : bench->worker_count;
    for (int64_t rank = 0; rank < writers; rank++) {
        struct kvc_worker *worker = bench->workers[rank];
        kvc_stamp_blocks(&worker->paged, stamp_source(bench, request, rank), 0,
                         request->source_blocks.items, request->source_blocks.count);
        struct kvc_store_result stored = {0};
        const int64_t begin = kvc_now_ns();
        KVC_GUARD(kvc_worker_store(worker, key, request->source_blocks, &stored, err));
        spent += kvc_now_ns() - begin;
        if (!stored.success)
            return kvc_fail(err, KVC_EREFUSED, "rank %lld: the server said the store failed",
                            (long long)rank);
    }
    kvc_series_add(&bench->result->series[KVC_BENCH_COLD_STORE], spent);
    return KVC_OK;
}

/* LOOKUP finds nothing, since the tokens are new; then every chunk is stored. */
static bool cold_pass(struct bench *bench, const struct request *request)
{
    struct kvc_error err = KVC_ERROR_INIT;
    char name[80];
    const struct kvc_key key =
        request_key(bench, request, request_name(bench, request, "cold", name, sizeof(name)));
    int64_t hits = 0;
    if (timed_lookup(bench, &key, KVC_BENCH_COLD_LOOKUP, &hits, &err) != KVC_OK) {
        problem_error(bench, request, "LOOKUP cold", &err);
        return false;
    }
    progress(bench, "[seq=%lld] LOOKUP cold: %lld/%lld chunks hit", (long long)request->sequence,
             (long long)hits, (long long)bench->chunk_count);
    if (hits != 0) {
        bench->result->cold_hits++;
        problem(bench, request, "LOOKUP cold", "hit chunks that were never stored");
        return false;
    }
    if (store_all(bench, request, &key, &err) != KVC_OK) {
        problem_error(bench, request, "STORE", &err);
        return false;
    }
    progress(bench, "[seq=%lld] STORE: %lld chunks stored", (long long)request->sequence,
             (long long)bench->chunk_count);
    if (kvc_worker_end_session(bench->workers[0], key.request_id, &err) != KVC_OK) {
        problem_error(bench, request, "END_SESSION", &err);
        return false;
    }
    /* STORE answers a little before LOOKUP can see the chunks; that wait is no lookup latency. */
    if (kvc_worker_wait_visible(bench->workers[0], &key, bench->chunk_count, VISIBLE_WITHIN_MS,
                                &err) != KVC_OK) {
        bench->result->warm_misses++;
        problem_error(bench, request, "LOOKUP after STORE", &err);
        return false;
    }
    return true;
}

static kvc_status retrieve_all(struct bench *bench, const struct request *request,
                               const struct kvc_key *key, struct kvc_error *err)
{
    int64_t spent = 0;
    for (int64_t rank = 0; rank < bench->worker_count; rank++) {
        struct kvc_worker *worker = bench->workers[rank];
        for (size_t i = 0; i < request->target_blocks.count; i++)
            kvc_paged_fill_block(&worker->paged, request->target_blocks.items[i], POISON);
        bool success = false;
        const int64_t begin = kvc_now_ns();
        KVC_GUARD(kvc_worker_retrieve(worker, key, request->target_blocks, 0, &success, err));
        spent += kvc_now_ns() - begin;
        if (!success)
            return kvc_fail(err, KVC_EREFUSED, "rank %lld: the server said the retrieve failed",
                            (long long)rank);
    }
    kvc_series_add(&bench->result->series[KVC_BENCH_WARM_RETRIEVE], spent);
    return KVC_OK;
}

static kvc_status fetch_checksums(const struct bench *bench, const struct kvc_worker *worker,
                                  struct kvc_ints blocks, int64_t blocks_per_chunk,
                                  json_t **digests, struct kvc_error *err)
{
    struct kvc_buffer body = {0};
    kvc_buffer_printf(&body,
                      "{\"instance_id\": %lld, \"chunk_size\": %lld, \"layerwise\": false, "
                      "\"block_ids\": [",
                      (long long)worker->options.instance_id, (long long)blocks_per_chunk);
    for (size_t i = 0; i < blocks.count; i++)
        kvc_buffer_printf(&body, "%s%lld", i == 0 ? "" : ", ", (long long)blocks.items[i]);
    kvc_buffer_append_text(&body, "]}");
    struct kvc_http_response response = {0};
    const kvc_status status =
        kvc_http_request("POST", bench->options->http_url, "/cache/checksums",
                         kvc_buffer_text(&body), HTTP_TIMEOUT_MS, &response, err);
    kvc_buffer_clear(&body);
    if (status != KVC_OK)
        return status;
    json_t *reply = json_loadb((const char *)response.body.data, response.body.size, 0, NULL);
    json_t *list = json_object_get(reply, "chunk_checksums");
    *digests = json_is_array(list) ? json_incref(list) : NULL;
    json_decref(reply);
    const long http_status = response.status;
    kvc_http_response_clear(&response);
    if (http_status != 200 || *digests == NULL)
        return kvc_fail(err, KVC_EFORMAT, "POST /cache/checksums answered %ld without digests",
                        http_status);
    return KVC_OK;
}

/* The server's digests of the blocks it wrote, against ours of what was stored. */
static kvc_status compare_checksums(const struct bench *bench, const struct kvc_worker *worker,
                                    struct kvc_ints blocks, struct kvc_error *err)
{
    const int64_t per_chunk = bench->chunk_tokens / bench->geometry.groups[0].block_size;
    json_t *digests = NULL;
    KVC_GUARD(fetch_checksums(bench, worker, blocks, per_chunk, &digests, err));
    uint8_t **tensors = kvc_alloc(worker->paged.tensor_count * sizeof(*tensors));
    for (size_t i = 0; i < worker->paged.tensor_count; i++)
        tensors[i] = worker->paged.tensors[i].data;
    kvc_status status = KVC_OK;
    for (int64_t chunk = 0; chunk < bench->chunk_count && status == KVC_OK; chunk++) {
        char ours[KVC_MD5_HEX_SIZE];
        kvc_block_checksum(&worker->paged.geometry, tensors, blocks.items + chunk * per_chunk,
                           (size_t)per_chunk, ours);
        const char *theirs = json_string_value(json_array_get(digests, (size_t)chunk));
        if (theirs == NULL || strcmp(ours, theirs) != 0) {
            status = kvc_fail(err, KVC_EMISMATCH, "CHECKSUM MISMATCH in chunk %lld over HTTP",
                              (long long)chunk);
            kvc_error_set_expected(err, "%s", ours);
            kvc_error_set_got(err, "%s", theirs == NULL ? "no digest" : theirs);
        }
    }
    free(tensors);
    json_decref(digests);
    return status;
}

static kvc_status verify_all(struct bench *bench, const struct request *request,
                             struct kvc_error *err)
{
    for (int64_t rank = 0; rank < bench->worker_count; rank++) {
        struct kvc_worker *worker = bench->workers[rank];
        KVC_GUARD(kvc_stamp_check_blocks(&worker->paged, stamp_source(bench, request, rank), 0,
                                         request->target_blocks.items, request->target_blocks.count,
                                         NULL, 0, err));
        KVC_GUARD(kvc_paged_check_guards(&worker->paged, err));
        if (bench->compare_http)
            KVC_GUARD(compare_checksums(bench, worker, request->target_blocks, err));
        bench->result->bytes_verified +=
            bench->chunk_count * kvc_geometry_chunk_bytes(&bench->geometry, bench->chunk_tokens);
    }
    return KVC_OK;
}

/* LOOKUP finds every chunk; RETRIEVE brings them into other blocks, where each byte is checked. */
static bool warm_pass(struct bench *bench, const struct request *request)
{
    struct kvc_error err = KVC_ERROR_INIT;
    char name[80];
    const struct kvc_key key =
        request_key(bench, request, request_name(bench, request, "warm", name, sizeof(name)));
    int64_t hits = 0;
    if (timed_lookup(bench, &key, KVC_BENCH_WARM_LOOKUP, &hits, &err) != KVC_OK) {
        problem_error(bench, request, "LOOKUP warm", &err);
        return false;
    }
    progress(bench, "[seq=%lld] LOOKUP warm: %lld/%lld chunks hit", (long long)request->sequence,
             (long long)hits, (long long)bench->chunk_count);
    if (hits != bench->chunk_count) {
        bench->result->warm_misses++;
        problem(bench, request, "LOOKUP warm", "missed chunks that were stored");
        return false;
    }
    if (retrieve_all(bench, request, &key, &err) != KVC_OK) {
        problem_error(bench, request, "RETRIEVE", &err);
        return false;
    }
    progress(bench, "[seq=%lld] RETRIEVE: %lld chunks retrieved", (long long)request->sequence,
             (long long)hits);
    const kvc_status verified = verify_all(bench, request, &err);
    if (verified == KVC_OK) {
        bench->result->checksum_ok++;
        progress(bench, "[seq=%lld] CHECKSUM MATCH OK", (long long)request->sequence);
    } else {
        bench->result->checksum_fail++;
        problem_error(bench, request, "CHECKSUM MISMATCH", &err);
    }
    if (kvc_worker_end_session(bench->workers[0], key.request_id, &err) != KVC_OK) {
        problem_error(bench, request, "END_SESSION", &err);
        return false;
    }
    return true;
}

static void run_request(struct bench *bench, int64_t sequence)
{
    struct request request;
    request_init(bench, sequence, &request);
    bool done = cold_pass(bench, &request);
    if (done) {
        rest(bench);
        done = !stopped(bench) && warm_pass(bench, &request);
    }
    if (done)
        bench->result->requests++;
    else if (!stopped(bench))
        bench->result->errors++;
    request_clear(&request);
}

/* ---- the run ---- */

static kvc_status check_shape(const struct bench *bench, struct kvc_error *err)
{
    const struct kvc_group *first = &bench->geometry.groups[0];
    if (bench->chunk_tokens % first->block_size != 0)
        return kvc_fail(err, KVC_EUSAGE,
                        "--kvcache-shape-spec: the server's chunk of %lld tokens is no multiple of "
                        "the block size %lld",
                        (long long)bench->chunk_tokens, (long long)first->block_size);
    if (bench->chunk_count == 0)
        return kvc_fail(err, KVC_EUSAGE,
                        "--num-tokens %lld: with the sequence number's token that is less than one "
                        "chunk of %lld tokens",
                        (long long)bench->options->num_tokens, (long long)bench->chunk_tokens);
    const int64_t needed = bench->chunk_count * bench->chunk_tokens / first->block_size;
    if (needed > first->num_blocks)
        return kvc_fail(
            err, KVC_EUSAGE, "--num-tokens %lld needs %lld blocks, --kvcache-shape-spec has %lld",
            (long long)bench->options->num_tokens, (long long)needed, (long long)first->num_blocks);
    return KVC_OK;
}

static kvc_status open_worker(struct bench *bench, int64_t rank, enum kvc_transfer_mode mode,
                              struct kvc_error *err)
{
    char model[64];
    snprintf(model, sizeof(model), "kvconform-bench-%016llx",
             (unsigned long long)bench->options->seed);
    const uint64_t base = kvc_mix(bench->options->seed) % (1u << 30);
    const struct kvc_worker_options options = {
        .geometry = bench->geometry,
        .instance_id = (int64_t)base + rank,
        .model_name = kvc_str_of(model),
        .world_size = bench->is_mla ? 1 : bench->worker_count,
        .worker_id = bench->is_mla ? 0 : rank,
        .num_kv_readers = bench->is_mla ? bench->worker_count : 1,
        .mode = mode,
        .chunk_size = bench->chunk_tokens,
    };
    return kvc_worker_open(&bench->rpc, &options, &bench->workers[rank], err);
}

/* HTTP digests exist for tensors that the server has mapped; a server that does not answer there is
 * reported, and the stamps alone decide. */
static void probe_http(struct bench *bench)
{
    char *note = bench->result->http_checksums;
    const size_t size = sizeof(bench->result->http_checksums);
    const char *url = bench->options->http_url;
    if (bench->workers[0]->path != KVC_PATH_LMCACHE_DRIVEN) {
        snprintf(note, size, "not compared: the server maps no tensors on this path");
    } else if (url == NULL || url[0] == '\0') {
        snprintf(note, size, "not compared: no --url");
    } else {
        struct kvc_error err = KVC_ERROR_INIT;
        const int64_t block = 0;
        json_t *digests = NULL;
        if (fetch_checksums(bench, bench->workers[0], (struct kvc_ints){&block, 1}, 1, &digests,
                            &err) == KVC_OK) {
            bench->compare_http = true;
            snprintf(note, size, "compared with %.100s", url);
        } else {
            snprintf(note, size, "not compared: %.140s", err.what);
        }
        json_decref(digests);
    }
}

static kvc_status start(struct bench *bench, struct kvc_error *err)
{
    const struct kvc_bench_server_options *options = bench->options;
    struct kvc_bench_server_result *result = bench->result;
    const struct kvc_device *device =
        kvc_device_find(strcmp(options->mode, "gpu") == 0 ? KVC_STR("cuda") : KVC_STR("cpu"));
    struct kvc_mode_choice choice;
    KVC_GUARD(kvc_mode_choose(options->transfer_mode, getenv(KVC_MODE_ENVIRONMENT), device, &choice,
                              err));
    if (device != &kvc_device_cpu)
        return kvc_fail(
            err, KVC_EUNSUPPORTED,
            "--mode gpu: the drivers of this version keep KV caches in CPU memory only; "
            "use --mode cpu");
    KVC_GUARD(kvc_geometry_parse_defaults(options->shape_spec, options->num_blocks,
                                          options->block_size, &bench->geometry, err));
    bench->is_mla = options->use_mla || bench->geometry.groups[0].kv_size == 1;
    bench->worker_count = options->tp_size;

    progress(bench, "Connecting to LMCache MP Server at %s (mode=%s) ...", options->rpc_url,
             options->mode);
    bench->rpc.dialect = options->dialect;
    if (bench->rpc.dialect == NULL) {
        struct kvc_identity identity;
        KVC_GUARD(kvc_identify(options->rpc_url, NULL, options->connect_timeout_ms,
                               options->timeout_ms, &identity, err));
        bench->rpc.dialect = identity.dialect;
    }
    bench->rpc.timeout_ms = options->timeout_ms;
    snprintf(result->dialect, sizeof(result->dialect), "%s", bench->rpc.dialect->name);
    KVC_GUARD(kvc_client_open(options->rpc_url, options->connect_timeout_ms, &bench->client, err));
    bench->rpc.client = bench->client;
    KVC_GUARD(kvc_rpc_chunk_size(&bench->rpc, &bench->chunk_tokens, err));
    result->chunk_size = bench->chunk_tokens;
    bench->chunk_count = (options->num_tokens + 1) / bench->chunk_tokens;
    progress(bench, "Server chunk_size = %lld", (long long)bench->chunk_tokens);
    progress(bench, "Resolved KV shape spec: %s", options->shape_spec);
    KVC_GUARD(check_shape(bench, err));

    bench->workers = kvc_alloc_zero((size_t)bench->worker_count, sizeof(struct kvc_worker *));
    for (int64_t rank = 0; rank < bench->worker_count; rank++)
        KVC_GUARD(open_worker(bench, rank, choice.mode, err));
    snprintf(result->path, sizeof(result->path), "%s", kvc_path_name(bench->workers[0]->path));
    snprintf(result->path_reason, sizeof(result->path_reason), "%s; %s", choice.reason,
             bench->workers[0]->path_reason);
    probe_http(bench);
    progress(bench, "Transfer path: %s (%s)", result->path, result->path_reason);
    return KVC_OK;
}

/* Whether there is nothing left to measure: each further request would only wait for its limits. */
static bool is_lost(struct bench *bench)
{
    struct kvc_error err = KVC_ERROR_INIT;
    bench->result->lost = !stopped(bench) && kvc_rpc_noop(&bench->rpc, &err) != KVC_OK;
    return bench->result->lost;
}

/* Leaves the server as it was found: every rank unregisters, whatever happened before. */
static void finish(struct bench *bench)
{
    struct kvc_error err = KVC_ERROR_INIT;
    for (int64_t rank = 0; bench->workers != NULL && rank < bench->worker_count; rank++)
        kvc_worker_close(bench->workers[rank], &err);
    free(bench->workers);
    if (bench->client != NULL)
        bench->result->server_answers = kvc_rpc_noop(&bench->rpc, &err) == KVC_OK;
    kvc_client_close(bench->client);
}

kvc_status kvc_bench_server_run(const struct kvc_bench_server_options *options,
                                struct kvc_bench_server_result *result, struct kvc_error *err)
{
    *result = (struct kvc_bench_server_result){0};
    struct bench bench = {.options = options, .result = result, .random = {.state = options->seed}};
    const kvc_status status = start(&bench, err);
    if (status == KVC_OK) {
        for (int64_t sequence = options->start; options->end < 0 || sequence < options->end;
             sequence++) {
            if (sequence != options->start)
                rest(&bench);
            if (stopped(&bench))
                break;
            const int64_t errors = result->errors;
            run_request(&bench, sequence);
            if (result->errors > errors && is_lost(&bench))
                break;
        }
        result->interrupted = stopped(&bench);
    }
    finish(&bench);
    return status;
}

void kvc_bench_server_result_clear(struct kvc_bench_server_result *result)
{
    for (size_t i = 0; i < KVC_BENCH_OPERATION_COUNT; i++)
        kvc_series_clear(&result->series[i]);
}

bool kvc_bench_server_is_valid(const struct kvc_bench_server_result *result)
{
    return result->requests > 0 && result->checksum_fail == 0 && result->cold_hits == 0 &&
           result->warm_misses == 0 && result->errors == 0 && !result->interrupted &&
           result->checksum_ok == result->requests;
}
