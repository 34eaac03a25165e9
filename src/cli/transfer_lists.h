/* The comma-separated lists among the flags of `kvconform bench transfer`. For transfer_flags.c. */
#ifndef KVC_CLI_TRANSFER_LISTS_H
#define KVC_CLI_TRANSFER_LISTS_H

#include "src/cli/transfer_flags.h"

/* What the flags' lists hold. */
struct kvc_transfer_lists {
    enum kvc_layout layouts[KVC_TRANSFER_MAX_ITEMS];
    const struct kvc_dtype *dtypes[KVC_TRANSFER_MAX_ITEMS];
    struct {
        int64_t count, size;
    } heads[KVC_TRANSFER_MAX_ITEMS];
    int64_t bytes[KVC_TRANSFER_MAX_ITEMS];
    int64_t threads[KVC_TRANSFER_MAX_ITEMS];
    size_t layout_count, dtype_count, heads_count, bytes_count, thread_count;
    struct kvc_transfer_plan *plan; /* takes operations and minimums at once */
    size_t operation_count;
};

/* Reads all of them; operations and minimums into lists->plan. KVC_EUSAGE names the flag, the item and what is
 * accepted. */
kvc_status kvc_transfer_lists_read(const struct kvc_transfer_flags *flags,
                                   struct kvc_transfer_lists *lists, struct kvc_error *err);

#endif
