/* The recorded exchanges, for the tests of this folder. */
#ifndef KVC_TESTS_UNIT_WIRE_RECORDED_H
#define KVC_TESTS_UNIT_WIRE_RECORDED_H

#include "src/wire/dialect.h"
#include "src/wire/recording.h"

struct recorded_file {
    const char *name;
    const char *release;
};

extern const struct recorded_file recorded_files[];
extern const size_t recorded_file_count;

/* Loads the file; a failure fails the test. */
void recorded_load(size_t index, struct kvc_recording *recording);
const struct kvc_dialect *recorded_dialect(size_t index);

#endif
