/* Peers that misbehave below the level of messages: that flood, do not read, say nothing, or speak
 * something else. */
#include <string.h>

#include "src/base/clock.h"
#include "tests/conformance/robust_fixture.h"

/* ---- too much ---- */

enum { FLOOD = 10000, FLOOD_STEP = 1000 };

static void survives_flood(struct kvc_ctx *ctx)
{
    static const struct kvc_request noop = {.op = KVC_OP_NOOP};
    const struct kvc_rpc *bystander = kvc_bystander(ctx);
    const struct kvc_rpc *flooder = kvc_ctx_rpc(ctx);
    uint64_t *uids = kvc_arena_alloc_array(kvc_ctx_arena(ctx), FLOOD, sizeof *uids);
    struct kvc_error err = KVC_ERROR_INIT;
    for (int i = 0; i < FLOOD; i++) {
        kvc_expect_ok(ctx, "sending", kvc_rpc_send(flooder, &noop, &uids[i], &err), &err);
        if (i % FLOOD_STEP == 0)
            kvc_expect_served(ctx, bystander, "NOOP of another client during the flood");
    }
    kvc_expect_all_served(ctx, bystander);
    for (int i = 0; i < FLOOD; i++) {
        struct kvc_frames reply = {0};
        kvc_expect_ok(ctx, "the answer to each of 10000 requests in flight",
                      kvc_client_wait(flooder->client, uids[i], flooder->timeout_ms, &reply, &err),
                      &err);
        kvc_frames_clear(&reply);
    }
}
KVC_CHECK(survives_flood, .id = "robust/flood",
          .clause =
              "While one client has 10000 requests in flight others are served, and in the end "
              "each of the 10000 is answered.",
          .source = "protocol 1.1, 1.5, N35",
          .exchange = "NOOP x 10000 without waiting; NOOP of others; the answers",
          .level = KVC_LEVEL_SHOULD, .flags = KVC_ROBUST_FLAGS, .run = survives_flood);

static const char *const unread_answers[] = {"many", "large", NULL};

/* Requests to none of whose answers anybody listens. */
static void send_unread(struct kvc_ctx *ctx, int peer)
{
    enum { LARGE = 400, LARGE_UID = 64 << 10 };
    uint8_t *uid = kvc_arena_alloc(kvc_ctx_arena(ctx), LARGE_UID);
    memset(uid, 'u', LARGE_UID);
    struct kvc_frames body = kvc_body_of_op(ctx, KVC_OP_NOOP);
    const struct kvc_bytes op = kvc_frames_view(&body, 0);
    const bool large = kvc_ctx_variant_is(ctx, "large");
    bool taken = true;
    for (int i = 0; i < (large ? LARGE : FLOOD) && taken; i++)
        taken = kvc_peer_send_frame(peer, uid, large ? LARGE_UID : 8, true) &&
                kvc_peer_send_frame(peer, op.data, op.size, false);
    kvc_frames_clear(&body);
}

static void survives_slow_reader(struct kvc_ctx *ctx)
{
    const struct kvc_rpc *bystander = kvc_bystander(ctx);
    const int peer = kvc_peer_connect(ctx);
    kvc_peer_greet(ctx, peer, "DEALER", "");
    send_unread(ctx, peer);
    kvc_expect_all_served(ctx, bystander);
    kvc_peer_reset(peer);
    kvc_expect_all_served(ctx, bystander);
}
KVC_CHECK(survives_slow_reader, .id = "robust/slow-reader",
          .clause =
              "A client that sends and never reads keeps nobody else from being served, neither "
              "while it is there nor when it is gone.",
          .source = "protocol 1.5, 11.2, N35",
          .exchange = "NOOP x 10000 | 400 NOOPs of 64 KiB, never read; NOOP and PING of others",
          .level = KVC_LEVEL_SHOULD, .flags = KVC_ROBUST_FLAGS, .variants = unread_answers,
          .run = survives_slow_reader);

/* ---- too little ---- */

static const char *const half_open_names[] = {"silent",     "half-greeting", "no-ready",
                                              "half-frame", "half-message",  NULL};

