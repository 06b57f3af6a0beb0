/* text_windows.c: a permutation for each round, by a Feistel network on the window's number. */
#include "compress/text_windows.h"

#include <string.h>

#include "base/random.h"

enum {
    ROUNDS = 4
};

uint64_t digest_bytes(uint64_t sum, const void *bytes, size_t n)
{
    const unsigned char *p = bytes;
    sum = sum != 0 ? sum : 0xcbf29ce484222325u;
    for (; n >= 8; n -= 8, p += 8) {
        uint64_t word;
        memcpy(&word, p, sizeof word);
        sum = (sum ^ word) * 0x100000001b3u;
        sum ^= sum >> 29;
    }
    for (; n > 0; n--)
        sum = (sum ^ *p++) * 0x100000001b3u;
    return sum;
}

enum mr_status text_windows_init(struct text_windows *w, const struct tokenizer *t, const char *text, size_t n, int n_tok,
                                 int n_held_out, int n_min, uint64_t seed, struct mr_error *err)
{
    *w = (struct text_windows){.n_tok = n_tok, .seed = seed};
    const struct text_run run = {.s = text, .n = n, .match_control = true};
    MR_TRY(tokenizer_encode(t, &run, 1, 0, &w->tokens, err));
    const size_t n_window = w->tokens.n / (size_t)n_tok;
    if (n_window < (size_t)n_held_out + (size_t)n_min || n_window > UINT32_MAX / 2) {
        const size_t has = w->tokens.n;
        text_windows_release(w);
        return mr_fail(err, MR_BAD_INPUT, "the text has %zu tokens; %d windows of %d tokens are needed, %d of them held out",
                       has, n_min + n_held_out, n_tok, n_held_out);
    }
    w->n_window = (uint32_t)n_window;
    w->n_train = w->n_window - (uint32_t)n_held_out;
    return MR_OK;
}

void text_windows_release(struct text_windows *w) { token_list_release(&w->tokens); }

static uint32_t scramble(uint32_t x, uint64_t seed, uint64_t round, int half)
{
    const uint32_t mask = ((uint32_t)1 << half) - 1;
    uint32_t low = x & mask, high = x >> half;
    for (uint32_t i = 0; i < ROUNDS; i++) {
        const uint32_t counter[4] = {low, i, (uint32_t)round, (uint32_t)(round >> 32)};
        const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
        uint32_t word[4];
        philox4x32(word, counter, key);
        const uint32_t next = high ^ (word[0] & mask);
        high = low;
        low = next;
    }
    return high << half | low;
}

uint32_t text_windows_order(const struct text_windows *w, uint64_t i)
{
    const uint64_t round = i / w->n_train;
    uint32_t x = (uint32_t)(i % w->n_train);
    int half = 1;
    while ((uint64_t)1 << (2 * half) < w->n_train)
        half++;
    do /* a permutation of 4^half numbers, walked until it meets one that is a window: again a permutation */
        x = scramble(x, w->seed, round, half);
    while (x >= w->n_train);
    return x;
}

void text_windows_read(const struct text_windows *w, uint32_t window, int32_t *token, int32_t *label)
{
    const size_t first = (size_t)window * (size_t)w->n_tok;
    memcpy(token, w->tokens.id + first, (size_t)w->n_tok * sizeof *token);
    memcpy(label, w->tokens.id + first + 1, (size_t)(w->n_tok - 1) * sizeof *label);
    label[w->n_tok - 1] = first + (size_t)w->n_tok < w->tokens.n ? w->tokens.id[first + (size_t)w->n_tok] : -1;
}

uint64_t text_windows_digest(const struct text_windows *w)
{
    return digest_bytes((uint64_t)w->n_tok, w->tokens.id, w->tokens.n * sizeof *w->tokens.id);
}
