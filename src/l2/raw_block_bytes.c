#include "src/l2/raw_block_bytes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/l2/blake2b.h"

enum { ALIGN = 4096 };

static const char slot_mark[] = "LMCBLK01";

kvc_status kvc_raw_block_write(int device, const void *data, size_t size, int64_t offset,
                               struct kvc_error *err)
{
    for (size_t done = 0; done < size;) {
        const ssize_t written =
            pwrite(device, (const char *)data + done, size - done, offset + (int64_t)done);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return kvc_fail_errno(err, "cannot write at byte %lld", (long long)offset);
        done += (size_t)written;
    }
    return KVC_OK;
}

kvc_status kvc_raw_block_read(int device, void *data, size_t size, int64_t offset,
                              struct kvc_error *err)
{
    for (size_t done = 0; done < size;) {
        const ssize_t got = pread(device, (char *)data + done, size - done, offset + (int64_t)done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return kvc_fail_errno(err, "cannot read at byte %lld", (long long)offset);
        if (got == 0)
            return kvc_fail(err, KVC_EFORMAT, "the device ends before byte %lld",
                            (long long)offset + (long long)size);
        done += (size_t)got;
    }
    return KVC_OK;
}

void kvc_raw_block_put(uint8_t *at, uint64_t value, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        at[i] = (uint8_t)(value >> 8 * i);
}

uint64_t kvc_raw_block_get(const uint8_t *at, size_t bytes)
{
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; i++)
        value |= (uint64_t)at[i] << 8 * i;
    return value;
}

uint32_t kvc_raw_block_crc32(const uint8_t *data, size_t size)
{
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < size; i++) {
        crc ^= data[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (0xedb88320u & -(crc & 1));
    }
    return ~crc;
}

uint8_t *kvc_raw_block_alloc(size_t size)
{
    void *memory = NULL;
    if (posix_memalign(&memory, ALIGN, size) != 0)
        kvc_out_of_memory(size);
    memset(memory, 0, size);
    return memory;
}

void kvc_raw_block_write_header(const char *name, int64_t size, uint8_t *header)
{
    const struct kvc_bytes text = {(const uint8_t *)name, strlen(name)};
    memcpy(header, slot_mark, 8);
    kvc_raw_block_put(header + 8, kvc_l2_blake2b_8(text), 8);
    kvc_raw_block_put(header + 16, (uint64_t)size, 8);
}
