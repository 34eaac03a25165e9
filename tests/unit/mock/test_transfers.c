#include <criterion/criterion.h>
#include <string.h>

#include "tests/mock_server/transfers.h"

enum { INSTANCE = 7, LEASE_MS = 100 };

static struct mock_pool pool;
static struct mock_store store;
static struct mock_transfers transfers;

static const int64_t tokens[] = {1, 2, 3, 4};

static struct kvc_key a_key(const char *request_id)
{
    return (struct kvc_key){
        .model_name = KVC_STR("m"),
        .world_size = 2,
        .worker_id = KVC_SOME_INT(1),
        .token_ids = {tokens, 4},
        .end = 4,
        .request_id = kvc_str_of(request_id),
        .cache_salt = KVC_STR("s"),
    };
}

/* Begins a transfer that has one reserved object. */
static struct mock_transfer *begin(enum mock_transfer_kind kind)
{
    cr_assert_eq(mock_pool_open(&pool, false, NULL, 65536, NULL), KVC_OK);
    mock_store_init(&store, &pool, 1000);
    struct mock_chunk_layout layout = {.part_count = 1};
    layout.parts[0] = (struct mock_part){1, 1, 4, 4, kvc_dtype_find(KVC_STR("uint8")), true};
    mock_chunk_layout_seal(&layout);
    struct mock_object **objects = kvc_alloc(sizeof(*objects));
    objects[0] = mock_store_reserve(&store, &(struct mock_object_key){.kv_rank = 1}, &layout, 0);
    const struct kvc_key key = a_key("r");
    return mock_transfer_begin(&transfers, kind, INSTANCE, &key, objects, 1, LEASE_MS);
}

static void expect(bool visible, size_t objects, bool under_way)
{
    const struct mock_object *object = TAILQ_FIRST(&store.by_use);
    cr_assert_eq(store.count, objects);
    cr_assert_eq(object != NULL && object->ready, visible);
    cr_assert_eq(!LIST_EMPTY(&transfers.list), under_way);
    mock_transfers_drop_all(&transfers, &store);
    mock_store_clear(&store);
    mock_pool_close(&pool);
}

Test(transfers, match_by_everything_but_the_request)
{
    begin(MOCK_PREPARED_STORE);
    const struct kvc_key same = a_key("another request");
    cr_assert_not_null(mock_transfer_find(&transfers, MOCK_PREPARED_STORE, INSTANCE, &same));
    cr_assert_null(mock_transfer_find(&transfers, MOCK_PREPARED_STORE, INSTANCE + 1, &same));
    cr_assert_null(mock_transfer_find(&transfers, MOCK_PREPARED_RETRIEVE, INSTANCE, &same));
    struct kvc_key others[7];
    for (size_t i = 0; i < 7; i++)
        others[i] = same;
    others[0].model_name = KVC_STR("n");
    others[1].world_size = 3;
    others[2].worker_id = KVC_SOME_INT(0);
    others[3].token_ids.count = 3;
    others[4].start = 1;
    others[5].end = 3;
    others[6].cache_salt = KVC_STR("");
    for (size_t i = 0; i < 7; i++)
        cr_assert_null(mock_transfer_find(&transfers, MOCK_PREPARED_STORE, INSTANCE, &others[i]),
                       "%zu", i);
    expect(false, 1, true);
}

Test(transfers, a_published_one_is_visible)
{
    mock_transfer_publish(begin(MOCK_PREPARED_STORE), &store);
    expect(true, 1, false);
}

Test(transfers, a_dropped_one_is_gone)
{
    mock_transfer_drop(begin(MOCK_PREPARED_STORE), &store);
    expect(false, 0, false);
}

Test(transfers, a_lease_that_runs_out_drops_what_was_reserved)
{
    begin(MOCK_PREPARED_STORE);
    mock_transfers_expire(&transfers, &store, LEASE_MS - 1, false);
    cr_assert_eq(mock_transfers_next_ms(&transfers), LEASE_MS);
    mock_transfers_expire(&transfers, &store, LEASE_MS, false);
    expect(false, 0, false);
}

Test(transfers, a_store_is_visible_at_its_end)
{
    begin(MOCK_STORED);
    mock_transfers_expire(&transfers, &store, LEASE_MS, false);
    expect(true, 1, false);
}

Test(transfers, a_store_is_visible_when_its_session_ends)
{
    begin(MOCK_STORED);
    mock_transfers_end_session(&transfers, &store, KVC_STR("another"), false);
    cr_assert_not(TAILQ_FIRST(&store.by_use)->ready);
    mock_transfers_end_session(&transfers, &store, KVC_STR("r"), false);
    expect(true, 1, false);
}

Test(transfers, a_worker_that_leaves_takes_what_it_was_writing)
{
    begin(MOCK_PREPARED_STORE);
    mock_transfers_leave(&transfers, &store, INSTANCE + 1, false);
    cr_assert_not(LIST_EMPTY(&transfers.list));
    mock_transfers_leave(&transfers, &store, INSTANCE, false);
    expect(false, 0, false);
}

Test(transfers, a_worker_that_leaves_does_not_take_what_it_has_stored)
{
    begin(MOCK_STORED);
    mock_transfers_leave(&transfers, &store, INSTANCE, false);
    expect(false, 1, true);
}
