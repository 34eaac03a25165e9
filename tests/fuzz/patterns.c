/* Patterns over ids, against a matcher that fills a table instead of trying.
 * Input: a pattern, a line feed, an id. */
#include <stdlib.h>
#include <string.h>

#include "src/run/select.h"
#include "tests/fuzz/fuzz.h"

enum { MOST = 128 }; /* bytes of a pattern or an id, and so components */

struct components {
    struct kvc_str items[MOST + 1];
    size_t count;
};

static struct components split(const char *text)
{
    struct components components = {.count = 0};
    while (*text != '\0') {
        const size_t size = strcspn(text, "/");
        components.items[components.count++] = (struct kvc_str){text, size};
        text += size + (text[size] == '/');
    }
    return components;
}

/* match[i][j]: the first i characters of the pattern match the first j of the text. */
static bool component_matches(struct kvc_str pattern, struct kvc_str text)
{
    static bool match[MOST + 1][MOST + 1];
    for (size_t i = 0; i <= pattern.size; i++) {
        for (size_t j = 0; j <= text.size; j++) {
            const char wanted = i > 0 ? pattern.data[i - 1] : '\0';
            if (i == 0)
                match[i][j] = j == 0;
            else if (wanted == '*')
                match[i][j] = match[i - 1][j] || (j > 0 && match[i][j - 1]);
            else
                match[i][j] =
                    j > 0 && match[i - 1][j - 1] && (wanted == '?' || wanted == text.data[j - 1]);
        }
    }
    return match[pattern.size][text.size];
}

/* The same with components; the whole pattern may match less than the whole id. */
static bool matches(const struct components *pattern, const struct components *id)
{
    static bool match[MOST + 1][MOST + 1];
    bool any = false;
    for (size_t i = 0; i <= pattern->count; i++) {
        for (size_t j = 0; j <= id->count; j++) {
            if (i == 0)
                match[i][j] = j == 0;
            else if (kvc_str_is(pattern->items[i - 1], "**"))
                match[i][j] = match[i - 1][j] || (j > 0 && match[i][j - 1]);
            else
                match[i][j] = j > 0 && match[i - 1][j - 1] &&
                              component_matches(pattern->items[i - 1], id->items[j - 1]);
        }
    }
    for (size_t j = 0; j <= id->count; j++)
        any = any || match[pattern->count][j];
    return any;
}

void fuzz_one(struct kvc_bytes input)
{
    char *text = fuzz_text(input);
    const size_t size = strcspn(text, "\n");
    char *id = text + size + (text[size] == '\n');
    text[size] = '\0';
    if (size <= MOST && strlen(id) <= MOST) {
        const struct components pattern_parts = split(text), id_parts = split(id);
        FUZZ_REQUIRE(kvc_pattern_matches(text, id) == matches(&pattern_parts, &id_parts));
    }
    free(text);
}
