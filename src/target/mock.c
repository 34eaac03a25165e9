/* The bundled mock server, in a child process that ends when we do. */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/base/clock.h"
#include "src/kv/segment.h"
#include "src/target/aside.h"
#include "src/target/l2_folder.h"
#include "src/target/target_impl.h"
#include "tests/mock_server/mock.h"

enum {
    START_LIMIT_MS = 10000,
    STOP_GRACE_MS = 3000,
    /* Enough for every check, and it fits the 64 MiB that containers give /dev/shm. */
    DEFAULT_POOL_BYTES = 32 << 20,
};

static kvc_target_mock_func *mock_run;

/* What start keeps for stop. */
struct mock_state {
    int stop_fd; /* the mock ends when this closes */
    int pid;     /* whose segments are removed in the end */
};

void kvc_target_set_mock(kvc_target_mock_func *run)
{
    mock_run = run;
}

static int64_t first_set(int64_t a, int64_t b, int64_t c)
{
    return a != 0 ? a : b != 0 ? b : c;
}

static struct kvc_mock_options mock_options(const struct kvc_target *target,
                                            const struct kvc_target_setup *setup)
{
    static const struct kvc_target_setup plain = {.name = "default"};
    const struct kvc_target_options *options = &target->options;
    if (setup == NULL)
        setup = &plain;
    return (struct kvc_mock_options){
        .bind = "tcp://127.0.0.1:0",
        .http = "127.0.0.1:0",
        .dialect = target->identity.dialect,
        .chunk_size = options->chunk_size,
        .pool_size = first_set(setup->pool_bytes, options->pool_bytes, DEFAULT_POOL_BYTES),
        .no_pool = setup->no_pool,
        .read_ttl_ms = setup->read_ttl_ms,
        .write_ttl_ms = setup->write_ttl_ms,
        .reap_ms = setup->reap_ms,
        .defects = options->defects,
    };
}

/* Never returns. What goes wrong is told through the same pipe, after a line "error". */
static _Noreturn void be_mock(const struct kvc_target *target, struct kvc_mock_options options,
                              int parent, int ready_fd, int stop_fd)
{
    const int keep[] = {ready_fd, stop_fd};
    kvc_aside_detach(parent, SIGTERM, keep, KVC_COUNT_OF(keep));
    setpgid(0, 0); /* Ctrl-C is for kvconform, which then ends us */
    options.ready_fd = ready_fd;
    options.stop_fd = stop_fd;
    struct kvc_error err = KVC_ERROR_INIT;
    char *below = kvc_format("{\"type\": \"fs\", \"base_path\": \"%s\"}", target->l2_folder);
    kvc_status status = KVC_OK;
    if (target->l2_folder[0] != '\0')
        options.l2_adapter = below;
    if (target->l2_bytes != 0)
        status = kvc_l2_folder_confine(target->l2_folder, target->l2_bytes, &err);
    if (status == KVC_OK)
        status = mock_run(&options, &err);
    free(below);
    if (status == KVC_OK)
        _exit(0);
    char line[sizeof(err) + 64];
    kvc_error_line(&err, line, sizeof(line));
    dprintf(ready_fd, "error\n%d %s\n", (int)status, line);
    _exit(1);
}

/* Reads two lines. */
static kvc_status read_ready(int fd, char *first, char *second, size_t size, struct kvc_error *err)
{
    enum { SLICE_MS = 50 };
    struct kvc_buffer text = {0};
    const int64_t deadline_ms = kvc_now_ms() + START_LIMIT_MS;
    kvc_status status = KVC_OK;
    for (int lines = 0; lines < 2 && status == KVC_OK;) {
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        char c;
        if (kvc_now_ms() >= deadline_ms)
            status = kvc_fail(err, KVC_ETIMEOUT, "the mock server did not start");
        else if (kvc_aside_stop_pending())
            status = kvc_fail(err, KVC_EINTERRUPTED, "interrupted");
        else if (poll(&ready, 1, SLICE_MS) <= 0)
            continue;
        else if (read(fd, &c, 1) != 1) /* by the same Ctrl-C, perhaps */
            status = kvc_aside_stop_pending()
                         ? kvc_fail(err, KVC_EINTERRUPTED, "interrupted")
                         : kvc_fail(err, KVC_ELOST, "the mock server ended while it started");
        else {
            kvc_buffer_append_byte(&text, (uint8_t)c);
            lines += c == '\n';
        }
    }
    if (status == KVC_OK) {
        const char *start = kvc_buffer_text(&text);
        const size_t length = strcspn(start, "\n");
        snprintf(first, size, "%.*s", (int)length, start);
        const char *rest = start + length + 1;
        snprintf(second, size, "%.*s", (int)strcspn(rest, "\n"), rest);
    }
    kvc_buffer_clear(&text);
    return status;
}

