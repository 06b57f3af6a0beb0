/* test_bench.c: statistics, counts of operations and bytes by hand, shares. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/cpu.h"
#include "measure/bench_cases.h"
#include "measure/bench_report.h"

static void assert_near(double got, double want)
{
    if (!(got >= want * (1 - 1e-12) && got <= want * (1 + 1e-12)))
        fail_msg("got %.17g, want %.17g", got, want);
}

static void spread_of_an_odd_number_is_its_middle(void **state)
{
    (void)state;
    double x[] = {5, 1, 9};
    const struct spread s = spread_of(x, 3);
    assert_near(s.median, 5);
    assert_near(s.min, 1);
    assert_near(s.max, 9);
}

static void spread_of_an_even_number_is_the_mean_of_two(void **state)
{
    (void)state;
    double x[] = {4, 1, 2, 100};
    assert_near(spread_of(x, 4).median, 3);
    double one[] = {7};
    assert_near(spread_of(one, 1).median, 7);
}

static void cpu_times_are_read_from_the_first_line_of_stat(void **state)
{
    (void)state;
    struct cpu_times t;
    assert_true(cpu_times_parse(&t, "cpu  10 20 30 400 50 6 7 80 9 9\n"));
    assert_true(t.busy == 10 + 20 + 30 + 6 + 7);
    assert_true(t.steal == 80);
    assert_true(t.total == 10 + 20 + 30 + 400 + 50 + 6 + 7 + 80);
    assert_false(cpu_times_parse(&t, "cpu  10 20\n"));
    assert_false(cpu_times_parse(&t, "intr 1 2 3 4 5 6 7 8"));
}

/* A device whose ops do nothing. */
static void no_layer(struct device *d, int layer)
{
    (void)d;
    (void)layer;
}

static void no_matmul(struct device *d, const struct product *product, int n_product, const struct activation_view *x)
{
    (void)d;
    (void)product;
    (void)n_product;
    (void)x;
}

static void no_attention(struct device *d, const struct attention_args *args)
{
    (void)d;
    (void)args;
}

static const char *no_kernel_name(const struct weight *w)
{
    (void)w;
    return "none";
}

static const struct ops no_ops = {.enter_layer = no_layer,
                                  .matmul = no_matmul,
                                  .attention = no_attention,
                                  .rope_store = no_attention,
                                  .weight_kernel_name = no_kernel_name};

struct fixture {
    struct device device;
    struct buffer buffer;
    struct op_profile *profile;
};

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    f->device = (struct device){.ops = &no_ops, .name = "none"};
    f->profile = malloc(sizeof *f->profile);
    assert_non_null(f->profile);
    op_profile_install(f->profile, &f->device);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    free(f->profile);
    free(f);
    return 0;
}

static struct tensor rows_of(struct fixture *f, int n_row, int n_col)
{
    return (struct tensor){&f->buffer, 0, (size_t)n_col * 4, n_row, n_col};
}

static void products_count_two_operations_for_each_weight_and_row(void **state)
{
    struct fixture *f = *state;
    const struct weight w[2] = {{.bytes = 100, .n_out = 6, .n_in = 4, .wants_q8 = true},
                                {.bytes = 40, .n_out = 2, .n_in = 4, .wants_q8 = true}};
    const struct product product[2] = {{.weight = &w[0], .out = rows_of(f, 3, 6)}, {.weight = &w[1], .out = rows_of(f, 3, 2)}};
    const struct activation_view x = {.f32 = rows_of(f, 3, 4), .q8 = rows_of(f, 3, 4)};
    f->device.ops->matmul(&f->device, product, 2, &x);
    op_profile_remove(f->profile);
    const struct op_work *t = &f->profile->total;
    assert_near(t->ops[PEAK_INT8], 2 * 3 * 4 * (6 + 2));
    assert_near(t->weight_bytes, 140);
    assert_near(t->activation_bytes, 3 * 16 + 3 * (6 + 2) * 4);
    assert_true(t->ops[PEAK_F32] == 0 && t->attention_ops == 0 && t->kv_bytes == 0);
    assert_int_equal(f->profile->n_row, 1);
    assert_int_equal(f->profile->row[0].n_in, 4);
    assert_int_equal(f->profile->row[0].n_out, 8);
}

