#include <criterion/criterion.h>
#include <string.h>

#include "tests/mock_server/registry.h"

enum { CHUNK = 256 };

/* A contiguous tensor. */
static struct kvc_tensor_handle tensor(const int64_t *shape, size_t rank, int64_t *stride)
{
    int64_t step = 1;
    for (size_t i = rank; i-- > 0;) {
        stride[i] = step;
        step = (int64_t)((uint64_t)step * (uint64_t)shape[i]);
    }
    return (struct kvc_tensor_handle){
        .shm_name = KVC_STR("/none"),
        .nbytes = (int64_t)((uint64_t)step * 2),
        .dtype = KVC_STR("float16"),
        .shape = {shape, rank},
        .stride = {stride, rank},
        .device_uuid = KVC_STR("cpu"),
    };
}

static kvc_status detect(const int64_t *shape, size_t rank, const char *hint,
                         struct kvc_group *group)
{
    int64_t stride[8];
    const struct kvc_tensor_handle handle = tensor(shape, rank, stride);
    const struct kvc_layout_hints hints = {.kv_layout = kvc_str_of(hint)};
    return mock_layout_detect(&handle, &hints, (struct mock_reading){0}, group, NULL);
}

/* protocol.md 6.1 */
Test(layout, follows_from_shape_and_hint)
{
    static const struct {
        int64_t shape[5];
        size_t rank;
        const char *hint;
        enum kvc_layout layout;
        int64_t blocks, slots, heads, head_size;
    } cases[] = {
        {{2, 64, 16, 4, 8}, 5, "NHD", KVC_LAYOUT_NHD, 64, 16, 4, 8},
        {{2, 64, 4, 16, 8}, 5, "HND", KVC_LAYOUT_HND, 64, 16, 4, 8},
        {{2, 64, 4, 16, 8}, 5, "", KVC_LAYOUT_HND, 64, 16, 4, 8},
        {{64, 2, 16, 4, 8}, 5, "NHD", KVC_LAYOUT_FLASHINFER_NHD, 64, 16, 4, 8},
        {{64, 2, 4, 16, 8}, 5, "HND", KVC_LAYOUT_FLASHINFER_HND, 64, 16, 4, 8},
        {{64, 16, 32}, 3, "NHD", KVC_LAYOUT_MLA, 64, 16, 1, 32},
        {{2, 2, 16, 4, 8}, 5, "NHD", KVC_LAYOUT_NHD, 2, 16, 4, 8},
    };
    for (size_t i = 0; i < KVC_COUNT_OF(cases); i++) {
        struct kvc_group group;
        cr_assert_eq(detect(cases[i].shape, cases[i].rank, cases[i].hint, &group), KVC_OK);
        cr_assert_eq(group.layout, cases[i].layout, "case %zu", i);
        cr_assert_eq(group.kv_size, cases[i].rank == 3 ? 1 : 2);
        cr_assert_eq(group.num_blocks, cases[i].blocks);
        cr_assert_eq(group.block_size, cases[i].slots);
        cr_assert_eq(group.num_heads, cases[i].heads);
        cr_assert_eq(group.head_size, cases[i].head_size);
    }
}

Test(layout, shapes_that_are_none_are_refused)
{
    static const int64_t fused[] = {64, 4, 16, 16}, odd[] = {64, 3, 16, 4, 8},
                         empty[] = {2, 0, 16, 4, 8}, negative[] = {2, -64, 16, 4, 8},
                         huge[] = {2, INT64_MAX / 2, INT64_MAX / 2, 4, 8};
    struct kvc_group group;
    cr_assert_neq(detect(fused, 4, "NHD", &group), KVC_OK);
    cr_assert_neq(detect(odd, 5, "NHD", &group), KVC_OK);
    cr_assert_neq(detect(empty, 5, "NHD", &group), KVC_OK);
    cr_assert_neq(detect(negative, 5, "NHD", &group), KVC_OK);
    cr_assert_neq(detect(huge, 5, "NHD", &group), KVC_OK);
}

Test(layout, strides_and_dtype_must_be_what_we_can_read)
{
    static const int64_t shape[] = {64, 16, 32}, transposed[] = {512, 1, 16};
    int64_t stride[3];
    struct kvc_group group;
    const struct kvc_layout_hints hints = {0};
    struct kvc_tensor_handle handle = tensor(shape, 3, stride);
    handle.stride.count = 2;
    cr_assert_neq(mock_layout_detect(&handle, &hints, (struct mock_reading){0}, &group, NULL),
                  KVC_OK);
    handle.stride = (struct kvc_ints){transposed, 3};
    cr_assert_neq(mock_layout_detect(&handle, &hints, (struct mock_reading){0}, &group, NULL),
                  KVC_OK);
    handle = tensor(shape, 3, stride);
    handle.dtype = KVC_STR("float17");
    cr_assert_neq(mock_layout_detect(&handle, &hints, (struct mock_reading){0}, &group, NULL),
                  KVC_OK);
}

/* ---- mapping ---- */

enum { LAYERS = 3 };

/* Three layers of [64, 16, 32] float16, the last with another head size, in one segment. */
struct worker {
    struct kvc_segment segment;
    int64_t shapes[LAYERS][3], strides[LAYERS][3];
    struct kvc_tensor_handle handles[LAYERS];
    struct mock_instance *instance;
};

