#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/mock_server/guard.h"
#include "tests/mock_server/http_routes.h"

/* Block ids that one request may name. */
enum { MAX_BLOCKS = 1 << 20 };

/* What is asked for, from either form of the request. */
struct question {
    int64_t instance_id;
    int64_t *block_ids;
    size_t block_count;
    int64_t blocks_per_chunk;
    bool layerwise;
};

/* An instance's tensors as its layers come: neighbours of one shape together. */
struct layers {
    struct kvc_geometry runs;
    uint8_t **tensors;
    size_t count;
    const struct kvc_group **shapes; /* one a layer */
};

/* ---- the request ---- */

static bool add_block(struct question *question, int64_t block)
{
    if (question->block_count == MAX_BLOCKS)
        return false;
    if (question->block_ids == NULL)
        question->block_ids = kvc_alloc(MAX_BLOCKS * sizeof(question->block_ids[0]));
    question->block_ids[question->block_count++] = block;
    return true;
}

static bool read_body(struct kvc_bytes body, struct question *question)
{
    json_t *root = json_loadb((const char *)body.data, body.size, 0, NULL);
    json_t *ids = NULL, *id;
    json_int_t instance = 0, blocks = 0;
    int layerwise = 0;
    size_t index;
    bool good = json_unpack(root, "{s?o, s?I, s?I, s?b}", "block_ids", &ids, "instance_id",
                            &instance, "chunk_size", &blocks, "layerwise", &layerwise) == 0 &&
                (ids == NULL || json_is_array(ids));
    if (good) {
        question->instance_id = instance;
        question->blocks_per_chunk = blocks;
        question->layerwise = layerwise != 0;
        json_array_foreach(ids, index, id)
        {
            good = good && json_is_integer(id) && add_block(question, json_integer_value(id));
        }
    }
    json_decref(root);
    return good;
}

static bool read_number(const char **text, int64_t *number)
{
    char *end = NULL;
    errno = 0;
    *number = strtoll(*text, &end, 10);
    if (errno != 0 || end == *text)
        return false;
    *text = end;
    return true;
}

/* "0,[2,5],8": single ids and ranges with both ends. */
static bool read_mixed_ids(const char *text, struct question *question)
{
    for (;;) {
        int64_t first = 0, last = 0;
        const bool is_range = *text == '[';
        text += is_range;
        if (!read_number(&text, &first))
            return false;
        last = first;
        if (is_range && (*text++ != ',' || !read_number(&text, &last) || *text++ != ']'))
            return false;
        for (int64_t id = first; id <= last; id++) {
            if (!add_block(question, id))
                return false;
        }
        if (*text == '\0')
            return true;
        if (*text++ != ',')
            return false;
    }
}

static int64_t query_number(const struct mock_http_request *request, const char *name)
{
    const char *text = request->query(request, name);
    return text != NULL ? strtoll(text, NULL, 10) : 0;
}

/* ---- the answer ---- */

static void free_layers(const struct mock_instance *instance, struct layers *layers)
{
    for (size_t i = 0; i < layers->count && instance->on_gpu; i++)
        free(layers->tensors[i]);
    free(layers->tensors);
    free(layers->shapes);
}

/* The tensor where it can be read: of one on a GPU a copy. */
static uint8_t *readable(const struct mock_instance *instance, size_t i)
{
    const struct mock_layer *layer = &instance->layers[i];
    if (!instance->on_gpu)
        return layer->data;
    const size_t size = (size_t)kvc_group_tensor_bytes(&layer->shape);
    uint8_t *copy = kvc_alloc_zero(size, 1);
    kvc_device_cuda.copy_out(copy, layer->data, size, NULL);
    return copy;
}

