#include "src/l2/resp_bulk.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

enum { LONGEST_PASSED_OVER = 1 << 30 };

/* ---- sending ---- */

static void advance(struct iovec **parts, size_t *count, size_t sent)
{
    while (*count > 0 && sent >= (*parts)->iov_len) {
        sent -= (*parts)->iov_len;
        (*parts)++;
        (*count)--;
    }
    if (*count > 0) {
        (*parts)->iov_base = (char *)(*parts)->iov_base + sent;
        (*parts)->iov_len -= sent;
    }
}

static kvc_status send_parts(int socket, struct iovec *parts, size_t count, struct kvc_error *err)
{
    while (count > 0) {
        const struct msghdr message = {.msg_iov = parts, .msg_iovlen = count};
        const ssize_t sent = sendmsg(socket, &message, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0)
            return kvc_fail(err, KVC_ELOST, "cannot send: %s", strerror(errno));
        advance(&parts, &count, (size_t)sent);
    }
    return KVC_OK;
}

kvc_status kvc_resp_send_set(int socket, struct kvc_bytes name, struct kvc_bytes value,
                             struct kvc_error *err)
{
    static char end[] = "\r\n";
    struct kvc_buffer head = {0};
    kvc_buffer_printf(&head, "*3\r\n$3\r\nSET\r\n$%zu\r\n", name.size);
    kvc_buffer_append(&head, name.data, name.size);
    kvc_buffer_printf(&head, "\r\n$%zu\r\n", value.size);
    struct iovec parts[] = {
        {head.data, head.size},
        {(void *)(uintptr_t)value.data, value.size},
        {end, sizeof(end) - 1},
    };
    const kvc_status status = send_parts(socket, parts, KVC_COUNT_OF(parts), err);
    kvc_buffer_clear(&head);
    return status;
}

/* ---- receiving ---- */

static kvc_status receive(int socket, void *data, size_t size, size_t *got, struct kvc_error *err)
{
    ssize_t received;
    do {
        received = recv(socket, data, size, 0);
    } while (received < 0 && errno == EINTR);
    if (received <= 0)
        return kvc_fail(err, KVC_ELOST, "%s",
                        received == 0                             ? "the server hung up"
                        : errno == EAGAIN || errno == EWOULDBLOCK ? "no reply in time"
                                                                  : strerror(errno));
    *got = (size_t)received;
    return KVC_OK;
}

/* The bytes before the next "\r\n", in the input; NUL-terminated. */
static kvc_status receive_line(int socket, struct kvc_resp_input *input, const char **line,
                               struct kvc_error *err)
{
    memmove(input->data, input->data + input->start, input->end - input->start);
    input->end -= input->start;
    input->start = 0;
    for (;;) {
        char *end = memmem(input->data, input->end, "\r\n", 2);
        if (end != NULL) {
            *end = '\0';
            *line = input->data;
            input->start = (size_t)(end - input->data) + 2;
            return KVC_OK;
        }
        if (input->end == sizeof(input->data))
            return kvc_fail(err, KVC_ELOST, "a line of more than %zu bytes came",
                            sizeof(input->data));
        size_t got = 0;
        KVC_GUARD(
            receive(socket, input->data + input->end, sizeof(input->data) - input->end, &got, err));
        input->end += got;
    }
}

/* data NULL: passed over. */
static kvc_status receive_bytes(int socket, struct kvc_resp_input *input, uint8_t *data,
                                size_t size, struct kvc_error *err)
{
    const size_t there = input->end - input->start;
    size_t done = there < size ? there : size;
    if (data != NULL && done > 0)
        memcpy(data, input->data + input->start, done);
    input->start += done;
    while (done < size) {
        char nowhere[4096];
        const size_t left = size - done;
        size_t got = 0;
        KVC_GUARD(data != NULL
                      ? receive(socket, data + done, left, &got, err)
                      : receive(socket, nowhere, left < sizeof(nowhere) ? left : sizeof(nowhere),
                                &got, err));
        done += got;
    }
    return KVC_OK;
}

static bool read_length(const char *text, long long *length)
{
    char *end = NULL;
    errno = 0;
    *length = strtoll(text, &end, 10);
    return errno == 0 && end != text && *end == '\0' && *length >= -1;
}

kvc_status kvc_resp_receive_bulk(int socket, struct kvc_resp_input *input, uint8_t *data,
                                 size_t size, bool *found, struct kvc_error *err)
{
    const char *line = NULL;
    long long length = 0;
    KVC_GUARD(receive_line(socket, input, &line, err));
    if (line[0] == '-')
        return kvc_fail(err, KVC_EREFUSED, "GET: %s", kvc_text_show(kvc_str_of(line + 1)).text);
    if (line[0] != '$' || !read_length(line + 1, &length) || length > LONGEST_PASSED_OVER)
        return kvc_fail(err, KVC_ELOST, "GET: no reply to it: '%s'",
                        kvc_text_show(kvc_str_of(line)).text);
    *found = length >= 0;
    if (!*found)
        return KVC_OK;
    const bool fits = (size_t)length == size;
    KVC_GUARD(receive_bytes(socket, input, fits ? data : NULL, (size_t)length, err));
    KVC_GUARD(receive_bytes(socket, input, NULL, 2, err));
    if (fits)
        return KVC_OK;
    return kvc_fail(err, KVC_EFORMAT, "GET: %lld bytes, not %zu", length, size);
}
