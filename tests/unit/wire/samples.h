/* Messages from hex, for the tests of this folder. What is made here lives until the test's process
 * ends, and stays reachable, so that a leak checker sees only what the code under test leaks. */
#ifndef KVC_TESTS_UNIT_WIRE_SAMPLES_H
#define KVC_TESTS_UNIT_WIRE_SAMPLES_H

#include "src/wire/dialect.h"
#include "src/wire/frames.h"
#include "src/wire/types.h"

/* Bytes from hex digits; blanks between them are passed over. Exactly that many bytes are
 * allocated, so that the address sanitizer sees a read beyond them. */
struct kvc_bytes sample_bytes(const char *hex);
struct kvc_bytes sample_copy(struct kvc_bytes bytes);
/* Memory that is kept in the same way. */
uint8_t *sample_alloc(size_t size);
/* The dialect of a release. */
const struct kvc_dialect *sample_dialect(const char *release);
/* Frames from hex, "|" between them: "07 | 12 | cd0100". */
struct kvc_frames sample_frames(const char *hex);
/* Fails the test, with both as hex, when they differ. */
void sample_assert_equal(struct kvc_bytes got, struct kvc_bytes expected, const char *what);
/* Fails the test unless that release's clients write this handle, alone in a list, as these bytes. */
void sample_assert_handle_written(const struct kvc_tensor_handle *handle, const char *release,
                                  const char *hex);
/* Fails the test unless this handle, as the clients of either generation write it, is refused with these words. */
void sample_assert_handle_refused(struct kvc_tensor_handle handle, const char *what);

#endif
