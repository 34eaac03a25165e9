#include "src/base/clock.h"
#include "tests/mock_server/handlers.h"

enum { MOCK_PING_DELAY_MS = 30000 };

enum mock_answer mock_on_noop(struct mock_call *call)
{
    call->reply->text = mock_has(call->mock, MOCK_DEFECT_NOOP_TEXT) ? KVC_STR("ok") : KVC_STR("OK");
    return MOCK_REPLY;
}

/* Notes that an instance, in either mode, is alive. Returns whether there is one. */
static bool note_ping(struct mock *mock, int64_t id)
{
    bool known = false;
    for (int mode = 0; mode < MOCK_MODE_COUNT; mode++) {
        struct mock_instance *instance =
            mock_registry_find(&mock->registry, (enum mock_mode)mode, id);
        if (instance == NULL)
            continue;
        instance->seen_ms = mock->now_ms;
        instance->has_pinged = true;
        known = true;
    }
    return known;
}

enum mock_answer mock_on_ping(struct mock_call *call)
{
    const struct kvc_optional_int *id = &call->request->ping_instance;
    const bool known = !id->present || note_ping(call->mock, id->value);
    call->reply->ok = known || !mock_has(call->mock, MOCK_DEFECT_PING_FALSE);
    if (mock_has(call->mock, MOCK_DEFECT_PING_LATE))
        call->delay_ms = MOCK_PING_DELAY_MS;
    return MOCK_REPLY;
}

enum mock_answer mock_on_chunk_size(struct mock_call *call)
{
    const struct mock *mock = call->mock;
    call->reply->count = mock->options.chunk_size;
    if (mock_has(mock, MOCK_DEFECT_CHUNK_SIZE_CHANGES) && mock->registry.any_ever)
        call->reply->count *= 2;
    return MOCK_REPLY;
}

void mock_clear(struct mock *mock, bool force)
{
    if (mock_has(mock, MOCK_DEFECT_CLEAR_IGNORED))
        return;
    bool keep_locked = !force;
    if (force && mock_has(mock, MOCK_DEFECT_CLEAR_KEEPS_LOCKED))
        keep_locked = true;
    if (!force && mock_has(mock, MOCK_DEFECT_CLEAR_DROPS_LOCKED))
        keep_locked = false;
    if (!keep_locked) {
        mock_transfers_drop_all(&mock->transfers, &mock->store);
        mock_store_clear(&mock->store);
        return;
    }
    struct mock_object *object = TAILQ_FIRST(&mock->store.by_use);
    while (object != NULL) {
        struct mock_object *next = TAILQ_NEXT(object, by_use);
        if (object->ready && mock_object_locks(object, mock->now_ms) == 0)
            mock_store_remove(&mock->store, object);
        object = next;
    }
}

enum mock_answer mock_on_clear(struct mock_call *call)
{
    const bool can_be_gentle = mock_speaks(call->mock, KVC_FEATURE_CLEAR_FORCE);
    mock_clear(call->mock, !can_be_gentle || call->request->force);
    return MOCK_REPLY;
}

enum mock_answer mock_on_report_blocks(struct mock_call *call)
{
    return mock_has(call->mock, MOCK_DEFECT_REPORT_SILENT) ? MOCK_SILENCE : MOCK_REPLY;
}

/* The mock has none of them. */
enum mock_answer mock_on_experimental(struct mock_call *call)
{
    static const struct kvc_str names[] = {{"kv_event_stream", sizeof("kv_event_stream") - 1}};
    if (mock_has(call->mock, MOCK_DEFECT_EXPERIMENTAL_CLAIMED))
        call->reply->names = (struct kvc_strs){names, KVC_COUNT_OF(names)};
    return MOCK_REPLY;
}
