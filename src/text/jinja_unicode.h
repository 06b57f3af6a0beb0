/* jinja_unicode.h: what Python's str methods know of code points. */
#ifndef TEXT_JINJA_UNICODE_H
#define TEXT_JINJA_UNICODE_H

#include "text/jinja_text.h"

bool unicode_is_space(uint32_t code);
bool unicode_is_printable(uint32_t code);
bool unicode_is_alpha(uint32_t code);
bool unicode_is_decimal(uint32_t code);
bool unicode_is_digit(uint32_t code);
bool unicode_is_numeric(uint32_t code);
bool unicode_is_word(uint32_t code); /* letter, number or '_' */
bool unicode_is_upper(uint32_t code);
bool unicode_is_lower(uint32_t code);
bool unicode_is_title(uint32_t code); /* a digraph such as U+01C5 */
bool unicode_is_cased(uint32_t code);

enum letter_case {
    CASE_UPPER,
    CASE_LOWER,
    CASE_TITLE,
    CASE_FOLD
};

/* The code points that code becomes: up to three. Returns their number. */
int unicode_change_case(uint32_t out[3], uint32_t code, enum letter_case to);

/* t with every character changed; CASE_TITLE: the first letter of each word, the rest lowered. */
const struct text *text_change_case(struct jinja *j, const struct text *t, enum letter_case to);
const struct text *text_capitalize(struct jinja *j, const struct text *t);

/* The bytes [*from, *to) of t without the characters at its ends that are in set (NULL: blanks). */
void text_strip(struct jinja *j, const struct text *t, const struct text *set, bool left, bool right, size_t *from, size_t *to);

#endif
