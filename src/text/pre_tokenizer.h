/* pre_tokenizer.h: cuts text into the pieces inside which byte-level BPE merges, by the regular expressions of the
 * model's published tokenizer.
 * Threads: immutable after creation; the scratch belongs to one thread. */
#ifndef TEXT_PRE_TOKENIZER_H
#define TEXT_PRE_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

struct pre_tokenizer; /* opaque */

struct pre_tokenizer_traits { /* what else the model's published tokenizer does */
    bool whole_piece_first;   /* a piece that is a token is not merged */
    bool adds_bos;            /* where the file does not say */
};

/* By the name in tokenizer.ggml.pre. NO_SUPPORT: unknown name. */
enum mr_status pre_tokenizer_create(struct pre_tokenizer **out, const char *name, size_t n, struct mr_error *err);
void pre_tokenizer_free(struct pre_tokenizer *p); /* takes NULL */
struct pre_tokenizer_traits pre_tokenizer_traits(const struct pre_tokenizer *p);

struct pre_tokenizer_scratch;                                     /* opaque: what one thread needs to match */
struct pre_tokenizer_scratch *pre_tokenizer_scratch_create(void); /* NULL: no memory */
void pre_tokenizer_scratch_free(struct pre_tokenizer_scratch *s); /* takes NULL */

/* Takes one piece, never empty. false stops. */
typedef bool piece_fn(void *ctx, const char *s, size_t n);

/* Call fn for each piece of the well-formed UTF-8 text, in order; the pieces joined are the text. false: fn stopped, or
 * no memory. */
bool pre_tokenizer_split(const struct pre_tokenizer *p, struct pre_tokenizer_scratch *scratch, const char *s, size_t n,
                         piece_fn *fn, void *ctx);

#endif