/* False when the layers change shape more often than one geometry can say. */
static bool read_layers(const struct mock *mock, const struct mock_instance *instance,
                        struct layers *layers)
{
    struct kvc_geometry *runs = &layers->runs;
    layers->count = instance->layer_count;
    layers->tensors = kvc_alloc_zero(layers->count, sizeof(layers->tensors[0]));
    layers->shapes = kvc_alloc_zero(layers->count, sizeof(layers->shapes[0]));
    for (size_t i = 0; i < layers->count; i++) {
        const struct kvc_group *shape = &instance->layers[i].shape;
        if (runs->group_count == 0 || !mock_same_shape(shape, layers->shapes[i - 1])) {
            if (runs->group_count == KVC_MAX_GROUPS)
                return false;
            runs->groups[runs->group_count] = *shape;
            runs->groups[runs->group_count++].num_layers = 0;
        }
        runs->groups[runs->group_count - 1].num_layers++;
        layers->tensors[i] = readable(instance, i);
        layers->shapes[i] = shape;
    }
    for (size_t i = 0; i < runs->group_count; i++) {
        struct kvc_group *run = &runs->groups[i];
        if (mock_has(mock, MOCK_DEFECT_CHECKSUM_BF16_RAW) && run->dtype->size == 2)
            run->dtype = kvc_dtype_find(KVC_STR("float16"));
    }
    return true;
}

static void touch_layers(void *arg)
{
    const struct mock_instance *instance = arg;
    for (size_t i = 0; !instance->on_gpu && i < instance->layer_count; i++) {
        const struct kvc_segment *segment = &instance->layers[i].segment;
        (void)*(volatile const uint8_t *)(segment->data + segment->size - 1);
    }
}

static bool ids_are_good(const struct layers *layers, const struct question *question)
{
    for (size_t i = 0; i < question->block_count; i++) {
        for (size_t run = 0; run < layers->runs.group_count; run++) {
            if (question->block_ids[i] < 0 ||
                question->block_ids[i] >= layers->runs.groups[run].num_blocks)
                return false;
        }
    }
    return true;
}

/* One digest a chunk. layer SIZE_MAX: over all layers. */
static json_t *digests(const struct layers *layers, size_t layer, const struct question *question)
{
    json_t *list = json_array();
    size_t at = 0;
    while (at < question->block_count) {
        size_t count = question->block_count - at;
        char hex[KVC_MD5_HEX_SIZE];
        if ((uint64_t)question->blocks_per_chunk < count)
            count = (size_t)question->blocks_per_chunk;
        if (layer == SIZE_MAX)
            kvc_block_checksum(&layers->runs, layers->tensors, question->block_ids + at, count,
                               hex);
        else
            kvc_layer_checksum(layers->shapes[layer], layers->tensors[layer],
                               question->block_ids + at, count, hex);
        json_array_append_new(list, json_string(hex));
        at += count;
    }
    return list;
}

static json_t *layer_digests(const struct mock *mock, const struct layers *layers,
                             const struct question *question)
{
    json_t *by_layer = json_object();
    for (size_t i = 0; i < layers->count; i++) {
        char name[32];
        snprintf(name, sizeof(name), "layer_%zu", i);
        const size_t layer = mock_has(mock, MOCK_DEFECT_CHECKSUM_ALL_LAYERS) ? SIZE_MAX : i;
        json_object_set_new(by_layer, name, digests(layers, layer, question));
    }
    return by_layer;
}

/* Runs of three and more ascending ids as [first, last]. */
static json_t *id_ranges(const struct question *question)
{
    const int64_t *ids = question->block_ids;
    json_t *ranges = json_array();
    size_t at = 0;
    while (at < question->block_count) {
        size_t end = at + 1;
        while (end < question->block_count && ids[end] == ids[end - 1] + 1)
            end++;
        if (end - at >= 3) {
            json_array_append_new(
                ranges, json_pack("[I, I]", (json_int_t)ids[at], (json_int_t)ids[end - 1]));
            at = end;
        }
        for (; at < end; at++)
            json_array_append_new(ranges, json_integer(ids[at]));
    }
    return ranges;
}

