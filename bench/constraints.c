/* constraints.c: what constraints cost: compiling, and one mask a token.
 * Usage: bench_constraints MODEL.gguf...   Prints a table for each vocabulary. "first" times are those of a fresh mask cache
 * that was warmed as the engine does, "again" those of the same text a second time. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/memory.h"
#include "format/gguf.h"
#include "sample/constraint.h"
#include "text/tokenizer.h"

enum {
    STEPS_MAX = 4096
};

struct bench_case {
    const char *name;
    enum constraint_kind kind;
    const char *source, *text;
};

#define PERSON                                                                                                                 \
    "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\"},\"age\":{\"type\":\"integer\",\"minimum\":0,"         \
    "\"maximum\":150},\"email\":{\"type\":\"string\",\"format\":\"email\"},\"tags\":{\"type\":\"array\",\"items\":{"           \
    "\"type\":\"string\"},\"maxItems\":10},\"role\":{\"enum\":[\"admin\",\"user\",\"guest\"]},\"score\":{\"type\":\"number\"," \
    "\"minimum\":0,\"maximum\":1},\"address\":{\"type\":\"object\",\"properties\":{\"street\":{\"type\":\"string\"},\"zip\":{" \
    "\"type\":\"string\",\"pattern\":\"^[0-9]{5}$\"}},\"required\":[\"street\",\"zip\"],\"additionalProperties\":false}},"     \
    "\"required\":[\"name\",\"age\",\"email\",\"tags\",\"role\",\"score\",\"address\"],\"additionalProperties\":false}"
#define PERSON_TEXT                                                                                                               \
    "{\"name\": \"Jane Maria Doe, née Müller\", \"age\": 42, \"email\": \"jane.doe@example.org\", \"tags\": [\"first tag\", "   \
    "\"日本語\", \"a longer tag with several words in it\"], \"role\": \"user\", \"score\": 0.875, \"address\": {\"street\": " \
    "\"12 Long Street, Flat 3\", \"zip\": \"01234\"}}"

static const struct bench_case cases[] = {
    {"json_object", CONSTRAINT_JSON_OBJECT, "",
     "{\n  \"title\": \"A report about rivers\",\n  \"pages\": [1, 2, 3.5e3, null],\n  \"nested\": {\"deep\": [[\"x\"], "
     "{}]}\n}"},
    {"person", CONSTRAINT_JSON_SCHEMA, PERSON, PERSON_TEXT},
    {"list of persons", CONSTRAINT_JSON_SCHEMA, "{\"type\":\"array\",\"items\":" PERSON "}",
     "[" PERSON_TEXT ", " PERSON_TEXT "]"},
    {"string of 20 to 200", CONSTRAINT_JSON_SCHEMA, "{\"type\":\"string\",\"minLength\":20,\"maxLength\":250}",
     "\"A sentence of ordinary length, which says nothing but that it is here, and that it goes on for a while, until at last "
     "it comes to an end, or nearly so, because two hundred and fifty characters are not that many.\""},
    {"pattern", CONSTRAINT_JSON_SCHEMA, "{\"type\":\"string\",\"pattern\":\"^[A-Z][a-z]+( [A-Za-z]+)*$\"}",
     "\"The quick brown fox jumps over the lazy dog again and again\""},
    {"tree", CONSTRAINT_JSON_SCHEMA,
     "{\"$defs\":{\"t\":{\"type\":\"object\",\"properties\":{\"v\":{\"type\":\"integer\"},\"c\":{\"type\":\"array\",\"items\":{"
     "\"$ref\":\"#/$defs/t\"}}},\"required\":[\"v\",\"c\"],\"additionalProperties\":false}},\"$ref\":\"#/$defs/t\"}",
     "{\"v\":1,\"c\":[{\"v\":23,\"c\":[]},{\"v\":-456,\"c\":[{\"v\":7,\"c\":[{\"v\":8,\"c\":[]}]}]}]}"},
    {"regex", CONSTRAINT_REGEX, "(yes|no|maybe), because [a-z ,]{10,80}\\.",
     "maybe, because it has been raining all day, as it does here."},
    {"JSON as GBNF", CONSTRAINT_GRAMMAR,
     "root ::= object\nvalue ::= object | array | string | number | (\"true\" | \"false\" | \"null\") ws\n"
     "object ::= \"{\" ws (string \":\" ws value (\",\" ws string \":\" ws value)*)? \"}\" ws\n"
     "array ::= \"[\" ws (value (\",\" ws value)*)? \"]\" ws\n"
     "string ::= \"\\\"\" ([^\"\\\\\\x7F\\x00-\\x1F] | \"\\\\\" ([\"\\\\bfnrt] | \"u\" [0-9a-fA-F]{4}))* \"\\\"\" ws\n"
     "number ::= (\"-\"? ([0-9] | [1-9] [0-9]{0,15})) (\".\" [0-9]+)? ([eE] [-+]? [0-9] [1-9]{0,15})? ws\n"
     "ws ::= | \" \" | \"\\n\" [ \\t]{0,20}\n",
     "{\"title\": \"A report about rivers\", \"pages\": [1, 2, 3.5e3, null], \"nested\": {\"deep\": [[\"x\"], {}]}}"},
};

/* Times of masks, in microseconds. */
struct times {
    double us[STEPS_MAX];
    size_t n;
};

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double quantile(struct times *t, double q)
{
    qsort(t->us, t->n, sizeof *t->us, compare_doubles);
    return t->n > 0 ? t->us[(size_t)(q * (double)(t->n - 1))] : 0;
}

