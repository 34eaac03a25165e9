#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/mock_server/l2.h"
#include "tests/unit/mock/child.h"

enum { PAGE = MOCK_POOL_ALIGN, RANK = 0x01000100 };

/* "<model>@0x<rank>@<group>@<hash>@<salt>.data", as LMCache 0.5.6 writes it. */
#define FILE_NAME                                                                                  \
    "a-SEP-b@0x01000100@0@0700000000000000000000000000000000000000000000000000000000000000@s.data"

static struct mock_pool pool;
static struct mock_store store;
static struct mock_l2 l2;
static char folder[64], file[256];
static const bool no_defects[MOCK_DEFECT_COUNT];

static void open_below(void)
{
    struct kvc_error err = KVC_ERROR_INIT;
    char json[128];
    strcpy(folder, "/tmp/kvconform-test-XXXXXX");
    cr_assert_not_null(mkdtemp(folder));
    snprintf(file, sizeof(file), "%s/" FILE_NAME, folder);
    snprintf(json, sizeof(json), "{\"type\": \"fs\", \"base_path\": \"%s\"}", folder);
    cr_assert_eq(mock_pool_open(&pool, false, NULL, 4 * PAGE, NULL), KVC_OK);
    mock_store_init(&store, &pool, 1000);
    cr_assert_eq(mock_l2_open(&l2, json, no_defects, &store, &err), KVC_OK, "%s", err.what);
}

static void close_below(void)
{
    mock_store_clear(&store);
    mock_l2_close(&l2);
    mock_pool_close(&pool);
    unlink(file);
    cr_assert_eq(rmdir(folder), 0, "nothing else was written");
}

static struct mock_chunk_layout layout_of(int64_t hidden)
{
    struct mock_chunk_layout layout = {.part_count = 1};
    layout.parts[0] =
        (struct mock_part){2, 2, 16, hidden, kvc_dtype_find(KVC_STR("float16")), false};
    mock_chunk_layout_seal(&layout);
    return layout;
}

static const struct mock_object_key name = {
    .hash = {7}, .model = {"a/b", 3}, .kv_rank = RANK, .salt = {"s", 1}};

/* A page of one byte. */
static void publish(uint8_t byte)
{
    const struct mock_chunk_layout layout = layout_of(32);
    struct mock_object *object = mock_store_reserve(&store, &name, &layout, 0);
    cr_assert_not_null(object);
    memset(mock_object_data(&store, object), byte, PAGE);
    mock_store_publish(&store, object);
}

static struct mock_object *fetch(int64_t hidden)
{
    const struct mock_chunk_layout layout = layout_of(hidden);
    return mock_l2_fetch(&l2, &store, &name, &layout, 0);
}

static void expect_file_of(uint8_t byte)
{
    uint8_t bytes[PAGE + 1];
    const int open_file = open(file, O_RDONLY);
    cr_assert_geq(open_file, 0, "%s", file);
    cr_assert_eq(read(open_file, bytes, sizeof(bytes)), PAGE);
    for (size_t i = 0; i < PAGE; i++)
        cr_assert_eq(bytes[i], byte);
    close(open_file);
}

Test(l2, what_is_published_is_a_file_of_bare_bytes)
{
    open_below();
    publish(0x11);
    expect_file_of(0x11);
    mock_store_clear(&store);
    publish(0x22);
    expect_file_of(0x22);
    close_below();
}

Test(l2, what_was_forgotten_is_fetched_and_not_written_again)
{
    open_below();
    publish(0x11);
    mock_store_clear(&store);
    struct mock_object *object = fetch(32);
    cr_assert_not_null(object);
    cr_assert(object->ready);
    cr_assert_eq(mock_object_data(&store, object)[PAGE - 1], 0x11);
    mock_store_clear(&store);
    unlink(file);
    cr_assert_null(fetch(32));
    cr_assert_eq(store.count, 0);
    close_below();
}

Test(l2, a_file_of_another_size_is_no_chunk)
{
    open_below();
    publish(0x11);
    mock_store_clear(&store);
    cr_assert_null(fetch(16));
    cr_assert_null(fetch(64));
    cr_assert_eq(truncate(file, PAGE - 1), 0);
    cr_assert_null(fetch(32));
    cr_assert_eq(pool.used, 0, "its room is given back");
    close_below();
}

Test(l2, a_json_that_is_none_is_a_wrong_use)
{
    static const struct {
        const char *json, *where;
    } cases[] = {{"{\"type\": \"no\"}", "--l2-adapter: type"},
                 {"{\"type\": \"fs\"}", "--l2-adapter: base_path"},
                 {"no", "--l2-adapter"}};
    for (size_t i = 0; i < KVC_COUNT_OF(cases); i++) {
        struct kvc_error err = KVC_ERROR_INIT;
        const struct kvc_mock_options options = {.bind = "tcp://127.0.0.1:0",
                                                 .l2_adapter = cases[i].json,
                                                 .no_pool = true,
                                                 .ready_fd = -1,
                                                 .stop_fd = -1};
        cr_assert_eq(kvc_mock_run(&options, &err), KVC_EUSAGE);
        cr_assert_str_eq(err.where, cases[i].where);
    }
}
