#include "src/run/context.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/base/clock.h"
#include "src/run/control.h"
#include "src/run/trace.h"
#include "src/target/l2_folder.h"

struct deferred {
    void (*func)(void *arg);
    void *arg;
    struct deferred *next;
};

/* One connection of the check; its address is what the trace function gets. */
struct connection {
    struct kvc_ctx *ctx;
    struct kvc_rpc rpc;
    int number;
    struct connection *next;
};

struct kvc_ctx {
    const struct kvc_ctx_options *options;
    struct kvc_facts facts; /* the options', with the addresses of a server started since */
    uint64_t seed;
    struct kvc_random random;
    struct kvc_arena arena;
    struct kvc_trace trace;
    struct connection *connections; /* the last one first */
    const struct kvc_rpc *rpc;      /* the one that kvc_ctx_rpc gives */
    struct deferred *deferred;
    struct kvc_verdict *verdict;
    struct kvc_buffer notes;
    bool said;     /* a verdict was given: a later one, from a cleanup, does not count */
    bool finished; /* its details are complete */
    jmp_buf end;
};

/* ---- asking ---- */

const struct kvc_facts *kvc_ctx_facts(const struct kvc_ctx *ctx)
{
    return &ctx->facts;
}

const struct kvc_target_setup *kvc_ctx_setup(const struct kvc_ctx *ctx)
{
    return ctx->options->setup;
}

const struct kvc_check *kvc_ctx_check(const struct kvc_ctx *ctx)
{
    return ctx->options->instance->check;
}

bool kvc_ctx_has(const struct kvc_ctx *ctx, enum kvc_feature feature)
{
    return kvc_dialect_has(ctx->options->facts->dialect, feature);
}

static void expect_axis(const struct kvc_ctx *ctx, bool has, const char *axis)
{
    if (has)
        return;
    struct kvc_error err;
    kvc_fail(&err, KVC_EUSAGE, "the check asks for its %s but declares no such axis", axis);
    kvc_ctx_error((struct kvc_ctx *)ctx, "declaration", &err);
}

enum kvc_path kvc_ctx_path(const struct kvc_ctx *ctx)
{
    expect_axis(ctx, ctx->options->instance->check->paths != 0, "path");
    return ctx->options->instance->path;
}

enum kvc_layout kvc_ctx_layout(const struct kvc_ctx *ctx)
{
    expect_axis(ctx, ctx->options->instance->check->layouts != 0, "layout");
    return ctx->options->instance->layout;
}

const struct kvc_dtype *kvc_ctx_dtype(const struct kvc_ctx *ctx)
{
    expect_axis(ctx, ctx->options->instance->check->dtypes != NULL, "dtype");
    return ctx->options->instance->dtype;
}

bool kvc_ctx_variant_is(const struct kvc_ctx *ctx, const char *variant)
{
    expect_axis(ctx, ctx->options->instance->check->variants != NULL, "variant");
    return strcmp(ctx->options->instance->variant, variant) == 0;
}

struct kvc_random *kvc_ctx_random(struct kvc_ctx *ctx)
{
    return &ctx->random;
}

uint64_t kvc_ctx_seed(const struct kvc_ctx *ctx)
{
    return ctx->seed;
}

struct kvc_arena *kvc_ctx_arena(struct kvc_ctx *ctx)
{
    return &ctx->arena;
}

static void trace_message(void *user, bool received, const struct kvc_frames *frames,
                          int64_t now_ns)
{
    struct connection *connection = user;
    kvc_trace_add(&connection->ctx->trace, connection->number, received, frames, now_ns);
}

const struct kvc_rpc *kvc_ctx_rpc_new(struct kvc_ctx *ctx)
{
    const struct kvc_facts *facts = &ctx->facts;
    struct connection *connection = kvc_alloc_zero(1, sizeof(*connection));
    *connection = (struct connection){
        .ctx = ctx,
        .number = ctx->connections != NULL ? ctx->connections->number + 1 : 0,
        .next = ctx->connections,
    };
    struct kvc_error err = KVC_ERROR_INIT;
    if (kvc_client_open(facts->rpc_url, ctx->options->connect_timeout_ms, &connection->rpc.client,
                        &err) != KVC_OK) {
        free(connection);
        kvc_ctx_fail_error(ctx, "connecting", &err);
    }
    connection->rpc.dialect = facts->dialect;
    connection->rpc.timeout_ms = facts->timeout_ms;
    kvc_client_set_trace(connection->rpc.client, trace_message, connection);
    ctx->connections = connection;
    return &connection->rpc;
}

const struct kvc_rpc *kvc_ctx_rpc(struct kvc_ctx *ctx)
{
    if (ctx->rpc == NULL)
        ctx->rpc = kvc_ctx_rpc_new(ctx);
    return ctx->rpc;
}

