/* Lies over HTTP, beside an honest ZMQ server. The first answer of each route is good, so that its
 * checks are run. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/meta/hostile/peer.h"

enum { MIB = 1 << 20 };

static const struct {
    const char *request;
    const char *body;
} honest[] = {
    {"GET /lmc_version ", "\"0.5.6\""},
    {"GET /status ", "{\"storage_manager\": {\"l1_manager\": {\"read_locked_count\": 0, "
                     "\"write_locked_count\": 0, \"total_object_count\": 0}}}"},
    {"POST /cache/checksums ",
     "{\"status\": \"success\", \"chunk_checksums\": [\"00000000000000000000000000000000\"]}"},
};

/* True when the request was the first of its route, and has been answered. */
static bool answer_honestly(int fd)
{
    static bool answered[KVC_COUNT_OF(honest)];
    char request[4096] = "";
    const ssize_t got = recv(fd, request, sizeof(request) - 1, 0);
    for (size_t i = 0; got > 0 && i < KVC_COUNT_OF(honest); i++) {
        if (strncmp(request, honest[i].request, strlen(honest[i].request)) != 0 || answered[i])
            continue;
        answered[i] = true;
        char *answer = kvc_format("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                                  "Content-Length: %zu\r\nConnection: close\r\n\r\n%s",
                                  strlen(honest[i].body), honest[i].body);
        hostile_write_text(fd, answer);
        free(answer);
        return true;
    }
    return false;
}

#define OK_HEAD "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n"

/* What is said after the first answers: a text, or by a function. */
#define SAYS(function, text)                                                                       \
    static void function(int fd)                                                                   \
    {                                                                                              \
        if (!answer_honestly(fd))                                                                  \
            hostile_write(fd, text, sizeof(text) - 1);                                             \
    }
#define DOES(function)                                                                             \
    static void function##_later(int fd);                                                          \
    static void function(int fd)                                                                   \
    {                                                                                              \
        if (!answer_honestly(fd))                                                                  \
            function##_later(fd);                                                                  \
    }                                                                                              \
    static void function##_later(int fd)

SAYS(garbage, "\x7f\x45LF\x02\x01\x01\0\0\0 garbage\r\n\r\n")
SAYS(invalid_json, OK_HEAD "Content-Length: 9\r\n\r\n{\"status\"")
SAYS(wrong_types, OK_HEAD "\r\n{\"storage_manager\": [1], \"chunk_checksums\": {\"a\": 1}}")
SAYS(wrong_types_below,
     OK_HEAD "\r\n{\"storage_manager\": {\"l1_manager\": {\"read_locked_count\": \"many\"}}, "
             "\"chunk_checksums\": [1, null, {}, [], \"\"]}")
SAYS(numbers_too_large,
     OK_HEAD "\r\n{\"storage_manager\": {\"l1_manager\": {\"read_locked_count\": 1e999}}}")
SAYS(no_body, OK_HEAD "Content-Length: 0\r\n\r\n")
SAYS(shorter_than_said, OK_HEAD "Content-Length: 1000000\r\n\r\n{}")
SAYS(longer_than_said, OK_HEAD "Content-Length: 1\r\n\r\n{\"storage_manager\": {}}")
SAYS(negative_length, OK_HEAD "Content-Length: -1\r\n\r\n{}")
SAYS(length_of_2_64, OK_HEAD "Content-Length: 18446744073709551616\r\n\r\n{}")
SAYS(status_99999, "HTTP/1.1 99999 What\r\nContent-Length: 2\r\n\r\n{}")
SAYS(status_500, "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 2\r\n\r\n{}")
SAYS(http_0_9, "just text, no head at all")
SAYS(redirect_to_file,
     "HTTP/1.1 302 Found\r\nLocation: file:///etc/passwd\r\nContent-Length: 0\r\n\r\n")
