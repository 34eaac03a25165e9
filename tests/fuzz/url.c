/* Server addresses. What is accepted must come back from the text that its parts make. */
#include <stdlib.h>
#include <string.h>

#include "src/link/url.h"
#include "tests/fuzz/fuzz.h"

static char *write_url(const struct kvc_url *url)
{
    if (url->is_ipc)
        return kvc_format("ipc://%s", url->path);
    return kvc_format(url->is_ipv6 ? "tcp://[%s]:%d" : "tcp://%s:%d", url->host, url->port);
}

static void parse(const char *text, enum kvc_url_use use)
{
    struct kvc_url url, again;
    struct kvc_error err = KVC_ERROR_INIT;
    if (kvc_url_parse(text, use, &url, &err) != KVC_OK) {
        FUZZ_REQUIRE(err.status == KVC_EUSAGE && err.what[0] != '\0');
        FUZZ_REQUIRE(strpbrk(err.what, "\n\r\x1b\x7f") == NULL);
        return;
    }
    FUZZ_REQUIRE(url.port >= 0 && url.port <= 65535);
    FUZZ_REQUIRE(use == KVC_URL_BIND || url.is_ipc || url.port > 0);
    char *written = write_url(&url);
    FUZZ_REQUIRE(kvc_url_parse(written, use, &again, NULL) == KVC_OK);
    FUZZ_REQUIRE(again.is_ipc == url.is_ipc && again.is_ipv6 == url.is_ipv6 &&
                 again.port == url.port && strcmp(again.host, url.host) == 0 &&
                 strcmp(again.path, url.path) == 0);
    free(written);
}

void fuzz_one(struct kvc_bytes input)
{
    char *text = fuzz_text(input);
    parse(text, KVC_URL_CONNECT);
    parse(text, KVC_URL_BIND);
    free(text);
}
