#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "src/wire/message.h"
#include "tests/unit/wire/golden_keys.h"
#include "tests/unit/wire/samples.h"

/* Expected bytes: the golden ones of protocol.md, which the servers' own encoders wrote. */

static const int64_t two_tokens[] = {1, 2};

static const struct kvc_key sample_key = {
    .model_name = {"m", 1},
    .world_size = 1,
    .worker_id = {.present = false},
    .token_ids = {two_tokens, 2},
    .start = 0,
    .end = 1,
    .request_id = {"r", 1},
};

static void assert_request(const char *release, const struct kvc_request *request, const char *hex)
{
    struct kvc_error err = KVC_ERROR_INIT;
    struct kvc_frames frames = {0};
    const struct kvc_frames expected = sample_frames(hex);
    const kvc_status status = kvc_request_encode(sample_dialect(release), request, &frames, &err);
    cr_assert_eq(status, KVC_OK, "%s: %s", err.where, err.what);
    cr_assert_eq(frames.count, expected.count, "%zu frames", frames.count);
    for (size_t i = 0; i < frames.count; i++)
        sample_assert_equal(kvc_frames_view(&frames, i), kvc_frames_view(&expected, i), release);
    kvc_frames_clear(&frames);
}

Test(requests, keys)
{
    static const struct {
        const char *release;
        const char *hex;
    } cases[] = {
        {"0.5.1", OLDER_KEY}, {"0.5.4", OLDER_KEY}, {"0.5.5", NEWER_KEY}, {"0.5.6", NEWER_KEY}};
    for (size_t i = 0; i < KVC_COUNT_OF(cases); i++) {
        struct kvc_buffer out = {0};
        kvc_key_encode(sample_dialect(cases[i].release), &sample_key, &out);
        sample_assert_equal(kvc_buffer_view(&out), sample_bytes(cases[i].hex), cases[i].release);
        kvc_buffer_clear(&out);
    }
}

Test(requests, without_payload)
{
    const struct kvc_request noop = {.op = KVC_OP_NOOP};
    assert_request("0.5.1", &noop, "15");
    assert_request("0.5.6", &noop, "18");
    const struct kvc_request clear = {.op = KVC_OP_CLEAR, .force = true};
    assert_request("0.5.5", &clear, "14");
    assert_request("0.5.6", &clear, "14 | c3");
}

Test(requests, with_scalars)
{
    assert_request("0.5.1",
                   &(struct kvc_request){.op = KVC_OP_PING, .ping_instance = KVC_SOME_INT(1000)},
                   "13 | cd03e8");
    assert_request("0.5.6", &(struct kvc_request){.op = KVC_OP_PING}, "16 | c0");
    assert_request("0.5.6",
                   &(struct kvc_request){.op = KVC_OP_WAIT_PREFETCH_STATUS,
                                         .request_id = KVC_STR("r"),
                                         .timeout_seconds = 5},
                   "0a | a172 | cb4014000000000000");
    assert_request("0.5.6",
                   &(struct kvc_request){.op = KVC_OP_SUBSCRIBE_KV_EVENTS,
                                         .instance_id = 1,
                                         .model_name = KVC_STR("m"),
                                         .cursor = 0,
                                         .max_events = 16},
                   "b3 7375627363726962655f6b765f6576656e7473 | 01 | a16d | 00 | 10");
}

Test(requests, register_engine_driven)
{
    const struct kvc_request request = {.op = KVC_OP_REGISTER_ENGINE_DRIVEN,
                                        .engine_driven = {.instance_id = 1,
                                                          .model_name = KVC_STR("m"),
                                                          .world_size = 1,
                                                          .block_size = 16,
                                                          .num_layers = 2,
                                                          .hidden_dim_size = 8,
                                                          .dtype_str = KVC_STR("float16"),
                                                          .use_mla = false}};
#define EIGHT_FIELDS                                                                               \
    "ab696e7374616e63655f696401 aa6d6f64656c5f6e616d65a16d aa776f726c645f73697a6501"               \
    "aa626c6f636b5f73697a6510 aa6e756d5f6c617965727302 af68696464656e5f64696d5f73697a6508"         \
    "a964747970655f737472a7666c6f61743136 a77573655f6d6c61c2"
    assert_request("0.5.1", &request, "0b | 88" EIGHT_FIELDS);
    assert_request("0.5.6", &request,
                   "0e | 89" EIGHT_FIELDS "b2 6e756d5f706879736963616c5f736c6f7473 c0");
}

Test(requests, report_block_allocation)
{
    const int64_t one[] = {1};
    const int64_t two[] = {2};
    const struct kvc_block_allocation record = {KVC_STR("r"), {one, 1}, {two, 1}};
    const struct kvc_request request = {.op = KVC_OP_REPORT_BLOCK_ALLOCATION,
                                        .instance_id = 1,
                                        .model_name = KVC_STR("m"),
                                        .allocations = {&record, 1}};
    assert_request("0.5.1", &request,
                   "14 | 01 | a16d | 91 83 a67265715f6964a172 ad6e65775f626c6f636b5f6964739101"
                   "ad6e65775f746f6b656e5f6964739102");
}

