#include "tests/mock_server/text.h"

#include <stdlib.h>
#include <string.h>

struct kvc_str mock_text_copy(struct kvc_str text)
{
    char *copy = kvc_alloc(text.size + 1);
    if (text.size > 0)
        memcpy(copy, text.data, text.size);
    copy[text.size] = '\0';
    return (struct kvc_str){copy, text.size};
}

void mock_text_free(struct kvc_str text)
{
    free((char *)text.data);
}
