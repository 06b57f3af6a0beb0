/* test_ops_experts.c: routing, grouping and the products of a mixture of experts, against plain loops. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "measure/op_profile.h"
#include "ops_fixture.h"

enum {
    N_IN = 64,
    N_OUT = 37, /* not a multiple of a panel */
    MAX_ROW = 100,
    MAX_USED = 5,
    MAX_EXPERT = 9
};

static struct routing make_routing(struct lab *l, int n_row, int n_expert, int n_used)
{
    return (struct routing){.n_expert = n_expert,
                            .n_used = n_used,
                            .weight = make_tensor(l, n_row, n_used),
                            .slot = make_tensor(l, n_row, n_used),
                            .row = make_tensor(l, 1, n_row * n_used),
                            .group = make_tensor(l, 1, routing_group_ints(n_expert))};
}

/* Which expert a slot belongs to, from `group`. */
static int expert_of(const int32_t *group, int n_expert, int slot)
{
    int i = 0;
    while (group[1 + n_expert + i + 1] <= slot)
        i++;
    return group[1 + i];
}

/* What came of routing `score`, on the host. */
struct routed {
    float weight[MAX_ROW * MAX_USED];
    int32_t slot[MAX_ROW * MAX_USED], row[MAX_ROW * MAX_USED], group[2 + 2 * MAX_EXPERT];
};

static void read_routing(struct lab *l, struct routed *out, const struct routing *r)
{
    float ints[MAX_ROW * MAX_USED];
    const struct {
        void *to;
        const struct tensor *from;
    } parts[] = {{out->weight, &r->weight}, {out->slot, &r->slot}, {out->row, &r->row}, {out->group, &r->group}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        l->device->ops->download(l->device, ints, parts[i].from);
        memcpy(parts[i].to, ints, (size_t)parts[i].from->n_row * (size_t)parts[i].from->n_col * sizeof *ints);
    }
}

static void route(struct lab *l, struct routed *out, struct routing *r, const float *score, int n_row)
{
    const struct tensor t = make_tensor(l, n_row, r->n_expert);
    l->device->ops->upload(l->device, &t, score);
    l->device->ops->route(l->device, r, &t);
    read_routing(l, out, r);
}

static void weights_are_probabilities_in_descending_order(void **state)
{
    (void)state;
    static const float score[] = {0.5f, 2, -1, 1.5f, 0, 3};
    static const int best[] = {5, 1, 3};
    struct lab l;
    struct routed out;
    double sum = 0, total = 0;
    open_lab(&l, 1);
    for (int e = 0; e < 6; e++)
        sum += exp((double)score[e]);
    for (int j = 0; j < 3; j++)
        total += exp((double)score[best[j]]) / sum;
    for (int normalize = 0; normalize < 2; normalize++) {
        struct routing r = make_routing(&l, 1, 6, 3);
        r.normalize = normalize;
        route(&l, &out, &r, score, 1);
        for (int j = 0; j < 3; j++) {
            const double want = exp((double)score[best[j]]) / sum / (normalize ? total : 1);
            assert_true(fabs((double)out.weight[j] - want) < 1e-6);
            assert_int_equal(expert_of(out.group, 6, out.slot[j]), best[j]);
        }
    }
    close_lab(&l);
}

static void ties_go_to_the_lower_id(void **state)
{
    (void)state;
    static const float score[] = {1, 2, 2, 1, 2};
    struct lab l;
    struct routed out;
    open_lab(&l, 1);
    struct routing r = make_routing(&l, 1, 5, 4);
    route(&l, &out, &r, score, 1);
    static const int want[] = {1, 2, 4, 0};
    for (int j = 0; j < 4; j++)
        assert_int_equal(expert_of(out.group, 5, out.slot[j]), want[j]);
    close_lab(&l);
}

static void a_score_that_is_no_number_makes_the_rows_weights_nan(void **state)
{
    (void)state;
    static const float score[] = {1, 2, 3, NAN, 1, 0, -1, INFINITY, 2};
    struct lab l;
    struct routed out;
    open_lab(&l, 1);
    struct routing r = make_routing(&l, 3, 3, 2);
    route(&l, &out, &r, score, 3);
    assert_true(out.weight[0] > 0 && out.weight[1] > 0);
    for (int i = 2; i < 6; i++)
        assert_true(isnan(out.weight[i]));
    assert_int_equal(out.group[1 + 3 + out.group[0]], 6);
    close_lab(&l);
}

static void slots_are_sorted_by_expert_and_row(void **state)
{
    (void)state;
    float score[MAX_ROW * MAX_EXPERT];
    struct lab l;
    struct routed out;
    open_lab(&l, 3);
    for (int i = 0; i < MAX_ROW * MAX_EXPERT; i++)
        score[i] = i % MAX_EXPERT == 4 ? -10 : value(i * 17); /* expert 4 gets no row */
    struct routing r = make_routing(&l, MAX_ROW, MAX_EXPERT, MAX_USED);
    route(&l, &out, &r, score, MAX_ROW);
    assert_int_equal(out.group[0], MAX_EXPERT - 1);
    for (int s = 1; s < MAX_ROW * MAX_USED; s++) {
        const int e = expert_of(out.group, MAX_EXPERT, s), before = expert_of(out.group, MAX_EXPERT, s - 1);
        assert_true(before < e || (before == e && out.row[s - 1] < out.row[s]));
        assert_int_not_equal(e, 4);
    }
    for (int i = 0; i < MAX_ROW * MAX_USED; i++)
        assert_int_equal(out.row[out.slot[i]], i / MAX_USED);
    close_lab(&l);
}

