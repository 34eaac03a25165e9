/* POSIX shared-memory segments that nobody forgets. For paged caches, the mock's pool, drivers. */
#ifndef KVC_KV_SEGMENT_H
#define KVC_KV_SEGMENT_H

#include "src/base/bytes.h"

struct kvc_segment {
    char name[96]; /* with leading slash */
    uint8_t *data;
    size_t size;
    bool owned;        /* created here: removed by kvc_segment_close */
    int32_t owner_pid; /* the process that created it; another one never removes it */
};

/* Makes a name that says whose it is: "/<prefix>kvconform-<pid namespace>-<pid>-<start time>-<counter>",
 * so that a later run can tell a segment of a process that is gone. prefix may be "". */
void kvc_segment_name(const char *prefix, char *name, size_t name_size);

/* Creates a new segment of size bytes, mode 0600, zero-filled, mapped read-write. Checks first that
 * the file system has room. KVC_ESYSTEM when it exists or does not fit. */
kvc_status kvc_segment_create(const char *name, size_t size, struct kvc_segment *segment,
                              struct kvc_error *err);
/* Maps size bytes of a segment that somebody else created; name with or without leading slash.
 * KVC_EFORMAT when the name has another slash, is empty or too long, when there is no such segment,
 * or when it is shorter than size (touching it would kill us). */
kvc_status kvc_segment_open(const char *name, size_t size, struct kvc_segment *segment,
                            struct kvc_error *err);
/* Unmaps, and removes the name if this process created it. Safe twice, and on zeroed memory. */
void kvc_segment_close(struct kvc_segment *segment);
/* Removes the name now and keeps the mapping. */
void kvc_segment_unlink(struct kvc_segment *segment);

/* Maps at once those pages of the segment that exist: afterwards the first access to each costs no more
 * than any other. Those that do not exist are not made. */
void kvc_segment_map_ahead(const struct kvc_segment *segment);

/* How many bytes can still be put into segments; UINT64_MAX: there is no limit but memory. */
uint64_t kvc_segment_room(void);

/* Removes every segment whose name was made by kvc_segment_name in a process of this pid namespace
 * that no longer lives (pid gone, or another process with another start time). Returns how many. */
size_t kvc_segment_sweep(void);
/* Removes every segment whose name was made in process pid. */
size_t kvc_segment_sweep_pid(int32_t pid);

#endif
