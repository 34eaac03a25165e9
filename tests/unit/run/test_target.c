#include <criterion/criterion.h>

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/base/clock.h"
#include "src/target/aside.h"
#include "src/target/launch_setup.h"
#include "src/target/supervisor.h"
#include "src/target/target.h"

/* ---- questions asked in a child ---- */

static kvc_status add_one(const void *arg, void *result, struct kvc_error *err)
{
    (void)err;
    *(int *)result = *(const int *)arg + 1;
    return KVC_OK;
}

static kvc_status refuse(const void *arg, void *result, struct kvc_error *err)
{
    (void)arg;
    (void)result;
    return kvc_fail(err, KVC_EREFUSED, "no");
}

static kvc_status die(const void *arg, void *result, struct kvc_error *err)
{
    (void)arg;
    (void)result;
    (void)err;
    raise(SIGKILL);
    return KVC_OK;
}

static kvc_status hang(const void *arg, void *result, struct kvc_error *err)
{
    (void)arg;
    (void)result;
    (void)err;
    kvc_sleep_ms(60000);
    return KVC_OK;
}

Test(aside, results_and_errors)
{
    const int arg = 41;
    int result = 0;
    struct kvc_error err = KVC_ERROR_INIT;
    cr_assert_eq(kvc_aside_run(add_one, &arg, &result, sizeof(result), 5000, &err), KVC_OK);
    cr_assert_eq(result, 42);
    cr_assert_eq(kvc_aside_run(refuse, &arg, &result, sizeof(result), 5000, &err), KVC_EREFUSED);
    cr_assert_str_eq(err.what, "no");
    cr_assert_eq(kvc_aside_run(die, &arg, &result, sizeof(result), 5000, &err), KVC_ELOST);
    cr_assert_eq(kvc_aside_run(hang, &arg, &result, sizeof(result), 100, &err), KVC_ETIMEOUT);
    cr_assert_lt(waitpid(-1, NULL, WNOHANG), 0, "no child is left");
}

static kvc_status fill_memory(const void *arg, void *result, struct kvc_error *err)
{
    (void)arg, (void)result, (void)err;
    const size_t piece = 256 << 20;
    for (size_t taken = 0; taken <= KVC_ASIDE_MEMORY_BYTES; taken += piece)
        *(volatile char *)kvc_alloc(piece) = 1;
    return KVC_OK;
}

Test(aside, memory_is_bounded)
{
    char nothing;
    struct kvc_error err = KVC_ERROR_INIT;
    cr_assert_eq(kvc_aside_run(fill_memory, NULL, &nothing, sizeof(nothing), 20000, &err),
                 KVC_ELOST);
    cr_assert_str_eq(err.what, "the server sends more than the 1024 MiB that may be kept");
}

static kvc_status abort_oneself(const void *arg, void *result, struct kvc_error *err)
{
    (void)arg, (void)result, (void)err;
    signal(SIGABRT, SIG_DFL);
    abort();
}

Test(aside, the_signal_of_which_it_died)
{
    char nothing;
    struct kvc_error err = KVC_ERROR_INIT;
    cr_assert_eq(kvc_aside_run(abort_oneself, NULL, &nothing, sizeof(nothing), 5000, &err),
                 KVC_ELOST);
    cr_assert_str_eq(err.what, "the process that asked the server died of signal 6 (Aborted)");
}

/* As libzmq does when it gets no memory. */
static kvc_status want_memory(const void *arg, void *result, struct kvc_error *err)
{
    fputs("FATAL ERROR: OUT OF MEMORY (src/msg.cpp:1)\n", stderr);
    return abort_oneself(arg, result, err);
}

Test(aside, memory_that_ran_out_is_named)
{
    char nothing;
    struct kvc_error err = KVC_ERROR_INIT;
    cr_assert_eq(kvc_aside_run(want_memory, NULL, &nothing, sizeof(nothing), 5000, &err),
                 KVC_ELOST);
    cr_assert_str_eq(err.what, "the server sends more than the 1024 MiB that may be kept");
}

Test(aside, a_pending_stop_ends_the_wait)
{
    sigset_t stop;
    int result = 0;
    sigemptyset(&stop);
    sigaddset(&stop, SIGTERM);
    sigprocmask(SIG_BLOCK, &stop, NULL);
    raise(SIGTERM);
    cr_assert(kvc_aside_stop_pending());
    cr_assert_eq(kvc_aside_run(hang, &result, &result, sizeof(result), 60000, NULL),
                 KVC_EINTERRUPTED);
}

