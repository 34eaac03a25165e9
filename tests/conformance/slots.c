/* The slots that PREPARE_STORE and PREPARE_RETRIEVE name: where in the pool they lie, what they
 * say of themselves, and whose bytes they hold. */
#include <stdio.h>
#include <string.h>

#include "tests/conformance/p2p_fixture.h"
#include "tests/conformance/registration_fixture.h"

#define SLOT_LAYOUTS (KVC_LAYOUT_BIT(KVC_LAYOUT_NHD) | KVC_LAYOUT_BIT(KVC_LAYOUT_MLA))

/* ---- what a slot says ---- */

static void inside_pool(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const int64_t chunks = kvc_ctx_variant_is(ctx, "one-chunk") ? 1 : 5;
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, chunks));
    const struct kvc_transfer_context *context = kvc_prepare_slots(ctx, worker, &key, chunks);
    for (size_t i = 0; i < context->slots.count; i++) {
        const struct kvc_slot *slot = &context->slots.items[i];
        KVC_EXPECT(ctx, slot->offset >= 0 && slot->length > 0,
                   "slot %zu has offset %lld and length %lld", i, (long long)slot->offset,
                   (long long)slot->length);
        KVC_EXPECT(ctx, slot->offset <= worker->pool_size - slot->length,
                   "slot %zu (offset %lld, length %lld) ends behind the pool of %lld bytes", i,
                   (long long)slot->offset, (long long)slot->length, (long long)worker->pool_size);
    }
}

KVC_CHECK(inside_pool, .id = "slots/inside-pool",
          .clause = "Every slot lies inside the pool that the registration named.",
          .source = "protocol 3.3, 5, N23", .exchange = "PREPARE_STORE", .level = KVC_LEVEL_MUST,
          .needs = KVC_NEED_POOL,
          .variants = (const char *const[]){"one-chunk", "five-chunks", NULL}, .run = inside_pool);

static void expect_shape(struct kvc_ctx *ctx, const struct kvc_slot *slot,
                         const struct kvc_group *group, int64_t tokens)
{
    int64_t expected[4] = {group->kv_size, group->num_layers, tokens, kvc_group_hidden(group)};
    struct kvc_ints shape = {expected, 4};
    if (group->kv_size == 1)
        shape = kvc_ints_slice(shape, 1, 3);
    kvc_expect_int(ctx, "dimensions of a slot's shape", (int64_t)slot->shape.count,
                   (int64_t)shape.count);
    for (size_t i = 0; i < shape.count; i++) {
        char what[64];
        snprintf(what, sizeof what, "shape[%zu] of a slot", i);
        kvc_expect_int(ctx, what, slot->shape.items[i], shape.items[i]);
    }
}

static void shape_as_registered(struct kvc_ctx *ctx)
{
    struct kvc_worker_options options = kvc_worker_defaults(ctx);
    struct kvc_group *group = &options.geometry.groups[0];
    group->num_layers = 3; /* no two dimensions alike */
    struct kvc_worker *worker = kvc_open_worker(ctx, &options);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 2));
    const struct kvc_transfer_context *context = kvc_prepare_slots(ctx, worker, &key, 2);
    for (size_t i = 0; i < context->slots.count; i++)
        expect_shape(ctx, &context->slots.items[i], group, options.chunk_size);
}

KVC_CHECK(shape_as_registered, .id = "slots/shape",
          .clause = "A slot's shape is [2, layers, tokens, hidden size] as registered, without the "
                    "first dimension for MLA.",
          .source = "protocol 3.3, 5.1, B55", .exchange = "PREPARE_STORE", .level = KVC_LEVEL_MUST,
          .needs = KVC_NEED_POOL, .layouts = SLOT_LAYOUTS, .run = shape_as_registered);

static void length_is_shape(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 2));
    const struct kvc_transfer_context *context = kvc_prepare_slots(ctx, worker, &key, 2);
    for (size_t i = 0; i < context->slots.count; i++) {
        const struct kvc_slot *slot = &context->slots.items[i];
        int64_t bytes = (int64_t)kvc_ctx_dtype(ctx)->size;
        for (size_t j = 0; j < slot->shape.count; j++)
            KVC_EXPECT(ctx, !__builtin_mul_overflow(bytes, slot->shape.items[j], &bytes),
                       "the shape of slot %zu has more elements than can be counted", i);
        kvc_expect_int(ctx, "length of a slot", slot->length, bytes);
    }
}

