/* Asks for the settings of `bench engine` that were not given. For bench_engine.c. */
#ifndef KVC_CLI_BENCH_ENGINE_SETUP_H
#define KVC_CLI_BENCH_ENGINE_SETUP_H

#include "src/bench/engine_settings.h"

enum kvc_setup_action {
    KVC_SETUP_START,
    KVC_SETUP_EXPORT,
    KVC_SETUP_QUIT,
    KVC_SETUP_END,   /* the input ended before all was answered */
    KVC_SETUP_BREAK, /* Ctrl-C */
};

/* Walks through the questions; what is set already is not asked for. For KVC_SETUP_EXPORT, *path is the file's;
 * the caller frees it. */
enum kvc_setup_action kvc_bench_engine_setup(struct kvc_bench_engine_settings *settings,
                                             char **path);

#endif