/* ---- choosing a target ---- */

static const char *kind_of(const struct kvc_target_options *options)
{
    struct kvc_target target;
    return kvc_target_init(options, &target, NULL) == KVC_OK ? target.ops->name : "refused";
}

Test(target, kinds)
{
    static const char *const defects[] = {"x", NULL};
    cr_assert_str_eq(kind_of(&(struct kvc_target_options){0}), "mock");
    cr_assert_str_eq(kind_of(&(struct kvc_target_options){.defects = defects}), "mock");
    cr_assert_str_eq(kind_of(&(struct kvc_target_options){.rpc_url = "tcp://h:1"}), "attach");
    cr_assert_str_eq(kind_of(&(struct kvc_target_options){.launch = "x"}), "launch");
    cr_assert_str_eq(kind_of(&(struct kvc_target_options){.http_url = "http://h"}), "refused");
    cr_assert_str_eq(
        kind_of(&(struct kvc_target_options){.rpc_url = "tcp://h:1", .defects = defects}),
        "refused");
}

Test(target, a_set_up_that_it_cannot_have)
{
    const struct kvc_target_options options = {.rpc_url = "tcp://127.0.0.1:1"};
    const struct kvc_target_setup setup = {.name = "no-pool", .no_pool = true};
    struct kvc_target target;
    cr_assert_eq(kvc_target_init(&options, &target, NULL), KVC_OK);
    cr_assert_eq(kvc_target_start(&target, &setup, NULL), KVC_EUNSUPPORTED);
}

/* What is added to a launched server's command for the set-up. */
static const char *added(struct kvc_buffer *command, struct kvc_target_setup setup)
{
    const struct kvc_target_options options = {
        .setup_arguments = {[KVC_SETUP_POOL] = "--gb {pool_gb} --b={pool_bytes}",
                            [KVC_SETUP_NO_POOL] = "--no-pool {pool_gb}",
                            [KVC_SETUP_LEASE] = "{lease_seconds}{lease_seconds}s"}};
    kvc_buffer_clear(command);
    kvc_launch_append_setup(&options, &setup, command);
    return kvc_buffer_text(command);
}

Test(set_up, is_added_to_the_command)
{
    struct kvc_buffer command = {0};
    cr_assert_str_eq(added(&command, (struct kvc_target_setup){0}), "");
    cr_assert_str_eq(added(&command, (struct kvc_target_setup){.pool_bytes = 1 << 20}),
                     " --gb 0.0009765625 --b=1048576");
    cr_assert_str_eq(added(&command, (struct kvc_target_setup){.pool_bytes = INT64_C(3) << 30}),
                     " --gb 3 --b=3221225472");
    cr_assert_str_eq(
        added(&command, (struct kvc_target_setup){.no_pool = true, .write_ttl_ms = 2000}),
        " --no-pool {pool_gb} 22s");
    kvc_buffer_clear(&command);
}

Test(set_up, needs_arguments_for_all_of_it)
{
    struct kvc_target target;
    const struct kvc_target_options options = {.launch = "x",
                                               .setup_arguments[KVC_SETUP_LEASE] = "y"};
    cr_assert_eq(kvc_target_init(&options, &target, NULL), KVC_OK);
    struct kvc_target_setup nothing = {0}, reads = {.read_ttl_ms = 1},
                            writes = {.write_ttl_ms = 1001},
                            both = {.read_ttl_ms = 1, .pool_bytes = 1};
    cr_assert(!kvc_target_takes(&target, &nothing));
    cr_assert(!kvc_target_takes(&target, &both));
    cr_assert_eq(both.read_ttl_ms, 1);
    cr_assert(kvc_target_takes(&target, &reads) && kvc_target_takes(&target, &writes));
    cr_assert_eq(reads.read_ttl_ms, 1000);
    cr_assert_eq(writes.write_ttl_ms, 2000);
}

Test(target, no_mock_in_this_program)
{
    struct kvc_target target;
    cr_assert_eq(kvc_target_init(&(struct kvc_target_options){0}, &target, NULL), KVC_OK);
    cr_assert_eq(kvc_target_start(&target, NULL, NULL), KVC_EUNSUPPORTED);
    kvc_target_stop(&target);
}

/* ---- the supervisor ---- */

