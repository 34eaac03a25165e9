/* The flags of `kvconform bench transfer`, and what they mean. For bench_transfer.c. */
#ifndef KVC_CLI_TRANSFER_FLAGS_H
#define KVC_CLI_TRANSFER_FLAGS_H

#include "src/bench/transfer.h"
#include "src/cli/options.h"

/* Lists are comma-separated. */
struct kvc_transfer_flags {
    const char *device, *layouts, *dtypes, *heads, *bytes, *threads, *operations, *min_ratios;
    const char *block_order, *clock;
    int64_t block_size, layers, chunk_tokens, repeat;
    uint64_t seed;
    const char *format, *output;
};

void kvc_transfer_flags_init(struct kvc_transfer_flags *flags);
extern const struct kvc_option kvc_transfer_flag_table[];
extern const size_t kvc_transfer_flag_count;

/* "gather=0.9" */
struct kvc_transfer_minimum {
    const char *operation;
    double ratio;
};

enum { KVC_TRANSFER_MAX_ITEMS = 16 }; /* of a list */

/* What the flags ask for. */
struct kvc_transfer_plan {
    struct kvc_transfer_options options;
    struct kvc_transfer_case *cases;
    const char *operations[KVC_TRANSFER_MAX_ITEMS + 1];
    struct kvc_transfer_minimum minimums[KVC_TRANSFER_MAX_ITEMS];
    size_t minimum_count;
};

/* Every layout with every dtype, shape of heads, size and number of threads. KVC_EUSAGE names the flag
 * and what it takes. plan->cases is for free(), also after an error; the plan does not move. */
kvc_status kvc_transfer_flags_resolve(const struct kvc_transfer_flags *flags,
                                      struct kvc_transfer_plan *plan, struct kvc_error *err);

#endif
