/* Takes the place of the kernels in a build without nvcc. */
#include "src/device/cuda_internal.h"

const unsigned long long kvc_cuda_image[] = {0};
