/* loaded_model.c: opens a model file with all that it takes to run it. */
#include "engine/loaded_model.h"

#include <stdlib.h>

#include "base/cpu.h"
#include "base/memory.h"
#include "engine/options.h"
#include "model/adapter.h"
#include "ops/cpu_device.h"

_Static_assert((int)MR_PRECISION_FP32 == (int)PRECISION_FP32 && (int)MR_PRECISION_BF16 == (int)PRECISION_BF16 &&
                   (int)MR_PRECISION_FP16 == (int)PRECISION_FP16 && (int)MR_PRECISION_INT8 == (int)PRECISION_INT8 &&
                   (int)MR_PRECISION_INT4 == (int)PRECISION_INT4 && (int)MR_N_PRECISIONS == (int)N_PRECISIONS,
               "the public names of precisions are the model's");

static enum mr_status find_end_tokens(struct mr_model *m, struct mr_error *err)
{
    size_t capacity = 0;
    for (int32_t id = 0; id < tokenizer_n_vocab(m->tokenizer); id++) {
        if (!tokenizer_is_end(m->tokenizer, id))
            continue;
        if (!mem_grow(&m->end_token, &capacity, (size_t)m->n_end_tokens + 1, sizeof *m->end_token))
            return mr_fail(err, MR_NO_MEMORY, "no memory for the tokens that end a generation");
        m->end_token[m->n_end_tokens++] = id;
    }
    return MR_OK;
}

static enum mr_status open_device(struct mr_model *m, const struct mr_options *options, struct mr_error *err)
{
    unsigned features;
    MR_TRY(cpu_features(&features, options->cpu, err));
    MR_TRY(pool_create(&m->pool, options->threads, err));
    if (options->pin)
        MR_TRY(pool_pin(m->pool, err));
    MR_TRY(cpu_device_create(&m->device, m->pool, features, err));
    cpu_device_set_fusion(m->device, !options->fusion_off);
    return MR_OK;
}

void loaded_model_options(struct model_options *out, const struct mr_model *m, const struct mr_options *options)
{
    model_options_defaults(out);
    out->device = m->device;
    out->precision = (enum precision)options->precision;
    out->kv_int8 = options->kv_int8 != 0;
    out->max_row = options->prompt_chunk > options->max_running ? options->prompt_chunk : options->max_running;
    out->max_logits = out->max_row < out->max_logits ? out->max_row : out->max_logits;
    out->progress = options->progress;
    out->progress_context = options->progress_context;
}

static enum mr_status open_weights(struct mr_model *m, const struct mr_options *options, struct mr_error *err)
{
    struct model_options model_options;
    MR_TRY(open_device(m, options, err));
    loaded_model_options(&model_options, m, options);
    return model_open(&m->model, m->file, &model_options, err);
}

static enum mr_status open_draft(struct mr_model *m, const struct mr_options *options, struct mr_error *err)
{
    struct model_options model_options;
    if (options->draft_model == NULL)
        return MR_OK;
    loaded_model_options(&model_options, m, options);
    return draft_model_open(&m->draft, options->draft_model, m->tokenizer, &model_options, err);
}

static enum mr_status open_all(struct mr_model *m, const char *path, const struct mr_options *options, struct mr_error *err)
{
    MR_TRY(options_check(options, err));
    MR_TRY(gguf_open(&m->file, path, err));
    enum mr_status status = tokenizer_create(&m->tokenizer, m->file, err);
    if (status == MR_OK)
        status = find_end_tokens(m, err);
    if (status == MR_OK)
        status = open_weights(m, options, err);
    if (status != MR_OK)
        return mr_fail_in(err, status, "'%s'", path);
    if (tokenizer_n_vocab(m->tokenizer) != model_info(m->model)->n_vocab)
        return mr_fail(err, MR_BAD_FORMAT, "%s: the tokenizer has %d tokens, the output of the model %d", path,
                       tokenizer_n_vocab(m->tokenizer), model_info(m->model)->n_vocab);
    return open_draft(m, options, err);
}

enum mr_status mr_model_open(struct mr_model **out, const char *path, const struct mr_options *options, struct mr_error *err)
{
    *out = NULL;
    struct mr_model *m = mem_zero_array(1, sizeof *m);
    if (m == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for the model");
    const enum mr_status status = open_all(m, path, options, err);
    if (status != MR_OK)
        mr_model_close(m);
    else
        *out = m;
    return status;
}

enum mr_status mr_model_pack(const struct mr_model *m, const char *path,
                             bool (*progress)(void *context, size_t done, size_t total), void *progress_context,
                             struct mr_error *err)
{
    return model_pack(m->model, m->file, path, progress, progress_context, err);
}

void mr_model_close(struct mr_model *m)
{
    if (m == NULL)
        return;
    for (int i = 0; i < m->n_adapter; i++)
        adapter_free(m->adapter[i].adapter);
    free(m->adapter);
    draft_model_close(&m->draft);
    model_free(m->model);
    cpu_device_free(m->device);
    pool_free(m->pool);
    tokenizer_free(m->tokenizer);
    gguf_close(m->file);
    free(m->end_token);
    free(m);
}

void mr_model_info(const struct mr_model *m, struct mr_model_info *out)
{
    const struct model_info *info = model_info(m->model);
    *out =
        (struct mr_model_info){.family = info->family,
                               .precision = info->precision,
                               .n_vocab = info->n_vocab,
                               .n_ctx_train = info->n_ctx_train,
                               .n_embd = info->n_embd,
                               .pooling = info->pooling > 0 && info->pooling < MR_N_POOLINGS ? info->pooling : MR_POOLING_LAST,
                               .n_parameters = info->n_parameter,
                               .weight_bytes = info->weight_bytes,
                               .threads = pool_n_thread(m->pool),
                               .adapter_bytes = info->adapter_bytes};
}

enum mr_status mr_tokenize(const struct mr_model *m, const char *text, size_t n, bool special, int32_t **ids, int32_t *n_ids,
                           struct mr_error *err)
{
    *ids = NULL;
    *n_ids = 0;
    struct token_list list = {0};
    const struct text_run run = {.s = text, .n = n, .match_control = special};
    const enum mr_status status = tokenizer_encode(m->tokenizer, &run, 1, ENCODE_ADD_BOS, &list, err);
    if (status != MR_OK || list.n > INT32_MAX) {
        token_list_release(&list);
        return status != MR_OK ? status : mr_fail(err, MR_BAD_INPUT, "the text has more than 2^31 tokens");
    }
    *ids = list.id;
    *n_ids = (int32_t)list.n;
    return MR_OK;
}

void mr_tokens_free(int32_t *ids) { free(ids); }
