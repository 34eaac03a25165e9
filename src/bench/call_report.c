#include <jansson.h>
#include <stdlib.h>

#include "src/bench/call.h"

static const struct {
    const char *key;
    const char *title;
} lanes[KVC_CALL_LANE_COUNT] = {
    [KVC_CALL_CLIENT] = {"client", "this program's client, to the server"},
    [KVC_CALL_BARE] = {"libzmq", "bare libzmq, to the server"},
    [KVC_CALL_ECHO] = {"echo", "bare libzmq, to a ROUTER that sends it back"},
};

static void write_row(const char *title, const struct kvc_spread *spread, int digits,
                      struct kvc_buffer *out)
{
    kvc_buffer_printf(out, "  %-46s %7.*f (%.*f-%.*f)\n", title, digits, spread->median, digits,
                      spread->min, digits, spread->max);
}

void kvc_bench_call_write_terminal(const struct kvc_bench_call_options *options,
                                   const struct kvc_bench_call_result *result,
                                   struct kvc_buffer *out)
{
    kvc_buffer_printf(out,
                      "NOOP of dialect %s at %s: median of %lld rounds of %lld calls "
                      "(least-greatest round)\n",
                      options->dialect->name, options->rpc_url, (long long)options->rounds,
                      (long long)options->calls);
    kvc_buffer_append_text(out, "microseconds a call\n");
    for (size_t i = 0; i < KVC_CALL_LANE_COUNT; i++)
        write_row(lanes[i].title, &result->microseconds[i], 1, out);
    kvc_buffer_append_text(out, "ratios, round by round\n");
    write_row("the client's time over bare libzmq's", &result->client_cost, 3, out);
    write_row("the server's rate over the bare ROUTER's", &result->server_share, 3, out);
}

static json_t *spread_value(const struct kvc_spread *spread)
{
    return json_pack("{s:f, s:f, s:f}", "median", spread->median, "min", spread->min, "max",
                     spread->max);
}

void kvc_bench_call_write_json(const struct kvc_bench_call_options *options,
                               const struct kvc_bench_call_result *result, struct kvc_buffer *out)
{
    json_t *microseconds = json_object();
    for (size_t i = 0; i < KVC_CALL_LANE_COUNT; i++)
        json_object_set_new(microseconds, lanes[i].key, spread_value(&result->microseconds[i]));
    json_t *root = json_pack(
        "{s:i, s:s, s:s, s:s, s:s, s:I, s:I, s:o, s:o, s:o}", "schema", 1, "kind", "bench-call",
        "suite_version", KVC_VERSION, "rpc_url", options->rpc_url, "dialect",
        options->dialect->name, "rounds", (json_int_t)options->rounds, "calls",
        (json_int_t)options->calls, "microseconds", microseconds, "client_cost",
        spread_value(&result->client_cost), "server_share", spread_value(&result->server_share));
    char *text = json_dumps(root, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
    json_decref(root);
    kvc_buffer_printf(out, "%s\n", text == NULL ? "{}" : text);
    free(text);
}
