/* Against the stand-in driver: that each step is made, in order, and each failure is told. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/device/device.h"

static const struct {
    const char *fault;
    const char *what;
} faults[] = {
    {"no-device", "CUDA: cannot start the driver: no CUDA-capable device is detected (100)"},
    {"none", "no CUDA GPU in this machine"},
    {"crash", "the NVIDIA driver library crashed when started"},
};

Test(cuda, probe_says_what_is_missing)
{
    for (size_t i = 0; i < KVC_COUNT_OF(faults); i++) {
        struct kvc_error err = KVC_ERROR_INIT;
        setenv("KVC_STAND_IN", faults[i].fault, 1);
        cr_assert_eq(kvc_device_cuda.probe(&err), KVC_EUNSUPPORTED, "%s", faults[i].fault);
        cr_assert_str_eq(err.what, faults[i].what);
    }
}

Test(cuda, copies_in_and_out)
{
    struct kvc_error err = KVC_ERROR_INIT;
    const char text[] = "sixteen tokens..";
    char back[sizeof(text)] = {0};
    void *memory, *second;
    cr_assert_eq(kvc_device_cuda.probe(&err), KVC_OK, "%s", err.what);
    cr_assert_eq(kvc_device_cuda.alloc(sizeof(text), &memory, &err), KVC_OK, "%s", err.what);
    cr_assert_eq(kvc_device_cuda.alloc(0, &second, &err), KVC_OK, "%s", err.what);
    cr_assert_eq(kvc_device_cuda.copy_in(memory, text, sizeof(text), &err), KVC_OK);
    cr_assert_eq(kvc_device_cuda.copy_out(back, memory, sizeof(text), &err), KVC_OK);
    cr_assert_str_eq(back, text);
    kvc_device_cuda.free(memory);
    kvc_device_cuda.free(second);
    kvc_device_cuda.free(NULL);
}

Test(cuda, tells_what_the_driver_says)
{
    struct kvc_error err = KVC_ERROR_INIT;
    char back[4];
    void *memory;
    cr_assert_eq(kvc_device_cuda.alloc((size_t)1 << 41, &memory, &err), KVC_ENOMEM);
    cr_assert_str_eq(err.what, "CUDA: no memory for 2199023255552 bytes: out of memory (2)");
    cr_assert_eq(kvc_device_cuda.copy_out(back, back, 4, &err), KVC_ESYSTEM);
    cr_assert_str_eq(err.what, "CUDA: cannot copy from the GPU: unknown error (1)");
    cr_assert_eq(kvc_device_cuda.copy_in(back, back, 4, &err), KVC_ESYSTEM);
}

/* A check runs in a forked child: probing must not spoil the GPU for it. */
Test(cuda, can_be_used_by_a_child_after_probing)
{
    cr_assert_eq(kvc_device_cuda.probe(NULL), KVC_OK);
    const pid_t child = fork();
    if (child == 0) {
        void *memory;
        _exit(kvc_device_cuda.alloc(16, &memory, NULL) == KVC_OK ? 0 : 1);
    }
    int status;
    waitpid(child, &status, 0);
    cr_assert_eq(status, 0);
}
