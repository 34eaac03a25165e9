/* Files below a server that is killed, or has no room there, or whose folder goes away. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/base/clock.h"
#include "tests/conformance/l2_fixture.h"

/* A real server takes its time to start. */
enum { CHUNKS = 4, LIMIT_MS = 180000 };

/* ---- another server ---- */

static const char *const ending_names[] = {"terminated", "killed", NULL};
static const enum kvc_ending endings[] = {KVC_END_TERMINATE, KVC_END_KILL};

static void is_inherited(struct kvc_ctx *ctx)
{
    struct kvc_stored stored = kvc_l2_store(ctx, kvc_default_worker(ctx), CHUNKS);
    kvc_ctx_end_server(ctx, endings[kvc_variant_index(ctx)]);
    kvc_ctx_start_server(ctx);
    stored.worker = kvc_sibling_worker(ctx, stored.worker);
    kvc_l2_expect(ctx, &stored, CHUNKS, 0);
}
KVC_CHECK(is_inherited, .id = "l2/restart",
          .clause = "What is below when a server ends, however it ends, is found by the next one.",
          .source = "protocol 7.5",
          .exchange = "REGISTER, store; the server ends and starts; REGISTER, LOOKUP, retrieve",
          .level = KVC_LEVEL_MUST, .needs = KVC_NEED_L2 | KVC_NEED_RESTART,
          .flags = KVC_FLAG_DESTRUCTIVE | KVC_FLAG_EXCLUSIVE, .setup = &kvc_files_below,
          .after = "l2/file-names", .variants = ending_names, .limit_ms = LIMIT_MS,
          .run = is_inherited);

static const char *const moments[] = {"at-once", "first-file", NULL};

/* Until the first of the chunks is seen below, or all have been waited for. */
static void await_first_file(struct kvc_ctx *ctx, const struct kvc_stored *stored)
{
    const int64_t deadline = kvc_now_ms() + kvc_ctx_facts(ctx)->timeout_ms;
    while (!kvc_l2_is_there(ctx, stored->worker, &stored->key, 0) && kvc_now_ms() < deadline)
        kvc_sleep_ms(1);
}

static void leaves_nothing_unfinished(struct kvc_ctx *ctx)
{
    struct kvc_worker_options options = kvc_worker_defaults(ctx);
    options.geometry.groups[0].head_size = 256; /* chunks that take a while to be written */
    struct kvc_stored stored = {.worker = kvc_open_worker(ctx, &options)};
    stored.key = kvc_key_for(ctx, stored.worker, kvc_fresh_chunks(ctx, CHUNKS));
    const struct kvc_ints blocks = kvc_chunk_blocks(ctx, stored.worker, CHUNKS);
    kvc_stamp(ctx, stored.worker, &stored.key, blocks, 0);
    kvc_expect_true(ctx, "success of the store",
                    kvc_store(ctx, stored.worker, &stored.key, blocks));
    if (kvc_ctx_variant_is(ctx, "first-file"))
        await_first_file(ctx, &stored);
    kvc_ctx_end_server(ctx, KVC_END_KILL);
    kvc_ctx_start_server(ctx);
    stored.worker = kvc_sibling_worker(ctx, stored.worker);
    kvc_l2_expect_whole(ctx, &stored, 0);
}
KVC_CHECK(leaves_nothing_unfinished, .id = "l2/killed-while-storing",
          .clause = "Of chunks that were being written below when the server was killed, the next "
                    "one finds those that are whole.",
          .source = "protocol 1.6, B36",
          .exchange = "REGISTER, store; the server is killed and starts; REGISTER, LOOKUP, "
                      "retrieve",
          .level = KVC_LEVEL_MUST,
          .needs = KVC_NEED_L2 | KVC_NEED_RESTART | KVC_NEED_LMCACHE_DRIVEN,
          .flags = KVC_FLAG_DESTRUCTIVE | KVC_FLAG_EXCLUSIVE, .setup = &kvc_files_below,
          .after = "l2/file-names", .variants = moments, .limit_ms = LIMIT_MS,
          .run = leaves_nothing_unfinished);

/* ---- no room ---- */