/* Two sequences, one with rows at 4 and 5, one with a row at 9; three heads on one KV head of 8 values in f16. */
static struct attention_args three_rows(struct fixture *f, int window)
{
    static const int32_t position[] = {4, 5, 9};
    static const uint32_t table[2][1];
    static const uint32_t *const blocks[] = {table[0], table[0], table[1]};
    struct attention_args args = {.q = rows_of(f, 3, 24), .n_head = 3, .n_head_kv = 1, .head_dim = 8, .window = window};
    args.kv.type = KV_F16;
    args.position = position;
    args.blocks = blocks;
    return args;
}

static void attention_counts_what_each_row_sees_and_each_sequence_reads(void **state)
{
    struct fixture *f = *state;
    const struct attention_args args = three_rows(f, 0);
    f->device.ops->attention(&f->device, &args);
    op_profile_remove(f->profile);
    assert_near(f->profile->total.attention_ops, 4.0 * 3 * 8 * (5 + 6 + 10));
    assert_near(f->profile->total.kv_bytes, 2.0 * 8 * 2 * (6 + 10));
}

static void attention_with_a_window_counts_the_window(void **state)
{
    struct fixture *f = *state;
    const struct attention_args args = three_rows(f, 4);
    f->device.ops->attention(&f->device, &args);
    op_profile_remove(f->profile);
    assert_near(f->profile->total.attention_ops, 4.0 * 3 * 8 * (4 + 4 + 4));
    assert_near(f->profile->total.kv_bytes, 2.0 * 8 * 2 * (5 + 4));
}

static void calls_belong_to_the_layer_entered_last(void **state)
{
    struct fixture *f = *state;
    struct device *d = &f->device;
    const struct attention_args args = three_rows(f, 0);
    for (int layer = 0; layer < 2; layer++) {
        d->ops->enter_layer(d, layer);
        d->ops->rope_store(d, &args);
        d->ops->attention(d, &args);
    }
    d->ops->enter_layer(d, -1);
    d->ops->rope_store(d, &args);
    op_profile_remove(f->profile);
    assert_int_equal(f->profile->n_layer, 2);
    assert_int_equal(f->profile->layer[0].n_call, 1);
    assert_int_equal(f->profile->layer[1].n_call, 2);
    assert_int_equal(f->profile->layer[2].n_call, 2);
    assert_int_equal(f->profile->total.n_call, 5);
    assert_int_equal(f->profile->n_row, 2);
    assert_ptr_equal(d->ops, &no_ops);
}

static void more_shapes_than_rows_share_the_last_row(void **state)
{
    struct fixture *f = *state;
    for (int i = 1; i <= OP_ROWS_MAX + 5; i++) {
        const struct attention_args args = {.q = rows_of(f, 1, i)};
        f->device.ops->rope_store(&f->device, &args);
    }
    op_profile_remove(f->profile);
    assert_int_equal(f->profile->n_row, OP_ROWS_MAX);
    assert_int_equal(f->profile->row[OP_ROWS_MAX - 1].work.n_call, 6);
    assert_int_equal(f->profile->total.n_call, OP_ROWS_MAX + 5);
}

static void each_product_counts_over_the_peak_of_its_type(void **state)
{
    (void)state;
    const struct limits l = {.gops = {[PEAK_INT8] = 100, [PEAK_F32] = 10}, .read_gb_s = 5};
    struct op_work w = {.ops = {[PEAK_INT8] = 50e9, [PEAK_F32] = 1e9}, .attention_ops = 10e9, .weight_bytes = 1e9};
    assert_near(bench_mfu(&w, 2, &l), (0.5 + 0.1 + 0.1) / 2); /* attention: as int8, the type of most products */
    w = (struct op_work){.attention_ops = 10e9};
    assert_near(bench_mfu(&w, 2, &l), 0.5);
    w = (struct op_work){.ops = {[PEAK_BF16] = 5e9}};
    assert_near(bench_mfu(&w, 1, &l), 0.5); /* no instruction for bf16: computed in f32 */
    w = (struct op_work){.weight_bytes = 3e9, .kv_bytes = 1e9, .seconds = 1};
    assert_near(bench_row_share(&w, &l), 0.8);
}

static void rows_are_ordered_by_time(void **state)
{
    (void)state;
    static struct op_profile p;
    int order[OP_ROWS_MAX];
    p.n_row = 3;
    p.row[0].work.seconds = 2;
    p.row[1].work.seconds = 3;
    p.row[2].work.seconds = 1;
    bench_rows_by_time(&p, order);
    assert_int_equal(order[0], 1);
    assert_int_equal(order[1], 0);
    assert_int_equal(order[2], 2);
}

