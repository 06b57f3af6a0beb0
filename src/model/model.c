/* model.c: opening a model, and one forward call. */
#include "model/model.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/memory_free.h"
#include "model/family.h"
#include "model/model_state.h"

static const char *const precision_names[N_PRECISIONS] = {"auto", "fp32", "bf16", "fp16", "int8", "int4"};

bool precision_from_name(enum precision *out, const char *name)
{
    for (int i = 0; i < N_PRECISIONS; i++)
        if (strcmp(name, precision_names[i]) == 0) {
            *out = (enum precision)i;
            return true;
        }
    return false;
}

const char *precision_name(enum precision p) { return precision_names[p]; }

enum weight_form model_weight_form(enum precision p)
{
    static const enum weight_form form[N_PRECISIONS] = {
        [PRECISION_AUTO] = WEIGHT_AUTO, [PRECISION_FP32] = WEIGHT_F32,    [PRECISION_BF16] = WEIGHT_BF16,
        [PRECISION_FP16] = WEIGHT_F16,  [PRECISION_INT8] = WEIGHT_8_BITS, [PRECISION_INT4] = WEIGHT_4_BITS,
    };
    return form[p];
}

void model_options_defaults(struct model_options *options)
{
    *options = (struct model_options){.max_row = 512, .max_logits = 64};
}

static enum mr_status check_options(const struct model_options *o, struct mr_error *err)
{
    if (o->max_row < 1 || o->max_row > 1 << 16 || o->max_logits < 1 || o->max_logits > 1 << 16)
        return mr_fail(err, MR_BAD_INPUT, "a batch of %d rows, %d of them with logits: not in 1..%d", o->max_row, o->max_logits,
                       1 << 16);
    return MR_OK;
}

static void fill_info(struct model *m)
{
    static const char *const kv_names[N_KV_TYPES] = {"f32", "f16", "bf16", "int8"};
    const struct hparams *h = &m->h;
    m->info = (struct model_info){
        .family = h->arch,
        .kv_type = kv_names[m->kv_type],
        .precision = precision_name(m->options.precision != PRECISION_AUTO ? m->options.precision
                                    : m->w.has_q8                          ? PRECISION_INT8
                                    : m->w.rounds_bf16                     ? PRECISION_BF16
                                                                           : PRECISION_FP32),
        .n_vocab = h->n_vocab,
        .n_ctx_train = h->n_ctx_train,
        .n_position = h->n_position,
        .n_layer = h->n_layer,
        .n_embd = h->n_embd,
        .pooling = h->pooling,
        .n_head = h->n_head,
        .n_head_kv = h->n_head_kv,
        .head_dim = h->head_dim,
        .n_expert = h->n_expert,
        .n_expert_used = h->n_expert_used,
        .n_parameter = m->w.n_parameter,
        .n_parameter_used = m->w.n_parameter_used,
        .activation_bytes = m->act.bytes,
        .weight_bytes = m->w.bytes,
        .max_row = m->options.max_row,
        .max_logits = m->options.max_logits,
    };
}

static enum mr_status check_memory(const struct gguf *g, const struct model_options *options, struct mr_error *err)
{
    struct model_memory need;
    MR_TRY(model_estimate(&need, g, options, 1, err));
    const size_t have = options->memory_bytes > 0 ? options->memory_bytes : memory_free_bytes();
    if (need.weight_bytes > have || need.activation_bytes > have - need.weight_bytes)
        return mr_fail(err, MR_NO_MEMORY, "weights take %.3f GB and activations %.3f GB, but %.3f GB of memory are free",
                       (double)need.weight_bytes * 1e-9, (double)need.activation_bytes * 1e-9, (double)have * 1e-9);
    return MR_OK;
}

