/* An adapter in front of another that is wrong in one named way: what the checks of `bench l2 --check`
 * must find. */
#include <stdlib.h>
#include <string.h>

#include "src/base/clock.h"
#include "src/l2/l2.h"

struct config {
    const char *defect;
    struct kvc_l2_config *inner;
};

enum defect {
    LOST_STORE,
    PHANTOM_HIT,
    SWAPPED_OBJECTS,
    SHORT_LOAD,
    HALF_OVERWRITTEN,
    STORED_IN_PLACE,
    FAILED_AS_DONE,
    FAILURE_SPREADS,
    SHARED_NAMES,
    STAYS_AFTER_REMOVE,
    NEVER_RECOVERS,
    DEFECT_COUNT,
};

static const char *const names[DEFECT_COUNT] = {
    [LOST_STORE] = "lost-store",
    [PHANTOM_HIT] = "phantom-hit",
    [SWAPPED_OBJECTS] = "swapped-objects",
    [SHORT_LOAD] = "short-load",
    [HALF_OVERWRITTEN] = "half-overwritten",
    [STORED_IN_PLACE] = "stored-in-place",
    [FAILED_AS_DONE] = "failed-as-done",
    [FAILURE_SPREADS] = "failure-spreads",
    [SHARED_NAMES] = "shared-names",
    [STAYS_AFTER_REMOVE] = "stays-after-remove",
    [NEVER_RECOVERS] = "never-recovers",
};

struct store {
    const struct kvc_l2_adapter *inner;
    void *inner_store;
    enum defect defect;
};

struct lane {
    const struct store *store;
    void *inner_lane;
    bool failed;            /* something, before */
    struct kvc_l2_key last; /* loaded; its parts belong to the last item's owner */
    bool missed;            /* the last item */
};

#define FIELD(member) offsetof(struct config, member)
#define NAMES                                                                                      \
    "lost-store, phantom-hit, swapped-objects, short-load, half-overwritten, stored-in-place, "    \
    "failed-as-done, failure-spreads, shared-names, stays-after-remove or never-recovers"

static const struct kvc_l2_field fields[] = {
    {.name = "defect",
     .kind = KVC_L2_TEXT,
     .offset = FIELD(defect),
     .required = true,
     .accepted = NAMES},
    {.name = "inner",
     .kind = KVC_L2_INNER,
     .offset = FIELD(inner),
     .required = true,
     .accepted = "the JSON of another adapter"},
};

static const struct config defaults;

/* ---- the wrong ways ---- */

static kvc_status inner(const struct lane *lane, enum kvc_l2_operation operation,
                        struct kvc_l2_item *item, struct kvc_error *err)
{
    return lane->store->inner->operations[operation](lane->inner_lane, item, err);
}

/* Half of an object, under its name, for as long as somebody needs to look. */
static kvc_status store_in_place(const struct lane *lane, struct kvc_l2_item *item,
                                 struct kvc_error *err)
{
    struct kvc_l2_item half = *item;
    half.size /= 2;
    if (half.size > 0)
        KVC_GUARD(inner(lane, KVC_L2_STORE, &half, err));
    kvc_sleep_ms(5);
    return inner(lane, KVC_L2_STORE, item, err);
}

/* What is there keeps its second half. */
static kvc_status store_half_over(const struct lane *lane, struct kvc_l2_item *item,
                                  struct kvc_error *err)
{
    struct kvc_l2_item mixed = *item;
    mixed.data = kvc_alloc(item->size + 1);
    mixed.outcome = KVC_L2_FAILED;
    kvc_status status = inner(lane, KVC_L2_LOAD, &mixed, NULL);
    if (mixed.outcome == KVC_L2_DONE)
        memcpy(mixed.data, item->data, item->size / 2);
    else
        memcpy(mixed.data, item->data, item->size);
    mixed.outcome = KVC_L2_FAILED;
    status = inner(lane, KVC_L2_STORE, &mixed, err);
    item->outcome = mixed.outcome;
    free(mixed.data);
    return status;
}

static kvc_status with_plain_name(const struct lane *lane, enum kvc_l2_operation operation,
                                  struct kvc_l2_item *item, struct kvc_error *err)
{
    struct kvc_l2_item renamed = *item;
    char *model = kvc_format(KVC_STR_FMT, KVC_STR_ARG(item->key.model));
    for (char *c = model; *c != '\0'; c++)
        if (strchr("/\\%. \n", *c) != NULL)
            *c = '-';
    renamed.key.model = kvc_str_of(model);
    const kvc_status status = inner(lane, operation, &renamed, err);
    item->outcome = renamed.outcome;
    free(model);
    return status;
}

static kvc_status load_short(const struct lane *lane, struct kvc_l2_item *item,
                             struct kvc_error *err)
{
    uint8_t last = 0;
    if (item->size > 0)
        last = item->data[item->size - 1];
    const kvc_status status = inner(lane, KVC_L2_LOAD, item, err);
    if (item->size > 0)
        item->data[item->size - 1] = last;
    return status;
}

/* The object before. */
static kvc_status load_swapped(struct lane *lane, struct kvc_l2_item *item, struct kvc_error *err)
{
    struct kvc_l2_item other = *item;
    if (lane->last.chunk_hash.data != NULL)
        other.key = lane->last;
    lane->last = item->key;
    const kvc_status status = inner(lane, KVC_L2_LOAD, &other, err);
    item->outcome = other.outcome;
    return status;
}

static kvc_status load_after_miss(struct lane *lane, struct kvc_l2_item *item,
                                  struct kvc_error *err)
{
    if (lane->missed) {
        lane->missed = false;
        return kvc_fail(err, KVC_EREFUSED, "not after a miss");
    }
    const kvc_status status = inner(lane, KVC_L2_LOAD, item, err);
    lane->missed = item->outcome != KVC_L2_DONE;
    return status;
}

