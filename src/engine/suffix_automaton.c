/* suffix_automaton.c: states, edges and a table that finds edges. */
#include "engine/suffix_automaton.h"

#include <stdlib.h>

#include "base/memory.h"

enum {
    NONE = -1,
    ROOT = 0
};

/* The substrings that end at the same places. */
struct state {
    int32_t length; /* of the longest */
    int32_t link;   /* the state of the longest suffix that ends elsewhere, too */
    int32_t edge;   /* the first; NONE */
    int32_t end;    /* the position behind one of the places */
};

struct edge {
    int32_t from, token, to, next; /* next: of the same state */
};

struct suffix_automaton {
    struct state *state; /* at most two for each token, and the root */
    struct edge *edge;   /* at most three */
    int32_t *table;      /* of 1 + edge, by (state, token); 0: free */
    uint32_t mask;
    int n_token, capacity, n_state, n_edge;
    int32_t last;         /* the state of the whole text */
    int match, match_end; /* what the last token ends */
};

static uint32_t hash(int32_t state, int32_t token)
{
    const uint64_t x = ((uint64_t)(uint32_t)state << 32 | (uint32_t)token) * 0x9e3779b97f4a7c15U;
    return (uint32_t)(x >> 32);
}

static uint32_t table_size(int n_token)
{
    uint32_t n = 8;
    while (n < (uint32_t)n_token * 4)
        n *= 2;
    return n;
}

size_t suffix_automaton_bytes(int n_token)
{
    const size_t n = (size_t)n_token;
    return sizeof(struct suffix_automaton) + (n * 2 + 2) * sizeof(struct state) + (n * 3 + 2) * sizeof(struct edge) +
           table_size(n_token) * sizeof(int32_t);
}

struct suffix_automaton *suffix_automaton_create(int n_token)
{
    struct suffix_automaton *a = mem_zero_array(1, sizeof *a);
    if (a == NULL)
        return NULL;
    const uint32_t n_table = table_size(n_token);
    a->capacity = n_token;
    a->mask = n_table - 1;
    a->state = mem_array((size_t)n_token * 2 + 2, sizeof *a->state);
    a->edge = mem_array((size_t)n_token * 3 + 2, sizeof *a->edge);
    a->table = mem_zero_array(n_table, sizeof *a->table);
    if (a->state == NULL || a->edge == NULL || a->table == NULL) {
        suffix_automaton_free(a);
        return NULL;
    }
    a->n_state = 1;
    a->state[ROOT] = (struct state){.link = NONE, .edge = NONE};
    return a;
}

void suffix_automaton_free(struct suffix_automaton *a)
{
    if (a == NULL)
        return;
    free(a->state);
    free(a->edge);
    free(a->table);
    free(a);
}

void suffix_automaton_clear(struct suffix_automaton *a)
{
    for (uint32_t i = 0; i <= a->mask; i++)
        a->table[i] = 0;
    a->n_state = 1;
    a->n_edge = a->n_token = a->match = a->match_end = 0;
    a->last = ROOT;
    a->state[ROOT] = (struct state){.link = NONE, .edge = NONE};
}

int suffix_automaton_n(const struct suffix_automaton *a) { return a->n_token; }

/* The edge's place in the table, or the free one that it would take. */
static int32_t *place(const struct suffix_automaton *a, int32_t state, int32_t token)
{
    uint32_t i = hash(state, token) & a->mask;
    for (; a->table[i] != 0; i = (i + 1) & a->mask) {
        const struct edge *e = &a->edge[a->table[i] - 1];
        if (e->from == state && e->token == token)
            break;
    }
    return &a->table[i];
}

static void add_edge(struct suffix_automaton *a, int32_t from, int32_t token, int32_t to)
{
    a->edge[a->n_edge] = (struct edge){.from = from, .token = token, .to = to, .next = a->state[from].edge};
    a->state[from].edge = a->n_edge++;
    *place(a, from, token) = a->n_edge;
}

static int32_t add_state(struct suffix_automaton *a, int32_t length, int32_t link, int32_t end)
{
    a->state[a->n_state] = (struct state){.length = length, .link = link, .edge = NONE, .end = end};
    return a->n_state++;
}

/* The part of state q that is as long as p and the token, as a state of its own. */
static int32_t split(struct suffix_automaton *a, int32_t p, int32_t token, int32_t q)
{
    const int32_t copy = add_state(a, a->state[p].length + 1, a->state[q].link, a->state[q].end);
    for (int32_t e = a->state[q].edge; e != NONE; e = a->edge[e].next)
        add_edge(a, copy, a->edge[e].token, a->edge[e].to);
    a->state[q].link = copy;
    for (int32_t *at; p != NONE && *(at = place(a, p, token)) != 0 && a->edge[*at - 1].to == q; p = a->state[p].link)
        a->edge[*at - 1].to = copy;
    return copy;
}

bool suffix_automaton_push(struct suffix_automaton *a, int32_t token)
{
    if (a->n_token == a->capacity)
        return false;
    const int32_t end = ++a->n_token, now = add_state(a, a->state[a->last].length + 1, ROOT, end);
    int32_t p = a->last, *at = NULL;
    for (; p != NONE && *(at = place(a, p, token)) == 0; p = a->state[p].link)
        add_edge(a, p, token, now);
    if (p != NONE) {
        const int32_t q = a->edge[*at - 1].to;
        a->state[now].link = a->state[p].length + 1 == a->state[q].length ? q : split(a, p, token, q);
    }
    a->last = now;
    struct state *longest = &a->state[a->state[now].link];
    a->match = longest->length;
    a->match_end = longest->end;
    longest->end = end; /* the next time it is this one */
    return true;
}

int suffix_automaton_match(const struct suffix_automaton *a, int *next)
{
    *next = a->match_end;
    return a->match;
}