KVC_CHECK(length_is_shape, .id = "slots/length",
          .clause = "A slot's length is the product of its shape times the size of an element.",
          .source = "protocol 5.1, B55", .exchange = "PREPARE_STORE", .level = KVC_LEVEL_MUST,
          .needs = KVC_NEED_POOL, .layouts = SLOT_LAYOUTS,
          .dtypes = (const char *const[]){"float16", "bfloat16", "float32", "uint8", NULL},
          .run = length_is_shape);

static void dtype_as_registered(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 1));
    const struct kvc_transfer_context *context = kvc_prepare_slots(ctx, worker, &key, 1);
    kvc_expect_str(ctx, "dtype of a slot", context->slots.items[0].dtype, kvc_ctx_dtype(ctx)->name);
}

KVC_CHECK(dtype_as_registered, .id = "slots/dtype",
          .clause = "A slot's dtype is the registered one, by its bare torch name.",
          .source = "protocol 3.3", .exchange = "PREPARE_STORE", .level = KVC_LEVEL_MUST,
          .needs = KVC_NEED_POOL,
          .dtypes = (const char *const[]){"float16", "bfloat16", "float32", "uint8", NULL},
          .run = dtype_as_registered);

/* Offsets of chunks whose length is no multiple of anything larger than an element. */
static void expect_alignment(struct kvc_ctx *ctx, int64_t alignment)
{
    struct kvc_worker_options options = kvc_worker_defaults(ctx);
    options.geometry.groups[0].head_size = 7;
    options.geometry.groups[0].num_layers = 1;
    struct kvc_worker *worker = kvc_open_worker(ctx, &options);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 3));
    const struct kvc_transfer_context *context = kvc_prepare_slots(ctx, worker, &key, 3);
    for (size_t i = 0; i < context->slots.count; i++)
        kvc_expect_int(ctx, "a slot's offset modulo its alignment",
                       context->slots.items[i].offset % alignment, 0);
}

static void aligned_to_element(struct kvc_ctx *ctx)
{
    expect_alignment(ctx, (int64_t)kvc_ctx_dtype(ctx)->size);
}

KVC_CHECK(aligned_to_element, .id = "slots/aligned",
          .clause = "A slot begins at a multiple of the size of an element.",
          .source = "protocol 5", .exchange = "PREPARE_STORE", .level = KVC_LEVEL_MUST,
          .needs = KVC_NEED_POOL, .dtypes = (const char *const[]){"float32", "float64", NULL},
          .run = aligned_to_element);

static void aligned_to_page(struct kvc_ctx *ctx)
{
    expect_alignment(ctx, 4096);
}

KVC_CHECK(aligned_to_page, .id = "slots/page-aligned",
          .clause = "A slot begins at a multiple of 4096 bytes, also behind one of odd length.",
          .source = "protocol 5", .exchange = "PREPARE_STORE", .level = KVC_LEVEL_OBSERVED,
          .needs = KVC_NEED_POOL, .run = aligned_to_page);

static void no_shape(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    struct kvc_worker_options options = worker->options;
    options.instance_id = kvc_fresh_instance_id(ctx);
    struct kvc_request request = kvc_registration(ctx, &options, NULL);
    if (kvc_ctx_variant_is(ctx, "no-layers"))
        request.engine_driven.num_layers = 0;
    else
        request.engine_driven.hidden_dim_size = kvc_ctx_variant_is(ctx, "hidden-zero") ? 0 : -1;
    struct kvc_reply *reply = NULL;
    if (!kvc_try_call(ctx, &worker->rpc, &request, &reply))
        return;
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 1));
    struct kvc_request prepare = kvc_transfer_request(KVC_OP_PREPARE_STORE, worker, &key);
    prepare.instance_id = options.instance_id;
    if (kvc_try_call(ctx, &worker->rpc, &prepare, &reply))
        kvc_expect_int(ctx, "slots of PREPARE_STORE", (int64_t)reply->context.slots.count, 0);
}

KVC_CHECK(no_shape, .id = "slots/no-shape",
          .clause =
              "A worker that registered sizes that no chunk can have is refused then, or gets no "
              "slot.",
          .source = "protocol 4.3, B53", .exchange = "REGISTER (engine-driven), PREPARE_STORE",
          .level = KVC_LEVEL_SHOULD, .needs = KVC_NEED_POOL,
          .variants = (const char *const[]){"no-layers", "hidden-zero", "hidden-negative", NULL},
          .run = no_shape);

