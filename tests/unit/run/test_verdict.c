#include <criterion/criterion.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/run/trace.h"
#include "src/run/verdict.h"
#include "src/wire/recording.h"

Test(verdict, there_and_back)
{
    struct kvc_verdict sent = {.outcome = KVC_OUTCOME_FAIL}, got;
    struct kvc_buffer bytes = {0};
    kvc_buffer_append_text(&sent.message, "a\nb \xff");
    kvc_buffer_append_text(&sent.got, "41");
    kvc_verdict_encode(&sent, &bytes);
    cr_assert_eq(kvc_verdict_decode(kvc_buffer_view(&bytes), &got, NULL), KVC_OK);
    cr_assert_eq(got.outcome, KVC_OUTCOME_FAIL);
    cr_assert_str_eq(kvc_buffer_text(&got.message), "a\nb \xff");
    cr_assert_str_eq(kvc_buffer_text(&got.expected), "");
    cr_assert_str_eq(kvc_buffer_text(&got.got), "41");
    /* However short it is cut, it is noticed. */
    for (size_t size = 0; size < bytes.size; size++) {
        struct kvc_verdict cut;
        cr_assert_eq(kvc_verdict_decode((struct kvc_bytes){bytes.data, size}, &cut, NULL),
                     KVC_EFORMAT);
    }
    kvc_verdict_clear(&sent);
    kvc_verdict_clear(&got);
    kvc_buffer_clear(&bytes);
}

Test(verdict, long_texts_are_cut)
{
    struct kvc_verdict sent = {.outcome = KVC_OUTCOME_FAIL}, got;
    struct kvc_buffer bytes = {0};
    while (sent.details.size < 2 * KVC_VERDICT_MAX_TEXT)
        kvc_buffer_append_text(&sent.details, "0123456789");
    kvc_verdict_encode(&sent, &bytes);
    cr_assert_leq(bytes.size, KVC_VERDICT_MAX_BYTES);
    cr_assert_eq(kvc_verdict_decode(kvc_buffer_view(&bytes), &got, NULL), KVC_OK);
    cr_assert_eq(got.details.size, KVC_VERDICT_MAX_TEXT);
    cr_assert_not_null(strstr(kvc_buffer_text(&got.details), "(cut)"));
    kvc_verdict_clear(&sent);
    kvc_verdict_clear(&got);
    kvc_buffer_clear(&bytes);
}

Test(verdict, an_outcome_that_is_none)
{
    struct kvc_verdict got;
    const uint8_t bytes[32] = {KVC_OUTCOME_COUNT};
    cr_assert_eq(kvc_verdict_decode((struct kvc_bytes){bytes, sizeof(bytes)}, &got, NULL),
                 KVC_EFORMAT);
}

/* ---- traces ---- */

static void add(struct kvc_trace *trace, bool received, const char *frame, size_t size)
{
    struct kvc_frames frames = {0};
    kvc_frames_append_copy(&frames, "\x05", 1);
    kvc_frames_append_copy(&frames, frame, size);
    kvc_trace_add(trace, 3, received, &frames, trace->start_ns + 2000000);
    kvc_frames_clear(&frames);
}

Test(trace, describes_and_writes)
{
    struct kvc_trace trace;
    struct kvc_buffer text = {0};
    const struct kvc_dialect *dialect = kvc_dialect_find(KVC_STR("0.5.6"));
    kvc_trace_open(&trace);
    kvc_trace_describe(&trace, dialect, &text);
    cr_assert_eq(text.size, 0);
    add(&trace, false, "\x18", 1); /* NOOP of 0.5.6 */
    add(&trace, true, "\x18", 1);
    kvc_trace_describe(&trace, dialect, &text);
    cr_assert_not_null(strstr(kvc_buffer_text(&text), "-> 2.0 ms, connection 3"));
    cr_assert_not_null(strstr(kvc_buffer_text(&text), "<- 2.0 ms, connection 3"));
    cr_assert_not_null(strstr(kvc_buffer_text(&text), "noop"));
    kvc_buffer_clear(&text);

    char path[] = "/tmp/kvconform-trace-XXXXXX";
    close(mkstemp(path));
    struct kvc_recording recording;
    cr_assert_eq(kvc_trace_write(&trace, path, NULL), KVC_OK);
    cr_assert_eq(kvc_recording_load(path, &recording, NULL), KVC_OK);
    unlink(path);
    cr_assert_eq(recording.count, 2);
    cr_assert_not(recording.messages[0].from_server);
    cr_assert(recording.messages[1].from_server);
    cr_assert_eq(recording.messages[1].client, 3);
    cr_assert_eq(recording.messages[0].frames.count, 2);
    cr_assert_eq(recording.messages[0].frames.items[1].data[0], 0x18);
    kvc_recording_clear(&recording);
    cr_assert_eq(kvc_trace_write(&trace, "/no/such/folder/t", NULL), KVC_ESYSTEM);
    kvc_trace_close(&trace);
}

Test(trace, keeps_the_last_messages)
{
    struct kvc_trace trace;
    struct kvc_buffer text = {0};
    kvc_trace_open(&trace);
    for (size_t i = 0; i < KVC_TRACE_MAX_MESSAGES + 10; i++)
        add(&trace, false, "\x18", 1);
    cr_assert_eq(trace.count, KVC_TRACE_MAX_MESSAGES);
    cr_assert_eq(trace.dropped, 10);
    kvc_trace_describe(&trace, kvc_dialect_find(KVC_STR("0.5.6")), &text);
    cr_assert_not_null(strstr(kvc_buffer_text(&text), "242 earlier messages left out"));
    kvc_buffer_clear(&text);
    kvc_trace_close(&trace);
}

Test(trace, keeps_no_more_bytes_than_it_may)
{
    enum { LARGE = KVC_TRACE_MAX_BYTES / 2 - 100 };
    struct kvc_trace trace;
    char *large = kvc_alloc_zero(1, LARGE);
    kvc_trace_open(&trace);
    for (int i = 0; i < 5; i++)
        add(&trace, false, large, LARGE);
    cr_assert_eq(trace.count, 2);
    cr_assert_leq(trace.bytes, KVC_TRACE_MAX_BYTES);
    kvc_trace_close(&trace);
    cr_assert_eq(trace.bytes, 0);
    free(large);
}
