/* pre_tokenizer.c: cuts text into pieces by regular expressions, compiled to machine code by PCRE2. */
#include "text/pre_tokenizer.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/utf8.h"
#include "text/old_unicode.h"
#include "text/split_rules.h"

struct pre_tokenizer {
    const struct split_rule *rule;
    int n_stage;
    pcre2_code *code[SPLIT_STAGES_MAX]; /* NULL where the stage needs none */
};

struct pre_tokenizer_scratch {
    pcre2_match_data *match;
    pcre2_match_context *context;
};

static enum mr_status compile(struct pre_tokenizer *p, const struct split_stage *stage, struct mr_error *err)
{
    int code = 0;
    PCRE2_SIZE offset = 0;
    const uint32_t anchored = stage->kind == SPLIT_COVER ? PCRE2_ANCHORED : 0;
    pcre2_code **out = &p->code[p->n_stage++];
    *out = NULL;
    if (stage->pattern == NULL)
        return MR_OK;
    *out = pcre2_compile((PCRE2_SPTR)stage->pattern, PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_UCP | anchored, &code, &offset,
                         NULL);
    if (*out == NULL && code == PCRE2_ERROR_NOMEMORY)
        return mr_fail(err, MR_NO_MEMORY, "no memory for the pre-tokenizer '%s'", p->rule->name);
    if (*out == NULL)
        return mr_fail(err, MR_NO_SUPPORT, "the pre-tokenizer '%s' needs a PCRE2 with UTF-8 (error %d at %zu)", p->rule->name,
                       code, (size_t)offset);
    pcre2_jit_compile(*out, PCRE2_JIT_COMPLETE); /* where the system forbids it, the interpreter runs, slower */
    return MR_OK;
}