/* ---- whose bytes ---- */

/* Where the slot ends, or the last number that there is. */
static int64_t end_of(const struct kvc_slot *slot)
{
    int64_t end;
    return __builtin_add_overflow(slot->offset, slot->length, &end) ? INT64_MAX : end;
}

static bool overlap(const struct kvc_slot *a, const struct kvc_slot *b)
{
    return a->offset < end_of(b) && b->offset < end_of(a);
}

/* All slots seen so far, each with what it was given for. */
struct slot_list {
    struct kvc_slot items[32];
    size_t count;
};

static void expect_disjoint(struct kvc_ctx *ctx, struct slot_list *seen, struct kvc_slots slots)
{
    for (size_t i = 0; i < slots.count; i++) {
        const struct kvc_slot *slot = &slots.items[i];
        for (size_t j = 0; j < seen->count; j++)
            KVC_EXPECT(ctx, !overlap(slot, &seen->items[j]),
                       "slot at %lld (%lld bytes) overlaps the one at %lld (%lld bytes)",
                       (long long)slot->offset, (long long)slot->length,
                       (long long)seen->items[j].offset, (long long)seen->items[j].length);
        KVC_EXPECT(ctx, seen->count < KVC_COUNT_OF(seen->items), "more slots than were asked for");
        seen->items[seen->count++] = *slot;
    }
}

static void disjoint(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 6));
    struct slot_list seen = {0};
    expect_disjoint(ctx, &seen, kvc_prepare_slots(ctx, worker, &key, 6)->slots);
}

KVC_CHECK(disjoint, .id = "slots/disjoint", .clause = "The slots of one request do not overlap.",
          .source = "protocol 5, N23", .exchange = "PREPARE_STORE", .level = KVC_LEVEL_MUST,
          .needs = KVC_NEED_POOL, .run = disjoint);

static void disjoint_between_requests(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    struct kvc_worker *other = kvc_sibling_worker(ctx, worker);
    const struct kvc_key stored = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 3));
    kvc_store_slots(ctx, worker, &stored, 0);
    struct slot_list seen = {0};
    expect_disjoint(ctx, &seen, *kvc_open_slots(ctx, worker, &stored));
    for (int i = 0; i < 3; i++) {
        struct kvc_worker *asking = i % 2 == 0 ? worker : other;
        const struct kvc_key key = kvc_key_for(ctx, asking, kvc_fresh_chunks(ctx, 2));
        expect_disjoint(ctx, &seen, kvc_prepare_slots(ctx, asking, &key, 2)->slots);
    }
    kvc_commit_retrieve(ctx, worker, &stored);
}

KVC_CHECK(
    disjoint_between_requests, .id = "slots/disjoint-between-requests",
    .clause = "Slots that are being read or written overlap for no two requests and instances.",
    .source = "protocol 5, N23",
    .exchange = "PREPARE_RETRIEVE; PREPARE_STORE by two instances in turn", .level = KVC_LEVEL_MUST,
    .needs = KVC_NEED_POOL, .run = disjoint_between_requests);

static void one_writer(struct kvc_ctx *ctx)
{
    enum { WRITERS = 4, CHUNKS = 2 };
    struct kvc_worker *workers[WRITERS] = {kvc_default_worker(ctx)};
    const struct kvc_key key = kvc_key_for(ctx, workers[0], kvc_fresh_chunks(ctx, CHUNKS));
    uint64_t uids[WRITERS];
    for (size_t i = 1; i < WRITERS; i++)
        workers[i] = kvc_sibling_worker(ctx, workers[0]);
    for (size_t i = 0; i < WRITERS; i++) {
        const struct kvc_key own = kvc_key_renamed(ctx, &key);
        const struct kvc_request request =
            kvc_transfer_request(KVC_OP_PREPARE_STORE, workers[i], &own);
        uids[i] = kvc_send(ctx, &workers[i]->rpc, &request);
    }
    int64_t slots = 0;
    for (size_t i = 0; i < WRITERS; i++)
        slots += (int64_t)kvc_receive(ctx, &workers[i]->rpc, uids[i], KVC_OP_PREPARE_STORE)
                     ->context.slots.count;
    kvc_expect_int(ctx, "slots given for the chunks, to all workers together", slots, CHUNKS);
}

KVC_CHECK(
    one_writer, .id = "slots/one-writer",
    .clause = "Of several workers that prepare the same chunk at once exactly one gets its slot.",
    .source = "protocol 4.10", .exchange = "PREPARE_STORE from four connections at once",
    .level = KVC_LEVEL_MUST, .needs = KVC_NEED_POOL, .run = one_writer);

