#include "src/link/url.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "src/base/bytes.h"

#define TCP_PREFIX "tcp://"
#define IPC_PREFIX "ipc://"

enum { EXPLAIN_LIMIT_MS = 500, MAX_SHOWN = 120 };

static kvc_status refuse(struct kvc_error *err, const char *text, const char *problem)
{
    struct kvc_buffer shown = {0};
    kvc_text_escape((struct kvc_str){text, strnlen(text, MAX_SHOWN)}, &shown);
    const kvc_status status = kvc_fail(err, KVC_EUSAGE, "\"%s\" is no server address: %s",
                                       kvc_buffer_text(&shown), problem);
    kvc_buffer_clear(&shown);
    return kvc_error_set_expected(err, "tcp://HOST:PORT or ipc://PATH"), status;
}

/* Reads a port; -1 when it is none. */
static int parse_port(const char *text, enum kvc_url_use use)
{
    if (use == KVC_URL_BIND && strcmp(text, "*") == 0)
        return 0;
    const size_t digits = strspn(text, "0123456789");
    if (digits == 0 || digits > 5 || text[digits] != '\0')
        return -1;
    const int port = atoi(text);
    const int lowest = use == KVC_URL_BIND ? 0 : 1;
    return port >= lowest && port <= 65535 ? port : -1;
}

static bool is_host(const char *host, size_t size, bool is_ipv6)
{
    for (size_t i = 0; i < size; i++) {
        const unsigned char c = (unsigned char)host[i];
        const bool plain = isalnum(c) || c == '.' || c == '-' || c == '_';
        if (!plain && !(is_ipv6 && (c == ':' || c == '%')))
            return false;
    }
    return size > 0 && size <= KVC_URL_MAX_HOST;
}

static kvc_status parse_tcp(const char *text, enum kvc_url_use use, struct kvc_url *url,
                            struct kvc_error *err)
{
    const char *host = text + strlen(TCP_PREFIX);
    const char *colon = strrchr(host, ':');
    if (colon == NULL)
        return refuse(err, text, "the port is missing");
    size_t size = (size_t)(colon - host);
    if (size >= 2 && host[0] == '[' && host[size - 1] == ']') {
        url->is_ipv6 = true;
        host++;
        size -= 2;
    }
    const bool any = use == KVC_URL_BIND && size == 1 && host[0] == '*';
    if (!any && !is_host(host, size, url->is_ipv6))
        return refuse(err, text, size == 0 ? "the host is missing" : "the host is none");
    url->port = parse_port(colon + 1, use);
    if (url->port < 0)
        return refuse(err, text, "the port must be a number from 1 to 65535");
    memcpy(url->host, host, size);
    url->host[size] = '\0';
    return KVC_OK;
}

static kvc_status parse_ipc(const char *text, struct kvc_url *url, struct kvc_error *err)
{
    const char *path = text + strlen(IPC_PREFIX);
    const size_t size = strlen(path);
    if (size == 0 || path[0] == '*')
        return refuse(err, text, "the path is missing");
    if (size > KVC_URL_MAX_PATH)
        return refuse(err, text, "the path is longer than the 107 bytes that a socket may have");
    memcpy(url->path, path, size + 1);
    url->is_ipc = true;
    return KVC_OK;
}

kvc_status kvc_url_parse(const char *text, enum kvc_url_use use, struct kvc_url *url,
                         struct kvc_error *err)
{
    *url = (struct kvc_url){0};
    if (strncmp(text, TCP_PREFIX, strlen(TCP_PREFIX)) == 0)
        return parse_tcp(text, use, url, err);
    if (strncmp(text, IPC_PREFIX, strlen(IPC_PREFIX)) == 0)
        return parse_ipc(text, url, err);
    return refuse(err, text, "it must begin with tcp:// or ipc://");
}

