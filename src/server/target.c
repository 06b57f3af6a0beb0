/* target.c: cuts a target at its separators, then decodes each part in place: a part only shrinks. */
#include "server/target.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/utf8.h"

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* A '+' is a blank in queries only (WHATWG URL, application/x-www-form-urlencoded). */
static enum mr_status decode(char *s, bool is_query, struct mr_error *err)
{
    char *out = s;
    for (const char *p = s; *p != '\0'; p++) {
        if (*p != '%') {
            *out++ = is_query && *p == '+' ? ' ' : *p;
            continue;
        }
        const int high = hex_digit(p[1]), low = high < 0 ? -1 : hex_digit(p[2]);
        if (low < 0 || high * 16 + low == 0)
            return mr_fail(err, MR_BAD_INPUT, "the address has a '%%' without a character behind it");
        *out++ = (char)(high * 16 + low);
        p += 2;
    }
    *out = '\0';
    return utf8_is_valid(s, (size_t)(out - s)) ? MR_OK : mr_fail(err, MR_BAD_INPUT, "the address is not UTF-8");
}

/* Cut s at the first separator; returns what is behind it, or NULL. */
static char *cut(char *s, char separator)
{
    char *at = strchr(s, separator);
    if (at == NULL)
        return NULL;
    *at = '\0';
    return at + 1;
}

static enum mr_status parse_query(struct target *t, char *query, struct mr_error *err)
{
    for (char *next; query != NULL; query = next) {
        next = cut(query, '&');
        if (*query == '\0')
            continue;
        if (t->n_query == TARGET_QUERIES_MAX)
            return mr_fail(err, MR_BAD_INPUT, "the address has more than %d parameters", TARGET_QUERIES_MAX);
        char *value = cut(query, '=');
        MR_TRY(decode(query, true, err));
        if (value != NULL)
            MR_TRY(decode(value, true, err));
        t->query[t->n_query++] = (struct target_query){.name = query, .value = value != NULL ? value : ""};
    }
    return MR_OK;
}

static enum mr_status parse_path(struct target *t, char *path, struct mr_error *err)
{
    if (*path != '/')
        return mr_fail(err, MR_BAD_INPUT, "the address does not begin with '/'");
    for (char *segment = path + 1, *next; segment != NULL; segment = next) {
        next = cut(segment, '/');
        if (next == NULL && *segment == '\0')
            break;
        if (t->n_segment == TARGET_SEGMENTS_MAX)
            return mr_fail(err, MR_BAD_INPUT, "the address has more than %d segments", TARGET_SEGMENTS_MAX);
        MR_TRY(decode(segment, false, err));
        t->segment[t->n_segment++] = segment;
    }
    return MR_OK;
}

/* What stands before the path where a client sends the whole address, as to a proxy. */
static const char *skip_authority(const char *s)
{
    if (strncmp(s, "http://", 7) != 0 && strncmp(s, "https://", 8) != 0)
        return s;
    const char *path = strchr(strstr(s, "//") + 2, '/');
    return path != NULL ? path : "/";
}

static bool is_printable(const char *s)
{
    while (*s > ' ' && *s < 0x7f)
        s++;
    return *s == '\0';
}

enum mr_status target_parse(struct target *t, const char *text, struct mr_error *err)
{
    *t = (struct target){.path = ""};
    const char *from = skip_authority(text);
    const size_t n = strnlen(from, TARGET_BYTES_MAX + 1);
    if (n > TARGET_BYTES_MAX)
        return mr_fail(err, MR_BAD_INPUT, "the address has more than %d bytes", TARGET_BYTES_MAX);
    if (!is_printable(from))
        return mr_fail(err, MR_BAD_INPUT, "the address has a character that must be written with '%%'");
    t->text = mem_array(2 * (n + 1), 1); /* once to be cut, once to be shown */
    if (t->text == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for a request");
    char *shown = t->text + n + 1;
    memcpy(t->text, from, n + 1);
    (void)cut(t->text, '#');
    char *query = cut(t->text, '?');
    memcpy(shown, t->text, strlen(t->text) + 1);
    t->path = shown;
    MR_TRY(parse_path(t, t->text, err));
    return parse_query(t, query, err);
}

void target_release(struct target *t)
{
    free(t->text);
    *t = (struct target){.path = ""};
}

const char *target_find_query(const struct target *t, const char *name)
{
    for (int i = 0; i < t->n_query; i++)
        if (strcmp(t->query[i].name, name) == 0)
            return t->query[i].value;
    return NULL;
}