enum mr_status pre_tokenizer_create(struct pre_tokenizer **out, const char *name, size_t n, struct mr_error *err)
{
    *out = NULL;
    const struct split_rule *rule = split_rule_find(name, n);
    if (rule == NULL)
        return mr_fail(err, MR_NO_SUPPORT, "key 'tokenizer.ggml.pre': unknown pre-tokenizer '%.*s'", n < 100 ? (int)n : 100,
                       name);
    struct pre_tokenizer *p = calloc(1, sizeof *p);
    if (p == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for the pre-tokenizer '%s'", rule->name);
    p->rule = rule;
    for (int i = 0; i < SPLIT_STAGES_MAX && rule->stage[i].kind != SPLIT_END; i++) {
        const enum mr_status status = compile(p, &rule->stage[i], err);
        if (status != MR_OK) {
            pre_tokenizer_free(p);
            return status;
        }
    }
    *out = p;
    return MR_OK;
}

void pre_tokenizer_free(struct pre_tokenizer *p)
{
    if (p == NULL)
        return;
    for (int i = 0; i < p->n_stage; i++)
        pcre2_code_free(p->code[i]);
    free(p);
}

struct pre_tokenizer_traits pre_tokenizer_traits(const struct pre_tokenizer *p)
{
    return (struct pre_tokenizer_traits){p->rule->whole_piece_first, p->rule->adds_bos};
}

struct pre_tokenizer_scratch *pre_tokenizer_scratch_create(void)
{
    struct pre_tokenizer_scratch *s = calloc(1, sizeof *s);
    if (s == NULL)
        return NULL;
    s->match = pcre2_match_data_create(1, NULL);
    s->context = pcre2_match_context_create(NULL);
    if (s->match == NULL || s->context == NULL) {
        pre_tokenizer_scratch_free(s);
        return NULL;
    }
    pcre2_set_match_limit(s->context, UINT32_MAX); /* backtracking over one run of blanks is counted */
    pcre2_set_heap_limit(s->context, UINT32_MAX);
    return s;
}

void pre_tokenizer_scratch_free(struct pre_tokenizer_scratch *s)
{
    if (s == NULL)
        return;
    pcre2_match_data_free(s->match);
    pcre2_match_context_free(s->context);
    free(s);
}

/* One split under way: stage k hands its pieces to stage k + 1, the last one to fn. */
struct split {
    const struct pre_tokenizer *p;
    struct pre_tokenizer_scratch *scratch;
    piece_fn *fn;
    void *ctx;
};

static bool split_from(const struct split *split, int stage, const char *s, size_t n);

/* 1: found, at *start to *end; 0: not found; -1: no memory. */
static int match_at(const struct split *split, int stage, const char *s, size_t n, size_t from, size_t *start, size_t *end)
{
    struct pre_tokenizer_scratch *scratch = split->scratch;
    const int found =
        pcre2_match(split->p->code[stage], (PCRE2_SPTR)s, n, from, PCRE2_NO_UTF_CHECK, scratch->match, scratch->context);
    if (found == PCRE2_ERROR_NOMATCH)
        return 0;
    if (found < 0)
        return -1;
    const PCRE2_SIZE *bounds = pcre2_get_ovector_pointer(scratch->match);
    *start = bounds[0];
    *end = bounds[1];
    return *end > from && *start < *end ? 1 : 0;
}

static bool split_by_regex(const struct split *split, int stage, const char *s, size_t n)
{
    size_t at = 0;
    while (at < n) {
        size_t start, end;
        const int found = match_at(split, stage, s, n, at, &start, &end);
        if (found < 0)
            return false;
        if (found == 0)
            start = end = n;
        if (start > at && !split_from(split, stage + 1, s + at, start - at))
            return false;
        if (end > start && !split_from(split, stage + 1, s + start, end - start))
            return false;
        at = end;
    }
    return true;
}

static bool split_punctuation(const struct split *split, int stage, const char *s, size_t n)
{
    size_t from = 0;
    bool inside = false;
    for (size_t at = 0; at < n;) {
        uint32_t code;
        const int len = utf8_decode(&code, s + at, n - at);
        const bool punctuation = old_unicode_is_punctuation(code);
        if (punctuation != inside && at > from) {
            if (!split_from(split, stage + 1, s + from, at - from))
                return false;
            from = at;
        }
        inside = punctuation;
        at += (size_t)(len > 0 ? len : 1);
    }
    return split_from(split, stage + 1, s + from, n - from);
}

/* Byte-level BPE writes these bytes as digits and as the superscripts and fractions of Latin-1, and Falcon's tokenizer
 * splits numeric characters after that step. */
static bool is_numeric(char c)
{
    const unsigned char b = (unsigned char)c;
    return (b >= '0' && b <= '9') || b == 0xb2 || b == 0xb3 || b == 0xb9 || (b >= 0xbc && b <= 0xbe);
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* A run of numeric bytes: each three digits that follow each other are a piece, and what lies between. */
static bool split_digits(const struct split *split, const char *s, size_t n)
{
    size_t at = 0;
    for (size_t i = 0; i + 3 <= n;) {
        if (!is_digit(s[i]) || !is_digit(s[i + 1]) || !is_digit(s[i + 2])) {
            i++;
            continue;
        }
        if ((i > at && !split->fn(split->ctx, s + at, i - at)) || !split->fn(split->ctx, s + i, 3))
            return false;
        at = i += 3;
    }
    return at == n || split->fn(split->ctx, s + at, n - at);
}

/* May cut inside a character, so it is the last stage. */
static bool split_numeric(const struct split *split, const char *s, size_t n)
{
    for (size_t at = 0; at < n;) {
        const bool numeric = is_numeric(s[at]);
        size_t end = at + 1;
        while (end < n && is_numeric(s[end]) == numeric)
            end++;
        if (!(numeric ? split_digits(split, s + at, end - at) : split->fn(split->ctx, s + at, end - at)))
            return false;
        at = end;
    }
    return true;
}

static bool split_from(const struct split *split, int stage, const char *s, size_t n)
{
    if (stage == split->p->n_stage)
        return split->fn(split->ctx, s, n);
    switch (split->p->rule->stage[stage].kind) {
    case SPLIT_PUNCTUATION:
        return split_punctuation(split, stage, s, n);
    case SPLIT_NUMERIC:
        return split_numeric(split, s, n);
    default:
        return split_by_regex(split, stage, s, n);
    }
}

bool pre_tokenizer_split(const struct pre_tokenizer *p, struct pre_tokenizer_scratch *scratch, const char *s, size_t n,
                         piece_fn *fn, void *ctx)
{
    const struct split split = {p, scratch, fn, ctx};
    return split_from(&split, 0, s, n);
}