static struct kvc_control_reply ask_runner(struct kvc_ctx *ctx, const char *what,
                                           struct kvc_control_request request)
{
    struct kvc_control_reply reply = {0};
    struct kvc_error err = KVC_ERROR_INIT;
    kvc_status status = KVC_OK;
    if (ctx->options->control_fd == 0)
        status = kvc_fail(&err, KVC_ESYSTEM, "nobody runs the server");
    else
        status = kvc_control_ask(ctx->options->control_fd, &request, &reply, &err);
    if (status != KVC_OK)
        kvc_ctx_error(ctx, what, &err);
    return reply;
}

void kvc_ctx_end_server(struct kvc_ctx *ctx, enum kvc_ending ending)
{
    ask_runner(ctx, "ending the server", (struct kvc_control_request){.ending = ending});
}

static void start_server(struct kvc_ctx *ctx, int64_t l2_bytes)
{
    const struct kvc_control_reply reply =
        ask_runner(ctx, "starting the server again",
                   (struct kvc_control_request){.start = true, .l2_bytes = l2_bytes});
    ctx->facts.rpc_url = kvc_arena_copy_str(&ctx->arena, kvc_str_of(reply.rpc_url)).data;
    if (ctx->facts.http_url != NULL)
        ctx->facts.http_url = kvc_arena_copy_str(&ctx->arena, kvc_str_of(reply.http_url)).data;
    ctx->rpc = NULL; /* the old one leads nowhere */
}

void kvc_ctx_start_server(struct kvc_ctx *ctx)
{
    start_server(ctx, 0);
}

void kvc_ctx_start_server_cramped(struct kvc_ctx *ctx, int64_t l2_bytes)
{
    struct kvc_error err = KVC_ERROR_INIT;
    if (kvc_l2_folder_try_confine(&err) != KVC_OK)
        kvc_ctx_skip(ctx, "%s", err.what);
    start_server(ctx, l2_bytes);
}

void kvc_ctx_defer(struct kvc_ctx *ctx, void (*func)(void *arg), void *arg)
{
    struct deferred *entry = kvc_alloc(sizeof(*entry));
    *entry = (struct deferred){.func = func, .arg = arg, .next = ctx->deferred};
    ctx->deferred = entry;
}

/* ---- saying ---- */

static _Noreturn void end_check(struct kvc_ctx *ctx)
{
    longjmp(ctx->end, 1);
}

/* False when an earlier verdict stands: then the caller just ends. */
static bool begin_verdict(struct kvc_ctx *ctx, enum kvc_outcome outcome)
{
    if (ctx->said)
        return false;
    ctx->said = true;
    ctx->verdict->outcome = outcome;
    return true;
}

static void append_formatted(struct kvc_buffer *out, const char *format, va_list args)
{
    char *text = NULL;
    if (vasprintf(&text, format, args) < 0)
        return;
    kvc_buffer_append_text(out, text);
    free(text);
}

void kvc_ctx_fail(struct kvc_ctx *ctx, const char *format, ...)
{
    if (begin_verdict(ctx, KVC_OUTCOME_FAIL)) {
        va_list args;
        va_start(args, format);
        append_formatted(&ctx->verdict->message, format, args);
        va_end(args);
    }
    end_check(ctx);
}

void kvc_ctx_fail_values(struct kvc_ctx *ctx, const char *what, const char *expected,
                         const char *got)
{
    if (begin_verdict(ctx, KVC_OUTCOME_FAIL)) {
        kvc_buffer_append_text(&ctx->verdict->message, what);
        kvc_buffer_append_text(&ctx->verdict->expected, expected);
        kvc_buffer_append_text(&ctx->verdict->got, got);
    }
    end_check(ctx);
}

static void say_error(struct kvc_verdict *verdict, const char *what, const struct kvc_error *err)
{
    kvc_buffer_printf(&verdict->message, "%s: %s%s%s", what, err->where,
                      err->where[0] != '\0' ? ": " : "", err->what);
    kvc_buffer_append_text(&verdict->expected, err->expected);
    kvc_buffer_append_text(&verdict->got, err->got);
}

void kvc_ctx_fail_error(struct kvc_ctx *ctx, const char *what, const struct kvc_error *err)
{
    if (begin_verdict(ctx, KVC_OUTCOME_FAIL))
        say_error(ctx->verdict, what, err);
    end_check(ctx);
}

void kvc_ctx_error(struct kvc_ctx *ctx, const char *what, const struct kvc_error *err)
{
    if (begin_verdict(ctx, KVC_OUTCOME_ERROR))
        say_error(ctx->verdict, what, err);
    end_check(ctx);
}

