/* probe.c: a forward pass with a hook before the products that write to the residual stream. */
#include "compress/probe.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "train/loss.h"

struct probe {
    const struct train_model *m;
    struct train_pass *pass;
    int n_seq, n_label;
    int32_t *token, *label; /* [rows] */
    struct row_loss *rows;
    float *head, *channel; /* [n_layer][n_head], [n_layer][n_ff] */
};

static double cross_entropy(void *context, struct compute *c, float *logits, int first, int n, bool backward)
{
    struct probe *p = context;
    const struct loss_targets t = {.label = p->label + first, .ce_weight = 1, .temperature = 1, .scale = 1};
    double sum = 0;
    loss_rows(c, p->rows, &t, logits, n, p->m->h.n_vocab, backward);
    for (int i = 0; i < n; i++)
        sum += (double)p->rows[i].cross_entropy;
    return sum;
}

static void take_away(void *context, int layer, enum param which, float *x, int n_row)
{
    struct probe *p = context;
    const float *keep = which == PARAM_O ? probe_heads(p, layer) : probe_channels(p, layer);
    const int n = which == PARAM_O ? p->m->h.n_head : p->m->h.n_ff, each = which == PARAM_O ? p->m->h.head_dim : 1;
    for (int i = 0; i < n; i++)
        for (int r = 0; r < n_row && !(keep[i] > 0); r++)
            memset(x + ((size_t)r * (size_t)n + (size_t)i) * (size_t)each, 0, (size_t)each * sizeof *x);
}

float *probe_heads(struct probe *p, int layer) { return p->head + (size_t)layer * (size_t)p->m->h.n_head; }
float *probe_channels(struct probe *p, int layer) { return p->channel + (size_t)layer * (size_t)p->m->h.n_ff; }

static enum mr_status read_windows(struct probe *p, const struct text_windows *w, struct mr_error *err)
{
    const struct hparams *h = &p->m->h;
    const size_t rows = (size_t)p->n_seq * (size_t)w->n_tok, n_head = (size_t)h->n_layer * (size_t)h->n_head,
                 n_channel = (size_t)h->n_layer * (size_t)h->n_ff;
    p->token = mem_array(rows, sizeof *p->token);
    p->label = mem_array(rows, sizeof *p->label);
    p->rows = mem_array(rows, sizeof *p->rows);
    p->head = mem_array(n_head, sizeof *p->head);
    p->channel = mem_array(n_channel, sizeof *p->channel);
    if (p->token == NULL || p->label == NULL || p->rows == NULL || p->head == NULL || p->channel == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for %d windows of text", p->n_seq);
    for (int i = 0; i < p->n_seq; i++)
        text_windows_read(w, (uint32_t)i, p->token + i * w->n_tok, p->label + i * w->n_tok);
    for (size_t i = 0; i < rows; i++)
        p->n_label += p->label[i] >= 0;
    for (size_t i = 0; i < n_head; i++)
        p->head[i] = 1;
    for (size_t i = 0; i < n_channel; i++)
        p->channel[i] = 1;
    return MR_OK;
}

enum mr_status probe_create(struct probe **out, const struct train_model *m, const struct text_windows *windows, int n_window,
                            struct thread_pool *pool, unsigned cpu_features, struct mr_error *err)
{
    *out = NULL;
    struct probe *p = mem_zero_array(1, sizeof *p);
    if (p == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for a probe");
    p->m = m;
    p->n_seq = n_window;
    const struct train_pass_options o = {
        .n_seq = n_window, .n_tok = windows->n_tok, .is_forward = true, .pool = pool, .cpu_features = cpu_features};
    enum mr_status status = train_pass_create(&p->pass, m, &o, err);
    if (status == MR_OK)
        status = read_windows(p, windows, err);
    if (status == MR_OK)
        *out = p;
    else
        probe_free(p);
    return status;
}

void probe_free(struct probe *p)
{
    if (p == NULL)
        return;
    train_pass_free(p->pass);
    free(p->token);
    free(p->label);
    free(p->rows);
    free(p->head);
    free(p->channel);
    free(p);
}

double probe_loss(struct probe *p, int layer)
{
    const struct train_loss loss = {.logits = cross_entropy, .branch = take_away, .context = p};
    const double sum = layer == 0 ? train_pass_run(p->pass, p->token, p->n_seq, &loss, NULL)
                                  : train_pass_rerun(p->pass, p->n_seq, layer, &loss);
    return sum / p->n_label;
}
