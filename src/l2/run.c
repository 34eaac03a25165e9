#include "src/l2/l2.h"

kvc_status kvc_l2_run(const struct kvc_l2_adapter *adapter, void *lane,
                      enum kvc_l2_operation operation, struct kvc_l2_item *items, size_t count,
                      struct kvc_error *err)
{
    for (size_t i = 0; i < count; i++)
        items[i].outcome = KVC_L2_FAILED;
    kvc_status first = KVC_OK;
    for (size_t i = 0; i < count; i++) {
        const kvc_status status =
            adapter->operations[operation](lane, &items[i], first == KVC_OK ? err : NULL);
        if (first == KVC_OK)
            first = status;
    }
    return first;
}
