/* Names that a careless mapping to files would merge, or take for paths. */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/clock.h"
#include "tests/conformance/l2_fixture.h"

/* Two models of one base: text before and behind it. */
struct name_pair {
    const char *head, *tail, *other_tail;
};

#define LONG    "-long-long-long-long-long-long-long-long-long-long-long-long-long-long-long-long-long"
#define LONGEST LONG LONG LONG

static const char *const pair_names[] = {"slash",    "escaped-slash", "parent", "out-and-in",
                                         "accents",  "letters",       "ending", "control",
                                         "80-bytes", "250-bytes",     NULL};
static const struct name_pair pairs[] = {
    {"", "/x", "-SEP-x"},
    {"", "/x", "%2Fx"},
    {"../", "", "/"},
    {"../../", "/../x", "/x"},
    {"", "-\xc3\xa9", "-e\xcc\x81"},
    {"", "-a", "-A"},
    {"", ".data", ".tmp"},
    {"", "\n", " "},
    {"", LONG "a", LONG "b"},
    {"", LONGEST "a", LONGEST "b"},
};

static struct kvc_str name_of(struct kvc_ctx *ctx, const char *head, struct kvc_str base,
                              const char *tail)
{
    char *text = kvc_format("%s" KVC_STR_FMT "%s", head, KVC_STR_ARG(base), tail);
    const struct kvc_str name = kvc_arena_copy_str(kvc_ctx_arena(ctx), kvc_str_of(text));
    free(text);
    return name;
}

/* NULL: the server does not take the name. */
static struct kvc_worker *worker_named(struct kvc_ctx *ctx, struct kvc_str model)
{
    struct kvc_worker_options options = kvc_worker_defaults(ctx);
    options.model_name = model;
    return kvc_try_worker(ctx, &options);
}

/* What lies beside the folder for files, with this in its name. */
static void expect_nothing_outside(struct kvc_ctx *ctx, struct kvc_str base)
{
    const char *folder = kvc_ctx_facts(ctx)->l2_folder;
    char *parent = kvc_format("%.*s", (int)(strrchr(folder, '/') - folder), folder);
    char stray[256] = "";
    DIR *open = opendir(parent);
    for (struct dirent *entry; open != NULL && (entry = readdir(open)) != NULL;)
        if (memmem(entry->d_name, strlen(entry->d_name), base.data, base.size) != NULL)
            memcpy(stray, entry->d_name, strlen(entry->d_name) + 1);
    if (open != NULL)
        closedir(open);
    free(parent);
    KVC_EXPECT(ctx, stray[0] == '\0', "outside the folder for files lies '%s'",
               kvc_text_show(kvc_str_of(stray)).text);
}

/* Which of the models are stored, as request 0 and 1, and below if they ever get there. */
static size_t store_both(struct kvc_ctx *ctx, struct kvc_str base, struct kvc_stored stored[2])
{
    const struct name_pair *pair = &pairs[kvc_variant_index(ctx)];
    const struct kvc_ints tokens = kvc_fresh_chunks(ctx, 1);
    size_t count = 0;
    for (size_t i = 0; i < 2; i++) {
        const char *tail = i == 0 ? pair->tail : pair->other_tail;
        struct kvc_worker *worker = worker_named(ctx, name_of(ctx, pair->head, base, tail));
        if (worker == NULL)
            continue;
        const struct kvc_key key = kvc_key_for(ctx, worker, tokens);
        kvc_store_stamped(ctx, worker, &key, kvc_chunk_blocks(ctx, worker, 1), i);
        stored[count++] = (struct kvc_stored){worker, key};
    }
    return count;
}

/* What no longer fits a name may stay in memory alone: that it is below is not waited for long. */
static void let_settle(struct kvc_ctx *ctx, const struct kvc_stored *stored)
{
    const int64_t deadline = kvc_now_ms() + kvc_ctx_facts(ctx)->silence_ms;
    while (!kvc_l2_is_there(ctx, stored->worker, &stored->key, 0) && kvc_now_ms() < deadline)
        kvc_sleep_ms(2);
}

static void keeps_names_apart(struct kvc_ctx *ctx)
{
    struct kvc_stored stored[2];
    const struct kvc_str base = kvc_fresh_name(ctx, "model");
    const size_t count = store_both(ctx, base, stored);
    for (size_t i = 0; i < count; i++)
        let_settle(ctx, &stored[i]);
    expect_nothing_outside(ctx, base);
    kvc_clear(ctx, true);
    for (size_t i = 0; i < count; i++)
        kvc_l2_expect_whole(ctx, &stored[i], i);
}
KVC_CHECK(keeps_names_apart, .id = "l2/names",
          .clause =
              "Of models whose names are alike as files' names each finds its own chunks below, "
              "or none, and nothing lies outside the folder.",
          .source = "protocol 7.5, B19, B24",
          .exchange = "REGISTER x 2, store x 2, CLEAR; a look beside the folder; LOOKUP x 2, "
                      "retrieve x 2",
          .level = KVC_LEVEL_MUST, .after = "l2/file-names", KVC_L2_CHECK, .variants = pair_names,
          .run = keeps_names_apart);

/* A salt is part of the file's name, too. */
static const char *const salt_names[] = {"dots", "ends-like-a-file", "128-characters", NULL};

static void keeps_salts_apart(struct kvc_ctx *ctx)
{
    char *longest = kvc_format("%0128d", 0);
    const char *const salts[] = {"..", ".data", longest};
    struct kvc_worker *worker = kvc_default_worker(ctx);
    struct kvc_stored stored[2];
    for (size_t i = 0; i < 2; i++) {
        stored[i].worker = worker;
        stored[i].key = i == 0 ? kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 1))
                               : kvc_key_renamed(ctx, &stored[0].key);
        if (i == 1)
            stored[i].key.cache_salt =
                kvc_arena_copy_str(kvc_ctx_arena(ctx), kvc_str_of(salts[kvc_variant_index(ctx)]));
        kvc_store_stamped(ctx, worker, &stored[i].key, kvc_chunk_blocks(ctx, worker, 1), i);
        let_settle(ctx, &stored[i]);
    }
    free(longest);
    expect_nothing_outside(ctx, worker->options.model_name);
    kvc_clear(ctx, true);
    for (size_t i = 0; i < 2; i++)
        kvc_l2_expect_whole(ctx, &stored[i], i);
}
KVC_CHECK(
    keeps_salts_apart, .id = "l2/salts",
    .clause = "A salt that reads like a part of a path keeps its chunks below apart, and in the "
              "folder.",
    .source = "protocol 7.5, B18, B19",
    .exchange = "REGISTER, store x 2, CLEAR; a look beside the folder; LOOKUP x 2, retrieve x 2",
    .level = KVC_LEVEL_MUST, .after = "l2/file-names", KVC_L2_CHECK, .variants = salt_names,
    .run = keeps_salts_apart);