void kvc_ctx_skip(struct kvc_ctx *ctx, const char *format, ...)
{
    if (begin_verdict(ctx, KVC_OUTCOME_SKIP)) {
        va_list args;
        va_start(args, format);
        append_formatted(&ctx->verdict->message, format, args);
        va_end(args);
    }
    end_check(ctx);
}

void kvc_ctx_note(struct kvc_ctx *ctx, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    append_formatted(&ctx->notes, format, args);
    va_end(args);
    if (ctx->notes.size > 0 && ctx->notes.data[ctx->notes.size - 1] != '\n')
        kvc_buffer_append_byte(&ctx->notes, '\n');
}

/* ---- memory that a server takes away ---- */

/* The check that this process carries out. */
static struct kvc_ctx *carried_out;

/* A server can cut off a segment that it shares with us at any time; whoever touches it then gets
 * SIGBUS. A finding like others, and the check goes on to clean up. */
static void on_bus_error(int number)
{
    if (carried_out == NULL || gettid() != getpid()) {
        signal(number, SIG_DFL); /* not in the check: the same access dies of it */
        return;
    }
    kvc_ctx_fail(carried_out,
                 "memory shared with the server is gone: a segment was cut off while it "
                 "was in use");
}

/* ---- carrying out ---- */

/* Runs func(arg), which may end by longjmp. */
static void run_guarded(struct kvc_ctx *ctx, void (*func)(void *arg), void *arg)
{
    if (setjmp(ctx->end) == 0) {
        carried_out = ctx;
        func(arg);
    }
    carried_out = NULL;
}

static void run_check(void *arg)
{
    struct kvc_ctx *ctx = arg;
    ctx->options->instance->check->run(ctx);
}

static void run_deferred(struct kvc_ctx *ctx)
{
    while (ctx->deferred != NULL) {
        struct deferred *entry = ctx->deferred;
        ctx->deferred = entry->next;
        run_guarded(ctx, entry->func, entry->arg);
        free(entry);
    }
}

static void close_connections(struct kvc_ctx *ctx)
{
    while (ctx->connections != NULL) {
        struct connection *connection = ctx->connections;
        ctx->connections = connection->next;
        kvc_client_close(connection->rpc.client);
        free(connection);
    }
}

static void write_trace(struct kvc_ctx *ctx)
{
    const char *path = ctx->options->trace_path;
    struct kvc_error err = KVC_ERROR_INIT;
    if (path == NULL || ctx->trace.count == 0)
        return;
    if (kvc_trace_write(&ctx->trace, path, &err) == KVC_OK)
        kvc_ctx_note(ctx, "frames: %s", path);
    else
        kvc_ctx_note(ctx, "frames: %s", err.what);
}

/* Adds the notes and the exchange to a bad verdict, once: before the cleanups if there is one by
 * then, so that what they send does not bury the messages that matter. */
static void finish_verdict(struct kvc_ctx *ctx)
{
    const enum kvc_outcome outcome = ctx->verdict->outcome;
    if (ctx->finished || (outcome != KVC_OUTCOME_FAIL && outcome != KVC_OUTCOME_ERROR))
        return;
    ctx->finished = true;
    write_trace(ctx);
    struct kvc_bytes notes = kvc_buffer_view(&ctx->notes);
    kvc_buffer_append(&ctx->verdict->details, notes.data, notes.size);
    kvc_trace_describe(&ctx->trace, ctx->options->facts->dialect, &ctx->verdict->details);
}

void kvc_ctx_run(const struct kvc_ctx_options *options, struct kvc_verdict *verdict)
{
    *verdict = (struct kvc_verdict){.outcome = KVC_OUTCOME_PASS};
    struct kvc_ctx *ctx = kvc_alloc_zero(1, sizeof(*ctx));
    ctx->options = options;
    ctx->facts = *options->facts;
    ctx->seed = kvc_mix(options->seed ^ kvc_hash_text(options->instance->id));
    ctx->random.state = ctx->seed;
    ctx->verdict = verdict;
    kvc_trace_open(&ctx->trace);
    const struct sigaction on_bus = {.sa_handler = on_bus_error, .sa_flags = SA_NODEFER};
    struct sigaction before;
    sigaction(SIGBUS, &on_bus, &before);
    run_guarded(ctx, run_check, ctx);
    finish_verdict(ctx);
    run_deferred(ctx);
    finish_verdict(ctx);
    sigaction(SIGBUS, &before, NULL);
    close_connections(ctx);
    kvc_trace_close(&ctx->trace);
    kvc_buffer_clear(&ctx->notes);
    kvc_arena_clear(&ctx->arena);
    free(ctx);
}
