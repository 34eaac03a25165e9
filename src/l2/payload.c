#include "src/l2/payload.h"

#include <string.h>

#include "src/base/clock.h"

enum { WORD = sizeof(uint64_t) };

/* ---- stamps: an index and a place, mixed by a function that can be turned round ---- */

static uint64_t mask_of(uint64_t seed)
{
    return kvc_mix(seed + 1);
}

static uint64_t stamp(uint64_t mask, uint64_t index, uint64_t place)
{
    return kvc_mix((index << 32 | place) ^ mask);
}

/* x ^ (x >> shift), undone. */
static uint64_t unfold(uint64_t value, int shift)
{
    uint64_t result = value;
    for (int known = shift; known < 64; known += shift)
        result = value ^ (result >> shift);
    return result;
}

/* The factors are the inverses, modulo 2^64, of those of kvc_mix. */
static uint64_t unmix(uint64_t value)
{
    value = unfold(value, 31) * 0x319642b2d24d8ec3u;
    value = unfold(value, 27) * 0x96de1b173f119089u;
    return unfold(value, 30);
}

static uint64_t read_word(const uint8_t *data)
{
    uint64_t word;
    memcpy(&word, data, WORD);
    return word;
}

static uint8_t fill_byte(const struct kvc_l2_payload *payload, uint32_t index)
{
    return (uint8_t)(payload->num_keys == 0 ? index : index % payload->num_keys);
}

void kvc_l2_payload_write(const struct kvc_l2_payload *payload, uint32_t index, uint8_t *data,
                          size_t size)
{
    if (payload->kind == KVC_L2_FILL) {
        memset(data, fill_byte(payload, index), size);
        return;
    }
    const uint64_t mask = mask_of(payload->seed);
    size_t at = 0;
    for (; at + WORD <= size; at += WORD) {
        const uint64_t word = stamp(mask, index, at / WORD);
        memcpy(data + at, &word, WORD);
    }
    const uint64_t word = stamp(mask, index, at / WORD);
    memcpy(data + at, &word, size - at);
}

/* ---- checking ---- */

static void expected_word(const struct kvc_l2_payload *payload, uint32_t index, size_t at,
                          uint8_t word[WORD])
{
    const uint64_t mask = mask_of(payload->seed);
    const uint64_t stamped = stamp(mask, index, at / WORD);
    memcpy(word, &stamped, WORD);
    if (payload->kind == KVC_L2_FILL)
        memset(word, fill_byte(payload, index), WORD);
}

static bool is_one_byte(const uint8_t *data, size_t size)
{
    return size > 0 && memcmp(data, data + 1, size - 1) == 0;
}

static kvc_status describe(const struct kvc_l2_payload *payload, uint32_t index,
                           const uint8_t *data, size_t at, size_t size, struct kvc_error *err)
{
    if (payload->kind == KVC_L2_FILL)
        kvc_error_set_expected(err, "0x%02x throughout", fill_byte(payload, index));
    else
        kvc_error_set_expected(err, "key %u, byte %zu", index, at);
    const size_t left = size - at < WORD ? size - at : WORD;
    if (is_one_byte(data + at, left))
        return kvc_error_set_got(err,
                                 data[at] == KVC_L2_POISON ? "0x%02x: nothing was written there"
                                                           : "0x%02x, and so on",
                                 data[at]);
    if (left < WORD)
        return kvc_error_set_got(err, "nothing that this bench writes");
    const uint64_t held = unmix(read_word(data + at)) ^ mask_of(payload->seed);
    const uint64_t place = held & UINT32_MAX;
    if (place <= size / WORD + (1u << 20))
        return kvc_error_set_got(err, "key %llu, byte %llu", (unsigned long long)(held >> 32),
                                 (unsigned long long)place * WORD);
    return kvc_error_set_got(err, "nothing that this bench writes with this seed");
}

kvc_status kvc_l2_payload_check(const struct kvc_l2_payload *payload, uint32_t index,
                                const uint8_t *data, size_t size, struct kvc_error *err)
{
    size_t wrong = 0, first = size;
    for (size_t at = 0; at < size; at += WORD) {
        const size_t length = size - at < WORD ? size - at : WORD;
        uint8_t word[WORD];
        expected_word(payload, index, at, word);
        if (memcmp(word, data + at, length) == 0)
            continue;
        wrong += length;
        first = first == size ? at : first;
    }
    if (wrong == 0)
        return KVC_OK;
    kvc_fail(err, KVC_EMISMATCH, "key %u: %zu of %zu bytes are wrong, the first near byte %zu",
             index, wrong, size, first);
    describe(payload, index, data, first, size, err);
    return KVC_EMISMATCH;
}
