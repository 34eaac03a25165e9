/* What a registration may say, and how: hints, groups, handles. */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/wire/pack.h"
#include "tests/conformance/registration_fixture.h"
#include "tests/conformance/robust_fixture.h"
#include "tests/conformance/transfer_fixture.h"

/* Frames of a REGISTER_KV_CACHE. */
enum { HANDLES_FRAME = 2, HINTS_FRAME = 6, GROUPS_FRAME = 7 };

static struct kvc_bytes kept(struct kvc_ctx *ctx, struct kvc_buffer *buffer)
{
    const struct kvc_str copy = kvc_arena_copy_str(
        kvc_ctx_arena(ctx), (struct kvc_str){(const char *)buffer->data, buffer->size});
    kvc_buffer_clear(buffer);
    return (struct kvc_bytes){(const uint8_t *)copy.data, copy.size};
}

/* The body of the check's registration with one frame changed. */
static struct kvc_frames changed_body(struct kvc_ctx *ctx, const struct kvc_worker_options *options,
                                      size_t frame, struct kvc_bytes bytes)
{
    const struct kvc_request registration = kvc_fresh_registration(ctx, options);
    struct kvc_frames body = kvc_body_of(ctx, &registration);
    struct kvc_frames changed = kvc_body_with(&body, frame, bytes);
    kvc_frames_clear(&body);
    return changed;
}

static void expect_void(struct kvc_ctx *ctx, struct kvc_frames *body, const char *what)
{
    const struct kvc_rpc *rpc = kvc_ctx_rpc(ctx);
    uint64_t uid = 0;
    struct kvc_frames reply = {0};
    struct kvc_error err = KVC_ERROR_INIT;
    kvc_expect_ok(ctx, what, kvc_client_send(rpc->client, body, &uid, &err), &err);
    kvc_expect_ok(ctx, what, kvc_client_wait(rpc->client, uid, rpc->timeout_ms, &reply, &err),
                  &err);
    const size_t count = reply.count;
    kvc_frames_clear(&reply);
    kvc_expect_int(ctx, "frames of the answer", (int64_t)count, 2);
}

/* ---- layout hints ---- */

static const char *const bad_hint_names[] = {"nil", "list", "unknown-layout", "layout-is-number",
                                             NULL};
static const struct kvc_str bad_hints[] = {KVC_TABLE_BYTES("\xc0"), KVC_TABLE_BYTES("\x90"),
                                           KVC_TABLE_BYTES("\x81\xa9kv_layout\xa3XYZ"),
                                           KVC_TABLE_BYTES("\x81\xa9kv_layout\x01")};

static void refuses_bad_hints(struct kvc_ctx *ctx)
{
    const struct kvc_worker_options options = kvc_worker_defaults(ctx);
    const struct kvc_str hints = bad_hints[kvc_variant_index(ctx)];
    struct kvc_frames body = changed_body(
        ctx, &options, HINTS_FRAME, (struct kvc_bytes){(const uint8_t *)hints.data, hints.size});
    kvc_expect_silence_raw(ctx, kvc_ctx_rpc(ctx), &body, "layout hints that are none");
}
KVC_CHECK(
    refuses_bad_hints, .id = "registration/bad-hints",
    .clause =
        "A registration whose layout hints are no map, or name a layout that there is not, is not "
        "answered.",
    .source = "protocol 3.5, 4.2, B52", .exchange = "REGISTER_KV_CACHE, NOOP",
    .level = KVC_LEVEL_SHOULD, .paths = 1u << KVC_PATH_LMCACHE_DRIVEN, .variants = bad_hint_names,
    .run = refuses_bad_hints);

static const char *const good_hint_names[] = {"empty", "unknown-key", NULL};
static const struct kvc_str good_hints[] = {
    KVC_TABLE_BYTES("\x80"), KVC_TABLE_BYTES("\x82\xa9kv_layout\xa3HND\xa9something\x01")};

static void takes_good_hints(struct kvc_ctx *ctx)
{
    const struct kvc_worker_options options = kvc_worker_defaults(ctx);
    const struct kvc_str hints = good_hints[kvc_variant_index(ctx)];
    struct kvc_frames body = changed_body(
        ctx, &options, HINTS_FRAME, (struct kvc_bytes){(const uint8_t *)hints.data, hints.size});
    expect_void(ctx, &body, "REGISTER_KV_CACHE");
}
KVC_CHECK(takes_good_hints, .id = "registration/good-hints",
          .clause = "Layout hints may be empty, and may hold keys that the server does not know.",
          .source = "protocol 3.5", .exchange = "REGISTER_KV_CACHE", .level = KVC_LEVEL_OBSERVED,
          .paths = 1u << KVC_PATH_LMCACHE_DRIVEN, .variants = good_hint_names,
          .run = takes_good_hints);

