/* text_windows.h: a text as windows of tokens to train on, and the order in which they come.
 * Window i holds tokens i * n_tok to i * n_tok + n_tok - 1; a token's label is the one behind it. The last windows are held
 * out. Each round through the others has an order of its own, which is a pure function of the seed: a run that is resumed goes
 * on where it stood. */
#ifndef COMPRESS_TEXT_WINDOWS_H
#define COMPRESS_TEXT_WINDOWS_H

#include "base/status.h"
#include "text/tokenizer.h"

struct text_windows {
    struct token_list tokens;
    int n_tok;
    uint32_t n_window; /* in all */
    uint32_t n_train;  /* the first ones; the rest is held out */
    uint64_t seed;
};

/* Tokenise text[n]. BAD_INPUT: fewer windows than n_held_out and n_min to train on. */
enum mr_status text_windows_init(struct text_windows *w, const struct tokenizer *t, const char *text, size_t n, int n_tok,
                                 int n_held_out, int n_min, uint64_t seed, struct mr_error *err);
void text_windows_release(struct text_windows *w);

/* The window that comes i-th (0 first) in training. */
uint32_t text_windows_order(const struct text_windows *w, uint64_t i);
/* token[n_tok] and label[n_tok] of a window; the label is -1 where the text ends. */
void text_windows_read(const struct text_windows *w, uint32_t window, int32_t *token, int32_t *label);
/* A sum that differs where the tokens do. */
uint64_t text_windows_digest(const struct text_windows *w);

/* FNV-1a over words of 8 bytes (and the bytes left over), from the sum so far; 0: the first. */
uint64_t digest_bytes(uint64_t sum, const void *bytes, size_t n);

#endif
