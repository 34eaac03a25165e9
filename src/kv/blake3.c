/* BLAKE3 as its authors' paper specifies it ("BLAKE3: one function, fast everywhere", section 2),
 * in hash mode with 32 bytes of output. */
#include <string.h>

#include "src/kv/digest.h"

enum { BLOCK_SIZE = 64, CHUNK_SIZE = 1024, ROUNDS = 7 };
enum { CHUNK_START = 1, CHUNK_END = 2, PARENT = 4, ROOT = 8 };

static const uint32_t initial[8] = {
    0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
};

/* Which message word takes which place in the next round. */
static const uint8_t permutation[16] = {2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8};

/* The state's columns, then its diagonals. */
static const uint8_t quarters[8][4] = {
    {0, 4, 8, 12},  {1, 5, 9, 13},  {2, 6, 10, 14}, {3, 7, 11, 15},
    {0, 5, 10, 15}, {1, 6, 11, 12}, {2, 7, 8, 13},  {3, 4, 9, 14},
};

static uint32_t rotate_right(uint32_t value, unsigned bits)
{
    return value >> bits | value << (32 - bits);
}

static void mix_quarter(uint32_t state[16], const uint8_t at[4], uint32_t x, uint32_t y)
{
    uint32_t a = state[at[0]], b = state[at[1]], c = state[at[2]], d = state[at[3]];
    a += b + x;
    d = rotate_right(d ^ a, 16);
    c += d;
    b = rotate_right(b ^ c, 12);
    a += b + y;
    d = rotate_right(d ^ a, 8);
    c += d;
    b = rotate_right(b ^ c, 7);
    state[at[0]] = a;
    state[at[1]] = b;
    state[at[2]] = c;
    state[at[3]] = d;
}

/* Replaces the chaining value by that of a block of at most 64 bytes. */
static void compress(uint32_t chaining[8], const uint32_t block[16], uint64_t counter, size_t size,
                     uint32_t flags)
{
    uint32_t state[16], message[16], permuted[16];
    memcpy(state, chaining, 8 * sizeof(uint32_t));
    memcpy(state + 8, initial, 4 * sizeof(uint32_t));
    state[12] = (uint32_t)counter;
    state[13] = (uint32_t)(counter >> 32);
    state[14] = (uint32_t)size;
    state[15] = flags;
    memcpy(message, block, sizeof(message));
    for (size_t round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < KVC_COUNT_OF(quarters); i++)
            mix_quarter(state, quarters[i], message[2 * i], message[2 * i + 1]);
        for (size_t i = 0; i < KVC_COUNT_OF(message); i++)
            permuted[i] = message[permutation[i]];
        memcpy(message, permuted, sizeof(message));
    }
    for (size_t i = 0; i < 8; i++)
        chaining[i] = state[i] ^ state[i + 8];
}

static void read_block(const uint8_t *data, size_t size, uint32_t block[16])
{
    memset(block, 0, BLOCK_SIZE);
    for (size_t i = 0; i < size; i++)
        block[i / 4] |= (uint32_t)data[i] << (8 * (i % 4));
}

static void hash_chunk(const uint8_t *data, size_t size, uint64_t counter, uint32_t root,
                       uint32_t chaining[8])
{
    uint32_t block[16];
    uint32_t start = CHUNK_START;
    memcpy(chaining, initial, sizeof(initial));
    while (size > BLOCK_SIZE) {
        read_block(data, BLOCK_SIZE, block);
        compress(chaining, block, counter, BLOCK_SIZE, start);
        start = 0;
        data += BLOCK_SIZE;
        size -= BLOCK_SIZE;
    }
    read_block(data, size, block);
    compress(chaining, block, counter, size, start | CHUNK_END | root);
}

/* The whole tree over the data, whose first chunk has this number. The left side is the largest
 * power of two of chunks that leaves something for the right. */
static void hash_tree(const uint8_t *data, size_t size, uint64_t counter, uint32_t root,
                      uint32_t chaining[8])
{
    if (size <= CHUNK_SIZE) {
        hash_chunk(data, size, counter, root, chaining);
        return;
    }
    size_t left = CHUNK_SIZE;
    while (left < size - left)
        left *= 2;
    uint32_t children[16];
    hash_tree(data, left, counter, 0, children);
    hash_tree(data + left, size - left, counter + left / CHUNK_SIZE, 0, children + 8);
    memcpy(chaining, initial, sizeof(initial));
    compress(chaining, children, 0, BLOCK_SIZE, PARENT | root);
}

void kvc_blake3(const void *data, size_t size, uint8_t digest[KVC_BLAKE3_SIZE])
{
    uint32_t chaining[8];
    hash_tree(data, size, 0, ROOT, chaining);
    for (size_t i = 0; i < KVC_BLAKE3_SIZE; i++)
        digest[i] = (uint8_t)(chaining[i / 4] >> (8 * (i % 4)));
}
