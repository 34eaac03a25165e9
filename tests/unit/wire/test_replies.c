#include <criterion/criterion.h>

#include "src/wire/message.h"
#include "tests/unit/wire/samples.h"

/* Expected bytes: the golden ones of protocol.md, from real servers. */

/* Decodes frames as a reply; the reply is the test's. */
static kvc_status decode(const char *release, enum kvc_op op, const char *hex,
                         struct kvc_reply *reply, struct kvc_error *err)
{
    struct kvc_frames frames = sample_frames(hex);
    *err = (struct kvc_error)KVC_ERROR_INIT;
    const kvc_status status = kvc_reply_decode(sample_dialect(release), op, &frames, reply, err);
    cr_assert_eq(frames.count, 0, "the frames were not taken over");
    return status;
}

static void assert_encodes(enum kvc_op op, struct kvc_reply reply, const char *hex)
{
    struct kvc_error err = KVC_ERROR_INIT;
    struct kvc_frames frames = {0};
    reply.op = op;
    cr_assert_eq(kvc_reply_encode(sample_dialect("0.5.6"), &reply, &frames, &err), KVC_OK);
    if (hex == NULL) {
        cr_assert_eq(frames.count, 0);
    } else {
        cr_assert_eq(frames.count, 1);
        sample_assert_equal(kvc_frames_view(&frames, 0), sample_bytes(hex), kvc_op_name(op));
    }
    kvc_frames_clear(&frames);
}

static void assert_refused(enum kvc_op op, const char *hex, const char *where)
{
    struct kvc_error err;
    struct kvc_reply reply;
    cr_assert_eq(decode("0.5.6", op, hex, &reply, &err), KVC_EFORMAT, "%s is accepted", hex);
    cr_assert_str_eq(err.where, where, "%s:\n     got %s (%s)\nexpected %s", hex, err.where,
                     err.what, where);
    kvc_reply_clear(&reply);
}

Test(replies, scalars)
{
    struct kvc_error err;
    struct kvc_reply reply;
    cr_assert_eq(decode("0.5.6", KVC_OP_NOOP, "07 | 18 | a24f4b", &reply, &err), KVC_OK);
    cr_assert(kvc_str_is(reply.text, "OK"));
    kvc_reply_clear(&reply);
    cr_assert_eq(decode("0.5.6", KVC_OP_GET_CHUNK_SIZE, "07 | 15 | cd0100", &reply, &err), KVC_OK);
    cr_assert_eq(reply.count, 256);
    kvc_reply_clear(&reply);
    cr_assert_eq(decode("0.5.6", KVC_OP_COMMIT_STORE, "07 | 11 | c3", &reply, &err), KVC_OK);
    cr_assert(reply.ok);
    kvc_reply_clear(&reply);
    assert_encodes(KVC_OP_NOOP, (struct kvc_reply){.text = KVC_STR("OK")}, "a24f4b");
    assert_encodes(KVC_OP_GET_CHUNK_SIZE, (struct kvc_reply){.count = 256}, "cd0100");
    assert_encodes(KVC_OP_COMMIT_RETRIEVE, (struct kvc_reply){.ok = true}, "c3");
}

Test(replies, transfers)
{
    struct kvc_error err;
    struct kvc_reply reply;
    const char hit[] = "92c40f737475625f6970635f68616e646c65c3";
    cr_assert_eq(decode("0.5.1", KVC_OP_STORE, "07 | 03 | 92c40f737475625f6970635f68616e646c65c3",
                        &reply, &err),
                 KVC_OK);
    cr_assert(reply.transfer.success);
    cr_assert_eq(reply.transfer.event_handle.size, 15);
    kvc_reply_clear(&reply);
    assert_encodes(
        KVC_OP_RETRIEVE,
        (struct kvc_reply){.transfer = {{(const uint8_t *)"stub_ipc_handle", 15}, .success = true}},
        hit);
    assert_encodes(KVC_OP_STORE, (struct kvc_reply){.count = 0}, "92c400c2");
}

Test(replies, pool)
{
    struct kvc_error err;
    struct kvc_reply reply;
    const char hex[] = "82 a873686d5f6e616d65 b56c6d63616368655f6c315f706f6f6c5f3133353434"
                       "a9706f6f6c5f73697a65 ce80000000";
    assert_encodes(KVC_OP_REGISTER_ENGINE_DRIVEN,
                   (struct kvc_reply){.pool = {KVC_STR("lmcache_l1_pool_13544"), 0x80000000}}, hex);
    assert_encodes(KVC_OP_REGISTER_ENGINE_DRIVEN, (struct kvc_reply){.count = 0},
                   "82 a873686d5f6e616d65a0 a9706f6f6c5f73697a6500");
    cr_assert_eq(decode("0.5.6", KVC_OP_REGISTER_ENGINE_DRIVEN,
                        "07 | 0e | 82 a873686d5f6e616d65a0 a9706f6f6c5f73697a6500", &reply, &err),
                 KVC_OK);
    cr_assert_eq(reply.pool.shm_name.size, 0);
    kvc_reply_clear(&reply);
}

