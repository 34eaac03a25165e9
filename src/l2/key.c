#include "src/l2/key.h"

#include <ctype.h>
#include <string.h>

static const char slash_in_file_name[] = "-SEP-";
enum { MAX_FILE_NAME = 255 };

static bool holds_any(struct kvc_str text, const char *forbidden, size_t forbidden_count)
{
    for (size_t i = 0; i < text.size; i++)
        if (memchr(forbidden, text.data[i], forbidden_count) != NULL)
            return true;
    return false;
}

kvc_status kvc_l2_key_check(const struct kvc_l2_key *key, struct kvc_error *err)
{
    static const char in_no_model[] = {'@', '\0'};
    static const char in_no_salt[] = {'@', '/', '\\', '\0'};
    if (key->chunk_hash.size == 0 || key->chunk_hash.size > KVC_L2_MAX_HASH)
        return kvc_fail(err, KVC_EUSAGE, "a chunk hash of %zu bytes; 1 to %d make a key",
                        key->chunk_hash.size, KVC_L2_MAX_HASH);
    if (key->model.size == 0 || holds_any(key->model, in_no_model, sizeof(in_no_model)))
        return kvc_fail(err, KVC_EUSAGE, "model '%s': it must not be empty, or hold '@' or NUL",
                        kvc_text_show(key->model).text);
    if (key->salt.size > KVC_L2_MAX_SALT || holds_any(key->salt, in_no_salt, sizeof(in_no_salt)))
        return kvc_fail(err, KVC_EUSAGE,
                        "cache salt '%s': it must not be longer than %d bytes, or hold '@', '/', "
                        "'\\' or NUL",
                        kvc_text_show(key->salt).text, KVC_L2_MAX_SALT);
    return KVC_OK;
}

static void append_rest(const struct kvc_l2_key *key, struct kvc_buffer *out)
{
    kvc_buffer_printf(out, "@%x@", key->group);
    kvc_hex_encode(key->chunk_hash, out);
    if (key->salt.size == 0)
        return;
    kvc_buffer_append_byte(out, '@');
    kvc_buffer_append(out, key->salt.data, key->salt.size);
}

void kvc_l2_key_append(const struct kvc_l2_key *key, struct kvc_buffer *out)
{
    kvc_buffer_append(out, key->model.data, key->model.size);
    kvc_buffer_printf(out, "@%08x", key->kv_rank);
    append_rest(key, out);
}

kvc_status kvc_l2_key_append_file_name(const struct kvc_l2_key *key, struct kvc_buffer *out,
                                       struct kvc_error *err)
{
    if (memmem(key->model.data, key->model.size, slash_in_file_name,
               sizeof(slash_in_file_name) - 1) != NULL)
        return kvc_fail(err, KVC_EUSAGE,
                        "model '%s': with \"%s\" in it, its files would be those "
                        "of the model with '/' there",
                        kvc_text_show(key->model).text, slash_in_file_name);
    const size_t start = out->size;
    for (size_t i = 0; i < key->model.size; i++) {
        if (key->model.data[i] == '/')
            kvc_buffer_append_text(out, slash_in_file_name);
        else
            kvc_buffer_append_byte(out, (uint8_t)key->model.data[i]);
    }
    kvc_buffer_printf(out, "@0x%08x", key->kv_rank);
    append_rest(key, out);
    kvc_buffer_append_text(out, ".data");
    const size_t size = out->size - start;
    if (size <= MAX_FILE_NAME)
        return KVC_OK;
    return kvc_fail(err, KVC_EUSAGE,
                    "model '%s': its file names would have %zu bytes; %d is the most",
                    kvc_text_show(key->model).text, size, MAX_FILE_NAME);
}

void kvc_l2_percent_encode(struct kvc_str text, const char *kept, struct kvc_buffer *out)
{
    for (size_t i = 0; i < text.size; i++) {
        const unsigned char byte = (unsigned char)text.data[i];
        const bool plain = byte < 0x80 && byte != 0 &&
                           (isalnum(byte) || strchr("-._~", byte) || strchr(kept, byte));
        if (plain)
            kvc_buffer_append_byte(out, byte);
        else
            kvc_buffer_printf(out, "%%%02X", (unsigned)byte);
    }
}

void kvc_l2_key_append_encoded(const struct kvc_l2_key *key, struct kvc_buffer *out)
{
    kvc_l2_percent_encode(key->model, "", out);
    kvc_buffer_printf(out, "@0x%08x", key->kv_rank);
    append_rest(key, out);
}
