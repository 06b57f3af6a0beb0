/* constraint_state.c: where one answer is, forwards and back. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "sample/constraint_internal.h"

enum {
    READ_AT_ONCE = 256,            /* bytes before the frames that are no longer needed are dropped */
    RING = CONSTRAINT_UNDO_MAX + 2 /* with the present position, and the next while it is not certain */
};

struct constraint_state {
    struct mask_cache *cache;
    struct position ring[RING];
    int now;    /* in ring */
    int n_undo; /* positions before it that are still there */
};

void position_release(struct position *p)
{
    free(p->frame);
    free(p->top);
    free(p->renumber);
    *p = (struct position){0};
}

static bool position_reserve(struct position *p, size_t n_frame, size_t n_top)
{
    return mem_grow(&p->frame, &p->frame_capacity, n_frame, sizeof *p->frame) &&
           mem_grow(&p->top, &p->top_capacity, n_top, sizeof *p->top);
}

bool position_copy(struct position *to, const struct position *from)
{
    if (!position_reserve(to, from->n_frame, from->n_top))
        return false;
    memcpy(to->frame, from->frame, from->n_frame * sizeof *from->frame);
    memcpy(to->top, from->top, from->n_top * sizeof *from->top);
    to->n_frame = from->n_frame;
    to->n_top = from->n_top;
    to->ended = from->ended;
    return true;
}

bool position_equal(const struct position *a, const struct position *b)
{
    return a->n_top == b->n_top && a->n_frame == b->n_frame && a->ended == b->ended &&
           memcmp(a->top, b->top, a->n_top * sizeof *a->top) == 0 &&
           memcmp(a->frame, b->frame, a->n_frame * sizeof *a->frame) == 0;
}

bool position_from_stacks(struct position *to, const struct stacks *s)
{
    if (!position_reserve(to, s->n_frame, s->n_top) ||
        !mem_grow(&to->renumber, &to->renumber_capacity, s->n_frame, sizeof *to->renumber))
        return false;
    memset(to->renumber, 0, s->n_frame * sizeof *to->renumber);
    for (size_t i = 0; i < s->n_top; i++)
        for (uint32_t f = s->top[i].parent; f != 0 && to->renumber[f] == 0; f = s->frame[f].parent)
            to->renumber[f] = 1;
    uint32_t n = 0;
    to->frame[n++] = s->frame[0];
    for (size_t f = 1; f < s->n_frame; f++) {
        if (to->renumber[f] == 0)
            continue;
        to->frame[n] = s->frame[f];
        to->frame[n].parent = to->renumber[s->frame[f].parent];
        to->renumber[f] = n++;
    }
    to->n_frame = n;
    to->n_top = s->n_top;
    to->ended = false;
    for (size_t i = 0; i < s->n_top; i++) {
        to->top[i] = s->top[i];
        to->top[i].parent = to->renumber[to->top[i].parent];
    }
    return true;
}

bool stacks_from_position(struct stacks *s, const struct position *p)
{
    if (!mem_grow(&s->frame, &s->frame_capacity, p->n_frame, sizeof *s->frame) ||
        !mem_grow(&s->top, &s->top_capacity, p->n_top, sizeof *s->top))
        return false;
    memcpy(s->frame, p->frame, p->n_frame * sizeof *p->frame);
    memcpy(s->top, p->top, p->n_top * sizeof *p->top);
    s->n_frame = p->n_frame;
    s->n_top = p->n_top;
    s->frame_mark = s->top_mark = 0;
    s->status = MR_OK;
    return true;
}

static const struct grammar *grammar_of(const struct constraint_state *s) { return mask_cache_constraint(s->cache)->grammar; }

static enum mr_status out_of_memory(struct mr_error *err)
{
    return mr_fail(err, MR_NO_MEMORY, "no memory for the state of a constraint");
}

