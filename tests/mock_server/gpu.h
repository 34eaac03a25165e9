/* Workers' KV caches in memory of the GPU: mapped by CUDA IPC, copied after the worker's event. For the mock's
 * registrations and transfers. */
#ifndef KVC_TESTS_MOCK_SERVER_GPU_H
#define KVC_TESTS_MOCK_SERVER_GPU_H

#include "tests/mock_server/state.h"

/* False, with a defect, when one of the handles was mapped before. */
bool mock_gpu_may_map(struct mock *mock, const struct kvc_tensor_handles *handles);
/* What is copied from now on is copied after the events that torch sends with the memory it shares. */
kvc_status mock_gpu_await_owner(struct mock *mock, const struct kvc_tensor_handles *handles,
                                struct kvc_error *err);
/* Maps the tensor of a layer, whose shape is known. Everything that the handle says is checked. */
kvc_status mock_gpu_map(const struct kvc_tensor_handle *handle, struct mock_reading reading,
                        struct mock_layer *layer, struct kvc_error *err);
/* Undoes it; nothing for a layer that is not on the GPU. */
void mock_gpu_unmap(struct mock_layer *layer);

/* An instance is about to leave: defects. */
void mock_gpu_leave(struct mock *mock, struct mock_instance *instance);

/* Copies one group's part of one chunk to data, or back. */
bool mock_gpu_gather(struct mock *mock, const struct mock_kernel_group *group, const int64_t *ids,
                     uint8_t *data);
bool mock_gpu_scatter(struct mock *mock, const struct mock_kernel_group *group, const int64_t *ids,
                      int64_t skip_blocks, const uint8_t *data);

/* What is copied from now on is copied after the event that the call names; false, with the call refused,
 * when it names none. */
bool mock_gpu_await(struct mock_call *call);
/* The handle of an event that happens when everything is copied; it lives for some calls to come. */
struct kvc_bytes mock_gpu_event(struct mock_call *call);

void mock_gpu_close(struct mock *mock);

#endif
