#include "src/target/target.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "src/base/clock.h"
#include "src/driver/rpc.h"
#include "src/link/http.h"
#include "src/target/aside.h"
#include "src/target/l2_folder.h"
#include "src/target/target_impl.h"

/* How long a helper process may take beyond the limits of what it asks. */
enum { ASIDE_MARGIN_MS = 2000 };

kvc_status kvc_target_init(const struct kvc_target_options *options, struct kvc_target *target,
                           struct kvc_error *err)
{
    *target = (struct kvc_target){.options = *options};
    const bool has_address = options->rpc_url != NULL || options->http_url != NULL;
    if (options->defects != NULL && options->defects[0] != NULL &&
        (has_address || options->launch != NULL))
        return kvc_fail(err, KVC_EUSAGE,
                        "--defect is for the bundled mock server, not for another "
                        "target: leave out --rpc-url, --url and --launch");
    if (options->launch != NULL)
        target->ops = &kvc_target_launch;
    else if (options->rpc_url != NULL)
        target->ops = &kvc_target_attach;
    else if (options->http_url != NULL)
        return kvc_fail(err, KVC_EUSAGE, "--url alone is no target: give --rpc-url as well");
    else
        target->ops = &kvc_target_mock;
    return KVC_OK;
}

/* A server that was told to speak a dialect may not do so, and its answers then read as nonsense. */
static void doubt_dialect(const struct kvc_target *target, struct kvc_error *err)
{
    if (err == NULL || target->options.dialect == NULL ||
        (err->status != KVC_EFORMAT && err->status != KVC_ETIMEOUT))
        return;
    kvc_error_append(err,
                     "; does the server speak dialect %s? Without --dialect kvconform finds out",
                     target->options.dialect->name);
}

static int64_t round_up(int64_t value, int64_t unit)
{
    return (value + unit - 1) / unit * unit;
}

bool kvc_target_takes(const struct kvc_target *target, struct kvc_target_setup *setup)
{
    const int64_t unit_ms = target->ops->time_unit_ms;
    if (target->ops->takes == NULL || !target->ops->takes(target, setup))
        return false;
    setup->read_ttl_ms = round_up(setup->read_ttl_ms, unit_ms);
    setup->write_ttl_ms = round_up(setup->write_ttl_ms, unit_ms);
    setup->reap_ms = round_up(setup->reap_ms, unit_ms);
    return true;
}

kvc_status kvc_target_start(struct kvc_target *target, const struct kvc_target_setup *setup,
                            struct kvc_error *err)
{
    if (setup != NULL && (target->ops->takes == NULL || !target->ops->takes(target, setup)))
        return kvc_fail(err, KVC_EUNSUPPORTED, "a %s target cannot be set up as '%s'",
                        target->ops->name, setup->name);
    const kvc_status status = target->ops->start(target, setup, err);
    if (status != KVC_OK) {
        doubt_dialect(target, err);
        kvc_target_stop(target);
    }
    return status;
}

void kvc_target_stop(struct kvc_target *target)
{
    if (target->ops != NULL)
        target->ops->stop(target);
}

void kvc_target_clear(struct kvc_target *target)
{
    kvc_target_stop(target);
    kvc_l2_folder_remove(target);
}

kvc_status kvc_target_check_urls(const struct kvc_target *target, struct kvc_error *err)
{
    if (kvc_client_check_url(target->rpc_url, err) != KVC_OK)
        return kvc_error_set_where(err, "--rpc-url"), KVC_EUSAGE;
    if (target->options.http_url != NULL && kvc_http_check_url(target->http_url, err) != KVC_OK)
        return kvc_error_set_where(err, "--url"), KVC_EUSAGE;
    return KVC_OK;
}

void kvc_target_end(struct kvc_target *target, enum kvc_ending ending)
{
    if (target->process != 0)
        target->ops->end(target, ending);
}

/* ---- questions ---- */

static kvc_status ask_identity(const void *arg, void *result, struct kvc_error *err)
{
    const struct kvc_target *target = arg;
    const char *http_url = target->http_url[0] != '\0' ? target->http_url : NULL;
    return kvc_identify(target->rpc_url, http_url, target->options.connect_timeout_ms,
                        target->options.timeout_ms, result, err);
}

/* A connection, then NOOP (or the chunk size) in the given dialect. */
static kvc_status ask(const struct kvc_target *target, const struct kvc_dialect *dialect,
                      int64_t timeout_ms, int64_t *chunk_size, struct kvc_error *err)
{
    struct kvc_rpc rpc = {.dialect = dialect, .timeout_ms = timeout_ms};
    KVC_GUARD(
        kvc_client_open(target->rpc_url, target->options.connect_timeout_ms, &rpc.client, err));
    const kvc_status status =
        chunk_size == NULL ? kvc_rpc_noop(&rpc, err) : kvc_rpc_chunk_size(&rpc, chunk_size, err);
    kvc_client_close(rpc.client);
    return status;
}

static kvc_status ask_chunk_size(const void *arg, void *result, struct kvc_error *err)
{
    const struct kvc_target *target = arg;
    struct kvc_identity *identity = result;
    identity->dialect = target->options.dialect;
    snprintf(identity->how, sizeof(identity->how), "given by --dialect");
    return ask(target, target->options.dialect, target->options.timeout_ms, &identity->chunk_size,
               err);
}

