/* mask_cache.c: masks of nodes, and from them the mask of a place.
 * A token can be judged by the node alone as long as it stays within the node's rule (Dong et al. 2024, arXiv:2411.15100,
 * call these tokens context-independent): that part is found once per node. For tokens that run past the end of the rule
 * only their rests are kept, as a small trie, which is walked with the real stack. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "sample/mask_cache_internal.h"

enum mr_status mask_cache_create(struct mask_cache **out, const struct constraint *c, const struct token_trie *trie,
                                 struct mr_error *err)
{
    struct mask_cache *m = *out = mem_zero_array(1, sizeof *m);
    if (m == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for masks");
    m->constraint = c;
    m->trie = trie;
    m->n_slot = 256;
    m->slot = mem_zero_array(m->n_slot, sizeof *m->slot);
    stacks_init(&m->inner, c->grammar);
    stacks_init(&m->outer, c->grammar);
    stacks_init(&m->states, c->grammar);
    m->level = mem_array((size_t)trie->max_depth + 2, sizeof *m->level);
    m->state = mem_array((size_t)trie->max_depth + 2, sizeof *m->state);
    m->scratch = mem_array(trie->n_word, sizeof *m->scratch);
    if (m->slot == NULL || m->level == NULL || m->state == NULL || m->scratch == NULL || m->inner.status != MR_OK ||
        m->outer.status != MR_OK || m->states.status != MR_OK) {
        mask_cache_free(m);
        *out = NULL;
        return mr_fail(err, MR_NO_MEMORY, "no memory for masks of %d tokens", (int)trie->n_token);
    }
    return MR_OK;
}

void mask_cache_free(struct mask_cache *m)
{
    if (m == NULL)
        return;
    if (m->slot != NULL)
        node_masks_drop(m);
    for (int i = 0; i < RECENT_MAX; i++) {
        position_release(&m->recent[i].position);
        free(m->recent[i].mask);
    }
    stacks_release(&m->inner);
    stacks_release(&m->outer);
    stacks_release(&m->states);
    free(m->slot);
    free(m->level);
    free(m->state);
    free(m->scratch);
    free(m);
}

size_t mask_cache_bytes(const struct mask_cache *m)
{
    size_t bytes = m->bytes;
    for (int i = 0; i < RECENT_MAX; i++)
        bytes += m->recent[i].mask != NULL ? m->trie->n_word * sizeof(uint64_t) : 0;
    return bytes;
}

const struct constraint *mask_cache_constraint(const struct mask_cache *m) { return m->constraint; }
const struct token_trie *mask_cache_trie(const struct mask_cache *m) { return m->trie; }
struct stacks *mask_cache_stacks(struct mask_cache *m) { return &m->states; }

/* Add what can be read from the place with its real stack, out of the whole trie. */
static enum mr_status walk_direct(struct mask_cache *m, const struct position *p, struct stack_top top, uint64_t *mask)
{
    struct mask_walk w = mask_cache_walk(m, &m->outer, mask);
    if (!mask_cache_stand(&m->outer, p->n_frame, top))
        return MR_NO_MEMORY;
    mask_walk_run(&w);
    return m->outer.status;
}

/* The same, out of the rests that e left. */
static enum mr_status walk_endings(struct mask_cache *m, const struct position *p, struct stack_top top,
                                   const struct node_mask *e, uint64_t *mask)
{
    struct mask_walk w = mask_cache_walk(m, &m->outer, mask);
    for (size_t i = 0; i < e->n_branch; i++) {
        if (!mask_cache_stand(&m->outer, p->n_frame, top))
            return MR_NO_MEMORY;
        mask_walk_branch(&w, e->branch[i]);
    }
    if (e->n_ending == 0)
        return m->outer.status;
    w.node = e->ending;
    w.n_node = e->n_ending;
    if (!mask_cache_stand(&m->outer, p->n_frame, top))
        return MR_NO_MEMORY;
    mask_walk_run(&w);
    return m->outer.status;
}

static void add_node_mask(const struct node_mask *e, uint64_t *mask, size_t n_word)
{
    for (size_t i = 0; i < e->n_token; i++)
        mask_add(mask, e->token[i]);
    for (size_t w = 0; e->bits != NULL && w < n_word; w++)
        mask[w] |= e->bits[w];
}

