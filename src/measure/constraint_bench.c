/* constraint_bench.c: eight kinds of constraint along valid texts. */
#include "measure/constraint_bench.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/memory.h"
#include "measure/constraint_cases.h"
#include "sample/constraint.h"

enum {
    STEPS_MAX = 4096
};

struct samples {
    double us[STEPS_MAX];
    int n;
};

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sorts the samples. */
static void quantiles(struct samples *s, double *median, double *p99)
{
    qsort(s->us, (size_t)s->n, sizeof *s->us, compare);
    *median = s->us[s->n / 2];
    *p99 = s->us[(int)(0.99 * (s->n - 1) + 0.5)];
}

static void add(struct samples *s, double us)
{
    if (s->n < STEPS_MAX)
        s->us[s->n++] = us;
}

/* Take the masks before each token of the text. */
static enum mr_status walk(struct constraint_state *s, const struct token_trie *trie, const char *text, struct samples *own,
                           struct samples *all, struct mr_error *err)
{
    size_t left = strlen(text), length;
    for (bool more = true; more; text += length, left -= length) {
        const uint64_t *mask;
        const double begin = now_us();
        MR_TRY(constraint_mask(&mask, s, err));
        const double us = now_us() - begin;
        add(own, us);
        add(all, us);
        more = left > 0;
        const int32_t token = token_trie_longest(trie, text, left, &length);
        if (more && token < 0)
            return mr_fail(err, MR_BAD_INPUT, "no token begins with '%.20s'", text);
        if (more)
            MR_TRY(constraint_accept(s, token, err));
    }
    return MR_OK;
}

static enum mr_status run_text(struct mask_cache *m, const struct token_trie *trie, const char *text, struct samples *own,
                               struct samples *all, struct mr_error *err)
{
    struct constraint_state *s;
    own->n = 0;
    MR_TRY(constraint_state_create(&s, m, err));
    const enum mr_status status = walk(s, trie, text, own, all, err);
    constraint_state_free(s);
    return status;
}

/* Of all masks so far, the first times and those again. */
struct run {
    struct samples first, again, own;
};

static enum mr_status measure(struct run *r, struct constraint_case_figure *out, struct mask_cache *m,
                              const struct token_trie *trie, const char *text, struct mr_error *err)
{
    const double begin = now_us();
    MR_TRY(mask_cache_warm(m, MASK_CACHE_WARM_WORK, err));
    out->warm_ms = (now_us() - begin) / 1e3;
    MR_TRY(run_text(m, trie, text, &r->own, &r->first, err));
    out->masks.n = r->own.n;
    quantiles(&r->own, &out->masks.first_median, &out->masks.first_p99);
    MR_TRY(run_text(m, trie, text, &r->own, &r->again, err));
    quantiles(&r->own, &out->masks.again_median, &out->masks.again_p99);
    out->bytes = mask_cache_bytes(m);
    return MR_OK;
}

static enum mr_status run_case(struct run *r, struct constraint_case_figure *out, const struct constraint_case *c,
                               const struct token_trie *trie, struct mr_error *err)
{
    const struct constraint_source source = {.kind = c->kind, .text = {c->source, strlen(c->source)}};
    struct constraint *constraint;
    struct mask_cache *m = NULL;
    out->name = c->name;
    const double begin = now_us();
    enum mr_status status = constraint_create(&constraint, &source, err);
    out->compile_ms = (now_us() - begin) / 1e3;
    if (status == MR_OK)
        status = mask_cache_create(&m, constraint, trie, err);
    if (status == MR_OK)
        status = measure(r, out, m, trie, c->text, err);
    mask_cache_free(m);
    constraint_free(constraint);
    return status == MR_OK ? MR_OK : mr_fail_in(err, status, "%s", c->name);
}

static enum mr_status make_trie(struct token_trie **out, const struct tokenizer *t, struct mr_error *err)
{
    const int n = tokenizer_n_vocab(t);
    struct token_piece *piece = mem_array((size_t)n, sizeof *piece);
    *out = NULL;
    if (piece == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for the pieces of %d tokens", n);
    for (int i = 0; i < n; i++) {
        const struct gguf_string s = tokenizer_piece(t, i, false);
        piece[i] = (struct token_piece){s.s, s.n, tokenizer_is_control(t, i), tokenizer_is_end(t, i)};
    }
    const enum mr_status status = token_trie_create(out, piece, n, err);
    free(piece);
    return status;
}

enum mr_status constraint_bench_masks(struct constraint_figures *out, const struct tokenizer *t, struct mr_error *err)
{
    struct token_trie *trie;
    struct run *r = mem_zero_array(1, sizeof *r);
    if (r == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for times");
    out->n_vocab = tokenizer_n_vocab(t);
    const double begin = now_us();
    enum mr_status status = make_trie(&trie, t, err);
    out->trie_ms = (now_us() - begin) / 1e3;
    for (int i = 0; i < CONSTRAINT_CASES && status == MR_OK; i++)
        status = run_case(r, &out->figure[i], &constraint_cases[i], trie, err);
    if (status == MR_OK) {
        out->all.n = r->first.n;
        quantiles(&r->first, &out->all.first_median, &out->all.first_p99);
        quantiles(&r->again, &out->all.again_median, &out->all.again_p99);
    }
    token_trie_free(trie);
    free(r);
    return status;
}
