/* ngram_drafter.c: what followed the last tokens when they stood in the prompt or the answer before (prompt lookup). */
#include <stdlib.h>

#include "base/memory.h"
#include "engine/drafter.h"
#include "engine/suffix_automaton.h"

enum {
    TOKENS_MAX = 1 << 16, /* that are looked up at a time, about 7 MB; of a longer text the latest half of them */
    TOKENS_MIN = 64,      /* fewer are not worth it, where memory is short */
    MATCH_MIN = 2,
    SURE = 4, /* tokens of a match, for each grade */
    SURER = 8
};

struct ngrams {
    struct suffix_automaton *automaton;
    int first;   /* the text's token where it begins */
    int n_token; /* it has room for */
};

static void end(void *context, void *state)
{
    struct lookup_memory *memory = context;
    struct ngrams *g = state;
    memory->bytes -= suffix_automaton_bytes(g->n_token);
    suffix_automaton_free(g->automaton);
    free(g);
}

/* Tokens that there is memory for, at most n; 0: too few. */
static int n_in_memory(const struct lookup_memory *memory, int n)
{
    const size_t left = memory->limit > memory->bytes ? memory->limit - memory->bytes : 0;
    const int least = n < TOKENS_MIN ? n : TOKENS_MIN;
    while (n > 0 && n >= least && suffix_automaton_bytes(n) > left / 2)
        n /= 2;
    return n >= least ? n : 0;
}

static void *start(void *context, const struct draft_view *view)
{
    struct lookup_memory *memory = context;
    const int n_token = n_in_memory(memory, view->n_room < TOKENS_MAX ? view->n_room : TOKENS_MAX);
    struct ngrams *g = n_token > 0 ? mem_zero_array(1, sizeof *g) : NULL;
    if (g == NULL)
        return NULL;
    g->n_token = n_token;
    g->automaton = suffix_automaton_create(g->n_token);
    if (g->automaton == NULL) {
        free(g);
        return NULL;
    }
    memory->bytes += suffix_automaton_bytes(n_token);
    return g;
}

static void catch_up(struct ngrams *g, const struct draft_view *view)
{
    if (view->n_token - g->first > g->n_token) {
        g->first = view->n_token - g->n_token / 2;
        suffix_automaton_clear(g->automaton);
    }
    for (int at = g->first + suffix_automaton_n(g->automaton); at < view->n_token; at++)
        suffix_automaton_push(g->automaton, view->token[at]);
}

/* A continuation that reaches the end goes on with itself: what repeats is likely to go on repeating. */
static int propose(void *context, struct draft_view *view, int32_t *out, int n_max)
{
    struct ngrams *g = view->state;
    int next;
    (void)context;
    if (g == NULL)
        return 0;
    catch_up(g, view);
    const int n_match = suffix_automaton_match(g->automaton, &next);
    if (n_match < MATCH_MIN)
        return 0;
    view->grade = n_match >= SURER ? 2 : n_match >= SURE ? 1 : 0;
    for (int i = 0, at = g->first + next; i < n_max; i++, at++)
        out[i] = at < view->n_token ? view->token[at] : out[at - view->n_token];
    return n_max;
}

struct drafter ngram_drafter(struct lookup_memory *memory)
{
    return (struct drafter){.propose = propose, .start = start, .end = end, .context = memory};
}
