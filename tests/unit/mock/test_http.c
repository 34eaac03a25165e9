#include <criterion/criterion.h>
#include <jansson.h>
#include <string.h>

#include "src/kv/paged.h"
#include "src/link/http.h"
#include "tests/unit/mock/child.h"

static struct child child;
static struct kvc_http_response response;

static const char *ask(const char *method, const char *path, const char *body)
{
    struct kvc_error err = KVC_ERROR_INIT;
    kvc_http_response_clear(&response);
    cr_assert_eq(kvc_http_request(method, child.http_url, path, body, 5000, &response, &err),
                 KVC_OK, "%s", err.what);
    return kvc_buffer_text(&response.body);
}

static void start(const char *release)
{
    child_start(&child, (struct kvc_mock_options){
                            .pool_size = 1 << 20,
                            .dialect = kvc_dialect_find(kvc_str_of(release)),
                            .version = release,
                        });
}

static void finish(void)
{
    kvc_http_response_clear(&response);
    cr_assert_eq(child_stop(&child), 0);
}

/* protocol.md 8.1 */
Test(http, tells_that_it_is_well_and_which_release_it_speaks)
{
    start("0.5.6");
    cr_assert_str_eq(ask("GET", "/", NULL), "{\"status\":\"ok\",\"service\":\"LMCache HTTP API\"}");
    cr_assert_str_eq(response.content_type, "application/json");
    cr_assert_str_eq(ask("GET", "/healthcheck", NULL), "{\"status\":\"healthy\"}");
    cr_assert_str_eq(ask("GET", "/lmc_version", NULL), "\"0.5.6\"");
    cr_assert_eq(strncmp(ask("GET", "/version", NULL), "\"0.5.6-", 7), 0);
    cr_assert_eq(response.status, 200);
    ask("POST", "/healthcheck", "{}");
    cr_assert_eq(response.status, 405);
    cr_assert_str_eq(ask("GET", "/no/such/path", NULL), "{\"detail\":\"Not Found\"}");
    cr_assert_eq(response.status, 404);
    finish();
}

Test(http, status_has_the_counters)
{
    start("0.5.6");
    json_t *status = json_loads(ask("GET", "/status", NULL), 0, NULL);
    json_int_t chunk_size = 0, sessions = -1, objects = -1, locked = -1, writing = -1, total = 0;
    cr_assert_eq(json_unpack(status, "{s:I, s:I, s:{s:{s:I, s:I, s:I, s:I}}}", "chunk_size",
                             &chunk_size, "active_sessions", &sessions, "storage_manager",
                             "l1_manager", "total_object_count", &objects, "read_locked_count",
                             &locked, "write_locked_count", &writing, "memory_total_bytes", &total),
                 0);
    cr_assert_eq(chunk_size, 256);
    cr_assert(sessions == 0 && objects == 0 && locked == 0 && writing == 0);
    cr_assert_eq(total, 1 << 20);
    json_decref(status);
    cr_assert_not_null(strstr(ask("GET", "/config", NULL), "\"shm_name\":\"lmcache_l1_pool_"));
    finish();
}

/* protocol.md 8.3 */
Test(http, clears_in_the_words_of_the_newer_generation)
{
    start("0.5.6");
    cr_assert_str_eq(ask("POST", "/cache/clear", NULL),
                     "{\"status\":\"ok\",\"cleared\":{\"tier\":\"l1\"}}");
    ask("POST", "/cache/clear", "{\"tier\":\"l1\",\"force\":true}");
    cr_assert_eq(response.status, 200);
    ask("POST", "/cache/clear", "{\"tier\":\"l2\"}");
    cr_assert_eq(response.status, 400);
    ask("POST", "/cache/clear", "{\"force\":\"yes\"}");
    cr_assert_eq(response.status, 422);
    ask("POST", "/cache/clear", "no json");
    cr_assert_eq(response.status, 422);
    ask("POST", "/clear-cache", NULL);
    cr_assert_eq(response.status, 404);
    finish();
}

Test(http, the_oldest_release_has_the_older_routes)
{
    start("0.5.0");
    cr_assert_str_eq(ask("POST", "/clear-cache", NULL), "{\"status\":\"ok\"}");
    ask("GET", "/conf", NULL);
    cr_assert_eq(response.status, 200);
    cr_assert_str_eq(ask("GET", "/kvcache/check?block_ids=0&chunk_size=1&instance_id=5", NULL),
                     "{\"error\":\"instance_id 5 not registered\"}");
    cr_assert_eq(response.status, 404);
    ask("POST", "/cache/clear", NULL);
    cr_assert_eq(response.status, 404);
    finish();
}

