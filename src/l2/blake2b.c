/* RFC 7693. */
#include "src/l2/blake2b.h"

#include <string.h>

enum { BLOCK = 128, ROUNDS = 12, DIGEST = 8 };

static const uint64_t start[8] = {
    0x6a09e667f3bcc908, 0xbb67ae8584caa73b, 0x3c6ef372fe94f82b, 0xa54ff53a5f1d36f1,
    0x510e527fade682d1, 0x9b05688c2b3e6c1f, 0x1f83d9abfb41bd6b, 0x5be0cd19137e2179,
};

static const uint8_t sigma[10][16] = {
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
    {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
    {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4},
    {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
    {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13},
    {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
    {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11},
    {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
    {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5},
    {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0},
};

static uint64_t rotate(uint64_t value, int by)
{
    return value >> by | value << (64 - by);
}

static void mix(uint64_t v[16], const uint8_t at[4], uint64_t x, uint64_t y)
{
    uint64_t *a = &v[at[0]], *b = &v[at[1]], *c = &v[at[2]], *d = &v[at[3]];
    *a += *b + x;
    *d = rotate(*d ^ *a, 32);
    *c += *d;
    *b = rotate(*b ^ *c, 24);
    *a += *b + y;
    *d = rotate(*d ^ *a, 16);
    *c += *d;
    *b = rotate(*b ^ *c, 63);
}

static void compress(uint64_t state[8], const uint8_t block[BLOCK], uint64_t count, bool last)
{
    static const uint8_t quarters[8][4] = {
        {0, 4, 8, 12},  {1, 5, 9, 13},  {2, 6, 10, 14}, {3, 7, 11, 15},
        {0, 5, 10, 15}, {1, 6, 11, 12}, {2, 7, 8, 13},  {3, 4, 9, 14},
    };
    uint64_t words[16], v[16];
    for (size_t i = 0; i < 16; i++) {
        words[i] = 0;
        for (size_t byte = 0; byte < 8; byte++)
            words[i] |= (uint64_t)block[8 * i + byte] << 8 * byte;
    }
    memcpy(v, state, sizeof(start));
    memcpy(v + 8, start, sizeof(start));
    v[12] ^= count;
    if (last)
        v[14] = ~v[14];
    for (size_t round = 0; round < ROUNDS; round++)
        for (size_t i = 0; i < 8; i++)
            mix(v, quarters[i], words[sigma[round % 10][2 * i]],
                words[sigma[round % 10][2 * i + 1]]);
    for (size_t i = 0; i < 8; i++)
        state[i] ^= v[i] ^ v[i + 8];
}

uint64_t kvc_l2_blake2b_8(struct kvc_bytes text)
{
    uint64_t state[8];
    size_t done = 0;
    memcpy(state, start, sizeof(start));
    state[0] ^= 0x01010000 ^ DIGEST;
    for (; text.size - done > BLOCK; done += BLOCK)
        compress(state, text.data + done, done + BLOCK, false);
    uint8_t block[BLOCK] = {0};
    if (text.size > done)
        memcpy(block, text.data + done, text.size - done);
    compress(state, block, text.size, true);
    return state[0];
}
