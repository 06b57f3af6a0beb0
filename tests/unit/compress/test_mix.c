/* test_mix.c: which block type each tensor gets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "compress/mix.h"

static struct gguf_tensor tensor(const char *name, int64_t columns, int64_t rows)
{
    return (struct gguf_tensor){.name = {name, strlen(name)}, .n_dims = 2, .dims = {columns, rows, 1, 1}};
}

static const char *type_of(const char *mix, const char *name, struct mix_model model)
{
    const struct gguf_tensor t = tensor(name, 512, 4);
    return mix_type(mix_find(mix), &model, &t)->name;
}

static void mixes_are_found_by_name(void **state)
{
    (void)state;
    for (int i = 0; mix_at(i) != NULL; i++)
        assert_ptr_equal(mix_find(mix_name(mix_at(i))), mix_at(i));
    assert_null(mix_at(-1));
    assert_null(mix_find("q4_k_x"));
    assert_int_equal(mix_file_type(mix_find("q4_k_m")), 15);
    for (int i = 0; quant_at(i) != NULL; i++) /* every block type is one, too */
        assert_non_null(mix_find(quant_at(i)->name));
}

static void a_mix_gives_more_bits_where_they_count(void **state)
{
    (void)state;
    const struct mix_model model = {.n_layer = 16}, tied = {.n_layer = 16, .is_tied = true},
                           pure = {.n_layer = 16, .is_pure = 1};
    assert_string_equal(type_of("q4_k_m", "blk.0.attn_v.weight", model), "q6_k");
    assert_string_equal(type_of("q4_k_m", "blk.2.attn_v.weight", model), "q4_k");
    assert_string_equal(type_of("q4_k_m", "blk.4.ffn_down.weight", model), "q6_k");
    assert_string_equal(type_of("q4_k_m", "blk.15.ffn_down_exps.weight", model), "q6_k");
    assert_string_equal(type_of("q4_k_m", "blk.0.ffn_up.weight", model), "q4_k");
    assert_string_equal(type_of("q3_k_m", "blk.1.attn_v.weight", model), "q5_k");
    assert_string_equal(type_of("q3_k_m", "blk.2.attn_v.weight", model), "q4_k");
    assert_string_equal(type_of("q4_k_m", "output.weight", model), "q6_k");
    assert_string_equal(type_of("q4_k_m", "token_embd.weight", model), "q4_k");
    assert_string_equal(type_of("q4_k_m", "token_embd.weight", tied), "q6_k");
    assert_string_equal(type_of("q4_k_m", "token_embd.weight", pure), "q4_k");
    assert_string_equal(type_of("q4_k_m", "blk.99999999999999999999.attn_v.weight", model), "q4_k");
}

static void only_matrices_have_a_choice(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        bool is_matrix;
    } cases[] = {{"blk.0.attn_q.weight", true},        {"blk.0.attn_norm.weight", false}, {"blk.0.attn_q.bias", false},
                 {"blk.0.ffn_gate_inp.weight", false}, {"position_embd.weight", false},   {"token_embd.weight", true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct gguf_tensor t = tensor(cases[i].name, 64, 4);
        assert_int_equal(mix_is_matrix(&t), cases[i].is_matrix);
        t.n_dims = 1;
        assert_false(mix_is_matrix(&t));
    }
    struct gguf_tensor column = tensor("blk.0.attn_q.weight", 1, 4);
    assert_false(mix_is_matrix(&column));
}

/* Whatever the type and the row, what comes fits, and has no fewer bits. */
static void what_does_not_fit_gets_the_nearest_that_does(void **state)
{
    (void)state;
    static const int64_t columns[] = {1, 31, 32, 33, 256, 576, 640};
    for (int i = 0; quant_at(i) != NULL; i++)
        for (size_t c = 0; c < sizeof columns / sizeof *columns; c++) {
            const struct quant *q = quant_at(i), *f = mix_fitting(q, columns[c]);
            assert_int_equal(columns[c] % f->block, 0);
            assert_true((columns[c] % q->block == 0) == (f == q));
            assert_true(f->bytes * (size_t)q->block >= q->bytes * (size_t)f->block);
        }
    assert_string_equal(mix_fitting(quant_find(QUANT_Q4_K), 576)->name, "q5_0");
    assert_string_equal(mix_fitting(quant_find(QUANT_Q6_K), 640)->name, "q8_0");
    assert_string_equal(mix_fitting(quant_find(QUANT_Q6_K), 33)->name, "f16");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mixes_are_found_by_name),
        cmocka_unit_test(a_mix_gives_more_bits_where_they_count),
        cmocka_unit_test(only_matrices_have_a_choice),
        cmocka_unit_test(what_does_not_fit_gets_the_nearest_that_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
