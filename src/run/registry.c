#include "src/run/registry.h"

#include <stdlib.h>
#include <string.h>

/* The linker makes these two for a section whose name is a C identifier; weak, since a program
 * without checks has no such section. */
extern const struct kvc_check *const __start_kvc_checks[] __attribute__((weak));
extern const struct kvc_check *const __stop_kvc_checks[] __attribute__((weak));

const struct kvc_flag_name kvc_need_names[] = {
    {KVC_NEED_HTTP, "http", "an HTTP address on which the server answers"},
    {KVC_NEED_POOL, "pool", "a server that offers a shared-memory pool"},
    {KVC_NEED_NO_POOL, "no-pool", "a server that offers no shared-memory pool"},
    {KVC_NEED_STATUS, "status", "GET /status with the counters of the L1 manager"},
    {KVC_NEED_P2P, "p2p", "the P2P operations"},
    {KVC_NEED_CHECKSUMS, "checksums", "POST /cache/checksums"},
    {KVC_NEED_RESTART, "restart", "a server that kvconform can start again"},
    {KVC_NEED_ENGINE_DRIVEN, "engine-driven", "one of the engine-driven paths"},
    {KVC_NEED_LMCACHE_DRIVEN, "lmcache-driven", "the lmcache-driven path"},
    {KVC_NEED_L2, "l2", "files below the server, in the {l2_dir} of --launch"},
    {KVC_NEED_CUDA, "cuda", "a CUDA GPU, which --device cuda or all makes use of"},
};
const size_t kvc_need_name_count = KVC_COUNT_OF(kvc_need_names);

const char *kvc_level_name(enum kvc_level level)
{
    static const char *const names[] = {
        [KVC_LEVEL_MUST] = "must",
        [KVC_LEVEL_SHOULD] = "should",
        [KVC_LEVEL_OBSERVED] = "observed",
    };
    return names[level];
}

struct kvc_str kvc_check_family(const struct kvc_check *check)
{
    return (struct kvc_str){check->id, strcspn(check->id, "/")};
}

/* Lower-case words and numbers joined by single dashes. */
static bool is_kebab(const char *text, size_t size)
{
    bool after_dash = true;
    for (size_t i = 0; i < size; i++) {
        const char c = text[i];
        const bool is_word = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
        if (!is_word && (c != '-' || after_dash))
            return false;
        after_dash = c == '-';
    }
    return !after_dash;
}

static bool id_is_valid(const char *id)
{
    const char *slash = strchr(id, '/');
    return slash != NULL && is_kebab(id, (size_t)(slash - id)) &&
           is_kebab(slash + 1, strlen(slash + 1));
}

/* ---- what a declaration must be ---- */

static kvc_status check_dialects(const struct kvc_check *check, struct kvc_error *err)
{
    const char *const ends[] = {check->first, check->last};
    size_t positions[] = {0, kvc_dialect_count - 1};
    for (size_t i = 0; i < 2; i++) {
        if (ends[i] == NULL)
            continue;
        const struct kvc_dialect *dialect = kvc_dialect_find(kvc_str_of(ends[i]));
        if (dialect == NULL)
            return kvc_fail(err, KVC_EFORMAT, "no dialect is called '%s'", ends[i]);
        positions[i] = kvc_dialect_position(dialect);
    }
    if (positions[0] > positions[1])
        return kvc_fail(err, KVC_EFORMAT, "its first dialect is newer than its last");
    return KVC_OK;
}

static kvc_status check_axes(const struct kvc_check *check, struct kvc_error *err)
{
    if (check->paths >= 1u << KVC_PATH_COUNT || check->layouts >= 1u << KVC_LAYOUT_COUNT)
        return kvc_fail(err, KVC_EFORMAT, "its paths or layouts have a bit that means nothing");
    for (const char *const *name = check->dtypes; name != NULL && *name != NULL; name++)
        if (kvc_dtype_find(kvc_str_of(*name)) == NULL)
            return kvc_fail(err, KVC_EFORMAT, "no dtype is called '%s'", *name);
    for (const char *const *name = check->variants; name != NULL && *name != NULL; name++)
        if (!is_kebab(*name, strlen(*name)))
            return kvc_fail(err, KVC_EFORMAT, "variant '%s' is not in kebab-case", *name);
    if ((check->dtypes != NULL && check->dtypes[0] == NULL) ||
        (check->variants != NULL && check->variants[0] == NULL))
        return kvc_fail(err, KVC_EFORMAT, "one of its axes has no value");
    return KVC_OK;
}

