/* How fast this machine copies: what data paths are held against. For benches. */
#ifndef KVC_BENCH_COPY_SPEED_H
#define KVC_BENCH_COPY_SPEED_H

#include <stdint.h>

/* 10^9 bytes a second of memcpy of `bytes` bytes by one thread, from and to memory that is mapped and
 * in no cache: the median of several rounds. Above 256 MiB, of that many. 0 when bytes is not
 * positive. */
double kvc_copy_speed(int64_t bytes);

#endif