static kvc_status as_done(struct kvc_l2_item *item, kvc_status status)
{
    if (status != KVC_OK)
        item->outcome = KVC_L2_DONE;
    return KVC_OK;
}

static kvc_status act(struct lane *lane, enum kvc_l2_operation operation, struct kvc_l2_item *item,
                      struct kvc_error *err)
{
    const bool stores = operation == KVC_L2_STORE;
    const bool loads = operation == KVC_L2_LOAD;
    kvc_status status;
    switch (lane->store->defect) {
    case LOST_STORE:
        if (!stores)
            break;
        item->outcome = KVC_L2_DONE;
        return KVC_OK;
    case PHANTOM_HIT:
        status = inner(lane, operation, item, err);
        if (item->outcome == KVC_L2_ABSENT)
            item->outcome = KVC_L2_DONE;
        return status;
    case SHORT_LOAD:
        return loads ? load_short(lane, item, err) : inner(lane, operation, item, err);
    case SWAPPED_OBJECTS:
        return loads ? load_swapped(lane, item, err) : inner(lane, operation, item, err);
    case FAILURE_SPREADS:
        return loads ? load_after_miss(lane, item, err) : inner(lane, operation, item, err);
    case HALF_OVERWRITTEN:
        return stores ? store_half_over(lane, item, err) : inner(lane, operation, item, err);
    case STORED_IN_PLACE:
        return stores ? store_in_place(lane, item, err) : inner(lane, operation, item, err);
    case FAILED_AS_DONE:
        return as_done(item, inner(lane, operation, item, NULL));
    case SHARED_NAMES:
        return with_plain_name(lane, operation, item, err);
    case STAYS_AFTER_REMOVE:
        if (operation == KVC_L2_REMOVE) {
            item->outcome = KVC_L2_DONE;
            return KVC_OK;
        }
        break;
    default:
        break;
    }
    return inner(lane, operation, item, err);
}

static kvc_status run_one(struct lane *lane, enum kvc_l2_operation operation,
                          struct kvc_l2_item *item, struct kvc_error *err)
{
    if (lane->store->defect == NEVER_RECOVERS && lane->failed)
        return kvc_fail(err, KVC_ELOST, "the store was lost");
    const kvc_status status = act(lane, operation, item, err);
    lane->failed = lane->failed || status != KVC_OK;
    return status;
}

static kvc_status defective_store(void *lane, struct kvc_l2_item *item, struct kvc_error *err)
{
    return run_one(lane, KVC_L2_STORE, item, err);
}

static kvc_status defective_lookup(void *lane, struct kvc_l2_item *item, struct kvc_error *err)
{
    return run_one(lane, KVC_L2_LOOKUP, item, err);
}

static kvc_status defective_load(void *lane, struct kvc_l2_item *item, struct kvc_error *err)
{
    return run_one(lane, KVC_L2_LOAD, item, err);
}

static kvc_status defective_remove(void *lane, struct kvc_l2_item *item, struct kvc_error *err)
{
    return run_one(lane, KVC_L2_REMOVE, item, err);
}

/* ---- opening ---- */

static kvc_status find_defect(const char *name, enum defect *defect, struct kvc_error *err)
{
    for (size_t i = 0; i < DEFECT_COUNT; i++) {
        *defect = (enum defect)i;
        if (strcmp(names[i], name) == 0)
            return KVC_OK;
    }
    kvc_fail(err, KVC_EUSAGE, "there is no defect '%s'", kvc_text_show(kvc_str_of(name)).text);
    kvc_error_set_where(err, "defect");
    return kvc_error_set_expected(err, "%s", NAMES);
}

static kvc_status defective_open(const void *values, const struct kvc_l2_memory *memory,
                                 void **opened, struct kvc_error *err)
{
    const struct config *config = values;
    enum defect defect;
    void *inner_store;
    KVC_GUARD(find_defect(config->defect, &defect, err));
    KVC_GUARD(config->inner->adapter->open(config->inner->values, memory, &inner_store, err));
    struct store *store = kvc_alloc_zero(1, sizeof(*store));
    *store = (struct store){config->inner->adapter, inner_store, defect};
    *opened = store;
    return KVC_OK;
}

static kvc_status defective_close(void *opaque, struct kvc_error *err)
{
    struct store *store = opaque;
    const kvc_status status = store->inner->close(store->inner_store, err);
    free(store);
    return status;
}

static kvc_status defective_open_lane(void *opened, void **made, struct kvc_error *err)
{
    struct lane *lane = kvc_alloc_zero(1, sizeof(*lane));
    lane->store = opened;
    const kvc_status status =
        lane->store->inner->open_lane(lane->store->inner_store, &lane->inner_lane, err);
    if (status == KVC_OK)
        *made = lane;
    else
        free(lane);
    return status;
}

static void defective_close_lane(void *opaque)
{
    struct lane *lane = opaque;
    lane->store->inner->close_lane(lane->inner_lane);
    free(lane);
}

const struct kvc_l2_adapter kvc_l2_defective = {
    .type = "defective",
    .title = "DefectiveL2Adapter",
    .fields = fields,
    .field_count = KVC_COUNT_OF(fields),
    .config_size = sizeof(struct config),
    .defaults = &defaults,
    .batch = 4,
    .open = defective_open,
    .open_lane = defective_open_lane,
    .operations = {defective_store, defective_lookup, defective_load, defective_remove},
    .close_lane = defective_close_lane,
    .close = defective_close,
};
