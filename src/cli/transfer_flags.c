#include "src/cli/transfer_flags.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/bench/machine.h"

static const char *const orders[] = {"shuffled", "sequential", NULL};
static const char *const clocks[] = {"wall", "cpu", NULL};
static const char *const formats[] = {"text", "json", "csv", NULL};

#define FLAG(member) offsetof(struct kvc_transfer_flags, member)

const struct kvc_option kvc_transfer_flag_table[] = {
    {.name = "device",
     .kind = KVC_OPTION_TEXT,
     .offset = FLAG(device),
     .argument = "NAME",
     .help = "where the KV cache lives: cpu (default) or cuda"},
    {.name = "layout",
     .kind = KVC_OPTION_TEXT,
     .offset = FLAG(layouts),
     .argument = "LIST",
     .help = "nhd, hnd, flashinfer-nhd, flashinfer-hnd, mla; or all (default)"},
    {.name = "dtype",
     .kind = KVC_OPTION_TEXT,
     .offset = FLAG(dtypes),
     .argument = "LIST",
     .help = "element types, such as f16,bf16,f32,u8 (default f16)"},
    {.name = "heads",
     .kind = KVC_OPTION_TEXT,
     .offset = FLAG(heads),
     .argument = "LIST",
     .help = "heads of a token and elements of a head, such as 8x128,32x64 (default 8x128)"},
    {.name = "bytes",
     .kind = KVC_OPTION_TEXT,
     .offset = FLAG(bytes),
     .argument = "LIST",
     .help = "how much is moved at a time, such as 64MiB,1GiB; rounded down to whole chunks "
             "(default 64MiB)"},
    {.name = "layers",
     .kind = KVC_OPTION_NUMBER,
     .offset = FLAG(layers),
     .argument = "N",
     .minimum = 1,
     .help = "layers, each a tensor (default 32)"},
    {.name = "block-size",
     .kind = KVC_OPTION_NUMBER,
     .offset = FLAG(block_size),
     .argument = "N",
     .minimum = 1,
     .help = "tokens a block (default 16)"},
    {.name = "chunk-tokens",
     .kind = KVC_OPTION_NUMBER,
     .offset = FLAG(chunk_tokens),
     .argument = "N",
     .minimum = 1,
     .help = "tokens a chunk, a multiple of the block size (default 256)"},
    {.name = "block-order",
     .kind = KVC_OPTION_CHOICE,
     .offset = FLAG(block_order),
     .argument = "ORDER",
     .choices = orders,
     .help = "shuffled (default) or sequential"},
    {.name = "threads",
     .kind = KVC_OPTION_TEXT,
     .offset = FLAG(threads),
     .argument = "LIST",
     .help = "threads that share the work, such as 1,2 (default 1)"},
    {.name = "operation",
     .kind = KVC_OPTION_TEXT,
     .offset = FLAG(operations),
     .argument = "LIST",
     .help = "gather, scatter, fill, check, digest; on cuda gather, scatter, gather-to-host, "
             "scatter-from-host; or all (default)"},
    {.name = "repeat",
     .kind = KVC_OPTION_NUMBER,
     .offset = FLAG(repeat),
     .argument = "N",
     .minimum = 1,
     .help = "rounds, in each of which everything is measured once (default 11)"},
    {.name = "clock",
     .kind = KVC_OPTION_CHOICE,
     .offset = FLAG(clock),
     .argument = "CLOCK",
     .choices = clocks,
     .help = "wall (default), or cpu: without the time that a busy machine gives to others"},
    {.name = "min-ratio",
     .kind = KVC_OPTION_TEXT,
     .offset = FLAG(min_ratios),
     .argument = "LIST",
     .help = "such as gather=0.9,check=0.7: exit with 1 when the median ratio of a fast version is "
             "below that"},
    {.name = "seed",
     .kind = KVC_OPTION_SEED,
     .offset = FLAG(seed),
     .argument = "N",
     .help = "of the block order and the data (default 1)"},
    KVC_OPTION_REPORT_FORMAT(FLAG(format), formats, "text (default), json or csv"),
    KVC_OPTION_REPORT_FILE(FLAG(output)),
};
const size_t kvc_transfer_flag_count = KVC_COUNT_OF(kvc_transfer_flag_table);

void kvc_transfer_flags_init(struct kvc_transfer_flags *flags)
{
    *flags = (struct kvc_transfer_flags){
        .device = "cpu",
        .layouts = "all",
        .dtypes = "f16",
        .heads = "8x128",
        .bytes = "64MiB",
        .threads = "1",
        .operations = "all",
        .block_order = "shuffled",
        .clock = "wall",
        .block_size = 16,
        .layers = 32,
        .chunk_tokens = 256,
        .repeat = 11,
        .seed = 1,
        .format = "text",
    };
}

