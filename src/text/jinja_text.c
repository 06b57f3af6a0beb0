/* jinja_text.c: strings that know who wrote each of their bytes. */
#include "text/jinja_text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

const struct text *text_make(struct jinja *j, const char *s, size_t n, enum origin from)
{
    struct text *t = jinja_alloc(j, sizeof *t);
    *t = (struct text){.s = s, .n = n, .from = (unsigned char)from};
    return t;
}

const struct text *text_literal(struct jinja *j, const char *s) { return text_make(j, s, strlen(s), FROM_TEMPLATE); }

const struct text *text_slice(struct jinja *j, const struct text *t, size_t from, size_t to)
{
    if (from == 0 && to == t->n)
        return t;
    struct text *part = jinja_alloc(j, sizeof *part);
    *part = *t;
    part->s += from;
    part->n = to - from;
    if (part->origin != NULL)
        part->origin += from;
    return part;
}

const struct text *text_printf(struct jinja *j, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    const int n = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    if (n < 0)
        jinja_fail(j, "cannot format a number");
    char *s = jinja_alloc(j, (size_t)n + 1);
    va_start(args, fmt);
    vsnprintf(s, (size_t)n + 1, fmt, args);
    va_end(args);
    return text_make(j, s, (size_t)n, FROM_TEMPLATE);
}

struct text_buffer *text_begin(struct jinja *j)
{
    struct text_buffer *b = jinja_alloc(j, sizeof *b);
    *b = (struct text_buffer){0};
    return b;
}

static void make_room(struct jinja *j, struct text_buffer *b, size_t n)
{
    if (n > JINJA_MAX_BYTES - b->n)
        jinja_fail(j, "a string grows past %d bytes", JINJA_MAX_BYTES);
    jinja_work(j, n / JINJA_WORK_BYTES);
    if (n <= b->capacity - b->n)
        return;
    const size_t need = b->n + n;
    const size_t capacity = need > 2 * b->capacity ? need + 16 : 2 * b->capacity;
    jinja_work(j, b->n / JINJA_WORK_BYTES);
    char *s = jinja_alloc(j, capacity);
    if (b->n > 0)
        memcpy(s, b->s, b->n);
    b->s = s;
    if (b->origin != NULL) {
        unsigned char *origin = jinja_alloc(j, capacity);
        memcpy(origin, b->origin, b->n);
        b->origin = origin;
    }
    b->capacity = capacity;
}

/* From here on the buffer has an origin for each byte. */
static void mix(struct jinja *j, struct text_buffer *b)
{
    if (b->origin != NULL)
        return;
    b->origin = jinja_alloc(j, b->capacity);
    memset(b->origin, b->from, b->n);
}

void text_add(struct jinja *j, struct text_buffer *b, const char *s, size_t n, enum origin from)
{
    if (n == 0)
        return;
    make_room(j, b, n);
    if (b->n == 0 && b->origin == NULL)
        b->from = (unsigned char)from;
    if (b->from != (unsigned char)from)
        mix(j, b);
    memcpy(b->s + b->n, s, n);
    if (b->origin != NULL)
        memset(b->origin + b->n, (int)from, n);
    b->n += n;
}

void text_add_text(struct jinja *j, struct text_buffer *b, const struct text *t)
{
    if (t->origin == NULL || t->n == 0) {
        text_add(j, b, t->s, t->n, t->from);
        return;
    }
    make_room(j, b, t->n);
    mix(j, b);
    memcpy(b->s + b->n, t->s, t->n);
    memcpy(b->origin + b->n, t->origin, t->n);
    b->n += t->n;
}

void text_puts(struct jinja *j, struct text_buffer *b, const char *s) { text_add(j, b, s, strlen(s), FROM_TEMPLATE); }

void text_add_code(struct jinja *j, struct text_buffer *b, uint32_t code, enum origin from)
{
    char s[UTF8_MAX];
    text_add(j, b, s, (size_t)utf8_encode(s, code), from);
}

void text_add_repeated(struct jinja *j, struct text_buffer *b, const struct text *t, size_t times)
{
    if (t->n == 0)
        return;
    if (times > JINJA_MAX_BYTES / t->n)
        jinja_fail(j, "a string grows past %d bytes", JINJA_MAX_BYTES);
    jinja_work(j, times);
    for (size_t i = 0; i < times; i++)
        text_add_text(j, b, t);
}

