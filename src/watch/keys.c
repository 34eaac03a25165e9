/* Keys: which chunks they name, and what can be wrong with them. */
#include "src/watch/state.h"

void watch_check_tokens(struct kvc_watch *watch, const struct kvc_key *key)
{
    for (size_t i = 0; i < key->token_ids.count; i++) {
        if ((uint64_t)key->token_ids.items[i] >> 32 == 0)
            continue;
        watch_found(watch, KVC_RULE_TOKEN_RANGE, "token %zu is %lld", i,
                    (long long)key->token_ids.items[i]);
        return;
    }
}

static void check_worker(struct kvc_watch *watch, const struct kvc_key *key)
{
    if (!key->worker_id.present)
        watch_found(watch, KVC_RULE_NO_WORKER, "worker_id is nil");
    else if (key->worker_id.value < 0 || key->worker_id.value >= key->world_size)
        watch_found(watch, KVC_RULE_NO_WORKER, "worker_id is %lld in a world of %lld",
                    (long long)key->worker_id.value, (long long)key->world_size);
}

static void check_window(struct kvc_watch *watch, const struct kvc_key *key)
{
    const long long start = key->start, end = key->end;
    if (watch->chunk_size > 0 &&
        (key->start % watch->chunk_size != 0 || key->end % watch->chunk_size != 0))
        watch_found(watch, KVC_RULE_UNALIGNED_WINDOW, "[%lld, %lld) in chunks of %lld tokens",
                    start, end, (long long)watch->chunk_size);
    if (end > (long long)key->token_ids.count)
        watch_found(watch, KVC_RULE_END_BEYOND_TOKENS, "[%lld, %lld) of %zu tokens", start, end,
                    key->token_ids.count);
    if (start < 0 || start >= end)
        watch_found(watch, KVC_RULE_EMPTY_WINDOW, "[%lld, %lld)", start, end);
}

void watch_check_transfer_key(struct kvc_watch *watch, const struct kvc_key *key,
                              const struct watch_instance *instance)
{
    check_worker(watch, key);
    check_window(watch, key);
    watch_check_tokens(watch, key);
    if (instance != NULL && (!kvc_str_equal(instance->model, key->model_name) ||
                             instance->world_size != key->world_size))
        watch_found(watch, KVC_RULE_OTHER_MODEL,
                    "the key is of %s in a world of %lld, instance %lld of %s in a world of %lld",
                    kvc_text_show(key->model_name).text, (long long)key->world_size,
                    (long long)instance->id, kvc_text_show(instance->model).text,
                    (long long)instance->world_size);
}

struct watch_window watch_window_of(const struct kvc_watch *watch, const struct kvc_key *key)
{
    struct watch_window window = {.rank = key->worker_id.present ? key->worker_id.value : 0};
    if (watch->chunk_size == 0)
        return window;
    const int64_t tokens = (int64_t)key->token_ids.count;
    const int64_t end = (key->end < tokens ? key->end : tokens) / watch->chunk_size;
    window.first = key->start > 0 ? key->start / watch->chunk_size : 0;
    window.count = end > window.first ? end - window.first : 0;
    return window;
}

static void add_int(struct kvc_buffer *buffer, int64_t value)
{
    kvc_buffer_append(buffer, &value, sizeof(value));
}

static void add_text(struct kvc_buffer *buffer, struct kvc_str text)
{
    add_int(buffer, (int64_t)text.size);
    kvc_buffer_append(buffer, text.data, text.size);
}

void watch_key_identity(const struct kvc_key *key, uint8_t identity[KVC_BLAKE3_SIZE])
{
    struct kvc_buffer buffer = {0};
    add_text(&buffer, key->model_name);
    add_text(&buffer, key->cache_salt);
    add_int(&buffer, key->world_size);
    add_int(&buffer, key->worker_id.present ? key->worker_id.value : -1);
    add_int(&buffer, key->start);
    add_int(&buffer, key->end);
    kvc_buffer_append(&buffer, key->token_ids.items, key->token_ids.count * sizeof(int64_t));
    kvc_blake3(buffer.data, buffer.size, identity);
    kvc_buffer_clear(&buffer);
}
