/* The flags of `bench engine`: one for each setting of its table, and what is none of a run. For
 * bench_engine.c. */
#ifndef KVC_CLI_BENCH_ENGINE_FLAGS_H
#define KVC_CLI_BENCH_ENGINE_FLAGS_H

#include "src/bench/engine_settings.h"
#include "src/cli/flamegraph.h"

struct kvc_bench_engine_flags {
    const char *texts[KVC_BENCH_ENGINE_SETTING_COUNT]; /* as given; NULL: not given */
    bool switches[KVC_BENCH_ENGINE_SETTING_COUNT];
    const char *config;
    const char *export_config;
    bool no_interactive;
    const char *output_dir;
    bool no_csv;
    bool json;
    bool quiet;
    const char *format;
    const char *output;
    int64_t timeout_ms;
    struct kvc_flamegraph_flags flamegraph;
};

/* As kvc_options_parse. */
bool kvc_bench_engine_flags_parse(struct kvc_bench_engine_flags *flags, int argc, char **argv,
                                  int *exit_status);

/* Sets what the configuration file sets, and then what flags set. KVC_EUSAGE. */
kvc_status kvc_bench_engine_flags_apply(const struct kvc_bench_engine_flags *flags,
                                        struct kvc_bench_engine_settings *settings,
                                        struct kvc_error *err);

#endif
