/* word_ban.c: words, their borders, and the tokens that complete them. */
#include "sample/word_ban.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

struct banned_word {
    const char *text;
    uint16_t n;
    uint16_t border[BAN_WORD_BYTES_MAX + 1]; /* of its first i bytes: the longest end that is a beginning of the word, too */
    struct token_stretch rest[BAN_WORD_BYTES_MAX]; /* [i]: tokens that begin with what follows the first i bytes, i > 0 */
};

struct word_ban {
    const struct token_trie *trie;
    char *text;
    int n_word;
    struct banned_word *word;
    uint64_t *inside; /* tokens that contain a word */
};

static void init_word(struct banned_word *w, const struct token_trie *t, const char *text)
{
    w->text = text;
    w->n = (uint16_t)strlen(text);
    w->border[0] = w->border[1] = 0;
    for (uint16_t i = 1, k = 0; i < w->n; i++) {
        while (k > 0 && text[i] != text[k])
            k = w->border[k];
        k += text[i] == text[k];
        w->border[i + 1] = k;
    }
    for (uint16_t i = 1; i < w->n; i++)
        w->rest[i] = token_trie_stretch(t, text + i, (size_t)(w->n - i));
}

static bool contains_word(const struct word_ban *b, const char *s, size_t n)
{
    for (int i = 0; i < b->n_word; i++)
        if (n >= b->word[i].n && memmem(s, n, b->word[i].text, b->word[i].n) != NULL)
            return true;
    return false;
}

enum mr_status word_ban_create(struct word_ban **out, const struct token_trie *trie, const char *words, size_t n_bytes,
                               struct mr_error *err)
{
    *out = NULL;
    int n_word = 0;
    for (size_t i = 0; i < n_bytes; i++)
        n_word += words[i] == '\0';
    struct word_ban *b = mem_zero_array(1, sizeof *b);
    if (b != NULL) {
        *b = (struct word_ban){.trie = trie, .n_word = n_word, .text = mem_array(n_bytes, 1)};
        b->word = mem_array((size_t)n_word, sizeof *b->word);
        b->inside = mem_zero_array(trie->n_word, sizeof *b->inside);
    }
    if (b == NULL || b->text == NULL || b->word == NULL || b->inside == NULL) {
        word_ban_free(b);
        return mr_fail(err, MR_NO_MEMORY, "no memory for %d bad words", n_word);
    }
    memcpy(b->text, words, n_bytes);
    const char *at = b->text;
    for (int i = 0; i < n_word; at += b->word[i++].n + 1)
        init_word(&b->word[i], trie, at);
    for (int32_t t = 0; t < trie->n_token; t++)
        if (contains_word(b, trie->bytes + trie->offset[t], trie->offset[t + 1] - trie->offset[t]))
            mask_add(b->inside, t);
    *out = b;
    return MR_OK;
}

void word_ban_free(struct word_ban *b)
{
    if (b == NULL)
        return;
    free(b->text);
    free(b->word);
    free(b->inside);
    free(b);
}

static void exclude_stretch(const struct token_trie *t, struct token_stretch s, uint64_t *mask)
{
    for (uint32_t i = s.begin; i < s.end; i++)
        for (int32_t id = t->node[i].token; id >= 0; id = t->next_token[id])
            mask[id / 64] &= ~((uint64_t)1 << (id % 64));
}

void word_ban_exclude(const struct word_ban *b, const struct word_ban_state *s, uint64_t *mask)
{
    for (size_t i = 0; i < b->trie->n_word; i++)
        mask[i] &= ~b->inside[i];
    for (int i = 0; i < b->n_word; i++)
        for (uint16_t n = s->matched[i]; n > 0; n = b->word[i].border[n])
            exclude_stretch(b->trie, b->word[i].rest[n], mask);
}

void word_ban_accept(const struct word_ban *b, struct word_ban_state *s, int32_t token)
{
    const char *text = b->trie->bytes + b->trie->offset[token];
    const size_t n_text = b->trie->offset[token + 1] - b->trie->offset[token];
    for (int i = 0; i < b->n_word; i++) {
        const struct banned_word *w = &b->word[i];
        uint16_t n = s->matched[i];
        for (size_t k = 0; k < n_text; k++) {
            while (n > 0 && (n == w->n || text[k] != w->text[n]))
                n = w->border[n];
            n += text[k] == w->text[n];
        }
        s->matched[i] = n == w->n ? w->border[n] : n; /* complete only where nothing was excluded */
    }
}
