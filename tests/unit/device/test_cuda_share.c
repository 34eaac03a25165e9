/* Memory and events of one process in another, through the stand-in driver. */
#include <criterion/criterion.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/device/cuda_sample.h"

enum { SIZE = 4096, LATE_MS = 150 };

/* What the owner tells the other process. */
struct offer {
    struct kvc_cu_ipc_memory memory;
    int64_t offset;
    struct kvc_cu_ipc_event event;
};

/* The other process: forked before anybody opens the GPU, it answers with one byte. */
struct other {
    pid_t process;
    int to, from;
};

static struct other start_other(bool (*work)(const struct offer *offer))
{
    int to[2], from[2];
    cr_assert_eq(pipe(to), 0);
    cr_assert_eq(pipe(from), 0);
    const pid_t process = fork();
    if (process == 0) {
        struct offer offer;
        const bool good = read(to[0], &offer, sizeof(offer)) == sizeof(offer) && work(&offer);
        _exit(write(from[1], good ? "y" : "n", 1) != 1);
    }
    close(to[0]);
    close(from[1]);
    return (struct other){process, to[1], from[0]};
}

static bool tell_other(const struct other *other, const struct offer *offer)
{
    char answer = 'n';
    cr_assert_eq(write(other->to, offer, sizeof(*offer)), sizeof(*offer));
    cr_assert_eq(read(other->from, &answer, 1), 1);
    waitpid(other->process, NULL, 0);
    return answer == 'y';
}

static uint8_t pattern[SIZE];

static void fill_pattern(void)
{
    for (size_t i = 0; i < SIZE; i++)
        pattern[i] = (uint8_t)(i * 13 + 5);
}

/* ---- memory ---- */

static bool read_twice_and_write(const struct offer *offer)
{
    uint8_t *first = NULL, *second = NULL;
    int64_t size = 0;
    fill_pattern();
    bool good = kvc_cuda_map(&offer->memory, &first, &size, NULL) == KVC_OK && size == SIZE;
    good = good && kvc_cuda_map(&offer->memory, &second, &size, NULL) == KVC_OK && second == first;
    good = good && kvc_cuda_unmap(second); /* the first use still holds */
    good = good && sample_is_on_gpu(first + offer->offset, pattern + 100, SIZE - 100);
    good = good && kvc_device_cuda.copy_in(first, "written", 7, NULL) == KVC_OK;
    return good && kvc_cuda_unmap(first) && !kvc_cuda_unmap(first);
}

Test(cuda_share, memory_is_mapped_by_another_process)
{
    sample_log_begin();
    const struct other other = start_other(read_twice_and_write);
    struct offer offer;
    fill_pattern();
    uint8_t *memory = sample_on_gpu(pattern, SIZE);
    cr_assert_eq(kvc_cuda_share(memory + 100, &offer.memory, &offer.offset, NULL), KVC_OK);
    cr_assert_eq(offer.offset, 100);
    cr_assert(tell_other(&other, &offer));
    cr_assert(sample_is_on_gpu(memory, "written", 7));
    kvc_device_cuda.free(memory);
    cr_assert(sample_log_is_clean(2));
}

static bool fails_to_map(const struct offer *offer)
{
    uint8_t *memory = NULL;
    int64_t size;
    struct kvc_error err = KVC_ERROR_INIT;
    return kvc_cuda_map(&offer->memory, &memory, &size, &err) == KVC_ESYSTEM &&
           strcmp(err.what, "CUDA: cuIpcOpenMemHandle: invalid resource handle (400)") == 0;
}

Test(cuda_share, memory_that_was_freed_is_not_mapped)
{
    const struct other other = start_other(fails_to_map);
    struct offer offer;
    cr_assert_eq(kvc_cuda_open(NULL), KVC_OK);
    uint8_t *memory = sample_on_gpu(pattern, SIZE);
    cr_assert_eq(kvc_cuda_share(memory, &offer.memory, &offer.offset, NULL), KVC_OK);
    kvc_device_cuda.free(memory);
    cr_assert(tell_other(&other, &offer));
    kvc_cuda_close();
}

/* ---- events ---- */

/* Copies the owner's memory after its event; then it holds what was written late. */
static bool copies_after_event(const struct offer *offer)
{
    uint8_t *memory = NULL;
    int64_t size;
    struct kvc_cuda_queue *queue;
    void *copy;
    fill_pattern();
    bool good = kvc_cuda_map(&offer->memory, &memory, &size, NULL) == KVC_OK &&
                kvc_cuda_queue_open(&queue, NULL) == KVC_OK &&
                kvc_device_cuda.alloc(SIZE, &copy, NULL) == KVC_OK;
    if (!good)
        return false;
    good = kvc_cuda_queue_after(queue, &offer->event, NULL) == KVC_OK;
    good = good && kvc_cuda_copy(queue, copy, memory, SIZE, NULL) == KVC_OK;
    good = good && kvc_cuda_queue_wait(queue, NULL) == KVC_OK;
    good = good && sample_is_on_gpu(copy, pattern, SIZE);
    kvc_device_cuda.free(copy);
    kvc_cuda_queue_close(queue);
    return kvc_cuda_unmap(memory) && good;
}

Test(cuda_share, work_waits_for_an_event_of_another_process)
{
    sample_log_begin();
    const struct other other = start_other(copies_after_event);
    struct offer offer;
    struct kvc_cuda_queue *queue;
    struct kvc_cu_event *event;
    static const uint8_t zeros[SIZE];
    fill_pattern();
    uint8_t *from = sample_on_gpu(pattern, SIZE), *memory = sample_on_gpu(zeros, SIZE);
    cr_assert_eq(kvc_cuda_queue_open(&queue, NULL), KVC_OK);
    cr_assert_eq(kvc_cuda_share(memory, &offer.memory, &offer.offset, NULL), KVC_OK);
    cr_assert_eq(kvc_cuda_write_late(queue, memory, from, SIZE, LATE_MS, NULL), KVC_OK);
    cr_assert_eq(kvc_cuda_queue_event(queue, &event, &offer.event, NULL), KVC_OK);
    cr_assert(sample_is_on_gpu(memory, zeros, SIZE), "the kernel did not wait");
    cr_assert(tell_other(&other, &offer));
    kvc_cuda_event_close(event);
    kvc_cuda_queue_close(queue);
    kvc_device_cuda.free(memory);
    kvc_device_cuda.free(from);
    cr_assert(sample_log_is_clean(2));
}

static bool event_is_gone(const struct offer *offer)
{
    struct kvc_cuda_queue *queue;
    const bool opened = kvc_cuda_queue_open(&queue, NULL) == KVC_OK;
    const bool gone = opened && kvc_cuda_queue_after(queue, &offer->event, NULL) == KVC_ESYSTEM;
    kvc_cuda_queue_close(queue);
    return gone;
}

Test(cuda_share, event_that_was_destroyed_cannot_be_waited_for)
{
    const struct other other = start_other(event_is_gone);
    struct offer offer;
    struct kvc_cuda_queue *queue;
    struct kvc_cu_event *event;
    cr_assert_eq(kvc_cuda_queue_open(&queue, NULL), KVC_OK);
    cr_assert_eq(kvc_cuda_queue_event(queue, &event, &offer.event, NULL), KVC_OK);
    kvc_cuda_event_close(event);
    cr_assert_eq(kvc_cuda_queue_wait(queue, NULL), KVC_OK);
    cr_assert(tell_other(&other, &offer));
    kvc_cuda_queue_close(queue);
}