static enum mr_status build(struct model *m, const struct gguf *g, struct mr_error *err)
{
    const size_t n_row = (size_t)m->options.max_row, n_logits = (size_t)m->options.max_logits;
    MR_TRY(check_memory(g, &m->options, err));
    MR_TRY(hparams_read(&m->h, g, err));
    MR_TRY(weights_load(&m->w, &m->h, g, &m->options, false, err));
    MR_TRY(activations_create(&m->act, &m->h, &m->w, &m->options, false, err));
    m->position = mem_array(n_row, sizeof *m->position);
    m->logits_row = mem_array(n_logits, sizeof *m->logits_row);
    m->hidden_row = mem_array(n_row, sizeof *m->hidden_row);
    m->hidden = mem_array(n_row * (size_t)m->h.n_embd, sizeof *m->hidden);
    m->fine.row = mem_array(n_row, sizeof *m->fine.row);
    m->fine_logits.row = mem_array(n_logits, sizeof *m->fine_logits.row);
    m->blocks[0] = mem_array(n_row, sizeof *m->blocks[0]);
    m->blocks[1] = mem_array(n_row, sizeof *m->blocks[1]);
    m->logits = mem_array(n_logits * (size_t)m->h.n_vocab, sizeof *m->logits);
    if (m->position == NULL || m->logits_row == NULL || m->fine.row == NULL || m->fine_logits.row == NULL ||
        m->blocks[0] == NULL || m->blocks[1] == NULL || m->logits == NULL || m->hidden_row == NULL || m->hidden == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for batches of %zu rows, %zu with logits", n_row, n_logits);
    fill_info(m);
    return MR_OK;
}

enum mr_status model_open(struct model **out, const struct gguf *g, const struct model_options *options, struct mr_error *err)
{
    *out = NULL;
    MR_TRY(check_options(options, err));
    struct model *m = calloc(1, sizeof *m);
    if (m == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for a model");
    m->options = *options;
    m->kv_type = model_kv_type(options);
    const enum mr_status status = build(m, g, err);
    if (status != MR_OK) {
        model_free(m);
        return status;
    }
    *out = m;
    return MR_OK;
}

enum mr_status model_pack(const struct model *m, const struct gguf *g, const char *path,
                          bool (*progress)(void *context, size_t done, size_t total), void *progress_context,
                          struct mr_error *err)
{
    const struct progress p = {progress, progress_context};
    return weights_write_packed(&m->w, g, path, &p, err);
}

void model_free(struct model *m)
{
    if (m == NULL)
        return;
    activations_release(&m->act);
    weights_release(&m->w);
    free(m->position);
    free(m->logits_row);
    free(m->fine.row);
    free(m->fine_logits.row);
    free(m->blocks[0]);
    free(m->blocks[1]);
    free(m->logits);
    free(m->hidden_row);
    free(m->hidden);
    adapter_work_free(m->adapter_work);
    free(m);
}

const struct model_info *model_info(const struct model *m) { return &m->info; }

enum mr_status model_estimate(struct model_memory *out, const struct gguf *g, const struct model_options *options, int n_ctx,
                              struct mr_error *err)
{
    struct hparams h;
    struct weights w;
    struct activations a;
    struct kv_config kv;
    *out = (struct model_memory){0};
    MR_TRY(check_options(options, err));
    MR_TRY(hparams_read(&h, g, err));
    MR_TRY(weights_load(&w, &h, g, options, true, err));
    const enum mr_status status = activations_create(&a, &h, &w, options, true, err);
    out->weight_bytes = w.bytes;
    out->weight_bytes_used = w.bytes_used;
    out->activation_bytes = a.bytes + (size_t)options->max_logits * (size_t)h.n_vocab * sizeof(float) +
                            (size_t)options->max_row * (size_t)h.n_embd * sizeof(float);
    weights_release(&w);
    MR_TRY(status);
    model_kv_plan(&kv, &h, model_kv_type(options), options->max_row, 1, n_ctx, n_ctx);
    for (int i = 0; i < kv.n_group; i++) {
        out->kv_bytes_per_token += kv.group[i].bytes_per_token;
        out->kv_bytes += kv.group[i].bytes_per_token * KV_BLOCK * (size_t)kv.group[i].n_block;
    }
    return MR_OK;
}

const char *model_kernel_name(const struct gguf_tensor *t, const struct model_options *options)
{
    struct weight w;
    struct device *d = options->device;
    if (t->n_dims < 2 || t->n_dims > 3 || t->dims[0] > MAX_WIDTH || t->dims[1] > INT32_MAX)
        return "";
    const struct weight_source source = {t->quant, (int)t->dims[1], (int)t->dims[0]};
    if (d->ops->weight_plan(d, &w, &source, model_weight_form(options->precision), NULL) != MR_OK)
        return "";
    return d->ops->weight_kernel_name(&w);
}

static enum mr_status check_tokens(const struct model *m, const struct batch *b, struct mr_error *err)
{
    if (b->n_row < 1 || b->n_row > m->options.max_row)
        return mr_fail(err, MR_BAD_INPUT, "batch: %d rows, not 1..%d", b->n_row, m->options.max_row);
    if (b->n_layer < 0 || b->n_layer > m->h.n_layer)
        return mr_fail(err, MR_BAD_INPUT, "batch: %d layers, not 0..%d", b->n_layer, m->h.n_layer);
    int n_logits = 0;
    for (int i = 0; i < b->n_row; i++) {
        if (b->token[i] < 0 || b->token[i] >= m->h.n_vocab)
            return mr_fail(err, MR_BAD_INPUT, "batch: token %d is not in the vocabulary of %d", b->token[i], m->h.n_vocab);
        n_logits += b->wants_logits != NULL && b->wants_logits[i];
    }
    if (n_logits > m->options.max_logits)
        return mr_fail(err, MR_BAD_INPUT, "batch: %d rows ask for logits, at most %d may", n_logits, m->options.max_logits);
    return MR_OK;
}

/* Count each sequence's rows; they must stand together. */
static enum mr_status count_runs(struct model_kv *kv, const struct batch *b, struct mr_error *err)
{
    for (int i = 0; i < b->n_row; i++) {
        const kv_seq seq = b->seq[i];
        if (kv->run_length[seq]++ > 0 && b->seq[i - 1] != seq)
            return mr_fail(err, MR_BAD_INPUT, "batch: the rows of sequence %u do not stand together", seq);
    }
    return MR_OK;
}

static enum mr_status reserve_runs(struct model_kv *kv, const struct batch *b, struct mr_error *err)
{
    for (int i = 0; i < b->n_row; i += kv->run_length[b->seq[i]]) {
        const kv_seq seq = b->seq[i];
        const int n = kv->run_length[seq], length = kv_seq_length(kv->cache, seq);
        const enum mr_status status = kv_seq_reserve(kv->cache, seq, n);
        if (status == MR_FULL)
            return mr_fail(err, status, "the cache has no block for %d more tokens", n);
        if (status != MR_OK)
            return mr_fail(err, status, "a sequence of %d tokens and %d more is longer than %d", length, n,
                           kv->config.max_token);
    }
    return MR_OK;
}

/* Give back what reserve_runs took. */
static void undo_runs(struct model_kv *kv, const struct batch *b)
{
    for (int i = 0; i < b->n_row; i++)
        kv_seq_truncate(kv->cache, b->seq[i], kv_seq_length(kv->cache, b->seq[i]));
}

static void clear_runs(struct model_kv *kv, const struct batch *b)
{
    for (int i = 0; i < b->n_row; i++)
        kv->run_length[b->seq[i]] = 0;
}

/* Positions, fine rows, block tables and the rows that want logits. Returns their number. */
static int fill_rows(struct model *m, const struct model_kv *kv, const struct batch *b)
{
    int n_logits = 0, first = 0;
    m->fine.n = m->fine_logits.n = 0;
    for (int i = 0; i < b->n_row; i++) {
        const kv_seq seq = b->seq[i];
        if (seq != b->seq[first])
            first = i;
        m->position[i] = kv_seq_length(kv->cache, seq) + i - first;
        for (int windowed = 0; windowed < 2; windowed++)
            if (kv->group_of_window[windowed] >= 0)
                m->blocks[windowed][i] = kv_seq_blocks(kv->cache, seq, kv->group_of_window[windowed]);
        const bool fine = m->position[i] < FINE_POSITIONS;
        if (fine)
            m->fine.row[m->fine.n++] = i;
        if (b->wants_logits != NULL ? !b->wants_logits[i] : i < b->n_row - 1)
            continue;
        if (fine)
            m->fine_logits.row[m->fine_logits.n++] = n_logits;
        m->logits_row[n_logits++] = i;
    }
    return n_logits;
}

static struct pass make_pass(const struct model *m, const struct model_kv *kv, const struct batch *b)
{
    struct pass p = activations_pass(&m->act, b->n_row, &m->fine, m->n_logits, &m->fine_logits);
    p.token = b->token;
    p.position = m->position;
    p.blocks[0] = m->blocks[0];
    p.blocks[1] = m->blocks[1];
    p.kv = kv->view;
    p.logits_row = m->logits_row;
    p.hidden_row = m->hidden_row;
    p.hidden = m->hidden;
    for (int i = 0; b->wants_hidden != NULL && i < b->n_row; i++)
        if (b->wants_hidden[i])
            m->hidden_row[p.n_hidden++] = i;
    p.adapters = adapter_work_fill(m->adapter_work, b) ? m->adapter_work : NULL;
    return p;
}

static void run_pass(struct pass *p, int n_layer)
{
    const struct family *family = p->h->family;
    p->layer = -1;
    family->embed(p);
    for (int i = 0; i < n_layer; i++) {
        p->layer = i;
        p->ops->enter_layer(p->device, i);
        family->layer(p, i);
    }
    p->layer = -1;
    p->ops->enter_layer(p->device, -1);
    pass_hidden(p);
    family->head(p);
}

/* Run the rows again, the same ones to the same places in the cache, and look at what each step gives. */
static enum mr_status find_fault(struct model *m, struct pass *p, int n_layer, struct mr_error *err)
{
    struct pass_fault fault = {0};
    p->fault = &fault;
    run_pass(p, n_layer);
    if (fault.step == NULL)
        return mr_fail(err, MR_BAD_FORMAT, "the model's numbers become NaN or infinite");
    m->fault_row = fault.row;
    const int position = p->position[fault.row];
    if (fault.layer < 0)
        return mr_fail(err, MR_BAD_FORMAT, "outside the layers: %s gave NaN or infinity at position %d", fault.step, position);
    return mr_fail(err, MR_BAD_FORMAT, "layer %d: %s gave NaN or infinity at position %d", fault.layer, fault.step, position);
}

/* Rows without logits leave their traces in the cache, so all are looked at. */
static enum mr_status run(struct model *m, const struct model_kv *kv, const struct batch *b, struct mr_error *err)
{
    m->n_logits = fill_rows(m, kv, b);
    struct pass p = make_pass(m, kv, b);
    const int n_layer = b->n_layer > 0 ? b->n_layer : m->h.n_layer;
    run_pass(&p, n_layer);
    const bool finite = p.ops->is_finite(p.device, &p.x) && (!p.has_delta || p.ops->is_finite(p.device, &p.delta)) &&
                        (m->n_logits == 0 || p.ops->is_finite(p.device, &p.logits));
    if (!finite)
        return find_fault(m, &p, n_layer, err);
    if (m->n_logits > 0)
        p.ops->download(p.device, m->logits, &p.logits);
    return MR_OK;
}

enum mr_status model_forward(struct model *m, struct model_kv *kv, const struct batch *batch, struct mr_error *err)
{
    m->fault_row = -1;
    MR_TRY(check_tokens(m, batch, err));
    enum mr_status status = count_runs(kv, batch, err);
    if (status == MR_OK) {
        status = reserve_runs(kv, batch, err);
        if (status == MR_OK)
            status = run(m, kv, batch, err);
        if (status != MR_OK)
            undo_runs(kv, batch);
    }
    for (int i = 0; status == MR_OK && i < batch->n_row; i += kv->run_length[batch->seq[i]])
        kv_seq_advance(kv->cache, batch->seq[i], kv->run_length[batch->seq[i]]);
    clear_runs(kv, batch);
    return status;
}

const float *model_logits(const struct model *m, int i) { return m->logits + (size_t)i * (size_t)m->h.n_vocab; }

int model_n_logits(const struct model *m) { return m->n_logits; }

const float *model_hidden(const struct model *m, int i) { return m->hidden + (size_t)i * (size_t)m->h.n_embd; }

int model_fault_row(const struct model *m) { return m->fault_row; }
