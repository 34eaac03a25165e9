#include "src/wire/frames.h"

#include <stdlib.h>
#include <string.h>

void kvc_frames_append(struct kvc_frames *frames, struct kvc_frame frame)
{
    if (frames->count == frames->capacity) {
        frames->capacity = frames->capacity == 0 ? 8 : 2 * frames->capacity;
        frames->items = kvc_realloc(frames->items, frames->capacity * sizeof(*frames->items));
    }
    frames->items[frames->count++] = frame;
}

void kvc_frames_append_copy(struct kvc_frames *frames, const void *data, size_t size)
{
    uint8_t *copy = kvc_alloc(size);
    if (size > 0)
        memcpy(copy, data, size);
    kvc_frames_append(frames, (struct kvc_frame){copy, size, free, copy});
}

void kvc_frames_append_buffer(struct kvc_frames *frames, struct kvc_buffer *buffer)
{
    kvc_frames_append(frames, (struct kvc_frame){buffer->data, buffer->size, free, buffer->data});
    *buffer = (struct kvc_buffer){0};
}

void kvc_frames_append_view(struct kvc_frames *frames, const void *data, size_t size)
{
    kvc_frames_append(frames, (struct kvc_frame){.data = data, .size = size});
}

struct kvc_bytes kvc_frames_view(const struct kvc_frames *frames, size_t index)
{
    if (index >= frames->count)
        return (struct kvc_bytes){0};
    return (struct kvc_bytes){frames->items[index].data, frames->items[index].size};
}

void kvc_frames_copy(const struct kvc_frames *frames, struct kvc_frames *copy)
{
    for (size_t i = 0; i < frames->count; i++)
        kvc_frames_append_copy(copy, frames->items[i].data, frames->items[i].size);
}

bool kvc_frames_equal(const struct kvc_frames *a, const struct kvc_frames *b)
{
    if (a->count != b->count)
        return false;
    for (size_t i = 0; i < a->count; i++)
        if (!kvc_bytes_equal(kvc_frames_view(a, i), kvc_frames_view(b, i)))
            return false;
    return true;
}

void kvc_frames_clear(struct kvc_frames *frames)
{
    for (size_t i = 0; i < frames->count; i++)
        if (frames->items[i].release != NULL)
            frames->items[i].release(frames->items[i].owner);
    free(frames->items);
    *frames = (struct kvc_frames){0};
}
