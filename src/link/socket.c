#include "src/link/socket.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <zmq.h>

#include "src/base/clock.h"
#include "src/link/client.h"

/* Below this a copy is cheaper than a reference that another thread gives back. */
enum { ZERO_COPY_BYTES = 4096 };

static const volatile int *stop_flag;

void kvc_link_set_stop_flag(const volatile int *stop)
{
    stop_flag = stop;
}

bool kvc_link_stopped(void)
{
    return stop_flag != NULL && *stop_flag != 0;
}

static void release_sent(void *data, void *hint)
{
    (void)data;
    struct kvc_frame *frame = hint;
    frame->release(frame->owner);
    free(frame);
}

static void message_from_bytes(zmq_msg_t *message, const void *data, size_t size)
{
    if (zmq_msg_init_size(message, size) != 0)
        kvc_out_of_memory(size);
    if (size > 0)
        memcpy(zmq_msg_data(message), data, size);
}

/* Moves a frame into a message; the frame is empty afterwards. */
static void message_from_frame(zmq_msg_t *message, struct kvc_frame *frame)
{
    if (frame->release == NULL || frame->size < ZERO_COPY_BYTES) {
        message_from_bytes(message, frame->data, frame->size);
        if (frame->release != NULL)
            frame->release(frame->owner);
    } else {
        struct kvc_frame *owner = kvc_alloc(sizeof(*owner));
        *owner = *frame;
        zmq_msg_init_data(message, (void *)(uintptr_t)frame->data, frame->size, release_sent,
                          owner);
    }
    *frame = (struct kvc_frame){0};
}

static bool send_part(void *socket, zmq_msg_t *message, bool more)
{
    int sent;
    do {
        sent = zmq_msg_send(message, socket, ZMQ_DONTWAIT | (more ? ZMQ_SNDMORE : 0));
    } while (sent < 0 && errno == EINTR);
    if (sent < 0)
        zmq_msg_close(message);
    return sent >= 0;
}

bool kvc_socket_send(void *socket, struct kvc_bytes first, struct kvc_frames *frames)
{
    zmq_msg_t message;
    bool sent = true;
    if (first.data != NULL) {
        message_from_bytes(&message, first.data, first.size);
        sent = send_part(socket, &message, frames->count > 0);
    }
    for (size_t i = 0; sent && i < frames->count; i++) {
        message_from_frame(&message, &frames->items[i]);
        sent = send_part(socket, &message, i + 1 < frames->count);
    }
    kvc_frames_clear(frames);
    return sent;
}

static bool receive_part(void *socket, zmq_msg_t *message)
{
    int received;
    zmq_msg_init(message);
    do {
        received = zmq_msg_recv(message, socket, ZMQ_DONTWAIT);
    } while (received < 0 && errno == EINTR);
    if (received < 0)
        zmq_msg_close(message);
    return received >= 0;
}

static void release_received(void *owner)
{
    zmq_msg_close(owner);
    free(owner);
}

/* A short message keeps its bytes inside the message object, so that object must not move again. */
static void append_message(struct kvc_frames *frames, zmq_msg_t *message)
{
    zmq_msg_t *kept = kvc_alloc(sizeof(*kept));
    zmq_msg_init(kept);
    zmq_msg_move(kept, message);
    kvc_frames_append(frames, (struct kvc_frame){.data = zmq_msg_data(kept),
                                                 .size = zmq_msg_size(kept),
                                                 .release = release_received,
                                                 .owner = kept});
}

bool kvc_socket_receive(void *socket, struct kvc_buffer *identity, struct kvc_frames *frames)
{
    zmq_msg_t message;
    if (!receive_part(socket, &message))
        return false;
    bool more = zmq_msg_more(&message) != 0;
    if (identity != NULL)
        kvc_buffer_append(identity, zmq_msg_data(&message), zmq_msg_size(&message));
    else
        append_message(frames, &message);
    zmq_msg_close(&message);
    while (more && receive_part(socket, &message)) {
        more = zmq_msg_more(&message) != 0;
        if (frames->count < KVC_SOCKET_MAX_FRAMES)
            append_message(frames, &message);
        zmq_msg_close(&message);
    }
    return true;
}

int kvc_socket_fd(void *socket)
{
    int fd = -1;
    size_t size = sizeof(fd);
    zmq_getsockopt(socket, ZMQ_FD, &fd, &size);
    return fd;
}

void kvc_socket_set_int(void *socket, int option, int value)
{
    zmq_setsockopt(socket, option, &value, sizeof(value));
}

int64_t kvc_socket_deadline(int64_t timeout_ms)
{
    const int64_t now = kvc_now_ns();
    if (timeout_ms <= 0)
        return now;
    return timeout_ms < (INT64_MAX - now) / 1000000 ? now + timeout_ms * 1000000 : INT64_MAX;
}

int kvc_socket_wait_ms(int64_t deadline_ns)
{
    const int64_t left_ms = (deadline_ns - kvc_now_ns() + 999999) / 1000000;
    if (left_ms < 1)
        return 1;
    return left_ms < KVC_SOCKET_WAIT_SLICE_MS ? (int)left_ms : KVC_SOCKET_WAIT_SLICE_MS;
}