/* ---- groups ---- */

static void takes_short_group(struct kvc_ctx *ctx)
{
    const struct kvc_worker_options options = kvc_worker_defaults(ctx);
    struct kvc_buffer groups = {0};
    kvc_msgpack_write_array(&groups, 1);
    kvc_msgpack_write_map(&groups, 2);
    kvc_msgpack_write_str(&groups, KVC_STR("engine_group_id"));
    kvc_msgpack_write_int(&groups, 0);
    kvc_msgpack_write_str(&groups, KVC_STR("layer_indices"));
    kvc_msgpack_write_array(&groups, 2);
    kvc_msgpack_write_int(&groups, 0);
    kvc_msgpack_write_int(&groups, 1);
    struct kvc_frames body = changed_body(ctx, &options, GROUPS_FRAME, kept(ctx, &groups));
    expect_void(ctx, &body, "REGISTER_KV_CACHE");
}
KVC_CHECK(takes_short_group, .id = "registration/short-group",
          .clause = "A group of layers may leave out everything but its number and its layers.",
          .source = "protocol 3.5", .exchange = "REGISTER_KV_CACHE", .level = KVC_LEVEL_OBSERVED,
          .paths = 1u << KVC_PATH_LMCACHE_DRIVEN, .run = takes_short_group);

/* ---- handles ---- */

static const char *const odd_handle_names[] = {"other-ext-type", "bytes", "map", "empty-ext", NULL};

/* A list with one handle in the form of the variant, made of a right one's bytes. */
static struct kvc_bytes odd_handles(struct kvc_ctx *ctx, struct kvc_bytes right)
{
    enum { HEAD = 3 }; /* of a list and an ext8 in it */
    struct kvc_buffer out = {0};
    const struct kvc_bytes inner = {right.data + HEAD, right.size > HEAD ? right.size - HEAD : 0};
    kvc_msgpack_write_array(&out, 1);
    if (kvc_ctx_variant_is(ctx, "other-ext-type"))
        kvc_msgpack_write_ext(&out, 2, inner);
    else if (kvc_ctx_variant_is(ctx, "bytes"))
        kvc_msgpack_write_bin(&out, inner);
    else if (kvc_ctx_variant_is(ctx, "map"))
        kvc_msgpack_write_map(&out, 0);
    else
        kvc_msgpack_write_ext(&out, 1, (struct kvc_bytes){0});
    return kept(ctx, &out);
}

static void refuses_odd_handles(struct kvc_ctx *ctx)
{
    const struct kvc_worker_options options = kvc_worker_defaults(ctx);
    const struct kvc_request registration = kvc_fresh_registration(ctx, &options);
    struct kvc_frames right = kvc_body_of(ctx, &registration);
    struct kvc_frames wrong = kvc_body_with(
        &right, HANDLES_FRAME, odd_handles(ctx, kvc_frames_view(&right, HANDLES_FRAME)));
    kvc_frames_clear(&right);
    kvc_expect_silence_raw(ctx, kvc_ctx_rpc(ctx), &wrong, "tensor handles that are none");
}
KVC_CHECK(
    refuses_odd_handles, .id = "registration/odd-handles",
    .clause =
        "A registration whose tensor handles are no msgpack extensions of type 1 is not answered.",
    .source = "protocol 3.6, 10.25", .exchange = "REGISTER_KV_CACHE, NOOP",
    .level = KVC_LEVEL_SHOULD, .paths = 1u << KVC_PATH_LMCACHE_DRIVEN, .variants = odd_handle_names,
    .run = refuses_odd_handles);

static const char *const bound_names[] = {
    "one-byte-short", "offset-at-the-end", "offset-wraps", "negative-offset",
    "shape-wraps",    "negative-shape",    "no-bytes",     NULL};

