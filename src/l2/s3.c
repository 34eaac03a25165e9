/* Objects of a bucket, addressed as LMCache does it (the bucket is part of the host), by libcurl and its
 * signatures (AWS Signature Version 4). */
#include <stdlib.h>
#include <string.h>

#include <curl/curl.h>

#include "src/l2/l2.h"

enum { CONNECT_MS = 5000, ANSWER_MS = 60000 };

struct config {
    const char *s3_endpoint;
    const char *s3_region;
    int64_t s3_num_io_threads;
    bool s3_prefer_http2;
    bool disable_tls;
    const char *access_key;
    const char *secret_key;
};

struct store {
    const struct config *config;
    char *base_url;
    char *signing; /* for CURLOPT_AWS_SIGV4 */
    const char *access_key, *secret_key, *token;
};

struct lane {
    const struct store *store;
    CURL *curl;
    struct curl_slist *headers;
    struct kvc_l2_item *item; /* of the request under way */
    bool receives;
    size_t moved;     /* bytes of it sent or received; more than its size: too many came */
    char reason[128]; /* the beginning of a body that tells what is wrong */
    size_t reason_size;
    char problem[CURL_ERROR_SIZE];
};

#define FIELD(member) offsetof(struct config, member)

static const struct kvc_l2_field fields[] = {
    {.name = "s3_endpoint",
     .kind = KVC_L2_TEXT,
     .offset = FIELD(s3_endpoint),
     .required = true,
     .accepted = "BUCKET.HOST or s3://BUCKET.HOST"},
    {.name = "s3_region",
     .kind = KVC_L2_TEXT,
     .offset = FIELD(s3_region),
     .required = true,
     .accepted = "a region, such as us-east-1"},
    {.name = "s3_num_io_threads",
     .kind = KVC_L2_INTEGER,
     .offset = FIELD(s3_num_io_threads),
     .minimum = 1,
     .maximum = 256,
     .accepted = "a number of connections from 1 to 256"},
    {.name = "s3_prefer_http2",
     .kind = KVC_L2_BOOL,
     .offset = FIELD(s3_prefer_http2),
     .accepted = "true or false"},
    {.name = "disable_tls",
     .kind = KVC_L2_BOOL,
     .offset = FIELD(disable_tls),
     .accepted = "true or false"},
    {.name = "aws_access_key_id",
     .kind = KVC_L2_TEXT,
     .offset = FIELD(access_key),
     .accepted = "the id of an access key"},
    {.name = "aws_secret_access_key",
     .kind = KVC_L2_TEXT,
     .offset = FIELD(secret_key),
     .secret = true,
     .accepted = "the secret of an access key"},
    {.name = "s3_enable_s3express", .kind = KVC_L2_ONLY, .only = "false"},
    {.name = "max_capacity_gb", .kind = KVC_L2_NO_MATTER},
};

static const struct config defaults = {
    .s3_num_io_threads = 64, .s3_prefer_http2 = true, .access_key = "", .secret_key = ""};

/* ---- opening ---- */

static const char *environment(const char *name)
{
    const char *value = getenv(name);
    return value == NULL ? "" : value;
}

static kvc_status choose_credentials(struct store *store, struct kvc_error *err)
{
    const struct config *config = store->config;
    const bool given = config->access_key[0] != '\0' && config->secret_key[0] != '\0';
    store->access_key = given ? config->access_key : environment("AWS_ACCESS_KEY_ID");
    store->secret_key = given ? config->secret_key : environment("AWS_SECRET_ACCESS_KEY");
    store->token = given ? "" : environment("AWS_SESSION_TOKEN");
    if (store->access_key[0] != '\0' && store->secret_key[0] != '\0')
        return KVC_OK;
    kvc_fail(err, KVC_EUSAGE, "no credentials");
    kvc_error_set_where(err, "aws_access_key_id");
    return kvc_error_set_expected(err,
                                  "it and aws_secret_access_key here, or AWS_ACCESS_KEY_ID and "
                                  "AWS_SECRET_ACCESS_KEY in the environment");
}

