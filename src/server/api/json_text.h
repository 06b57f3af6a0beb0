/* json_text.h: JSON written piece by piece. */
#ifndef SERVER_API_JSON_TEXT_H
#define SERVER_API_JSON_TEXT_H

#include <jansson.h>
#include <stdint.h>

#include "base/string_buffer.h"

/* A string with its quotes. Bytes that are not UTF-8 become U+FFFD. */
void json_text_string(struct string_buffer *out, const char *s, size_t n);
/* value compactly; NULL counts as an allocation that failed. Takes the reference. */
void json_text_value(struct string_buffer *out, json_t *value);
/* [231, 155, 174] */
void json_text_bytes(struct string_buffer *out, const char *s, size_t n);

/* A number that JSON has: infinities become large ones. */
double json_text_finite(double v);

#endif
