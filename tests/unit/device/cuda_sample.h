/* What the CUDA tests share. */
#ifndef KVC_TESTS_UNIT_DEVICE_CUDA_SAMPLE_H
#define KVC_TESTS_UNIT_DEVICE_CUDA_SAMPLE_H

#include "src/device/cuda.h"

/* Memory of the GPU that holds these bytes; freed by kvc_device_cuda.free. */
uint8_t *sample_on_gpu(const void *bytes, size_t size);
/* Whether the GPU's memory holds these bytes. */
bool sample_is_on_gpu(const uint8_t *memory, const void *bytes, size_t size);
/* Makes the stand-in write its account to a fresh file. */
void sample_log_begin(void);
/* Removes that file; whether it has `lines` lines, each of a process that had freed all. */
bool sample_log_is_clean(int lines);

#endif