const struct text *text_end(struct jinja *j, struct text_buffer *b)
{
    struct text *t = jinja_alloc(j, sizeof *t);
    *t = (struct text){.s = b->s, .n = b->n, .origin = b->origin, .from = b->from, .buffer = b};
    if (t->s == NULL)
        t->s = "";
    return t;
}

const struct text *text_concat(struct jinja *j, const struct text *a, const struct text *b)
{
    if (b->n == 0)
        return a;
    if (a->n == 0)
        return b;
    struct text_buffer *joined = a->buffer;
    if (joined == NULL || a->s != joined->s || a->n != joined->n) {
        joined = text_begin(j);
        text_add_text(j, joined, a);
    }
    text_add_text(j, joined, b);
    return text_end(j, joined);
}

enum origin text_origin(const struct text *t, size_t i) { return t->origin != NULL ? t->origin[i] : t->from; }

size_t text_origin_end(const struct text *t, size_t i)
{
    if (t->origin == NULL)
        return t->n;
    const int other = t->origin[i] == FROM_CALLER ? FROM_TEMPLATE : FROM_CALLER;
    const unsigned char *end = memchr(t->origin + i, other, t->n - i);
    return end != NULL ? (size_t)(end - t->origin) : t->n;
}

enum origin text_origin_all(const struct text *t)
{
    if (t->origin == NULL)
        return t->from;
    return memchr(t->origin, FROM_CALLER, t->n) != NULL ? FROM_CALLER : FROM_TEMPLATE;
}

bool text_equal(const struct text *a, const struct text *b) { return a->n == b->n && memcmp(a->s, b->s, a->n) == 0; }

bool text_is(const struct text *t, const char *s) { return t->n == strlen(s) && memcmp(t->s, s, t->n) == 0; }

int text_compare(const struct text *a, const struct text *b)
{
    const int order = memcmp(a->s, b->s, a->n < b->n ? a->n : b->n);
    return order != 0 ? order : (a->n > b->n) - (a->n < b->n);
}

bool text_starts(const struct text *t, size_t at, const struct text *what)
{
    return what->n <= t->n - at && memcmp(t->s + at, what->s, what->n) == 0;
}

static bool begins_character(char c) { return ((unsigned char)c & 0xc0) != 0x80; }

size_t text_length(struct jinja *j, const struct text *t)
{
    jinja_work(j, t->n / JINJA_WORK_BYTES);
    size_t n = 0;
    for (size_t i = 0; i < t->n; i++)
        n += begins_character(t->s[i]);
    return n;
}

size_t text_at(struct jinja *j, const struct text *t, size_t i)
{
    size_t at = 0;
    for (size_t left = i; at < t->n; at++) {
        if (begins_character(t->s[at]) && left-- == 0)
            break;
    }
    jinja_work(j, at / JINJA_WORK_BYTES);
    return at;
}

uint32_t text_code(const struct text *t, size_t at, size_t *n_byte)
{
    uint32_t code;
    const int n = utf8_decode(&code, t->s + at, t->n - at);
    *n_byte = n > 0 ? (size_t)n : 1;
    return code;
}

size_t text_find(struct jinja *j, const struct text *t, size_t from, size_t to, const struct text *what)
{
    if (from > to || what->n > to - from)
        return SIZE_MAX;
    if (what->n == 0)
        return from;
    const char *found = memmem(t->s + from, to - from, what->s, what->n);
    const size_t at = found == NULL ? SIZE_MAX : (size_t)(found - t->s);
    jinja_work(j, ((found == NULL ? to : at) - from) / JINJA_WORK_BYTES);
    return at;
}

size_t text_find_last(struct jinja *j, const struct text *t, size_t from, size_t to, const struct text *what)
{
    if (from > to || what->n > to - from)
        return SIZE_MAX;
    for (size_t at = to - what->n + 1; at-- > from;) {
        if (what->n == 0 || t->s[at] == what->s[0]) {
            jinja_work(j, what->n / JINJA_WORK_BYTES + 1);
            if (memcmp(t->s + at, what->s, what->n) == 0)
                return at;
        }
    }
    return SIZE_MAX;
}