kvc_status kvc_check_declaration(const struct kvc_check *check, struct kvc_error *err)
{
    if (check->id == NULL || !id_is_valid(check->id))
        return kvc_fail(err, KVC_EFORMAT, "its id must be family/check-name in kebab-case");
    if (check->clause == NULL || check->clause[0] == '\0')
        return kvc_fail(err, KVC_EFORMAT, "it has no clause");
    KVC_GUARD(check_dialects(check, err));
    return check_axes(check, err);
}

/* Every chain of `after` ends, and each link names a check. */
static kvc_status check_chain(const struct kvc_registry *registry, const struct kvc_check *check,
                              struct kvc_error *err)
{
    const struct kvc_check *link = check;
    for (size_t steps = 0; link->after != NULL; steps++) {
        const struct kvc_check *next = kvc_registry_find(registry, link->after);
        if (next == NULL)
            return kvc_fail(err, KVC_EFORMAT, "it comes after '%s', which is no check",
                            link->after);
        if (steps > registry->check_count)
            return kvc_fail(err, KVC_EFORMAT, "it comes after itself");
        link = next;
    }
    return KVC_OK;
}

/* ---- instances ---- */

/* One value for each axis, counted like the digits of a number. An axis that the check does not have
 * has one value, which has no name. */
struct axes {
    int layout, path; /* -1: no such axis */
    size_t dtype, variant;
};

static char *instance_id(const struct kvc_check *check, const struct axes *axes)
{
    struct kvc_buffer id = {0};
    kvc_buffer_append_text(&id, check->id);
    if (axes->layout >= 0)
        kvc_buffer_printf(&id, "/%s", kvc_layout_name((enum kvc_layout)axes->layout));
    if (check->dtypes != NULL)
        kvc_buffer_printf(&id, "/%s",
                          kvc_dtype_find(kvc_str_of(check->dtypes[axes->dtype]))->short_name);
    if (axes->path >= 0)
        kvc_buffer_printf(&id, "/%s", kvc_path_name((enum kvc_path)axes->path));
    if (check->variants != NULL)
        kvc_buffer_printf(&id, "/%s", check->variants[axes->variant]);
    return kvc_buffer_take_text(&id);
}

static void add_instance(struct kvc_registry *registry, const struct kvc_check *check,
                         const struct axes *axes)
{
    registry->instances = kvc_realloc(registry->instances, (registry->instance_count + 1) *
                                                               sizeof(registry->instances[0]));
    registry->instances[registry->instance_count++] = (struct kvc_instance){
        .check = check,
        .id = instance_id(check, axes),
        .path = axes->path >= 0 ? (enum kvc_path)axes->path : KVC_PATH_COUNT,
        .layout = axes->layout >= 0 ? (enum kvc_layout)axes->layout : KVC_LAYOUT_COUNT,
        .dtype =
            check->dtypes != NULL ? kvc_dtype_find(kvc_str_of(check->dtypes[axes->dtype])) : NULL,
        .variant = check->variants != NULL ? check->variants[axes->variant] : NULL,
    };
}

static void add_names(struct kvc_registry *registry, const struct kvc_check *check,
                      struct axes *axes)
{
    axes->dtype = 0;
    do {
        axes->variant = 0;
        do {
            add_instance(registry, check, axes);
            axes->variant++;
        } while (check->variants != NULL && check->variants[axes->variant] != NULL);
        axes->dtype++;
    } while (check->dtypes != NULL && check->dtypes[axes->dtype] != NULL);
}

static void add_instances(struct kvc_registry *registry, const struct kvc_check *check)
{
    for (int layout = check->layouts != 0 ? 0 : -1; layout < KVC_LAYOUT_COUNT; layout++) {
        if (layout >= 0 && (check->layouts & KVC_LAYOUT_BIT(layout)) == 0)
            continue;
        for (int path = check->paths != 0 ? 0 : -1; path < KVC_PATH_COUNT; path++) {
            if (path >= 0 && (check->paths & 1u << path) == 0)
                continue;
            struct axes axes = {.layout = layout, .path = path};
            add_names(registry, check, &axes);
            if (path < 0)
                break;
        }
        if (layout < 0)
            break;
    }
}

static int compare_checks(const void *a, const void *b)
{
    const struct kvc_check *const *left = a, *const *right = b;
    return strcmp((*left)->id, (*right)->id);
}

static int compare_instances(const void *a, const void *b)
{
    const struct kvc_instance *left = a, *right = b;
    return strcmp(left->id, right->id);
}

/* ---- the whole ---- */

