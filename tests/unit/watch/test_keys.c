#include <criterion/criterion.h>

#include "tests/unit/watch/scene.h"

/* A store with that key is what `expected` says, in either mode. */
static void store_with(struct kvc_key key, const char *expected)
{
    struct scene scene;
    for (int mapped = 0; mapped < 2; mapped++) {
        scene_open(&scene, "0.5.6");
        if (mapped) {
            scene_enroll_mapped(&scene);
            scene_transfer(&scene, KVC_OP_STORE, &key);
        } else {
            scene_enroll(&scene, true);
            scene_prepare_store(&scene, &key, 0);
        }
        scene_end(&scene, "r");
        if (mapped)
            scene_leave_mapped(&scene);
        else
            scene_leave(&scene);
        scene_expect(&scene, expected);
    }
}

Test(keys, without_worker)
{
    struct kvc_key key = scene_key("r", 2, 0, 2);
    key.worker_id = KVC_NIL_INT;
    store_with(key, "no-worker");
}

Test(keys, of_a_worker_that_the_world_does_not_have)
{
    struct kvc_key key = scene_key("r", 2, 0, 2);
    key.worker_id = KVC_SOME_INT(1);
    store_with(key, "no-worker");
}

Test(keys, that_begin_inside_a_chunk)
{
    struct kvc_key key = scene_key("r", 2, 0, 2);
    key.start = CHUNK / 2;
    store_with(key, "unaligned-window");
}

Test(keys, that_end_inside_a_chunk)
{
    struct kvc_key key = scene_key("r", 2, 0, 2);
    key.end = CHUNK + 1;
    store_with(key, "unaligned-window");
}

Test(keys, of_no_chunk)
{
    store_with(scene_key("r", 2, 1, 1), "empty-window");
    store_with(scene_key("r", 2, -1, 1), "empty-window");
}

Test(keys, that_end_behind_the_tokens)
{
    struct kvc_key key = scene_key("r", 2, 0, 2);
    key.token_ids.count = CHUNK;
    store_with(key, "end-beyond-tokens");
}

Test(keys, with_a_token_that_does_not_fit)
{
    static int64_t tokens[CHUNK];
    struct kvc_key key = scene_key("r", 1, 0, 1);
    key.token_ids.items = tokens;
    tokens[3] = -1;
    store_with(key, "token-range");
    tokens[3] = (int64_t)1 << 32;
    store_with(key, "token-range");
}

Test(keys, of_another_model_or_world_than_the_instance)
{
    struct kvc_key key = scene_key("r", 1, 0, 1);
    key.model_name = KVC_STR("n");
    store_with(key, "other-model");
    key = scene_key("r", 1, 0, 1);
    key.world_size = 2;
    store_with(key, "other-model");
}

Test(keys, of_another_sequence_under_the_same_request)
{
    struct scene scene;
    scene_open(&scene, "0.5.6");
    scene_enroll_mapped(&scene);
    const struct kvc_key first = scene_key("r", 2, 0, 2);
    struct kvc_key second = first;
    second.token_ids.items++;
    second.token_ids.count = CHUNK;
    second.end = CHUNK;
    scene_transfer(&scene, KVC_OP_STORE, &first);
    scene_transfer(&scene, KVC_OP_STORE, &second);
    scene_transfer(&scene, KVC_OP_STORE, &second);
    scene_end(&scene, "r");
    scene_transfer(&scene, KVC_OP_STORE, &first);
    scene_end(&scene, "r");
    scene_leave_mapped(&scene);
    scene_expect(&scene, "request-id-reused");
}

/* ---- lookups ---- */

static void look_up_with(struct kvc_key key, const char *release, const char *expected)
{
    struct scene scene;
    scene_open(&scene, release);
    scene_enroll_mapped(&scene);
    const struct kvc_request lookup = {.op = KVC_OP_LOOKUP, .key = key, .tp_size = 1};
    scene_ask(&scene, &lookup);
    scene.now_ms = 10000;
    scene_end(&scene, "r");
    scene_leave_mapped(&scene);
    scene_expect(&scene, expected);
}

Test(lookup_keys, without_readers_where_they_are_needed)
{
    struct kvc_key key = scene_key("r", 1, 0, 1);
    key.num_kv_readers = 0;
    look_up_with(key, "0.5.6", "no-kv-readers");
    look_up_with(key, "0.5.4", "");
}

Test(lookup_keys, of_a_model_that_nobody_serves)
{
    struct kvc_key key = scene_key("r", 1, 0, 1);
    key.model_name = KVC_STR("n");
    look_up_with(key, "0.5.6", "model-not-registered");
}

Test(lookup_keys, with_a_token_that_does_not_fit)
{
    static const int64_t tokens[] = {(int64_t)1 << 40};
    struct kvc_key key = scene_key("r", 1, 0, 1);
    key.token_ids = (struct kvc_ints){tokens, 1};
    look_up_with(key, "0.5.6", "token-range");
}