kvc_status kvc_target_identify(struct kvc_target *target, int64_t connect_timeout_ms,
                               struct kvc_error *err)
{
    /* Identification asks up to three questions over ZMQ and some over HTTP. */
    const int64_t questions = 6;
    struct kvc_target asked = *target;
    asked.options.connect_timeout_ms = connect_timeout_ms;
    return kvc_aside_run(
        target->options.dialect != NULL ? ask_chunk_size : ask_identity, &asked, &target->identity,
        sizeof(target->identity),
        connect_timeout_ms + questions * target->options.timeout_ms + ASIDE_MARGIN_MS, err);
}

/* The version as /lmc_version gives it: a JSON string, "0.5.6". What no version has ends it. */
static void copy_version(struct kvc_buffer *body, char *version, size_t size)
{
    const char *text = kvc_buffer_text(body);
    if (text[0] == '"')
        snprintf(version, size, "%.*s",
                 (int)strspn(text + 1, "0123456789abcdefghijklmnopqrstuvwxyz.+-_"), text + 1);
}

struct http_question {
    const struct kvc_target *target;
    int64_t deadline_ms;
};

static kvc_status ask_http(const void *arg, void *result, struct kvc_error *err)
{
    enum { RETRY_MS = 100 };
    const struct http_question *question = arg;
    const struct kvc_target *target = question->target;
    struct kvc_identity *identity = result;
    while (true) {
        const int64_t left_ms = question->deadline_ms - kvc_now_ms();
        const int64_t limit_ms =
            left_ms < target->options.timeout_ms ? left_ms : target->options.timeout_ms;
        struct kvc_http_response response = {0};
        const kvc_status status = kvc_http_request("GET", target->http_url, "/lmc_version", NULL,
                                                   limit_ms, &response, err);
        if (status == KVC_OK && response.status == 200)
            copy_version(&response.body, identity->version, sizeof(identity->version));
        kvc_http_response_clear(&response);
        if ((status != KVC_ECONNECT && status != KVC_ETIMEOUT) ||
            kvc_now_ms() + RETRY_MS >= question->deadline_ms)
            return status;
        kvc_sleep_ms(RETRY_MS);
    }
}

static kvc_status explain_http(kvc_status status, struct kvc_error *err)
{
    if (status == KVC_OK || status == KVC_EINTERRUPTED)
        return status;
    struct kvc_error why = KVC_ERROR_INIT;
    if (err != NULL)
        why = *err;
    if (status == KVC_EFORMAT)
        status =
            kvc_fail(err, KVC_EREFUSED, "what answers there does not speak HTTP: %.400s", why.what);
    else
        status = kvc_fail(err, KVC_ECONNECT, "nothing answers there: %.400s", why.what);
    return kvc_error_set_where(err, "--url"), status;
}

kvc_status kvc_target_await_http(struct kvc_target *target, int64_t patience_ms,
                                 struct kvc_error *err)
{
    if (target->identity.version[0] != '\0')
        return KVC_OK; /* said over HTTP */
    const struct http_question question = {target, kvc_now_ms() + patience_ms};
    struct kvc_identity found = {0};
    const kvc_status status = kvc_aside_run(ask_http, &question, &found, sizeof(found),
                                            patience_ms + ASIDE_MARGIN_MS, err);
    if (status == KVC_OK)
        memcpy(target->identity.version, found.version, sizeof(found.version));
    return explain_http(status, err);
}

struct noop_question {
    const struct kvc_target *target;
    const struct kvc_dialect *dialect;
    int64_t timeout_ms;
};

static kvc_status ask_noop(const void *arg, void *result, struct kvc_error *err)
{
    const struct noop_question *question = arg;
    (void)result;
    return ask(question->target, question->dialect, question->timeout_ms, NULL, err);
}

bool kvc_target_answers(const struct kvc_target *target, const struct kvc_dialect *dialect,
                        int64_t timeout_ms)
{
    const struct noop_question question = {target, dialect, timeout_ms};
    char nothing = 0;
    const kvc_status status =
        kvc_aside_run(ask_noop, &question, &nothing, sizeof(nothing),
                      target->options.connect_timeout_ms + timeout_ms + ASIDE_MARGIN_MS, NULL);
    /* A wrong answer is the finding of the check that asks for it; here it is a sign of life. */
    return status == KVC_OK || status == KVC_EFORMAT;
}

/* ---- ending ---- */

static bool has_ended(pid_t pid)
{
    const pid_t got = waitpid(pid, NULL, WNOHANG);
    return got == pid || (got < 0 && errno == ECHILD);
}

/* Sends signals to `to`, which is pid or its process group. */
static void end_process(int pid, int to, int signal, int64_t grace_ms)
{
    enum { STEP_MS = 5 };
    const int64_t deadline_ms = kvc_now_ms() + grace_ms;
    kill(to, signal);
    while (!has_ended(pid)) {
        if (kvc_now_ms() >= deadline_ms) {
            kill(to, SIGKILL);
            waitpid(pid, NULL, 0);
            return;
        }
        kvc_sleep_ms(STEP_MS);
    }
}

void kvc_target_end_process(int pid, bool group, int64_t grace_ms)
{
    end_process(pid, group ? -pid : pid, SIGTERM, grace_ms);
}

void kvc_target_signal_process(int pid, int signal, int64_t grace_ms)
{
    end_process(pid, pid, signal, grace_ms);
}