enum mr_status constraint_state_create(struct constraint_state **out, struct mask_cache *m, struct mr_error *err)
{
    struct constraint_state *s = *out = mem_zero_array(1, sizeof *s);
    if (s == NULL)
        return out_of_memory(err);
    s->cache = m;
    struct position *p = &s->ring[0];
    if (!position_reserve(p, 1, 1)) {
        constraint_state_free(s);
        *out = NULL;
        return out_of_memory(err);
    }
    const struct grammar *g = grammar_of(s);
    p->frame[0] = (struct stack_frame){.node = NODE_NONE};
    p->top[0] = (struct stack_top){.node = g->rule[g->root].start};
    p->n_frame = p->n_top = 1;
    return MR_OK;
}

void constraint_state_free(struct constraint_state *s)
{
    if (s == NULL)
        return;
    for (int i = 0; i < RING; i++)
        position_release(&s->ring[i]);
    free(s);
}

/* The position that many tokens ago. */
static int ring_back(const struct constraint_state *s, int n) { return (s->now + RING - n) % RING; }

static struct position *next_position(struct constraint_state *s) { return &s->ring[(s->now + 1) % RING]; }

enum mr_status constraint_state_copy(struct constraint_state **out, const struct constraint_state *s, struct mr_error *err)
{
    struct constraint_state *copy = *out = mem_zero_array(1, sizeof *copy);
    if (copy == NULL)
        return out_of_memory(err);
    copy->cache = s->cache;
    copy->now = s->now;
    copy->n_undo = s->n_undo;
    for (int i = 0; i <= s->n_undo; i++) {
        const int at = ring_back(s, i);
        if (!position_copy(&copy->ring[at], &s->ring[at])) {
            constraint_state_free(copy);
            *out = NULL;
            return out_of_memory(err);
        }
    }
    return MR_OK;
}

enum mr_status constraint_mask(const uint64_t **mask, struct constraint_state *s, struct mr_error *err)
{
    return mask_cache_find(mask, s->cache, &s->ring[s->now], err);
}

static void advance(struct constraint_state *s)
{
    s->now = (s->now + 1) % RING;
    s->n_undo += s->n_undo < CONSTRAINT_UNDO_MAX;
}

/* Read bytes on the scratch stacks. Returns how many could be read; the places are then all its tops. */
static size_t read_bytes(struct stacks *k, const char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const size_t end = k->n_top;
        stacks_mark(k);
        for (size_t t = 0; t < end; t++)
            stacks_step(k, k->top[t], (unsigned char)bytes[i]);
        if (k->n_top == end || k->status != MR_OK)
            return i;
        k->n_top -= end;
        memmove(k->top, k->top + end, k->n_top * sizeof *k->top);
    }
    return n;
}

/* The position after the bytes, in *to; *n_read: as far as they are allowed. */
static enum mr_status read_all(struct mask_cache *m, struct position *to, const struct position *from, const char *bytes,
                               size_t n, size_t *n_read, struct mr_error *err)
{
    struct stacks *k = mask_cache_stacks(m);
    *n_read = 0;
    if (!position_copy(to, from))
        return out_of_memory(err);
    while (*n_read < n) {
        const size_t left = n - *n_read, part = left < READ_AT_ONCE ? left : READ_AT_ONCE;
        if (!stacks_from_position(k, to))
            return out_of_memory(err);
        const size_t got = read_bytes(k, bytes + *n_read, part);
        *n_read += got;
        if (k->status == MR_FULL)
            return mr_fail(err, MR_FULL, "the grammar is too ambiguous here: more than %d readings", STACK_TOPS_MAX);
        if (k->status != MR_OK)
            return out_of_memory(err);
        if (got < part)
            return mr_fail(err, MR_BAD_INPUT, "the constraint does not allow byte %zu of the text", *n_read + 1);
        if (!position_from_stacks(to, k))
            return out_of_memory(err);
    }
    return MR_OK;
}

enum mr_status constraint_accept_bytes(struct constraint_state *s, const char *bytes, size_t n, size_t *n_read,
                                       struct mr_error *err)
{
    const struct position *p = &s->ring[s->now];
    size_t got = 0;
    const enum mr_status status = p->ended && n > 0 ? mr_fail(err, MR_BAD_INPUT, "the constrained text has ended")
                                                    : read_all(s->cache, next_position(s), p, bytes, n, &got, err);
    if (n_read != NULL)
        *n_read = got;
    if (status == MR_OK)
        advance(s);
    return status;
}

