/* The legacy file format of torch, as far as one storage of plain numbers needs it: what a pickled
 * tensor carries its bytes in. Inside src/wire only. */
#ifndef KVC_WIRE_TORCH_FILE_H
#define KVC_WIRE_TORCH_FILE_H

#include "src/kv/dtype.h"
#include "src/wire/types.h"

struct kvc_torch_storage {
    struct kvc_str key;            /* names the storage inside the file */
    const struct kvc_dtype *dtype; /* NULL: untyped, counted in bytes; only when read */
    struct kvc_bytes data;
};

/* Appends the file up to where the data begin (which end the file). The dtype has a storage class. */
void kvc_torch_file_head(const struct kvc_torch_storage *storage, struct kvc_buffer *out);
/* Reads a file. Data and key are views. KVC_EFORMAT when it is none, holds another number of
 * storages than one, or says another size than its data have. */
kvc_status kvc_torch_file_read(struct kvc_bytes file, struct kvc_arena *arena,
                               struct kvc_torch_storage *storage, struct kvc_error *err);

/* The dtype with that legacy storage class ("HalfStorage"), or with that numpy name ("<f2"), or
 * NULL. */
const struct kvc_dtype *kvc_torch_dtype_by_storage(struct kvc_str storage_class);
const struct kvc_dtype *kvc_torch_dtype_by_numpy(struct kvc_str numpy);

#endif
