#include <criterion/criterion.h>

#include "src/wire/frames.h"
#include "tests/unit/wire/recorded.h"
#include "tests/unit/wire/samples.h"

static void assert_described(const char *release, const char *hex, bool is_reply, const char *text)
{
    const struct kvc_frames frames = sample_frames(hex);
    struct kvc_buffer out = {0};
    kvc_frames_describe(&frames, sample_dialect(release), is_reply, &out);
    cr_assert_str_eq(kvc_buffer_text(&out), text, "got\n%s", kvc_buffer_text(&out));
    kvc_buffer_clear(&out);
}

static void assert_summary(const char *release, const char *hex, bool is_reply, size_t width,
                           const char *text)
{
    const struct kvc_frames frames = sample_frames(hex);
    struct kvc_buffer out = {0};
    kvc_frames_summarise(&frames, sample_dialect(release), is_reply, width, &out);
    cr_assert_str_eq(kvc_buffer_text(&out), text, "got\n%s", kvc_buffer_text(&out));
    kvc_buffer_clear(&out);
}

Test(describe_frames, payloads_have_names)
{
    assert_described("0.5.1", "07 | 07 | a172 | cb4014000000000000", false,
                     "uid                  7\n"
                     "operation            wait_prefetch_status\n"
                     "request_id           \"r\"\n"
                     "timeout_seconds      5\n");
}

Test(describe_frames, payloads_of_another_number_are_numbered)
{
    assert_described("0.5.1", "07 | 07 | a172", false,
                     "uid                  7\n"
                     "operation            wait_prefetch_status\n"
                     "payload 0            \"r\"\n");
}

Test(describe_frames, replies)
{
    assert_described("0.5.1", "07 | 05", true,
                     "uid                  7\n"
                     "operation            lookup\n"
                     "result               void\n");
    assert_described("0.5.1", "07 | 12 | cd0100 | c0", true,
                     "uid                  7\n"
                     "operation            get_chunk_size\n"
                     "result               256\n"
                     "payload 1            nil\n");
}

Test(describe_frames, what_is_no_message)
{
    assert_described("0.5.1", "", false, "uid                  (empty)\n");
    assert_described("0.5.1", "ffff | 18c0 | 92", false,
                     "uid                  ffff\n"
                     "operation            no operation of dialect 0.5.0: malformed(18c0)\n"
                     "payload 0            malformed(92)\n");
    assert_described("0.5.6", "00 | a3666f6f", true,
                     "uid                  0\n"
                     "operation            no operation of dialect 0.5.6: \"foo\"\n"
                     "result               void\n");
    const struct kvc_frames none = {0};
    struct kvc_buffer out = {0};
    kvc_frames_describe(&none, sample_dialect("0.5.6"), false, &out);
    cr_assert_str_eq(kvc_buffer_text(&out), "(no frames)\n");
    kvc_buffer_clear(&out);
}

Test(summarise, requests_and_replies)
{
    assert_summary("0.5.6", "05 | 09 | a172", false, 80, "#5 query_prefetch_status(\"r\")");
    assert_summary("0.5.6", "05 | 09 | 02", true, 80, "#5 query_prefetch_status → 2");
    assert_summary("0.5.6", "05 | 09", true, 80, "#5 query_prefetch_status → void");
    assert_summary("0.5.6", "05 | 08 | 80 | 01", false, 80, "#5 lookup(key{…}, 1)");
    assert_summary("0.5.6", "05 | 06 | 80 | 01 | 919201 02 | c40100", false, 80,
                   "#5 store(key{…}, 1, block_ids[1], 1 bytes)");
    assert_summary("0.5.6", "05 | 08 | 92 | 01", false, 80, "#5 lookup(malformed(92), 1)");
    assert_summary("0.5.6", "05", false, 80, "#5");
    assert_summary("0.5.6", "", false, 80, "#(empty)");
    const struct kvc_frames none = {0};
    struct kvc_buffer out = {0};
    kvc_frames_summarise(&none, sample_dialect("0.5.6"), false, 80, &out);
    cr_assert_str_eq(kvc_buffer_text(&out), "(no frames)");
    kvc_buffer_clear(&out);
}

Test(summarise, cut_to_the_width)
{
    assert_summary("0.5.6", "05 | 09", true, 31, "#5 query_prefetch_status → void");
    assert_summary("0.5.6", "05 | 09", true, 30, "#5 query_prefetch_status → vo…");
    assert_summary("0.5.6", "05 | 09", true, 26, "#5 query_prefetch_status …");
    assert_summary("0.5.6", "05 | 09", true, 3, "#5…");
}

static bool contains(const struct kvc_buffer *out, const char *text)
{
    const struct kvc_str wanted = kvc_str_of(text);
    for (size_t i = 0; i + wanted.size <= out->size; i++)
        if (kvc_str_equal((struct kvc_str){(const char *)out->data + i, wanted.size}, wanted))
            return true;
    return false;
}

Test(describe_frames, recorded_messages_say_what_is_in_them)
{
    static const struct {
        size_t file;
        const char *text;
    } cases[] = {
        {1, "handle(\"/lmcache_kv_21647_0_0\", 65536 bytes, float16 [2, 64, 16, 2, 8], "
            "stride [16384, 256, 16, 8, 1], offset 0)"},
        {1, "\"token_ids\": [5910, 9906, 9906, 9906, 9906, 9906, 9906, 9906, … 505 more]"},
        {3, "data                 bin(66266) of 2 tensors, float16 [2, 2, 256, 16]"},
        {5, "stride [16384, 256, 16, 8, 1], offset 0)"},
        {5, "\"request_configs\": nil, \"num_kv_readers\": 1}"},
    };
    for (size_t i = 0; i < KVC_COUNT_OF(cases); i++) {
        struct kvc_recording recording;
        struct kvc_buffer out = {0};
        recorded_load(cases[i].file, &recording);
        for (size_t m = 0; m < recording.count; m++)
            kvc_frames_describe(&recording.messages[m].frames, recorded_dialect(cases[i].file),
                                recording.messages[m].from_server, &out);
        cr_assert(contains(&out, cases[i].text), "%s is not in it", cases[i].text);
        kvc_buffer_clear(&out);
        kvc_recording_clear(&recording);
    }
}
