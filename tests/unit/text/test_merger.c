/* test_merger.c: scanning and the heap merge as the definition says: the lowest rank first, the leftmost among equals. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "text/merger.h"

enum {
    N_IDS = 40,
    LONGEST = 300
};

struct rules {
    struct merge merge[N_IDS][N_IDS];
};

static uint32_t next_random(uint32_t *seed) { return *seed = *seed * 1664525u + 1013904223u; }

static struct merge by_rule(const void *ctx, const struct symbol *left, const struct symbol *right)
{
    const struct rules *r = ctx;
    return r->merge[left->id][right->id];
}

/* The definition, step by step. */
static size_t merge_slowly(const struct rules *r, int32_t *id, size_t n)
{
    for (;;) {
        struct merge best = {MERGE_RANK_NONE, MERGE_NONE};
        size_t at = 0;
        for (size_t i = 0; i + 1 < n; i++) {
            const struct merge m = r->merge[id[i]][id[i + 1]];
            if (m.rank < best.rank) {
                best = m;
                at = i;
            }
        }
        if (best.rank == MERGE_RANK_NONE)
            return n;
        id[at] = best.id;
        memmove(&id[at + 1], &id[at + 2], (n - at - 2) * sizeof *id);
        n--;
    }
}

static void make_rules(struct rules *r, uint32_t *seed)
{
    uint32_t rank = 0;
    for (int a = 0; a < N_IDS; a++)
        for (int b = 0; b < N_IDS; b++)
            r->merge[a][b] = (struct merge){MERGE_RANK_NONE, MERGE_NONE};
    for (int i = 0; i < 200; i++) {
        struct merge *m = &r->merge[next_random(seed) >> 8 & 31][next_random(seed) >> 8 & 31];
        if (m->rank == MERGE_RANK_NONE) /* ranks repeat, as equal scores do */
            *m = (struct merge){rank++ / 2, (int32_t)(next_random(seed) >> 8) % N_IDS};
    }
}

static void every_length_merges_as_defined(void **state)
{
    (void)state;
    static struct rules r;
    struct merger m = {0};
    uint32_t seed = 7;
    for (int round = 0; round < 2000; round++) {
        int32_t want[LONGEST];
        const size_t n = round < 100 ? (size_t)round : next_random(&seed) >> 8 & 255;
        if (round % 50 == 0)
            make_rules(&r, &seed);
        m.n = 0;
        for (size_t i = 0; i < n; i++) {
            want[i] = (int32_t)(next_random(&seed) >> 8 & (round % 2 == 0 ? 3 : 31));
            assert_true(merger_add(&m, want[i], (uint32_t)i, 1));
        }
        const size_t n_want = merge_slowly(&r, want, n);
        assert_true(merger_run(&m, by_rule, &r));
        assert_int_equal(m.n, n_want);
        uint32_t end = 0;
        for (size_t i = 0; i < n_want; i++) {
            assert_int_equal(m.symbol[i].id, want[i]);
            assert_int_equal(m.symbol[i].start, end); /* symbols cover the piece */
            end += m.symbol[i].n;
        }
        assert_int_equal(end, n);
    }
    merger_release(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_length_merges_as_defined),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
