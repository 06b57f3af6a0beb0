/* greedy_batch.c: greedy answers to several prompts at once, all in one batch.
 *   greedy_batch MODEL PRECISION THREADS N < prompts > int32 answer[N] for each prompt
 * A prompt is int32 n_token, int32 0, int32 token[n_token]. */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "golden_model.h"

enum {
    MAX_PROMPTS = 32,
    MAX_TOKEN = 2048,
    CHUNK = 512
};

struct prompt {
    int32_t token[MAX_TOKEN];
    int n_token;
    kv_seq seq;
    int32_t *answer; /* [n] */
};

static int32_t best_of(const float *logits, int n_vocab)
{
    int32_t best = 0;
    for (int i = 1; i < n_vocab; i++)
        best = logits[i] > logits[best] ? i : best;
    return best;
}

static void prefill(struct golden_model *g, struct prompt *p)
{
    kv_seq seq[CHUNK];
    struct mr_error err;
    kv_seq_open(model_kv_cache(g->kv), &p->seq);
    for (int i = 0; i < CHUNK; i++)
        seq[i] = p->seq;
    for (int i = 0; i < p->n_token; i += CHUNK) {
        const struct batch batch = {
            .n_row = p->n_token - i < CHUNK ? p->n_token - i : CHUNK, .token = p->token + i, .seq = seq};
        golden_check(model_forward(g->model, g->kv, &batch, &err), &err);
    }
    p->answer[0] = best_of(model_logits(g->model, 0), model_info(g->model)->n_vocab);
}

static void decode_all(struct golden_model *g, const struct prompt *p, int n_prompt, int step)
{
    int32_t token[MAX_PROMPTS];
    kv_seq seq[MAX_PROMPTS];
    bool wants[MAX_PROMPTS];
    struct mr_error err;
    for (int i = 0; i < n_prompt; i++) {
        token[i] = p[i].answer[step - 1];
        seq[i] = p[i].seq;
        wants[i] = true;
    }
    const struct batch batch = {.n_row = n_prompt, .token = token, .seq = seq, .wants_logits = wants};
    golden_check(model_forward(g->model, g->kv, &batch, &err), &err);
    for (int i = 0; i < n_prompt; i++)
        p[i].answer[step] = best_of(model_logits(g->model, i), model_info(g->model)->n_vocab);
}

int main(int argc, char **argv)
{
    static struct prompt prompt[MAX_PROMPTS];
    int32_t head[2];
    int n_prompt = 0;
    const int n = argc == 5 ? atoi(argv[4]) : 0;
    if (n < 1 || n > MAX_TOKEN / 2)
        return 2;
    struct golden_model g;
    golden_open(&g, argv[1], argv[2], false, atoi(argv[3]), MAX_PROMPTS, MAX_PROMPTS, MAX_TOKEN);
    for (; n_prompt < MAX_PROMPTS && fread(head, sizeof head, 1, stdin) == 1; n_prompt++) {
        struct prompt *p = &prompt[n_prompt];
        p->n_token = head[0];
        p->answer = malloc((size_t)n * sizeof *p->answer);
        if (p->answer == NULL || head[0] < 1 || head[0] > MAX_TOKEN - n ||
            fread(p->token, sizeof *p->token, (size_t)head[0], stdin) != (size_t)head[0])
            return 2;
        prefill(&g, p);
    }
    for (int step = 1; step < n; step++)
        decode_all(&g, prompt, n_prompt, step);
    for (int i = 0; i < n_prompt; i++) {
        fwrite(prompt[i].answer, sizeof(int32_t), (size_t)n, stdout);
        free(prompt[i].answer);
    }
    golden_close(&g);
    return 0;
}
