#include <criterion/criterion.h>
#include <string.h>

#include "src/l2/l2.h"

static void expect_refused(const char *json, const char *where, const char *expected)
{
    struct kvc_l2_config config;
    struct kvc_error err = KVC_ERROR_INIT;
    cr_assert_eq(kvc_l2_config_parse(json, &config, &err), KVC_EUSAGE, "%s", json);
    cr_assert_str_eq(err.where, where, "%s: %s", json, err.where);
    cr_assert_not_null(strstr(err.expected, expected), "%s: %s", json, err.expected);
    kvc_l2_config_clear(&config);
}

Test(l2_config, what_is_wrong_is_named)
{
    expect_refused("", "", "\"type\"");
    expect_refused("{", "", "\"type\"");
    expect_refused("[]", "", "\"type\"");
    expect_refused("{}", "type", "fs, raw_block, s3, mock, defective");
    expect_refused("{\"type\":7}", "type", "fs, raw_block, s3, mock, defective");
    expect_refused("{\"type\":\"nfs\"}", "type", "fs, raw_block, s3, mock, defective");
    expect_refused("{\"type\":\"fs\"}", "base_path", "folder");
    expect_refused("{\"type\":\"fs\",\"base_path\":\"\"}", "base_path", "folder");
    expect_refused("{\"type\":\"fs\",\"base_path\":null}", "base_path", "folder");
    expect_refused("{\"type\":\"fs\",\"base_path\":\"/x\",\"use_odirect\":1}", "use_odirect",
                   "true or false");
    expect_refused("{\"type\":\"fs\",\"base_path\":\"/x\",\"read_ahead_size\":0}",
                   "read_ahead_size", "at least 1");
    expect_refused("{\"type\":\"fs\",\"base_path\":\"/x\",\"read_ahead_size\":1.5}",
                   "read_ahead_size", "at least 1");
    expect_refused("{\"type\":\"fs\",\"base_path\":\"/x\",\"path\":\"/y\"}", "path",
                   "base_path, relative_tmp_dir, read_ahead_size, use_odirect");
    expect_refused("{\"type\":\"fs\",\"base_path\":\"/x\",\"serde\":{\"type\":\"fp8\"}}", "serde",
                   "null");
    expect_refused("{\"type\":\"mock\",\"max_size_gb\":0,\"mock_bandwidth_gb\":1}", "max_size_gb",
                   "above 0");
    expect_refused("{\"type\":\"fs\",\"base_path\":\"/x\",\"base_path\":\"/y\"}", "", "\"type\"");
}

Test(l2_config, what_lmcache_takes_is_taken)
{
    static const char *const good[] = {
        "{\"type\":\"fs\",\"base_path\":\"/x\",\"relative_tmp_dir\":\"tmp\","
        "\"read_ahead_size\":null,\"use_odirect\":false}",
        "{\"type\":\"fs\",\"base_path\":\"/x\",\"persist_enabled\":true,\"shared\":false,"
        "\"affinity_tag\":\"t\",\"eviction\":{\"eviction_policy\":\"LRU\"},\"serde\":null}",
        "{\"type\":\"mock\",\"max_size_gb\":1,\"mock_bandwidth_gb\":0.5}",
    };
    for (size_t i = 0; i < KVC_COUNT_OF(good); i++) {
        struct kvc_l2_config config;
        struct kvc_error err = KVC_ERROR_INIT;
        cr_assert_eq(kvc_l2_config_parse(good[i], &config, &err), KVC_OK, "%s", err.what);
        cr_assert_str_eq(config.shown, good[i]);
        kvc_l2_config_clear(&config);
    }
}
