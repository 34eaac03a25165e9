/* Checks that are made to end in each way there is: the runner is tested with them. They are linked
 * into a program of their own, kvconform_made. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "src/base/clock.h"
#include "src/run/check.h"

/* ---- verdicts ---- */

static void pass(struct kvc_ctx *ctx)
{
    kvc_expect_ok(ctx, "NOOP", kvc_rpc_noop(kvc_ctx_rpc(ctx), NULL), NULL);
}
KVC_CHECK(pass, .id = "made/pass", .clause = "It passes.", .run = pass);

static void fail(struct kvc_ctx *ctx)
{
    struct kvc_error err = KVC_ERROR_INIT;
    kvc_expect_ok(ctx, "NOOP", kvc_rpc_noop(kvc_ctx_rpc(ctx), &err), &err);
    kvc_ctx_note(ctx, "a note");
    kvc_expect_int(ctx, "the answer", 41, 42);
}
KVC_CHECK(fail, .id = "made/fail", .clause = "It fails.", .run = fail);

static void fail_hostile(struct kvc_ctx *ctx)
{
    kvc_ctx_fail_values(ctx, "]]> & <b> \"quoted\" \x01\x1b[31m \xff\xfe", "a\nb\tc", "\xc3\xa9");
}
KVC_CHECK(fail_hostile, .id = "made/fail-hostile", .clause = "It fails with <odd> & \"bytes\".",
          .run = fail_hostile);

static void fail_long(struct kvc_ctx *ctx)
{
    enum { SIZE = 1 << 20 };
    char *text = kvc_alloc(SIZE);
    memset(text, 'x', SIZE - 1);
    text[SIZE - 1] = '\0';
    kvc_ctx_fail_values(ctx, "long", text, text);
}
KVC_CHECK(fail_long, .id = "made/fail-long", .clause = "It fails with much text.",
          .run = fail_long);

static void skip(struct kvc_ctx *ctx)
{
    kvc_ctx_skip(ctx, "because of %s", "this");
}
KVC_CHECK(skip, .id = "made/skip", .clause = "It skips itself.", .run = skip);

static void old(struct kvc_ctx *ctx)
{
    kvc_ctx_fail(ctx, "it ran");
}
KVC_CHECK(old, .id = "made/old", .clause = "It is for old dialects.", .last = "0.5.1", .run = old);

static void error(struct kvc_ctx *ctx)
{
    struct kvc_error err;
    kvc_fail(&err, KVC_ESYSTEM, "no room");
    kvc_expect_ok(ctx, "a segment", err.status, &err);
}
KVC_CHECK(error, .id = "made/error", .clause = "Something of ours is in the way.", .run = error);

/* ---- a cleanup that counts ---- */

static void fail_in_cleanup(void *arg)
{
    kvc_ctx_fail(arg, "the cleanup failed");
}

static void cleanup(struct kvc_ctx *ctx)
{
    kvc_ctx_defer(ctx, fail_in_cleanup, ctx);
}
KVC_CHECK(cleanup, .id = "made/fail-in-cleanup", .clause = "Its cleanup fails.", .run = cleanup);

/* ---- ends that the process does not tell ---- */

static void timeout(struct kvc_ctx *ctx)
{
    if (kvc_ctx_variant_is(ctx, "asleep"))
        kvc_sleep_ms(60000);
    struct kvc_frames reply = {0};
    struct kvc_error err = KVC_ERROR_INIT;
    kvc_expect_ok(ctx, "a reply to nothing",
                  kvc_client_receive_raw(kvc_ctx_rpc(ctx)->client, 60000, &reply, &err), &err);
}
static const char *const timeout_variants[] = {"asleep", "waiting", NULL};
KVC_CHECK(timeout, .id = "made/timeout", .clause = "It does not end.", .limit_ms = 300,
          .variants = timeout_variants, .run = timeout);

static void crash(struct kvc_ctx *ctx)
{
    if (kvc_ctx_variant_is(ctx, "exit"))
        exit(0);
    if (kvc_ctx_variant_is(ctx, "abort"))
        abort();
    raise(SIGALRM); /* one that no sanitizer takes for itself */
}
static const char *const crash_variants[] = {"exit", "abort", "signal", NULL};
KVC_CHECK(crash, .id = "made/crash", .clause = "Its process dies.", .variants = crash_variants,
          .run = crash);

/* ---- what it leaves behind ---- */

static void leak_process(void)
{
    if (fork() == 0) {
        kvc_sleep_ms(60000);
        _exit(0);
    }
}

static void leak_segment(struct kvc_ctx *ctx)
{
    struct kvc_segment segment;
    struct kvc_error err = KVC_ERROR_INIT;
    char name[96];
    kvc_segment_name("", name, sizeof(name));
    kvc_expect_ok(ctx, "segment", kvc_segment_create(name, 4096, &segment, &err), &err);
}

