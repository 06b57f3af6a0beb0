/* mask_cache.c: masks of nodes, and from them the mask of a place.
 * A token can be judged by the node alone as long as it stays within the node's rule (Dong et al. 2024, arXiv:2411.15100,
 * call these tokens context-independent): that part is found once per node. For tokens that run past the end of the rule
 * only their rests are kept, as a small trie, which is walked with the real stack. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "sample/constraint_internal.h"

enum {
    COSTLY_MAX = 4,             /* node masks tried for likeness */
    COSTLY_WORK = 4096,         /* trie nodes */
    SPARSE_MAX = 1024,          /* tokens that are kept as a list rather than as bits */
    RECENT_MAX = 16,            /* whole masks kept */
    CACHE_BYTES_MAX = 128 << 20 /* of node masks; past it all are dropped */
};

/* What a node allows by itself. */
struct node_mask {
    uint32_t node, low, high; /* key: see count_class */
    uint64_t *bits;           /* NULL: the tokens are listed */
    int32_t *token;
    size_t n_token;
    struct token_node *ending; /* rests of tokens that leave the rule */
    uint32_t n_ending;
    uint32_t *branch; /* the same where many begin alike: nodes of the vocabulary's trie */
    size_t n_branch;
    uint32_t reach;   /* frames that the walk needed, the node's own included */
    uint32_t deepest; /* bytes of tokens that could be read at most */
    bool borrowed;    /* the arrays belong to another node's mask */
    bool direct;      /* too many rests: walk over the whole trie instead */
};

struct recent_mask {
    struct position position;
    uint64_t *mask;
    uint64_t used; /* time of last use; 0: free */
};

struct mask_cache {
    const struct constraint *constraint;
    const struct token_trie *trie;
    struct node_mask **slot; /* hash table */
    size_t n_slot, n_node_mask;
    size_t bytes;
    const struct node_mask *costly[COSTLY_MAX]; /* the last that took long to find: others may be like them */
    uint64_t n_costly;
    struct stacks inner;      /* scratch: within a rule */
    struct stacks outer;      /* scratch: with the real stack */
    struct stacks states;     /* scratch of constraint_state.c */
    struct walk_level *level; /* [longest token + 2], for walks */
    uint32_t *state;          /* the same */
    uint64_t *scratch;        /* [n_word] */
    struct recent_mask recent[RECENT_MAX];
    uint64_t time;
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

static void drop_node_masks(struct mask_cache *m)
{
    for (size_t i = 0; i < m->n_slot; i++) {
        node_mask_free(m->slot[i]);
        m->slot[i] = NULL;
    }
    m->n_node_mask = m->n_costly = 0;
    m->bytes = 0;
}

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
        drop_node_masks(m);
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

static struct mask_walk walk_of(struct mask_cache *m, struct stacks *s, uint64_t *mask)
{
    return (struct mask_walk){.stacks = s,
                              .trie = m->trie,
                              .node = m->trie->node,
                              .n_node = m->trie->n_node,
                              .mask = mask,
                              .level = m->level,
                              .state = m->state};
}

/* Put `s` at one place above its first n_frame frames. */
static bool stand_at(struct stacks *s, size_t n_frame, struct stack_top top)
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
    struct mask_walk w = walk_of(m, &m->inner, m->scratch);
    if ((follow->word[0] | follow->word[1] | follow->word[2] | follow->word[3]) != 0)
        w.endings = &endings;
    w.skip_text = n->text;
    memset(m->scratch, 0, m->trie->n_word * sizeof *m->scratch);
    if (n->text)
        take_text(m, e->node, count, m->scratch);
    bool ok = stand_at(&m->inner, 1, (struct stack_top){e->node, count, 0});
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

/* The mask of the node, found now if it is not there; valid until the next call. */
static enum mr_status find_node_mask(const struct node_mask **out, struct mask_cache *m, uint32_t node, uint32_t count,
                                     size_t *work)
{
    uint32_t low, high;
    count_class(m, node, count, &low, &high);
    size_t at = find_slot(m, node, low, high);
    if (m->slot[at] == NULL) {
        if (m->bytes > CACHE_BYTES_MAX)
            drop_node_masks(m);
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

/* Add what can be read from the place with its real stack, out of the whole trie. */
static enum mr_status walk_direct(struct mask_cache *m, const struct position *p, struct stack_top top, uint64_t *mask)
{
    struct mask_walk w = walk_of(m, &m->outer, mask);
    if (!stand_at(&m->outer, p->n_frame, top))
        return MR_NO_MEMORY;
    mask_walk_run(&w);
    return m->outer.status;
}

/* The same, out of the rests that e left. */
static enum mr_status walk_endings(struct mask_cache *m, const struct position *p, struct stack_top top,
                                   const struct node_mask *e, uint64_t *mask)
{
    struct mask_walk w = walk_of(m, &m->outer, mask);
    for (size_t i = 0; i < e->n_branch; i++) {
        if (!stand_at(&m->outer, p->n_frame, top))
            return MR_NO_MEMORY;
        mask_walk_branch(&w, e->branch[i]);
    }
    if (e->n_ending == 0)
        return m->outer.status;
    w.node = e->ending;
    w.n_node = e->n_ending;
    if (!stand_at(&m->outer, p->n_frame, top))
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
        MR_TRY(find_node_mask(&e, m, top.node, top.count, &work));
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
        if (find_node_mask(&e, m, i, count, &done) != MR_OK)
            return mr_fail(err, MR_NO_MEMORY, "no memory for masks");
    }
    return MR_OK;
}
