#include "tests/unit/mock/strict_log.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <unistd.h>

static char path[64];
static char text[8192];

void strict_start(struct child *child, struct kvc_mock_options options)
{
    snprintf(path, sizeof(path), "/tmp/kvc-strict-%d", (int)getpid());
    child->stderr_path = path;
    options.strict = true;
    if (options.pool_size == 0)
        options.pool_size = 1 << 20;
    child_start(child, options);
}

const char *strict_finish(struct child *child)
{
    cr_assert_eq(child_stop(child), 0);
    FILE *file = fopen(path, "re");
    cr_assert_not_null(file);
    text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
    fclose(file);
    unlink(path);
    return text;
}