static kvc_status check_endpoint(const char *base_url, struct kvc_error *err)
{
    CURLU *parts = curl_url();
    const bool good = curl_url_set(parts, CURLUPART_URL, base_url, 0) == CURLUE_OK &&
                      strpbrk(strstr(base_url, "://") + 3, "/?#@") == NULL;
    curl_url_cleanup(parts);
    if (good)
        return KVC_OK;
    kvc_fail(err, KVC_EUSAGE, "'%s' is no address", kvc_text_show(kvc_str_of(base_url)).text);
    kvc_error_set_where(err, "s3_endpoint");
    return kvc_error_set_expected(err, "BUCKET.HOST or BUCKET.HOST:PORT");
}

static kvc_status s3_close(void *opaque, struct kvc_error *err)
{
    (void)err;
    struct store *store = opaque;
    free(store->base_url);
    free(store->signing);
    free(store);
    return KVC_OK;
}

static kvc_status s3_open(const void *values, const struct kvc_l2_memory *memory, void **opened,
                          struct kvc_error *err)
{
    (void)memory;
    const struct config *config = values;
    const bool has_scheme = strncmp(config->s3_endpoint, "s3://", 5) == 0;
    curl_global_init(CURL_GLOBAL_DEFAULT);
    struct store *store = kvc_alloc_zero(1, sizeof(*store));
    store->config = config;
    store->base_url = kvc_format("%s://%s", config->disable_tls ? "http" : "https",
                                 config->s3_endpoint + (has_scheme ? 5 : 0));
    store->signing = kvc_format("aws:amz:%s:s3", config->s3_region);
    kvc_status status = check_endpoint(store->base_url, err);
    if (status == KVC_OK)
        status = choose_credentials(store, err);
    if (status == KVC_OK)
        *opened = store;
    else
        s3_close(store, NULL);
    return status;
}

/* ---- one request ---- */

static size_t send_object(char *buffer, size_t size, size_t count, void *user)
{
    struct lane *lane = user;
    const size_t room = size * count, left = lane->item->size - lane->moved;
    const size_t sent = left < room ? left : room;
    if (sent > 0)
        memcpy(buffer, lane->item->data + lane->moved, sent);
    lane->moved += sent;
    return sent;
}

/* libcurl starts over when a kept connection turns out to be closed. */
static int rewind_object(void *user, curl_off_t offset, int origin)
{
    struct lane *lane = user;
    if (origin != SEEK_SET || offset < 0 || (uint64_t)offset > lane->item->size)
        return CURL_SEEKFUNC_FAIL;
    lane->moved = (size_t)offset;
    return CURL_SEEKFUNC_OK;
}

static size_t keep_reason(struct lane *lane, const char *data, size_t size)
{
    const size_t room = sizeof(lane->reason) - lane->reason_size;
    const size_t kept = size < room ? size : room;
    memcpy(lane->reason + lane->reason_size, data, kept);
    lane->reason_size += kept;
    return size;
}

static size_t take_body(char *data, size_t size, size_t count, void *user)
{
    struct lane *lane = user;
    const size_t bytes = size * count;
    long status = 0;
    curl_easy_getinfo(lane->curl, CURLINFO_RESPONSE_CODE, &status);
    if (status != 200 || !lane->receives)
        return keep_reason(lane, data, bytes);
    if (lane->moved > lane->item->size || bytes > lane->item->size - lane->moved) {
        lane->moved = lane->item->size + 1;
        return 0; /* ends the transfer */
    }
    memcpy(lane->item->data + lane->moved, data, bytes);
    lane->moved += bytes;
    return bytes;
}

