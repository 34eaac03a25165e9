/* --strict: what clients write into the pool, and what becomes of registered memory. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "src/driver/worker.h"
#include "tests/unit/mock/strict_log.h"

enum { CHUNK = 16, CHUNKS = 2, BLOCKS = 4 };

static struct child child;
static struct kvc_worker *worker;
static int64_t tokens[CHUNKS * CHUNK];
static const int64_t block_ids[BLOCKS] = {5, 2, 7, 1};

static void start(struct kvc_mock_options options, enum kvc_transfer_mode mode)
{
    struct kvc_error err = KVC_ERROR_INIT;
    options.chunk_size = CHUNK;
    strict_start(&child, options);
    struct kvc_worker_options wanted = {
        .instance_id = 1, .model_name = KVC_STR("m"), .mode = mode, .chunk_size = CHUNK};
    cr_assert_eq(kvc_geometry_parse("(2,8,8,2,15):uint8:3", &wanted.geometry, &err), KVC_OK);
    cr_assert_eq(kvc_worker_open(&child.rpc, &wanted, &worker, &err), KVC_OK, "%s", err.what);
}

/* Ends the session and all else as it should be; what was said names the rules that are expected, and no
 * other. */
static void finish(const char *expected)
{
    kvc_rpc_end_session(&child.rpc, KVC_STR("r"), NULL);
    cr_assert_eq(kvc_worker_close(worker, NULL), KVC_OK);
    const char *text = strict_finish(&child);
    if (expected == NULL)
        cr_assert_str_eq(text, "");
    else
        cr_assert(strstr(text, expected) != NULL && strchr(text, '\n')[1] == '\0', "\"%s\" in:\n%s",
                  expected, text);
}

static struct kvc_key key(void)
{
    struct kvc_key key = kvc_worker_key(worker, (struct kvc_ints){tokens, CHUNKS * CHUNK}, 0,
                                        CHUNKS * CHUNK, KVC_STR("r"), KVC_STR(""));
    key.worker_id = KVC_SOME_INT(0);
    return key;
}

/* ---- clients that do it right ---- */

static void store_and_retrieve(void)
{
    const struct kvc_ints ids = {block_ids, BLOCKS};
    const struct kvc_key wanted = key();
    struct kvc_store_result result;
    bool success = false;
    int64_t chunks = 0;
    cr_assert_eq(kvc_worker_store(worker, &wanted, ids, &result, NULL), KVC_OK);
    cr_assert_eq(kvc_worker_end_session(worker, KVC_STR("r"), NULL), KVC_OK);
    cr_assert_eq(kvc_worker_lookup(worker, &wanted, &chunks, NULL), KVC_OK);
    cr_assert_eq(chunks, CHUNKS);
    cr_assert_eq(kvc_worker_retrieve(worker, &wanted, ids, 0, &success, NULL), KVC_OK);
    cr_assert(success);
}

Test(slot_guard, nothing_is_said_of_the_drivers_over_the_pool)
{
    start((struct kvc_mock_options){0}, KVC_MODE_ENGINE_DRIVEN);
    store_and_retrieve();
    finish(NULL);
}

Test(slot_guard, nothing_is_said_of_the_drivers_inline)
{
    start((struct kvc_mock_options){.no_pool = true}, KVC_MODE_ENGINE_DRIVEN);
    store_and_retrieve();
    finish(NULL);
}

Test(slot_guard, nothing_is_said_of_the_drivers_with_mapped_memory)
{
    start((struct kvc_mock_options){0}, KVC_MODE_LMCACHE_DRIVEN);
    store_and_retrieve();
    finish(NULL);
}

/* ---- clients that do not ---- */

/* The slots of all chunks, with every byte written. */
static struct kvc_reply write_slots(void)
{
    const struct kvc_request prepare = {.op = KVC_OP_PREPARE_STORE, .key = key(), .instance_id = 1};
    struct kvc_reply reply = {0};
    cr_assert_eq(kvc_rpc_call(&child.rpc, &prepare, &reply, NULL), KVC_OK);
    cr_assert_eq(reply.context.slots.count, (size_t)CHUNKS);
    for (size_t i = 0; i < reply.context.slots.count; i++) {
        const struct kvc_slot *slot = &reply.context.slots.items[i];
        memset(worker->pool.data + slot->offset, 1, (size_t)slot->length);
    }
    return reply;
}

