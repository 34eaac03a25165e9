/* Identities against LMCache's own (generate.py); ci/l2-interchange lets its engine read and write. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/l2/blake2b.h"
#include "tests/unit/l2/store.h"

enum { SIZE = 1000, SLOT = 2048, META = 8192 };

static char *folder, *path, *json;
static struct store store;
static uint8_t data[SIZE], back[SIZE];

static const struct {
    const char *model;
    uint32_t kv_rank, group;
    const char *hash, *salt;
    const char *file_name, *name, *encoded;
    uint64_t identity;
} golden[] = {
#include "tests/unit/l2/golden_keys.inc"
};

/* A file for three slots. */
static void set_up(void)
{
    folder = make_folder();
    path = kvc_format("%s/device", folder);
    json = kvc_format("{\"type\":\"raw_block\",\"device_path\":\"%s\",\"slot_bytes\":%d,"
                      "\"meta_total_bytes\":%d,\"block_align\":512,\"header_bytes\":512,"
                      "\"use_odirect\":false}",
                      path, SLOT, META);
    const int file = open(path, O_CREAT | O_WRONLY, 0600);
    cr_assert_eq(ftruncate(file, META + 3 * SLOT), 0);
    close(file);
}

static void tear_down(void)
{
    remove_folder(folder);
    free(folder);
    free(path);
    free(json);
}

TestSuite(l2_raw_block, .init = set_up, .fini = tear_down);

static void open_store(void)
{
    const kvc_status status = store_try_open(&store, json, SIZE, 1);
    cr_assert_eq(status, KVC_OK, "%s: %s", store.err.where, store.err.what);
}

static enum kvc_l2_outcome put(uint32_t index, uint8_t byte)
{
    const struct kvc_l2_key key = bench_key(index);
    memset(data, byte, SIZE);
    return store_do(&store, KVC_L2_STORE, &key, data, SIZE);
}

/* The byte that an object holds throughout; -1: it is not there. */
static int get(uint32_t index)
{
    const struct kvc_l2_key key = bench_key(index);
    memset(back, 0, SIZE);
    if (store_do(&store, KVC_L2_LOAD, &key, back, SIZE) != KVC_L2_DONE)
        return -1;
    for (size_t i = 1; i < SIZE; i++)
        cr_assert_eq(back[i], back[0]);
    return back[0];
}

Test(l2_raw_block, identities_are_those_of_lmcache)
{
    for (size_t i = 0; i < KVC_COUNT_OF(golden); i++) {
        const struct kvc_bytes name = {(const uint8_t *)golden[i].encoded,
                                       strlen(golden[i].encoded)};
        cr_assert_eq(kvc_l2_blake2b_8(name), golden[i].identity, "%s", golden[i].encoded);
    }
}

Test(l2_raw_block, objects_come_back_from_a_store_opened_again)
{
    open_store();
    cr_assert_eq(put(1, 11), KVC_L2_DONE);
    cr_assert_eq(put(2, 22), KVC_L2_DONE);
    cr_assert_eq(get(1), 11);
    cr_assert_eq(get(3), -1);
    store_close(&store);
    open_store();
    cr_assert_eq(get(1), 11);
    cr_assert_eq(get(2), 22);
    const struct kvc_l2_key key = bench_key(1);
    cr_assert_eq(store_do(&store, KVC_L2_REMOVE, &key, NULL, 0), KVC_L2_DONE);
    cr_assert_eq(store_do(&store, KVC_L2_LOOKUP, &key, NULL, 0), KVC_L2_ABSENT);
    store_close(&store);
    open_store();
    cr_assert_eq(get(1), -1);
    cr_assert_eq(get(2), 22);
    store_close(&store);
}

Test(l2_raw_block, a_full_store_says_so_and_slots_are_used_again)
{
    open_store();
    for (uint32_t i = 1; i <= 3; i++)
        cr_assert_eq(put(i, (uint8_t)i), KVC_L2_DONE);
    cr_assert_eq(put(4, 4), KVC_L2_FAILED);
    cr_assert_not_null(strstr(store.err.what, "full"));
    const struct kvc_l2_key key = bench_key(2);
    store_do(&store, KVC_L2_REMOVE, &key, NULL, 0);
    cr_assert_eq(put(4, 4), KVC_L2_DONE);
    cr_assert_eq(get(1), 1);
    cr_assert_eq(get(4), 4);
    store_close(&store);
}

