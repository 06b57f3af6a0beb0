/* tokenizer.h: text to token ids and back, for the vocabulary of one model file.
 * Kinds (tokenizer.ggml.model): gpt2 (byte-level BPE), llama (SentencePiece BPE), bert (WordPiece), t5 (Unigram).
 * Threads: immutable after creation; encode may run on several threads at once. */
#ifndef TEXT_TOKENIZER_H
#define TEXT_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "format/gguf.h"

struct tokenizer; /* opaque */

/* A run of the text to encode, and who wrote it. Runs are joined before they are tokenised: a border between two runs
 * is no border between tokens. */
struct text_run {
    const char *s;
    size_t n;
    bool match_control; /* control tokens written in these bytes become their ids (the template's own bytes);
                           false: their text is plain text (what a caller wrote) */
};

enum encode_flag {
    ENCODE_ADD_BOS = 1 << 0, /* put the BOS, EOS, CLS ... that the file asks for, and no second BOS where the text
                                begins with it already */
};

struct token_list { /* grows; free with token_list_release */
    int32_t *id;
    size_t n, capacity;
};
void token_list_release(struct token_list *list);

/* Read the vocabulary; g may be closed afterwards. BAD_FORMAT names the key or the token; NO_SUPPORT an unknown kind or
 * pre-tokenizer. */
enum mr_status tokenizer_create(struct tokenizer **out, const struct gguf *g, struct mr_error *err);
void tokenizer_free(struct tokenizer *t); /* takes NULL */

/* Append the ids of the text to *list. Time is linear in the text. Bytes that are not UTF-8 are encoded as well
 * (byte-level BPE and byte fallback keep them; others use the unknown token). Only NO_MEMORY can fail. */
enum mr_status tokenizer_encode(const struct tokenizer *t, const struct text_run *run, int n_run, unsigned flags,
                                struct token_list *list, struct mr_error *err);

/* The same, with the ids of segments that were encoded before; cache NULL: none. */
struct segment_cache;
enum mr_status tokenizer_encode_cached(const struct tokenizer *t, struct segment_cache *cache, const struct text_run *run,
                                       int n_run, unsigned flags, struct token_list *list, struct mr_error *err);

int tokenizer_n_vocab(const struct tokenizer *t);

/* The bytes that token id stands for in running text, borrowed: decoded (byte-level, byte tokens, U+2581 to a blank).
 * Control tokens give their text where `special`, else nothing. id out of range: nothing. */
struct gguf_string tokenizer_piece(const struct tokenizer *t, int32_t id, bool special);

/* The token exactly as the file spells it ("<|im_end|>"), borrowed. */
struct gguf_string tokenizer_spelling(const struct tokenizer *t, int32_t id);
int32_t tokenizer_find(const struct tokenizer *t, const char *spelling, size_t n); /* -1: none */
bool tokenizer_is_control(const struct tokenizer *t, int32_t id);

/* -1 where the file names none. */
int32_t tokenizer_bos(const struct tokenizer *t);
int32_t tokenizer_eos(const struct tokenizer *t);

/* Whether id ends a generation: the set of eos, eot, eom ids and the known end-of-turn tokens. */
bool tokenizer_is_end(const struct tokenizer *t, int32_t id);

/* Whether encode with ENCODE_ADD_BOS puts a BOS in front. */
bool tokenizer_adds_bos(const struct tokenizer *t);

/* Whether encode puts a blank before the text, which a detokenizer takes away again. */
bool tokenizer_adds_space(const struct tokenizer *t);

/* The file's tokenizer.chat_template; n == 0: none. */
struct gguf_string tokenizer_chat_template(const struct tokenizer *t);

#endif
