/* `bench transfer`: the data path alone, each step beside the plain copy, comparison or digest of as many
 * bytes in the same memory. For the command line; devices put themselves into its table. */
#ifndef KVC_BENCH_TRANSFER_H
#define KVC_BENCH_TRANSFER_H

#include "src/bench/noise.h"
#include "src/bench/team.h"
#include "src/device/device.h"
#include "src/kv/geometry.h"

/* What one series of measurements works on. */
struct kvc_transfer_case {
    struct kvc_group group; /* num_blocks: those that are used, and one more */
    int64_t chunk_tokens;   /* a multiple of the block size */
    int64_t chunk_count;
    int64_t threads;
    bool shuffled; /* blocks in random order; else as they lie in memory */
    uint64_t seed; /* of that order, and of the data */
};

/* Bytes of all chunks, which is what every figure counts. */
int64_t kvc_transfer_case_bytes(const struct kvc_transfer_case *bench_case);

/* The blocks of all chunks in order; the caller frees them. */
int64_t *kvc_transfer_case_block_ids(const struct kvc_transfer_case *bench_case);

/* One thing that a device does, and what it is held against. state: the device's. */
struct kvc_transfer_measure {
    const char *operation; /* "gather" */
    const char *version;   /* "fast": the one that is used; "plain": the reference */
    const char *baseline;  /* "memcpy" */
    /* One thread's share of it. */
    void (*run)(void *state, int64_t share, int64_t shares);
    void (*run_baseline)(void *state, int64_t share, int64_t shares);
    /* Overwrites what run is to write, before the first one. NULL: it writes nothing. */
    void (*spoil)(void *state);
    /* After a run: KVC_EMISMATCH, or what else went wrong. */
    kvc_status (*verify)(void *state, struct kvc_error *err);
};

struct kvc_transfer_device {
    const char *name;                /* as --device has it */
    const struct kvc_device *device; /* probed before anything is opened */
    /* Memory, filled and mapped. The case outlives the state. */
    kvc_status (*open)(const struct kvc_transfer_case *bench_case, void **state,
                       struct kvc_error *err);
    /* After all rounds: what has gone wrong in them. NULL: nothing can. */
    kvc_status (*finish)(void *state, struct kvc_error *err);
    void (*close)(void *state);
    const struct kvc_transfer_measure *measures;
    size_t measure_count;
};

extern const struct kvc_transfer_device kvc_transfer_cpu;
extern const struct kvc_transfer_device kvc_transfer_cuda;

/* NULL when there is no such device. */
const struct kvc_transfer_device *kvc_transfer_device_find(const char *name);
/* "cpu, …" */
void kvc_transfer_device_list(struct kvc_buffer *out);
/* The operations of all devices, each once, NULL-terminated. */
extern const char *const kvc_transfer_operations[];

struct kvc_transfer_options {
    const struct kvc_transfer_device *device;
    const struct kvc_transfer_case *cases;
    size_t case_count;
    const char *const *operations; /* of those that are measured; NULL-terminated */
    int64_t repeat;
    enum kvc_team_clock clock;
    const volatile int *stop; /* ends the run when it becomes non-zero */
};

/* Enough to see how far the repeats lie apart. */
enum { KVC_TRANSFER_MAX_REPEAT = 1000 };

/* One measure of one case. */
struct kvc_transfer_row {
    const struct kvc_transfer_case *bench_case;
    const struct kvc_transfer_measure *measure;
    double speed;          /* 10^9 bytes a second: median */
    double baseline_speed; /* of the baseline, in the same rounds */
    double best_speed;     /* of the fastest round */
    double baseline_best_speed;
    double *ratios; /* of each round: the baseline's time over the measure's */
    size_t ratio_count;
    struct kvc_spread ratio;
    double lower, upper; /* quartiles of the ratios */
};

struct kvc_transfer_result {
    struct kvc_transfer_row *rows;
    size_t row_count;
    bool interrupted;             /* the case under way has no rows */
    struct kvc_device_text about; /* what the device is */
};

/* Measures case after case: each measure once to warm up, verified; then in rounds, each measure next to
 * its baseline, the one first that came second in the round before. Errors end the run; no figures
 * then. Freed with kvc_transfer_result_clear, also after an error. */
kvc_status kvc_transfer_run(const struct kvc_transfer_options *options,
                            struct kvc_transfer_result *result, struct kvc_error *err);
void kvc_transfer_result_clear(struct kvc_transfer_result *result);

void kvc_transfer_write_text(const struct kvc_transfer_options *options,
                             const struct kvc_transfer_result *result, struct kvc_buffer *out);
/* docs/json.md describes it. */
void kvc_transfer_write_json(const struct kvc_transfer_options *options,
                             const struct kvc_transfer_result *result, struct kvc_buffer *out);
/* RFC 4180, a row a measure. */
void kvc_transfer_write_csv(const struct kvc_transfer_options *options,
                            const struct kvc_transfer_result *result, struct kvc_buffer *out);

#endif