/* ---- lists ---- */

/* What the flags' lists hold. */
struct lists {
    enum kvc_layout layouts[KVC_TRANSFER_MAX_ITEMS];
    const struct kvc_dtype *dtypes[KVC_TRANSFER_MAX_ITEMS];
    struct {
        int64_t count, size;
    } heads[KVC_TRANSFER_MAX_ITEMS];
    int64_t bytes[KVC_TRANSFER_MAX_ITEMS];
    int64_t threads[KVC_TRANSFER_MAX_ITEMS];
    size_t layout_count, dtype_count, heads_count, bytes_count, thread_count;
    struct kvc_transfer_plan *plan; /* takes operations and minimums at once */
    size_t operation_count;
};

static kvc_status refuse(const char *item, const char *accepted, struct kvc_error *err)
{
    return kvc_fail(err, KVC_EUSAGE, "'%s' is not accepted: give %s",
                    kvc_text_show(kvc_str_of(item)).text, accepted);
}

static kvc_status read_layout(const char *item, struct lists *lists, struct kvc_error *err)
{
    for (enum kvc_layout layout = 0; layout < KVC_LAYOUT_COUNT; layout++) {
        if (strcmp(item, kvc_layout_name(layout)) != 0)
            continue;
        lists->layouts[lists->layout_count++] = layout;
        return KVC_OK;
    }
    return refuse(item, "nhd, hnd, flashinfer-nhd, flashinfer-hnd, mla or all", err);
}

static kvc_status read_dtype(const char *item, struct lists *lists, struct kvc_error *err)
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

static kvc_status read_heads(const char *item, struct lists *lists, struct kvc_error *err)
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

static kvc_status read_bytes(const char *item, struct lists *lists, struct kvc_error *err)
{
    return kvc_bytes_parse(item, 1, &lists->bytes[lists->bytes_count++], err);
}

static kvc_status read_threads(const char *item, struct lists *lists, struct kvc_error *err)
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

static kvc_status read_operation(const char *item, struct lists *lists, struct kvc_error *err)
{
    const char *operation = find_operation(item, strlen(item));
    if (operation == NULL)
        return refuse(item, "gather, scatter, fill, check, digest or all", err);
    lists->plan->operations[lists->operation_count++] = operation;
    return KVC_OK;
}

static kvc_status read_minimum(const char *item, struct lists *lists, struct kvc_error *err)
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

typedef kvc_status (*reader)(const char *item, struct lists *lists, struct kvc_error *err);

static kvc_status read_items(const char *flag, char *text, reader read, struct lists *lists,
                             struct kvc_error *err)
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

static kvc_status read_lists(const struct kvc_transfer_flags *flags, struct lists *lists,
                             struct kvc_error *err)
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
    return KVC_OK;
}

/* ---- cases ---- */

/* The KV cache, the chunks and their copy, and what the tests of them need. */
static kvc_status fits_memory(int64_t bytes, struct kvc_error *err)
{
    enum { COPIES = 3 };
    struct kvc_machine machine;
    kvc_machine_read(&machine);
    const int64_t most = machine.memory_bytes / 4 * 3 / COPIES;
    if (machine.memory_bytes == 0 || bytes <= most)
        return KVC_OK;
    kvc_fail(err, KVC_EUSAGE,
             "%lld bytes need %d times as much memory; of this machine's, up to %lld bytes can "
             "be moved",
             (long long)bytes, COPIES, (long long)most);
    return kvc_error_set_where(err, "--bytes");
}

static kvc_status set_size(int64_t bytes, struct kvc_transfer_case *made, struct kvc_error *err)
{
    struct kvc_group *group = &made->group;
    struct kvc_geometry geometry = {.groups = {*group}, .group_count = 1};
    geometry.groups[0].num_blocks = made->chunk_tokens / group->block_size;
    if (!kvc_geometry_fits(&geometry))
        return kvc_fail(err, KVC_EUSAGE, "no machine can hold a chunk of this shape");
    const int64_t chunk_bytes = kvc_group_chunk_bytes(group, made->chunk_tokens);
    made->chunk_count = bytes / chunk_bytes;
    if (made->chunk_count < made->threads) {
        kvc_fail(
            err, KVC_EUSAGE,
            "%lld bytes hold %lld chunks of %lld bytes (%s %s), and each of the threads (%lld) "
            "takes one at least; --layers and --chunk-tokens make chunks smaller",
            (long long)bytes, (long long)made->chunk_count, (long long)chunk_bytes,
            kvc_layout_name(group->layout), group->dtype->name, (long long)made->threads);
        return kvc_error_set_where(err, "--bytes");
    }
    group->num_blocks = made->chunk_count * (made->chunk_tokens / group->block_size) + 1;
    return fits_memory(kvc_transfer_case_bytes(made), err);
}

