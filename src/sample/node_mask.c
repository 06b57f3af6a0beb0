/* node_mask.c: what a node allows by itself. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "sample/mask_cache_internal.h"

enum {
    COSTLY_WORK = 4096, /* trie nodes */
    SPARSE_MAX = 1024   /* tokens that are kept as a list rather than as bits */
};

static void node_mask_free(struct node_mask *e)
{
    if (e != NULL && !e->borrowed) {
        free(e->bits);
        free(e->token);
        free(e->ending);
        free(e->branch);
    }
    free(e);
}

void node_masks_drop(struct mask_cache *m)
{
    for (size_t i = 0; i < m->n_slot; i++) {
        node_mask_free(m->slot[i]);
        m->slot[i] = NULL;
    }
    m->n_node_mask = m->n_costly = 0;
    m->bytes = 0;
}

/* Counts that no token can tell apart: those as far from min and from max as a token has bytes. */
static void count_class(const struct mask_cache *m, uint32_t node, uint32_t count, uint32_t *low, uint32_t *high)
{
    const struct grammar_node *n = &m->constraint->grammar->node[node];
    const uint32_t far = m->trie->max_depth + 1;
    *low = *high = 0;
    if (!n->counted)
        return;
    const uint32_t to_min = count < n->min ? n->min - count : 0, to_max = count < n->max ? n->max - count : 0;
    *low = to_min < far ? to_min : far;
    *high = to_max < far ? to_max : far;
}

static size_t find_slot(const struct mask_cache *m, uint32_t node, uint32_t low, uint32_t high)
{
    uint64_t h = ((uint64_t)node << 32 ^ (uint64_t)low << 16 ^ high) * 0x9e3779b97f4a7c15u;
    size_t i = (size_t)(h >> 32) & (m->n_slot - 1);
    while (m->slot[i] != NULL && (m->slot[i]->node != node || m->slot[i]->low != low || m->slot[i]->high != high))
        i = (i + 1) & (m->n_slot - 1);
    return i;
}

static bool grow_slots(struct mask_cache *m)
{
    struct node_mask **old = m->slot;
    const size_t n_old = m->n_slot;
    struct node_mask **slot = mem_zero_array(n_old * 2, sizeof(struct node_mask *));
    if (slot == NULL)
        return false;
    m->slot = slot;
    m->n_slot = n_old * 2;
    for (size_t i = 0; i < n_old; i++)
        if (old[i] != NULL)
            m->slot[find_slot(m, old[i]->node, old[i]->low, old[i]->high)] = old[i];
    free(old);
    return true;
}

/* Ordinary text is allowed at the node: take it without a walk, as far as a count has room. */
static void take_text(const struct mask_cache *m, uint32_t node, uint32_t count, uint64_t *mask)
{
    const struct grammar_node *n = &m->constraint->grammar->node[node];
    const struct token_trie *t = m->trie;
    const uint32_t room = n->max == UINT32_MAX ? UINT32_MAX : n->max - count, row = room < t->n_text ? room : t->n_text;
    if (row > 0)
        memcpy(mask, t->text + (row - 1) * t->n_word, t->n_word * sizeof *mask);
}

static int popcount(uint64_t x)
{
    int n = 0;
    for (; x != 0; x &= x - 1)
        n++;
    return n;
}

/* Keep the tokens of the scratch mask in the form that takes less. */
static bool keep_tokens(struct mask_cache *m, struct node_mask *e)
{
    const size_t n_word = m->trie->n_word;
    size_t n = 0;
    for (size_t w = 0; w < n_word && n <= SPARSE_MAX; w++)
        n += (size_t)popcount(m->scratch[w]);
    if (n > SPARSE_MAX) {
        e->bits = mem_array(n_word, sizeof *e->bits);
        if (e->bits != NULL)
            memcpy(e->bits, m->scratch, n_word * sizeof *e->bits);
        m->bytes += n_word * sizeof *e->bits;
        return e->bits != NULL;
    }
    e->token = mem_array(n, sizeof *e->token);
    for (size_t w = 0; e->token != NULL && w < n_word; w++)
        for (uint64_t word = m->scratch[w], bit = 0; word != 0; word >>= 1, bit++)
            if (word & 1)
                e->token[e->n_token++] = (int32_t)(w * 64 + bit);
    m->bytes += n * sizeof *e->token + sizeof *e;
    return e->token != NULL;
}

