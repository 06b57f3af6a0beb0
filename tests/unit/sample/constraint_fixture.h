/* constraint_fixture.h: a constraint over a small vocabulary: every byte as a token, an end, a control token, some words. */
#ifndef CONSTRAINT_FIXTURE_H
#define CONSTRAINT_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "sample/constraint.h"

enum {
    TOKEN_END = 256,
    TOKEN_CONTROL,
    TOKEN_WORDS
};

static const char *const fixture_words[] = {"ab",       "abc",          "\":", "\"}",    "}}",   "12",
                                            "\xe6\x97", "\xe6\x97\xa5", "ab",  "\", \"", "true", ""};

struct fixture {
    struct constraint *c;
    struct token_trie *trie;
    struct mask_cache *masks;
    struct constraint_state *s;
};

static inline struct token_trie *fixture_trie(void)
{
    enum {
        N = TOKEN_WORDS + sizeof fixture_words / sizeof *fixture_words
    };
    static char bytes[256];
    struct token_piece piece[N];
    struct token_trie *t;
    for (int i = 0; i < 256; i++) {
        bytes[i] = (char)i;
        piece[i] = (struct token_piece){.s = &bytes[i], .n = 1};
    }
    piece[TOKEN_END] = (struct token_piece){.s = "<end>", .n = 5, .is_end = true};
    piece[TOKEN_CONTROL] = (struct token_piece){.s = "a", .n = 1, .is_control = true};
    for (int i = TOKEN_WORDS; i < N; i++)
        piece[i] = (struct token_piece){.s = fixture_words[i - TOKEN_WORDS], .n = strlen(fixture_words[i - TOKEN_WORDS])};
    assert_int_equal(token_trie_create(&t, piece, N, NULL), MR_OK);
    return t;
}

static inline struct fixture fixture_open(enum constraint_kind kind, const char *text)
{
    struct fixture f;
    struct mr_error err = {""};
    const struct constraint_source source = {.kind = kind, .text = {text, strlen(text)}};
    if (constraint_create(&f.c, &source, &err) != MR_OK)
        fail_msg("%s", err.message);
    f.trie = fixture_trie();
    assert_int_equal(mask_cache_create(&f.masks, f.c, f.trie, NULL), MR_OK);
    assert_int_equal(constraint_state_create(&f.s, f.masks, NULL), MR_OK);
    return f;
}

static inline void fixture_close(struct fixture *f)
{
    constraint_state_free(f->s);
    mask_cache_free(f->masks);
    token_trie_free(f->trie);
    constraint_free(f->c);
}

static inline bool fixture_allows(struct fixture *f, int32_t token)
{
    const uint64_t *mask;
    assert_int_equal(constraint_mask(&mask, f->s, NULL), MR_OK);
    return mask_has(mask, token);
}

static inline int fixture_n_allowed(struct fixture *f)
{
    int n = 0;
    for (int32_t i = 0; i < f->trie->n_token; i++)
        n += fixture_allows(f, i);
    return n;
}

static inline void fixture_read(struct fixture *f, const char *text)
{
    assert_int_equal(constraint_accept_bytes(f->s, text, strlen(text), NULL, NULL), MR_OK);
}

/* Whether the constraint accepts the text as a whole. */
static inline bool fixture_matches(enum constraint_kind kind, const char *source, const char *text)
{
    struct fixture f = fixture_open(kind, source);
    const bool ok = constraint_accept_bytes(f.s, text, strlen(text), NULL, NULL) == MR_OK && constraint_can_end(f.s);
    fixture_close(&f);
    return ok;
}

/* The source is refused, and the message has all of the words. */
static inline void fixture_refuses(enum constraint_kind kind, const char *text, const char *word, const char *word2)
{
    struct constraint *c;
    struct mr_error err = {""};
    const struct constraint_source source = {.kind = kind, .text = {text, strlen(text)}};
    assert_int_not_equal(constraint_create(&c, &source, &err), MR_OK);
    assert_null(c);
    assert_non_null(strstr(err.message, word));
    assert_non_null(strstr(err.message, word2));
}

#endif
