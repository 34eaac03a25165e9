/* MD5 over blocks, as the server's HTTP route computes it. */
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>

#include "src/kv/digest.h"
#include "src/kv/region.h"

static void require(int ok)
{
    if (ok == 1)
        return;
    fprintf(stderr, "kvconform: OpenSSL cannot compute MD5 on this machine\n");
    exit(3);
}

static EVP_MD_CTX *md5_open(void)
{
    EVP_MD_CTX *md5 = EVP_MD_CTX_new();
    require(md5 != NULL && EVP_DigestInit_ex(md5, EVP_md5(), NULL) == 1);
    return md5;
}

static void md5_close(EVP_MD_CTX *md5, char hex[KVC_MD5_HEX_SIZE])
{
    uint8_t digest[EVP_MAX_MD_SIZE];
    unsigned size;
    require(EVP_DigestFinal_ex(md5, digest, &size));
    EVP_MD_CTX_free(md5);
    for (unsigned i = 0; i < size; i++)
        snprintf(hex + 2 * i, 3, "%02x", digest[i]);
}

/* The server has no numpy type for bfloat16 and converts it: the float32 with the same upper half. */
static void update_widened(EVP_MD_CTX *md5, const uint8_t *data, size_t size)
{
    uint8_t wide[4096];
    while (size > 0) {
        const size_t part = size < sizeof(wide) / 2 ? size : sizeof(wide) / 2;
        for (size_t i = 0; i < part; i += 2) {
            wide[2 * i] = wide[2 * i + 1] = 0;
            wide[2 * i + 2] = data[i];
            wide[2 * i + 3] = data[i + 1];
        }
        require(EVP_DigestUpdate(md5, wide, 2 * part));
        data += part;
        size -= part;
    }
}

static void update_block(EVP_MD_CTX *md5, const struct kvc_group *group, const uint8_t *tensor,
                         int64_t kv, int64_t block)
{
    /* A region is made for writing, too; here it is only read. */
    const struct kvc_region region = kvc_region_of(group, (uint8_t *)tensor, kv, block);
    if (kvc_str_is(KVC_STR("bfloat16"), group->dtype->name))
        update_widened(md5, region.data, (size_t)region.size);
    else
        require(EVP_DigestUpdate(md5, region.data, (size_t)region.size));
}

/* In the order of the tensor's axes: where K and V come first, all K blocks and then all V. */
static void update_layer(EVP_MD_CTX *md5, const struct kvc_group *group, const uint8_t *tensor,
                         const int64_t *block_ids, size_t block_count)
{
    const bool block_first = group->layout != KVC_LAYOUT_NHD && group->layout != KVC_LAYOUT_HND;
    const int64_t count = (int64_t)block_count;
    for (int64_t i = 0; i < count * group->kv_size; i++) {
        const int64_t kv = block_first ? i % group->kv_size : i / count;
        const int64_t block = block_ids[block_first ? i / group->kv_size : i % count];
        update_block(md5, group, tensor, kv, block);
    }
}

void kvc_layer_checksum(const struct kvc_group *group, const uint8_t *tensor,
                        const int64_t *block_ids, size_t block_count, char hex[KVC_MD5_HEX_SIZE])
{
    EVP_MD_CTX *md5 = md5_open();
    update_layer(md5, group, tensor, block_ids, block_count);
    md5_close(md5, hex);
}

void kvc_block_checksum(const struct kvc_geometry *geometry, uint8_t *const *tensors,
                        const int64_t *block_ids, size_t block_count, char hex[KVC_MD5_HEX_SIZE])
{
    EVP_MD_CTX *md5 = md5_open();
    for (size_t g = 0; g < geometry->group_count; g++) {
        for (int64_t layer = 0; layer < geometry->groups[g].num_layers; layer++)
            update_layer(md5, &geometry->groups[g], *tensors++, block_ids, block_count);
    }
    md5_close(md5, hex);
}

void kvc_md5_hex(const void *data, size_t size, char hex[KVC_MD5_HEX_SIZE])
{
    EVP_MD_CTX *md5 = md5_open();
    require(EVP_DigestUpdate(md5, data, size));
    md5_close(md5, hex);
}