SAYS(nul_and_escapes, OK_HEAD "Content-Length: 14\r\n\r\n\"\x1b[31m\0\x1b[2J\r\n\"")
SAYS(huge_chunk, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n{}")

DOES(silence)
{
    hostile_wait_gone(fd);
}

DOES(body_without_end)
{
    hostile_write_text(fd, OK_HEAD "\r\n");
    hostile_write_filler(fd, ' ', 0);
}

DOES(drip)
{
    hostile_write_text(fd, OK_HEAD "\r\n");
    while (hostile_write(fd, " ", 1))
        usleep(50000);
}

DOES(header_of_1_gib)
{
    hostile_write_text(fd, "HTTP/1.1 200 OK\r\nX-Long: ");
    hostile_write_filler(fd, 'x', (uint64_t)1024 * MIB);
}

DOES(headers_without_end)
{
    hostile_write_text(fd, "HTTP/1.1 200 OK\r\n");
    while (hostile_write_text(fd, "X-Again: and again\r\n")) {
    }
}

DOES(continues_without_end)
{
    while (hostile_write_text(fd, "HTTP/1.1 100 Continue\r\n\r\n")) {
    }
}

DOES(nested_json)
{
    hostile_write_text(fd, OK_HEAD "\r\n");
    hostile_write_filler(fd, '[', MIB);
}

DOES(body_of_64_mib)
{
    hostile_write_text(fd, OK_HEAD "Content-Length: 67108864\r\n\r\n");
    hostile_write_filler(fd, ' ', (uint64_t)64 * MIB);
}

/* An array of eight million zeros: small on the wire, large in memory. */
DOES(array_of_8_million)
{
    hostile_write_text(fd, OK_HEAD "\r\n{\"chunk_checksums\": [0");
    for (int i = 0; i < 8000000 / 8192; i++) {
        static char zeros[2 * 8192 + 1];
        for (size_t j = 0; j < sizeof(zeros) - 1; j += 2)
            memcpy(zeros + j, ",0", 2);
        if (!hostile_write_text(fd, zeros))
            return;
    }
    hostile_write_text(fd, "]}");
}

#define ROW(id, text, function)                                                                    \
    {                                                                                              \
        .name = "http/" id, .summary = text, .exits = "0 1 0 01", .serve_http = function           \
    }

static const struct behaviour rows[] = {
    ROW("garbage", "bytes that are no HTTP", garbage),
    ROW("silence", "no answer", silence),
    ROW("http-0-9", "text without a head", http_0_9),
    ROW("invalid-json", "half of a JSON text", invalid_json),
    ROW("nested-json", "a million opening brackets", nested_json),
    ROW("wrong-types", "lists where maps must be", wrong_types),
    ROW("wrong-types-below", "texts where numbers must be", wrong_types_below),
    ROW("numbers-too-large", "a number that no float holds", numbers_too_large),
    ROW("nul-and-escapes", "NUL bytes and escape codes", nul_and_escapes),
    ROW("no-body", "an empty body", no_body),
    ROW("body-without-end", "a body without end", body_without_end),
    ROW("body-of-64-mib", "a body of 64 MiB", body_of_64_mib),
    ROW("array-of-8-million", "an array of eight million numbers", array_of_8_million),
    ROW("drip", "a body that comes byte by byte", drip),
    ROW("shorter-than-said", "a Content-Length that is too large", shorter_than_said),
    ROW("longer-than-said", "a Content-Length that is too small", longer_than_said),
    ROW("negative-length", "a Content-Length of -1", negative_length),
    ROW("length-of-2-64", "a Content-Length of 2^64", length_of_2_64),
    ROW("huge-chunk", "a chunk of 2^64-1 bytes", huge_chunk),
    ROW("header-of-1-gib", "a header of 1 GiB", header_of_1_gib),
    ROW("headers-without-end", "headers without end", headers_without_end),
    ROW("continues-without-end", "100 Continue without end", continues_without_end),
    ROW("status-99999", "the status 99999", status_99999),
    ROW("status-500", "the status 500", status_500),
    ROW("redirect-to-file", "a redirection to a file", redirect_to_file),
};

const struct behaviours hostile_web = {rows, KVC_COUNT_OF(rows)};
