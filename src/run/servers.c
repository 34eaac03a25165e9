#include "src/run/servers.h"

#include <stdio.h>
#include <string.h>

#include "src/run/control.h"

static kvc_status start(struct kvc_server *server, struct kvc_error *err)
{
    return kvc_target_start(&server->target, server->has_setup ? &server->setup : NULL, err);
}

/* Nobody else's server: what is wrong is here. */
static void explain_mock(const struct kvc_target *target, struct kvc_error *err)
{
    if (err == NULL || err->status != KVC_ECONNECT || strcmp(target->ops->name, "mock") != 0)
        return;
    kvc_error_append(err, "; that is the bundled mock server, which listens: is there no loopback "
                          "interface?");
}

kvc_status kvc_server_bring_up(const struct kvc_run_options *options, struct kvc_server *server,
                               struct kvc_error *err)
{
    KVC_GUARD(start(server, err));
    const kvc_status status =
        kvc_facts_probe(&server->target, &options->facts, &server->facts, err);
    if (status == KVC_OK) {
        server->state = KVC_SERVER_UP;
        return KVC_OK;
    }
    explain_mock(&server->target, err);
    kvc_target_stop(&server->target);
    return status;
}

kvc_status kvc_server_start_again(struct kvc_server *server, struct kvc_error *err)
{
    kvc_target_stop(&server->target);
    KVC_GUARD(start(server, err));
    kvc_facts_readdress(&server->target, &server->facts);
    return KVC_OK;
}

/* Does what a check asks: ends its server, or starts it again. */
static void serve_control(struct kvc_server *server, const struct kvc_control_request *request,
                          struct kvc_control_reply *reply)
{
    struct kvc_error err = KVC_ERROR_INIT;
    *reply = (struct kvc_control_reply){0};
    if (!server->target.ops->can_restart) {
        snprintf(reply->problem, sizeof(reply->problem), "this server is not ours to start");
        return;
    }
    if (!request->start) {
        kvc_target_end(&server->target, request->ending);
        server->was_ended = true;
        reply->done = true;
        return;
    }
    server->target.l2_bytes = request->l2_bytes;
    if (kvc_server_start_again(server, &err) != KVC_OK) {
        snprintf(reply->problem, sizeof(reply->problem), "%s", err.what);
        return;
    }
    server->was_ended = request->l2_bytes != 0; /* it is not what others expect */
    reply->done = true;
    memcpy(reply->rpc_url, server->target.rpc_url, sizeof(reply->rpc_url));
    memcpy(reply->http_url, server->target.http_url, sizeof(reply->http_url));
}

void kvc_server_control(const struct kvc_entry *entry)
{
    struct kvc_control_request request;
    struct kvc_control_reply reply;
    while (kvc_control_take(entry->job.control_fd, &request)) {
        serve_control(entry->server, &request, &reply);
        kvc_control_answer(entry->job.control_fd, &reply);
    }
}
