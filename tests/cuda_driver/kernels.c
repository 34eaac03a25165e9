/* The kernels, run by the host: the lines that nvcc compiles for GPUs. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/cuda_driver/stand_in.h"

#define KVC_KERNEL_MEMORY(address) stand_in_pointer(address)
#include "src/device/kernel.h"

struct grid {
    unsigned x, y, threads;
};

struct kvc_cu_function {
    const char *name;
    size_t parameter_size;
    void (*run)(const void *parameter, const struct grid *grid);
};

#define COPY(unit, name, direction)                                                                \
    static void name(const void *parameter, const struct grid *grid)                               \
    {                                                                                              \
        for (unsigned y = 0; y < grid->y; y++)                                                     \
            for (unsigned x = 0; x < grid->x; x++)                                                 \
                for (unsigned thread = 0; thread < grid->threads; thread++)                        \
                    kvc_kernel_copy_##unit(parameter, direction, x, y, thread);                    \
    }
#define BOTH(unit)                                                                                 \
    COPY(unit, gather_##unit, KVC_KERNEL_GATHER)                                                   \
    COPY(unit, scatter_##unit, KVC_KERNEL_SCATTER)

BOTH(1)
BOTH(2)
BOTH(4)
BOTH(8)
BOTH(16)

static void write_late(const void *parameter, const struct grid *grid)
{
    const struct kvc_kernel_late *late = parameter;
    const struct timespec wait = {
        .tv_sec = (time_t)(late->wait_ns / 1000000000),
        .tv_nsec = (long)(late->wait_ns % 1000000000),
    };
    nanosleep(&wait, NULL);
    for (unsigned thread = 0; thread < grid->threads; thread++)
        kvc_kernel_write_late(late, thread, grid->threads);
}

#define ROWS(unit)                                                                                 \
    {"kvc_gather_" #unit, sizeof(struct kvc_kernel_job), gather_##unit},                           \
    {                                                                                              \
        "kvc_scatter_" #unit, sizeof(struct kvc_kernel_job), scatter_##unit                        \
    }

static struct kvc_cu_function functions[] = {
    ROWS(1), ROWS(2),  ROWS(4),
    ROWS(8), ROWS(16), {"kvc_write_late", sizeof(struct kvc_kernel_late), write_late},
};

/* What kvconform gives to cuModuleLoadData instead of code for GPUs. */
const char kvc_stand_in_image[] = "stand-in";

int cuModuleLoadData(struct kvc_cu_module **module, const void *image)
{
    if (image != kvc_stand_in_image)
        return KVC_CU_INVALID_IMAGE;
    *module = (struct kvc_cu_module *)functions;
    stand_in_count(STAND_IN_MODULE, 1);
    return stand_in_ready();
}

int cuModuleUnload(struct kvc_cu_module *module)
{
    stand_in_count(STAND_IN_MODULE, -1);
    return module == (struct kvc_cu_module *)functions ? KVC_CU_SUCCESS : KVC_CU_INVALID_HANDLE;
}

int cuModuleGetFunction(struct kvc_cu_function **function, struct kvc_cu_module *module,
                        const char *name)
{
    if (module != (struct kvc_cu_module *)functions)
        return KVC_CU_INVALID_HANDLE;
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
        if (strcmp(functions[i].name, name) == 0) {
            *function = &functions[i];
            return KVC_CU_SUCCESS;
        }
    }
    return KVC_CU_NOT_FOUND;
}

/* ---- launches ---- */

struct launch {
    const struct kvc_cu_function *function;
    struct grid grid;
    uint64_t parameter[32];
};

static void run(void *arg)
{
    const struct launch *launch = arg;
    launch->function->run(launch->parameter, &launch->grid);
}

int cuLaunchKernel(struct kvc_cu_function *function, unsigned grid_x, unsigned grid_y,
                   unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z,
                   unsigned shared_bytes, struct kvc_cu_stream *stream, void **parameters,
                   void **extra)
{
    struct launch *launch = malloc(sizeof(*launch));
    const bool fits = grid_x > 0 && grid_y > 0 && grid_y <= 65535 && grid_z == 1 && block_x > 0 &&
                      block_x <= 1024 && block_y == 1 && block_z == 1 && shared_bytes == 0 &&
                      extra == NULL;
    if (launch == NULL || !fits || function->parameter_size > sizeof(launch->parameter)) {
        free(launch);
        return KVC_CU_INVALID_VALUE;
    }
    launch->function = function;
    launch->grid = (struct grid){grid_x, grid_y, block_x};
    memcpy(launch->parameter, parameters[0], function->parameter_size);
    stand_in_enqueue(stream, run, launch);
    return stand_in_ready();
}
