/* earlier_answers.c: a list by use, looked through from end to end: some microseconds for thousands of sketches. */
#include "engine/earlier_answers.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

enum {
    RUN = 4 /* tokens that are hashed together */
};

static const float alike = 0.5F; /* from here on an answer is tried */

struct earlier_answer {
    struct earlier_answer *newer, *older;
    struct prefix_key seed;
    struct prompt_sketch sketch;
    int n_user;
    bool is_gone; /* from the list; its last user frees it */
    int n;
    int32_t token[];
};

/* The finaliser of SplitMix64 (Steele, Lea, Flood 2014): each bit of the sum depends on every token. */
static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
    return x ^ (x >> 31);
}

void prompt_sketch_make(struct prompt_sketch *out, const int32_t *token, int n)
{
    static const uint64_t odd = 0x9e3779b97f4a7c15U;
    memset(out, 0xff, sizeof *out);
    for (int i = 0; i + RUN <= n; i++) {
        uint64_t sum = 0;
        for (int k = 0; k < RUN; k++)
            sum = sum * odd + (uint32_t)token[i + k];
        const uint64_t hash = mix(sum);
        uint32_t *least = &out->least[hash % SKETCH_BINS];
        const uint32_t value = (uint32_t)(hash >> 33);
        *least = value < *least ? value : *least;
    }
}

float prompt_sketch_likeness(const struct prompt_sketch *a, const struct prompt_sketch *b)
{
    int n_same = 0, n_any = 0;
    for (int i = 0; i < SKETCH_BINS; i++) {
        const bool is_any = (a->least[i] & b->least[i]) != UINT32_MAX;
        n_any += is_any;
        n_same += is_any && a->least[i] == b->least[i];
    }
    return n_any > 0 ? (float)n_same / (float)n_any : 0;
}

void earlier_answers_init(struct earlier_answers *s, size_t capacity) { *s = (struct earlier_answers){.capacity = capacity}; }

static size_t bytes_of(int n) { return sizeof(struct earlier_answer) + (size_t)n * sizeof(int32_t); }

static void unlink_answer(struct earlier_answers *s, struct earlier_answer *a)
{
    *(a->newer != NULL ? &a->newer->older : &s->newest) = a->older;
    *(a->older != NULL ? &a->older->newer : &s->oldest) = a->newer;
}

static void put_first(struct earlier_answers *s, struct earlier_answer *a)
{
    a->newer = NULL;
    a->older = s->newest;
    *(s->newest != NULL ? &s->newest->newer : &s->oldest) = a;
    s->newest = a;
}

static void forget(struct earlier_answers *s, struct earlier_answer *a)
{
    unlink_answer(s, a);
    s->bytes -= bytes_of(a->n);
    s->n--;
    a->is_gone = true;
    if (a->n_user == 0)
        free(a);
}

void earlier_answers_release(struct earlier_answers *s)
{
    while (s->newest != NULL)
        forget(s, s->newest);
}

struct earlier_answer *earlier_answers_find(struct earlier_answers *s, const struct prefix_key *seed,
                                            const struct prompt_sketch *sketch)
{
    struct earlier_answer *best = NULL;
    float most = alike;
    for (struct earlier_answer *a = s->newest; a != NULL; a = a->older) {
        const float likeness = prompt_sketch_likeness(&a->sketch, sketch);
        if (likeness < most || (best != NULL && likeness == most) || memcmp(&a->seed, seed, sizeof *seed) != 0)
            continue;
        most = likeness;
        best = a;
    }
    if (best == NULL)
        return NULL;
    unlink_answer(s, best);
    put_first(s, best);
    best->n_user++;
    return best;
}

void earlier_answers_leave(struct earlier_answers *s, struct earlier_answer *a)
{
    (void)s;
    if (--a->n_user == 0 && a->is_gone)
        free(a);
}

const int32_t *earlier_answer_tokens(const struct earlier_answer *a, int *n)
{
    *n = a->n;
    return a->token;
}

/* The same question, asked again: its latest answer is enough. */
static void forget_same(struct earlier_answers *s, const struct prefix_key *seed, const struct prompt_sketch *sketch)
{
    for (struct earlier_answer *a = s->newest, *older; a != NULL; a = older) {
        older = a->older;
        if (memcmp(&a->sketch, sketch, sizeof *sketch) == 0 && memcmp(&a->seed, seed, sizeof *seed) == 0)
            forget(s, a);
    }
}

void earlier_answers_add(struct earlier_answers *s, const struct prefix_key *seed, const struct prompt_sketch *sketch,
                         const int32_t *token, int n)
{
    if (n < EARLIER_TOKENS_MIN || bytes_of(n) > s->capacity)
        return;
    forget_same(s, seed, sketch);
    while (s->n >= EARLIER_ANSWERS_MAX || s->bytes + bytes_of(n) > s->capacity)
        forget(s, s->oldest);
    struct earlier_answer *a = mem_array(1, bytes_of(n));
    if (a == NULL)
        return;
    *a = (struct earlier_answer){.seed = *seed, .sketch = *sketch, .n = n};
    memcpy(a->token, token, (size_t)n * sizeof *token);
    put_first(s, a);
    s->bytes += bytes_of(n);
    s->n++;
}
