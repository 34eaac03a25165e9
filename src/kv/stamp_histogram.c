#include "src/kv/stamp_histogram.h"

#include <inttypes.h>
#include <stdlib.h>

enum { MOST_SHOWN = 4 };

/* ---- counting ---- */

static unsigned changes(const struct kvc_stamp_origin *from, const struct kvc_stamp_place *to)
{
    return (from->source != 0 ? KVC_STAMP_SOURCE : 0u) |
           (from->place.group != to->group ? KVC_STAMP_GROUP : 0u) |
           (from->place.layer != to->layer ? KVC_STAMP_LAYER : 0u) |
           (from->place.kv != to->kv ? KVC_STAMP_KV : 0u) |
           (from->place.token != to->token ? KVC_STAMP_TOKEN : 0u) |
           (from->place.head != to->head ? KVC_STAMP_HEAD : 0u);
}

/* Tokens go the same way when they go equally far, all else when both ends are the same. */
static unsigned varies(const struct kvc_stamp_class *class, const struct kvc_stamp_origin *from,
                       const struct kvc_stamp_place *to)
{
    const struct kvc_stamp_place *first = &class->from.place, *place = &from->place;
    const bool layer = place->layer != first->layer || to->layer != class->to.layer;
    const bool head = place->head != first->head || to->head != class->to.head;
    const bool group = place->group != first->group || to->group != class->to.group;
    return (from->source != class->from.source ? KVC_STAMP_SOURCE : 0u) |
           (group ? KVC_STAMP_GROUP : 0u) | (layer ? KVC_STAMP_LAYER : 0u) |
           (to->kv != class->to.kv ? KVC_STAMP_KV : 0u) |
           (place->token - to->token != first->token - class->to.token ? KVC_STAMP_TOKEN : 0u) |
           (head ? KVC_STAMP_HEAD : 0u);
}

void kvc_stamp_histogram_add(struct kvc_stamp_histogram *histogram,
                             const struct kvc_stamp_origin *origin, int byte,
                             const struct kvc_stamp_place *to, int64_t count)
{
    if (origin == NULL && byte >= 0) {
        histogram->constants[byte] += count;
    } else if (origin == NULL) {
        histogram->others += count;
    } else {
        struct kvc_stamp_class *class = &histogram->classes[changes(origin, to)];
        if (class->count == 0) {
            class->from = *origin;
            class->to = *to;
        }
        class->varied |= varies(class, origin, to);
        class->count += count;
    }
}

/* ---- saying it ---- */

static void describe_source(const struct kvc_stamp_class *class,
                            const struct kvc_stamp_search *search, struct kvc_buffer *out)
{
    const struct kvc_stamp_source *source = &search->others[class->from.source - 1];
    if (class->varied & KVC_STAMP_SOURCE)
        kvc_buffer_append_text(out, "data of other requests");
    else if (source->request != search->source.request)
        kvc_buffer_printf(out, "data of request %" PRIu64, source->request);
    else
        kvc_buffer_printf(out, "data of seed %" PRIu64, source->seed);
}

static void describe_numbered(const char *what, bool varied, int64_t from, int64_t to,
                              struct kvc_buffer *out)
{
    if (varied)
        kvc_buffer_printf(out, "another %s", what);
    else
        kvc_buffer_printf(out, "%s %" PRId64 " where %s %" PRId64 " belongs", what, from, what, to);
}

static void describe_kv(const struct kvc_stamp_class *class, struct kvc_buffer *out)
{
    if (class->varied & KVC_STAMP_KV)
        kvc_buffer_append_text(out, "V where K belongs and K where V belongs");
    else
        kvc_buffer_append_text(out, class->to.kv == 0 ? "V where K belongs" : "K where V belongs");
}