static void spoil_bounds(struct kvc_ctx *ctx, struct kvc_tensor_handle *handle)
{
    int64_t *shape = kvc_arena_alloc_array(kvc_ctx_arena(ctx), handle->shape.count, sizeof *shape);
    for (size_t i = 0; i < handle->shape.count; i++)
        shape[i] = handle->shape.items[i];
    handle->shape.items = shape;
    if (kvc_ctx_variant_is(ctx, "one-byte-short"))
        handle->nbytes -= 1;
    else if (kvc_ctx_variant_is(ctx, "offset-at-the-end"))
        handle->storage_offset = handle->nbytes / 2; /* elements of two bytes */
    else if (kvc_ctx_variant_is(ctx, "offset-wraps"))
        handle->storage_offset = INT64_MAX / 2 + 1;
    else if (kvc_ctx_variant_is(ctx, "negative-offset"))
        handle->storage_offset = -1;
    else if (kvc_ctx_variant_is(ctx, "shape-wraps"))
        shape[1] = INT64_MAX / 4;
    else if (kvc_ctx_variant_is(ctx, "negative-shape"))
        shape[1] = -shape[1];
    else
        handle->nbytes = 0;
}

static void refuses_bad_bounds(struct kvc_ctx *ctx)
{
    const struct kvc_worker_options options = kvc_worker_defaults(ctx);
    struct kvc_request registration = kvc_fresh_registration(ctx, &options);
    spoil_bounds(ctx, kvc_own_handles(ctx, &registration));
    kvc_expect_silence(ctx, kvc_ctx_rpc(ctx), &registration,
                       "a tensor that does not lie in its memory");
}
KVC_CHECK(
    refuses_bad_bounds, .id = "registration/bad-bounds",
    .clause =
        "A registration with a tensor that begins before its memory, or ends behind it by a single "
        "byte or by overflow, is not answered.",
    .source = "protocol 3.6, 4.2, N23", .exchange = "REGISTER_KV_CACHE, NOOP",
    .level = KVC_LEVEL_SHOULD, .paths = 1u << KVC_PATH_LMCACHE_DRIVEN, .variants = bound_names,
    .run = refuses_bad_bounds);

static const char *const block_count_names[] = {"zero", "negative", NULL};
static const int64_t block_counts[] = {0, -40};

static void refuses_no_blocks(struct kvc_ctx *ctx)
{
    const struct kvc_worker_options options = kvc_worker_defaults(ctx);
    struct kvc_request registration = kvc_fresh_registration(ctx, &options);
    struct kvc_tensor_handle *handle = kvc_own_handles(ctx, &registration);
    const size_t axis = options.geometry.groups[0].layout == KVC_LAYOUT_HND ? 1 : 0;
    int64_t *shape = kvc_arena_alloc_array(kvc_ctx_arena(ctx), handle->shape.count, sizeof *shape);
    for (size_t i = 0; i < handle->shape.count; i++)
        shape[i] = i == axis ? block_counts[kvc_variant_index(ctx)] : handle->shape.items[i];
    handle->shape.items = shape;
    kvc_expect_silence(ctx, kvc_ctx_rpc(ctx), &registration, "a tensor without blocks");
}
KVC_CHECK(
    refuses_no_blocks, .id = "registration/no-blocks",
    .clause = "A registration with a tensor of no blocks, or of less than none, is not answered.",
    .source = "protocol 3.6, 4.2, N23", .exchange = "REGISTER_KV_CACHE, NOOP",
    .level = KVC_LEVEL_SHOULD, .paths = 1u << KVC_PATH_LMCACHE_DRIVEN,
    .layouts = KVC_LAYOUT_BIT(KVC_LAYOUT_HND) | KVC_LAYOUT_BIT(KVC_LAYOUT_MLA),
    .variants = block_count_names, .run = refuses_no_blocks);

/* ---- the pool's file ---- */

static void keeps_pool_private(struct kvc_ctx *ctx)
{
    const struct kvc_worker *worker = kvc_default_worker(ctx);
    struct kvc_buffer path = {0};
    kvc_buffer_printf(&path, "/%s", worker->pool_name);
    const int pool = shm_open(kvc_buffer_text(&path), O_RDONLY, 0);
    struct stat status = {0};
    const bool known = pool >= 0 && fstat(pool, &status) == 0;
    kvc_buffer_clear(&path);
    if (pool >= 0)
        close(pool);
    KVC_EXPECT(ctx, known, "the pool cannot be opened by its name");
    kvc_expect_int(ctx, "what the pool's mode grants to others than its owner",
                   status.st_mode & 077, 0);
}
KVC_CHECK(keeps_pool_private, .id = "registration/private-pool",
          .clause = "The pool's segment can be opened by the server's user alone.",
          .source = "protocol 5", .exchange = "REGISTER_ENGINE_DRIVEN, shm_open, fstat",
          .level = KVC_LEVEL_SHOULD, .needs = KVC_NEED_POOL | KVC_NEED_ENGINE_DRIVEN,
          .run = keeps_pool_private);
