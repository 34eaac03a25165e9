#include "tests/mock_server/p2p.h"

#include <stdlib.h>
#include <string.h>

#include "tests/mock_server/handlers.h"

/* Tasks that nobody has fetched; the oldest go first. */
enum { MOCK_MAX_TASKS = 1024 };

static void end_task(struct mock_p2p *p2p, struct mock_p2p_task *task)
{
    LIST_REMOVE(task, in_list);
    p2p->count--;
    free(task->addresses);
    free(task);
}

void mock_p2p_clear(struct mock_p2p *p2p)
{
    while (!LIST_EMPTY(&p2p->tasks))
        end_task(p2p, LIST_FIRST(&p2p->tasks));
    mock_holder_release(&p2p->locks);
}

static struct mock_object *find(const struct mock *mock, const struct kvc_object_key *named)
{
    struct mock_object_key key = {
        .model = named->model_name,
        .kv_rank = named->kv_rank,
        .group = named->object_group_id,
        .salt = named->cache_salt,
    };
    if (named->chunk_hash.size != sizeof(key.hash))
        return NULL;
    memcpy(key.hash, named->chunk_hash.data, sizeof(key.hash));
    return mock_store_find(&mock->store, &key);
}

static struct mock_p2p_task *begin_task(struct mock_p2p *p2p, size_t count)
{
    struct mock_p2p_task *oldest = NULL, *task;
    LIST_FOREACH(task, &p2p->tasks, in_list)
    {
        oldest = task;
    }
    if (p2p->count == MOCK_MAX_TASKS)
        end_task(p2p, oldest);
    task = kvc_alloc_zero(1, sizeof(*task));
    task->id = ++p2p->last_id;
    task->addresses = kvc_alloc_zero(count + 1, sizeof(task->addresses[0]));
    task->count = count;
    LIST_INSERT_HEAD(&p2p->tasks, task, in_list);
    p2p->count++;
    return task;
}

/* Whether objects after an absent one count as absent, too. */
static bool ends_at_gap(const struct mock *mock)
{
    return mock_speaks(mock, KVC_FEATURE_P2P_GAPS) == mock_has(mock, MOCK_DEFECT_P2P_GAPS_REVERSED);
}

/* Locks the objects that there are. */
enum mock_answer mock_on_p2p_lookup(struct mock_call *call)
{
    struct mock *mock = call->mock;
    const struct kvc_object_keys *keys = &call->request->object_keys;
    struct mock_p2p_task *task = begin_task(&mock->p2p, keys->count);
    bool present = true;
    for (size_t i = 0; i < keys->count; i++) {
        const bool goes_on = present || !ends_at_gap(mock);
        struct mock_object *object = goes_on ? find(mock, &keys->items[i]) : NULL;
        present = object != NULL && object->ready;
        task->addresses[i] = (struct kvc_object_address){.offset = -1};
        if (!present)
            continue;
        task->addresses[i].offset =
            object->offset + (mock_has(mock, MOCK_DEFECT_P2P_OFFSET_WRONG) ? MOCK_POOL_ALIGN : 0);
        task->addresses[i].size = object->layout.bytes;
        if (!mock_has(mock, MOCK_DEFECT_P2P_LOCKS_NOTHING))
            mock_store_lock(&mock->store, object, &mock->p2p.locks, 1, mock->now_ms);
    }
    call->reply->count = task->id;
    return MOCK_REPLY;
}

/* Each result is given once. */
enum mock_answer mock_on_p2p_query(struct mock_call *call)
{
    struct mock_p2p *p2p = &call->mock->p2p;
    struct mock_p2p_task *task;
    LIST_FOREACH(task, &p2p->tasks, in_list)
    {
        if (task->id == call->request->task_id)
            break;
    }
    if (task == NULL) {
        call->reply->is_void = true;
        return MOCK_REPLY;
    }
    struct kvc_object_address *addresses =
        kvc_arena_alloc_array(call->arena, task->count, sizeof(*addresses));
    memcpy(addresses, task->addresses, task->count * sizeof(*addresses));
    call->reply->addresses = (struct kvc_object_addresses){addresses, task->count};
    if (!mock_has(call->mock, MOCK_DEFECT_P2P_RESULT_KEPT))
        end_task(p2p, task);
    return MOCK_REPLY;
}

enum mock_answer mock_on_p2p_unlock(struct mock_call *call)
{
    const struct mock *mock = call->mock;
    const struct kvc_object_keys *keys = &call->request->object_keys;
    for (size_t i = 0; i < keys->count; i++) {
        struct mock_object *object = find(mock, &keys->items[i]);
        struct mock_lock *lock =
            object != NULL ? mock_object_lock_of(object, &mock->p2p.locks) : NULL;
        if (lock != NULL)
            mock_lock_release(lock, 1);
    }
    return MOCK_REPLY;
}
