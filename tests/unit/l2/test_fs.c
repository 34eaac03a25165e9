/* fixtures/l2/fs is what the fs adapter of LMCache 0.5.6 wrote. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/l2/store.h"

enum { SIZE = 4096 };

static char *folder;
static struct store store;
static uint8_t data[SIZE], back[SIZE];

static void open_fs(const char *more)
{
    char *json = kvc_format("{\"type\":\"fs\",\"base_path\":\"%s/new/folder\"%s}", folder, more);
    store_open(&store, json);
    free(json);
}

static void set_up(void)
{
    folder = make_folder();
    for (size_t i = 0; i < SIZE; i++)
        data[i] = (uint8_t)(i * 7);
}

static void tear_down(void)
{
    remove_folder(folder);
    free(folder);
}

TestSuite(l2_fs, .init = set_up, .fini = tear_down);

Test(l2_fs, an_object_comes_back)
{
    const struct kvc_l2_key key = bench_key(3);
    open_fs("");
    cr_assert_eq(store_do(&store, KVC_L2_LOOKUP, &key, NULL, 0), KVC_L2_ABSENT);
    cr_assert_eq(store_do(&store, KVC_L2_LOAD, &key, back, SIZE), KVC_L2_ABSENT);
    cr_assert_eq(store_do(&store, KVC_L2_STORE, &key, data, SIZE), KVC_L2_DONE);
    cr_assert_eq(store_do(&store, KVC_L2_LOOKUP, &key, NULL, 0), KVC_L2_DONE);
    cr_assert_eq(store_do(&store, KVC_L2_LOAD, &key, back, SIZE), KVC_L2_DONE);
    cr_assert_arr_eq(back, data, SIZE);
    cr_assert_eq(store_do(&store, KVC_L2_REMOVE, &key, NULL, 0), KVC_L2_DONE);
    cr_assert_eq(store_do(&store, KVC_L2_REMOVE, &key, NULL, 0), KVC_L2_ABSENT);
    cr_assert_eq(store_do(&store, KVC_L2_LOOKUP, &key, NULL, 0), KVC_L2_ABSENT);
    store_close(&store);
}

Test(l2_fs, a_second_store_replaces_the_first)
{
    const struct kvc_l2_key key = bench_key(3);
    open_fs(",\"relative_tmp_dir\":\"tmp\",\"read_ahead_size\":100");
    store_do(&store, KVC_L2_STORE, &key, data, SIZE);
    data[0]++;
    cr_assert_eq(store_do(&store, KVC_L2_STORE, &key, data, SIZE), KVC_L2_DONE);
    cr_assert_eq(store_do(&store, KVC_L2_LOAD, &key, back, SIZE), KVC_L2_DONE);
    cr_assert_arr_eq(back, data, SIZE);
    store_close(&store);
}

Test(l2_fs, another_size_is_no_object_of_this_one)
{
    const struct kvc_l2_key key = bench_key(3);
    open_fs("");
    store_do(&store, KVC_L2_STORE, &key, data, SIZE - 1);
    cr_assert_eq(store_do(&store, KVC_L2_LOAD, &key, back, SIZE), KVC_L2_FAILED);
    cr_assert_not_null(strstr(store.err.what, "4095 bytes, not 4096"), "%s", store.err.what);
    store_do(&store, KVC_L2_STORE, &key, data, SIZE);
    cr_assert_eq(store_do(&store, KVC_L2_LOAD, &key, back, SIZE - 1), KVC_L2_FAILED);
    store_close(&store);
}

Test(l2_fs, a_store_that_does_not_fit_leaves_nothing)
{
    const struct kvc_l2_key key = bench_key(3);
    const struct rlimit small = {SIZE / 2, SIZE / 2};
    open_fs("");
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &small);
    cr_assert_eq(store_do(&store, KVC_L2_STORE, &key, data, SIZE), KVC_L2_FAILED);
    cr_assert_eq(store_do(&store, KVC_L2_LOOKUP, &key, NULL, 0), KVC_L2_ABSENT);
    store_close(&store);
    char *inner = kvc_format("%s/new/folder", folder);
    cr_assert_eq(rmdir(inner), 0, "a file is left in it");
    free(inner);
}

Test(l2_fs, what_lmcache_wrote_is_read)
{
    char *json = kvc_strdup("{\"type\":\"fs\",\"base_path\":\"" L2_FIXTURES "/fs\"}");
    store_open(&store, json);
    for (uint32_t i = 0; i < 3; i++) {
        const struct kvc_l2_key key = bench_key(i);
        memset(back, 0xff, sizeof(back));
        cr_assert_eq(store_do(&store, KVC_L2_LOAD, &key, back, 1024), KVC_L2_DONE, "%s",
                     store.err.what);
        for (size_t at = 0; at < 1024; at++)
            cr_assert_eq(back[at], i, "object %u byte %zu", i, at);
    }
    store_close(&store);
    free(json);
}

Test(l2_fs, o_direct_needs_whole_blocks)
{
    char *json = kvc_format("{\"type\":\"fs\",\"base_path\":\"%s\",\"use_odirect\":true}", folder);
    cr_assert_eq(store_try_open(&store, json, SIZE, 1), KVC_EUSAGE);
    cr_assert_str_eq(store.err.where, "use_odirect");
    kvc_l2_config_clear(&store.config);
    cr_assert_eq(store_try_open(&store, json, SIZE - 1, SIZE), KVC_EUSAGE);
    kvc_l2_config_clear(&store.config);
    free(json);
}

Test(l2_fs, temporary_files_stay_below_the_folder)
{
    static const char *const bad[] = {"/tmp", "..", "a/../..", "../x", "a/.."};
    for (size_t i = 0; i < KVC_COUNT_OF(bad); i++) {
        char *json = kvc_format(
            "{\"type\":\"fs\",\"base_path\":\"%s\",\"relative_tmp_dir\":\"%s\"}", folder, bad[i]);
        cr_assert_eq(store_try_open(&store, json, SIZE, 1), KVC_EUSAGE, "%s", bad[i]);
        cr_assert_str_eq(store.err.where, "relative_tmp_dir");
        kvc_l2_config_clear(&store.config);
        free(json);
    }
}

Test(l2_fs, a_place_that_is_none_is_an_error)
{
    cr_assert_eq(store_try_open(&store, "{\"type\":\"fs\",\"base_path\":\"/dev/null/x\"}", SIZE, 1),
                 KVC_EUSAGE);
    kvc_l2_config_clear(&store.config);
}
