/* Finds out what a wrong element holds. For the stamp files of kv only. */
#ifndef KVC_KV_STAMP_SEARCH_H
#define KVC_KV_STAMP_SEARCH_H

#include "src/kv/stamp.h"

/* Bytes of wrong elements that are compared; more would not make a find any surer. */
enum { KVC_STAMP_EVIDENCE = 16 };

/* Where an element belongs. */
struct kvc_stamp_place {
    size_t group;
    int64_t layer;
    int64_t kv;
    int64_t token;
    int64_t head;
    int64_t element;
};

/* Appends "layer 3 K token 257 head 1 element 0", with the group where there are several. */
void kvc_stamp_place_describe(const struct kvc_geometry *geometry,
                              const struct kvc_stamp_place *place, struct kvc_buffer *out);

struct kvc_stamp_search {
    const struct kvc_geometry *geometry;
    struct kvc_stamp_source source;
    const struct kvc_stamp_source *others;
    size_t other_count;
    int64_t first_token; /* what was checked; a good deal before and behind it is searched, too */
    int64_t token_count;
};

/* Appends what the bytes found at a place are: held is the first wrong element and those behind it
 * in its row that are wrong as well, at most KVC_STAMP_EVIDENCE bytes. */
void kvc_stamp_search(const struct kvc_stamp_search *search, const uint8_t *held, size_t held_size,
                      const struct kvc_stamp_place *place, struct kvc_buffer *out);

#endif
