#include <criterion/criterion.h>
#include <string.h>

#include "tests/mock_server/store.h"

enum { READ_TTL_MS = 1000, PAGE = MOCK_POOL_ALIGN };

static struct mock_pool pool;
static struct mock_store store;

static void open_store(int64_t pages)
{
    cr_assert_eq(mock_pool_open(&pool, false, NULL, pages * PAGE, NULL), KVC_OK);
    mock_store_init(&store, &pool, READ_TTL_MS);
}

static void close_store(void)
{
    mock_store_clear(&store);
    cr_assert_eq(pool.used, 0, "every object's memory is given back");
    mock_pool_close(&pool);
}

/* One page: [2 kv, 2 layers, 16 tokens, 32 elements] of float16. */
static struct mock_chunk_layout one_page(void)
{
    struct mock_chunk_layout layout = {.part_count = 1};
    layout.parts[0] = (struct mock_part){2, 2, 16, 32, kvc_dtype_find(KVC_STR("float16")), false};
    mock_chunk_layout_seal(&layout);
    cr_assert_eq(layout.bytes, PAGE);
    return layout;
}

static struct mock_object_key key(uint8_t hash, const char *model, int64_t rank, const char *salt)
{
    return (struct mock_object_key){
        .hash = {hash}, .model = kvc_str_of(model), .kv_rank = rank, .salt = kvc_str_of(salt)};
}

static struct mock_object *put(uint8_t hash, int64_t now_ms)
{
    const struct mock_chunk_layout layout = one_page();
    const struct mock_object_key name = key(hash, "m", 1, "");
    struct mock_object *object = mock_store_reserve(&store, &name, &layout, now_ms);
    if (object != NULL)
        mock_store_publish(&store, object);
    return object;
}

static bool has(uint8_t hash)
{
    const struct mock_object_key name = key(hash, "m", 1, "");
    return mock_store_find(&store, &name) != NULL;
}

Test(store, hash_model_rank_and_salt_tell_objects_apart)
{
    open_store(8);
    const struct mock_chunk_layout layout = one_page();
    const struct mock_object_key names[] = {key(1, "m", 1, ""), key(2, "m", 1, ""),
                                            key(1, "n", 1, ""), key(1, "m", 2, ""),
                                            key(1, "m", 1, "s")};
    struct mock_object *objects[5];
    for (size_t i = 0; i < 5; i++) {
        cr_assert_null(mock_store_find(&store, &names[i]));
        objects[i] = mock_store_reserve(&store, &names[i], &layout, 0);
    }
    for (size_t i = 0; i < 5; i++)
        cr_assert_eq(mock_store_find(&store, &names[i]), objects[i]);
    cr_assert_eq(store.count, 5u);
    close_store();
}

Test(store, the_least_recently_used_makes_room)
{
    open_store(3);
    struct mock_object *first = put(1, 0);
    put(2, 0);
    put(3, 0);
    mock_store_touch(&store, first);
    cr_assert_not_null(put(4, 0));
    cr_assert(has(1) && !has(2) && has(3) && has(4));
    close_store();
}

Test(store, locked_and_reserved_objects_stay)
{
    open_store(2);
    struct mock_holder holder = {0};
    const struct mock_chunk_layout layout = one_page();
    const struct mock_object_key reserved = key(2, "m", 1, "");
    mock_store_lock(&store, put(1, 0), &holder, 1, 0);
    mock_store_reserve(&store, &reserved, &layout, 0);
    cr_assert_null(put(3, 0));
    cr_assert_not(mock_store_could_fit(&store, &layout, 1, 0));
    mock_holder_release(&holder);
    cr_assert(mock_store_could_fit(&store, &layout, 1, 0));
    cr_assert_not(mock_store_could_fit(&store, &layout, 2, 0));
    cr_assert_not_null(put(3, 0));
    close_store();
}

Test(store, locks_are_counted_whoever_holds_them)
{
    open_store(1);
    struct mock_holder a = {0}, b = {0};
    struct mock_object *object = put(1, 0);
    mock_store_lock(&store, object, &a, 3, 0);
    mock_store_lock(&store, object, &b, 1, 0);
    cr_assert_eq(mock_object_locks(object, 0), 4);
    mock_object_unlock(object, &a);
    cr_assert_eq(mock_object_lock_of(object, &a)->count, 2);
    mock_holder_release(&a);
    cr_assert_eq(mock_object_locks(object, 0), 1);
    mock_object_unlock(object, &a);
    cr_assert_eq(mock_object_locks(object, 0), 0, "one that holds none uses another's");
    mock_object_unlock(object, &b);
    cr_assert_eq(mock_object_locks(object, 0), 0, "never below none");
    close_store();
}

Test(store, a_lock_is_handed_over)
{
    open_store(1);
    struct mock_holder session = {0}, transfer = {0};
    struct mock_object *object = put(1, 0);
    mock_store_lock(&store, object, &session, 1, 0);
    mock_object_pass_lock(object, &session, &transfer);
    mock_holder_release(&session);
    cr_assert_eq(mock_object_locks(object, 0), 1);
    mock_holder_release(&transfer);
    cr_assert_eq(mock_object_locks(object, 0), 0);
    close_store();
}

Test(store, a_lease_runs_out_for_all_locks_and_each_new_lock_restarts_it)
{
    open_store(1);
    struct mock_holder a = {0}, b = {0};
    struct mock_object *object = put(1, 0);
    mock_store_lock(&store, object, &a, 1, 0);
    mock_store_lock(&store, object, &b, 1, READ_TTL_MS - 1);
    cr_assert_eq(mock_object_locks(object, READ_TTL_MS), 2);
    cr_assert_eq(mock_object_locks(object, 2 * READ_TTL_MS - 1), 0);
    cr_assert(LIST_EMPTY(&a.locks) && LIST_EMPTY(&b.locks));
    close_store();
}

Test(store, an_object_that_goes_takes_its_locks_along)
{
    open_store(1);
    struct mock_holder holder = {0};
    struct mock_object *object = put(1, 0);
    mock_store_lock(&store, object, &holder, 2, 0);
    mock_store_remove(&store, object);
    cr_assert(LIST_EMPTY(&holder.locks));
    close_store();
}

Test(store, eviction_takes_a_share_of_the_oldest)
{
    open_store(10);
    for (uint8_t i = 0; i < 10; i++)
        put(i, 0);
    mock_store_evict(&store, 0.2, 0);
    cr_assert_eq(store.count, 8u);
    cr_assert(!has(0) && !has(1) && has(2));
    close_store();
}

Test(store, layouts_that_cannot_be_have_no_size)
{
    struct mock_chunk_layout layout = one_page();
    layout.parts[0].layers = 0;
    mock_chunk_layout_seal(&layout);
    cr_assert_eq(layout.bytes, 0);
    layout.parts[0].layers = -2;
    mock_chunk_layout_seal(&layout);
    cr_assert_eq(layout.bytes, 0);
    layout.parts[0].layers = INT64_MAX / 3;
    mock_chunk_layout_seal(&layout);
    cr_assert_eq(layout.bytes, 0);
}
