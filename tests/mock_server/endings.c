#include "tests/mock_server/endings.h"

#include <stdlib.h>
#include <string.h>

enum {
    MOST_REQUESTS = 8192,  /* of one client */
    MOST_FRAMES = 255,     /* of one message */
    MOST_BYTES = 16 << 20, /* of one frame */
    MOST_UNGREETED = 20,   /* connections */
};

/* One client, and how often it has asked. */
struct mock_asker {
    LIST_ENTRY(mock_asker) in_list;
    struct kvc_buffer identity;
    int64_t requests;
};

void mock_endings_open(const struct mock *mock, struct kvc_server *server)
{
    if (mock_has(mock, MOCK_DEFECT_IDENTITY_HANDED_OVER))
        kvc_server_hand_identities_over(server);
    if (mock_has(mock, MOCK_DEFECT_HALF_OPEN_KILLS) || mock_has(mock, MOCK_DEFECT_STRANGERS_KILL))
        kvc_server_count_peers(server);
}

void mock_endings_clear(struct mock_endings *endings)
{
    while (!LIST_EMPTY(&endings->askers)) {
        struct mock_asker *asker = LIST_FIRST(&endings->askers);
        LIST_REMOVE(asker, in_list);
        kvc_buffer_clear(&asker->identity);
        free(asker);
    }
}

/* ---- messages ---- */

static bool asks_too_often(struct mock_endings *endings, struct kvc_bytes identity)
{
    struct mock_asker *asker;
    LIST_FOREACH(asker, &endings->askers, in_list)
    {
        if (kvc_bytes_equal(kvc_buffer_view(&asker->identity), identity))
            return ++asker->requests > MOST_REQUESTS;
    }
    asker = kvc_alloc_zero(1, sizeof(*asker));
    kvc_buffer_append(&asker->identity, identity.data, identity.size);
    LIST_INSERT_HEAD(&endings->askers, asker, in_list);
    return false;
}

static bool has_huge_frame(const struct kvc_frames *frames)
{
    for (size_t i = 0; i < frames->count; i++)
        if (frames->items[i].size > MOST_BYTES)
            return true;
    return false;
}

void mock_end_by_message(struct mock *mock, struct kvc_bytes identity,
                         const struct kvc_frames *frames)
{
    mock->loop_is_dead |=
        (mock_has(mock, MOCK_DEFECT_REQUEST_TABLE_FULL) &&
         asks_too_often(&mock->endings, identity)) ||
        (mock_has(mock, MOCK_DEFECT_HUGE_FRAME_KILLS) && has_huge_frame(frames)) ||
        (mock_has(mock, MOCK_DEFECT_MANY_FRAMES_KILL) && frames->count > MOST_FRAMES) ||
        mock_l2_is_in_trouble(&mock->l2);
}

void mock_end_by_bad_payload(struct mock *mock, const struct kvc_error *err)
{
    mock->loop_is_dead |=
        (mock_has(mock, MOCK_DEFECT_BAD_FIELD_KILLS) && strchr(err->where, '.') != NULL) ||
        (mock_has(mock, MOCK_DEFECT_MALFORMED_KILLS) && strstr(err->what, "malformed") != NULL);
}

/* ---- peers ---- */

void mock_end_by_peers(struct mock *mock, struct kvc_server *server)
{
    const struct kvc_server_peers peers = kvc_server_peers(server);
    const uint64_t settled = peers.greeted + peers.refused + peers.broken;
    mock->loop_is_dead |=
        (mock_has(mock, MOCK_DEFECT_STRANGERS_KILL) && peers.refused + peers.broken > 0) ||
        (mock_has(mock, MOCK_DEFECT_HALF_OPEN_KILLS) && peers.accepted > settled + MOST_UNGREETED);
}
