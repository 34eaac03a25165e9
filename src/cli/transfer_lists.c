#include "src/cli/transfer_lists.h"

#include <stdlib.h>
#include <string.h>

static kvc_status refuse(const char *item, const char *accepted, struct kvc_error *err)
{
    return kvc_fail(err, KVC_EUSAGE, "'%s' is not accepted: give %s",
                    kvc_text_show(kvc_str_of(item)).text, accepted);
}

static kvc_status read_layout(const char *item, struct kvc_transfer_lists *lists,
                              struct kvc_error *err)
{
    for (enum kvc_layout layout = 0; layout < KVC_LAYOUT_COUNT; layout++) {
        if (strcmp(item, kvc_layout_name(layout)) != 0)
            continue;
        lists->layouts[lists->layout_count++] = layout;
        return KVC_OK;
    }
    return refuse(item, "nhd, hnd, flashinfer-nhd, flashinfer-hnd, mla or all", err);
}

static kvc_status read_dtype(const char *item, struct kvc_transfer_lists *lists,
                             struct kvc_error *err)
{
    const struct kvc_str name = kvc_str_of(item);
    const struct kvc_dtype *dtype = kvc_dtype_find_short(name);
    if (dtype == NULL)
        dtype = kvc_dtype_find(name);
    if (dtype != NULL) {
        lists->dtypes[lists->dtype_count++] = dtype;
        return KVC_OK;
    }
    struct kvc_buffer accepted = {0};
    kvc_buffer_append_text(&accepted, "one of ");
    kvc_dtype_list(&accepted);
    const kvc_status status = refuse(item, kvc_buffer_text(&accepted), err);
    kvc_buffer_clear(&accepted);
    return status;
}

static bool read_number(const char *text, int64_t most, const char **end, int64_t *number)
{
    char *rest;
    *number = strtoll(text, &rest, 10);
    *end = rest;
    return rest != text && *number >= 1 && *number <= most;
}

static kvc_status read_heads(const char *item, struct kvc_transfer_lists *lists,
                             struct kvc_error *err)
{
    enum { MOST = 1 << 20 };
    int64_t count, size;
    const char *end;
    if (!read_number(item, MOST, &end, &count) || *end != 'x' ||
        !read_number(end + 1, MOST, &end, &size) || *end != '\0')
        return refuse(item, "heads and elements of a head, such as 8x128", err);
    lists->heads[lists->heads_count].count = count;
    lists->heads[lists->heads_count++].size = size;
    return KVC_OK;
}

static kvc_status read_bytes(const char *item, struct kvc_transfer_lists *lists,
                             struct kvc_error *err)
{
    return kvc_bytes_parse(item, 1, &lists->bytes[lists->bytes_count++], err);
}

static kvc_status read_threads(const char *item, struct kvc_transfer_lists *lists,
                               struct kvc_error *err)
{
    enum { MOST = 256 };
    const char *end;
    int64_t threads;
    if (!read_number(item, MOST, &end, &threads) || *end != '\0')
        return refuse(item, "a number of threads, from 1 to 256", err);
    lists->threads[lists->thread_count++] = threads;
    return KVC_OK;
}

static const char *find_operation(const char *name, size_t size)
{
    for (size_t i = 0; kvc_transfer_operations[i] != NULL; i++) {
        if (kvc_str_is((struct kvc_str){name, size}, kvc_transfer_operations[i]))
            return kvc_transfer_operations[i];
    }
    return NULL;
}

static kvc_status read_operation(const char *item, struct kvc_transfer_lists *lists,
                                 struct kvc_error *err)
{
    const char *operation = find_operation(item, strlen(item));
    if (operation == NULL)
        return refuse(item,
                      "gather, scatter, fill, check, digest, gather-to-host, scatter-from-host or "
                      "all",
                      err);
    lists->plan->operations[lists->operation_count++] = operation;
    return KVC_OK;
}

static kvc_status read_minimum(const char *item, struct kvc_transfer_lists *lists,
                               struct kvc_error *err)
{
    const char *equals = strchr(item, '=');
    const char *operation = equals == NULL ? NULL : find_operation(item, (size_t)(equals - item));
    char *end = NULL;
    const double ratio = equals == NULL ? 0 : strtod(equals + 1, &end);
    if (operation == NULL || end == equals + 1 || *end != '\0' || !(ratio > 0 && ratio < 1e6))
        return refuse(item, "an operation and a ratio, such as gather=0.9", err);
    lists->plan->minimums[lists->plan->minimum_count++] =
        (struct kvc_transfer_minimum){operation, ratio};
    return KVC_OK;
}

typedef kvc_status (*reader)(const char *item, struct kvc_transfer_lists *lists,
                             struct kvc_error *err);

static kvc_status read_items(const char *flag, char *text, reader read,
                             struct kvc_transfer_lists *lists, struct kvc_error *err)
{
    size_t count = 0;
    for (char *item = text; item != NULL; count++) {
        char *comma = strchr(item, ',');
        if (comma != NULL)
            *comma++ = '\0';
        kvc_status status = read(item, lists, err);
        if (status == KVC_OK && count + 1 == KVC_TRANSFER_MAX_ITEMS && comma != NULL)
            status = kvc_fail(err, KVC_EUSAGE, "at most %d can be given", KVC_TRANSFER_MAX_ITEMS);
        if (status != KVC_OK) {
            kvc_error_prepend_where(err, "--%s", flag);
            return status;
        }
        item = comma;
    }
    return KVC_OK;
}

/* A limit about nothing that is measured would hold whatever comes. */
static kvc_status check_minimums(const struct kvc_transfer_lists *lists, struct kvc_error *err)
{
    for (size_t i = 0; i < lists->plan->minimum_count; i++) {
        const char *operation = lists->plan->minimums[i].operation;
        size_t at = 0;
        while (at < lists->operation_count && lists->plan->operations[at] != operation)
            at++;
        if (at < lists->operation_count)
            continue;
        kvc_fail(err, KVC_EUSAGE, "%s is not measured: add it to --operation", operation);
        kvc_error_set_where(err, "--min-ratio");
        return KVC_EUSAGE;
    }
    return KVC_OK;
}

kvc_status kvc_transfer_lists_read(const struct kvc_transfer_flags *flags,
                                   struct kvc_transfer_lists *lists, struct kvc_error *err)
{
    static const char all_layouts[] = "nhd,hnd,flashinfer-nhd,flashinfer-hnd,mla";
    static const char all_operations[] =
        "gather,scatter,fill,check,digest,gather-to-host,scatter-from-host";
    const struct {
        const char *flag, *text, *all;
        reader read;
    } table[] = {
        {"layout", flags->layouts, all_layouts, read_layout},
        {"dtype", flags->dtypes, "", read_dtype},
        {"heads", flags->heads, "", read_heads},
        {"bytes", flags->bytes, "", read_bytes},
        {"threads", flags->threads, "", read_threads},
        {"operation", flags->operations, all_operations, read_operation},
        {"min-ratio", flags->min_ratios, "", read_minimum},
    };
    for (size_t i = 0; i < KVC_COUNT_OF(table); i++) {
        if (table[i].text == NULL)
            continue;
        const bool all = table[i].all[0] != '\0' && strcmp(table[i].text, "all") == 0;
        char *text = kvc_strdup(all ? table[i].all : table[i].text);
        const kvc_status status = read_items(table[i].flag, text, table[i].read, lists, err);
        free(text);
        KVC_GUARD(status);
    }
    return check_minimums(lists, err);
}
