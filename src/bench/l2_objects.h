/* Objects that the checks of `bench l2 --check` store and look for. What is not as it must be ends the
 * check. For l2_checks*.c. */
#ifndef KVC_BENCH_L2_OBJECTS_H
#define KVC_BENCH_L2_OBJECTS_H

#include "src/bench/l2_check.h"

enum { KVC_L2_OBJECT_KEYS = 64 };

/* Key number index, below KVC_L2_OBJECT_KEYS, of this check. */
struct kvc_l2_key kvc_l2_object_key(const struct kvc_l2_check_run *run, size_t index);
/* Memory for an object in the run's alignment, and as many bytes behind it, all of them poison; the
 * caller frees it. */
uint8_t *kvc_l2_object_make(const struct kvc_l2_check_run *run);
/* What a version of an object holds; versions count from 1. */
struct kvc_l2_payload kvc_l2_object_payload(uint64_t version);

/* One operation on one key; *err is KVC_OK when nothing failed. */
enum kvc_l2_outcome kvc_l2_object_do(const struct kvc_l2_check_run *run,
                                     enum kvc_l2_operation operation, const struct kvc_l2_key *key,
                                     uint8_t *data, struct kvc_error *err);
enum kvc_l2_outcome kvc_l2_object_store(const struct kvc_l2_check_run *run,
                                        const struct kvc_l2_key *key, uint32_t index,
                                        uint64_t version, struct kvc_error *err);
void kvc_l2_object_must_store(const struct kvc_l2_check_run *run, uint32_t index, uint64_t version);

/* The version that the key holds, from 1 to versions; 0: it is not there, or does not load. Other bytes
 * end the check. */
uint64_t kvc_l2_object_held(const struct kvc_l2_check_run *run, const struct kvc_l2_key *key,
                            uint32_t index, uint64_t versions);
void kvc_l2_object_must_hold(const struct kvc_l2_check_run *run, uint32_t index, uint64_t version);
/* what names the key in messages. */
void kvc_l2_object_must_be_absent(const struct kvc_l2_check_run *run, const struct kvc_l2_key *key,
                                  const char *what);

void kvc_l2_object_remove(const struct kvc_l2_check_run *run, const struct kvc_l2_key *key);
/* Keys 0 to count - 1. */
void kvc_l2_object_remove_all(const struct kvc_l2_check_run *run, size_t count);

/* ---- checks in l2_checks_life.c ---- */

void kvc_l2_check_interrupted(struct kvc_l2_check_run *run);
void kvc_l2_check_two_writers(struct kvc_l2_check_run *run);
void kvc_l2_check_full(struct kvc_l2_check_run *run);
void kvc_l2_check_gone(struct kvc_l2_check_run *run);

#endif
