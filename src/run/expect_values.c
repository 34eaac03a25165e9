/* The comparisons of check.h: each ends the check with both values when they differ. */
#include <stdio.h>
#include <string.h>

#include "src/run/check.h"

void kvc_expect_int(struct kvc_ctx *ctx, const char *what, int64_t got, int64_t expected)
{
    if (got == expected)
        return;
    char got_text[24], expected_text[24];
    snprintf(got_text, sizeof(got_text), "%lld", (long long)got);
    snprintf(expected_text, sizeof(expected_text), "%lld", (long long)expected);
    kvc_ctx_fail_values(ctx, what, expected_text, got_text);
}

void kvc_expect_true(struct kvc_ctx *ctx, const char *what, bool got)
{
    if (!got)
        kvc_ctx_fail_values(ctx, what, "true", "false");
}

void kvc_expect_false(struct kvc_ctx *ctx, const char *what, bool got)
{
    if (got)
        kvc_ctx_fail_values(ctx, what, "false", "true");
}

/* Text in quotes, its strange bytes escaped; lives as long as the check. */
static const char *quote(struct kvc_ctx *ctx, struct kvc_str text)
{
    struct kvc_buffer quoted = {0};
    kvc_buffer_append_byte(&quoted, '"');
    kvc_text_escape(text, &quoted);
    kvc_buffer_append_byte(&quoted, '"');
    const char *kept =
        kvc_arena_copy_str(kvc_ctx_arena(ctx), kvc_str_of(kvc_buffer_text(&quoted))).data;
    kvc_buffer_clear(&quoted);
    return kept;
}

void kvc_expect_str(struct kvc_ctx *ctx, const char *what, struct kvc_str got, const char *expected)
{
    if (!kvc_str_is(got, expected))
        kvc_ctx_fail_values(ctx, what, quote(ctx, kvc_str_of(expected)), quote(ctx, got));
}

/* Bytes around a difference: "18 bytes; from 8: 00 01 02 …". */
static const char *excerpt(struct kvc_ctx *ctx, struct kvc_bytes bytes, size_t from)
{
    enum { EXCERPT_BYTES = 32 };
    struct kvc_buffer text = {0};
    kvc_buffer_printf(&text, "%zu bytes", bytes.size);
    if (from < bytes.size) {
        const size_t left = bytes.size - from;
        const size_t shown = left < EXCERPT_BYTES ? left : EXCERPT_BYTES;
        kvc_buffer_printf(&text, "; from byte %zu: ", from);
        kvc_hex_encode((struct kvc_bytes){bytes.data + from, shown}, &text);
        if (shown < left)
            kvc_buffer_append_text(&text, "…");
    }
    const char *kept =
        kvc_arena_copy_str(kvc_ctx_arena(ctx), kvc_str_of(kvc_buffer_text(&text))).data;
    kvc_buffer_clear(&text);
    return kept;
}

void kvc_expect_bytes(struct kvc_ctx *ctx, const char *what, struct kvc_bytes got,
                      struct kvc_bytes expected)
{
    if (kvc_bytes_equal(got, expected))
        return;
    const size_t common = got.size < expected.size ? got.size : expected.size;
    size_t at = 0;
    while (at < common && got.data[at] == expected.data[at])
        at++;
    kvc_ctx_fail_values(ctx, what, excerpt(ctx, expected, at), excerpt(ctx, got, at));
}

void kvc_expect_ok(struct kvc_ctx *ctx, const char *what, kvc_status status,
                   const struct kvc_error *err)
{
    if (status == KVC_OK)
        return;
    if (status == KVC_ENOMEM || status == KVC_ESYSTEM || status == KVC_EUSAGE)
        kvc_ctx_error(ctx, what, err);
    kvc_ctx_fail_error(ctx, what, err);
}
