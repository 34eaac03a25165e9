/* A server that somebody else started and owns: only asked, never stopped. */
#include <stdio.h>

#include "src/target/target_impl.h"

static kvc_status attach_start(struct kvc_target *target, const struct kvc_target_setup *setup,
                               struct kvc_error *err)
{
    (void)setup;
    const struct kvc_target_options *options = &target->options;
    snprintf(target->rpc_url, sizeof(target->rpc_url), "%s", options->rpc_url);
    snprintf(target->http_url, sizeof(target->http_url), "%s",
             options->http_url != NULL ? options->http_url : "");
    KVC_GUARD(kvc_target_check_urls(target, err));
    KVC_GUARD(kvc_target_identify(target, options->connect_timeout_ms, err));
    if (options->http_url == NULL || options->http_is_default)
        return KVC_OK;
    return kvc_target_await_http(target, options->timeout_ms, err);
}

static void attach_stop(struct kvc_target *target)
{
    (void)target;
}

const struct kvc_target_ops kvc_target_attach = {
    .name = "attach",
    .start = attach_start,
    .stop = attach_stop,
};
