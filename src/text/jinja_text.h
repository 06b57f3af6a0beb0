/* jinja_text.h: strings that know who wrote each of their bytes.
 * A string is immutable and borrows its bytes (from the arena, the template's source or the caller's JSON). */
#ifndef TEXT_JINJA_TEXT_H
#define TEXT_JINJA_TEXT_H

#include "text/jinja_state.h"

enum origin {
    FROM_TEMPLATE,
    FROM_CALLER
};

struct text {
    const char *s; /* well-formed UTF-8, not NUL-terminated */
    size_t n;
    const unsigned char *origin; /* of each byte; NULL: all of them are `from` */
    unsigned char from;
    bool is_markup;             /* escaped already (filters safe and escape): what is added to it gets escaped */
    struct text_buffer *buffer; /* NULL, or where the bytes lie, so that an addition at its end need not copy them */
};

/* A growing string. */
struct text_buffer {
    char *s;
    unsigned char *origin; /* NULL: all bytes are `from` */
    unsigned char from;
    size_t n, capacity;
};

const struct text *text_make(struct jinja *j, const char *s, size_t n, enum origin from); /* borrows s */
const struct text *text_literal(struct jinja *j, const char *s);                          /* the template's; borrows s */
const struct text *text_slice(struct jinja *j, const struct text *t, size_t from, size_t to);
const struct text *text_printf(struct jinja *j, const char *fmt, ...) MR_PRINTF(2, 3); /* the template's */

struct text_buffer *text_begin(struct jinja *j);
void text_add(struct jinja *j, struct text_buffer *b, const char *s, size_t n, enum origin from);
void text_add_text(struct jinja *j, struct text_buffer *b, const struct text *t);
void text_puts(struct jinja *j, struct text_buffer *b, const char *s); /* the template's */
/* Code point `code`, `from` whom t's byte `at` comes. */
void text_add_code(struct jinja *j, struct text_buffer *b, uint32_t code, enum origin from);
void text_add_repeated(struct jinja *j, struct text_buffer *b, const struct text *t, size_t times);
const struct text *text_end(struct jinja *j, struct text_buffer *b);

const struct text *text_concat(struct jinja *j, const struct text *a, const struct text *b);

/* Who wrote byte i; who wrote the whole: the caller, as soon as one byte is the caller's. */
enum origin text_origin(const struct text *t, size_t i);
size_t text_origin_end(const struct text *t, size_t i); /* behind the run of bytes of one origin from i on */
enum origin text_origin_all(const struct text *t);

bool text_equal(const struct text *a, const struct text *b);
bool text_is(const struct text *t, const char *s);
int text_compare(const struct text *a, const struct text *b); /* by code points: below, equal or above 0 */
bool text_starts(const struct text *t, size_t at, const struct text *what);

/* Code points. text_at gives the byte where code point i begins (i at most the length). */
size_t text_length(struct jinja *j, const struct text *t);
size_t text_at(struct jinja *j, const struct text *t, size_t i);
uint32_t text_code(const struct text *t, size_t at, size_t *n_byte);

/* The byte where `what` first occurs in t[from, to), or last; SIZE_MAX: nowhere. Linear. */
size_t text_find(struct jinja *j, const struct text *t, size_t from, size_t to, const struct text *what);
size_t text_find_last(struct jinja *j, const struct text *t, size_t from, size_t to, const struct text *what);

#endif