static void describe_token(const struct kvc_stamp_class *class, struct kvc_buffer *out)
{
    const int64_t step = class->from.place.token - class->to.token;
    if (class->varied & KVC_STAMP_TOKEN)
        kvc_buffer_append_text(out, "another token");
    else
        kvc_buffer_printf(out, "the token %" PRId64 " %s", step < 0 ? -step : step,
                          step < 0 ? "before" : "after");
}

static void describe_class(const struct kvc_stamp_class *class, unsigned changed,
                           const struct kvc_stamp_search *search, struct kvc_buffer *out)
{
    const struct kvc_stamp_place *from = &class->from.place, *to = &class->to;
    const char *joint = "";
    for (unsigned bit = 1; bit < KVC_STAMP_CLASSES; bit *= 2) {
        if (!(changed & bit))
            continue;
        const bool varied = (class->varied & bit) != 0;
        kvc_buffer_append_text(out, joint);
        joint = " and ";
        if (bit == KVC_STAMP_SOURCE)
            describe_source(class, search, out);
        else if (bit == KVC_STAMP_GROUP)
            describe_numbered("group", varied, (int64_t)from->group, (int64_t)to->group, out);
        else if (bit == KVC_STAMP_LAYER)
            describe_numbered("layer", varied, from->layer, to->layer, out);
        else if (bit == KVC_STAMP_KV)
            describe_kv(class, out);
        else if (bit == KVC_STAMP_TOKEN)
            describe_token(class, out);
        else
            describe_numbered("head", varied, from->head, to->head, out);
    }
}

/* One line of the histogram: a class, a constant byte, or what is left. */
struct line {
    int64_t count;
    enum { CLASS, CONSTANT, OTHERS } kind;
    unsigned index;
};

enum { MOST_LINES = KVC_STAMP_CLASSES + 256 + 1 };

static int by_count(const void *a, const void *b)
{
    const struct line *x = a, *y = b;
    return (x->count < y->count) - (x->count > y->count);
}

static size_t list_lines(const struct kvc_stamp_histogram *histogram, struct line *lines)
{
    size_t count = 0;
    for (unsigned i = 0; i < KVC_STAMP_CLASSES; i++)
        if (histogram->classes[i].count > 0)
            lines[count++] = (struct line){histogram->classes[i].count, CLASS, i};
    for (unsigned i = 0; i < 256; i++)
        if (histogram->constants[i] > 0)
            lines[count++] = (struct line){histogram->constants[i], CONSTANT, i};
    if (histogram->others > 0)
        lines[count++] = (struct line){histogram->others, OTHERS, 0};
    qsort(lines, count, sizeof(*lines), by_count);
    return count;
}

static void describe_line(const struct kvc_stamp_histogram *histogram, const struct line *line,
                          const struct kvc_stamp_search *search, struct kvc_buffer *out)
{
    if (line->kind == CLASS)
        describe_class(&histogram->classes[line->index], line->index, search, out);
    else if (line->kind == OTHERS)
        kvc_buffer_append_text(out, "what cannot be told");
    else if (line->index == 0)
        kvc_buffer_append_text(out, "zero");
    else
        kvc_buffer_printf(out, "poison 0x%02x", line->index);
}

void kvc_stamp_histogram_describe(const struct kvc_stamp_histogram *histogram,
                                  const struct kvc_stamp_search *search, struct kvc_buffer *out)
{
    struct line lines[MOST_LINES];
    const size_t count = list_lines(histogram, lines);
    int64_t rest = 0;
    for (size_t i = 0; i < count; i++) {
        if (i >= MOST_SHOWN) {
            rest += lines[i].count;
            continue;
        }
        if (count == 1)
            kvc_buffer_append_text(out, "all hold ");
        else
            kvc_buffer_printf(out, "%s%" PRId64 " hold ", i == 0 ? "" : ", ", lines[i].count);
        describe_line(histogram, &lines[i], search, out);
    }
    if (rest > 0)
        kvc_buffer_printf(out, ", %" PRId64 " hold yet other things", rest);
}
