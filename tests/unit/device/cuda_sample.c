#include "tests/unit/device/cuda_sample.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char log_path[] = "/tmp/kvconform-stand-in-XXXXXX";

uint8_t *sample_on_gpu(const void *bytes, size_t size)
{
    struct kvc_error err = KVC_ERROR_INIT;
    void *memory;
    cr_assert_eq(kvc_device_cuda.alloc(size, &memory, &err), KVC_OK, "%s", err.what);
    cr_assert_eq(kvc_device_cuda.copy_in(memory, bytes, size, &err), KVC_OK, "%s", err.what);
    return memory;
}

bool sample_is_on_gpu(const uint8_t *memory, const void *bytes, size_t size)
{
    uint8_t *back = kvc_alloc(size);
    const bool copied = kvc_device_cuda.copy_out(back, memory, size, NULL) == KVC_OK;
    const bool same = memcmp(back, bytes, size) == 0;
    free(back);
    return copied && same;
}

void sample_log_begin(void)
{
    const int log = mkstemp(log_path);
    cr_assert(log >= 0);
    close(log);
    setenv("KVCONFORM_STAND_IN_LOG", log_path, 1);
}

bool sample_log_is_clean(int lines)
{
    char line[512];
    FILE *log = fopen(log_path, "re");
    int clean = 0, all = 0;
    while (log != NULL && fgets(line, sizeof(line), log) != NULL) {
        all++;
        clean += strstr(line, "context released: all freed") != NULL;
    }
    if (log != NULL)
        fclose(log);
    unlink(log_path);
    return all == lines && clean == lines;
}