/* protocol.md 8.4 */
Test(http, quotas_are_kept_by_salt)
{
    static const struct {
        const char *method, *path, *body, *answer;
        long status;
    } steps[] = {
        {"PUT", "/quota/u1", "{\"limit_gb\":1.5}",
         "{\"cache_salt\":\"u1\",\"limit_gb\":1.5,\"status\":\"ok\"}", 200},
        {"PUT", "/quota/u1", "{\"limit_gb\":-1}", "{\"error\":\"limit_gb must be non-negative\"}",
         400},
        {"PUT", "/quota/u1", "{\"limit_gb\":\"abc\"}", "{\"error\":\"limit_gb must be numeric\"}",
         400},
        {"PUT", "/quota/u1", "{}", "{\"error\":\"body must be {'limit_gb': <float>}\"}", 400},
        {"PUT", "/quota/u1", "zzz", "{\"error\":\"invalid JSON body\"}", 400},
        {"GET", "/quota/u1", NULL,
         "{\"cache_salt\":\"u1\",\"limit_gb\":1.5,\"current_usage_gb\":0.0,\"exists\":true}", 200},
        {"GET", "/quota/nobody", NULL,
         "{\"cache_salt\":\"nobody\",\"limit_gb\":0.0,\"current_usage_gb\":0.0,\"exists\":false}",
         200},
        {"GET", "/quota", NULL, "{\"users\":{\"u1\":{\"limit_gb\":1.5,\"current_usage_gb\":0.0}}}",
         200},
        {"DELETE", "/quota/u1", NULL, "{\"cache_salt\":\"u1\",\"status\":\"removed\"}", 200},
        {"DELETE", "/quota/u1", NULL, "{\"cache_salt\":\"u1\",\"status\":\"not_found\"}", 200},
        {"PUT", "/quota/_default", "{\"limit_gb\":2}",
         "{\"cache_salt\":\"_default\",\"limit_gb\":2.0,\"status\":\"ok\"}", 200},
        {"GET", "/quota", NULL,
         "{\"users\":{\"_default\":{\"limit_gb\":2.0,\"current_usage_gb\":0.0}}}", 200},
        {"GET", "/quota/%ff", NULL, "{\"detail\":\"a text of the request is not UTF-8\"}", 400},
        {"GET", "/quota/", NULL, "{\"detail\":\"Not Found\"}", 404},
    };
    start("0.5.6");
    for (size_t i = 0; i < KVC_COUNT_OF(steps); i++) {
        cr_assert_str_eq(ask(steps[i].method, steps[i].path, steps[i].body), steps[i].answer);
        cr_assert_eq(response.status, steps[i].status, "step %zu", i);
    }
    finish();
}

/* ---- checksums ---- */

static struct kvc_paged paged;

/* Registers instance 7: two layers of 8 blocks of 16 tokens, 2 heads of 8, all bytes of block n are n. */
static void register_worker(void)
{
    struct kvc_error err = KVC_ERROR_INIT;
    struct kvc_geometry geometry;
    int64_t shape[2][5], stride[2][5];
    struct kvc_tensor_handle handles[2];
    cr_assert_eq(kvc_geometry_parse("(2,8,16,2,8):float16:2", &geometry, &err), KVC_OK);
    cr_assert_eq(kvc_paged_open(&geometry, true, &paged, &err), KVC_OK, "%s", err.what);
    for (int64_t block = 0; block < 8; block++)
        kvc_paged_fill_block(&paged, block, (uint8_t)block);
    for (size_t i = 0; i < 2; i++) {
        const size_t rank = kvc_group_tensor_shape(&geometry.groups[0], shape[i], stride[i]);
        handles[i] = (struct kvc_tensor_handle){
            .shm_name = kvc_str_of(paged.tensors[i].segment.name),
            .nbytes = paged.tensors[i].bytes,
            .dtype = KVC_STR("float16"),
            .shape = {shape[i], rank},
            .stride = {stride[i], rank},
            .device_uuid = KVC_STR("cpu"),
        };
    }
    const struct kvc_request request = {
        .op = KVC_OP_REGISTER_KV_CACHE,
        .instance_id = 7,
        .handles = {handles, 2},
        .model_name = KVC_STR("m"),
        .world_size = 1,
        .engine_type = KVC_STR("vllm"),
        .layout_hints = {.kv_layout = KVC_STR("NHD")},
    };
    cr_assert_eq(kvc_rpc_call_void(&child.rpc, &request, &err), KVC_OK, "%s", err.what);
}

