#include "src/bench/engine_workload.h"

#include <string.h>

#include "src/bench/engine_body.h"

enum { MOST = 10000000 };

const struct kvc_workload *kvc_workload_find(const char *name)
{
    static const struct kvc_workload *const workloads[] = {
        &kvc_workload_long_doc_qa,         &kvc_workload_multi_round_chat,
        &kvc_workload_long_doc_permutator, &kvc_workload_prefix_suffix_tuner,
        &kvc_workload_random_prefill,
    };
    for (size_t i = 0; i < KVC_COUNT_OF(workloads); i++)
        if (strcmp(workloads[i]->name, name) == 0)
            return workloads[i];
    return NULL;
}

kvc_status kvc_workload_count(double budget, double each, const char *what, int64_t *count,
                              struct kvc_error *err)
{
    const double fit = budget / each;
    if (!(fit < MOST))
        return kvc_fail(err, KVC_EUSAGE, "%.3g %s: at most %d can be made", fit, what, MOST);
    *count = fit < 1 ? 1 : (int64_t)fit;
    return KVC_OK;
}

void kvc_workload_add_message(struct kvc_workload_request *request, const char *role,
                              struct kvc_buffer *text)
{
    if (request->messages == NULL)
        request->messages = json_array();
    kvc_bench_engine_message_add(request->messages, role,
                                 (struct kvc_str){(const char *)text->data, text->size});
    kvc_buffer_clear(text);
}