Test(lookup_keys, may_be_of_less_than_a_chunk_and_end_anywhere)
{
    struct kvc_key key = scene_key("r", 1, 0, 1);
    key.token_ids.count = 3;
    look_up_with(key, "0.5.6", "");
}

/* ---- block ids ---- */

static void store_blocks(const struct kvc_int_lists *lists, const char *expected)
{
    struct scene scene;
    scene_open(&scene, "0.5.6");
    scene_enroll_mapped(&scene);
    const struct kvc_key key = scene_key("r", 1, 0, 1);
    struct kvc_request store = scene_mapped(KVC_OP_STORE, &key);
    store.block_ids = *lists;
    scene_call(&scene, &store, &(struct kvc_reply){.op = store.op});
    scene_end(&scene, "r");
    scene_leave_mapped(&scene);
    scene_expect(&scene, expected);
}

static void store_list(const int64_t *ids, size_t count, const char *expected)
{
    const struct kvc_ints list = {ids, count};
    store_blocks(&(struct kvc_int_lists){&list, 1}, expected);
}

Test(blocks, wrong_ids)
{
    store_list((const int64_t[]){7, 3, 0, 3}, 4, "");
    store_list((const int64_t[]){7, 3, 0}, 3, "too-few-blocks");
    store_list((const int64_t[]){7, 3, 0, 1, 2}, 5, "too-many-blocks");
    store_list((const int64_t[]){7, 3, 0, 8}, 4, "block-out-of-range");
    store_list((const int64_t[]){7, 3, 0, -1}, 4, "block-out-of-range");
}

Test(blocks, wrong_number_of_lists)
{
    static const int64_t ids[] = {0, 1, 2, 3};
    static const struct kvc_ints lists[] = {{ids, 4}, {ids, 4}};
    store_blocks(&(struct kvc_int_lists){lists, 2}, "block-lists");
    store_blocks(&(struct kvc_int_lists){lists, 0}, "block-lists");
}

/* Two layers of MLA and two of K and V: two lists, whose blocks have other numbers of tokens. */
static void store_two_groups(struct kvc_engine_group_infos infos, size_t second_count,
                             const char *expected)
{
    static const int64_t mla[] = {8, 4, 8}, mla_stride[] = {32, 8, 1};
    static const int64_t kv[] = {2, 6, 2, 8, 8}, kv_stride[] = {768, 128, 64, 8, 1};
    static const int64_t ids[] = {0, 1, 2, 3, 4};
    struct kvc_tensor_handle handles[3] = {
        {.shape = {mla, 3}, .stride = {mla_stride, 3}, .nbytes = 512},
        {.shape = {kv, 5}, .stride = {kv_stride, 5}, .nbytes = 3072},
        {.shape = {mla, 3}, .stride = {mla_stride, 3}, .nbytes = 512},
    };
    struct scene scene;
    scene_open(&scene, "0.5.6");
    const struct kvc_request enroll = {.op = KVC_OP_REGISTER_KV_CACHE,
                                       .instance_id = 1,
                                       .handles = {handles, 3},
                                       .model_name = KVC_STR("m"),
                                       .world_size = 1,
                                       .engine_type = KVC_STR("vllm"),
                                       .layout_hints = {.kv_layout = KVC_STR("HND")},
                                       .groups = infos};
    for (int i = 0; i < 3; i++) {
        handles[i].shm_name = KVC_STR("/s");
        handles[i].dtype = KVC_STR("float16");
        handles[i].device_uuid = KVC_STR("cpu");
    }
    scene_call(&scene, &enroll, &(struct kvc_reply){.op = enroll.op});
    const struct kvc_key key = scene_key("r", 1, 0, 1);
    const struct kvc_ints lists[] = {{ids, 4}, {ids, second_count}};
    struct kvc_request store = scene_mapped(KVC_OP_STORE, &key);
    store.block_ids = (struct kvc_int_lists){lists, 2};
    scene_call(&scene, &store, &(struct kvc_reply){.op = store.op});
    scene_end(&scene, "r");
    scene_leave_mapped(&scene);
    scene_expect(&scene, expected);
}

Test(blocks, each_group_has_its_own_number)
{
    const struct kvc_engine_group_infos none = {0};
    store_two_groups(none, 2, "");
    store_two_groups(none, 4, "too-many-blocks");
    store_two_groups(none, 1, "too-few-blocks");
}

Test(blocks, of_more_tokens_than_the_tensor_has_slots)
{
    static const int64_t first[] = {0, 2}, second[] = {1};
    const struct kvc_engine_group_info infos[] = {
        {.engine_group_id = 0, .layer_indices = {first, 2}, .sw_size_tokens = -1},
        {.engine_group_id = 1,
         .layer_indices = {second, 1},
         .tokens_per_block = 16,
         .sw_size_tokens = -1},
    };
    store_two_groups((struct kvc_engine_group_infos){infos, 2}, 1, "");
    store_two_groups((struct kvc_engine_group_infos){infos, 2}, 2, "too-many-blocks");
}
