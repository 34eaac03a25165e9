/* Lies below the level of messages: TCP connections that speak something else than ZMTP 3.0, or speak
 * it without end. */
#include <string.h>
#include <unistd.h>

#include "tests/meta/hostile/peer.h"

enum { MIB = 1 << 20 };

/* ---- no ZMTP ---- */

static void close_at_once(int fd)
{
    (void)fd;
}

static void speak_http(int fd)
{
    hostile_read_some(fd);
    hostile_write_text(fd, "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
    hostile_wait_gone(fd);
}

static void send_zeros(int fd)
{
    hostile_write_filler(fd, 0, 0);
}

static void send_ones(int fd)
{
    hostile_write_filler(fd, '\xff', 0);
}

/* ---- the greeting ---- */

enum { GREETING = 64, VERSION_AT = 10, MECHANISM_AT = 12 };

static void greet(int fd, uint8_t version, const char *mechanism)
{
    uint8_t greeting[GREETING] = {0xff};
    greeting[9] = 0x7f;
    greeting[VERSION_AT] = version;
    memcpy(greeting + MECHANISM_AT, mechanism, strlen(mechanism));
    hostile_write(fd, greeting, sizeof(greeting));
}

static void greet_and_wait(int fd)
{
    greet(fd, 3, "NULL");
    hostile_wait_gone(fd);
}

static void greet_in_version_0(int fd)
{
    greet(fd, 0, "NULL");
    hostile_wait_gone(fd);
}

static void greet_in_version_255(int fd)
{
    greet(fd, 255, "NULL");
    hostile_wait_gone(fd);
}

static void greet_with_plain(int fd)
{
    greet(fd, 3, "PLAIN");
    hostile_wait_gone(fd);
}

static void greet_byte_by_byte(int fd)
{
    static const uint8_t greeting[GREETING] = {0xff, [9] = 0x7f, 3, 0, 'N', 'U', 'L', 'L'};
    for (size_t i = 0; i < sizeof(greeting); i++) {
        if (!hostile_write(fd, greeting + i, 1))
            return;
        usleep(200000);
    }
    hostile_wait_gone(fd);
}

/* ---- the handshake ---- */

static void send_command_head(int fd, uint64_t size)
{
    uint8_t head[9] = {0x06}; /* a long command */
    for (size_t i = 0; i < 8; i++)
        head[1 + i] = (uint8_t)(size >> (8 * (7 - i)));
    hostile_write(fd, head, sizeof(head));
}

static void ready_of_2_63(int fd)
{
    greet(fd, 3, "NULL");
    send_command_head(fd, INT64_MAX);
    hostile_wait_gone(fd);
}

static void ready_of_4_gib(int fd)
{
    greet(fd, 3, "NULL");
    send_command_head(fd, (uint64_t)1 << 32);
    hostile_write_filler(fd, 'x', (uint64_t)64 * MIB);
    hostile_wait_gone(fd);
}

static void ready_property_of_4_gib(int fd)
{
    static const char ready[] = "\x04\x17\x05READY\x0bSocket-Type\xff\xff\xff\xff";
    greet(fd, 3, "NULL");
    hostile_write(fd, ready, sizeof(ready) - 1);
    hostile_wait_gone(fd);
}

static void ready_as_pub(int fd)
{
    static const char ready[] = "\x04\x19\x05READY\x0bSocket-Type\0\0\0\x03PUB";
    greet(fd, 3, "NULL");
    hostile_write(fd, ready, sizeof(ready) - 1);
    hostile_wait_gone(fd);
}

static void refuse_handshake(int fd)
{
    static const char error[] = "\x04\x0a\x05"
                                "ERROR\x03no!";
    greet(fd, 3, "NULL");
    hostile_write(fd, error, sizeof(error) - 1);
    hostile_wait_gone(fd);
}

/* ---- after a good handshake ---- */

static void shake_hands(int fd)
{
    static const char ready[] = "\x04\x1c\x05READY\x0bSocket-Type\0\0\0\x06ROUTER";
    greet(fd, 3, "NULL");
    hostile_write(fd, ready, sizeof(ready) - 1);
    hostile_read_some(fd);
}

static void shake_hands_and_close(int fd)
{
    shake_hands(fd);
}

static void shake_hands_and_wait(int fd)
{
    shake_hands(fd);
    hostile_wait_gone(fd);
}

static bool send_frame(int fd, uint8_t flags, const void *data, size_t size)
{
    uint8_t head[9] = {flags | 0x02};
    for (size_t i = 0; i < 8; i++)
        head[1 + i] = (uint8_t)((uint64_t)size >> (8 * (7 - i)));
    return hostile_write(fd, head, sizeof(head)) && (data == NULL || hostile_write(fd, data, size));
}

static void parts_without_end(int fd)
{
    static uint8_t part[64 << 10];
    shake_hands(fd);
    while (send_frame(fd, 0x01, part, sizeof(part))) {
    }
}

static void empty_parts_without_end(int fd)
{
    static const uint8_t block[4096] = {0};
    static uint8_t parts[sizeof(block)];
    shake_hands(fd);
    for (size_t i = 0; i < sizeof(parts); i += 2)
        parts[i] = 0x01; /* a short frame of no bytes, and more to come */
    while (hostile_write(fd, parts, sizeof(parts))) {
    }
}

static void messages_without_end(int fd)
{
    static uint8_t message[MIB];
    shake_hands(fd);
    while (send_frame(fd, 0, message, sizeof(message))) {
    }
}

static void empty_messages_without_end(int fd)
{
    static uint8_t messages[4096]; /* short frames of no bytes, each a message */
    shake_hands(fd);
    while (hostile_write(fd, messages, sizeof(messages))) {
    }
}

static void frame_of_2_63(int fd)
{
    shake_hands(fd);
    send_frame(fd, 0, NULL, INT64_MAX);
    hostile_wait_gone(fd);
}

/* Smaller than what is refused, and never all there. */
static void frame_of_8_gib(int fd)
{
    shake_hands(fd);
    send_frame(fd, 0, NULL, (size_t)1 << 33);
    hostile_write_filler(fd, 'x', (uint64_t)64 * MIB);
    hostile_wait_gone(fd);
}

static void unknown_commands(int fd)
{
    static const char command[] = "\x04\x06\x05WHAT!";
    shake_hands(fd);
    while (hostile_write(fd, command, sizeof(command) - 1)) {
    }
}

static void pings_without_end(int fd)
{
    static const char ping[] = "\x04\x17\x04PING\0\x01"
                               "0123456789abcdef";
    shake_hands(fd);
    while (hostile_write(fd, ping, sizeof(ping) - 1)) {
    }
}

static void reserved_flags(int fd)
{
    shake_hands(fd);
    hostile_write(fd, "\xf8\x01x", 3);
    hostile_wait_gone(fd);
}

#define ROW(id, text, function)                                                                    \
    {                                                                                              \
        .name = "socket/" id, .summary = text, .exits = "3 3 3 3", .serve_zmq = function           \
    }

static const struct behaviour rows[] = {
    ROW("blackhole", "accepts, and says nothing", hostile_wait_gone),
    ROW("closes-at-once", "accepts, and closes", close_at_once),
    ROW("speaks-http", "answers as an HTTP server does", speak_http),
    ROW("zeros", "zeros without end", send_zeros),
    ROW("ones", "ones without end", send_ones),
    ROW("greeting-alone", "a greeting, and nothing after it", greet_and_wait),
    ROW("greeting-version-0", "ZMTP 0", greet_in_version_0),
    ROW("greeting-version-255", "ZMTP 255", greet_in_version_255),
    ROW("greeting-plain", "wants a password", greet_with_plain),
    ROW("greeting-byte-by-byte", "a greeting that takes 13 seconds", greet_byte_by_byte),
    ROW("ready-of-2-63", "a handshake of 2^63-1 bytes", ready_of_2_63),
    ROW("ready-of-4-gib", "a handshake of 4 GiB", ready_of_4_gib),
    ROW("ready-property-of-4-gib", "a handshake with a property of 4 GiB", ready_property_of_4_gib),
    ROW("ready-as-pub", "a socket of another kind", ready_as_pub),
    ROW("refuses-handshake", "an error for a handshake", refuse_handshake),
    ROW("closes-after-handshake", "a handshake, and it closes", shake_hands_and_close),
    ROW("silent-after-handshake", "a handshake, and nothing after it", shake_hands_and_wait),
    ROW("parts-without-end", "one message of parts without end", parts_without_end),
    ROW("empty-parts-without-end", "one message of empty parts without end",
        empty_parts_without_end),
    ROW("messages-without-end", "messages of 1 MiB without end", messages_without_end),
    ROW("empty-messages-without-end", "empty messages without end", empty_messages_without_end),
    ROW("frame-of-2-63", "a frame of 2^63-1 bytes", frame_of_2_63),
    ROW("frame-of-8-gib", "a frame of 8 GiB that stops on its way", frame_of_8_gib),
    ROW("unknown-commands", "commands that nobody knows, without end", unknown_commands),
    ROW("pings-without-end", "heartbeats without end", pings_without_end),
    ROW("reserved-flags", "a frame with reserved flags", reserved_flags),
};

const struct behaviours hostile_sockets = {rows, KVC_COUNT_OF(rows)};
