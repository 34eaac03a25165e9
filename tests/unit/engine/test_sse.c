/* Expected events: worked out by hand from the rules of WHATWG HTML, section 9.2.6. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "src/engine/sse.h"

/* All events, each ended by a bar. */
static kvc_status keep(void *user, struct kvc_str data, struct kvc_error *err)
{
    struct kvc_buffer *events = user;
    if (kvc_str_is(data, "refuse me"))
        return kvc_fail(err, KVC_EREFUSED, "refused");
    kvc_buffer_append(events, data.data, data.size);
    kvc_buffer_append_byte(events, '|');
    return KVC_OK;
}

static char *parse(const char *text, size_t size, size_t first, size_t step, bool *cut)
{
    struct kvc_buffer events = {0};
    struct kvc_sse sse = {.take = keep, .user = &events};
    size_t at = 0;
    for (size_t part = first; at < size; at += part, part = step) {
        /* A copy of exactly the part: the sanitizer sees who reads behind it. */
        part = part > size - at ? size - at : part;
        char *copy = malloc(part == 0 ? 1 : part);
        memcpy(copy, text + at, part);
        cr_assert_eq(kvc_sse_feed(&sse, (struct kvc_str){copy, part}, NULL), KVC_OK);
        free(copy);
    }
    *cut = kvc_sse_is_cut(&sse);
    kvc_sse_clear(&sse);
    return kvc_buffer_take_text(&events);
}

static const struct {
    const char *text, *events;
    bool cut;
} streams[] = {
    {"data: a\n\ndata: b\n\n", "a|b|", false},
    {"data: a\r\n\r\ndata: b\r\n\r\n", "a|b|", false},
    {"data: a\r\rdata: b\r\r", "a|b|", false},
    {"data: a\r\n\ndata: b\n\r\n", "a|b|", false},
    {"data:a\n\n", "a|", false},
    {"data:  a\n\n", " a|", false},
    {"data: one\ndata: two\n\n", "one\ntwo|", false},
    {"data\n\n", "|", false},
    {"data:\ndata:\n\n", "\n|", false},
    {": ping\n\n: ping\n\ndata: a\n\n", "a|", false},
    {"event: x\nid: 1\nretry: 5\ndata: a\n\n", "a|", false},
    {"event: x\n\n", "", false},
    {"\xef\xbb\xbf"
     "data: a\n\ndata: b\n\n",
     "a|b|", false},
    {"datax: a\nDATA: b\n data: c\n\n", "", false},
    {"data: a: b\n\n", "a: b|", false},
    {"\n\n\n\r\n\r", "", false},
    {"data: \xe2\x82\xac\n\n", "\xe2\x82\xac|", false},
    {"data: a\n\ndata: half", "a|", true},
    {"data: a\n\ndata: b\n", "a|", true},
    {"", "", false},
};

Test(sse, cut_at_every_byte)
{
    for (size_t i = 0; i < KVC_COUNT_OF(streams); i++) {
        const size_t size = strlen(streams[i].text);
        for (size_t first = 0; first <= size; first++) {
            bool cut;
            char *events = parse(streams[i].text, size, first, size + 1, &cut);
            cr_assert_str_eq(events, streams[i].events, "stream %zu cut at %zu", i, first);
            cr_assert_eq(cut, streams[i].cut, "stream %zu cut at %zu", i, first);
            free(events);
        }
    }
}

Test(sse, byte_by_byte_and_in_parts)
{
    for (size_t i = 0; i < KVC_COUNT_OF(streams); i++) {
        for (size_t step = 1; step < 5; step++) {
            bool cut;
            char *events = parse(streams[i].text, strlen(streams[i].text), step, step, &cut);
            cr_assert_str_eq(events, streams[i].events, "stream %zu in parts of %zu", i, step);
            free(events);
        }
    }
}

Test(sse, what_the_taker_refuses_ends_it)
{
    struct kvc_buffer events = {0};
    struct kvc_sse sse = {.take = keep, .user = &events};
    struct kvc_error err = KVC_ERROR_INIT;
    const char text[] = "data: a\n\ndata: refuse me\n\ndata: b\n\n";
    cr_assert_eq(kvc_sse_feed(&sse, (struct kvc_str){text, sizeof(text) - 1}, &err), KVC_EREFUSED);
    cr_assert_str_eq(kvc_buffer_text(&events), "a|");
    kvc_sse_clear(&sse);
    kvc_buffer_clear(&events);
}

/* Feeds the same bytes until there is an error; returns how many bytes that took. */
static size_t feed_until_refused(const char *text, size_t limit)
{
    struct kvc_buffer events = {0};
    struct kvc_sse sse = {.take = keep, .user = &events};
    const struct kvc_str bytes = kvc_str_of(text);
    size_t fed = 0;
    struct kvc_error err = KVC_ERROR_INIT;
    while (fed < limit && kvc_sse_feed(&sse, bytes, &err) == KVC_OK)
        fed += bytes.size;
    cr_assert(fed >= limit || strstr(err.what, "longer than 1024 KiB") != NULL);
    cr_assert_leq(sse.line.capacity + sse.data.capacity, 4 * KVC_SSE_MAX_EVENT);
    kvc_sse_clear(&sse);
    kvc_buffer_clear(&events);
    return fed;
}

Test(sse, a_line_or_an_event_without_end_is_refused_in_bounded_memory)
{
    const size_t limit = 8 * (size_t)KVC_SSE_MAX_EVENT;
    cr_assert_leq(feed_until_refused("xxxxxxxxxxxxxxxx", limit), KVC_SSE_MAX_EVENT + 16);
    cr_assert_leq(feed_until_refused("data: xxxxxxxxx\n", limit), 2 * KVC_SSE_MAX_EVENT);
    cr_assert_lt(feed_until_refused("data:\n", limit), limit,
                 "empty lines make an event longer, too");
    cr_assert_geq(feed_until_refused(": ping, ping, p\n", limit), limit, "comments are not kept");
}
