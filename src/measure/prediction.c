/* prediction.c: sums over a vocabulary, in pieces that compilers turn into vectors. */
#include "measure/prediction.h"

#include "base/float_math.h"
#include "sample/candidates.h"

enum {
    PIECE = 256,
    LANES = 8
};

struct prediction prediction_of(const float *logits, int n)
{
    int32_t best = 0;
    for (int i = 1; i < n; i++)
        if (logits[i] > logits[best])
            best = i;
    return (struct prediction){logits[best] + math_log(sum_exp(logits, n, logits[best])), best};
}

/* sum of p (logits of p - logits of q), to which the totals are added once: probabilities add up to 1. */
double prediction_divergence(const float *p_logits, const struct prediction *p, const float *q_logits,
                             const struct prediction *q, int n)
{
    double lane[LANES] = {0}, sum = 0;
    float term[PIECE];
    const float total = (float)p->log_total;
    for (int first = 0; first < n; first += PIECE) {
        const int m = n - first < PIECE ? n - first : PIECE;
        for (int i = 0; i < m; i++)
            term[i] = math_exp(p_logits[first + i] - total) * (p_logits[first + i] - q_logits[first + i]);
        for (int i = 0; i < m; i++)
            lane[i % LANES] += term[i];
    }
    for (int i = 0; i < LANES; i++)
        sum += lane[i];
    sum += q->log_total - p->log_total;
    return sum > 0 ? sum : 0;
}