static void writing_changes_nothing_else(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    struct kvc_worker *other = kvc_sibling_worker(ctx, worker);
    const struct kvc_key before = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 3));
    const struct kvc_key pending = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 2));
    const struct kvc_key key = kvc_key_for(ctx, other, kvc_fresh_chunks(ctx, 3));
    kvc_store_slots(ctx, worker, &before, 0);
    kvc_stamp_slots(ctx, worker, &pending, kvc_prepare_slots(ctx, worker, &pending, 2), 1);
    const struct kvc_transfer_context *context = kvc_prepare_slots(ctx, other, &key, 3);
    for (size_t i = 0; i < context->slots.count; i++) {
        const struct kvc_slot *slot = &context->slots.items[i];
        memset(kvc_slot_bytes(ctx, other, slot), 0xff, (size_t)slot->length);
    }
    kvc_expect_true(ctx, "the answer of COMMIT_STORE", kvc_commit_store(ctx, worker, &pending));
    kvc_expect_slots_stamped(ctx, worker, &before, kvc_open_slots(ctx, worker, &before), 0);
    kvc_expect_slots_stamped(ctx, worker, &pending, kvc_open_slots(ctx, worker, &pending), 1);
    kvc_commit_retrieve(ctx, worker, &before);
    kvc_commit_retrieve(ctx, worker, &pending);
}

KVC_CHECK(writing_changes_nothing_else, .id = "slots/isolation",
          .clause = "Filling the slots of one request changes no byte of any other chunk.",
          .source = "protocol 5, N23",
          .exchange = "PREPARE_STORE, COMMIT_STORE; PREPARE_STORE of others; PREPARE_RETRIEVE",
          .level = KVC_LEVEL_MUST, .needs = KVC_NEED_POOL, .run = writing_changes_nothing_else);

static void pinned_while_read(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const int64_t chunk_bytes =
        kvc_geometry_chunk_bytes(&worker->options.geometry, worker->options.chunk_size);
    const struct kvc_key read = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 2));
    kvc_store_slots(ctx, worker, &read, 0);
    const struct kvc_slots *slots = kvc_open_slots(ctx, worker, &read);
    for (int64_t bytes = 0; bytes < 2 * worker->pool_size; bytes += 2 * chunk_bytes) {
        const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 2));
        kvc_stamp_slots(ctx, worker, &key, kvc_prepare_store(ctx, worker, &key), 1);
        kvc_commit_store(ctx, worker, &key); /* false when there was no room */
        kvc_end_session(ctx, worker, &key);
    }
    kvc_expect_slots_stamped(ctx, worker, &read, slots, 0);
    kvc_commit_retrieve(ctx, worker, &read);
}

static const struct kvc_target_setup tiny_pool = {.name = "tiny-pool", .pool_bytes = 1 << 20};

KVC_CHECK(pinned_while_read, .id = "slots/pinned-while-read",
          .clause = "Between PREPARE_RETRIEVE and COMMIT_RETRIEVE the slots keep their bytes, "
                    "however much is stored meanwhile.",
          .source = "protocol 4.12, 4.16, B28",
          .exchange = "LOOKUP, PREPARE_RETRIEVE; PREPARE_STORE, COMMIT_STORE until the pool was "
                      "filled twice",
          .level = KVC_LEVEL_MUST, .needs = KVC_NEED_POOL, .flags = KVC_FLAG_DESTRUCTIVE,
          .setup = &tiny_pool, .run = pinned_while_read);

/* ---- which chunk is where ---- */

static void in_token_order(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 4));
    kvc_store_slots(ctx, worker, &key, 0);
    kvc_expect_slots_stamped(ctx, worker, &key, kvc_open_slots(ctx, worker, &key), 0);
    kvc_commit_retrieve(ctx, worker, &key);
}

KVC_CHECK(in_token_order, .id = "slots/in-token-order",
          .clause = "PREPARE_RETRIEVE names the slots in the order of the chunks of the window.",
          .source = "protocol 3.3",
          .exchange = "PREPARE_STORE, COMMIT_STORE, LOOKUP, PREPARE_RETRIEVE",
          .level = KVC_LEVEL_MUST, .needs = KVC_NEED_POOL, .run = in_token_order);

