#include "src/report/text.h"

#include <stdlib.h>
#include <string.h>

/* Valid UTF-8 that still may not appear: C1 controls (terminals obey them), U+FFFE and U+FFFF (XML
 * forbids them). */
static bool sequence_is_harmless(const unsigned char *bytes, size_t size)
{
    if (size == 2 && bytes[0] == 0xc2 && bytes[1] < 0xa0)
        return false;
    return !(size == 3 && bytes[0] == 0xef && bytes[1] == 0xbf && bytes[2] >= 0xbe);
}

static void append_clean(const char *text, bool keep_lines, struct kvc_buffer *out)
{
    size_t left = strlen(text);
    while (left > 0) {
        const unsigned char *bytes = (const unsigned char *)text;
        size_t size = kvc_utf8_sequence(text, left);
        const bool is_control = size == 1 && (bytes[0] < 0x20 || bytes[0] == 0x7f);
        if (is_control && strchr("\n\t", (char)bytes[0]) != NULL)
            kvc_buffer_append_byte(out, (uint8_t)(keep_lines ? *text : ' '));
        else if (is_control || size == 0 || !sequence_is_harmless(bytes, size))
            for (size_t i = 0; i < (size > 0 ? size : 1); i++)
                kvc_buffer_printf(out, "\\x%02x", bytes[i]);
        else
            kvc_buffer_append(out, text, size);
        size = size > 0 ? size : 1;
        text += size;
        left -= size;
    }
}

void kvc_report_clean(const char *text, struct kvc_buffer *out)
{
    append_clean(text, true, out);
}

void kvc_report_clean_line(const char *text, struct kvc_buffer *out)
{
    append_clean(text, false, out);
}

void kvc_report_clean_block(const char *text, const char *indent, struct kvc_buffer *out)
{
    while (*text != '\0') {
        const size_t size = strcspn(text, "\n");
        char *line = kvc_format("%.*s", (int)size, text);
        kvc_buffer_append_text(out, indent);
        kvc_report_clean(line, out);
        kvc_buffer_append_byte(out, '\n');
        free(line);
        text += size + (text[size] == '\n');
    }
}
