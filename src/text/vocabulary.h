/* vocabulary.h: the tokens of a model file: spelling, bytes, type, score, and the ids with a meaning.
 * Copied from the file, which may be closed afterwards. Threads: immutable after creation. */
#ifndef TEXT_VOCABULARY_H
#define TEXT_VOCABULARY_H

#include <stdbool.h>
#include <stdint.h>

#include "format/gguf.h"
#include "text/string_table.h"

enum token_type { /* tokenizer.ggml.token_type */
    TOKEN_UNDEFINED,
    TOKEN_NORMAL,
    TOKEN_UNKNOWN,
    TOKEN_CONTROL,
    TOKEN_USER_DEFINED,
    TOKEN_UNUSED,
    TOKEN_BYTE,
    N_TOKEN_TYPE
};

enum {
    TOKEN_BYTES_MAX = 4096 /* of one spelling; the longest published one has 1,024 */
};

/* How a normal token's spelling says its bytes. */
enum piece_form {
    PIECE_BYTE_LEVEL, /* characters of byte_level.h */
    PIECE_SPACE_MARK, /* text, with U+2581 for a blank */
};

enum special_id {
    SPECIAL_BOS,
    SPECIAL_EOS,
    SPECIAL_UNKNOWN,
    SPECIAL_SEPARATOR,
    SPECIAL_CLS,
    SPECIAL_EOT,
    SPECIAL_EOM,
    N_SPECIAL
};

struct vocabulary {
    int n;
    struct string_table spelling; /* as the file writes it */
    struct string_table piece;    /* the bytes it stands for */
    struct string_index by_spelling;
    uint8_t *type;
    bool *is_end;     /* ends a generation */
    bool *is_guarded; /* matches only in the template's own bytes: control tokens and what looks like one */
    float *score;     /* NULL where the file has none; finite */
    int32_t special[N_SPECIAL];
    int32_t byte_token[256]; /* of type TOKEN_BYTE; -1: none */
};

/* BAD_FORMAT names the key, the entry and what is wrong with it. Zeroed on failure. */
enum mr_status vocabulary_init(struct vocabulary *v, const struct gguf *g, enum piece_form form, struct mr_error *err);
void vocabulary_release(struct vocabulary *v);

static inline struct gguf_string vocabulary_piece(const struct vocabulary *v, int32_t id)
{
    struct gguf_string s;
    s.s = string_table_at(&v->piece, (size_t)id, &s.n);
    return s;
}

/* Whether running text is made of such tokens (not control, byte, unknown or unused ones). */
static inline bool vocabulary_is_text(const struct vocabulary *v, int32_t id) { return v->type[id] <= TOKEN_NORMAL; }

#endif