/* Until a checkpoint is written, the last one names the old slot: it must still hold the old object. */
Test(l2_raw_block, what_a_checkpoint_names_is_not_written_over)
{
    open_store();
    put(1, 1);
    store_close(&store);
    const pid_t process = fork();
    if (process == 0) { /* ends without a checkpoint */
        open_store();
        put(1, 2);
        put(1, 3);
        _exit(0);
    }
    waitpid(process, NULL, 0);
    open_store();
    cr_assert_eq(get(1), 1);
    store_close(&store);
}

Test(l2_raw_block, a_slot_of_somebody_else_is_not_taken_for_ours)
{
    open_store();
    put(1, 1);
    put(2, 2);
    store_close(&store);
    const int file = open(path, O_WRONLY);
    cr_assert_eq(pwrite(file, "x", 1, META + 8), 1, "the first slot's identity");
    close(file);
    open_store();
    cr_assert_eq(get(1), -1);
    cr_assert_eq(get(2), 2);
    store_close(&store);
}

Test(l2_raw_block, a_broken_checkpoint_leaves_the_one_before)
{
    open_store();
    put(1, 1);
    store_close(&store); /* at byte 0 */
    open_store();
    put(2, 2);
    store_close(&store); /* at byte 4096 */
    const int file = open(path, O_WRONLY);
    cr_assert_eq(pwrite(file, "x", 1, 4096 + 512 + 20), 1);
    close(file);
    open_store();
    cr_assert_eq(get(1), 1);
    cr_assert_eq(get(2), -1);
    store_close(&store);
}

Test(l2_raw_block, another_layout_is_refused)
{
    open_store();
    put(1, 1);
    store_close(&store);
    char *other = kvc_format("{\"type\":\"raw_block\",\"device_path\":\"%s\",\"slot_bytes\":%d,"
                             "\"meta_total_bytes\":%d,\"block_align\":512,\"header_bytes\":512,"
                             "\"use_odirect\":false}",
                             path, SLOT / 2 + 512, META);
    cr_assert_eq(store_try_open(&store, other, SIZE, 1), KVC_EUSAGE);
    cr_assert_str_eq(store.err.where, "slot_bytes");
    cr_assert_str_eq(store.err.expected, "2048");
    kvc_l2_config_clear(&store.config);
    free(other);
}

Test(l2_raw_block, layouts_that_cannot_be)
{
    static const struct {
        const char *members, *where;
    } bad[] = {
        {"\"slot_bytes\":2048,\"block_align\":48", "block_align"},
        {"\"slot_bytes\":2049,\"block_align\":512,\"header_bytes\":512", "slot_bytes"},
        {"\"slot_bytes\":512,\"block_align\":512,\"header_bytes\":512", "slot_bytes"},
        {"\"slot_bytes\":2048,\"block_align\":512,\"header_bytes\":100", "header_bytes"},
        {"\"slot_bytes\":2048,\"block_align\":512,\"header_bytes\":512,\"meta_total_bytes\":1024",
         "meta_total_bytes"},
        {"\"slot_bytes\":8192,\"meta_magic\":\"short\"", "meta_magic"},
        {"\"slot_bytes\":8192", "device_path"},
        {"\"slot_bytes\":1024,\"block_align\":512,\"header_bytes\":512", "slot_bytes"},
    };
    for (size_t i = 0; i < KVC_COUNT_OF(bad); i++) {
        char *text =
            kvc_format("{\"type\":\"raw_block\",\"device_path\":\"%s\",\"use_odirect\":false,%s}",
                       path, bad[i].members);
        cr_assert_eq(store_try_open(&store, text, SIZE, 1), KVC_EUSAGE, "%s", bad[i].members);
        cr_assert_str_eq(store.err.where, bad[i].where, "%s: %s", bad[i].members, store.err.where);
        kvc_l2_config_clear(&store.config);
        free(text);
    }
}
