#include "src/run/nearest.h"

#include <stdlib.h>
#include <string.h>

/* Levenshtein distance with two rows; names are short. */
static size_t edit_distance(const char *a, const char *b)
{
    const size_t a_size = strlen(a), b_size = strlen(b);
    size_t *row = kvc_alloc_zero(b_size + 1, sizeof(*row));
    for (size_t j = 0; j <= b_size; j++)
        row[j] = j;
    for (size_t i = 1; i <= a_size; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b_size; j++) {
            const size_t substituted = diagonal + (a[i - 1] != b[j - 1]);
            const size_t inserted = row[j - 1] + 1, removed = row[j] + 1;
            diagonal = row[j];
            const size_t changed = inserted < removed ? inserted : removed;
            row[j] = substituted < changed ? substituted : changed;
        }
    }
    const size_t distance = row[b_size];
    free(row);
    return distance;
}

/* One is a part of the other, and not so short that it is a part of many. */
static bool is_part(const char *name, const char *candidate)
{
    enum { SHORTEST_START = 2, SHORTEST_PART = 3 };
    const size_t size = strlen(name);
    if (size >= SHORTEST_START && strncmp(candidate, name, size) == 0)
        return true;
    return size >= SHORTEST_PART &&
           (strstr(candidate, name) != NULL || strstr(name, candidate) != NULL);
}

/* Smaller is nearer. A name that is part of the other counts as one edit away. */
static size_t distance_or_far(const char *name, const char *candidate)
{
    if (is_part(name, candidate))
        return 1;
    const size_t distance = edit_distance(name, candidate);
    const size_t longer = strlen(name) > strlen(candidate) ? strlen(name) : strlen(candidate);
    return distance * 2 <= longer + 1 ? distance : SIZE_MAX;
}

void kvc_nearest_append(const char *name, const char *const *candidates, size_t count,
                        struct kvc_buffer *out)
{
    const char *best[KVC_NEAREST_MAX];
    size_t best_distance[KVC_NEAREST_MAX];
    size_t found = 0;
    for (size_t i = 0; i < count; i++) {
        const size_t distance = distance_or_far(name, candidates[i]);
        if (distance == SIZE_MAX)
            continue;
        size_t place = found < KVC_NEAREST_MAX ? found++ : KVC_NEAREST_MAX;
        while (place > 0 && best_distance[place - 1] > distance) {
            if (place < KVC_NEAREST_MAX) {
                best[place] = best[place - 1];
                best_distance[place] = best_distance[place - 1];
            }
            place--;
        }
        if (place < KVC_NEAREST_MAX) {
            best[place] = candidates[i];
            best_distance[place] = distance;
        }
    }
    /* What is clearly farther than the best is noise. */
    while (found > 1 && best_distance[found - 1] > 2 * best_distance[0])
        found--;
    for (size_t i = 0; i < found; i++)
        kvc_buffer_printf(out, "%s%s", i > 0 ? ", " : "", best[i]);
}
