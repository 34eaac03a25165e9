#include <criterion/criterion.h>

#include "src/kv/digest.h"
#include "tests/unit/kv/samples.h"

static const struct {
    size_t size;
    const char *hash;
} blake3_vectors[] = {
#include "tests/unit/kv/golden_blake3.inc"
};

static void assert_hex(const uint8_t *bytes, size_t size, const char *expected)
{
    struct kvc_buffer hex = {0};
    kvc_hex_encode((struct kvc_bytes){bytes, size}, &hex);
    cr_assert_str_eq(kvc_buffer_text(&hex), expected);
    kvc_buffer_clear(&hex);
}

Test(blake3, equals_published_vectors)
{
    for (size_t i = 0; i < KVC_COUNT_OF(blake3_vectors); i++) {
        const size_t size = blake3_vectors[i].size;
        uint8_t *data = kvc_alloc(size), digest[KVC_BLAKE3_SIZE];
        for (size_t at = 0; at < size; at++)
            data[at] = (uint8_t)(at % 251);
        kvc_blake3(data, size, digest);
        assert_hex(digest, sizeof(digest), blake3_vectors[i].hash);
        free(data);
    }
}

/* protocol.md 7.2: what servers said of these tokens. */
static const struct {
    int64_t chunk_tokens;
    int64_t first, step, count;
    size_t chunks;
    const char *hashes;
} chains[] = {
    {256, 1000, 1, 512, 2,
     "d526d88f0c387e4049f866a4c572cbf658276fcae250b069051fd1fff3ad0579"
     "8be5f115945ff3c4eb943172f8edfdcdf3432274c3d3dbd2436fed9a9fe494f5"},
    {256, 0, 1, 512, 2,
     "084547b6c40ed5b05ba8cd0305db5bf74d5617673948d9ed193ab7d6cbc484d4"
     "e5ffee45c2b9db326814c9692dc594369887ba3b0df5761817820b60f864c8e0"},
    {16, 0, 0, 16, 1, "125168dc0532a2ab2f01072edafa7d0bd6f34d6e0e43433fef21f2c9fe756214"},
    {16, 1, 1, 16, 1, "4c5b938a8d6e2c965ae6ae33b3c82479be3d7e7486dfa2f2bc3ffdb30f7e84c0"},
    /* Only full chunks count. */
    {16, 1, 1, 31, 1, "4c5b938a8d6e2c965ae6ae33b3c82479be3d7e7486dfa2f2bc3ffdb30f7e84c0"},
    {16, 1, 1, 15, 0, ""},
};

Test(chunk_hash, equals_what_servers_say)
{
    for (size_t i = 0; i < KVC_COUNT_OF(chains); i++) {
        int64_t tokens[512];
        uint8_t hashes[2 * KVC_BLAKE3_SIZE];
        for (int64_t at = 0; at < chains[i].count; at++)
            tokens[at] = chains[i].first + at * chains[i].step;
        const size_t chunks =
            kvc_chunk_hashes(tokens, (size_t)chains[i].count, chains[i].chunk_tokens, hashes);
        cr_assert_eq(chunks, chains[i].chunks);
        assert_hex(hashes, chunks * KVC_BLAKE3_SIZE, chains[i].hashes);
    }
}

/* RFC 1321, A.5. */
Test(md5, equals_published_vectors)
{
    char hex[KVC_MD5_HEX_SIZE];
    kvc_md5_hex("", 0, hex);
    cr_assert_str_eq(hex, "d41d8cd98f00b204e9800998ecf8427e");
    kvc_md5_hex("message digest", 14, hex);
    cr_assert_str_eq(hex, "f96b697d7cb7938d525a2f31aaf161d0");
}

/* By torch and hashlib, for blocks 2 and 0. */
static const struct {
    enum kvc_layout layout;
    const char *dtype;
    uint64_t factor;
    const char *all;
    const char *layer_1;
} checksums[] = {
#include "tests/unit/kv/golden_checksums.inc"
};

Test(checksum, equals_torch_and_hashlib)
{
    const int64_t block_ids[] = {2, 0};
    for (size_t i = 0; i < KVC_COUNT_OF(checksums); i++) {
        struct kvc_geometry geometry = {.group_count = 1};
        struct kvc_group *group = &geometry.groups[0];
        *group = sample_group(checksums[i].layout, checksums[i].dtype);
        uint8_t *tensors[2] = {sample_tensor(group, 0, checksums[i].factor),
                               sample_tensor(group, 1, checksums[i].factor)};
        char hex[KVC_MD5_HEX_SIZE];
        kvc_block_checksum(&geometry, tensors, block_ids, 2, hex);
        cr_assert_str_eq(hex, checksums[i].all, "%s %s", kvc_layout_name(group->layout),
                         checksums[i].dtype);
        kvc_layer_checksum(group, tensors[1], block_ids, 2, hex);
        cr_assert_str_eq(hex, checksums[i].layer_1, "%s %s", kvc_layout_name(group->layout),
                         checksums[i].dtype);
        free(tensors[0]);
        free(tensors[1]);
    }
}

/* Longer than one buffer of the widening: many blocks in two groups equal one after another. */
Test(checksum, walks_groups_in_order)
{
    struct kvc_geometry geometry;
    kvc_geometry_parse("(2,8,16,4,64):bfloat16:1;(1,8,16,1,8):uint8:1", &geometry, NULL);
    uint8_t *tensors[2] = {sample_tensor(&geometry.groups[0], 0, 77),
                           sample_tensor(&geometry.groups[1], 0, 3)};
    const int64_t block_ids[] = {0, 1, 2, 3, 4, 5, 6, 7};
    const size_t narrow = (size_t)kvc_group_tensor_bytes(&geometry.groups[0]);
    const size_t rest = (size_t)kvc_group_tensor_bytes(&geometry.groups[1]);
    uint8_t *all = kvc_alloc_zero(2 * narrow + rest, 1);
    for (size_t i = 0; i < narrow; i++)
        all[i / 2 * 4 + 2 + i % 2] = tensors[0][i];
    memcpy(all + 2 * narrow, tensors[1], rest);
    char hex[KVC_MD5_HEX_SIZE], expected[KVC_MD5_HEX_SIZE];
    kvc_md5_hex(all, 2 * narrow + rest, expected);
    kvc_block_checksum(&geometry, tensors, block_ids, 8, hex);
    cr_assert_str_eq(hex, expected);
    free(all);
    free(tensors[0]);
    free(tensors[1]);
}
