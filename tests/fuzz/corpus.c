/* Gives every file of a folder to the target, once: what the fuzzers start from, as an ordinary test. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/fuzz/fuzz.h"

/* False when it is no file that can be read. */
static bool read_file(const char *path, struct kvc_buffer *content)
{
    uint8_t block[4096];
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return false;
    size_t got;
    while ((got = fread(block, 1, sizeof(block), file)) > 0)
        kvc_buffer_append(content, block, got);
    const bool complete = !ferror(file);
    fclose(file);
    return complete;
}

/* The input lies at the end of memory of its own size, where a sanitizer sees a byte read beyond it. */
static void give(const struct kvc_buffer *content)
{
    uint8_t *exact = kvc_alloc(content->size);
    for (size_t i = 0; i < content->size; i++)
        exact[i] = content->data[i];
    fuzz_one((struct kvc_bytes){exact, content->size});
    free(exact);
}

int main(int argc, char **argv)
{
    DIR *folder = argc == 2 ? opendir(argv[1]) : NULL;
    if (folder == NULL) {
        fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
        return 2;
    }
    size_t count = 0;
    for (struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        struct kvc_buffer content = {0};
        char *path = kvc_format("%s/%s", argv[1], entry->d_name);
        if (entry->d_name[0] != '.' && read_file(path, &content)) {
            fprintf(stderr, "%s\n", entry->d_name);
            give(&content);
            count++;
        }
        kvc_buffer_clear(&content);
        free(path);
    }
    closedir(folder);
    fprintf(stderr, "%zu inputs\n", count);
    return count > 0 ? 0 : 1;
}