static char *url_of(const struct lane *lane, const struct kvc_l2_item *item)
{
    struct kvc_buffer name = {0}, url = {0};
    kvc_l2_key_append(&item->key, &name);
    kvc_buffer_printf(&url, "%s/", lane->store->base_url);
    kvc_l2_percent_encode((struct kvc_str){(const char *)name.data, name.size}, "/", &url);
    kvc_buffer_clear(&name);
    return kvc_buffer_take_text(&url);
}

static void set_common(struct lane *lane)
{
    const struct store *store = lane->store;
    CURL *curl = lane->curl;
    curl_easy_reset(curl);
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(curl, CURLOPT_PROXY, "");
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_PATH_AS_IS, 1L); /* ".." in a model is no folder */
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_MS);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)ANSWER_MS);
    curl_easy_setopt(curl, CURLOPT_EXPECT_100_TIMEOUT_MS, 1L); /* "Expect:" would be signed */
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, lane->problem);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, lane->headers);
    curl_easy_setopt(curl, CURLOPT_USERNAME, store->access_key);
    curl_easy_setopt(curl, CURLOPT_PASSWORD, store->secret_key);
    curl_easy_setopt(curl, CURLOPT_AWS_SIGV4, store->signing);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take_body);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, lane);
    if (!store->config->s3_prefer_http2)
        curl_easy_setopt(curl, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
}

static void set_method(struct lane *lane, enum kvc_l2_operation operation)
{
    CURL *curl = lane->curl;
    switch (operation) {
    case KVC_L2_STORE:
        curl_easy_setopt(curl, CURLOPT_UPLOAD, 1L);
        curl_easy_setopt(curl, CURLOPT_INFILESIZE_LARGE, (curl_off_t)lane->item->size);
        curl_easy_setopt(curl, CURLOPT_READFUNCTION, send_object);
        curl_easy_setopt(curl, CURLOPT_READDATA, lane);
        curl_easy_setopt(curl, CURLOPT_SEEKFUNCTION, rewind_object);
        curl_easy_setopt(curl, CURLOPT_SEEKDATA, lane);
        break;
    case KVC_L2_LOOKUP:
        curl_easy_setopt(curl, CURLOPT_NOBODY, 1L);
        break;
    case KVC_L2_REMOVE:
        curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, "DELETE");
        break;
    default:
        break;
    }
}

/* *status is the HTTP status. */
static kvc_status request(struct lane *lane, enum kvc_l2_operation operation,
                          struct kvc_l2_item *item, long *status, struct kvc_error *err)
{
    char *url = url_of(lane, item);
    lane->item = item;
    lane->receives = operation == KVC_L2_LOAD;
    lane->moved = lane->reason_size = 0;
    lane->problem[0] = '\0';
    set_common(lane);
    set_method(lane, operation);
    curl_easy_setopt(lane->curl, CURLOPT_URL, url);
    const CURLcode code = curl_easy_perform(lane->curl);
    free(url);
    curl_easy_getinfo(lane->curl, CURLINFO_RESPONSE_CODE, status);
    if (code == CURLE_OK)
        return KVC_OK;
    if (lane->receives && lane->moved > item->size)
        return kvc_fail(err, KVC_EFORMAT, "the object has more than %zu bytes", item->size);
    return kvc_fail(err, code == CURLE_OPERATION_TIMEDOUT ? KVC_ETIMEOUT : KVC_ELOST, "%s: %s",
                    lane->store->base_url,
                    lane->problem[0] != '\0' ? lane->problem : curl_easy_strerror(code));
}

static kvc_status refused(const struct lane *lane, long status, struct kvc_error *err)
{
    const struct kvc_str reason = {lane->reason, lane->reason_size};
    return kvc_fail(err, KVC_EREFUSED, "%s answers with status %ld: %s", lane->store->base_url,
                    status, kvc_text_show(reason).text);
}

/* ---- operations ---- */

