/* Device memory of workers that are gone: the server's mapping would keep it from everybody. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/base/clock.h"
#include "tests/conformance/transfer_fixture.h"

enum { REAP_MS = 400, RETURN_MS = 5 * 1000 };

/* Others may use the GPU, too: a change by half of what the worker takes is its own. */
#define TAKEN_BYTES ((int64_t)128 << 20)

static const struct kvc_target_setup soon_reaped = {.name = "soon-reaped", .reap_ms = REAP_MS};

/* A worker in a process of its own: forked before the check opens the GPU or a connection, and told by
 * bytes what to do. */
struct tenant {
    const struct kvc_facts *facts;
    struct kvc_worker_options options;
    pid_t pid;
    int to, from;
};

/* ---- in the worker's process ---- */

static kvc_status ping(const struct kvc_worker *worker, struct kvc_error *err)
{
    struct kvc_reply reply = {0};
    const struct kvc_request request = {.op = KVC_OP_PING,
                                        .ping_instance = KVC_SOME_INT(worker->options.instance_id)};
    const kvc_status status = kvc_rpc_call(&worker->rpc, &request, &reply, err);
    kvc_reply_clear(&reply);
    return status;
}

static kvc_status move_in(const struct tenant *tenant, struct kvc_worker **worker,
                          struct kvc_error *err)
{
    struct kvc_rpc rpc = {.dialect = tenant->facts->dialect,
                          .timeout_ms = tenant->facts->timeout_ms};
    KVC_GUARD(kvc_client_open(tenant->facts->rpc_url, rpc.timeout_ms, &rpc.client, err));
    KVC_GUARD(kvc_worker_open(&rpc, &tenant->options, worker, err));
    return ping(*worker, err);
}

static _Noreturn void be_tenant(const struct tenant *tenant)
{
    struct kvc_error err = KVC_ERROR_INIT;
    struct kvc_worker *worker = NULL;
    char word;
    if (read(tenant->to, &word, 1) != 1)
        _exit(1);
    word = (char)move_in(tenant, &worker, &err);
    if (write(tenant->from, &word, 1) == 1 && read(tenant->to, &word, 1) == 1)
        kvc_worker_close(worker, NULL);
    _exit(0);
}

/* ---- the check's side ---- */

static void end_tenant(void *arg)
{
    struct tenant *tenant = arg;
    if (tenant->pid <= 0)
        return;
    kill(tenant->pid, SIGKILL);
    waitpid(tenant->pid, NULL, 0);
    tenant->pid = 0;
    close(tenant->to);
    close(tenant->from);
}

/* A cache of TAKEN_BYTES. */
static void enlarge(struct kvc_group *group)
{
    const int64_t layer = kvc_group_tensor_bytes(group);
    group->num_blocks *= TAKEN_BYTES / (layer * group->num_layers);
}

static struct tenant *start_tenant(struct kvc_ctx *ctx)
{
    struct tenant *tenant = kvc_arena_alloc(kvc_ctx_arena(ctx), sizeof *tenant);
    int to[2], from[2];
    struct kvc_error err = KVC_ERROR_INIT;
    *tenant = (struct tenant){.facts = kvc_ctx_facts(ctx), .options = kvc_worker_defaults(ctx)};
    enlarge(&tenant->options.geometry.groups[0]);
    if (pipe(to) != 0 || pipe(from) != 0 || (tenant->pid = fork()) < 0) {
        kvc_fail_errno(&err, "cannot start a process");
        kvc_ctx_error(ctx, "the worker that takes memory", &err);
    }
    tenant->to = tenant->pid == 0 ? to[0] : to[1];
    tenant->from = tenant->pid == 0 ? from[1] : from[0];
    close(tenant->pid == 0 ? to[1] : to[0]);
    close(tenant->pid == 0 ? from[0] : from[1]);
    if (tenant->pid == 0)
        be_tenant(tenant);
    kvc_ctx_defer(ctx, end_tenant, tenant);
    return tenant;
}

/* Lets the worker go on by one step; what it says, or 0 when it says nothing more. */
static kvc_status let_go_on(const struct tenant *tenant)
{
    char word = 'g';
    if (write(tenant->to, &word, 1) != 1)
        return KVC_ELOST;
    return read(tenant->from, &word, 1) == 1 ? (kvc_status)word : KVC_OK;
}

static void close_gpu(void *arg)
{
    (void)arg;
    kvc_cuda_close();
}

static int64_t free_bytes(struct kvc_ctx *ctx)
{
    struct kvc_error err = KVC_ERROR_INIT;
    int64_t bytes = 0;
    kvc_expect_ok(ctx, "asking for the GPU's free memory", kvc_cuda_free_bytes(&bytes, &err), &err);
    return bytes;
}

/* A worker comes and goes; what is wrong with the GPU's free memory, or "" when it is as it must be. */
static const char *watch_tenant(struct kvc_ctx *ctx, struct tenant *tenant)
{
    const int64_t before = free_bytes(ctx);
    const kvc_status moved_in = let_go_on(tenant);
    KVC_EXPECT(ctx, moved_in == KVC_OK, "the registration of %lld bytes failed (%s)",
               (long long)TAKEN_BYTES, kvc_status_name(moved_in));
    if (free_bytes(ctx) >= before - TAKEN_BYTES / 2)
        return "does not show what a worker took";
    if (kvc_ctx_variant_is(ctx, "left"))
        let_go_on(tenant);
    end_tenant(tenant);
    const int64_t deadline = kvc_now_ms() + RETURN_MS;
    while (free_bytes(ctx) < before - TAKEN_BYTES / 2) {
        if (kvc_now_ms() >= deadline)
            return "is still less by what a worker took, 5 s after it was gone";
        kvc_sleep_ms(kvc_ctx_setup(ctx)->reap_ms / 10);
    }
    return "";
}

/* All workers are forked before the check opens the GPU. Others who use it may come or go while one is
 * watched, but not each time. */
static void memory_returns(struct kvc_ctx *ctx)
{
    enum { TENANTS = 3 };
    struct tenant *tenants[TENANTS];
    struct kvc_error err = KVC_ERROR_INIT;
    for (size_t i = 0; i < TENANTS; i++)
        tenants[i] = start_tenant(ctx);
    kvc_expect_ok(ctx, "opening the GPU", kvc_cuda_open(&err), &err);
    kvc_ctx_defer(ctx, close_gpu, NULL);
    const char *wrong = "";
    for (size_t i = 0; i < TENANTS; i++) {
        wrong = watch_tenant(ctx, tenants[i]);
        if (wrong[0] == '\0')
            return;
        end_tenant(tenants[i]);
    }
    KVC_EXPECT(ctx, false, "the GPU's free memory %s", wrong);
}
KVC_CHECK(memory_returns, .id = "cuda/memory-returns",
          .clause = "The device memory of a worker that left, or was killed and reaped, is free "
                    "again.",
          .source = "protocol 4.5, B43, N26",
          .exchange = "another process: REGISTER, PING, then UNREGISTER or SIGKILL; the GPU's free "
                      "memory until it has returned",
          .level = KVC_LEVEL_SHOULD, .needs = KVC_NEED_CUDA | KVC_NEED_LMCACHE_DRIVEN,
          .flags = KVC_FLAG_EXCLUSIVE, .setup = &soon_reaped,
          .variants = (const char *const[]){"left", "killed", NULL}, .run = memory_returns);
