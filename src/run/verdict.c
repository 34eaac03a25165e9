#include "src/run/verdict.h"

#include <string.h>

enum { TEXT_COUNT = 4 };

static void list_texts(struct kvc_verdict *verdict, struct kvc_buffer *texts[TEXT_COUNT])
{
    texts[0] = &verdict->message;
    texts[1] = &verdict->expected;
    texts[2] = &verdict->got;
    texts[3] = &verdict->details;
}

void kvc_verdict_clear(struct kvc_verdict *verdict)
{
    struct kvc_buffer *texts[TEXT_COUNT];
    list_texts(verdict, texts);
    for (size_t i = 0; i < TEXT_COUNT; i++)
        kvc_buffer_clear(texts[i]);
    *verdict = (struct kvc_verdict){0};
}

/* Both ends are the same program on the same machine: sizes travel as they are in memory. */
static void encode_text(struct kvc_bytes text, struct kvc_buffer *out)
{
    static const char cut[] = "\n(cut)";
    const bool too_long = text.size > KVC_VERDICT_MAX_TEXT;
    const size_t kept = too_long ? KVC_VERDICT_MAX_TEXT - sizeof(cut) + 1 : text.size;
    const uint32_t size = (uint32_t)(too_long ? KVC_VERDICT_MAX_TEXT : text.size);
    kvc_buffer_append(out, &size, sizeof(size));
    kvc_buffer_append(out, text.data, kept);
    if (too_long)
        kvc_buffer_append_text(out, cut);
}

void kvc_verdict_encode(const struct kvc_verdict *verdict, struct kvc_buffer *out)
{
    kvc_buffer_append_byte(out, (uint8_t)verdict->outcome);
    encode_text(kvc_buffer_view(&verdict->message), out);
    encode_text(kvc_buffer_view(&verdict->expected), out);
    encode_text(kvc_buffer_view(&verdict->got), out);
    encode_text(kvc_buffer_view(&verdict->details), out);
}

kvc_status kvc_verdict_decode(struct kvc_bytes bytes, struct kvc_verdict *verdict,
                              struct kvc_error *err)
{
    *verdict = (struct kvc_verdict){0};
    struct kvc_buffer *texts[TEXT_COUNT];
    list_texts(verdict, texts);
    if (bytes.size < 1 || bytes.data[0] >= KVC_OUTCOME_COUNT)
        return kvc_fail(err, KVC_EFORMAT, "the check's process sent no verdict");
    verdict->outcome = (enum kvc_outcome)bytes.data[0];
    size_t at = 1;
    for (size_t i = 0; i < TEXT_COUNT; i++) {
        uint32_t size = 0;
        if (bytes.size - at >= sizeof(size))
            memcpy(&size, bytes.data + at, sizeof(size));
        if (bytes.size - at < sizeof(size) || bytes.size - at - sizeof(size) < size) {
            kvc_verdict_clear(verdict);
            return kvc_fail(err, KVC_EFORMAT, "the verdict of the check's process is cut short");
        }
        at += sizeof(size);
        kvc_buffer_append(texts[i], bytes.data + at, size);
        at += size;
    }
    return KVC_OK;
}