struct supervised {
    pid_t pid;
    int stop_fd;
    char log[32];
};

static struct supervised supervise(const char *command)
{
    struct supervised it = {.log = "/tmp/kvconform-log-XXXXXX"};
    int stop[2];
    const int log_fd = mkstemp(it.log);
    const pid_t parent = getpid();
    cr_assert_eq(pipe2(stop, O_CLOEXEC), 0);
    it.pid = fork();
    if (it.pid == 0)
        kvc_supervise(command, parent, log_fd, stop[0], 300);
    close(stop[0]);
    close(log_fd);
    it.stop_fd = stop[1];
    return it;
}

/* The exit status. */
static int await(struct supervised *it)
{
    int status = -1;
    waitpid(it->pid, &status, 0);
    unlink(it->log);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void await_log(const struct supervised *it)
{
    for (int i = 0; i < 500 && access(it->log, F_OK) == 0; i++) {
        FILE *file = fopen(it->log, "r");
        const int c = fgetc(file);
        fclose(file);
        if (c != EOF)
            return;
        kvc_sleep_ms(10);
    }
}

Test(supervisor, gives_the_command_s_status)
{
    struct supervised it = supervise("exit 5");
    cr_assert_eq(await(&it), 5);
    it = supervise("kill -9 $$");
    cr_assert_eq(await(&it), 128 + 9);
}

Test(supervisor, ends_the_command_when_told_to)
{
    struct supervised it = supervise("trap 'echo bye; exit' TERM; echo here; sleep 60 & wait");
    char text[32] = "";
    await_log(&it);
    close(it.stop_fd);
    FILE *log = fopen(it.log, "r");
    cr_assert_eq(await(&it), 0);
    text[fread(text, 1, sizeof(text) - 1, log)] = '\0';
    fclose(log);
    cr_assert_str_eq(text, "here\nbye\n", "it is asked before it is killed");
}

Test(supervisor, ends_what_ignores_sigterm_and_removes_its_segments)
{
    char name[64], command[512];
    snprintf(name, sizeof(name), "/dev/shm/stubborn-%d", (int)getpid());
    /* A process that has a segment mapped, as a killed server would. */
    snprintf(command, sizeof(command),
             "trap '' TERM; exec python3 -c 'import mmap, time\n"
             "f = open(\"%s\", \"w+b\"); f.truncate(4096); m = mmap.mmap(f.fileno(), 4096)\n"
             "print(\"here\", flush=True); time.sleep(60)'",
             name);
    struct supervised it = supervise(command);
    await_log(&it);
    cr_assert_eq(access(name, F_OK), 0);
    kill(it.pid, SIGTERM);
    cr_assert_eq(await(&it), 0);
    cr_assert_neq(access(name, F_OK), 0);
}

Test(supervisor, ends_what_has_left_the_group)
{
    /* Its own session, its parent gone, deaf to SIGTERM: what a server that is a daemon looks like. */
    struct supervised it = supervise("setsid sh -c 'trap \"\" TERM; echo $$; sleep 60' &\n"
                                     "while [ ! -s /dev/stdout ]; do sleep 0.01; done; exit 3");
    await_log(&it);
    FILE *log = fopen(it.log, "r");
    cr_assert_eq(await(&it), 3);
    int daemon = 0;
    cr_assert_eq(fscanf(log, "%d", &daemon), 1);
    fclose(log);
    cr_assert_neq(kill(daemon, 0), 0);
}

Test(supervisor, what_a_killed_one_leaves_can_be_ended)
{
    prctl(PR_SET_CHILD_SUBREAPER, 1); /* not init waits for it, but we */
    struct supervised it = supervise("sleep 60 & (trap '' TERM; echo $!; sleep 60)");
    await_log(&it);
    FILE *log = fopen(it.log, "r");
    int orphan = 0;
    cr_assert_eq(fscanf(log, "%d", &orphan), 1);
    fclose(log);
    kill(it.pid, SIGKILL);
    cr_assert_eq(await(&it), -1);
    cr_assert_eq(kill(orphan, 0), 0);
    kvc_supervisor_lost(it.pid, 100);
    /* The shell that started it waits for it, or we do, once that shell has ended. */
    for (int i = 0; i < 1000 && kill(orphan, 0) == 0; i++) {
        waitpid(orphan, NULL, WNOHANG);
        usleep(10000);
    }
    cr_assert_neq(kill(orphan, 0), 0);
}
