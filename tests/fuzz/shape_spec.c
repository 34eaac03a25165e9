/* The shape grammar. What is accepted must be written as a spec that means the same, and no size that
 * follows from it may overflow. */
#include <stdlib.h>
#include <string.h>

#include "src/kv/geometry.h"
#include "tests/fuzz/fuzz.h"

static void expect_sizes(const struct kvc_geometry *geometry)
{
    int64_t bytes = 0;
    FUZZ_REQUIRE(kvc_geometry_fits(geometry));
    FUZZ_REQUIRE(geometry->group_count >= 1 && geometry->group_count <= KVC_MAX_GROUPS);
    for (size_t i = 0; i < geometry->group_count; i++) {
        const struct kvc_group *group = &geometry->groups[i];
        FUZZ_REQUIRE(kvc_group_hidden(group) >= 1);
        FUZZ_REQUIRE(kvc_group_block_bytes(group) >= 1);
        FUZZ_REQUIRE(kvc_group_tensor_bytes(group) / group->num_blocks ==
                     kvc_group_block_bytes(group));
        FUZZ_REQUIRE(!__builtin_add_overflow(
            bytes, kvc_group_tensor_bytes(group) * group->num_layers, &bytes));
    }
    FUZZ_REQUIRE(kvc_geometry_chunk_bytes(geometry, geometry->groups[0].block_size) <= bytes);
    FUZZ_REQUIRE(kvc_geometry_layer_count(geometry) >= 1);
}

static void expect_same_again(const struct kvc_geometry *geometry)
{
    struct kvc_buffer once = {0}, twice = {0};
    struct kvc_geometry again;
    kvc_geometry_format(geometry, &once);
    FUZZ_REQUIRE(kvc_geometry_parse(kvc_buffer_text(&once), &again, NULL) == KVC_OK);
    kvc_geometry_format(&again, &twice);
    FUZZ_REQUIRE(kvc_bytes_equal(kvc_buffer_view(&once), kvc_buffer_view(&twice)));
    kvc_buffer_clear(&once);
    kvc_buffer_clear(&twice);
}

void fuzz_one(struct kvc_bytes input)
{
    char *spec = fuzz_text(input);
    struct kvc_geometry geometry;
    struct kvc_error err = KVC_ERROR_INIT;
    if (kvc_geometry_parse(spec, &geometry, &err) == KVC_OK) {
        expect_sizes(&geometry);
        expect_same_again(&geometry);
    } else {
        FUZZ_REQUIRE(err.status == KVC_EUSAGE && err.what[0] != '\0');
    }
    if (kvc_geometry_parse_defaults(spec, 1024, 16, &geometry, NULL) == KVC_OK) {
        expect_sizes(&geometry);
        expect_same_again(&geometry);
    }
    free(spec);
}