static kvc_status await_ready(struct kvc_target *target, int fd, struct kvc_error *err)
{
    char first[256], second[256];
    KVC_GUARD(read_ready(fd, first, second, sizeof(first), err));
    if (strcmp(first, "error") == 0) {
        char *message = second;
        const long status = strtol(second, &message, 10);
        return kvc_fail(err, (kvc_status)status, "%s", message + strspn(message, " "));
    }
    memcpy(target->rpc_url, first, sizeof(first));
    memcpy(target->http_url, second, sizeof(second));
    return KVC_OK;
}

static void fill_identity(struct kvc_target *target)
{
    struct kvc_identity *identity = &target->identity;
    *identity = (struct kvc_identity){.dialect = target->options.dialect};
    if (identity->dialect == NULL)
        identity->dialect = kvc_dialects[kvc_dialect_count - 1];
    identity->chunk_size = first_set(target->options.chunk_size, 256, 256);
    snprintf(identity->how, sizeof(identity->how), "the mock server was told to speak it");
    /* As the mock reports it: the newest release of the dialect. */
    const char *const *release = identity->dialect->releases;
    while (release[1] != NULL)
        release++;
    snprintf(identity->version, sizeof(identity->version), "%s", *release);
}

static kvc_status mock_start(struct kvc_target *target, const struct kvc_target_setup *setup,
                             struct kvc_error *err)
{
    if (mock_run == NULL)
        return kvc_fail(err, KVC_EUNSUPPORTED, "this program has no mock server");
    fill_identity(target);
    if (setup != NULL && setup->l2)
        KVC_GUARD(kvc_l2_folder_make(target, err));
    int ready[2], stop[2];
    if (pipe2(ready, O_CLOEXEC) != 0)
        return kvc_fail_errno(err, "cannot make a pipe");
    if (pipe2(stop, O_CLOEXEC) != 0) {
        kvc_fail_errno(err, "cannot make a pipe");
        close(ready[0]);
        close(ready[1]);
        return KVC_ESYSTEM;
    }
    const pid_t parent = getpid();
    const pid_t child = fork();
    if (child == 0)
        be_mock(target, mock_options(target, setup), parent, ready[1], stop[0]);
    close(ready[1]);
    close(stop[0]);
    struct mock_state *state = kvc_alloc(sizeof(*state));
    state->stop_fd = stop[1];
    state->pid = child > 0 ? child : 0;
    target->state = state;
    target->process = state->pid;
    const kvc_status status =
        child > 0 ? await_ready(target, ready[0], err) : kvc_fail_errno(err, "cannot fork");
    close(ready[0]);
    return status;
}

static void mock_stop(struct kvc_target *target)
{
    struct mock_state *state = target->state;
    if (state == NULL)
        return;
    close(state->stop_fd);
    if (target->process != 0)
        kvc_target_end_process(target->process, false, STOP_GRACE_MS);
    if (state->pid != 0)
        kvc_segment_sweep_pid(state->pid);
    free(state);
    target->state = NULL;
    target->process = 0;
}

static void mock_end(struct kvc_target *target, enum kvc_ending ending)
{
    static const int signals[] = {SIGTERM, SIGINT, SIGKILL};
    kvc_target_signal_process(target->process, signals[ending], STOP_GRACE_MS);
    target->process = 0;
}

static bool mock_takes(const struct kvc_target *target, const struct kvc_target_setup *setup)
{
    (void)target;
    (void)setup;
    return true;
}

const struct kvc_target_ops kvc_target_mock = {
    .name = "mock",
    .can_restart = true,
    .is_private = true,
    .takes = mock_takes,
    .time_unit_ms = 1,
    .start = mock_start,
    .stop = mock_stop,
    .end = mock_end,
};