static void open_half(struct kvc_ctx *ctx)
{
    const int peer = kvc_peer_connect(ctx);
    uint8_t greeting[64];
    kvc_peer_greeting(greeting);
    if (kvc_ctx_variant_is(ctx, "silent"))
        return;
    if (kvc_ctx_variant_is(ctx, "half-greeting")) {
        kvc_peer_send(peer, greeting, 11);
    } else if (kvc_ctx_variant_is(ctx, "no-ready")) {
        kvc_peer_send(peer, greeting, sizeof greeting);
    } else if (kvc_ctx_variant_is(ctx, "half-frame")) {
        kvc_peer_greet(ctx, peer, "DEALER", "");
        kvc_peer_send(peer, "\x00\x64half of", 9); /* a frame of 100 bytes */
    } else {
        kvc_peer_greet(ctx, peer, "DEALER", "");
        kvc_peer_send_frame(peer, "\x07", 1, true);
    }
}

static void survives_half_open(struct kvc_ctx *ctx)
{
    enum { CONNECTIONS = 40, LATER_MS = 50 };
    const struct kvc_rpc *bystander = kvc_bystander(ctx);
    for (int i = 0; i < CONNECTIONS; i++)
        open_half(ctx);
    kvc_expect_all_served(ctx, bystander);
    kvc_sleep_ms(LATER_MS);
    kvc_expect_all_served(ctx, bystander);
}
KVC_CHECK(survives_half_open, .id = "robust/half-open",
          .clause =
              "Connections that never come to an end of their greeting, frame or message keep "
              "nobody from being served.",
          .source = "protocol 11.2, B05",
          .exchange = "40 connections that stop half way; NOOP and PING of others",
          .level = KVC_LEVEL_SHOULD, .flags = KVC_ROBUST_FLAGS, .variants = half_open_names,
          .run = survives_half_open);

static const char *const departures[] = {"after-connecting", "after-greeting", "after-a-request",
                                         "within-a-request", NULL};

static void survives_resets(struct kvc_ctx *ctx)
{
    enum { CONNECTIONS = 60 };
    const struct kvc_rpc *bystander = kvc_bystander(ctx);
    for (int i = 0; i < CONNECTIONS; i++) {
        const int peer = kvc_peer_connect(ctx);
        if (!kvc_ctx_variant_is(ctx, "after-connecting"))
            kvc_peer_greet(ctx, peer, "DEALER", "");
        if (kvc_ctx_variant_is(ctx, "after-a-request"))
            kvc_peer_send_noop(ctx, peer);
        if (kvc_ctx_variant_is(ctx, "within-a-request"))
            kvc_peer_send_frame(peer, "\x07", 1, true);
        kvc_peer_reset(peer);
    }
    kvc_expect_all_served(ctx, bystander);
}
KVC_CHECK(survives_resets, .id = "robust/resets",
          .clause = "Clients whose connections break at any moment harm nobody else.",
          .source = "protocol 11.2, N25",
          .exchange = "60 connections that are reset; NOOP and PING of others",
          .level = KVC_LEVEL_SHOULD, .flags = KVC_ROBUST_FLAGS, .variants = departures,
          .run = survives_resets);

/* ---- something else ---- */

static const char *const strangers[] = {"http",
                                        "tls",
                                        "zeros",
                                        "random",
                                        "other-version",
                                        "other-mechanism",
                                        "other-socket-type",
                                        "bad-command",
                                        "huge-frame",
                                        NULL};

static void send_random(struct kvc_ctx *ctx, int peer)
{
    uint8_t bytes[4096];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)kvc_random_next(kvc_ctx_random(ctx));
    kvc_peer_send(peer, bytes, sizeof bytes);
}

static void send_strange_greeting(struct kvc_ctx *ctx, int peer)
{
    uint8_t greeting[64];
    kvc_peer_greeting(greeting);
    if (kvc_ctx_variant_is(ctx, "other-version"))
        greeting[10] = 0x7f;
    else
        memcpy(greeting + 12, "PLAIN", 5);
    kvc_peer_send(peer, greeting, sizeof greeting);
    send_random(ctx, peer);
}

