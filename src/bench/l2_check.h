/* `bench l2 --check`: whether a store keeps what it is given. Each check runs in a process of its own,
 * so that one may be killed in the middle of a store, or have its files limited. For the command line,
 * and for the checks (l2_checks.c). */
#ifndef KVC_BENCH_L2_CHECK_H
#define KVC_BENCH_L2_CHECK_H

#include <stdio.h>

#include "src/l2/payload.h"
#include "src/l2/pool.h"

struct kvc_l2_check_options {
    const struct kvc_l2_config *config;
    size_t object_size;
    size_t align;
    int64_t timeout_ms; /* of each check */
    uint64_t seed;
    const volatile int *stop;
};

struct kvc_l2_check;

/* What a check works with, in its own process. */
struct kvc_l2_check_run {
    const struct kvc_l2_check *check;
    const struct kvc_l2_check_options *options;
    const struct kvc_l2_adapter *adapter;
    void *store, *lane; /* opened */
    char model[64];     /* of this check's keys: nobody else's */
};

struct kvc_l2_check {
    const char *id;     /* l2/name */
    const char *clause; /* one sentence: what a store does */
    void (*run)(struct kvc_l2_check_run *run);
};

extern const struct kvc_l2_check kvc_l2_checks[];
extern const size_t kvc_l2_check_count;

enum kvc_l2_verdict {
    KVC_L2_PASS,
    KVC_L2_FAIL,
    KVC_L2_SKIP,
    KVC_L2_TIMEOUT,
    KVC_L2_CRASH,
    KVC_L2_NOT_RUN, /* interrupted before */
};
const char *kvc_l2_verdict_name(enum kvc_l2_verdict verdict);

struct kvc_l2_check_result {
    enum kvc_l2_verdict verdict;
    char why[768]; /* "" for a pass */
};

/* Runs one check. */
void kvc_l2_check_one(const struct kvc_l2_check *check, const struct kvc_l2_check_options *options,
                      struct kvc_l2_check_result *result);

/* ---- for the checks: each ends its process ---- */

_Noreturn void kvc_l2_check_fail(const struct kvc_l2_check_run *run, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
_Noreturn void kvc_l2_check_skip(const struct kvc_l2_check_run *run, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Opens and closes the run's store; an error is a failure. */
void kvc_l2_check_open(struct kvc_l2_check_run *run);
void kvc_l2_check_close(struct kvc_l2_check_run *run);

#endif
