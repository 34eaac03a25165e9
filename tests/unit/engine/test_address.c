#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "src/engine/client.h"

Test(address, what_a_user_may_write)
{
    static const struct {
        const char *text;
        bool with_v1;
        const char *url;
    } good[] = {
        {"http://localhost:8000", true, "http://localhost:8000/v1"},
        {"http://localhost:8000/", true, "http://localhost:8000/v1"},
        {"http://localhost:8000/v1", true, "http://localhost:8000/v1"},
        {"http://localhost:8000/v1//", true, "http://localhost:8000/v1"},
        {"https://api.example.com/openai", true, "https://api.example.com/openai/v1"},
        {"HTTP://h", true, "HTTP://h/v1"},
        {"localhost:8000", true, "http://localhost:8000/v1"},
        {"8000", true, "http://localhost:8000/v1"},
        {"8080", false, "http://localhost:8080"},
        {"[::1]:8000", false, "http://[::1]:8000"},
    };
    for (size_t i = 0; i < KVC_COUNT_OF(good); i++) {
        char *url = NULL;
        cr_assert_eq(kvc_engine_base_url(good[i].text, good[i].with_v1, &url, NULL), KVC_OK, "%s",
                     good[i].text);
        cr_assert_str_eq(url, good[i].url);
        free(url);
    }
}

Test(address, what_is_none)
{
    static const char *const bad[] = {
        "",    "http://",       "ftp://h",    "http://h:port",   "http://h:99999",
        "a b", "http://h/?x=1", "http://h\n", "http://\xc3\xa4",
    };
    for (size_t i = 0; i < KVC_COUNT_OF(bad); i++) {
        char *url = NULL;
        struct kvc_error err = KVC_ERROR_INIT;
        cr_assert_eq(kvc_engine_base_url(bad[i], true, &url, &err), KVC_EUSAGE, "%s", bad[i]);
        cr_assert_null(url);
        cr_assert_not_null(strstr(err.what, "is no HTTP address"));
    }
}

Test(address, keys)
{
    cr_assert_eq(kvc_engine_check_api_key(NULL, NULL), KVC_OK);
    cr_assert_eq(kvc_engine_check_api_key("sk-abc_1", NULL), KVC_OK);
    cr_assert_eq(kvc_engine_check_api_key("sk\r\nX: y", NULL), KVC_EUSAGE);
    cr_assert_eq(kvc_engine_check_api_key("a b", NULL), KVC_EUSAGE);
}
