/* The benches behind `kvconform bench`. For src/cli. */
#ifndef KVC_CLI_BENCH_H
#define KVC_CLI_BENCH_H

#include "src/cli/cli.h"

extern const struct kvc_command kvc_command_bench_server;
extern const struct kvc_command kvc_command_bench_engine;
extern const struct kvc_command kvc_command_bench_l2;
extern const struct kvc_command kvc_command_bench_call;
extern const struct kvc_command kvc_command_bench_transfer;

#endif
