/* Stands in for NVIDIA's driver library where there is no GPU. Device memory is memory that processes can share,
 * behind addresses that no host can use; streams are threads; kernels are the C version of the same lines.
 * KVCONFORM_CUDA_DRIVER names it to kvconform, whose reports then say "stand-in".
 *
 * KVCONFORM_STAND_IN in the environment names what is wrong with it: "crash", "no-device", "none".
 * KVCONFORM_STAND_IN_LOG names a file that gets a line for each process that let go of the GPU: what it had not
 * freed by then. For the files of this folder. */
#ifndef KVC_TESTS_CUDA_DRIVER_STAND_IN_H
#define KVC_TESTS_CUDA_DRIVER_STAND_IN_H

#include <pthread.h>
#include <stdbool.h>

#include "src/device/cuda_driver.h"

#define STAND_IN_DECLARE(member, name, symbol, parameters) int symbol parameters;
KVC_CUDA_CALLS(STAND_IN_DECLARE)
#undef STAND_IN_DECLARE

/* Set in every address of device memory. */
#define STAND_IN_BIT ((uint64_t)1 << 62)

static inline uint8_t *stand_in_pointer(uint64_t address)
{
    return (uint8_t *)(uintptr_t)(address & ~STAND_IN_BIT);
}

/* ---- what there is, and what was not freed ---- */

enum stand_in_kind {
    STAND_IN_ALLOCATION,
    STAND_IN_PINNED,
    STAND_IN_REGISTERED,
    STAND_IN_MAPPING,
    STAND_IN_STREAM,
    STAND_IN_EVENT,
    STAND_IN_MODULE,
    STAND_IN_KIND_COUNT,
};

/* Counts things that the program has: +1, -1. */
void stand_in_count(enum stand_in_kind kind, int change);
/* KVC_CU_SUCCESS, or why the calling thread cannot call: nothing started, no context. */
int stand_in_ready(void);

/* ---- sharing ---- */

/* What handles hold: a descriptor of the process that made the memory. */
struct stand_in_handle {
    uint64_t magic;
    int32_t process;
    int32_t descriptor;
    uint64_t inode;
    uint64_t size;
};

struct stand_in_shared {
    struct stand_in_handle handle;
    uint8_t *memory;
    int descriptor; /* of this process */
};

/* Memory that another process can map; false when there is none left. */
bool stand_in_share(const char *name, size_t size, struct stand_in_shared *shared);
/* Maps what another process has shared; a result. */
int stand_in_attach(const struct stand_in_handle *handle, struct stand_in_shared *shared);
/* Nobody can attach to it any more; who has goes on. */
void stand_in_withdraw(struct stand_in_shared *shared);
void stand_in_detach(struct stand_in_shared *shared);

/* Whether the bytes lie in device memory that this process has. */
bool stand_in_has(uint64_t address, size_t size);

/* ---- work of streams ---- */

/* Appends work to a stream, which calls func(arg) in turn and then free(arg). */
void stand_in_enqueue(struct kvc_cu_stream *stream, void (*func)(void *arg), void *arg);

#endif
