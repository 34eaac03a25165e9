/* The server's own checksums (POST /cache/checksums) against ours. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "src/bench/server_parts.h"
#include "src/kv/digest.h"
#include "src/link/http.h"

enum { HTTP_TIMEOUT_MS = 5000 };

static kvc_status fetch(const struct kvc_bench *bench, const struct kvc_worker *worker,
                        struct kvc_ints blocks, int64_t blocks_per_chunk, json_t **digests,
                        struct kvc_error *err)
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

kvc_status kvc_bench_http_compare(const struct kvc_bench *bench, const struct kvc_worker *worker,
                                  struct kvc_ints blocks, struct kvc_error *err)
{
    const int64_t per_chunk = bench->chunk_tokens / bench->geometry.groups[0].block_size;
    json_t *digests = NULL;
    KVC_GUARD(fetch(bench, worker, blocks, per_chunk, &digests, err));
    uint8_t **tensors = kvc_alloc(worker->paged.tensor_count * sizeof(*tensors));
    for (size_t i = 0; i < worker->paged.tensor_count; i++)
        tensors[i] = worker->paged.tensors[i].data;
    kvc_status status = KVC_OK;
    const int64_t chunks = (int64_t)blocks.count / per_chunk;
    for (int64_t chunk = 0; chunk < chunks && status == KVC_OK; chunk++) {
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

/* Why they are not even asked for; NULL: they are. */
static const char *reason_not_to(const struct kvc_bench *bench)
{
    const char *url = bench->options->http_url;
    if (bench->clients[0].workers[0]->path != KVC_PATH_LMCACHE_DRIVEN)
        return "the server maps no tensors on this path";
    if (url == NULL || url[0] == '\0')
        return "no --url";
    if (bench->client_count > 1 || bench->options->rate > 0 || bench->options->ramp != NULL)
        return "the server would compute them while others are measured";
    return NULL;
}

void kvc_bench_http_probe(struct kvc_bench *bench)
{
    char *note = bench->result->http_checksums;
    const size_t size = sizeof(bench->result->http_checksums);
    const char *reason = reason_not_to(bench);
    if (reason != NULL) {
        snprintf(note, size, "not compared: %s", reason);
        return;
    }
    struct kvc_error err = KVC_ERROR_INIT;
    const int64_t block = 0;
    json_t *digests = NULL;
    if (fetch(bench, bench->clients[0].workers[0], (struct kvc_ints){&block, 1}, 1, &digests,
              &err) == KVC_OK) {
        bench->compare_http = true;
        snprintf(note, size, "compared with %.100s", bench->options->http_url);
    } else {
        snprintf(note, size, "not compared: %.140s", err.what);
    }
    json_decref(digests);
}
