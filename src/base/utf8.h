/* utf8.h: strict UTF-8 (Unicode 15, section 3.9, table 3-7; RFC 3629). */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    UTF8_MAX = 4
}; /* bytes of the longest character */

/* Decode the character at s (n bytes are readable). Returns its length, 1 to 4.
 * Not a character: 0 minus the length of the maximal ill-formed subpart (1 to 3 bytes, the unit that one
 * U+FFFD replaces); *code is then 0xFFFD. n == 0: returns 0. */
int utf8_decode(uint32_t *code, const char *s, size_t n);

/* Whether the n bytes at s (1 to 3) begin a character that more bytes could complete. */
bool utf8_is_prefix(const char *s, size_t n);

/* Write code (a scalar value) to s. Returns the length, 1 to 4. */
int utf8_encode(char s[UTF8_MAX], uint32_t code);

/* Whether all n bytes are well-formed. */
bool utf8_is_valid(const char *s, size_t n);

#endif
