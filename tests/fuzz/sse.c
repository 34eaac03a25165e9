/* An engine's stream, in parts of changing size: the same events must come of it as of the whole, and
 * whatever is in them is read without harm. */
#include <string.h>

#include "src/engine/event.h"
#include "src/engine/sse.h"
#include "tests/fuzz/fuzz.h"

struct taken {
    struct kvc_buffer events;
    struct kvc_engine_event event;
};

static kvc_status take(void *user, struct kvc_str data, struct kvc_error *err)
{
    struct taken *taken = user;
    kvc_buffer_printf(&taken->events, "%zu:", data.size);
    kvc_buffer_append(&taken->events, data.data, data.size);
    struct kvc_error problem = KVC_ERROR_INIT;
    if (kvc_engine_event_read(data, &taken->event, &problem) != KVC_OK) {
        FUZZ_REQUIRE(problem.what[0] != '\0');
        FUZZ_REQUIRE(strpbrk(problem.what, "\n\r\x1b\x7f") == NULL);
    } else {
        FUZZ_REQUIRE(taken->event.prompt_tokens >= -1 && taken->event.completion_tokens >= -1);
        FUZZ_REQUIRE(
            kvc_utf8_is_valid((const char *)taken->event.text.data, taken->event.text.size));
    }
    (void)err;
    return KVC_OK;
}

/* All bytes in parts of `part`; the events so far in *taken. */
static bool parse(struct kvc_bytes input, size_t part, struct taken *taken)
{
    struct kvc_sse sse = {.take = take, .user = taken};
    for (size_t at = 0; at < input.size; at += part) {
        const size_t size = input.size - at < part ? input.size - at : part;
        FUZZ_REQUIRE(kvc_sse_feed(&sse, (struct kvc_str){(const char *)input.data + at, size},
                                  NULL) == KVC_OK);
    }
    const bool cut = kvc_sse_is_cut(&sse);
    kvc_sse_clear(&sse);
    return cut;
}

void fuzz_one(struct kvc_bytes input)
{
    const size_t part = 1 + fuzz_take_byte(&input) % 32;
    struct taken whole = {0};
    struct taken parts = {0};
    const bool whole_cut = parse(input, input.size == 0 ? 1 : input.size, &whole);
    FUZZ_REQUIRE(parse(input, part, &parts) == whole_cut);
    FUZZ_REQUIRE(kvc_bytes_equal(kvc_buffer_view(&whole.events), kvc_buffer_view(&parts.events)));
    kvc_buffer_clear(&whole.events);
    kvc_buffer_clear(&parts.events);
    kvc_engine_event_clear(&whole.event);
    kvc_engine_event_clear(&parts.event);
}