static kvc_status collect(const struct kvc_check *const *checks, size_t count,
                          struct kvc_registry *registry, struct kvc_error *err)
{
    registry->checks = kvc_alloc_zero(count + 1, sizeof(registry->checks[0]));
    for (size_t i = 0; i < count; i++) {
        const struct kvc_check *check = checks[i];
        if (check == NULL) /* padding that a sanitizer puts between the entries */
            continue;
        kvc_status status = kvc_check_declaration(check, err);
        if (status == KVC_OK && check->run == NULL)
            status = kvc_fail(err, KVC_EFORMAT, "it has no function");
        if (status != KVC_OK) {
            kvc_error_set_where(err, "check '%s'", check->id != NULL ? check->id : "");
            return KVC_EFORMAT;
        }
        registry->checks[registry->check_count++] = check;
    }
    qsort(registry->checks, registry->check_count, sizeof(registry->checks[0]), compare_checks);
    return KVC_OK;
}

static kvc_status check_all(const struct kvc_registry *registry, struct kvc_error *err)
{
    for (size_t i = 0; i < registry->check_count; i++) {
        const struct kvc_check *check = registry->checks[i];
        kvc_status status = KVC_OK;
        if (i > 0 && strcmp(registry->checks[i - 1]->id, check->id) == 0)
            status = kvc_fail(err, KVC_EFORMAT, "two checks have this id");
        else
            status = check_chain(registry, check, err);
        if (status != KVC_OK) {
            kvc_error_set_where(err, "check '%s'", check->id);
            return status;
        }
    }
    return KVC_OK;
}

kvc_status kvc_registry_build(const struct kvc_check *const *checks, size_t count,
                              struct kvc_registry *registry, struct kvc_error *err)
{
    *registry = (struct kvc_registry){0};
    KVC_GUARD(collect(checks, count, registry, err));
    KVC_GUARD(check_all(registry, err));
    for (size_t i = 0; i < registry->check_count; i++)
        add_instances(registry, registry->checks[i]);
    if (registry->instance_count > 0)
        qsort(registry->instances, registry->instance_count, sizeof(registry->instances[0]),
              compare_instances);
    return KVC_OK;
}

kvc_status kvc_registry_load(struct kvc_registry *registry, struct kvc_error *err)
{
    const size_t count = (size_t)(__stop_kvc_checks - __start_kvc_checks);
    return kvc_registry_build(__start_kvc_checks, count, registry, err);
}

void kvc_registry_clear(struct kvc_registry *registry)
{
    for (size_t i = 0; i < registry->instance_count; i++)
        free(registry->instances[i].id);
    free(registry->instances);
    free(registry->checks);
    *registry = (struct kvc_registry){0};
}

const struct kvc_check *kvc_registry_find(const struct kvc_registry *registry, const char *id)
{
    const struct kvc_check wanted = {.id = id};
    const struct kvc_check *key = &wanted;
    if (registry->check_count == 0)
        return NULL;
    const struct kvc_check **found = bsearch(&key, registry->checks, registry->check_count,
                                             sizeof(registry->checks[0]), compare_checks);
    return found != NULL ? *found : NULL;
}

static bool holds_in(const struct kvc_check *check, const struct kvc_dialect *dialect)
{
    return kvc_check_in_range(check, dialect) &&
           (dialect->features & check->features) == check->features;
}

static const char *newest_release(const struct kvc_dialect *dialect)
{
    const char *const *release = dialect->releases;
    while (release[1] != NULL)
        release++;
    return *release;
}

void kvc_check_dialects_append(const struct kvc_check *check, struct kvc_buffer *out)
{
    const size_t newest = kvc_dialect_count - 1;
    size_t first = kvc_dialect_count, last = 0;
    for (size_t i = 0; i < kvc_dialect_count; i++) {
        if (!holds_in(check, kvc_dialects[i]))
            continue;
        first = first == kvc_dialect_count ? i : first;
        last = i;
    }
    if (first == kvc_dialect_count) {
        kvc_buffer_append_text(out, "none");
        return;
    }
    const char *from = kvc_dialects[first]->name;
    const char *to = newest_release(kvc_dialects[last]);
    if (first == 0 && last == newest)
        kvc_buffer_append_text(out, "all");
    else if (strcmp(from, to) == 0)
        kvc_buffer_printf(out, "%s only", from);
    else if (last == newest)
        kvc_buffer_printf(out, "%s and later", from);
    else if (first == 0)
        kvc_buffer_printf(out, "up to %s", to);
    else
        kvc_buffer_printf(out, "%s to %s", from, to);
}

bool kvc_check_in_range(const struct kvc_check *check, const struct kvc_dialect *dialect)
{
    const size_t position = kvc_dialect_position(dialect);
    if (check->first != NULL &&
        position < kvc_dialect_position(kvc_dialect_find(kvc_str_of(check->first))))
        return false;
    return check->last == NULL ||
           position <= kvc_dialect_position(kvc_dialect_find(kvc_str_of(check->last)));
}
