/* What fuzz targets share. A target is one file that defines fuzz_one; it is linked either with libFuzzer
 * (fuzzer.c) or with a loop over the files of a folder (corpus.c). */
#ifndef KVC_TESTS_FUZZ_FUZZ_H
#define KVC_TESTS_FUZZ_FUZZ_H

#include "src/base/bytes.h"

/* Gives one input to the code under test. Ends the process when it does what it must not. */
void fuzz_one(struct kvc_bytes input);

/* What must hold for every input. */
#define FUZZ_REQUIRE(condition)                                                                    \
    do {                                                                                           \
        if (!(condition))                                                                          \
            fuzz_fail(__FILE__, __LINE__, #condition);                                             \
    } while (0)

_Noreturn void fuzz_fail(const char *file, int line, const char *condition);

/* Cuts a byte, or a frame, off the front of the input. A frame is a length in three bytes, least
 * significant first, and that many bytes or as many as there are; the frame that reaches the input's
 * end is the last. */
uint8_t fuzz_take_byte(struct kvc_bytes *input);
bool fuzz_take_frame(struct kvc_bytes *input, struct kvc_bytes *frame);

/* The input as NUL-terminated text, up to its first NUL; the caller frees it. */
char *fuzz_text(struct kvc_bytes input);

/* The path of a file that holds the input, in a folder that goes with the process; the same path every
 * time. */
const char *fuzz_file(struct kvc_bytes input);

#endif
