/* Against the stand-in driver: that each step is made, in order, and each failure is told. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/device/cuda_sample.h"

static const struct {
    const char *fault;
    const char *what;
} faults[] = {
    {"no-device", "CUDA: cuInit: no CUDA-capable device is detected (100)"},
    {"none", "no CUDA GPU in this machine"},
    {"crash", "the NVIDIA driver library crashed when started"},
};

Test(cuda, probe_says_what_is_missing)
{
    for (size_t i = 0; i < KVC_COUNT_OF(faults); i++) {
        struct kvc_error err = KVC_ERROR_INIT;
        setenv("KVCONFORM_STAND_IN", faults[i].fault, 1);
        cr_assert_eq(kvc_device_cuda.probe(NULL, &err), KVC_EUNSUPPORTED, "%s", faults[i].fault);
        cr_assert_str_eq(err.what, faults[i].what);
    }
}

Test(cuda, probe_says_what_stands_in)
{
    struct kvc_device_text about;
    cr_assert_eq(kvc_device_cuda.probe(&about, NULL), KVC_OK);
    cr_assert_str_eq(about.text, "stand-in driver, no GPU");
}

Test(cuda, copies_in_and_out)
{
    struct kvc_error err = KVC_ERROR_INIT;
    const char text[] = "sixteen tokens..";
    void *second;
    uint8_t *memory = sample_on_gpu(text, sizeof(text));
    cr_assert_eq(kvc_device_cuda.alloc(0, &second, &err), KVC_OK, "%s", err.what);
    cr_assert(sample_is_on_gpu(memory, text, sizeof(text)));
    kvc_device_cuda.free(memory);
    kvc_device_cuda.free(second);
    kvc_device_cuda.free(NULL);
}

Test(cuda, tells_what_the_driver_says)
{
    struct kvc_error err = KVC_ERROR_INIT;
    char back[4];
    void *memory;
    cr_assert_eq(kvc_cuda_open(&err), KVC_OK, "%s", err.what);
    cr_assert_eq(kvc_device_cuda.alloc((size_t)1 << 41, &memory, &err), KVC_ENOMEM);
    cr_assert_str_eq(err.what, "CUDA: cuMemAlloc: out of memory (2)");
    cr_assert_eq(kvc_device_cuda.copy_out(back, back, 4, &err), KVC_ESYSTEM);
    cr_assert_str_eq(err.what, "CUDA: cuMemcpyDtoH: invalid argument (1)");
    cr_assert_eq(kvc_device_cuda.copy_in(back, back, 4, &err), KVC_ESYSTEM);
    cr_assert_str_eq(err.what, "CUDA: cuMemcpyHtoD: invalid argument (1)");
    kvc_cuda_close();
}

/* A check runs in a forked child: probing must not spoil the GPU for it. */
Test(cuda, can_be_used_by_a_child_after_probing)
{
    cr_assert_eq(kvc_device_cuda.probe(NULL, NULL), KVC_OK);
    const pid_t child = fork();
    if (child == 0) {
        void *memory;
        _exit(kvc_device_cuda.alloc(16, &memory, NULL) == KVC_OK ? 0 : 1);
    }
    int status;
    waitpid(child, &status, 0);
    cr_assert_eq(status, 0);
}

Test(cuda, is_not_passed_on_to_a_child)
{
    cr_assert_eq(kvc_cuda_open(NULL), KVC_OK);
    const pid_t child = fork();
    if (child == 0)
        _exit(kvc_cuda_open(NULL) == KVC_EUNSUPPORTED ? 0 : 1);
    int status;
    waitpid(child, &status, 0);
    cr_assert_eq(status, 0);
    kvc_cuda_close();
}

Test(cuda, names_the_gpu_as_torch_does)
{
    struct kvc_device_text uuid;
    cr_assert_eq(kvc_cuda_open(NULL), KVC_OK);
    cr_assert_eq(kvc_cuda_uuid(&uuid, NULL), KVC_OK);
    cr_assert_str_eq(uuid.text, "7374616e-642d-696e-2064-657669636500"); /* "stand-in device" */
    kvc_cuda_close();
}

Test(cuda, leaves_nothing_on_the_gpu)
{
    int64_t before, between, after;
    void *memory, *pinned;
    struct kvc_cuda_queue *queue;
    sample_log_begin();
    cr_assert_eq(kvc_cuda_open(NULL), KVC_OK);
    cr_assert_eq(kvc_cuda_free_bytes(&before, NULL), KVC_OK);
    cr_assert_eq(kvc_device_cuda.alloc(1 << 24, &memory, NULL), KVC_OK);
    cr_assert_eq(kvc_cuda_free_bytes(&between, NULL), KVC_OK);
    cr_assert_leq(between, before - (1 << 24));
    cr_assert_eq(kvc_cuda_host_alloc(100, &pinned, NULL), KVC_OK);
    cr_assert_eq(kvc_cuda_queue_open(&queue, NULL), KVC_OK);
    kvc_cuda_queue_close(queue);
    kvc_cuda_host_free(pinned);
    kvc_device_cuda.free(memory);
    cr_assert_eq(kvc_cuda_free_bytes(&after, NULL), KVC_OK);
    cr_assert_geq(after, between + (1 << 24));
    kvc_cuda_close();
    cr_assert(sample_log_is_clean(1));
}

Test(cuda, stand_in_tells_what_was_not_freed)
{
    void *memory, *pinned;
    sample_log_begin();
    cr_assert_eq(kvc_cuda_open(NULL), KVC_OK);
    cr_assert_eq(kvc_device_cuda.alloc(16, &memory, NULL), KVC_OK);
    cr_assert_eq(kvc_cuda_host_alloc(16, &pinned, NULL), KVC_OK);
    kvc_device_cuda.free(memory);
    kvc_cuda_close();
    cr_assert_not(sample_log_is_clean(1));
    kvc_cuda_host_free(pinned);
}
