/* inspect.h: what `millrace inspect` says, as text and as JSON. */
#ifndef CLI_INSPECT_H
#define CLI_INSPECT_H

#include <jansson.h>

#include "base/string_buffer.h"
#include "format/gguf.h"

struct inspection {
    const char *path;
    const struct gguf *g;
};

/* Append what is in the file. */
void inspect_text(const struct inspection *in, struct string_buffer *out);

/* The same with every element of every array; NULL: no memory. The caller owns it. */
json_t *inspect_json(const struct inspection *in);

/* Weights in a tensor, and in all. */
int64_t inspect_n_weights(const struct gguf_tensor *t);

/* Append the n bytes at s for people (terminal: control characters as \n, \t, \xNN) or for JSON (as they are); what is
 * not UTF-8 becomes U+FFFD. */
void inspect_clean(struct string_buffer *out, struct gguf_string s, bool terminal);

#endif
