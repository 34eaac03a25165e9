/* The two forms of a tensor handle (protocol.md 3.6). For handle.c. */
#ifndef KVC_WIRE_HANDLE_FORMS_H
#define KVC_WIRE_HANDLE_FORMS_H

#include "src/wire/handle.h"

/* A map with a map inside. */
kvc_status kvc_handle_encode_descriptor(const struct kvc_dialect *dialect,
                                        const struct kvc_tensor_handle *handle,
                                        struct kvc_buffer *out, struct kvc_error *err);
kvc_status kvc_handle_decode_descriptor(const struct kvc_dialect *dialect, struct kvc_bytes body,
                                        struct kvc_arena *arena, struct kvc_tensor_handle *handle,
                                        struct kvc_error *err);
/* An object whose state is a dict. */
void kvc_handle_encode_pickle(const struct kvc_dialect *dialect,
                              const struct kvc_tensor_handle *handle, struct kvc_buffer *out);
kvc_status kvc_handle_decode_pickle(const struct kvc_dialect *dialect, struct kvc_bytes body,
                                    struct kvc_arena *arena, struct kvc_tensor_handle *handle,
                                    struct kvc_error *err);

#endif