struct mask_walk mask_cache_walk(struct mask_cache *m, struct stacks *s, uint64_t *mask)
{
    return (struct mask_walk){.stacks = s,
                              .trie = m->trie,
                              .node = m->trie->node,
                              .n_node = m->trie->n_node,
                              .mask = mask,
                              .level = m->level,
                              .state = m->state};
}

bool mask_cache_stand(struct stacks *s, size_t n_frame, struct stack_top top)
{
    s->n_frame = n_frame;
    s->n_top = 0;
    s->reach = 0;
    s->status = MR_OK;
    stacks_mark(s);
    if (!mem_grow(&s->top, &s->top_capacity, 64, sizeof *s->top))
        return false;
    s->top[s->n_top++] = top;
    return true;
}

/* Walk over the trie from the node alone, into e. */
static enum mr_status fill_node_mask(struct mask_cache *m, struct node_mask *e, uint32_t count, size_t *work)
{
    const struct grammar *g = m->constraint->grammar;
    const struct grammar_node *n = &g->node[e->node];
    const struct byte_set *follow = &g->rule[n->rule].follow;
    struct endings endings = {.follow = follow};
    struct mask_walk w = mask_cache_walk(m, &m->inner, m->scratch);
    if ((follow->word[0] | follow->word[1] | follow->word[2] | follow->word[3]) != 0)
        w.endings = &endings;
    w.skip_text = n->text;
    memset(m->scratch, 0, m->trie->n_word * sizeof *m->scratch);
    if (n->text)
        take_text(m, e->node, count, m->scratch);
    bool ok = mask_cache_stand(&m->inner, 1, (struct stack_top){e->node, count, 0});
    if (ok)
        mask_walk_run(&w);
    e->direct = endings.too_many || m->inner.status == MR_FULL;
    e->reach = m->inner.reach;
    e->deepest = w.deepest;
    ok = ok && !endings.no_memory && m->inner.status != MR_NO_MEMORY;
    if (ok && !e->direct)
        ok = keep_tokens(m, e) && (endings.n_entry == 0 ||
                                   token_nodes(&e->ending, &e->n_ending, endings.entry, endings.n_entry, m->trie->next_token));
    m->bytes += e->n_ending * sizeof *e->ending + endings.n_branch * sizeof *e->branch;
    *work += w.work;
    free(endings.entry);
    e->branch = endings.branch;
    e->n_branch = endings.n_branch;
    return ok ? MR_OK : MR_NO_MEMORY;
}

/* A mask that was costly to find and is the node's, too; NULL: none. */
static const struct node_mask *find_alike(const struct mask_cache *m, uint32_t node)
{
    const struct grammar *g = m->constraint->grammar;
    for (size_t i = 0; i < COSTLY_MAX && i < m->n_costly; i++)
        if (g->node[node].simple && !g->node[node].text &&
            grammar_nodes_alike(g, m->costly[i]->node, node, m->costly[i]->deepest + 1))
            return m->costly[i];
    return NULL;
}

static enum mr_status make_node_mask(struct mask_cache *m, struct node_mask *e, uint32_t node, uint32_t count, size_t *work)
{
    const struct node_mask *like = find_alike(m, node);
    const size_t before = *work;
    if (like != NULL) {
        *e = *like;
        e->node = node;
        e->borrowed = true;
        return MR_OK;
    }
    e->node = node;
    MR_TRY(fill_node_mask(m, e, count, work));
    const struct grammar_node *n = &m->constraint->grammar->node[node];
    if (*work - before >= COSTLY_WORK && n->simple && !n->text)
        m->costly[m->n_costly++ % COSTLY_MAX] = e;
    return MR_OK;
}

enum mr_status node_mask_find(const struct node_mask **out, struct mask_cache *m, uint32_t node, uint32_t count, size_t *work)
{
    uint32_t low, high;
    count_class(m, node, count, &low, &high);
    size_t at = find_slot(m, node, low, high);
    if (m->slot[at] == NULL) {
        if (m->bytes > CACHE_BYTES_MAX)
            node_masks_drop(m);
        if (2 * m->n_node_mask >= m->n_slot && !grow_slots(m))
            return MR_NO_MEMORY;
        struct node_mask *e = mem_zero_array(1, sizeof *e);
        if (e == NULL)
            return MR_NO_MEMORY;
        if (make_node_mask(m, e, node, count, work) != MR_OK) {
            node_mask_free(e);
            return MR_NO_MEMORY;
        }
        e->low = low;
        e->high = high;
        at = find_slot(m, node, low, high);
        m->slot[at] = e;
        m->n_node_mask++;
    }
    *out = m->slot[at];
    return MR_OK;
}
