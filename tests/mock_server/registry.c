#include "tests/mock_server/registry.h"

#include <stdlib.h>

#include "tests/mock_server/gpu.h"
#include "tests/mock_server/text.h"

struct mock_instance *mock_registry_find(const struct mock_registry *registry, enum mock_mode mode,
                                         int64_t id)
{
    struct mock_instance *instance;
    LIST_FOREACH(instance, &registry->instances[mode], in_table)
    {
        if (instance->id == id)
            return instance;
    }
    return NULL;
}

struct mock_model *mock_registry_model(const struct mock_registry *registry, struct kvc_str name,
                                       int64_t world_size)
{
    struct mock_model *model;
    LIST_FOREACH(model, &registry->models, in_table)
    {
        if (model->world_size == world_size && kvc_str_equal(model->name, name))
            return model;
    }
    return NULL;
}

void mock_registry_add(struct mock_registry *registry, struct mock_instance *instance)
{
    LIST_INSERT_HEAD(&registry->instances[instance->mode], instance, in_table);
    registry->counts[instance->mode]++;
    registry->any_ever = true;
    struct mock_model *model = mock_registry_model(registry, instance->model, instance->world_size);
    if (model == NULL) {
        model = kvc_alloc_zero(1, sizeof(*model));
        model->name = mock_text_copy(instance->model);
        model->world_size = instance->world_size;
        LIST_INSERT_HEAD(&registry->models, model, in_table);
    }
    model->instances++;
    model->last_layout = instance->layout;
}

static void leave_model(struct mock_model *model, bool drop_model)
{
    model->instances--;
    if (model->instances > 0 && !drop_model)
        return;
    LIST_REMOVE(model, in_table);
    mock_text_free(model->name);
    free(model);
}

void mock_registry_remove(struct mock_registry *registry, struct mock_instance *instance,
                          bool drop_model, bool stays_listed)
{
    LIST_REMOVE(instance, in_table);
    registry->counts[instance->mode]--;
    struct mock_model *model = mock_registry_model(registry, instance->model, instance->world_size);
    if (model != NULL)
        leave_model(model, drop_model);
    if (stays_listed)
        LIST_INSERT_HEAD(&registry->left[instance->mode], instance, in_table);
    else
        mock_instance_free(instance);
}

void mock_registry_clear(struct mock_registry *registry)
{
    for (int mode = 0; mode < MOCK_MODE_COUNT; mode++) {
        while (!LIST_EMPTY(&registry->instances[mode]))
            mock_registry_remove(registry, LIST_FIRST(&registry->instances[mode]), false, false);
        while (!LIST_EMPTY(&registry->left[mode])) {
            struct mock_instance *instance = LIST_FIRST(&registry->left[mode]);
            LIST_REMOVE(instance, in_table);
            mock_instance_free(instance);
        }
    }
}

struct mock_instance *mock_instance_new(enum mock_mode mode, int64_t id, struct kvc_str model,
                                        int64_t world_size)
{
    struct mock_instance *instance = kvc_alloc_zero(1, sizeof(*instance));
    instance->mode = mode;
    instance->id = id;
    instance->model = mock_text_copy(model);
    instance->world_size = world_size;
    return instance;
}

void mock_instance_free(struct mock_instance *instance)
{
    for (size_t i = 0; i < instance->layer_count; i++) {
        kvc_segment_close(&instance->layers[i].segment);
        mock_gpu_unmap(&instance->layers[i]);
    }
    for (size_t i = 0; i < instance->group_count; i++)
        free(instance->groups[i].tensors);
    free(instance->layers);
    mock_text_free(instance->model);
    free(instance);
}
