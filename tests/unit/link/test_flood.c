/* Servers that send more than was asked for: counted, and kept only up to a limit. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "tests/unit/link/peer.h"

enum { MIB = 1 << 20, STRAYS = 100, MOST_KEPT = 64 };

static void send_stray(struct peer *peer, size_t size)
{
    struct kvc_frames frames = {0};
    uint8_t *bytes = kvc_alloc_zero(1, size);
    kvc_frames_append_copy(&frames, "stray", 5);
    kvc_frames_append_copy(&frames, bytes, size);
    free(bytes);
    cr_assert_eq(kvc_server_send(peer->server, peer->identity, &frames, NULL), KVC_OK);
}

static void flood(struct peer *peer, const struct kvc_frames *message)
{
    for (int i = 0; i < STRAYS; i++)
        send_stray(peer, MIB);
    peer_answer(peer, message, "01");
}

/* Takes what was kept; how many. */
static int take_kept(struct kvc_client *client)
{
    struct kvc_frames reply = {0};
    int kept = 0;
    while (kvc_client_receive_raw(client, 0, &reply, NULL) == KVC_OK) {
        kvc_frames_clear(&reply);
        kept++;
    }
    return kept;
}

static void await_answer(struct kvc_client *client)
{
    struct kvc_frames reply = {0};
    cr_assert_eq(kvc_client_wait(client, send_op(client, "01"), 20000, &reply, NULL), KVC_OK);
    kvc_frames_clear(&reply);
}

Test(flood, megabytes_that_nobody_asked_for)
{
    struct peer peer;
    peer_start(&peer, "tcp://127.0.0.1:0", flood, NULL);
    struct kvc_client *client = client_for(&peer);
    await_answer(client);
    cr_assert_eq(kvc_client_counters(client).unknown, STRAYS);
    const int kept = take_kept(client);
    cr_assert_lt(kept, MOST_KEPT + 1);
    cr_assert_gt(kept, MOST_KEPT - 2);
    await_answer(client);
    cr_assert_eq(take_kept(client), kept, "what is taken makes room again");
    kvc_client_close(client);
    peer_stop(&peer);
}

static void one_large(struct peer *peer, const struct kvc_frames *message)
{
    send_stray(peer, (MOST_KEPT + 6) * (size_t)MIB);
    send_stray(peer, 1);
    peer_answer(peer, message, "01");
}

Test(flood, one_message_beyond_the_limit_is_kept_alone)
{
    struct peer peer;
    peer_start(&peer, "tcp://127.0.0.1:0", one_large, NULL);
    struct kvc_client *client = client_for(&peer);
    await_answer(client);
    cr_assert_eq(take_kept(client), 1);
    await_answer(client);
    cr_assert_eq(take_kept(client), 1);
    kvc_client_close(client);
    peer_stop(&peer);
}
