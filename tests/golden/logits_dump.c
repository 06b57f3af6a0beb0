/* logits_dump.c: logits of token sequences, for comparison with references.
 *   logits_dump [--lora FILE] MODEL PRECISION THREADS CHUNK N_ID ID...   < sequences > figures
 * A sequence on the input is int32 n_token, int32 n_logits, int32 token[n_token]. For each of its last n_logits positions the
 * output has int32 best id, float best logit, float second best logit, float logit of each ID. */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "golden_model.h"

enum {
    MAX_TOKEN = 1 << 16,
    MAX_IDS = 256
};

static void write_row(const float *logits, int n_vocab, const int *id, int n_id)
{
    int32_t best = 0;
    for (int i = 1; i < n_vocab; i++)
        best = logits[i] > logits[best] ? i : best;
    float second = -3.0e38f;
    for (int i = 0; i < n_vocab; i++)
        second = i != best && logits[i] > second ? logits[i] : second;
    fwrite(&best, sizeof best, 1, stdout);
    fwrite(&logits[best], sizeof *logits, 1, stdout);
    fwrite(&second, sizeof second, 1, stdout);
    for (int i = 0; i < n_id; i++)
        fwrite(&logits[id[i]], sizeof *logits, 1, stdout);
}

static void run_sequence(struct golden_model *g, const int32_t *token, int n_token, int n_logits, int chunk, const int *id,
                         int n_id)
{
    static kv_seq seq[MAX_TOKEN];
    static bool wants[MAX_TOKEN];
    static const struct adapter_set *adapters[MAX_TOKEN];
    struct mr_error err;
    kv_seq s;
    kv_seq_open(model_kv_cache(g->kv), &s);
    for (int i = 0; i < n_token; i++) {
        seq[i] = s;
        wants[i] = i >= n_token - n_logits;
        adapters[i] = &g->adapters;
    }
    for (int i = 0; i < n_token;) {
        int n = n_token - i < chunk ? n_token - i : chunk;
        if (wants[i] && n > 64) /* rows with logits at a time, see main */
            n = 64;
        else if (!wants[i] && i + n > n_token - n_logits)
            n = n_token - n_logits - i;
        const struct batch batch = {
            .n_row = n, .token = token + i, .seq = seq, .wants_logits = wants + i, .adapters = adapters};
        golden_check(model_forward(g->model, g->kv, &batch, &err), &err);
        for (int k = 0; k < model_n_logits(g->model); k++)
            write_row(model_logits(g->model, k), model_info(g->model)->n_vocab, id, n_id);
        i += n;
    }
    kv_seq_close(model_kv_cache(g->kv), s);
}

int main(int argc, char **argv)
{
    static int32_t token[MAX_TOKEN];
    int32_t head[2];
    int id[MAX_IDS];
    const char *lora = argc > 2 && strcmp(argv[1], "--lora") == 0 ? argv[2] : NULL;
    argc -= lora != NULL ? 2 : 0;
    argv += lora != NULL ? 2 : 0;
    if (argc < 6 || atoi(argv[5]) != argc - 6 || argc - 6 > MAX_IDS)
        return 2;
    const int chunk = atoi(argv[4]), n_id = argc - 6;
    for (int i = 0; i < n_id; i++)
        id[i] = atoi(argv[6 + i]);
    struct golden_model g;
    golden_open(&g, argv[1], argv[2], false, atoi(argv[3]), 64, 1, 1 << 14);
    if (lora != NULL)
        golden_add_adapter(&g, lora);
    while (fread(head, sizeof head, 1, stdin) == 1) {
        if (head[0] < 1 || head[0] > MAX_TOKEN || head[1] > head[0] ||
            fread(token, sizeof *token, (size_t)head[0], stdin) != (size_t)head[0])
            return 2;
        run_sequence(&g, token, head[0], head[1], chunk, id, n_id);
    }
    golden_close(&g);
    return 0;
}
