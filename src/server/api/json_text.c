/* json_text.c: escapes and numbers. */
#include "server/api/json_text.h"

#include <float.h>
#include <math.h>

#include "base/utf8.h"

/* Bytes from s on that may stand as they are. */
static size_t plain_run(const char *s, size_t n)
{
    size_t i = 0;
    while (i < n) {
        const unsigned char c = (unsigned char)s[i];
        uint32_t code;
        if (c < 0x20 || c == '"' || c == '\\' || c == 0x7f)
            break;
        const int length = c < 0x80 ? 1 : utf8_decode(&code, s + i, n - i);
        if (length <= 0)
            break;
        i += (size_t)length;
    }
    return i;
}

/* What stands in the way of a run; how many bytes it was. */
static size_t add_escape(struct string_buffer *out, const char *s, size_t n)
{
    uint32_t code;
    const int length = utf8_decode(&code, s, n);
    if (length <= 0) {
        string_buffer_puts(out, "\xef\xbf\xbd");
        return (size_t)-length;
    }
    switch (code) {
    case '"':
        string_buffer_puts(out, "\\\"");
        break;
    case '\\':
        string_buffer_puts(out, "\\\\");
        break;
    case '\n':
        string_buffer_puts(out, "\\n");
        break;
    case '\r':
        string_buffer_puts(out, "\\r");
        break;
    case '\t':
        string_buffer_puts(out, "\\t");
        break;
    default:
        string_buffer_printf(out, "\\u%04x", (unsigned)code);
    }
    return (size_t)length;
}

void json_text_string(struct string_buffer *out, const char *s, size_t n)
{
    string_buffer_add(out, "\"", 1);
    for (size_t i = 0; i < n;) {
        const size_t run = plain_run(s + i, n - i);
        string_buffer_add(out, s + i, run);
        i += run;
        if (i < n)
            i += add_escape(out, s + i, n - i);
    }
    string_buffer_add(out, "\"", 1);
}

static int add_dumped(const char *s, size_t n, void *out)
{
    string_buffer_add(out, s, n);
    return 0;
}

void json_text_value(struct string_buffer *out, json_t *value)
{
    if (value == NULL ||
        json_dump_callback(value, add_dumped, out, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(9)) != 0)
        out->failed = true;
    json_decref(value);
}

void json_text_bytes(struct string_buffer *out, const char *s, size_t n)
{
    string_buffer_add(out, "[", 1);
    for (size_t i = 0; i < n; i++)
        string_buffer_printf(out, i > 0 ? ",%d" : "%d", (int)(unsigned char)s[i]);
    string_buffer_add(out, "]", 1);
}

double json_text_finite(double v) { return isnan(v) ? 0 : v > FLT_MAX ? (double)FLT_MAX : v < -FLT_MAX ? (double)-FLT_MAX : v; }