/* The index-th of all combinations, layouts outermost. */
static kvc_status make_case(const struct kvc_transfer_flags *flags, const struct lists *lists,
                            size_t index, struct kvc_transfer_case *made, struct kvc_error *err)
{
    const size_t threads = index % lists->thread_count;
    index /= lists->thread_count;
    const size_t bytes = index % lists->bytes_count;
    index /= lists->bytes_count;
    const size_t heads = index % lists->heads_count;
    index /= lists->heads_count;
    const size_t dtype = index % lists->dtype_count;
    const enum kvc_layout layout = lists->layouts[index / lists->dtype_count];
    *made = (struct kvc_transfer_case){
        .group =
            {
                .kv_size = layout == KVC_LAYOUT_MLA ? 1 : 2,
                .block_size = flags->block_size,
                .num_heads = lists->heads[heads].count,
                .head_size = lists->heads[heads].size,
                .num_layers = flags->layers,
                .dtype = lists->dtypes[dtype],
                .layout = layout,
            },
        .chunk_tokens = flags->chunk_tokens,
        .threads = lists->threads[threads],
        .shuffled = strcmp(flags->block_order, "shuffled") == 0,
        .seed = flags->seed,
    };
    return set_size(lists->bytes[bytes], made, err);
}

static kvc_status check_flags(const struct kvc_transfer_flags *flags, struct kvc_error *err)
{
    if (flags->repeat > KVC_TRANSFER_MAX_REPEAT)
        return kvc_fail(err, KVC_EUSAGE, "--repeat %lld: at most %d", (long long)flags->repeat,
                        KVC_TRANSFER_MAX_REPEAT);
    if (flags->chunk_tokens % flags->block_size != 0)
        return kvc_fail(err, KVC_EUSAGE,
                        "--chunk-tokens %lld: not a multiple of the block size, %lld",
                        (long long)flags->chunk_tokens, (long long)flags->block_size);
    return KVC_OK;
}

static kvc_status find_device(const char *name, const struct kvc_transfer_device **device,
                              struct kvc_error *err)
{
    *device = kvc_transfer_device_find(name);
    if (*device != NULL)
        return KVC_OK;
    struct kvc_buffer accepted = {0};
    kvc_transfer_device_list(&accepted);
    kvc_fail(err, KVC_EUSAGE, "--device '%s' is not accepted: give one of %s",
             kvc_text_show(kvc_str_of(name)).text, kvc_buffer_text(&accepted));
    kvc_buffer_clear(&accepted);
    return KVC_EUSAGE;
}

kvc_status kvc_transfer_flags_resolve(const struct kvc_transfer_flags *flags,
                                      struct kvc_transfer_plan *plan, struct kvc_error *err)
{
    *plan = (struct kvc_transfer_plan){.minimum_count = 0};
    struct lists lists = {.plan = plan};
    const struct kvc_transfer_device *device;
    KVC_GUARD(check_flags(flags, err));
    KVC_GUARD(find_device(flags->device, &device, err));
    if (device != &kvc_transfer_cpu && strcmp(flags->clock, "wall") != 0)
        return kvc_fail(err, KVC_EUSAGE,
                        "--clock %s is for the cpu: use --clock wall with --device %s",
                        flags->clock, device->name);
    KVC_GUARD(read_lists(flags, &lists, err));
    const size_t count = lists.layout_count * lists.dtype_count * lists.heads_count *
                         lists.bytes_count * lists.thread_count;
    plan->cases = kvc_alloc_zero(count, sizeof(*plan->cases));
    for (size_t i = 0; i < count; i++)
        KVC_GUARD(make_case(flags, &lists, i, &plan->cases[i], err));
    plan->options = (struct kvc_transfer_options){
        .device = device,
        .cases = plan->cases,
        .case_count = count,
        .operations = plan->operations,
        .repeat = flags->repeat,
        .clock = strcmp(flags->clock, "cpu") == 0 ? KVC_TEAM_CPU : KVC_TEAM_WALL,
    };
    return KVC_OK;
}