static json_t *describe(const struct mock *mock, const struct layers *layers,
                        struct question *question)
{
    json_t *ranges = id_ranges(question);
    const size_t per_chunk =
        mock_has(mock, MOCK_DEFECT_CHECKSUM_MISCOUNTS) ? 1 : (size_t)question->blocks_per_chunk;
    const json_int_t chunks = (json_int_t)((question->block_count - 1) / per_chunk + 1);
    for (size_t i = 0; mock_has(mock, MOCK_DEFECT_CHECKSUM_NEXT_BLOCK) && i < question->block_count;
         i++)
        question->block_ids[i] = (question->block_ids[i] + 1) % layers->runs.groups[0].num_blocks;
    json_t *checksums = question->layerwise ? layer_digests(mock, layers, question)
                                            : digests(layers, SIZE_MAX, question);
    return json_pack("{s:s, s:I, s:I, s:o, s:b, s:o}", "status", "success", "chunk_size",
                     (json_int_t)question->blocks_per_chunk, "num_chunks", chunks,
                     "chunk_checksums", checksums, "layerwise", question->layerwise,
                     "block_id_ranges", ranges);
}

/* A refusal, in the words of the route's generation: {"detail": …} or {"error": …}. */
static void refuse(struct mock_http_reply *reply, unsigned status, const char *member,
                   const char *text)
{
    reply->status = status;
    reply->body = json_pack("{s:s}", member, text);
}

static void answer(struct mock *mock, struct question *question, const char *member,
                   struct mock_http_reply *reply)
{
    struct mock_instance *instance =
        mock_registry_find(&mock->registry, MOCK_LMCACHE_DRIVEN, question->instance_id);
    struct layers layers = {0};
    if (instance == NULL) {
        char text[64];
        snprintf(text, sizeof(text), "instance_id %lld not registered",
                 (long long)question->instance_id);
        refuse(reply, mock_has(mock, MOCK_DEFECT_CHECKSUM_UNKNOWN_500) ? 500 : 404, member, text);
    } else if (question->block_count == 0) {
        refuse(reply, 400, member, "block_ids is required");
    } else if (question->blocks_per_chunk <= 0) {
        refuse(reply, 400, member, "chunk_size must be positive");
    } else if (!mock_guard(touch_layers, instance)) {
        refuse(reply, 500, member, "the instance has cut its memory short");
    } else if (!read_layers(mock, instance, &layers)) {
        refuse(reply, 501, member, "checksum not supported for layers of that many shapes");
    } else if (!ids_are_good(&layers, question)) {
        refuse(reply, mock_has(mock, MOCK_DEFECT_CHECKSUM_BAD_BLOCK_500) ? 500 : 400, member,
               "a block id is out of range");
    } else {
        reply->body = describe(mock, &layers, question);
    }
    free_layers(instance, &layers);
}

void mock_http_checksums(struct mock *mock, const struct mock_http_request *request,
                         struct mock_http_reply *reply)
{
    struct question question = {0};
    if (read_body(request->body, &question))
        answer(mock, &question, "detail", reply);
    else
        refuse(reply, 422, "detail",
               "the body must be {\"block_ids\": [int], \"chunk_size\": int, \"instance_id\": int, "
               "\"layerwise\": bool}");
    free(question.block_ids);
}

void mock_http_kvcache_check(struct mock *mock, const struct mock_http_request *request,
                             struct mock_http_reply *reply)
{
    const char *ids = request->query(request, "block_ids");
    const char *layerwise = request->query(request, "layerwise");
    struct question question = {
        .instance_id = query_number(request, "instance_id"),
        .blocks_per_chunk = query_number(request, "chunk_size"),
        .layerwise =
            layerwise != NULL && (strcmp(layerwise, "true") == 0 || strcmp(layerwise, "1") == 0),
    };
    if (ids == NULL || ids[0] == '\0' || read_mixed_ids(ids, &question))
        answer(mock, &question, "error", reply);
    else
        refuse(reply, 400, "error", "Invalid block_ids format");
    free(question.block_ids);
}