static void leak(struct kvc_ctx *ctx)
{
    if (kvc_ctx_variant_is(ctx, "descriptor"))
        open("/dev/null", O_RDONLY);
    else if (kvc_ctx_variant_is(ctx, "segment"))
        leak_segment(ctx);
    else if (kvc_ctx_variant_is(ctx, "process"))
        leak_process();
    else
        printf("words\n");
}
static const char *const leak_variants[] = {"descriptor", "segment", "process", "output", NULL};
KVC_CHECK(leak, .id = "made/leak", .clause = "It leaves something behind.",
          .variants = leak_variants, .run = leak);

/* ---- order ---- */

KVC_CHECK(needs_fail, .id = "made/needs-fail", .clause = "What it needs failed.",
          .after = "made/fail", .run = pass);
KVC_CHECK(needs_pass, .id = "made/needs-pass", .clause = "What it needs passed.",
          .after = "made/pass", .run = pass);
KVC_CHECK(needs_needs, .id = "made/needs-needs-fail", .clause = "What it needs was not run.",
          .after = "made/needs-fail", .run = pass);

/* Holds a lock for a moment; the exclusive check must find it free. */
static void hold(struct kvc_ctx *ctx, int how)
{
    const char *path = getenv("KVC_MADE_LOCK");
    if (path == NULL)
        kvc_ctx_skip(ctx, "KVC_MADE_LOCK is not set");
    const int fd = open(path, O_RDWR | O_CREAT, 0600);
    const bool free_then = flock(fd, how | LOCK_NB) == 0;
    kvc_sleep_ms(50);
    close(fd);
    kvc_expect_true(ctx, "nobody else runs", free_then);
}

static void crowd(struct kvc_ctx *ctx)
{
    hold(ctx, LOCK_SH);
}
static const char *const crowd_variants[] = {"a", "b", "c", "d", "e", "f", NULL};
KVC_CHECK(crowd, .id = "order/crowd", .clause = "Checks run side by side.",
          .variants = crowd_variants, .run = crowd);

static void alone(struct kvc_ctx *ctx)
{
    hold(ctx, LOCK_EX);
}
static const char *const alone_variants[] = {"a", "b", "c", "d", NULL};
KVC_CHECK(alone, .id = "order/alone", .clause = "An exclusive check runs alone.",
          .flags = KVC_FLAG_EXCLUSIVE, .variants = alone_variants, .run = alone);

static const struct kvc_target_setup tiny_pool = {.name = "tiny-pool", .pool_bytes = 1 << 20};

/* Becomes ready while the exclusive checks run, and still has to wait for them. */
static void elsewhere(struct kvc_ctx *ctx)
{
    (void)ctx;
    kvc_sleep_ms(120);
}
KVC_CHECK(elsewhere, .id = "order/elsewhere", .clause = "It has a server of its own.",
          .setup = &tiny_pool, .run = elsewhere);
KVC_CHECK(late, .id = "order/late", .clause = "It waits for an exclusive check.",
          .after = "order/elsewhere", .run = crowd);

/* ---- servers ---- */

static void path_works(struct kvc_ctx *ctx)
{
    const struct kvc_facts *facts = kvc_ctx_facts(ctx);
    const bool inline_path = kvc_ctx_path(ctx) == KVC_PATH_ENGINE_DRIVEN_INLINE;
    kvc_expect_true(ctx, "the path works", (facts->paths & 1u << kvc_ctx_path(ctx)) != 0);
    if (inline_path)
        kvc_expect_false(ctx, "a pool is offered", facts->offers_pool);
}
KVC_CHECK(path_works, .id = "server/path", .clause = "Each path gets a server on which it works.",
          .paths = KVC_PATHS_ALL, .run = path_works);

static void set_up(struct kvc_ctx *ctx)
{
    kvc_expect_true(ctx, "a pool is offered", kvc_ctx_facts(ctx)->offers_pool);
}
KVC_CHECK(set_up, .id = "server/set-up", .clause = "A check gets the set-up that it names.",
          .setup = &tiny_pool, .run = set_up);

static const struct kvc_target_setup crowded = {.name = "tiny-pool",
                                                .pool_bytes = 3 << 20,
                                                .read_ttl_ms = 150,
                                                .write_ttl_ms = 1200,
                                                .reap_ms = 400};

static void says_its_limits(struct kvc_ctx *ctx)
{
    const struct kvc_target_setup *setup = kvc_ctx_setup(ctx);
    kvc_ctx_fail(ctx, "pool %lld, leases %lld and %lld, reaping %lld", (long long)setup->pool_bytes,
                 (long long)setup->read_ttl_ms, (long long)setup->write_ttl_ms,
                 (long long)setup->reap_ms);
}
KVC_CHECK(says_its_limits, .id = "set-up/limits",
          .clause = "A check is told how its server was really set up.", .setup = &crowded,
          .run = says_its_limits);

