/* grammar_alike.c: nodes that short texts cannot tell apart, such as most of those of a long counted repetition. */
#include "sample/grammar.h"

enum {
    PAIRS_MAX = 256
};

struct node_pair {
    uint32_t a, b, depth;
};

/* Note that a and b must be alike. false: they are not, or there is too much to compare. */
static bool add_pair(const struct grammar *g, struct node_pair *pair, uint32_t *n, struct node_pair p)
{
    if (p.a == p.b)
        return true;
    if (p.a == NODE_NONE || p.b == NODE_NONE || !g->node[p.a].simple || !g->node[p.b].simple)
        return false;
    for (uint32_t i = 0; i < *n; i++)
        if (pair[i].a == p.a && pair[i].b == p.b)
            return true;
    if (*n == PAIRS_MAX)
        return false;
    pair[(*n)++] = p;
    return true;
}

bool grammar_nodes_alike(const struct grammar *g, uint32_t a, uint32_t b, uint32_t length)
{
    struct node_pair pair[PAIRS_MAX];
    uint32_t n = 0;
    if (g->node[a].rule != g->node[b].rule || !add_pair(g, pair, &n, (struct node_pair){a, b, 0}))
        return false;
    for (uint32_t i = 0; i < n; i++) {
        const struct node_pair p = pair[i];
        if (p.depth == length)
            continue;
        for (uint32_t c = 0; c < g->n_class; c++) {
            uint32_t x = g->next[(size_t)p.a * g->n_class + c], y = g->next[(size_t)p.b * g->n_class + c];
            x = x == NODE_NONE ? x : x & ~NODE_NOT_SIMPLE;
            y = y == NODE_NONE ? y : y & ~NODE_NOT_SIMPLE;
            if (!add_pair(g, pair, &n, (struct node_pair){x, y, p.depth + 1}))
                return false;
        }
    }
    return true;
}