static void of_the_window(struct kvc_ctx *ctx)
{
    enum { CHUNKS = 4 };
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, CHUNKS));
    kvc_store_slots(ctx, worker, &key, 0);
    kvc_expect_int(ctx, "chunks that LOOKUP finds", kvc_lookup(ctx, worker, &key), CHUNKS);
    for (int64_t i = CHUNKS; i-- > 0;) {
        const struct kvc_key one = kvc_key_chunks(worker, &key, i, 1);
        const struct kvc_prepare_retrieve_result *result = kvc_prepare_retrieve(ctx, worker, &one);
        kvc_expect_true(ctx, "success of PREPARE_RETRIEVE", result->success);
        kvc_expect_int(ctx, "slots for a window of one chunk", (int64_t)result->context.slots.count,
                       1);
        kvc_expect_slots_stamped(ctx, worker, &one, &result->context.slots, 0);
        kvc_commit_retrieve(ctx, worker, &one);
    }
}

KVC_CHECK(
    of_the_window, .id = "slots/of-the-window",
    .clause = "PREPARE_RETRIEVE of a part of the tokens names the slots of that part.",
    .source = "protocol 3.3, 4.12",
    .exchange = "PREPARE_STORE, COMMIT_STORE, LOOKUP, PREPARE_RETRIEVE of each chunk backwards",
    .level = KVC_LEVEL_MUST, .needs = KVC_NEED_POOL, .run = of_the_window);

static void retrieve_again(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 2));
    kvc_store_slots(ctx, worker, &key, 0);
    const struct kvc_slots *first = kvc_open_slots(ctx, worker, &key);
    const struct kvc_prepare_retrieve_result *again = kvc_prepare_retrieve(ctx, worker, &key);
    kvc_expect_true(ctx, "success of the second PREPARE_RETRIEVE", again->success);
    kvc_expect_int(ctx, "slots of the second PREPARE_RETRIEVE", (int64_t)again->context.slots.count,
                   (int64_t)first->count);
    for (size_t i = 0; i < first->count; i++)
        kvc_expect_int(ctx, "offset in the second answer", again->context.slots.items[i].offset,
                       first->items[i].offset);
    kvc_commit_retrieve(ctx, worker, &key);
}

KVC_CHECK(
    retrieve_again, .id = "slots/retrieve-again",
    .clause = "PREPARE_RETRIEVE may be repeated before COMMIT_RETRIEVE and names the same slots.",
    .source = "protocol 4.12", .exchange = "LOOKUP, PREPARE_RETRIEVE, PREPARE_RETRIEVE",
    .level = KVC_LEVEL_OBSERVED, .needs = KVC_NEED_POOL, .run = retrieve_again);

static void where_p2p_says(struct kvc_ctx *ctx)
{
    enum { CHUNKS = 3 };
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, CHUNKS));
    kvc_store_slots(ctx, worker, &key, 0);
    const struct kvc_slots *slots = kvc_open_slots(ctx, worker, &key);
    const struct kvc_object_keys keys = kvc_object_keys(ctx, worker, &key);
    const int64_t task =
        kvc_p2p_lock(ctx, &worker->rpc, keys, slots->items[0].shape, slots->items[0].dtype);
    const struct kvc_object_addresses addresses = kvc_p2p_addresses(ctx, &worker->rpc, task);
    kvc_p2p_unlock(ctx, &worker->rpc, keys);
    kvc_expect_int(ctx, "addresses of 3 chunks", (int64_t)addresses.count, CHUNKS);
    for (size_t i = 0; i < CHUNKS; i++) {
        kvc_expect_int(ctx, "offset by P2P", addresses.items[i].offset, slots->items[i].offset);
        kvc_expect_int(ctx, "size by P2P", addresses.items[i].size, slots->items[i].length);
    }
    kvc_commit_retrieve(ctx, worker, &key);
}

KVC_CHECK(where_p2p_says, .id = "slots/where-p2p-says",
          .clause =
              "A slot lies where the P2P operations say that its chunk is, by the chunk's BLAKE3 "
              "hash.",
          .source = "protocol 7.1, 7.4, B20; P2P operations",
          .exchange = "PREPARE_STORE, COMMIT_STORE, LOOKUP, PREPARE_RETRIEVE, P2P_LOOKUP_AND_LOCK, "
                      "P2P_QUERY_LOOKUP_RESULTS, P2P_UNLOCK_OBJECTS",
          .level = KVC_LEVEL_SHOULD, .needs = KVC_NEED_POOL | KVC_NEED_P2P, .run = where_p2p_says);