static void open_worker(struct worker *worker)
{
    char name[96];
    kvc_segment_name("", name, sizeof(name));
    cr_assert_eq(kvc_segment_create(name, 64 * 16 * 32 * 2, &worker->segment, NULL), KVC_OK);
    for (size_t i = 0; i < LAYERS; i++) {
        const int64_t shape[] = {64, 16, i == 2 ? 16 : 32};
        memcpy(worker->shapes[i], shape, sizeof(shape));
        worker->handles[i] = tensor(worker->shapes[i], 3, worker->strides[i]);
        worker->handles[i].shm_name = kvc_str_of(worker->segment.name);
    }
    worker->instance = mock_instance_new(MOCK_LMCACHE_DRIVEN, 1, KVC_STR("m"), 1);
}

static kvc_status map(struct worker *worker, const struct kvc_engine_group_info *infos,
                      size_t info_count)
{
    const struct kvc_tensor_handles handles = {worker->handles, LAYERS};
    const struct kvc_engine_group_infos groups = {infos, info_count};
    const struct kvc_layout_hints hints = {.kv_layout = KVC_STR("NHD")};
    return mock_instance_map(worker->instance, &handles, &hints, &groups, CHUNK,
                             (struct mock_reading){0}, NULL);
}

static void close_worker(struct worker *worker)
{
    mock_instance_free(worker->instance);
    kvc_segment_close(&worker->segment);
}

Test(mapping, layers_of_one_shape_are_one_group)
{
    struct worker worker = {0};
    open_worker(&worker);
    cr_assert_eq(map(&worker, NULL, 0), KVC_OK);
    const struct mock_instance *instance = worker.instance;
    cr_assert_eq(instance->group_count, 2u);
    cr_assert_eq(instance->groups[0].shape.num_layers, 2);
    cr_assert_eq(instance->groups[1].shape.num_layers, 1);
    cr_assert_eq(instance->groups[0].blocks_per_chunk, 16);
    cr_assert_eq(instance->layout.bytes, (2 * 256 * 32 + 256 * 16) * 2);
    close_worker(&worker);
}

Test(mapping, engine_groups_part_what_looks_alike)
{
    static const int64_t a[] = {0, 2}, b[] = {1};
    const struct kvc_engine_group_info infos[] = {
        {.engine_group_id = 0, .layer_indices = {a, 2}, .sw_size_tokens = -1},
        {.engine_group_id = 1, .layer_indices = {b, 1}, .sw_size_tokens = -1},
    };
    struct worker worker = {0};
    open_worker(&worker);
    cr_assert_eq(map(&worker, infos, 2), KVC_OK);
    cr_assert_eq(worker.instance->group_count, 3u);
    close_worker(&worker);
}

Test(mapping, a_layer_in_no_group_is_never_transferred)
{
    static const int64_t a[] = {0};
    const struct kvc_engine_group_info info = {.layer_indices = {a, 1}, .sw_size_tokens = -1};
    struct worker worker = {0};
    open_worker(&worker);
    cr_assert_eq(map(&worker, &info, 1), KVC_OK);
    cr_assert_eq(worker.instance->layout.bytes, 256 * 32 * 2);
    close_worker(&worker);
}

/* protocol.md 6.3: 16 slots hold 32 tokens */
Test(mapping, a_block_may_stand_for_more_tokens_than_it_has_slots)
{
    static const int64_t all[] = {0, 1};
    struct kvc_engine_group_info info = {
        .layer_indices = {all, 2}, .tokens_per_block = 32, .sw_size_tokens = -1};
    struct worker worker = {0};
    open_worker(&worker);
    cr_assert_eq(map(&worker, &info, 1), KVC_OK);
    cr_assert_eq(worker.instance->groups[0].blocks_per_chunk, 8);
    cr_assert_eq(worker.instance->layout.parts[0].tokens, 128);
    close_worker(&worker);
}

static void expect_refused(const struct kvc_engine_group_info *info)
{
    struct worker worker = {0};
    open_worker(&worker);
    cr_assert_neq(map(&worker, info, info != NULL), KVC_OK);
    close_worker(&worker);
}

Test(mapping, groups_that_make_no_sense_are_refused)
{
    static const int64_t beyond[] = {3}, negative[] = {-1}, all[] = {0, 1, 2};
    expect_refused(&(struct kvc_engine_group_info){.layer_indices = {beyond, 1}});
    expect_refused(&(struct kvc_engine_group_info){.layer_indices = {negative, 1}});
    expect_refused(
        &(struct kvc_engine_group_info){.layer_indices = {all, 3}, .tokens_per_block = 24});
    expect_refused(
        &(struct kvc_engine_group_info){.layer_indices = {all, 3}, .tokens_per_block = -16});
    expect_refused(
        &(struct kvc_engine_group_info){.layer_indices = {all, 3}, .tokens_per_block = 160});
    expect_refused(&(struct kvc_engine_group_info){.layer_indices = {NULL, 0}});
}

/* Each way in which one handle can lie about the segment. */
Test(mapping, a_tensor_lies_inside_its_segment_or_is_refused)
{
    for (int lie = 0; lie < 7; lie++) {
        struct worker worker = {0};
        open_worker(&worker);
        struct kvc_tensor_handle *handle = &worker.handles[1];
        switch (lie) {
        case 0:
            handle->nbytes = (int64_t)worker.segment.size + 1;
            break;
        case 1:
            handle->nbytes -= 1;
            break;
        case 2:
            handle->storage_offset = 1;
            break;
        case 3:
            handle->storage_offset = -1;
            break;
        case 4:
            handle->storage_offset = INT64_MAX;
            break;
        case 5:
            handle->shm_name = KVC_STR("/kvconform-there-is-no-such-segment");
            break;
        case 6:
            handle->shm_name.size += 1; /* with its NUL */
            break;
        }
        cr_assert_neq(map(&worker, NULL, 0), KVC_OK, "lie %d", lie);
        close_worker(&worker);
    }
}