static uint8_t *slot_data(const struct kvc_reply *reply, size_t i)
{
    return worker->pool.data + reply->context.slots.items[i].offset;
}

static int64_t slot_length(const struct kvc_reply *reply)
{
    return reply->context.slots.items[0].length;
}

static void commit(void)
{
    bool ok = false;
    const struct kvc_request request = {.op = KVC_OP_COMMIT_STORE, .key = key(), .instance_id = 1};
    cr_assert_eq(kvc_rpc_call_bool(&child.rpc, &request, &ok, NULL), KVC_OK);
    cr_assert(ok);
}

Test(slot_guard, a_slot_that_was_not_written)
{
    start((struct kvc_mock_options){0}, KVC_MODE_ENGINE_DRIVEN);
    const struct kvc_request prepare = {.op = KVC_OP_PREPARE_STORE, .key = key(), .instance_id = 1};
    struct kvc_reply reply = {0};
    cr_assert_eq(kvc_rpc_call(&child.rpc, &prepare, &reply, NULL), KVC_OK);
    memset(slot_data(&reply, 0), 1, (size_t)slot_length(&reply));
    memset(slot_data(&reply, 1), 1, (size_t)slot_length(&reply) - 8);
    commit();
    kvc_reply_clear(&reply);
    finish("commit_store: slot-not-written: slot [");
}

Test(slot_guard, a_byte_before_a_slot)
{
    start((struct kvc_mock_options){0}, KVC_MODE_ENGINE_DRIVEN);
    struct kvc_reply reply = write_slots();
    slot_data(&reply, 0)[-1] ^= 1;
    commit();
    kvc_reply_clear(&reply);
    finish("commit_store: wrote-outside-slot: slot [");
}

Test(slot_guard, a_byte_behind_a_slot)
{
    start((struct kvc_mock_options){0}, KVC_MODE_ENGINE_DRIVEN);
    struct kvc_reply reply = write_slots();
    slot_data(&reply, 1)[slot_length(&reply)] ^= 1;
    commit();
    kvc_reply_clear(&reply);
    finish("commit_store: wrote-outside-slot: slot [");
}

Test(slot_guard, a_byte_beside_a_chunk_after_the_commit)
{
    start((struct kvc_mock_options){0}, KVC_MODE_ENGINE_DRIVEN);
    struct kvc_reply reply = write_slots();
    commit();
    slot_data(&reply, 1)[slot_length(&reply) + 4000] ^= 1;
    kvc_reply_clear(&reply);
    finish("strict: wrote-outside-slot: beside chunk [");
}

Test(slot_guard, a_byte_of_a_chunk_after_the_commit)
{
    start((struct kvc_mock_options){0}, KVC_MODE_ENGINE_DRIVEN);
    struct kvc_reply reply = write_slots();
    commit();
    slot_data(&reply, 0)[slot_length(&reply) - 1] ^= 1;
    kvc_reply_clear(&reply);
    finish("strict: wrote-after-commit: chunk [");
}

Test(slot_guard, is_said_once_when_the_chunk_is_read)
{
    start((struct kvc_mock_options){0}, KVC_MODE_ENGINE_DRIVEN);
    struct kvc_reply reply = write_slots();
    const struct kvc_key wanted = key();
    bool success = false;
    int64_t chunks = 0;
    commit();
    slot_data(&reply, 1)[0] ^= 1;
    kvc_reply_clear(&reply);
    cr_assert_eq(kvc_worker_lookup(worker, &wanted, &chunks, NULL), KVC_OK);
    cr_assert_eq(kvc_worker_retrieve(worker, &wanted, (struct kvc_ints){block_ids, BLOCKS}, 0,
                                     &success, NULL),
                 KVC_OK);
    cr_assert(success);
    finish("strict: wrote-after-commit: chunk [");
}

Test(slot_guard, registered_memory_that_is_cut_off)
{
    start((struct kvc_mock_options){0}, KVC_MODE_LMCACHE_DRIVEN);
    const struct kvc_key wanted = key();
    struct kvc_store_result result;
    const int file = shm_open(worker->paged.tensors[0].segment.name, O_RDWR, 0);
    cr_assert_eq(ftruncate(file, 0), 0);
    close(file);
    kvc_worker_store(worker, &wanted, (struct kvc_ints){block_ids, BLOCKS}, &result, NULL);
    finish("store: memory-gone: of instance 1; ");
}