static kvc_status s3_store(void *opaque, struct kvc_l2_item *item, struct kvc_error *err)
{
    struct lane *lane = opaque;
    long status = 0;
    KVC_GUARD(request(lane, KVC_L2_STORE, item, &status, err));
    if (status != 200 && status != 201)
        return refused(lane, status, err);
    item->outcome = KVC_L2_DONE;
    return KVC_OK;
}

static kvc_status s3_lookup(void *opaque, struct kvc_l2_item *item, struct kvc_error *err)
{
    struct lane *lane = opaque;
    long status = 0;
    KVC_GUARD(request(lane, KVC_L2_LOOKUP, item, &status, err));
    if (status != 200 && status != 404)
        return refused(lane, status, err);
    item->outcome = status == 200 ? KVC_L2_DONE : KVC_L2_ABSENT;
    return KVC_OK;
}

static kvc_status s3_load(void *opaque, struct kvc_l2_item *item, struct kvc_error *err)
{
    struct lane *lane = opaque;
    long status = 0;
    KVC_GUARD(request(lane, KVC_L2_LOAD, item, &status, err));
    if (status == 404) {
        item->outcome = KVC_L2_ABSENT;
        return KVC_OK;
    }
    if (status != 200)
        return refused(lane, status, err);
    if (lane->moved != item->size)
        return kvc_fail(err, KVC_EFORMAT, "the object has %zu bytes, not %zu", lane->moved,
                        item->size);
    item->outcome = KVC_L2_DONE;
    return KVC_OK;
}

/* S3 removes what is not there as well, and says the same. */
static kvc_status s3_remove(void *lane, struct kvc_l2_item *item, struct kvc_error *err)
{
    long status = 0;
    KVC_GUARD(s3_lookup(lane, item, err));
    if (item->outcome == KVC_L2_ABSENT)
        return KVC_OK;
    item->outcome = KVC_L2_FAILED;
    KVC_GUARD(request(lane, KVC_L2_REMOVE, item, &status, err));
    if (status != 200 && status != 204)
        return refused(lane, status, err);
    item->outcome = KVC_L2_DONE;
    return KVC_OK;
}

/* ---- lanes ---- */

static void s3_close_lane(void *opaque)
{
    struct lane *lane = opaque;
    curl_easy_cleanup(lane->curl);
    curl_slist_free_all(lane->headers);
    free(lane);
}

static void add_headers(struct lane *lane)
{
    lane->headers = curl_slist_append(NULL, "Content-Type: application/octet-stream");
    lane->headers = curl_slist_append(lane->headers, "x-amz-content-sha256: UNSIGNED-PAYLOAD");
    if (lane->store->token[0] == '\0')
        return;
    char *token = kvc_format("x-amz-security-token: %s", lane->store->token);
    lane->headers = curl_slist_append(lane->headers, token);
    free(token);
}

static kvc_status s3_open_lane(void *store, void **made, struct kvc_error *err)
{
    CURL *curl = curl_easy_init();
    if (curl == NULL)
        return kvc_fail(err, KVC_ESYSTEM, "libcurl does not start");
    struct lane *lane = kvc_alloc_zero(1, sizeof(*lane));
    lane->store = store;
    lane->curl = curl;
    add_headers(lane);
    *made = lane;
    return KVC_OK;
}

static size_t s3_lanes(const void *config)
{
    return (size_t)((const struct config *)config)->s3_num_io_threads;
}

const struct kvc_l2_adapter kvc_l2_s3 = {
    .type = "s3",
    .title = "S3L2Adapter",
    .fields = fields,
    .field_count = KVC_COUNT_OF(fields),
    .config_size = sizeof(struct config),
    .defaults = &defaults,
    .batch = 1,
    .lanes = s3_lanes,
    .open = s3_open,
    .open_lane = s3_open_lane,
    .operations = {s3_store, s3_lookup, s3_load, s3_remove},
    .close_lane = s3_close_lane,
    .close = s3_close,
};