static void speak_strangely(struct kvc_ctx *ctx, int peer)
{
    static const char http[] = "GET /status HTTP/1.1\r\nHost: localhost\r\n\r\n";
    static const uint8_t tls[] = {0x16, 3, 1, 0, 5, 1, 0, 0, 1, 3};
    static const uint8_t zeros[512];
    static const uint8_t huge[] = {0x02, 0x3f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
    if (kvc_ctx_variant_is(ctx, "http")) {
        kvc_peer_send(peer, http, sizeof http - 1);
    } else if (kvc_ctx_variant_is(ctx, "tls")) {
        kvc_peer_send(peer, tls, sizeof tls);
    } else if (kvc_ctx_variant_is(ctx, "zeros")) {
        kvc_peer_send(peer, zeros, sizeof zeros);
    } else if (kvc_ctx_variant_is(ctx, "random")) {
        send_random(ctx, peer);
    } else if (kvc_ctx_variant_is(ctx, "other-socket-type")) {
        kvc_peer_greet(ctx, peer, "PUB", "");
        kvc_peer_send_noop(ctx, peer);
    } else if (kvc_ctx_variant_is(ctx, "bad-command")) {
        kvc_peer_greet(ctx, peer, "DEALER", "");
        kvc_peer_send(peer, "\x04\x05\x09NOPE", 7);
    } else if (kvc_ctx_variant_is(ctx, "huge-frame")) {
        kvc_peer_greet(ctx, peer, "DEALER", "");
        kvc_peer_send(peer, huge, sizeof huge);
    } else {
        send_strange_greeting(ctx, peer);
    }
}

static void survives_strangers(struct kvc_ctx *ctx)
{
    enum { CONNECTIONS = 5 };
    const struct kvc_rpc *bystander = kvc_bystander(ctx);
    for (int i = 0; i < CONNECTIONS; i++) {
        const int peer = kvc_peer_connect(ctx);
        speak_strangely(ctx, peer);
        kvc_peer_hears(peer, 10); /* what is said to that, if anything, is the server's affair */
    }
    kvc_expect_all_served(ctx, bystander);
}
KVC_CHECK(survives_strangers, .id = "robust/strangers",
          .clause =
              "Whoever speaks something else on the server's port, or another form of its own "
              "language, harms nobody else.",
          .source = "protocol 1.1, 11.2, B01",
          .exchange = "5 connections with bytes of the variant; NOOP and PING of others",
          .level = KVC_LEVEL_SHOULD, .flags = KVC_ROBUST_FLAGS, .variants = strangers,
          .run = survives_strangers);

/* ---- two with one name ---- */

static bool is_answered(struct kvc_ctx *ctx, int peer, int64_t timeout_ms)
{
    return kvc_peer_send_noop(ctx, peer) && kvc_peer_hears(peer, timeout_ms);
}

static void survives_identity_reuse(struct kvc_ctx *ctx)
{
    const struct kvc_facts *facts = kvc_ctx_facts(ctx);
    const char *identity = kvc_fresh_name(ctx, "identity").data;
    const struct kvc_rpc *bystander = kvc_bystander(ctx);
    const int first = kvc_peer_connect(ctx);
    kvc_peer_greet(ctx, first, "DEALER", identity);
    kvc_expect_true(ctx, "the first client of an identity is answered",
                    is_answered(ctx, first, facts->timeout_ms));
    const int second = kvc_peer_connect(ctx);
    kvc_peer_greet(ctx, second, "DEALER", identity);
    is_answered(ctx, second, facts->silence_ms); /* it need not be */
    kvc_expect_all_served(ctx, bystander);
    const int third = kvc_peer_connect(ctx);
    kvc_peer_greet(ctx, third, "DEALER", "");
    kvc_expect_true(ctx, "a client without an identity is answered",
                    is_answered(ctx, third, facts->timeout_ms));
    while (kvc_peer_hears(first, 0)) { /* the rest of the first answer */
    }
    kvc_expect_true(ctx, "the first client of an identity is answered while another has the same",
                    is_answered(ctx, first, facts->timeout_ms));
}
KVC_CHECK(
    survives_identity_reuse, .id = "robust/identity-taken",
    .clause = "A client that comes with the socket identity of another takes nothing from that "
              "one, nor from others.",
    .source = "protocol 1.6, 11.3, N27",
    .exchange = "two connections with one identity, NOOP on each; NOOP of others; NOOP on the "
                "first",
    .level = KVC_LEVEL_OBSERVED, .flags = KVC_ROBUST_FLAGS, .run = survives_identity_reuse);
