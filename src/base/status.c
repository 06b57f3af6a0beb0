/* status.c: status texts and error messages. */
#include "base/status.h"

#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

const char *mr_status_text(enum mr_status status)
{
    static const char *const text[] = {
#define X(name, description) description,
        MR_STATUS_MAP(X)
#undef X
    };
    const size_t i = (size_t)status;
    return i < sizeof text / sizeof *text ? text[i] : "unknown status";
}

/* Replace what a terminal or a JSON writer must not see, and drop a character that was cut in half. */
static void clean(char *s, bool cut)
{
    const size_t n = strlen(s);
    size_t i = 0, o = 0;
    while (i < n) {
        uint32_t code;
        const int len = utf8_decode(&code, s + i, n - i);
        if (len <= 0) {
            if (cut && n - i < 4)
                break;
            s[o++] = '?';
            i++;
        } else if (code < 0x20 || (code >= 0x7f && code < 0xa0)) {
            s[o++] = '?';
            i += (size_t)len;
        } else {
            memmove(s + o, s + i, (size_t)len);
            o += (size_t)len;
            i += (size_t)len;
        }
    }
    s[o] = '\0';
}

enum mr_status mr_fail_va(struct mr_error *err, enum mr_status status, const char *fmt, va_list args)
{
    if (err == NULL)
        return status;
    const int n = vsnprintf(err->message, sizeof err->message, fmt, args);
    clean(err->message, n >= (int)sizeof err->message);
    return status;
}

enum mr_status mr_fail(struct mr_error *err, enum mr_status status, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    mr_fail_va(err, status, fmt, args);
    va_end(args);
    return status;
}

enum mr_status mr_fail_in(struct mr_error *err, enum mr_status status, const char *fmt, ...)
{
    if (err == NULL)
        return status;
    char joined[MR_ERROR_MAX];
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(joined, sizeof joined, fmt, args);
    va_end(args);
    if (n >= 0 && n < (int)sizeof joined)
        n += snprintf(joined + n, sizeof joined - (size_t)n, ": %s", err->message);
    clean(joined, n >= (int)sizeof joined);
    memcpy(err->message, joined, sizeof joined);
    return status;
}
