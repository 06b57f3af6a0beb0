/* test_pieces.c: how much work one thread takes at once. What a thread that loses its CPU holds up is one piece. */
#include <stdatomic.h>
#include <stdint.h>

#include "ops/ops_cpu_product.h"
#include "ops_fixture.h"

enum {
    N_THREAD = 4
};

static const enum quant_type types[] = {QUANT_F32, QUANT_F16, QUANT_Q4_0, QUANT_Q8_0, QUANT_Q4_K};

/* A matrix and its activation as far as a cut looks at them: no memory is behind them. */
struct shape {
    struct weight w;
    struct activation_view x;
};

static struct shape make_shape(struct lab *l, enum quant_type type, int n_out, int n_in, int n_row)
{
    struct shape s = {.x = {.f32 = {.row_bytes = sizeof(float) * (size_t)n_in, .n_row = n_row, .n_col = n_in},
                            .q8 = {.row_bytes = q8_row_bytes(n_in), .n_row = n_row, .n_col = n_in}}};
    const struct weight_source source = {quant_find(type), n_out, n_in};
    assert_int_equal(l->device->ops->weight_plan(l->device, &s.w, &source, WEIGHT_AS_IT_IS, NULL), MR_OK);
    return s;
}

/* Calls look(cut, shape, piece_bytes) for matrices and numbers of rows as models have them. */
typedef void look_fn(const struct cpu_cut *cut, const struct shape *s, size_t piece_bytes);
static void for_each_cut(look_fn *look)
{
    static const int n_in[] = {256, 768, 2048, 4096, 11008, 16384}, n_out[] = {1, 16, 48, 576, 4096, 49152},
                     n_row[] = {1, 2, 9, 63, 64, 500, 512};
    struct lab l;
    open_lab(&l, N_THREAD);
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (size_t i = 0; i < sizeof n_in / sizeof *n_in; i++)
            for (size_t o = 0; o < sizeof n_out / sizeof *n_out; o++)
                for (size_t r = 0; r < sizeof n_row / sizeof *n_row; r++) {
                    const struct shape s = make_shape(&l, types[t], n_out[o], n_in[i], n_row[r]);
                    const size_t bytes = cpu_piece_bytes((struct cpu_device *)l.device, s.w.bytes, n_row[r] == 1);
                    const struct cpu_cut cut = cpu_cut_product(&s.w, &s.x, n_row[r], bytes);
                    look(&cut, &s, bytes);
                }
    close_lab(&l);
}

static void look_at_work(const struct cpu_cut *cut, const struct shape *s, size_t piece_bytes)
{
    const struct matmul *m = s->w.kernel;
    const double work = (double)cut->n_panel * m->nr * cut->n_row * s->w.n_in;
    if (s->x.f32.n_row == 1) { /* waits for memory, hence is cut by bytes */
        assert_true(cut->n_panel == 1 || (size_t)cut->n_panel * m->panel_bytes(s->w.n_in) <= piece_bytes);
        return;
    }
    if (cut->n_panel <= 2 && cut->n_row <= CPU_PIECE_ROWS)
        return; /* nothing smaller is worth a piece */
    assert_true(work <= CPU_PIECE_WORK);
    assert_true(cut->n_panel == 1 || (size_t)cut->n_panel * m->panel_bytes(s->w.n_in) <= piece_bytes);
}

static void a_piece_is_no_more_than_some_work(void **state)
{
    (void)state;
    for_each_cut(look_at_work);
}

static int compare_blocks(const void *a, const void *b)
{
    const struct cpu_block *x = a, *y = b;
    return x->first_panel != y->first_panel ? x->first_panel - y->first_panel : x->first_row - y->first_row;
}

/* In the order of panels, then rows: each begins where the one before it ends. */
static void look_at_blocks(const struct cpu_cut *cut, const struct shape *s, size_t piece_bytes)
{
    const struct product product = {.weight = &s->w};
    const int n_row = s->x.f32.n_row;
    struct cpu_block *b = malloc((size_t)cut->n_piece * sizeof *b);
    (void)piece_bytes;
    assert_non_null(b);
    for (int i = 0; i < cut->n_piece; i++)
        b[i] = cpu_block_at(cut, i, &product, &s->x, NULL, 3, n_row);
    qsort(b, (size_t)cut->n_piece, sizeof *b, compare_blocks);
    int row = 3, out = 0;
    for (int i = 0; i < cut->n_piece; i++) {
        assert_int_equal(b[i].first_row, row);
        assert_true(b[i].end_row > b[i].first_row);
        assert_int_equal(cpu_block_first_out(&b[i]), out);
        row = b[i].end_row < 3 + n_row ? b[i].end_row : 3;
        out += row == 3 ? cpu_block_n_out(&b[i]) : 0;
    }
    assert_int_equal(row, 3);
    assert_int_equal(out, s->w.n_out);
    free(b);
}

static void pieces_are_the_whole_product(void **state)
{
    (void)state;
    for_each_cut(look_at_blocks);
}

/* Rows of a step's greatest batch are not one piece, whatever they are worth. */
struct rows_seen {
    _Atomic int most, n_call;
};

static void see_rows(struct cpu_device *d, const void *context, int first, int end)
{
    struct rows_seen *seen = (struct rows_seen *)(uintptr_t)context;
    (void)d;
    seen->n_call++;
    int most = seen->most;
    while (end - first > most && !atomic_compare_exchange_weak(&seen->most, &most, end - first))
        ;
}

static void rows_are_taken_a_few_at_a_time(void **state)
{
    (void)state;
    static const int works[] = {64, 2048, 32768, 1 << 20};
    struct lab l;
    open_lab(&l, N_THREAD);
    for (size_t i = 0; i < sizeof works / sizeof *works; i++) {
        struct rows_seen seen = {0, 0};
        cpu_for_rows((struct cpu_device *)l.device, see_rows, &seen, 512, works[i]);
        assert_true(seen.most == 1 || (seen.most - 1) * works[i] <= CPU_MAX_WORK);
    }
    close_lab(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_piece_is_no_more_than_some_work),
        cmocka_unit_test(pieces_are_the_whole_product),
        cmocka_unit_test(rows_are_taken_a_few_at_a_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