/* Digests by Python: for blocks 4 and 6, hashlib.md5((bytes([4]) * 512 + bytes([6]) * 512) * 2 * 2), which
 * is K and V of two layers; of one layer, once less. */
Test(http, checksums_are_md5_over_layers_and_blocks)
{
    start("0.5.6");
    register_worker();
    cr_assert_str_eq(
        ask("POST", "/cache/checksums",
            "{\"instance_id\":7,\"block_ids\":[4,6,1,2,3],\"chunk_size\":2}"),
        "{\"status\":\"success\",\"chunk_size\":2,\"num_chunks\":3,\"chunk_checksums\":["
        "\"79c8f692f1bb0400fabb18d503e61d2d\",\"56fa9f15c9809f431858642388ba4ee0\","
        "\"139d3244cb77a3e41345c41aeecf8aa7\"],\"layerwise\":false,\"block_id_ranges\":[4,6,[1,3]]}");
    cr_assert_str_eq(
        ask("POST", "/cache/checksums",
            "{\"instance_id\":7,\"block_ids\":[4,6],\"chunk_size\":2,\"layerwise\":true}"),
        "{\"status\":\"success\",\"chunk_size\":2,\"num_chunks\":1,\"chunk_checksums\":"
        "{\"layer_0\":[\"e889271c23257c5196712c121a733938\"],\"layer_1\":["
        "\"e889271c23257c5196712c121a733938\"]},\"layerwise\":true,\"block_id_ranges\":[4,6]}");
    kvc_paged_close(&paged);
    finish();
}

Test(http, checksum_mistakes_have_their_status)
{
    start("0.5.6");
    register_worker();
    static const struct {
        const char *body;
        long status;
    } cases[] = {
        {"{\"instance_id\":12345}", 404},
        {"{}", 404},
        {"{\"instance_id\":7}", 400},
        {"{\"instance_id\":7,\"block_ids\":[]}", 400},
        {"{\"instance_id\":7,\"block_ids\":[1],\"chunk_size\":0}", 400},
        {"{\"instance_id\":7,\"block_ids\":[1],\"chunk_size\":-1}", 400},
        {"{\"instance_id\":7,\"block_ids\":[8],\"chunk_size\":1}", 400},
        {"{\"instance_id\":7,\"block_ids\":[-1],\"chunk_size\":1}", 400},
        {"{\"instance_id\":7,\"block_ids\":[\"1\"],\"chunk_size\":1}", 422},
        {"{\"instance_id\":7,\"block_ids\":7,\"chunk_size\":1}", 422},
        {"{\"instance_id\":\"7\",\"block_ids\":[1],\"chunk_size\":1}", 422},
        {"[]", 422},
        {"{", 422},
    };
    for (size_t i = 0; i < KVC_COUNT_OF(cases); i++) {
        ask("POST", "/cache/checksums", cases[i].body);
        cr_assert_eq(response.status, cases[i].status, "%s: %ld", cases[i].body, response.status);
    }
    kvc_paged_close(&paged);
    finish();
}

Test(http, the_older_form_takes_ranges)
{
    start("0.5.0");
    child.rpc.dialect = kvc_dialect_find(KVC_STR("0.5.0"));
    register_worker();
    cr_assert_str_eq(
        ask("GET", "/kvcache/check?instance_id=7&block_ids=4,6,[1,3]&chunk_size=2", NULL),
        "{\"status\":\"success\",\"chunk_size\":2,\"num_chunks\":3,\"chunk_checksums\":["
        "\"79c8f692f1bb0400fabb18d503e61d2d\",\"56fa9f15c9809f431858642388ba4ee0\","
        "\"139d3244cb77a3e41345c41aeecf8aa7\"],\"layerwise\":false,\"block_id_ranges\":[4,6,[1,3]]}");
    static const char *const bad[] = {"x", "1,", "[1,", "[1]", "[1,2", "1;2", "1,,2"};
    for (size_t i = 0; i < KVC_COUNT_OF(bad); i++) {
        char path[128];
        snprintf(path, sizeof(path), "/kvcache/check?instance_id=7&chunk_size=2&block_ids=%s",
                 bad[i]);
        ask("GET", path, NULL);
        cr_assert_eq(response.status, 400, "%s", bad[i]);
    }
    kvc_paged_close(&paged);
    finish();
}