static enum mr_status add_place(struct mask_cache *m, const struct position *p, struct stack_top top, uint64_t *mask)
{
    const struct grammar *g = m->constraint->grammar;
    size_t work = 0;
    for (;;) {
        const struct node_mask *e;
        MR_TRY(node_mask_find(&e, m, top.node, top.count, &work));
        if (e->direct || e->reach + p->frame[top.parent].depth > GRAMMAR_STACK_MAX)
            return walk_direct(m, p, top, mask);
        add_node_mask(e, mask, m->trie->n_word);
        if (top.parent == 0)
            return MR_OK;
        const bool final = top_is_final(&g->node[top.node], top.count);
        const struct stack_frame below = p->frame[top.parent];
        top = (struct stack_top){below.node, below.count, below.parent};
        if (e->n_ending > 0 || e->n_branch > 0)
            MR_TRY(walk_endings(m, p, top, e, mask));
        if (!final)
            return MR_OK;
    }
}

static enum mr_status fill_mask(struct mask_cache *m, const struct position *p, uint64_t *mask)
{
    const size_t n_word = m->trie->n_word;
    memset(mask, 0, n_word * sizeof *mask);
    bool can_end = p->ended;
    if (!stacks_from_position(&m->outer, p))
        return MR_NO_MEMORY;
    for (size_t i = 0; i < p->n_top && !p->ended; i++) {
        can_end |= stacks_can_end(&m->outer, p->top[i]);
        MR_TRY(add_place(m, p, p->top[i], mask));
    }
    for (size_t w = 0; can_end && w < n_word; w++)
        mask[w] |= m->trie->end[w];
    return MR_OK;
}

static struct recent_mask *find_recent(struct mask_cache *m, const struct position *p, bool *found)
{
    struct recent_mask *oldest = &m->recent[0];
    for (int i = 0; i < RECENT_MAX; i++) {
        struct recent_mask *r = &m->recent[i];
        if (r->used > 0 && position_equal(&r->position, p)) {
            *found = true;
            return r;
        }
        oldest = r->used < oldest->used ? r : oldest;
    }
    *found = false;
    return oldest;
}

static enum mr_status check_mask(const struct mask_cache *m, const uint64_t *mask, struct mr_error *err)
{
    uint64_t any = 0;
    for (size_t w = 0; w < m->trie->n_word; w++)
        any |= mask[w];
    if (any == 0)
        return mr_fail(err, MR_NO_SUPPORT, "no token of the vocabulary can continue the constrained text");
    return MR_OK;
}

enum mr_status mask_cache_find(const uint64_t **mask, struct mask_cache *m, const struct position *p, struct mr_error *err)
{
    bool found;
    struct recent_mask *r = find_recent(m, p, &found);
    *mask = NULL;
    if (!found) {
        r->used = 0;
        if (r->mask == NULL && (r->mask = mem_array(m->trie->n_word, sizeof *r->mask)) == NULL)
            return mr_fail(err, MR_NO_MEMORY, "no memory for a mask");
        enum mr_status status = fill_mask(m, p, r->mask);
        if (status == MR_OK && !position_copy(&r->position, p))
            status = MR_NO_MEMORY;
        if (status == MR_FULL)
            return mr_fail(err, MR_FULL, "the grammar is too ambiguous here: more than %d readings", STACK_TOPS_MAX);
        if (status != MR_OK)
            return mr_fail(err, status, "no memory for a mask");
        MR_TRY(check_mask(m, r->mask, err));
    }
    r->used = ++m->time;
    *mask = r->mask;
    return MR_OK;
}

enum mr_status mask_cache_warm(struct mask_cache *m, size_t work, struct mr_error *err)
{
    const struct grammar *g = m->constraint->grammar;
    size_t done = 0;
    for (uint32_t i = 0; i < g->n_node && done < work && m->bytes < CACHE_BYTES_MAX / 2; i++) {
        const struct node_mask *e;
        const uint32_t count = g->node[i].counted ? g->node[i].min : 0;
        const bool only_passed = i == g->rule[g->node[i].rule].start && g->node[i].rule != g->root && !g->node[i].counted;
        if (only_passed) /* as a rule begins, its first byte has been read */
            continue;
        if (node_mask_find(&e, m, i, count, &done) != MR_OK)
            return mr_fail(err, MR_NO_MEMORY, "no memory for masks");
    }
    return MR_OK;
}
