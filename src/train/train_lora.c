/* train_lora.c: the thin products beside the model's own. */
#include "train/train_lora.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/random.h"
#include "train/row_ops.h"
#include "train/train_pass.h"

static const struct {
    const char *name;
    enum param which;
} targets_of[] = {{"q", PARAM_Q},       {"k", PARAM_K},   {"v", PARAM_V},      {"o", PARAM_O},
                  {"gate", PARAM_GATE}, {"up", PARAM_UP}, {"down", PARAM_DOWN}};
enum {
    N_TARGETS = sizeof targets_of / sizeof *targets_of
};
const char lora_targets_all[] = "q,k,v,o,gate,up,down";

/* The bit of "q" or "q_proj"; 0: there is none. */
static unsigned target_bit(const char *word, size_t n)
{
    static const char tail[] = "_proj";
    const size_t n_tail = sizeof tail - 1;
    if (n > n_tail && memcmp(word + n - n_tail, tail, n_tail) == 0)
        n -= n_tail;
    for (int i = 0; i < N_TARGETS; i++)
        if (strlen(targets_of[i].name) == n && memcmp(targets_of[i].name, word, n) == 0)
            return 1u << targets_of[i].which;
    return 0;
}

enum mr_status lora_targets_parse(unsigned *targets, const char *list, struct mr_error *err)
{
    *targets = 0;
    if (strcmp(list, "all") == 0)
        list = lora_targets_all;
    for (size_t n; *list != '\0'; list += n + (list[n] == ',')) {
        n = strcspn(list, ",");
        const unsigned bit = target_bit(list, n);
        if (bit == 0)
            return mr_fail(err, MR_BAD_INPUT, "'%.*s' is no product that an adapter can add to: %s, or all",
                           n < 40 ? (int)n : 40, list, lora_targets_all);
        *targets |= bit;
    }
    return *targets != 0 ? MR_OK
                         : mr_fail(err, MR_BAD_INPUT, "an adapter needs products to add to: %s, or all", lora_targets_all);
}

static size_t floats_of(const struct lora *l, enum param which)
{
    const struct param_place p = train_param(l->base, 0, which);
    return l->targets >> which & 1 ? (size_t)l->rank * ((size_t)p.n_in + (size_t)p.n_out) : 0;
}

static size_t floats_before(const struct lora *l, enum param end)
{
    size_t n = 0;
    for (enum param p = N_GLOBAL_PARAMS; p < end; p++)
        n += floats_of(l, p);
    return n;
}

struct param_place lora_a(const struct lora *l, int layer, enum param which)
{
    if (floats_of(l, which) == 0)
        return (struct param_place){0};
    return (struct param_place){(size_t)layer * floats_before(l, N_PARAMS) + floats_before(l, which), l->rank,
                                train_param(l->base, layer, which).n_in};
}

struct param_place lora_b(const struct lora *l, int layer, enum param which)
{
    const struct param_place a = lora_a(l, layer, which);
    if (a.n_out == 0)
        return a;
    return (struct param_place){a.at + param_floats(a), train_param(l->base, layer, which).n_out, l->rank};
}

/* Uniform in (-1, 1): the i-th of a stream. */
static float uniform(uint64_t seed, uint64_t i)
{
    const uint32_t counter[4] = {(uint32_t)i, (uint32_t)(i >> 32), 0, 0}, key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    uint32_t word[4];
    philox4x32(word, counter, key);
    return (float)(((double)word[0] + 0.5) / 2147483648.0 - 1);
}

static void set_start(struct lora *l, uint64_t seed)
{
    for (int layer = 0; layer < l->base->h.n_layer; layer++)
        for (enum param p = N_GLOBAL_PARAMS; p < N_PARAMS; p++) {
            const struct param_place a = lora_a(l, layer, p);
            for (size_t i = 0; i < (a.n_out > 0 ? param_floats(a) : 0); i++)
                l->w[a.at + i] = uniform(seed, a.at + i) / sqrtf((float)a.n_in);
        }
}

enum mr_status lora_create(struct lora *out, const struct train_model *base, int rank, float alpha, unsigned targets,
                           uint64_t seed, struct mr_error *err)
{
    *out = (struct lora){.base = base, .rank = rank, .alpha = alpha, .targets = targets};
    if (rank < 1 || rank > LORA_RANK_MAX)
        return mr_fail(err, MR_BAD_INPUT, "an adapter of rank %d, must be 1 to %d", rank, LORA_RANK_MAX);
    if (!(alpha > 0 && alpha < INFINITY))
        return mr_fail(err, MR_BAD_INPUT, "an adapter's alpha is %g, must be above 0", (double)alpha);
    if (!size_mul(&out->n_weight, floats_before(out, N_PARAMS), (size_t)base->h.n_layer) || out->n_weight == 0)
        return mr_fail(err, MR_BAD_INPUT, "an adapter needs products to add to: %s", lora_targets_all);
    out->w = mem_zero_array(out->n_weight, sizeof *out->w);
    if (out->w == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for an adapter of %zu weights", out->n_weight);
    set_start(out, seed);
    return MR_OK;
}

void lora_release(struct lora *l)
{
    free(l->w);
    l->w = NULL;
}

/* u = alpha / rank x A^T */
static void narrow(struct compute *c, const struct lora *l, struct param_place a, float *u, const float *x, int n_row)
{
    product_forward(c, u, x, l->w + a.at, n_row, l->rank, a.n_in, false);
    rows_scale(c, u, l->alpha / (float)l->rank, n_row, l->rank);
}

void lora_forward(struct compute *c, const struct lora *l, int layer, enum param which, float *y, const float *x, float *u,
                  int n_row)
{
    const struct param_place a = lora_a(l, layer, which), b = lora_b(l, layer, which);
    if (a.n_out == 0)
        return;
    narrow(c, l, a, u, x, n_row);
    product_forward(c, y, u, l->w + b.at, n_row, b.n_out, l->rank, true);
}

void lora_backward(struct compute *c, const struct lora *l, int layer, enum param which, float *grad, float *dx,
                   const float *dy, const float *x, float *u, float *du, int n_row)
{
    const struct param_place a = lora_a(l, layer, which), b = lora_b(l, layer, which);
    if (a.n_out == 0)
        return;
    narrow(c, l, a, u, x, n_row);
    product_weight_grad(c, grad + b.at, dy, u, n_row, b.n_out, l->rank);
    product_input_grad(c, du, dy, l->w + b.at, n_row, b.n_out, l->rank, false);
    rows_scale(c, du, l->alpha / (float)l->rank, n_row, l->rank);
    product_weight_grad(c, grad + a.at, du, x, n_row, l->rank, a.n_in);
    product_input_grad(c, dx, du, l->w + a.at, n_row, l->rank, a.n_in, true);
}

double lora_flops_per_token(const struct lora *l, int n_tok)
{
    return train_flops_per_token(l->base, n_tok) - 2 * train_product_weights(l->base) + 6 * (double)l->n_weight;
}