/* Ends a mock that has the defect "unknown-op-kills". */
static void send_unknown_op(struct kvc_ctx *ctx)
{
    struct kvc_frames frames = {0};
    struct kvc_error err = KVC_ERROR_INIT;
    const struct kvc_rpc *rpc = kvc_ctx_rpc(ctx);
    kvc_frames_append_copy(&frames, "\x07", 1);
    kvc_frames_append_copy(&frames, "\xcd\x03\xe7", 3);
    kvc_expect_ok(ctx, "sending", kvc_client_send_raw(rpc->client, &frames, &err), &err);
    kvc_sleep_ms(30);
}

static void kill_quietly(struct kvc_ctx *ctx)
{
    send_unknown_op(ctx);
}
KVC_CHECK(kill_quietly, .id = "kill/quietly", .clause = "It ends the server and passes.",
          .flags = KVC_FLAG_DESTRUCTIVE, .run = kill_quietly);

static const char *const endings[] = {"terminated", "interrupted", "killed", NULL};

/* Each ending in turn, by its place among the variants. */
static enum kvc_ending ending_of(struct kvc_ctx *ctx)
{
    size_t i = 0;
    while (!kvc_ctx_variant_is(ctx, endings[i]))
        i++;
    return (enum kvc_ending)i;
}

static void end_and_start(struct kvc_ctx *ctx)
{
    kvc_expect_ok(ctx, "NOOP", kvc_rpc_noop(kvc_ctx_rpc(ctx), NULL), NULL);
    kvc_ctx_end_server(ctx, ending_of(ctx));
    kvc_expect_true(ctx, "NOOP of a server that has ended fails",
                    kvc_rpc_noop(kvc_ctx_rpc(ctx), NULL) != KVC_OK);
    kvc_ctx_start_server(ctx);
    kvc_expect_ok(ctx, "NOOP", kvc_rpc_noop(kvc_ctx_rpc(ctx), NULL), NULL);
}
KVC_CHECK(end_and_start, .id = "ended/and-started",
          .clause = "It ends the server and starts it again.", .needs = KVC_NEED_RESTART,
          .flags = KVC_FLAG_DESTRUCTIVE, .variants = endings, .limit_ms = 60000,
          .run = end_and_start);

static void leave_ended(struct kvc_ctx *ctx)
{
    kvc_ctx_end_server(ctx, KVC_END_KILL);
}
KVC_CHECK(leave_ended, .id = "ended/and-left", .clause = "It ends the server and leaves it so.",
          .needs = KVC_NEED_RESTART, .flags = KVC_FLAG_DESTRUCTIVE, .run = leave_ended);

static void kill_in_a_crowd(struct kvc_ctx *ctx)
{
    send_unknown_op(ctx);
    kvc_ctx_fail(ctx, "no answer");
}
KVC_CHECK(kill_in_a_crowd, .id = "kill/in-a-crowd", .clause = "It ends the server beside others.",
          .run = kill_in_a_crowd);

static void bystander(struct kvc_ctx *ctx)
{
    struct kvc_error err = KVC_ERROR_INIT;
    for (int i = 0; i < 10; i++) {
        kvc_expect_ok(ctx, "NOOP", kvc_rpc_noop(kvc_ctx_rpc(ctx), &err), &err);
        kvc_sleep_ms(20);
    }
}
static const char *const bystander_variants[] = {"a", "b", "c", NULL};
KVC_CHECK(bystander, .id = "kill/bystander", .clause = "It needs the server.",
          .variants = bystander_variants, .run = bystander);

/* ---- for signals ---- */

static void close_segment(void *segment)
{
    const char *path = getenv("KVC_MADE_CLEANUP");
    kvc_segment_close(segment);
    if (path != NULL)
        close(open(path, O_WRONLY | O_CREAT, 0600));
}

static void linger(struct kvc_ctx *ctx)
{
    struct kvc_segment *segment = kvc_arena_alloc(kvc_ctx_arena(ctx), sizeof(*segment));
    struct kvc_error err = KVC_ERROR_INIT;
    char name[96];
    kvc_segment_name("", name, sizeof(name));
    kvc_expect_ok(ctx, "segment", kvc_segment_create(name, 4096, segment, &err), &err);
    kvc_ctx_defer(ctx, close_segment, segment);
    bystander(ctx);      /* here it can be asked to end, */
    kvc_sleep_ms(20000); /* and here only be killed */
}
static const char *const linger_variants[] = {"a", "b", NULL};
KVC_CHECK(linger, .id = "slow/linger", .clause = "It takes long and holds a segment.",
          .variants = linger_variants, .run = linger);
