/* precision_loss.c: what the default precision costs against fp32 on token sequences.
 *   precision_loss MODEL THREADS [kv-int8] < sequences > one JSON object
 * With kv-int8: what int8 keys and values alone cost, fp32 everywhere else. A sequence is as for logits_dump. Over all
 * positions of all sequences: the mean Kullback-Leibler divergence of the default precision from fp32, in nats; and the
 * perplexity of both over the tokens that have one before them. */
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "golden_model.h"

enum {
    MAX_TOKEN = 1 << 16,
    CHUNK = 64
};

struct sums {
    double kl;
    double nll[2]; /* fp32, default */
    long n, n_next;
};

static double log_sum(const float *x, int n)
{
    double top = (double)x[0], sum = 0;
    for (int i = 1; i < n; i++)
        top = (double)x[i] > top ? (double)x[i] : top;
    for (int i = 0; i < n; i++)
        sum += exp((double)x[i] - top);
    return top + log(sum);
}

/* next: the token behind the position, -1: none. */
static void add_position(struct sums *s, const float *exact, const float *rounded, int n, int next)
{
    const double log_p = log_sum(exact, n), log_q = log_sum(rounded, n);
    double kl = 0;
    for (int i = 0; i < n; i++) {
        const double p = (double)exact[i] - log_p, q = (double)rounded[i] - log_q;
        kl += exp(p) * (p - q);
    }
    s->kl += kl;
    s->n++;
    if (next < 0)
        return;
    s->nll[0] -= (double)exact[next] - log_p;
    s->nll[1] -= (double)rounded[next] - log_q;
    s->n_next++;
}

static void run_chunk(struct golden_model *g, kv_seq s, const int32_t *token, int n)
{
    kv_seq seq[CHUNK];
    bool wants[CHUNK];
    struct mr_error err;
    for (int i = 0; i < n; i++) {
        seq[i] = s;
        wants[i] = true;
    }
    const struct batch batch = {.n_row = n, .token = token, .seq = seq, .wants_logits = wants};
    golden_check(model_forward(g->model, g->kv, &batch, &err), &err);
}

static void run_sequence(struct golden_model g[2], struct sums *sums, const int32_t *token, int n_token)
{
    kv_seq s[2];
    for (int m = 0; m < 2; m++)
        kv_seq_open(model_kv_cache(g[m].kv), &s[m]);
    for (int i = 0; i < n_token; i += CHUNK) {
        const int n = n_token - i < CHUNK ? n_token - i : CHUNK;
        run_chunk(&g[0], s[0], token + i, n);
        run_chunk(&g[1], s[1], token + i, n);
        for (int r = 0; r < n; r++)
            add_position(sums, model_logits(g[0].model, r), model_logits(g[1].model, r), model_info(g[0].model)->n_vocab,
                         i + r + 1 < n_token ? token[i + r + 1] : -1);
    }
    for (int m = 0; m < 2; m++)
        kv_seq_close(model_kv_cache(g[m].kv), s[m]);
}

int main(int argc, char **argv)
{
    static int32_t token[MAX_TOKEN];
    int32_t head[2];
    const bool kv_int8 = argc == 4 && strcmp(argv[3], "kv-int8") == 0;
    if (argc != 3 && !kv_int8)
        return 2;
    struct golden_model g[2];
    golden_open(&g[0], argv[1], "fp32", false, atoi(argv[2]), CHUNK, 1, 1 << 13);
    golden_open(&g[1], argv[1], kv_int8 ? "fp32" : "auto", kv_int8, atoi(argv[2]), CHUNK, 1, 1 << 13);
    struct sums sums = {0};
    while (fread(head, sizeof head, 1, stdin) == 1) {
        if (head[0] < 1 || head[0] > 1 << 13 || fread(token, sizeof *token, (size_t)head[0], stdin) != (size_t)head[0])
            return 2;
        run_sequence(g, &sums, token, head[0]);
    }
    printf("{\"kl\": %.9g, \"positions\": %ld, \"perplexity_fp32\": %.9g, \"perplexity\": %.9g}\n", sums.kl / (double)sums.n,
           sums.n, exp(sums.nll[0] / (double)sums.n_next), exp(sums.nll[1] / (double)sums.n_next));
    golden_close(&g[0]);
    golden_close(&g[1]);
    return 0;
}
