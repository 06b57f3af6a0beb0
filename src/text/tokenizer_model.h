/* tokenizer_model.h: what a kind of tokenizer is to tokenizer.c: one file per kind, one row in its table.
 * Threads: a model is immutable after creation; scratch belongs to one encoding. */
#ifndef TEXT_TOKENIZER_MODEL_H
#define TEXT_TOKENIZER_MODEL_H

#include "text/tokenizer.h"
#include "text/vocabulary.h"

/* Text between two special tokens. */
struct text_segment {
    const char *s;
    size_t n;       /* at least 1 */
    bool add_space; /* a blank is to be put in front */
};

struct tokenizer_defaults { /* what holds where the file does not say */
    bool add_bos, add_eos, add_space_prefix;
};

struct model_kind {
    const char *name; /* tokenizer.ggml.model */
    enum piece_form form;
    bool marks_spaces; /* U+2581 in a text is a blank */
    enum mr_status (*create)(void **out, const struct vocabulary *v, const struct gguf *g, struct mr_error *err);
    void (*free)(void *model); /* takes NULL */
    struct tokenizer_defaults (*defaults)(const void *model);
    void *(*scratch_create)(const void *model); /* NULL: no memory */
    void (*scratch_free)(void *scratch);        /* takes NULL */
    /* Append the ids of the segment. false: no memory. */
    bool (*encode)(const void *model, void *scratch, const struct text_segment *segment, struct token_list *list);
};

extern const struct model_kind model_byte_bpe;       /* gpt2 */
extern const struct model_kind model_sentence_piece; /* llama */
extern const struct model_kind model_merge_bpe;      /* gemma4 */
extern const struct model_kind model_word_piece;     /* bert */
extern const struct model_kind model_unigram;        /* t5 */

/* Append one id. false: no memory. */
bool token_list_add(struct token_list *list, int32_t id);

#endif
