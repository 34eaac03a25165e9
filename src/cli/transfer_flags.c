#include "src/cli/transfer_flags.h"

#include <stddef.h>
#include <string.h>

#include "src/bench/machine.h"
#include "src/cli/transfer_lists.h"

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
static kvc_status make_case(const struct kvc_transfer_flags *flags,
                            const struct kvc_transfer_lists *lists, size_t index,
                            struct kvc_transfer_case *made, struct kvc_error *err)
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
    struct kvc_error why = KVC_ERROR_INIT;
    *device = kvc_transfer_device_find(name);
    if (*device != NULL) {
        if ((*device)->device->probe(NULL, &why) == KVC_OK)
            return KVC_OK;
        return kvc_fail(err, KVC_EUSAGE, "--device %s: %s", name, why.what);
    }
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
    struct kvc_transfer_lists lists = {.plan = plan};
    const struct kvc_transfer_device *device;
    KVC_GUARD(check_flags(flags, err));
    KVC_GUARD(find_device(flags->device, &device, err));
    if (device != &kvc_transfer_cpu && strcmp(flags->clock, "wall") != 0)
        return kvc_fail(err, KVC_EUSAGE,
                        "--clock %s is for the cpu: use --clock wall with --device %s",
                        flags->clock, device->name);
    KVC_GUARD(kvc_transfer_lists_read(flags, &lists, err));
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
