#include <criterion/criterion.h>
#include <signal.h>
#include <sys/time.h>

#include "src/base/clock.h"

Test(clock, does_not_run_backwards)
{
    int64_t before = kvc_now_ns();
    for (int i = 0; i < 1000; i++) {
        const int64_t now = kvc_now_ns();
        cr_assert_geq(now, before);
        before = now;
    }
}

static void ignore_signal(int number)
{
    (void)number;
}

Test(clock, a_signal_does_not_shorten_a_sleep)
{
    struct sigaction action = {.sa_handler = ignore_signal};
    sigaction(SIGALRM, &action, NULL);
    const struct itimerval soon = {.it_value = {.tv_usec = 5000}};
    const int64_t start = kvc_now_ms();
    setitimer(ITIMER_REAL, &soon, NULL);
    kvc_sleep_ms(30);
    cr_assert_geq(kvc_now_ms() - start, 29);
}

Test(clock, no_time_is_no_sleep)
{
    const int64_t start = kvc_now_ms();
    kvc_sleep_ms(0);
    kvc_sleep_ms(-5);
    cr_assert_lt(kvc_now_ms() - start, 1000);
}

/* The vectors that are published with splitmix64 (seed 1234567). */
Test(random, published_sequence)
{
    struct kvc_random random = {1234567};
    cr_assert_eq(kvc_random_next(&random), 6457827717110365317u);
    cr_assert_eq(kvc_random_next(&random), 3203168211198807973u);
    cr_assert_eq(kvc_random_next(&random), 9817491932198370423u);
    cr_assert_eq(kvc_random_next(&random), 4593380528125082431u);
    cr_assert_eq(kvc_random_next(&random), 16408922859458223821u);
}

Test(random, below_reaches_every_value_and_no_other)
{
    struct kvc_random random = {7};
    int seen[6] = {0};
    for (int i = 0; i < 6000; i++) {
        const uint64_t value = kvc_random_below(&random, 6);
        cr_assert_lt(value, 6);
        seen[value]++;
    }
    for (int i = 0; i < 6; i++)
        cr_assert(seen[i] > 850 && seen[i] < 1150, "%d: %d of 6000", i, seen[i]);
    cr_assert_eq(kvc_random_below(&random, 1), 0);
}

/* The vectors that are published with FNV-1a, 64 bits. */
Test(hash, published_vectors)
{
    cr_assert_eq(kvc_hash_text(""), 0xcbf29ce484222325u);
    cr_assert_eq(kvc_hash_text("a"), 0xaf63dc4c8601ec8cu);
    cr_assert_eq(kvc_hash_text("foobar"), 0x85944171f73967e8u);
}