/* 0 when the connection comes about, else an errno. */
static int try_connect(const struct sockaddr *address, socklen_t size)
{
    const int fd = socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return errno;
    int code = connect(fd, address, size) == 0 ? 0 : errno;
    if (code == EINPROGRESS) {
        struct pollfd writable = {.fd = fd, .events = POLLOUT};
        socklen_t code_size = sizeof(code);
        if (poll(&writable, 1, EXPLAIN_LIMIT_MS) <= 0)
            code = ETIMEDOUT;
        else
            getsockopt(fd, SOL_SOCKET, SO_ERROR, &code, &code_size);
    }
    close(fd);
    return code;
}

static int try_connect_ipc(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const size_t size = strlen(path);
    memcpy(address.sun_path, path, size);
    if (path[0] != '@')
        return try_connect((const struct sockaddr *)&address, sizeof(address));
    address.sun_path[0] = '\0'; /* libzmq's spelling of the abstract namespace */
    const size_t used = offsetof(struct sockaddr_un, sun_path) + size;
    return try_connect((const struct sockaddr *)&address, (socklen_t)used);
}

bool kvc_url_ipc_is_alive(const char *path)
{
    return try_connect_ipc(path) == 0;
}

/* A name lookup that cannot outlast its limit. The request is left to the resolver's thread when it
 * does: it cannot be taken back. */
struct lookup {
    struct gaicb request;
    struct addrinfo hints;
    char host[KVC_URL_MAX_HOST + 1];
    char port[8];
};

static int resolve(const struct kvc_url *url, struct addrinfo **addresses)
{
    struct lookup *lookup = kvc_alloc_zero(1, sizeof(*lookup));
    lookup->hints.ai_family = url->is_ipv6 ? AF_INET6 : AF_INET;
    lookup->hints.ai_socktype = SOCK_STREAM;
    snprintf(lookup->host, sizeof(lookup->host), "%s", url->host);
    snprintf(lookup->port, sizeof(lookup->port), "%d", url->port);
    lookup->request.ar_name = lookup->host;
    lookup->request.ar_service = lookup->port;
    lookup->request.ar_request = &lookup->hints;

    struct gaicb *requests[] = {&lookup->request};
    const struct timespec limit = {.tv_nsec = EXPLAIN_LIMIT_MS * 1000000L};
    int code = getaddrinfo_a(GAI_NOWAIT, requests, 1, NULL);
    if (code == 0) {
        gai_suspend((const struct gaicb *const *)requests, 1, &limit);
        code = gai_error(&lookup->request);
        if (code == EAI_INPROGRESS && gai_cancel(&lookup->request) != EAI_CANCELED)
            return EAI_INPROGRESS;
    }
    *addresses = lookup->request.ar_result;
    free(lookup);
    return code;
}

static void write_reason(char *reason, size_t reason_size, int code)
{
    static const struct {
        int code;
        const char *text;
    } known[] = {
        {0, "something listens there, but it does not answer the ZMQ handshake"},
        {ECONNREFUSED, "connection refused"},
        {ETIMEDOUT, "no answer"},
        {ENOENT, "no such socket"},
        {EACCES, "permission denied"},
    };
    for (size_t i = 0; i < KVC_COUNT_OF(known); i++) {
        if (known[i].code == code) {
            snprintf(reason, reason_size, "%s", known[i].text);
            return;
        }
    }
    snprintf(reason, reason_size, "%s", strerror(code));
}

void kvc_url_explain_unreachable(const struct kvc_url *url, char *reason, unsigned long reason_size)
{
    if (url->is_ipc) {
        write_reason(reason, reason_size, try_connect_ipc(url->path));
        return;
    }
    struct addrinfo *addresses = NULL;
    const int code = resolve(url, &addresses);
    if (code == 0 && addresses != NULL)
        write_reason(reason, reason_size, try_connect(addresses->ai_addr, addresses->ai_addrlen));
    else if (code == EAI_INPROGRESS || code == EAI_AGAIN)
        snprintf(reason, reason_size, "the host name cannot be resolved at the moment");
    else
        snprintf(reason, reason_size, "no such host");
    if (addresses != NULL)
        freeaddrinfo(addresses);
}
