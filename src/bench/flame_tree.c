#include "src/bench/flame_tree.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_FRAMES = 256, WIDTH = 1200, ROW = 17, TOP = 40, LETTER = 7, MAX_DEPTH = MAX_FRAMES };

/* ---- the tree ---- */

static int compare(struct kvc_str a, struct kvc_str b)
{
    const size_t shared = a.size < b.size ? a.size : b.size;
    const int order = shared == 0 ? 0 : memcmp(a.data, b.data, shared);
    return order != 0 ? order : a.size < b.size ? -1 : a.size > b.size;
}

static struct kvc_flame_node *child_of(struct kvc_flame_tree *tree, struct kvc_flame_node *parent,
                                       struct kvc_str name)
{
    struct kvc_flame_node **place = &parent->first_child;
    while (*place != NULL && compare((*place)->name, name) < 0)
        place = &(*place)->next;
    if (*place != NULL && compare((*place)->name, name) == 0)
        return *place;
    struct kvc_flame_node *child = kvc_arena_alloc(&tree->arena, sizeof(*child));
    child->name = kvc_arena_copy_str(&tree->arena, name);
    child->next = *place;
    *place = child;
    return child;
}

void kvc_flame_tree_add(struct kvc_flame_tree *tree, const struct kvc_str *frames, size_t count,
                        uint64_t weight)
{
    struct kvc_flame_node *node = &tree->root;
    node->weight += weight;
    for (size_t i = 0; i < count; i++) {
        node = child_of(tree, node, frames[i]);
        node->weight += weight;
    }
}

void kvc_flame_tree_clear(struct kvc_flame_tree *tree)
{
    kvc_arena_clear(&tree->arena);
    *tree = (struct kvc_flame_tree){0};
}

/* ---- reading ---- */

static struct kvc_str trim(struct kvc_str text)
{
    while (text.size > 0 && strchr(" \t\r", text.data[0]) != NULL)
        text = (struct kvc_str){text.data + 1, text.size - 1};
    while (text.size > 0 && strchr(" \t\r", text.data[text.size - 1]) != NULL)
        text.size--;
    return text;
}

static bool next_line(struct kvc_str *text, struct kvc_str *line)
{
    if (text->size == 0)
        return false;
    const char *end = memchr(text->data, '\n', text->size);
    const size_t size = end == NULL ? text->size : (size_t)(end - text->data);
    *line = (struct kvc_str){text->data, size};
    const size_t used = end == NULL ? size : size + 1;
    *text = (struct kvc_str){text->data + used, text->size - used};
    return true;
}

/* "ffffffff81a2 name" */
static struct kvc_str name_of_frame(struct kvc_str line)
{
    const struct kvc_str frame = trim(line);
    const char *space = memchr(frame.data, ' ', frame.size);
    if (space == NULL)
        return frame;
    const size_t used = (size_t)(space - frame.data) + 1;
    return trim((struct kvc_str){space + 1, frame.size - used});
}

/* frames[0] is the command; the others came innermost first. */
static void add_sample(struct kvc_flame_tree *tree, struct kvc_str *frames, size_t count)
{
    if (count == 0)
        return;
    for (size_t low = 1, high = count - 1; low < high; low++, high--) {
        const struct kvc_str kept = frames[low];
        frames[low] = frames[high];
        frames[high] = kept;
    }
    kvc_flame_tree_add(tree, frames, count, 1);
}

void kvc_flame_tree_add_perf(struct kvc_flame_tree *tree, struct kvc_str text)
{
    struct kvc_str frames[MAX_FRAMES];
    struct kvc_str line;
    size_t count = 0;
    while (next_line(&text, &line)) {
        const bool is_frame = line.size > 0 && strchr(" \t", line.data[0]) != NULL;
        if (trim(line).size == 0 || !is_frame) {
            add_sample(tree, frames, count);
            count = 0;
        }
        if (trim(line).size > 0 && count < MAX_FRAMES)
            frames[count++] = is_frame ? name_of_frame(line) : trim(line);
    }
    add_sample(tree, frames, count);
}

static void add_folded_line(struct kvc_flame_tree *tree, struct kvc_str line)
{
    struct kvc_str frames[MAX_FRAMES];
    size_t count = 0, start = 0, end = line.size;
    while (end > 0 && line.data[end - 1] != ' ')
        end--;
    char number[24] = "";
    memcpy(number, line.data + end,
           line.size - end < sizeof(number) - 1 ? line.size - end : sizeof(number) - 1);
    const uint64_t weight = strtoull(number, NULL, 10);
    const struct kvc_str stack = trim((struct kvc_str){line.data, end});
    for (size_t i = 0; i <= stack.size && count < MAX_FRAMES; i++) {
        if (i < stack.size && stack.data[i] != ';')
            continue;
        frames[count++] = (struct kvc_str){stack.data + start, i - start};
        start = i + 1;
    }
    if (stack.size > 0 && weight > 0)
        kvc_flame_tree_add(tree, frames, count, weight);
}