/* Experts' matrices of value(i + seed). */
static struct weight make_experts(struct lab *l, enum quant_type type, int n_expert, int seed)
{
    const int n_out = N_OUT, n_in = N_IN;
    float values[N_OUT * N_IN], rows[N_OUT * N_IN];
    const struct weight_source source = {quant_find(type), n_out, n_in};
    struct weight w;
    assert_int_equal(l->device->ops->weight_plan(l->device, &w, &source, WEIGHT_AS_IT_IS, NULL), MR_OK);
    w.buffer = l->buffer;
    w.n_expert = n_expert;
    w.expert_bytes = w.bytes = (w.bytes + 63) / 64 * 64;
    for (int e = 0; e < n_expert; e++) {
        for (int i = 0; i < n_out * n_in; i++)
            values[i] = value(i + seed + e * 1000);
        source.quant->encode(rows, values, (size_t)n_out * (size_t)n_in);
        w.offset = l->used;
        l->used += w.bytes;
        assert_int_equal(l->device->ops->weight_pack(l->device, &w, &source, rows, 0, n_out, NULL), MR_OK);
    }
    w.offset = l->used - w.bytes * (size_t)n_expert;
    w.bytes *= (size_t)n_expert;
    return w;
}

/* Rows through their experts: x, gathered, one product of each expert, mixed. The caller frees the [n_row][N_OUT] result. */
static float *mixed(int n_thread, int n_row, const float *score, struct routed *routed, struct op_work *work)
{
    static struct op_profile profile;
    struct lab l;
    float x[MAX_ROW * N_IN], *out = malloc((size_t)n_row * N_OUT * sizeof *out);
    assert_non_null(out);
    open_lab(&l, n_thread);
    for (int i = 0; i < n_row * N_IN; i++)
        x[i] = value(3 * i);
    const struct weight w = make_experts(&l, QUANT_F32, MAX_EXPERT, 5);
    const struct activation_view rows = {.f32 = make_tensor(&l, n_row, N_IN)};
    const struct activation_view slots = {.f32 = make_tensor(&l, n_row * MAX_USED, N_IN)};
    const struct product product = {.weight = &w, .out = make_tensor(&l, n_row * MAX_USED, N_OUT)};
    const struct tensor sum = make_tensor(&l, n_row, N_OUT);
    struct routing r = make_routing(&l, n_row, MAX_EXPERT, MAX_USED);
    l.device->ops->upload(l.device, &rows.f32, x);
    route(&l, routed, &r, score, n_row);
    op_profile_install(&profile, l.device);
    l.device->ops->gather_slots(l.device, &slots, &rows, &r);
    l.device->ops->matmul_experts(l.device, &product, 1, &slots, &r);
    l.device->ops->mix_experts(l.device, &sum, &product.out, &r);
    l.device->ops->download(l.device, out, &sum);
    op_profile_remove(&profile);
    *work = profile.total;
    close_lab(&l);
    return out;
}

static void rows_meet_their_experts(void **state)
{
    (void)state;
    float score[MAX_ROW * MAX_EXPERT];
    struct routed routed;
    struct op_work work;
    for (int i = 0; i < MAX_ROW * MAX_EXPERT; i++)
        score[i] = value(i * 29);
    float *one = mixed(1, MAX_ROW, score, &routed, &work), *three = mixed(3, MAX_ROW, score, &routed, &work);
    assert_memory_equal(one, three, MAX_ROW * N_OUT * sizeof *one);
    for (int r = 0; r < MAX_ROW; r++)
        for (int o = 0; o < N_OUT; o++) {
            double want = 0;
            for (int j = 0; j < MAX_USED; j++) {
                const int e = expert_of(routed.group, MAX_EXPERT, routed.slot[r * MAX_USED + j]);
                double y = 0;
                for (int k = 0; k < N_IN; k++)
                    y += (double)value(3 * (r * N_IN + k)) * (double)value(o * N_IN + k + 5 + e * 1000);
                want += (double)routed.weight[r * MAX_USED + j] * y;
            }
            assert_true(fabs((double)one[r * N_OUT + o] - want) < 1e-5);
        }
    free(one);
    free(three);
}

/* The same row alone and among others that share its experts or do not. */
static void a_row_does_not_see_the_others(void **state)
{
    (void)state;
    float score[MAX_ROW * MAX_EXPERT];
    struct routed routed;
    struct op_work work;
    for (int i = 0; i < MAX_ROW * MAX_EXPERT; i++)
        score[i] = value(i * 31);
    float *all = mixed(2, MAX_ROW, score, &routed, &work);
    for (int n = 1; n < MAX_ROW; n += 13) {
        float *some = mixed(2, n, score, &routed, &work);
        assert_memory_equal(all, some, (size_t)n * N_OUT * sizeof *all);
        free(some);
    }
    free(all);
}

