#include "tests/mock_server/defects.h"

#include <string.h>

#include "src/base/bytes.h"
#include "tests/mock_server/mock.h"

const struct kvc_mock_defect kvc_mock_defects[] = {
#define X(identifier, name, summary, origin) {name, summary, origin},
    MOCK_DEFECTS(X)
#undef X
};

const size_t kvc_mock_defect_count = KVC_COUNT_OF(kvc_mock_defects);

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Levenshtein distance between two short names; longer ones than the row are cut. */
static size_t edit_distance(const char *a, const char *b)
{
    enum { LONGEST = 63 };
    const size_t a_size = smaller(strlen(a), LONGEST);
    const size_t b_size = smaller(strlen(b), LONGEST);
    size_t row[LONGEST + 1];
    for (size_t j = 0; j <= b_size; j++)
        row[j] = j;
    for (size_t i = 1; i <= a_size; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b_size; j++) {
            const size_t replaced = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            row[j] = smaller(smaller(row[j], row[j - 1]) + 1, replaced);
        }
    }
    return row[b_size];
}

static const char *nearest_name(const char *name)
{
    const char *nearest = kvc_mock_defects[0].name;
    for (size_t i = 1; i < kvc_mock_defect_count; i++) {
        if (edit_distance(name, kvc_mock_defects[i].name) < edit_distance(name, nearest))
            nearest = kvc_mock_defects[i].name;
    }
    return nearest;
}

static kvc_status switch_on(const char *name, bool on[MOCK_DEFECT_COUNT], struct kvc_error *err)
{
    for (size_t i = 0; i < kvc_mock_defect_count; i++) {
        if (strcmp(name, kvc_mock_defects[i].name) == 0) {
            on[i] = true;
            return KVC_OK;
        }
    }
    kvc_fail(err, KVC_EUSAGE, "the mock has no defect \"%s\"; the nearest is \"%s\"", name,
             nearest_name(name));
    return kvc_error_set_expected(err, "a name that `kvconform mock --list-defects` prints");
}

kvc_status mock_defects_read(const char *const *names, bool on[MOCK_DEFECT_COUNT],
                             struct kvc_error *err)
{
    memset(on, 0, MOCK_DEFECT_COUNT * sizeof(on[0]));
    for (; names != NULL && *names != NULL; names++)
        KVC_GUARD(switch_on(*names, on, err));
    return KVC_OK;
}
