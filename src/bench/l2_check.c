#include "src/bench/l2_check.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/base/clock.h"

/* Where a check's process says how it ended; the processes that it starts share it. */
static struct kvc_l2_check_result *told;

const char *kvc_l2_verdict_name(enum kvc_l2_verdict verdict)
{
    static const char *const names[] = {
        [KVC_L2_PASS] = "pass",       [KVC_L2_FAIL] = "fail",   [KVC_L2_SKIP] = "skip",
        [KVC_L2_TIMEOUT] = "timeout", [KVC_L2_CRASH] = "crash", [KVC_L2_NOT_RUN] = "not-run",
    };
    return names[verdict];
}

static _Noreturn void end(enum kvc_l2_verdict verdict, const char *format, va_list args)
{
    vsnprintf(told->why, sizeof(told->why), format, args);
    told->verdict = verdict;
    _exit(0);
}

void kvc_l2_check_fail(const struct kvc_l2_check_run *run, const char *format, ...)
{
    (void)run;
    va_list args;
    va_start(args, format);
    end(KVC_L2_FAIL, format, args);
}

void kvc_l2_check_skip(const struct kvc_l2_check_run *run, const char *format, ...)
{
    (void)run;
    va_list args;
    va_start(args, format);
    end(KVC_L2_SKIP, format, args);
}

void kvc_l2_check_open(struct kvc_l2_check_run *run)
{
    const struct kvc_l2_memory memory = {run->options->object_size, run->options->align};
    struct kvc_error err = KVC_ERROR_INIT;
    kvc_status status =
        run->adapter->open(run->options->config->values, &memory, &run->store, &err);
    if (status == KVC_OK)
        status = run->adapter->open_lane(run->store, &run->lane, &err);
    if (status != KVC_OK)
        kvc_l2_check_fail(run, "the store does not open: %s", err.what);
}

void kvc_l2_check_close(struct kvc_l2_check_run *run)
{
    struct kvc_error err = KVC_ERROR_INIT;
    run->adapter->close_lane(run->lane);
    if (run->adapter->close(run->store, &err) != KVC_OK)
        kvc_l2_check_fail(run, "the store does not close: %s", err.what);
}

/* ---- the check's process ---- */

static _Noreturn void run_check(const struct kvc_l2_check *check,
                                const struct kvc_l2_check_options *options)
{
    struct kvc_l2_check_run run = {
        .check = check, .options = options, .adapter = options->config->adapter};
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    signal(SIGHUP, SIG_DFL);
    snprintf(run.model, sizeof(run.model), "kvconform-%s-%llx-%d", strchr(check->id, '/') + 1,
             (unsigned long long)options->seed, (int)getpid());
    kvc_l2_check_open(&run);
    check->run(&run);
    kvc_l2_check_close(&run);
    told->verdict = KVC_L2_PASS;
    _exit(0);
}

/* The limit's time, and what a check left running in its group. */
static bool wait_for(pid_t process, const struct kvc_l2_check_options *options, int *status)
{
    const int64_t deadline = kvc_now_ms() + options->timeout_ms;
    while (waitpid(process, status, WNOHANG) == 0) {
        if (kvc_now_ms() >= deadline || (options->stop != NULL && *options->stop)) {
            kill(-process, SIGKILL);
            waitpid(process, status, 0);
            return false;
        }
        kvc_sleep_ms(2);
    }
    kill(-process, SIGKILL);
    return true;
}

static void judge(bool in_time, int status, const struct kvc_l2_check_options *options,
                  struct kvc_l2_check_result *result)
{
    *result = *told;
    if (!in_time && options->stop != NULL && *options->stop) {
        result->verdict = KVC_L2_NOT_RUN;
        snprintf(result->why, sizeof(result->why), "interrupted");
    } else if (!in_time) {
        result->verdict = KVC_L2_TIMEOUT;
        snprintf(result->why, sizeof(result->why), "no end within %.1f s",
                 (double)options->timeout_ms / 1000);
    } else if (WIFSIGNALED(status)) {
        result->verdict = KVC_L2_CRASH;
        snprintf(result->why, sizeof(result->why), "ended by signal %d", WTERMSIG(status));
    }
}

void kvc_l2_check_one(const struct kvc_l2_check *check, const struct kvc_l2_check_options *options,
                      struct kvc_l2_check_result *result)
{
    *result = (struct kvc_l2_check_result){.verdict = KVC_L2_NOT_RUN};
    told = mmap(NULL, sizeof(*told), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (told == MAP_FAILED) {
        snprintf(result->why, sizeof(result->why), "no memory");
        return;
    }
    /* What says nothing has crashed. */
    told->verdict = KVC_L2_CRASH;
    const pid_t process = fork();
    if (process == 0) {
        setpgid(0, 0);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        run_check(check, options);
    }
    if (process < 0) {
        snprintf(result->why, sizeof(result->why), "cannot start a process: %s", strerror(errno));
    } else {
        int status = 0;
        setpgid(process, process);
        const bool in_time = wait_for(process, options, &status);
        judge(in_time, status, options, result);
    }
    munmap(told, sizeof(*told));
}