static void add_time(struct times *t, double us)
{
    if (t->n < STEPS_MAX)
        t->us[t->n++] = us;
}

static void stop(const char *what, const struct mr_error *err)
{
    fprintf(stderr, "%s: %s\n", what, err->message);
    exit(1);
}

/* Take the masks before each token of the text. */
static void run_text(struct mask_cache *m, const struct token_trie *trie, const struct bench_case *c, struct times *all,
                     struct times *own)
{
    struct constraint_state *s;
    struct mr_error err;
    const char *text = c->text;
    size_t left = strlen(text), length;
    if (constraint_state_create(&s, m, &err) != MR_OK)
        stop(c->name, &err);
    for (bool more = true; more; text += length, left -= length) {
        const uint64_t *mask;
        const int64_t begin = now_ns();
        if (constraint_mask(&mask, s, &err) != MR_OK)
            stop(c->name, &err);
        const double us = (double)(now_ns() - begin) / 1e3;
        add_time(all, us);
        add_time(own, us);
        more = left > 0;
        const int32_t token = token_trie_longest(trie, text, left, &length);
        if (more && (!mask_has(mask, token) || constraint_accept(s, token, &err) != MR_OK)) {
            snprintf(err.message, sizeof err.message, "the text is not allowed from '%.20s' on", text);
            stop(c->name, &err);
        }
    }
    if (!constraint_can_end(s))
        fprintf(stderr, "%s: the text is not complete\n", c->name);
    constraint_state_free(s);
}

static void run_case(const struct token_trie *trie, const struct bench_case *c, struct times *first, struct times *again)
{
    const struct constraint_source source = {.kind = c->kind, .text = {c->source, strlen(c->source)}};
    struct times own = {.n = 0}, own_again = {.n = 0};
    struct constraint *constraint;
    struct mask_cache *m;
    struct mr_error err;
    const int64_t begin = now_ns();
    if (constraint_create(&constraint, &source, &err) != MR_OK)
        stop(c->name, &err);
    const int64_t compiled = now_ns();
    if (mask_cache_create(&m, constraint, trie, &err) != MR_OK || mask_cache_warm(m, MASK_CACHE_WARM_WORK, &err) != MR_OK)
        stop(c->name, &err);
    const int64_t warm = now_ns();
    run_text(m, trie, c, first, &own);
    run_text(m, trie, c, again, &own_again);
    printf("  %-20s %8.2f %8.2f %8.1f %6zu %8.1f %8.1f %8.1f %8.1f\n", c->name, (double)(compiled - begin) / 1e6,
           (double)(warm - compiled) / 1e6, (double)mask_cache_bytes(m) / 1e3, own.n, quantile(&own, 0.5), quantile(&own, 1),
           quantile(&own_again, 0.5), quantile(&own_again, 1));
    mask_cache_free(m);
    constraint_free(constraint);
}

static struct token_trie *load_trie(const char *path)
{
    struct mr_error err;
    struct gguf *g;
    struct tokenizer *t;
    struct token_trie *trie;
    if (gguf_open(&g, path, &err) != MR_OK || tokenizer_create(&t, g, &err) != MR_OK)
        stop(path, &err);
    const int n = tokenizer_n_vocab(t);
    struct token_piece *piece = mem_array((size_t)n, sizeof *piece);
    for (int i = 0; piece != NULL && i < n; i++) {
        const struct gguf_string s = tokenizer_piece(t, i, false);
        piece[i] = (struct token_piece){s.s, s.n, tokenizer_is_control(t, i), tokenizer_is_end(t, i)};
    }
    const int64_t begin = now_ns();
    if (piece == NULL || token_trie_create(&trie, piece, n, &err) != MR_OK)
        stop(path, &err);
    printf("%s: %d tokens, trie of %u nodes in %.0f ms\n", path, n, (unsigned)trie->n_node, (double)(now_ns() - begin) / 1e6);
    free(piece);
    tokenizer_free(t);
    gguf_close(g);
    return trie;
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        struct times first = {.n = 0}, again = {.n = 0};
        struct token_trie *trie = load_trie(argv[i]);
        printf("  %-20s %8s %8s %8s %6s %8s %8s %8s %8s\n", "", "compile", "warm", "kept", "tokens", "first", "first", "again",
               "again");
        printf("  %-20s %8s %8s %8s %6s %8s %8s %8s %8s\n", "case", "ms", "ms", "kB", "", "p50 us", "max us", "p50 us",
               "max us");
        for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
            run_case(trie, &cases[c], &first, &again);
        printf("  all masks, first time: p50 %.1f us, p99 %.1f us; again: p50 %.1f us, p99 %.1f us\n", quantile(&first, 0.5),
               quantile(&first, 0.99), quantile(&again, 0.5), quantile(&again, 0.99));
        token_trie_free(trie);
    }
    return 0;
}
