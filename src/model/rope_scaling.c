/* rope_scaling.c: wavelengths from a file's keys. */
#include "model/rope_scaling.h"

#include <string.h>

#include "base/trigonometry.h"

struct yarn {
    double factor;
    double attn_factor;
    double beta_fast, beta_slow; /* turns within the original context above and below which nothing, or all, is stretched */
    double n_ctx_original;
};

void rope_plain(struct rope *out, enum rope_style style, int n_rot, double base)
{
    *out = (struct rope){.style = style, .n_rot = n_rot, .scale = 1};
    for (int i = 0; i < n_rot / 2; i++)
        out->inverse_wavelength[i] = (float)(1.0 / math_power(base, (double)(float)(2 * i) / n_rot));
}

/* The pair (not an integer) that turns `turns` times within the original context. */
static double pair_of_turns(const struct yarn *y, double turns, int n_rot, double base)
{
    const double pi = 3.14159265358979323846;
    return n_rot * math_log(y->n_ctx_original / (turns * 2 * pi)) / (2 * math_log(base));
}

static double floor_of(double x)
{
    const double whole = (double)(int64_t)x;
    return whole > x ? whole - 1 : whole;
}

static double between(double x, double low, double high) { return x < low ? low : x > high ? high : x; }

static void stretch_yarn(struct rope *rope, const struct yarn *y, double base)
{
    const double last = rope->n_rot - 1;
    const double low = between(floor_of(pair_of_turns(y, y->beta_fast, rope->n_rot, base)), 0, last);
    double high = between(-floor_of(-pair_of_turns(y, y->beta_slow, rope->n_rot, base)), 0, last);
    if (high == low)
        high += 0.001;
    for (int i = 0; i < rope->n_rot / 2; i++) {
        const double ramp = between((i - low) / (high - low), 0, 1), plain = (double)rope->inverse_wavelength[i];
        rope->inverse_wavelength[i] = (float)(plain / y->factor * ramp + plain * (1 - ramp));
    }
    const double grown = y->factor > 1 ? 0.1 * math_log(y->factor) + 1 : 1;
    rope->scale = (float)(y->attn_factor * grown);
}

static enum mr_status read_yarn(struct rope *rope, const struct hparams *h, const struct gguf *g, float factor, float base,
                                struct mr_error *err)
{
    float attn, fast, slow;
    int original;
    MR_TRY(hparams_positive_or(h, g, "rope.scaling.attn_factor", 1, &attn, err));
    MR_TRY(hparams_positive_or(h, g, "rope.scaling.yarn_attn_factor", attn, &attn, err));
    MR_TRY(hparams_positive_or(h, g, "rope.scaling.yarn_beta_fast", 32, &fast, err));
    MR_TRY(hparams_positive_or(h, g, "rope.scaling.yarn_beta_slow", 1, &slow, err));
    MR_TRY(hparams_int_or(h, g, "rope.scaling.original_context_length", 1, INT32_MAX, h->n_ctx_train, &original, err));
    const struct yarn y = {(double)factor, (double)attn, (double)fast, (double)slow, original};
    stretch_yarn(rope, &y, (double)base);
    return MR_OK;
}

static enum mr_status read_linear(struct rope *rope, float factor)
{
    for (int i = 0; i < rope->n_rot / 2; i++)
        rope->inverse_wavelength[i] /= factor;
    return MR_OK;
}

static bool equals(struct gguf_string s, const char *word) { return strlen(word) == s.n && memcmp(word, s.s, s.n) == 0; }

static enum mr_status read_scaling(struct rope *rope, const struct hparams *h, const struct gguf *g, float base,
                                   struct mr_error *err)
{
    const struct hparams_key key = hparams_key(h, "rope.scaling.type");
    float factor;
    MR_TRY(hparams_positive_or(h, g, "rope.scale_linear", 1, &factor, err));
    MR_TRY(hparams_positive_or(h, g, "rope.scaling.factor", factor, &factor, err));
    struct gguf_string type = {"linear", 6}; /* a factor without a type is linear */
    if (gguf_value_find(g, key.s) != NULL)
        MR_TRY(gguf_get_string(g, key.s, &type, err));
    if (equals(type, "none"))
        return MR_OK;
    if (equals(type, "linear"))
        return read_linear(rope, factor);
    if (equals(type, "yarn"))
        return read_yarn(rope, h, g, factor, base, err);
    return mr_fail(err, MR_NO_SUPPORT, "key '%s': rope scaling '%.*s' is not known", key.s, type.n < 64 ? (int)type.n : 64,
                   type.s);
}

static enum mr_status read_factors(struct rope *rope, const struct gguf *g, struct mr_error *err)
{
    const struct gguf_tensor *t = gguf_tensor_find(g, "rope_freqs.weight");
    if (t == NULL)
        return MR_OK;
    const int n = rope->n_rot / 2;
    if (t->quant->type != QUANT_F32 || t->n_dims != 1 || t->dims[0] != n)
        return mr_fail(err, MR_BAD_FORMAT, "tensor 'rope_freqs.weight' is %s of %lld, not f32 of %d", t->quant->name,
                       (long long)t->dims[0], n);
    float factor[ATTENTION_MAX_HEAD_DIM / 2];
    MR_TRY(gguf_read(g, t, 0, factor, (size_t)n * sizeof *factor, err));
    for (int i = 0; i < n; i++) {
        if (!(factor[i] > 0) || factor[i] > 1e30f)
            return mr_fail(err, MR_BAD_FORMAT, "tensor 'rope_freqs.weight': value %d is %g", i, (double)factor[i]);
        rope->inverse_wavelength[i] /= factor[i];
    }
    return MR_OK;
}

enum mr_status rope_read(struct rope *out, const struct hparams *h, const struct gguf *g, enum rope_style style,
                         struct mr_error *err)
{
    float base;
    int n_rot;
    MR_TRY(hparams_positive_or(h, g, "rope.freq_base", 10000, &base, err));
    if (base <= 1)
        return mr_fail(err, MR_BAD_FORMAT, "key '%s': %g is not above 1", hparams_key(h, "rope.freq_base").s, (double)base);
    MR_TRY(hparams_int_or(h, g, "rope.dimension_count", 2, h->head_dim, h->head_dim, &n_rot, err));
    if (n_rot % 2 != 0)
        return mr_fail(err, MR_BAD_FORMAT, "key '%s': %d is odd", hparams_key(h, "rope.dimension_count").s, n_rot);
    rope_plain(out, style, n_rot, (double)base);
    MR_TRY(read_scaling(out, h, g, base, err));
    return read_factors(out, g, err);
}
