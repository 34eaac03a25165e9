#include "src/report/html_page.h"

#include "src/report/text.h"

static const char before_title[] =
    "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
    "<link rel=\"icon\" href=\"data:,\">\n<title>";

static const char after_title[] =
    "</title>\n<style>\n"
    ":root{--bg:#fff;--fg:#1c2024;--soft:#60646c;--line:#d9dce1;--card:#f6f7f9;"
    "--good:#18794e;--bad:#ce2c31;--warn:#8f5b00;--good-bg:#e6f6eb;--bad-bg:#feebec;"
    "--warn-bg:#fff3d6}\n"
    "@media(prefers-color-scheme:dark){:root{--bg:#111315;--fg:#eceef0;--soft:#a5abb3;"
    "--line:#33383e;--card:#1a1d20;--good:#5bd399;--bad:#ff9592;--warn:#ffca58;"
    "--good-bg:#12301f;--bad-bg:#3b1519;--warn-bg:#33260a}}\n"
    "*{box-sizing:border-box}body{margin:0 auto;max-width:72rem;padding:1rem;background:var(--bg);"
    "color:var(--fg);font:16px/1.5 system-ui,sans-serif}\n"
    "h1{font-size:1.5rem;margin:.2rem 0}h2{font-size:1.2rem;margin:2rem 0 .5rem}\n"
    "dl{display:grid;grid-template-columns:max-content 1fr;gap:.1rem 1rem;margin:.5rem 0}"
    "dt{color:var(--soft)}dd{margin:0;overflow-wrap:anywhere}\n"
    ".tiles{display:flex;flex-wrap:wrap;gap:.5rem;margin:1rem 0;padding:0;list-style:none}"
    ".tiles li{border:1px solid var(--line);border-radius:.5rem;padding:.4rem .8rem}"
    ".tiles b{font-size:1.3rem;display:block}\n"
    ".good{color:var(--good)}.bad{color:var(--bad)}.warn{color:var(--warn)}\n"
    ".note{background:var(--warn-bg);padding:.5rem .8rem;border-radius:.5rem}\n"
    ".scroll{overflow-x:auto}table{border-collapse:collapse;font-size:.9rem}"
    "th,td{border:1px solid var(--line);padding:.25rem .5rem;text-align:right;white-space:nowrap}"
    "th:first-child{text-align:left;position:sticky;left:0;background:var(--bg)}"
    "thead th{background:var(--card)}td.good{background:var(--good-bg)}td.bad{background:"
    "var(--bad-bg);font-weight:600}td.warn{background:var(--warn-bg)}\n"
    "details{border:1px solid var(--line);border-radius:.5rem;margin:.5rem 0;background:var(--card)"
    "}summary{cursor:pointer;padding:.5rem .8rem;overflow-wrap:anywhere}"
    "details>div{padding:0 .8rem .8rem}\n"
    "pre{overflow-x:auto;background:var(--bg);border:1px solid var(--line);border-radius:.3rem;"
    "padding:.5rem;font:13px/1.4 ui-monospace,monospace;margin:.3rem 0}\n"
    "pre.wrap{white-space:pre-wrap;overflow-wrap:anywhere}\n"
    ".pair{display:grid;grid-template-columns:repeat(auto-fit,minmax(16rem,1fr));gap:.5rem}\n";

static const char after_style[] = "</style>\n</head>\n<body>\n";

void kvc_html_escape(const char *text, struct kvc_buffer *out)
{
    struct kvc_buffer clean = {0};
    kvc_report_clean(text, &clean);
    for (size_t i = 0; i < clean.size; i++) {
        switch (clean.data[i]) {
        case '&':
            kvc_buffer_append_text(out, "&amp;");
            break;
        case '<':
            kvc_buffer_append_text(out, "&lt;");
            break;
        case '>':
            kvc_buffer_append_text(out, "&gt;");
            break;
        case '"':
            kvc_buffer_append_text(out, "&quot;");
            break;
        case '\'':
            kvc_buffer_append_text(out, "&#39;");
            break;
        default:
            kvc_buffer_append_byte(out, clean.data[i]);
        }
    }
    kvc_buffer_clear(&clean);
}

void kvc_html_begin(const char *title, const char *style, struct kvc_buffer *out)
{
    kvc_buffer_append_text(out, before_title);
    kvc_html_escape(title, out);
    kvc_buffer_append_text(out, after_title);
    kvc_buffer_append_text(out, style);
    kvc_buffer_append_text(out, after_style);
}

void kvc_html_end(struct kvc_buffer *out)
{
    kvc_buffer_append_text(out, "</body>\n</html>\n");
}

void kvc_html_row(struct kvc_buffer *out, const char *name, const char *value)
{
    if (value == NULL || value[0] == '\0')
        return;
    kvc_buffer_printf(out, "<dt>%s</dt><dd>", name);
    kvc_html_escape(value, out);
    kvc_buffer_append_text(out, "</dd>\n");
}
