#include "src/bench/limit.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_CHARACTERS "abcdefghijklmnopqrstuvwxyz0123456789_"
/* Some benches name an operation with its axes; * stands for any part. */
#define OPERATION_CHARACTERS NAME_CHARACTERS "-/*"

/* Longer ones first. */
static const struct {
    const char *text;
    enum kvc_limit_relation relation;
} relations[] = {
    {">=", KVC_LIMIT_GE},
    {"<=", KVC_LIMIT_LE},
    {">", KVC_LIMIT_GT},
    {"<", KVC_LIMIT_LT},
};

static kvc_status refuse(const char *text, const char *place, const char *wanted,
                         struct kvc_error *err)
{
    if (*place == '\0')
        kvc_fail(err, KVC_EUSAGE, "ends where %s should stand", wanted);
    else
        kvc_fail(err, KVC_EUSAGE, "'%s' stands where %s should", place, wanted);
    kvc_error_set_where(err, "--fail-if '%s', character %zu", text, (size_t)(place - text) + 1);
    return kvc_error_set_expected(err,
                                  "OPERATION.FIGURE > RATIO, such as warm_retrieve.p99 > 1.10");
}

static const char *skip_spaces(const char *text)
{
    return text + strspn(text, " \t");
}

/* Decimal digits only: what strtod takes besides ("inf", "0x1p3") is a slip here. */
static bool read_ratio(const char **cursor, double *ratio)
{
    const size_t size = strspn(*cursor, "0123456789.");
    char *end = NULL;
    *ratio = strtod(*cursor, &end);
    if (size == 0 || size > 20 || end != *cursor + size || *ratio <= 0)
        return false;
    *cursor = end;
    return true;
}

static bool read_relation(const char **cursor, enum kvc_limit_relation *relation)
{
    for (size_t i = 0; i < KVC_COUNT_OF(relations); i++) {
        const size_t size = strlen(relations[i].text);
        if (strncmp(*cursor, relations[i].text, size) != 0)
            continue;
        *relation = relations[i].relation;
        *cursor += size;
        return true;
    }
    return false;
}

kvc_status kvc_limit_parse(const char *text, struct kvc_limit *limit, struct kvc_error *err)
{
    *limit = (struct kvc_limit){.text = text};
    const char *cursor = skip_spaces(text);
    limit->operation = (struct kvc_str){cursor, strspn(cursor, OPERATION_CHARACTERS)};
    if (limit->operation.size == 0)
        return refuse(text, cursor, "an operation", err);
    cursor += limit->operation.size;
    if (*cursor != '.')
        return refuse(text, cursor, "a '.' and a figure", err);
    cursor++;
    limit->figure = (struct kvc_str){cursor, strspn(cursor, NAME_CHARACTERS ".")};
    if (limit->figure.size == 0)
        return refuse(text, cursor, "a figure", err);
    cursor = skip_spaces(cursor + limit->figure.size);
    if (!read_relation(&cursor, &limit->relation))
        return refuse(text, cursor, "one of > >= < <=", err);
    cursor = skip_spaces(cursor);
    if (!read_ratio(&cursor, &limit->ratio))
        return refuse(text, cursor, "a ratio such as 1.10", err);
    cursor = skip_spaces(cursor);
    return *cursor == '\0' ? KVC_OK : refuse(text, cursor, "the end", err);
}

bool kvc_limit_is_about(const struct kvc_limit *limit, const char *operation, const char *figure)
{
    char pattern[256];
    if (limit->operation.size >= sizeof(pattern) || !kvc_str_is(limit->figure, figure))
        return false;
    snprintf(pattern, sizeof(pattern), KVC_STR_FMT, KVC_STR_ARG(limit->operation));
    return fnmatch(pattern, operation, FNM_NOESCAPE) == 0;
}

bool kvc_limit_breaks(const struct kvc_limit *limit, double ratio)
{
    switch (limit->relation) {
    case KVC_LIMIT_GT:
        return ratio > limit->ratio;
    case KVC_LIMIT_GE:
        return ratio >= limit->ratio;
    case KVC_LIMIT_LT:
        return ratio < limit->ratio;
    case KVC_LIMIT_LE:
        return ratio <= limit->ratio;
    }
    return false;
}

bool kvc_limit_is_upper(const struct kvc_limit *limit)
{
    return limit->relation == KVC_LIMIT_GT || limit->relation == KVC_LIMIT_GE;
}