void kvc_flame_tree_add_folded(struct kvc_flame_tree *tree, struct kvc_str text)
{
    struct kvc_str line;
    while (next_line(&text, &line))
        add_folded_line(tree, line);
}

/* ---- drawing ---- */

static void append_xml(struct kvc_str text, struct kvc_buffer *out)
{
    struct kvc_buffer shown = {0};
    kvc_text_escape(text, &shown);
    for (size_t i = 0; i < shown.size; i++) {
        const char c = (char)shown.data[i];
        kvc_buffer_append_text(out, c == '&'   ? "&amp;"
                                    : c == '<' ? "&lt;"
                                    : c == '>' ? "&gt;"
                                               : "");
        if (strchr("&<>", c) == NULL)
            kvc_buffer_append_byte(out, (uint8_t)c);
    }
    kvc_buffer_clear(&shown);
}

/* Warm, and the same for the same name. */
static unsigned color_of(struct kvc_str name)
{
    unsigned hash = 0;
    for (size_t i = 0; i < name.size; i++)
        hash = hash * 31 + (unsigned char)name.data[i];
    return 0xcd0000u + (hash % 50) * 0x10000 + (60 + hash / 50 % 150) * 0x100 + hash / 7500 % 50;
}

struct drawing {
    struct kvc_buffer *out;
    double scale; /* pixels a weight */
    double total;
    int height;
    const char *unit;
};

static void draw_frame(const struct drawing *drawing, const struct kvc_flame_node *node, double x,
                       int depth)
{
    const double width = (double)node->weight * drawing->scale;
    const int y = drawing->height - (depth + 1) * ROW;
    kvc_buffer_append_text(drawing->out, "<g><title>");
    append_xml(node->name, drawing->out);
    kvc_buffer_printf(drawing->out,
                      " (%llu %s, %.2f %%)</title><rect x=\"%.1f\" y=\"%d\" width=\"%.1f\" "
                      "height=\"%d\" fill=\"#%06x\" rx=\"2\"/>",
                      (unsigned long long)node->weight, drawing->unit,
                      100 * (double)node->weight / drawing->total, x, y, width, ROW - 1,
                      color_of(node->name));
    const size_t letters = width > LETTER ? (size_t)(width / LETTER) : 0;
    if (letters >= 3) {
        kvc_buffer_printf(drawing->out, "<text x=\"%.1f\" y=\"%d\">", x + 3, y + ROW - 5);
        append_xml((struct kvc_str){node->name.data,
                                    letters < node->name.size ? letters : node->name.size},
                   drawing->out);
        kvc_buffer_append_text(drawing->out, "</text>");
    }
    kvc_buffer_append_text(drawing->out, "</g>\n");
}

static void draw_children(const struct drawing *drawing, const struct kvc_flame_node *node,
                          double x, int depth)
{
    for (const struct kvc_flame_node *child = node->first_child; child != NULL;
         child = child->next) {
        const double width = (double)child->weight * drawing->scale;
        if (width >= 0.1) {
            draw_frame(drawing, child, x, depth);
            draw_children(drawing, child, x, depth + 1);
        }
        x += width;
    }
}

static int depth_of(const struct kvc_flame_node *node)
{
    int deepest = 0;
    for (const struct kvc_flame_node *child = node->first_child; child != NULL;
         child = child->next) {
        const int depth = 1 + depth_of(child);
        deepest = depth > deepest ? depth : deepest;
    }
    return deepest;
}

void kvc_flame_tree_draw(const struct kvc_flame_tree *tree, const char *title, const char *unit,
                         struct kvc_buffer *out)
{
    const double total = tree->root.weight == 0 ? 1 : (double)tree->root.weight;
    const int height = TOP + depth_of(&tree->root) * ROW;
    const struct drawing drawing = {out, WIDTH / total, total, height, unit};
    kvc_buffer_printf(out,
                      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
                      "font-family=\"monospace\" font-size=\"12\">\n"
                      "<rect width=\"100%%\" height=\"100%%\" fill=\"#fdf6e8\"/>\n"
                      "<text x=\"%d\" y=\"24\" text-anchor=\"middle\" font-size=\"16\">",
                      WIDTH, height, WIDTH / 2);
    append_xml(kvc_str_of(title), out);
    kvc_buffer_printf(out, ": %llu %s</text>\n", (unsigned long long)tree->root.weight, unit);
    draw_children(&drawing, &tree->root, 0, 0);
    kvc_buffer_append_text(out, "</svg>\n");
}
