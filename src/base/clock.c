#include "src/base/clock.h"

#include <errno.h>
#include <time.h>

int64_t kvc_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t kvc_now_ms(void)
{
    return kvc_now_ns() / 1000000;
}

void kvc_sleep_ms(int64_t milliseconds)
{
    if (milliseconds <= 0)
        return;
    struct timespec rest = {.tv_sec = milliseconds / 1000,
                            .tv_nsec = (milliseconds % 1000) * 1000000};
    while (nanosleep(&rest, &rest) != 0 && errno == EINTR) {
    }
}

uint64_t kvc_mix(uint64_t value)
{
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
    return value ^ (value >> 31);
}

uint64_t kvc_random_next(struct kvc_random *random)
{
    random->state += 0x9e3779b97f4a7c15u;
    return kvc_mix(random->state);
}

uint64_t kvc_random_below(struct kvc_random *random, uint64_t bound)
{
    /* Rejecting the short tail keeps the distribution uniform. */
    const uint64_t limit = UINT64_MAX - UINT64_MAX % bound;
    uint64_t value;
    do {
        value = kvc_random_next(random);
    } while (value >= limit);
    return value % bound;
}

uint64_t kvc_hash_text(const char *text)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (; *text != '\0'; text++)
        hash = (hash ^ (uint8_t)*text) * 0x100000001b3u;
    return hash;
}