static void cases_say_what_they_need(void **state)
{
    (void)state;
    struct bench_options o = {.prompt = 100, .gen = 8, .batch = {{1, 32}, 2}, .depth = {{64, 0}, 2}};
    assert_int_equal(bench_max_tokens(&o), 100);
    assert_int_equal(bench_max_batch(&o), 32);
    assert_int_equal(bench_max_sequences(&o), 33); /* and the one that they are copied from */
    o.prompt = 10;
    assert_int_equal(bench_max_tokens(&o), 72);
    o.depth = (struct bench_list){{0}, 1};
    o.prompt = 0;
    assert_int_equal(bench_max_tokens(&o), 9); /* an empty context cannot be continued: it holds one token */
}

static void keep_figure(void *context, const struct kernel_figure *figure)
{
    struct kernel_figure *last = context;
    assert_near(figure->gops, 2e-9 * figure->n_in * figure->n_out * figure->n_row / figure->seconds);
    assert_near(figure->mfu, figure->gops / 100);
    assert_near(figure->mbu, figure->gb_s / 5);
    *last = *figure;
}

static void kernels_are_timed_one_by_one(void **state)
{
    (void)state;
    const struct limits l = {.n_threads = 2, .gops = {[PEAK_INT8] = 100, [PEAK_F32] = 10}, .read_gb_s = 5};
    struct kernels *k = calloc(1, sizeof *k), *all = calloc(1, sizeof *all);
    assert_true(k != NULL && all != NULL);
    kernels_select(all, cpu_detect());
    k->quantize_q8 = all->quantize_q8;
    k->matmul[QUANT_Q8_0][ACTIVATION_Q8] = all->matmul[QUANT_Q8_0][ACTIVATION_Q8];
    struct kernel_figure last = {.n_row = 0};
    assert_int_equal(kernel_bench(k, "q8_0", &l, keep_figure, &last, NULL, NULL), MR_OK);
    assert_string_equal(last.kernel, k->matmul[QUANT_Q8_0][ACTIVATION_Q8].name);
    last.n_row = 0;
    assert_int_equal(kernel_bench(k, "no such kernel", &l, keep_figure, &last, NULL, NULL), MR_OK);
    assert_int_equal(last.n_row, 0);
    const atomic_bool stop = true;
    assert_int_equal(kernel_bench(k, "q8_0", &l, keep_figure, &last, &stop, NULL), MR_CANCELLED);
    free(k);
    free(all);
}

static void layer_norm_and_gelu_are_timed_fused_and_not(void **state)
{
    (void)state;
    struct pipeline_figure f[PIPELINE_FIGURES_MAX];
    struct kernels *k = calloc(1, sizeof *k);
    int n;
    assert_non_null(k);
    kernels_select(k, cpu_detect());
    assert_int_equal(pipeline_bench(f, &n, k, "layer_norm_gelu q", 2, NULL, NULL), MR_OK);
    assert_int_equal(n, 2);
    for (int i = 0; i < n; i++) {
        assert_true(f[i].kernel[0] == 'q' && f[i].fused_s > 0 && f[i].unfused_s > 0);
        assert_true(f[i].fused_bytes < f[i].unfused_bytes);
    }
    free(k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spread_of_an_odd_number_is_its_middle),
        cmocka_unit_test(spread_of_an_even_number_is_the_mean_of_two),
        cmocka_unit_test(cpu_times_are_read_from_the_first_line_of_stat),
        cmocka_unit_test_setup_teardown(products_count_two_operations_for_each_weight_and_row, set_up, tear_down),
        cmocka_unit_test_setup_teardown(attention_counts_what_each_row_sees_and_each_sequence_reads, set_up, tear_down),
        cmocka_unit_test_setup_teardown(attention_with_a_window_counts_the_window, set_up, tear_down),
        cmocka_unit_test_setup_teardown(calls_belong_to_the_layer_entered_last, set_up, tear_down),
        cmocka_unit_test_setup_teardown(more_shapes_than_rows_share_the_last_row, set_up, tear_down),
        cmocka_unit_test(each_product_counts_over_the_peak_of_its_type),
        cmocka_unit_test(rows_are_ordered_by_time),
        cmocka_unit_test(cases_say_what_they_need),
        cmocka_unit_test(kernels_are_timed_one_by_one),
        cmocka_unit_test(layer_norm_and_gelu_are_timed_fused_and_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
