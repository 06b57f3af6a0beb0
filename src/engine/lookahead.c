/* lookahead.c: windows, and the pool of n-grams. */
#include "engine/lookahead.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

enum {
    LEVELS = 4,      /* tokens of an n-gram: of three windows, and the latest choice */
    POOL_SIZE = 512, /* n-grams of an answer; of those that begin alike the latest */
    WINDOW = LOOKAHEAD_WINDOW
};
static const double weight = 1.0 / 32;  /* of the latest step in the average of what drafts bring */
static const double forget = 1.0 / 256; /* windows that did not pay are tried again after some dozens of tokens */
static const double hopeful = 1;        /* drafts a step, before anything is known */
static const double likely = 0.05;      /* the cost of a row before any is known */

struct ngram {
    int32_t first;
    int32_t next[LEVELS - 1];
    int n; /* of next; 0: there is none */
};

/* The tokens guessed in one step, for WINDOW positions from `first` on. */
struct level {
    int first;
    int32_t token[WINDOW];
};

struct lookahead {
    struct level level[LEVELS]; /* the oldest first; the last one is the window at hand */
    int n_level;
    struct ngram pool[POOL_SIZE];
    double gain;
};

static void *start(void *context, const struct draft_view *view)
{
    struct lookahead *l = mem_zero_array(1, sizeof *l);
    (void)context;
    (void)view;
    if (l != NULL)
        l->gain = hopeful;
    return l;
}

static void end(void *context, void *state)
{
    (void)context;
    free(state);
}

static struct ngram *place_of(struct lookahead *l, int32_t token)
{
    return &l->pool[(uint32_t)token * 2654435761U >> 23]; /* the upper 9 bits of Knuth's hash: POOL_SIZE places */
}

_Static_assert(POOL_SIZE == 1 << (32 - 23), "the hash gives a place");

/* One n-gram behind the other, as long as there is one that begins with the last token. */
static int propose(void *context, struct draft_view *view, int32_t *out, int n_max)
{
    struct lookahead *l = view->state;
    int32_t last = view->token[view->n_token - 1];
    int n = 0;
    (void)context;
    if (l == NULL)
        return 0;
    while (n < n_max) {
        const struct ngram *g = place_of(l, last);
        if (g->n == 0 || g->first != last)
            break;
        for (int i = 0; i < g->n && n < n_max; i++)
            out[n++] = g->next[i];
        last = out[n - 1];
    }
    return n;
}

const struct drafter lookahead_drafter = {.propose = propose, .start = start, .end = end};

/* -1: no guess was made for the position. */
static int32_t token_at(const struct level *level, int position)
{
    const int i = position - level->first;
    return i >= 0 && i < WINDOW ? level->token[i] : -1;
}

static struct level *next_level(struct lookahead *l, int first)
{
    if (l->n_level == LEVELS)
        memmove(l->level, l->level + 1, (LEVELS - 1) * sizeof *l->level);
    else
        l->n_level++;
    l->level[l->n_level - 1].first = first;
    return &l->level[l->n_level - 1];
}

/* The last level holds what was chosen in the last step: it is the window now, cut to the positions that are still to come. */
void lookahead_window(struct lookahead *l, const int32_t *token, int n_token, int32_t out[LOOKAHEAD_WINDOW])
{
    for (int i = 0; i < WINDOW; i++) {
        const int32_t guess = l->n_level > 0 ? token_at(&l->level[l->n_level - 1], n_token + i) : -1;
        out[i] = guess >= 0 ? guess : token[(uint32_t)(n_token + i) * 2654435761U % (uint32_t)n_token];
    }
    if (l->n_level == 0)
        l->n_level = 1;
    struct level *window = &l->level[l->n_level - 1];
    window->first = n_token;
    memcpy(window->token, out, sizeof window->token);
}

/* The diagonal that ends with the latest choice for a position. */
static void learn_one(struct lookahead *l, int position)
{
    struct ngram g = {0};
    int32_t diagonal[LEVELS];
    int n = 0;
    while (n < l->n_level) {
        const int32_t token = token_at(&l->level[l->n_level - 1 - n], position - n);
        if (token < 0)
            break;
        diagonal[n++] = token;
    }
    if (n < 2)
        return;
    g.first = diagonal[n - 1];
    for (int i = n - 2; i >= 0; i--)
        g.next[g.n++] = diagonal[i];
    *place_of(l, g.first) = g;
}

void lookahead_learn(struct lookahead *l, const int32_t pick[LOOKAHEAD_WINDOW])
{
    const int first = l->level[l->n_level - 1].first;
    memcpy(next_level(l, first + 1)->token, pick, WINDOW * sizeof *pick);
    for (int i = 0; i < WINDOW; i++)
        learn_one(l, first + 1 + i);
}

bool lookahead_pays(struct lookahead *l, double row_cost)
{
    const double cost = LOOKAHEAD_ROWS * (row_cost > 0 ? row_cost : likely);
    const bool pays = l->gain > cost;
    if (!pays)
        l->gain += (hopeful - l->gain) * forget;
    return pays;
}

void lookahead_observe(struct lookahead *l, int n_accepted) { l->gain += (n_accepted - l->gain) * weight; }
