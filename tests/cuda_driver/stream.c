/* Streams: a thread each, which carries out what was enqueued, in order. */
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "tests/cuda_driver/stand_in.h"

struct work {
    STAILQ_ENTRY(work) in_queue;
    void (*func)(void *arg);
    void *arg;
};

struct kvc_cu_stream {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    STAILQ_HEAD(, work) queue;
    bool busy, ends;
};

static void *run(void *arg)
{
    struct kvc_cu_stream *stream = arg;
    pthread_mutex_lock(&stream->lock);
    for (;;) {
        while (STAILQ_EMPTY(&stream->queue) && !stream->ends)
            pthread_cond_wait(&stream->changed, &stream->lock);
        struct work *work = STAILQ_FIRST(&stream->queue);
        if (work == NULL)
            break;
        STAILQ_REMOVE_HEAD(&stream->queue, in_queue);
        stream->busy = true;
        pthread_mutex_unlock(&stream->lock);
        work->func(work->arg);
        free(work->arg);
        free(work);
        pthread_mutex_lock(&stream->lock);
        stream->busy = false;
        pthread_cond_broadcast(&stream->changed);
    }
    pthread_mutex_unlock(&stream->lock);
    return NULL;
}

void stand_in_enqueue(struct kvc_cu_stream *stream, void (*func)(void *arg), void *arg)
{
    struct work *work = malloc(sizeof(*work));
    if (work == NULL)
        abort();
    *work = (struct work){.func = func, .arg = arg};
    pthread_mutex_lock(&stream->lock);
    STAILQ_INSERT_TAIL(&stream->queue, work, in_queue);
    pthread_cond_broadcast(&stream->changed);
    pthread_mutex_unlock(&stream->lock);
}

int cuStreamCreate(struct kvc_cu_stream **stream, unsigned flags)
{
    if (stand_in_ready() != KVC_CU_SUCCESS)
        return stand_in_ready();
    if (flags != KVC_CU_STREAM_NON_BLOCKING)
        return KVC_CU_INVALID_VALUE;
    struct kvc_cu_stream *fresh = calloc(1, sizeof(*fresh));
    if (fresh == NULL)
        return KVC_CU_OUT_OF_MEMORY;
    STAILQ_INIT(&fresh->queue);
    pthread_mutex_init(&fresh->lock, NULL);
    pthread_cond_init(&fresh->changed, NULL);
    if (pthread_create(&fresh->thread, NULL, run, fresh) != 0) {
        free(fresh);
        return KVC_CU_OUT_OF_MEMORY;
    }
    stand_in_count(STAND_IN_STREAM, 1);
    *stream = fresh;
    return KVC_CU_SUCCESS;
}

int cuStreamSynchronize(struct kvc_cu_stream *stream)
{
    pthread_mutex_lock(&stream->lock);
    while (!STAILQ_EMPTY(&stream->queue) || stream->busy)
        pthread_cond_wait(&stream->changed, &stream->lock);
    pthread_mutex_unlock(&stream->lock);
    return stand_in_ready();
}

int cuStreamDestroy_v2(struct kvc_cu_stream *stream)
{
    pthread_mutex_lock(&stream->lock);
    stream->ends = true;
    pthread_cond_broadcast(&stream->changed);
    pthread_mutex_unlock(&stream->lock);
    pthread_join(stream->thread, NULL);
    pthread_mutex_destroy(&stream->lock);
    pthread_cond_destroy(&stream->changed);
    free(stream);
    stand_in_count(STAND_IN_STREAM, -1);
    return KVC_CU_SUCCESS;
}

/* ---- copies ---- */

struct copy {
    void *to;
    const void *from;
    size_t size;
};

static void copy_now(void *arg)
{
    const struct copy *copy = arg;
    memmove(copy->to, copy->from, copy->size);
}

static int enqueue_copy(void *to, const void *from, size_t size, bool known,
                        struct kvc_cu_stream *stream)
{
    if (stand_in_ready() != KVC_CU_SUCCESS)
        return stand_in_ready();
    struct copy *copy = malloc(sizeof(*copy));
    if (!known || copy == NULL) {
        free(copy);
        return KVC_CU_INVALID_VALUE;
    }
    *copy = (struct copy){to, from, size};
    stand_in_enqueue(stream, copy_now, copy);
    return KVC_CU_SUCCESS;
}

int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t size, struct kvc_cu_stream *stream)
{
    return enqueue_copy(stand_in_pointer(to), from, size, stand_in_has(to, size), stream);
}

int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t size, struct kvc_cu_stream *stream)
{
    return enqueue_copy(to, stand_in_pointer(from), size, stand_in_has(from, size), stream);
}

int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t size, struct kvc_cu_stream *stream)
{
    return enqueue_copy(stand_in_pointer(to), stand_in_pointer(from), size,
                        stand_in_has(to, size) && stand_in_has(from, size), stream);
}
