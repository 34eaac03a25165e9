#include "src/bench/flames.h"

kvc_status kvc_flames_start(struct kvc_flames *flames, struct kvc_error *err)
{
    for (size_t i = 0; flames != NULL && i < flames->count; i++) {
        flames->started++;
        if (kvc_flame_recorder_start(flames->modes[i], flames->process, &flames->recorders[i],
                                     err) != KVC_OK)
            return kvc_error_set_where(err, "--flamegraph on");
    }
    return KVC_OK;
}

void kvc_flames_stop(struct kvc_flames *flames)
{
    for (size_t i = 0; flames != NULL && i < flames->started; i++)
        kvc_flame_recorder_stop(&flames->recorders[i]);
}

kvc_status kvc_flames_draw(const struct kvc_flames *flames, size_t index, const char *title,
                           struct kvc_buffer *out, struct kvc_error *err)
{
    struct kvc_flame_tree tree = {0};
    const kvc_status status = kvc_flame_recorder_read(&flames->recorders[index], &tree, err);
    if (status == KVC_OK)
        kvc_flame_tree_draw(&tree, title, kvc_flame_mode_unit(flames->modes[index]), out);
    kvc_flame_tree_clear(&tree);
    return status;
}

void kvc_flames_clear(struct kvc_flames *flames)
{
    for (size_t i = 0; i < flames->started; i++)
        kvc_flame_recorder_clear(&flames->recorders[i]);
    *flames = (struct kvc_flames){0};
}
