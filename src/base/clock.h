/* Monotonic time and a seeded generator. For every part. */
#ifndef KVC_BASE_CLOCK_H
#define KVC_BASE_CLOCK_H

#include <stdint.h>

/* Nanoseconds of the monotonic clock. */
int64_t kvc_now_ns(void);
int64_t kvc_now_ms(void);
/* Sleeps; an interrupting signal does not shorten it. */
void kvc_sleep_ms(int64_t milliseconds);

/* splitmix64: the same seed gives the same sequence on every machine. */
struct kvc_random {
    uint64_t state;
};

uint64_t kvc_random_next(struct kvc_random *random);
/* Uniform in [0, bound); bound > 0. */
uint64_t kvc_random_below(struct kvc_random *random, uint64_t bound);
/* One well-mixed value from another: the finaliser of splitmix64. */
uint64_t kvc_mix(uint64_t value);
/* A 64-bit FNV-1a hash of text: to derive a seed from a name. */
uint64_t kvc_hash_text(const char *text);

#endif
