/* Messages that no client should send, and that must not end the server. Each asks for a server that
 * may be restarted: releases up to 0.5.5 stop answering everybody after one of them. */
#include "tests/conformance/fixture.h"

static const char *const odd_operations[] = {"unknown-number",
                                             "zero",
                                             "negative-number",
                                             "huge-number",
                                             "unknown-name",
                                             "bytes",
                                             "nil",
                                             "bool",
                                             "float",
                                             "list",
                                             "map",
                                             "ext",
                                             "reserved-byte",
                                             "truncated",
                                             "trailing-byte",
                                             "bad-utf-8",
                                             "empty",
                                             "deep-nesting",
                                             NULL};
static const struct kvc_str odd_operation_bytes[] = {
    KVC_TABLE_BYTES("\xcd\x03\xe7"),
    KVC_TABLE_BYTES("\x00"),
    KVC_TABLE_BYTES("\xff"),
    KVC_TABLE_BYTES("\xcf\xff\xff\xff\xff\xff\xff\xff\xff"),
    KVC_TABLE_BYTES("\xacno_operation"),
    KVC_TABLE_BYTES("\xc4\x04noop"),
    KVC_TABLE_BYTES("\xc0"),
    KVC_TABLE_BYTES("\xc2"),
    KVC_TABLE_BYTES("\xcb\x40\x08\0\0\0\0\0\0"),
    KVC_TABLE_BYTES("\x91\x01"),
    KVC_TABLE_BYTES("\x80"),
    KVC_TABLE_BYTES("\xd4\x01\x01"),
    KVC_TABLE_BYTES("\xc1"),
    KVC_TABLE_BYTES("\xcd\x01"),
    KVC_TABLE_BYTES("\x18\x18"),
    KVC_TABLE_BYTES("\xa2\xff\xfe"),
    KVC_TABLE_BYTES("")};

/* Nothing comes back to the sender, and a new client is served. */
static void expect_ignored(struct kvc_ctx *ctx, struct kvc_frames *message)
{
    const struct kvc_facts *facts = kvc_ctx_facts(ctx);
    const struct kvc_rpc *sender = kvc_ctx_rpc_new(ctx);
    struct kvc_error err = KVC_ERROR_INIT;
    kvc_expect_ok(ctx, "sending", kvc_client_send_raw(sender->client, message, &err), &err);
    kvc_expect_served(ctx, kvc_ctx_rpc_new(ctx), "NOOP of a client that comes afterwards");
    struct kvc_frames reply = {0};
    const kvc_status status =
        kvc_client_receive_raw(sender->client, facts->silence_ms / 4, &reply, &err);
    KVC_EXPECT(ctx, status != KVC_OK, "a message that is no request is answered");
}

static void survives_odd_operation(struct kvc_ctx *ctx)
{
    struct kvc_frames message = {0};
    kvc_frames_append_copy(&message, "\x07", 1);
    if (kvc_ctx_variant_is(ctx, "deep-nesting")) {
        kvc_append_nested_arrays(&message);
    } else {
        const struct kvc_str bytes = odd_operation_bytes[kvc_variant_index(ctx)];
        kvc_frames_append_copy(&message, bytes.data, bytes.size);
    }
    expect_ignored(ctx, &message);
}
KVC_CHECK(survives_odd_operation, .id = "robust/odd-operation",
          .clause =
              "A message whose operation is unknown or unreadable is ignored, and every other "
              "client is still served.",
          .source = "protocol 11.1, B01, B06", .exchange = "an odd operation; NOOP of a new client",
          .level = KVC_LEVEL_SHOULD, .flags = KVC_FLAG_DESTRUCTIVE | KVC_FLAG_EXCLUSIVE,
          .variants = odd_operations, .run = survives_odd_operation);

static const char *const short_messages[] = {"uid-only", "empty-frame", "two-empty-frames",
                                             "ten-empty-frames", NULL};
static const int short_counts[] = {1, 1, 2, 10};

static void survives_short_message(struct kvc_ctx *ctx)
{
    struct kvc_frames message = {0};
    for (int i = 0; i < short_counts[kvc_variant_index(ctx)]; i++)
        kvc_frames_append_copy(&message, "\x07", kvc_ctx_variant_is(ctx, "uid-only") ? 1 : 0);
    expect_ignored(ctx, &message);
}
KVC_CHECK(
    survives_short_message, .id = "robust/short-message",
    .clause =
        "A message without an operation, or of empty frames, is ignored, and every other client "
        "is still served.",
    .source = "protocol 11.1, B01", .exchange = "one frame, or empty ones; NOOP of a new client",
    .level = KVC_LEVEL_SHOULD, .flags = KVC_FLAG_DESTRUCTIVE | KVC_FLAG_EXCLUSIVE,
    .variants = short_messages, .run = survives_short_message);