Test(requests, layouts_of_p2p_are_by_group_from_0_5_3_on)
{
    const int64_t shape[] = {2, 1, 16, 8};
    const struct kvc_ints shapes[] = {{shape, 4}};
    const struct kvc_str dtypes[] = {KVC_STR("float16")};
    const struct kvc_object_key key = {.chunk_hash = {(const uint8_t *)"\xaa", 1},
                                       .model_name = KVC_STR("m"),
                                       .kv_rank = 0x01000100};
    const struct kvc_request request = {.op = KVC_OP_P2P_LOOKUP_AND_LOCK,
                                        .object_keys = {&key, 1},
                                        .object_layout = {{shapes, 1}, {dtypes, 1}}};
#define OBJECT_KEY                                                                                 \
    "91 85 aa6368756e6b5f68617368c401aa aa6d6f64656c5f6e616d65a16d a76b765f72616e6bce01000100"     \
    "af6f626a6563745f67726f75705f696400 aa63616368655f73616c74a0"
    assert_request("0.5.1", &request, "22 |" OBJECT_KEY "|" LAYOUT);
    assert_request("0.5.3", &request, "25 |" OBJECT_KEY "| 81 00" LAYOUT);
    assert_request("0.5.6", &request, "1d |" OBJECT_KEY "| 81 00" LAYOUT);
}

Test(requests, counts_of_payloads)
{
    const struct kvc_dialect *older = sample_dialect("0.5.1");
    const struct kvc_dialect *newer = sample_dialect("0.5.6");
    cr_assert_eq(kvc_request_payload_count(older, KVC_OP_REGISTER_KV_CACHE), 7);
    cr_assert_eq(kvc_request_payload_count(older, KVC_OP_RETRIEVE), 5);
    cr_assert_eq(kvc_request_payload_count(older, KVC_OP_CLEAR), 0);
    cr_assert_eq(kvc_request_payload_count(newer, KVC_OP_CLEAR), 1);
    cr_assert_eq(kvc_request_payload_count(older, KVC_OP_P2P_LOOKUP_AND_LOCK), 2);
    cr_assert_eq(kvc_request_payload_count(newer, KVC_OP_P2P_LOOKUP_AND_LOCK), 2);
    cr_assert_eq(kvc_request_payload_count(older, KVC_OP_GET_EXPERIMENTAL), -1);
    cr_assert_eq(kvc_request_payload_count(newer, KVC_OP_CB_UNIFIED_LOOKUP), -1);
    cr_assert_eq(kvc_request_payload_count(newer, KVC_OP_NONE), -1);
    cr_assert_eq(kvc_request_payload_count(newer, KVC_OP_COUNT), -1);
}

Test(requests, what_a_dialect_lacks_is_not_written)
{
    struct kvc_error err = KVC_ERROR_INIT;
    struct kvc_frames frames = {0};
    const struct kvc_request request = {.op = KVC_OP_QUERY_PREFETCH_LOOKUP_HITS};
    cr_assert_eq(kvc_request_encode(sample_dialect("0.5.6"), &request, &frames, &err),
                 KVC_EUNSUPPORTED);
    cr_assert_str_eq(err.what,
                     "query_prefetch_lookup_hits cannot be written or read in dialect 0.5.6");
    cr_assert_eq(frames.count, 0);
}

Test(requests, data_that_msgpack_cannot_count)
{
    struct kvc_error err = KVC_ERROR_INIT;
    struct kvc_frames frames = {0};
    const struct kvc_request request = {.op = KVC_OP_COMMIT_STORE,
                                        .data = {(const uint8_t *)"", (size_t)1 << 32}};
    cr_assert_eq(kvc_request_encode(sample_dialect("0.5.6"), &request, &frames, &err),
                 KVC_EUNSUPPORTED);
    cr_assert_str_eq(err.where, "payload 2 (data)");
    cr_assert_str_eq(err.what, "4294967296 bytes are more than msgpack can count");
    kvc_frames_clear(&frames);
    struct kvc_reply reply = {.op = KVC_OP_PREPARE_RETRIEVE, .retrieve.data = request.data};
    cr_assert_eq(kvc_reply_encode(sample_dialect("0.5.6"), &reply, &frames, &err),
                 KVC_EUNSUPPORTED);
    cr_assert_str_eq(err.where, "result");
    reply.op = KVC_OP_CB_UNIFIED_LOOKUP;
    cr_assert_eq(kvc_reply_encode(sample_dialect("0.5.6"), &reply, &frames, &err),
                 KVC_EUNSUPPORTED);
    cr_assert_eq(frames.count, 0);
}

Test(requests, configs_of_a_key_are_kept_as_they_are)
{
    struct kvc_key key = sample_key;
    struct kvc_buffer out = {0};
    key.request_configs = sample_bytes("81a16bc3");
    kvc_key_encode(sample_dialect("0.5.6"), &key, &out);
    sample_assert_equal(kvc_buffer_view(&out),
                        sample_bytes("8a" KEY_EIGHT_FIELDS
                                     "af726571756573745f636f6e66696773 81a16bc3"
                                     "ae6e756d5f6b765f7265616465727300"),
                        "key");
    kvc_buffer_clear(&out);
}