#define ONE_SLOT                                                                                   \
    "84 a66f6666736574ce00040000 a66c656e677468cd4000 a57368617065 94 02 02 cd0100 08"             \
    "a56474797065 a7666c6f61743136"

Test(replies, prepare_store)
{
    const int64_t shape[] = {2, 2, 256, 8};
    const int64_t indices[] = {0};
    const struct kvc_slot slot = {0x40000, 0x4000, {shape, 4}, KVC_STR("float16")};
    assert_encodes(KVC_OP_PREPARE_STORE,
                   (struct kvc_reply){.context = {.has_slots = true,
                                                  .slots = {&slot, 1},
                                                  .has_chunk_indices = true,
                                                  .chunk_indices = {indices, 1}}},
                   "81 a7636f6e74657874 82 a5736c6f7473 91" ONE_SLOT
                   "ad6368756e6b5f696e6469636573 91 00");
    assert_encodes(KVC_OP_PREPARE_STORE,
                   (struct kvc_reply){.context = {.has_slots = true, .has_chunk_indices = true}},
                   "81a7636f6e7465787482a5736c6f747390ad6368756e6b5f696e646963657390");
    assert_encodes(KVC_OP_PREPARE_STORE, (struct kvc_reply){.count = 0}, "81a7636f6e7465787480");

    struct kvc_error err;
    struct kvc_reply reply;
    cr_assert_eq(decode("0.5.1", KVC_OP_PREPARE_STORE,
                        "07 | 0d | 81 a7636f6e74657874 82 a5736c6f7473 91" ONE_SLOT
                        "ad6368756e6b5f696e6469636573 91 00",
                        &reply, &err),
                 KVC_OK, "%s", err.where);
    cr_assert(reply.context.has_slots && reply.context.has_chunk_indices);
    cr_assert_eq(reply.context.slots.count, 1);
    cr_assert_eq(reply.context.slots.items[0].offset, 0x40000);
    cr_assert_eq(reply.context.slots.items[0].length, 0x4000);
    cr_assert_eq(reply.context.slots.items[0].shape.items[2], 256);
    cr_assert(kvc_str_is(reply.context.slots.items[0].dtype, "float16"));
    cr_assert_eq(reply.context.chunk_indices.items[0], 0);
    kvc_reply_clear(&reply);
}

Test(replies, prepare_retrieve)
{
    const char miss[] = "83a773756363657373c2a464617461c400a7636f6e7465787480";
    assert_encodes(KVC_OP_PREPARE_RETRIEVE, (struct kvc_reply){.count = 0}, miss);
    struct kvc_error err;
    struct kvc_reply reply;
    cr_assert_eq(decode("0.5.1", KVC_OP_PREPARE_RETRIEVE,
                        "07 | 0f | 83 a773756363657373c3 a464617461c400"
                        "a7636f6e7465787481a5736c6f747391" ONE_SLOT,
                        &reply, &err),
                 KVC_OK, "%s", err.where);
    cr_assert(reply.retrieve.success);
    cr_assert(reply.retrieve.context.has_slots);
    cr_assert_not(reply.retrieve.context.has_chunk_indices);
    kvc_reply_clear(&reply);
}

Test(replies, data_are_not_copied)
{
    struct kvc_error err;
    struct kvc_reply reply;
    cr_assert_eq(decode("0.5.6", KVC_OP_PREPARE_RETRIEVE,
                        "07 | 12 | 83 a773756363657373c3 a464617461c402abcd a7636f6e7465787480",
                        &reply, &err),
                 KVC_OK);
    cr_assert_eq(reply.retrieve.data.data, kvc_frames_view(&reply.frames, 2).data + 17);
    kvc_reply_clear(&reply);
}

Test(replies, names_and_addresses)
{
    struct kvc_error err;
    struct kvc_reply reply;
    const struct kvc_str names[] = {KVC_STR("kv_event_stream")};
    assert_encodes(KVC_OP_GET_EXPERIMENTAL, (struct kvc_reply){.names = {names, 1}},
                   "91af6b765f6576656e745f73747265616d");
    cr_assert_eq(decode("0.5.6", KVC_OP_GET_EXPERIMENTAL,
                        "07 | 1820 | 91af6b765f6576656e745f73747265616d", &reply, &err),
                 KVC_OK);
    cr_assert(kvc_str_is(reply.names.items[0], "kv_event_stream"));
    kvc_reply_clear(&reply);
    cr_assert_eq(decode("0.5.6", KVC_OP_P2P_QUERY_LOOKUP_RESULTS,
                        "07 | 1e | 92 82 a66f666673657400 a473697a65cd4000"
                        "82 a66f6666736574ff a473697a6500",
                        &reply, &err),
                 KVC_OK);
    cr_assert_eq(reply.addresses.count, 2);
    cr_assert_eq(reply.addresses.items[0].size, 0x4000);
    cr_assert_eq(reply.addresses.items[1].offset, -1);
    kvc_reply_clear(&reply);
}

