/* What a measurement was made on: facts that its figures depend on, and nothing that names the
 * machine or who uses it. For reports of benches. */
#ifndef KVC_BENCH_MACHINE_H
#define KVC_BENCH_MACHINE_H

#include <stdint.h>

struct kvc_machine {
    int64_t cores;        /* that this process may run on */
    char cpu[96];         /* model; "" when the system does not say */
    int64_t memory_bytes; /* of the whole machine */
    char kernel[96];      /* "Linux 6.1.0" */
};

void kvc_machine_read(struct kvc_machine *machine);

#endif
