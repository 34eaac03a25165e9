/* The chained hashes that name chunks. */
#include <stdlib.h>
#include <string.h>

#include "src/kv/digest.h"

static void write_big_endian(uint8_t *out, uint32_t value)
{
    for (size_t i = 0; i < 4; i++)
        out[i] = (uint8_t)(value >> (24 - 8 * i));
}

size_t kvc_chunk_hashes(const int64_t *tokens, size_t count, int64_t chunk_tokens, uint8_t *out)
{
    const size_t per_chunk = (size_t)chunk_tokens;
    const size_t chunks = count / per_chunk;
    const size_t size = KVC_BLAKE3_SIZE + 4 * per_chunk;
    /* The hash before the first chunk: of an int64 and a uint32, both zero. */
    static const uint8_t nothing[12];
    uint8_t *message = kvc_alloc(size);
    kvc_blake3(nothing, sizeof(nothing), message);
    for (size_t chunk = 0; chunk < chunks; chunk++) {
        for (size_t i = 0; i < per_chunk; i++)
            write_big_endian(message + KVC_BLAKE3_SIZE + 4 * i,
                             (uint32_t)tokens[chunk * per_chunk + i]);
        kvc_blake3(message, size, out);
        memcpy(message, out, KVC_BLAKE3_SIZE);
        out += KVC_BLAKE3_SIZE;
    }
    free(message);
    return chunks;
}