Test(replies, the_frame_count_says_void)
{
    struct kvc_error err;
    struct kvc_reply reply;
    cr_assert_eq(decode("0.5.6", KVC_OP_LOOKUP, "07 | 08", &reply, &err), KVC_OK);
    cr_assert(reply.is_void);
    kvc_reply_clear(&reply);
    cr_assert_eq(decode("0.5.6", KVC_OP_QUERY_PREFETCH_STATUS, "07 | 09", &reply, &err), KVC_OK);
    cr_assert(reply.is_void);
    kvc_reply_clear(&reply);
    cr_assert_eq(decode("0.5.6", KVC_OP_QUERY_PREFETCH_STATUS, "07 | 09 | 00", &reply, &err),
                 KVC_OK);
    cr_assert_not(reply.is_void);
    kvc_reply_clear(&reply);
    assert_encodes(KVC_OP_LOOKUP, (struct kvc_reply){.count = 5}, NULL);
    assert_encodes(KVC_OP_QUERY_PREFETCH_STATUS, (struct kvc_reply){.is_void = true}, NULL);
    assert_encodes(KVC_OP_QUERY_PREFETCH_STATUS, (struct kvc_reply){.count = 2}, "02");
    cr_assert(kvc_reply_always_void(KVC_OP_END_SESSION));
    cr_assert_not(kvc_reply_always_void(KVC_OP_QUERY_PREFETCH_STATUS));
    cr_assert_not(kvc_reply_always_void(KVC_OP_NOOP));
}

Test(replies, strict)
{
    assert_refused(KVC_OP_LOOKUP, "07 | 08 | c0", "");
    assert_refused(KVC_OP_NOOP, "07 | 18", "");
    assert_refused(KVC_OP_NOOP, "07 | 18 | a24f4b | a24f4b", "");
    assert_refused(KVC_OP_NOOP, "07", "");
    assert_refused(KVC_OP_NOOP, "07 | 18 | c4024f4b", "result");
    assert_refused(KVC_OP_GET_CHUNK_SIZE, "07 | 15 | cb4070000000000000", "result");
    assert_refused(KVC_OP_GET_CHUNK_SIZE, "07 | 15 | a3323536", "result");
    assert_refused(KVC_OP_GET_CHUNK_SIZE, "07 | 15 | cfffffffffffffffff", "result");
    assert_refused(KVC_OP_COMMIT_STORE, "07 | 11 | 01", "result");
    assert_refused(KVC_OP_COMMIT_STORE, "07 | 11 | c3c3", "result at byte 1");
    assert_refused(KVC_OP_STORE, "07 | 06 | 91c400", "result");
    assert_refused(KVC_OP_STORE, "07 | 06 | 93c400c3c3", "result");
    assert_refused(KVC_OP_STORE, "07 | 06 | 92c40001", "result.success");
    assert_refused(KVC_OP_STORE, "07 | 06 | 82a0c4a0c3", "result at byte 2");
    assert_refused(KVC_OP_REGISTER_ENGINE_DRIVEN, "07 | 0e | 81a873686d5f6e616d65a0",
                   "result.pool_size");
    assert_refused(KVC_OP_PREPARE_STORE, "07 | 10 | 80", "result.context");
    assert_refused(KVC_OP_PREPARE_STORE, "07 | 10 | 81 a7636f6e74657874 81 a5736c6f7473 91 80",
                   "result.context.slots[0].offset");
    assert_refused(KVC_OP_PREPARE_STORE, "07 | 10 | 81 a7636f6e74657874 81 a5736c6f7473 dd00ffffff",
                   "result at byte 16");
}

Test(replies, streams_and_blend_have_no_codec)
{
    struct kvc_error err;
    struct kvc_reply reply;
    cr_assert_eq(decode("0.5.6", KVC_OP_SUBSCRIBE_KV_EVENTS, "07 | 01 | 80", &reply, &err),
                 KVC_EUNSUPPORTED);
    kvc_reply_clear(&reply);
    cr_assert_eq(decode("0.5.6", KVC_OP_CB_UNIFIED_LOOKUP, "07 | 1c", &reply, &err),
                 KVC_EUNSUPPORTED);
    kvc_reply_clear(&reply);
}
