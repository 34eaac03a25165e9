#include <criterion/criterion.h>

#include "src/wire/inline_data.h"
#include "tests/unit/watch/scene.h"

static void start(struct scene *scene, bool has_pool)
{
    scene_open(scene, "0.5.6");
    scene_enroll(scene, has_pool);
}

static void finish(struct scene *scene, const char *expected)
{
    scene_end(scene, "r");
    scene_leave(scene);
    scene_expect(scene, expected);
}

Test(transfers, commit_without_prepare)
{
    struct scene scene;
    start(&scene, true);
    const struct kvc_key key = scene_key("r", 2, 0, 2);
    scene_commit_store(&scene, &key);
    finish(&scene, "commit-without-prepare");
}

Test(transfers, commit_twice)
{
    struct scene scene;
    start(&scene, true);
    const struct kvc_key key = scene_key("r", 2, 0, 2);
    scene_prepare_store(&scene, &key, 2);
    scene_commit_store(&scene, &key);
    scene_commit_store(&scene, &key);
    finish(&scene, "commit-without-prepare");
}

Test(transfers, commit_of_another_window)
{
    struct scene scene;
    start(&scene, true);
    const struct kvc_key key = scene_key("r", 2, 0, 2), other = scene_key("r", 2, 0, 1);
    scene_prepare_store(&scene, &key, 2);
    scene_commit_store(&scene, &other);
    finish(&scene, "commit-without-prepare, store-not-committed");
}

Test(transfers, commit_under_another_request_id_is_right)
{
    struct scene scene;
    start(&scene, true);
    const struct kvc_key key = scene_key("r", 2, 0, 2), other = scene_key("s", 2, 0, 2);
    scene_prepare_store(&scene, &key, 2);
    scene_commit_store(&scene, &other);
    scene_end(&scene, "s");
    finish(&scene, "");
}

Test(transfers, commit_of_a_retrieve_that_was_not_prepared)
{
    struct scene scene;
    start(&scene, true);
    const struct kvc_key key = scene_key("r", 2, 0, 2);
    scene_commit_retrieve(&scene, &key);
    finish(&scene, "commit-without-prepare");
}

Test(transfers, commit_where_no_slot_was_given)
{
    struct scene scene;
    start(&scene, true);
    const struct kvc_key key = scene_key("r", 2, 0, 2);
    scene_prepare_store(&scene, &key, 0);
    scene_commit_store(&scene, &key);
    finish(&scene, "commit-without-slots");
}

Test(transfers, prepared_again_while_pending_the_first_slots_count)
{
    struct scene scene;
    start(&scene, true);
    const struct kvc_key key = scene_key("r", 2, 0, 2);
    scene_prepare_store(&scene, &key, 2);
    scene_prepare_store(&scene, &key, 0);
    scene_commit_store(&scene, &key);
    finish(&scene, "");
}

Test(transfers, store_never_committed)
{
    struct scene scene;
    start(&scene, true);
    const struct kvc_key key = scene_key("r", 2, 0, 2);
    scene_prepare_store(&scene, &key, 2);
    finish(&scene, "store-not-committed");
}

Test(transfers, retrieve_never_committed)
{
    struct scene scene;
    start(&scene, true);
    const struct kvc_key key = scene_key("r", 2, 0, 2);
    scene_look_up(&scene, "r", 2, 2);
    scene_prepare_retrieve(&scene, &key, 2);
    finish(&scene, "retrieve-not-committed");
}

Test(transfers, left_open_by_an_instance_that_leaves)
{
    struct scene scene;
    start(&scene, true);
    const struct kvc_key key = scene_key("r", 2, 0, 2);
    scene_prepare_store(&scene, &key, 2);
    scene_leave(&scene);
    scene_expect(&scene, "store-not-committed, session-not-ended");
}

Test(transfers, forced_clear_while_slots_are_written)
{
    struct scene scene;
    start(&scene, true);
    const struct kvc_key key = scene_key("r", 2, 0, 2);
    struct kvc_request clear = {.op = KVC_OP_CLEAR};
    scene_prepare_store(&scene, &key, 2);
    scene_call(&scene, &clear, &(struct kvc_reply){.op = clear.op});
    clear.force = true;
    scene_call(&scene, &clear, &(struct kvc_reply){.op = clear.op});
    scene_commit_store(&scene, &key);
    finish(&scene, "clear-under-transfer");
}

/* ---- inline ---- */

static struct kvc_bytes tensors(struct kvc_buffer *out, size_t count, int64_t hidden)
{
    static uint8_t data[2 * 2 * CHUNK * 8 * 2];
    static int64_t shape[4];
    struct kvc_inline_tensor items[2];
    shape[0] = 2;
    shape[1] = 2;
    shape[2] = CHUNK;
    shape[3] = hidden;
    for (size_t i = 0; i < count; i++)
        items[i] = (struct kvc_inline_tensor){.dtype = KVC_STR("float16"),
                                              .shape = {shape, 4},
                                              .data = {data, (size_t)(2 * 2 * CHUNK * hidden * 2)}};
    cr_assert_eq(kvc_inline_encode_numpy(items, count, out, NULL), KVC_OK);
    return kvc_buffer_view(out);
}

static void commit_inline(struct scene *scene, struct kvc_bytes data)
{
    const struct kvc_request commit = {
        .op = KVC_OP_COMMIT_STORE, .key = scene_key("r", 2, 0, 2), .instance_id = 1, .data = data};
    scene_call(scene, &commit, &(struct kvc_reply){.op = commit.op, .ok = true});
}

static void store_inline(bool has_pool, size_t count, int64_t hidden, const char *expected)
{
    struct scene scene;
    start(&scene, has_pool);
    struct kvc_buffer data = {0};
    const struct kvc_key key = scene_key("r", 2, 0, 2);
    scene_prepare_store(&scene, &key, has_pool ? 2 : 0);
    commit_inline(&scene, tensors(&data, count, hidden));
    kvc_buffer_clear(&data);
    finish(&scene, expected);
}

Test(inline_transfers, of_the_right_tensors)
{
    store_inline(false, 2, 8, "");
}

Test(inline_transfers, though_there_is_a_pool)
{
    store_inline(true, 2, 8, "inline-despite-pool");
}

Test(inline_transfers, of_too_few_tensors)
{
    store_inline(false, 1, 8, "bad-inline-data");
}

Test(inline_transfers, of_another_shape)
{
    store_inline(false, 2, 4, "bad-inline-data");
}

Test(inline_transfers, of_nothing)
{
    struct scene scene;
    start(&scene, false);
    commit_inline(&scene, (struct kvc_bytes){0});
    finish(&scene, "bad-inline-data");
}

Test(inline_transfers, retrieve_gives_its_locks_back_at_once)
{
    struct scene scene;
    start(&scene, false);
    const struct kvc_key key = scene_key("r", 2, 0, 2);
    scene_look_up(&scene, "r", 2, 2);
    scene_prepare_retrieve(&scene, &key, 0);
    scene_commit_retrieve(&scene, &key);
    finish(&scene, "");
}