static void survives_full_store(struct kvc_ctx *ctx)
{
    enum { ROOM = 2 };
    const struct kvc_worker_options options = kvc_worker_defaults(ctx);
    const int64_t chunk_bytes = kvc_geometry_chunk_bytes(&options.geometry, options.chunk_size);
    kvc_ctx_end_server(ctx, KVC_END_TERMINATE);
    kvc_ctx_start_server_cramped(ctx, ROOM * chunk_bytes + chunk_bytes / 2);
    struct kvc_worker *worker = kvc_open_worker(ctx, &options);
    const struct kvc_stored stored = {worker,
                                      kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, CHUNKS))};
    kvc_store_stamped(ctx, worker, &stored.key, kvc_chunk_blocks(ctx, worker, CHUNKS), 0);
    kvc_l2_expect(ctx, &stored, CHUNKS, 0); /* in memory there is room */
    kvc_sleep_ms(kvc_ctx_facts(ctx)->silence_ms);
    kvc_clear(ctx, true);
    const int64_t found = kvc_l2_expect_whole(ctx, &stored, 0);
    KVC_EXPECT(ctx, found <= ROOM, "below is room for %d chunks, and %lld are found", ROOM,
               (long long)found);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 1));
    kvc_store_stamped(ctx, worker, &key, kvc_chunk_blocks(ctx, worker, 1), 1);
    kvc_retrieve_stamped(ctx, worker, &key, kvc_chunk_blocks(ctx, worker, 1), 1);
}
KVC_CHECK(survives_full_store, .id = "l2/failed-store",
          .clause = "A chunk for which there is no room below is found as long as it is in memory, "
                    "not afterwards, and the server serves on.",
          .source = "B36, N18",
          .exchange =
              "the server starts with little room below; REGISTER, store, LOOKUP, retrieve, "
              "CLEAR, LOOKUP, retrieve, store, LOOKUP, retrieve",
          .level = KVC_LEVEL_MUST, .needs = KVC_NEED_L2 | KVC_NEED_RESTART,
          .flags = KVC_FLAG_DESTRUCTIVE | KVC_FLAG_EXCLUSIVE, .setup = &kvc_files_below,
          .after = "l2/file-names", .limit_ms = LIMIT_MS, .run = survives_full_store);

/* ---- no folder ---- */

struct moved {
    char *from, *to;
};

/* A folder that the server has made in its place is put aside. */
static void move_back(void *arg)
{
    struct moved *moved = arg;
    if (moved->to == NULL)
        return;
    if (rename(moved->to, moved->from) != 0) {
        char *new_one = kvc_format("%s.anew", moved->from);
        rename(moved->from, new_one);
        rename(moved->to, moved->from);
        free(new_one);
    }
    free(moved->to);
    moved->to = NULL;
}

static struct moved *move_folder_away(struct kvc_ctx *ctx)
{
    struct kvc_error err = KVC_ERROR_INIT;
    const char *folder = kvc_ctx_facts(ctx)->l2_folder;
    struct moved *moved = kvc_arena_alloc(kvc_ctx_arena(ctx), sizeof(*moved));
    *moved = (struct moved){(char *)folder, kvc_format("%s.away", folder)};
    kvc_ctx_defer(ctx, move_back, moved);
    if (rename(folder, moved->to) != 0) {
        kvc_fail_errno(&err, "%s", folder);
        kvc_ctx_error(ctx, "moving the folder away", &err);
    }
    return moved;
}

static void survives_lost_folder(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_stored before = kvc_l2_store(ctx, worker, 2);
    struct moved *moved = move_folder_away(ctx);
    const struct kvc_stored meanwhile = {worker,
                                         kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 2))};
    kvc_store_stamped(ctx, worker, &meanwhile.key, kvc_chunk_blocks(ctx, worker, 2), 1);
    kvc_l2_expect(ctx, &meanwhile, 2, 1);
    kvc_clear(ctx, true);
    kvc_l2_expect_whole(ctx, &before, 0);
    move_back(moved);
    kvc_clear(ctx, true);
    kvc_l2_expect(ctx, &before, 2, 0);
    const struct kvc_stored after = kvc_l2_store(ctx, worker, 2);
    kvc_clear(ctx, true);
    kvc_l2_expect(ctx, &after, 2, 0);
}
KVC_CHECK(survives_lost_folder, .id = "l2/lost-folder",
          .clause = "While the folder below is away a server serves from memory, and when it is "
                    "back, from below again.",
          .source = "B36",
          .exchange = "REGISTER, store; the folder is moved away; store, LOOKUP, retrieve, CLEAR, "
                      "LOOKUP; it is moved back; LOOKUP, retrieve, store, CLEAR, LOOKUP, retrieve",
          .level = KVC_LEVEL_SHOULD, .after = "l2/file-names", KVC_L2_CHECK,
          .run = survives_lost_folder);
