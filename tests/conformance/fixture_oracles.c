/* What the HTTP side says of the server's state. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "src/base/clock.h"
#include "src/link/http.h"
#include "tests/conformance/fixture.h"

/* Asks, and reads the answer, which the caller releases with json_decref. */
static json_t *ask(struct kvc_ctx *ctx, const char *method, const char *path, const char *body)
{
    const struct kvc_facts *facts = kvc_ctx_facts(ctx);
    struct kvc_http_response response = {0};
    struct kvc_error err = KVC_ERROR_INIT;
    kvc_expect_ok(
        ctx, path,
        kvc_http_request(method, facts->http_url, path, body, facts->timeout_ms, &response, &err),
        &err);
    json_error_t json_error;
    json_t *json = json_loadb((const char *)response.body.data, response.body.size, 0, &json_error);
    const long status = response.status;
    kvc_http_response_clear(&response);
    KVC_EXPECT(ctx, status == 200, "%s %s answers status %ld, not 200", method, path, status);
    KVC_EXPECT(ctx, json != NULL, "%s %s answers what is no JSON: %s", method, path,
               json_error.text);
    return json;
}

int64_t kvc_status_count(struct kvc_ctx *ctx, const char *path)
{
    json_t *status = ask(ctx, "GET", "/status", NULL);
    const json_t *value = status;
    char name[96];
    for (const char *rest = path; *rest != '\0';) {
        const size_t length = strcspn(rest, ".");
        snprintf(name, sizeof name, "%.*s", (int)length, rest);
        value = json_object_get(value, name);
        rest += length + (rest[length] == '.');
    }
    const bool countable = json_is_integer(value) || json_is_array(value) || json_is_object(value);
    const int64_t count = json_is_integer(value) ? (int64_t)json_integer_value(value)
                          : json_is_array(value) ? (int64_t)json_array_size(value)
                                                 : (int64_t)json_object_size(value);
    json_decref(status);
    KVC_EXPECT(ctx, countable, "GET /status has no number and no list %s", path);
    return count;
}

void kvc_expect_status_count(struct kvc_ctx *ctx, const char *path, int64_t expected)
{
    const int64_t deadline = kvc_now_ms() + 2000;
    int64_t got = kvc_status_count(ctx, path);
    while (got != expected && kvc_now_ms() < deadline) {
        kvc_sleep_ms(5);
        got = kvc_status_count(ctx, path);
    }
    kvc_expect_int(ctx, path, got, expected);
}

static void append_checksum_request(struct kvc_buffer *body, int64_t instance_id,
                                    struct kvc_ints blocks, int64_t blocks_per_chunk)
{
    kvc_buffer_printf(body, "{\"instance_id\": %lld, \"chunk_size\": %lld, \"layerwise\": false, ",
                      (long long)instance_id, (long long)blocks_per_chunk);
    kvc_buffer_append_text(body, "\"block_ids\": [");
    for (size_t i = 0; i < blocks.count; i++)
        kvc_buffer_printf(body, "%s%lld", i == 0 ? "" : ", ", (long long)blocks.items[i]);
    kvc_buffer_append_text(body, "]}");
}

struct kvc_strs kvc_http_checksums(struct kvc_ctx *ctx, int64_t instance_id, struct kvc_ints blocks,
                                   int64_t blocks_per_chunk)
{
    struct kvc_buffer body = {0};
    append_checksum_request(&body, instance_id, blocks, blocks_per_chunk);
    const struct kvc_str text =
        kvc_arena_copy_str(kvc_ctx_arena(ctx), kvc_str_of(kvc_buffer_text(&body)));
    kvc_buffer_clear(&body);
    json_t *answer = ask(ctx, "POST", "/cache/checksums", text.data);
    const json_t *digests = json_object_get(answer, "chunk_checksums");
    KVC_EXPECT(ctx, json_is_array(digests), "POST /cache/checksums gives no chunk_checksums");
    const size_t count = json_array_size(digests);
    struct kvc_str *items = kvc_arena_alloc_array(kvc_ctx_arena(ctx), count, sizeof *items);
    for (size_t i = 0; i < count; i++) {
        const char *digest = json_string_value(json_array_get(digests, i));
        KVC_EXPECT(ctx, digest != NULL, "chunk_checksums[%zu] is no text", i);
        items[i] = kvc_arena_copy_str(kvc_ctx_arena(ctx), kvc_str_of(digest));
    }
    json_decref(answer);
    return (struct kvc_strs){items, count};
}
