#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void fuzz_fail(const char *file, int line, const char *condition)
{
    fprintf(stderr, "%s:%d: this does not hold: %s\n", file, line, condition);
    abort();
}

uint8_t fuzz_take_byte(struct kvc_bytes *input)
{
    if (input->size == 0)
        return 0;
    input->size--;
    return *input->data++;
}

bool fuzz_take_frame(struct kvc_bytes *input, struct kvc_bytes *frame)
{
    if (input->size == 0)
        return false;
    size_t size = fuzz_take_byte(input);
    size |= (size_t)fuzz_take_byte(input) << 8;
    size |= (size_t)fuzz_take_byte(input) << 16;
    *frame = (struct kvc_bytes){input->data, size < input->size ? size : input->size};
    input->data += frame->size;
    input->size -= frame->size;
    return true;
}

char *fuzz_text(struct kvc_bytes input)
{
    return kvc_format("%.*s", (int)input.size, input.size > 0 ? (const char *)input.data : "");
}

static char folder[] = "/tmp/kvconform-fuzz-XXXXXX";
static char path[sizeof(folder) + 8];

static void remove_folder(void)
{
    unlink(path);
    rmdir(folder);
}

const char *fuzz_file(struct kvc_bytes input)
{
    if (path[0] == '\0') {
        FUZZ_REQUIRE(mkdtemp(folder) != NULL);
        snprintf(path, sizeof(path), "%s/input", folder);
        atexit(remove_folder);
    }
    FILE *file = fopen(path, "w");
    FUZZ_REQUIRE(file != NULL);
    FUZZ_REQUIRE(fwrite(input.data, 1, input.size, file) == input.size);
    fclose(file);
    return path;
}