/* Rows of int8, those of fine[n_fine] fine, through their experts. out: [n_row][N_OUT]. */
static void int8_mixed(float *out, int n_row, const int32_t *fine, int n_fine)
{
    static float score[MAX_ROW * MAX_EXPERT], x[MAX_ROW * N_IN];
    struct lab l;
    struct routed routed;
    open_lab(&l, 3);
    const struct ops *ops = l.device->ops;
    const struct weight w = make_experts(&l, QUANT_Q8_0, MAX_EXPERT, 5);
    const struct activation_view rows = {.f32 = make_tensor(&l, n_row, N_IN),
                                         .q8 = make_tensor(&l, n_row, N_IN),
                                         .q8_rest = make_tensor(&l, n_fine, N_IN),
                                         .fine_row = make_list(&l, fine, n_fine)};
    const int n_slot = n_row * MAX_USED;
    const struct activation_view slots = {.f32 = make_tensor(&l, n_slot, N_IN),
                                          .q8 = make_tensor(&l, n_slot, N_IN),
                                          .q8_rest = make_tensor(&l, n_fine * MAX_USED, N_IN),
                                          .fine_row = make_tensor(&l, 1, n_fine * MAX_USED)};
    const struct product product = {.weight = &w, .out = make_tensor(&l, n_slot, N_OUT)};
    const struct tensor sum = make_tensor(&l, n_row, N_OUT);
    struct routing r = make_routing(&l, n_row, MAX_EXPERT, MAX_USED);
    for (int i = 0; i < n_row * N_IN; i++)
        x[i] = value(3 * i);
    for (int i = 0; i < n_row * MAX_EXPERT; i++)
        score[i] = value(i * 23);
    ops->upload(l.device, &rows.f32, x);
    ops->quantize(l.device, &rows);
    route(&l, &routed, &r, score, n_row);
    ops->gather_slots(l.device, &slots, &rows, &r);
    ops->matmul_experts(l.device, &product, 1, &slots, &r);
    ops->mix_experts(l.device, &sum, &product.out, &r);
    ops->download(l.device, out, &sum);
    close_lab(&l);
}

static double distance(const float *a, const float *b, int n)
{
    double worst = 0;
    for (int i = 0; i < n; i++)
        worst = fmax(worst, fabs((double)a[i] - (double)b[i]));
    return worst;
}

static void fine_rows_are_fine_at_their_experts(void **state)
{
    (void)state;
    static float all[MAX_ROW * N_OUT], none[MAX_ROW * N_OUT], some[MAX_ROW * N_OUT], alone[N_OUT], score[MAX_ROW * MAX_EXPERT];
    static int32_t every[MAX_ROW];
    static const int32_t few[] = {0, 7, 8, 69};
    for (int i = 0; i < MAX_ROW; i++)
        every[i] = i;
    int8_mixed(all, MAX_ROW, every, MAX_ROW);
    int8_mixed(none, MAX_ROW, NULL, 0);
    int8_mixed(some, MAX_ROW, few, 4);
    int8_mixed(alone, 1, every, 1);
    assert_memory_equal(alone, all, sizeof alone);
    for (int r = 0, f = 0; r < MAX_ROW; r++) {
        const bool is_fine = f < 4 && few[f] == r;
        f += is_fine;
        assert_memory_equal(some + r * N_OUT, (is_fine ? all : none) + r * N_OUT, N_OUT * sizeof *some);
    }
    for (int i = 0; i < MAX_ROW * MAX_EXPERT; i++)
        score[i] = value(i * 23);
    struct routed routed;
    struct op_work work;
    float *exact =
        mixed(1, MAX_ROW, score, &routed, &work); /* but for the weights, which are rounded once here and there not */
    assert_true(distance(all, exact, MAX_ROW * N_OUT) < distance(none, exact, MAX_ROW * N_OUT));
    free(exact);
}

static void work_is_counted_of_the_experts_used(void **state)
{
    (void)state;
    float score[MAX_EXPERT];
    struct routed routed;
    struct op_work work;
    for (int e = 0; e < MAX_EXPERT; e++)
        score[e] = value(e);
    free(mixed(1, 1, score, &routed, &work));
    assert_true(work.ops[PEAK_F32] == 2.0 * MAX_USED * N_OUT * N_IN);
    assert_true(work.weight_bytes == (double)MAX_USED * 48 * N_IN * sizeof(float)); /* 37 outputs fill three panels */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_are_probabilities_in_descending_order),
        cmocka_unit_test(ties_go_to_the_lower_id),
        cmocka_unit_test(a_score_that_is_no_number_makes_the_rows_weights_nan),
        cmocka_unit_test(slots_are_sorted_by_expert_and_row),
        cmocka_unit_test(rows_meet_their_experts),
        cmocka_unit_test(a_row_does_not_see_the_others),
        cmocka_unit_test(fine_rows_are_fine_at_their_experts),
        cmocka_unit_test(work_is_counted_of_the_experts_used),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