static enum mr_status accept_end(struct constraint_state *s, struct mr_error *err)
{
    const struct position *p = &s->ring[s->now];
    struct position *next = next_position(s);
    if (p->ended || !constraint_can_end(s))
        return mr_fail(err, MR_BAD_INPUT, "the constraint does not allow the end here");
    if (!position_copy(next, p))
        return out_of_memory(err);
    next->ended = true;
    advance(s);
    return MR_OK;
}

enum mr_status constraint_accept(struct constraint_state *s, int32_t token, struct mr_error *err)
{
    const struct token_trie *t = mask_cache_trie(s->cache);
    if (token < 0 || token >= t->n_token)
        return mr_fail(err, MR_BAD_INPUT, "token %d is not in the vocabulary of %d", (int)token, (int)t->n_token);
    if (mask_has(t->end, token))
        return accept_end(s, err);
    const size_t n = t->offset[token + 1] - t->offset[token];
    if (n == 0)
        return mr_fail(err, MR_BAD_INPUT, "token %d stands for no text and is not allowed under a constraint", (int)token);
    return constraint_accept_bytes(s, t->bytes + t->offset[token], n, NULL, err);
}

enum mr_status constraint_undo(struct constraint_state *s, int n_token, struct mr_error *err)
{
    if (n_token < 0 || n_token > s->n_undo)
        return mr_fail(err, MR_BAD_INPUT, "cannot take back %d tokens, only up to %d", n_token, s->n_undo);
    s->now = ring_back(s, n_token);
    s->n_undo -= n_token;
    return MR_OK;
}

bool constraint_can_end(const struct constraint_state *s)
{
    const struct position *p = &s->ring[s->now];
    const struct stacks view = {.g = grammar_of(s), .frame = p->frame, .n_frame = p->n_frame};
    for (size_t i = 0; i < p->n_top; i++)
        if (stacks_can_end(&view, p->top[i]))
            return true;
    return p->ended;
}

/* The bytes that may come next; their number. */
static int next_bytes(const struct grammar *g, const struct position *p, struct byte_set *set)
{
    const struct stacks view = {.g = g, .frame = p->frame, .n_frame = p->n_frame};
    int n = 0;
    *set = (struct byte_set){{0}};
    for (size_t i = 0; i < p->n_top && !p->ended; i++) {
        const struct byte_set one = stacks_next_bytes(&view, p->top[i]);
        for (int w = 0; w < 4; w++)
            set->word[w] |= one.word[w];
    }
    for (unsigned byte = 0; byte < 256; byte++)
        n += byte_set_has(set, byte);
    return n;
}

bool constraint_must_end(const struct constraint_state *s)
{
    struct byte_set set;
    return next_bytes(grammar_of(s), &s->ring[s->now], &set) == 0;
}

size_t constraint_forced(struct constraint_state *s, char *buffer, size_t n_max)
{
    const struct grammar *g = grammar_of(s);
    const struct position *p = &s->ring[s->now];
    struct stacks *k = mask_cache_stacks(s->cache);
    size_t n = 0;
    struct byte_set set;
    struct position place = {0};
    bool ok = position_copy(&place, p);
    while (ok && n < n_max && next_bytes(g, &place, &set) == 1) {
        const struct stacks view = {.g = g, .frame = place.frame, .n_frame = place.n_frame};
        for (size_t i = 0; i < place.n_top; i++)
            ok = ok && !stacks_can_end(&view, place.top[i]);
        unsigned byte = 0;
        while (!byte_set_has(&set, byte))
            byte++;
        const char c = (char)byte;
        ok = ok && stacks_from_position(k, &place) && read_bytes(k, &c, 1) == 1 && position_from_stacks(&place, k);
        if (ok)
            buffer[n++] = c;
    }
    position_release(&place);
    return n;
}
