/* draft_model.c: opens a draft model, and compares vocabularies. */
#include "engine/draft_model.h"

#include <string.h>

enum {
    SHOWN_BYTES = 40 /* of a token in a message */
};

static int shown(struct gguf_string s) { return s.n < SHOWN_BYTES ? (int)s.n : SHOWN_BYTES; }

/* What is said of a token that both spell alike. */
static enum mr_status compare_flag(bool draft, bool model, int32_t id, struct gguf_string s, const char *what,
                                   struct mr_error *err)
{
    if (draft == model)
        return MR_OK;
    return mr_fail(err, MR_BAD_INPUT, "token %d, '%.*s', %s in the %s only", id, shown(s), s.s, what,
                   draft ? "draft" : "model");
}

static enum mr_status compare_token(const struct tokenizer *draft, const struct tokenizer *model, int32_t id,
                                    struct mr_error *err)
{
    const struct gguf_string a = tokenizer_spelling(draft, id), b = tokenizer_spelling(model, id);
    if (a.n != b.n || memcmp(a.s, b.s, a.n) != 0)
        return mr_fail(err, MR_BAD_INPUT, "token %d is '%.*s', but '%.*s' in the model", id, shown(a), a.s, shown(b), b.s);
    MR_TRY(compare_flag(tokenizer_is_control(draft, id), tokenizer_is_control(model, id), id, a, "is special", err));
    return compare_flag(tokenizer_is_end(draft, id), tokenizer_is_end(model, id), id, a, "ends an answer", err);
}

static enum mr_status compare_named(int32_t draft, int32_t model, const char *name, struct mr_error *err)
{
    return draft == model
               ? MR_OK
               : mr_fail(err, MR_BAD_INPUT, "its %s token is %d, but %d in the model (-1: none)", name, draft, model);
}

enum mr_status draft_model_compare(const struct tokenizer *draft, const struct tokenizer *model, struct mr_error *err)
{
    const int n_draft = tokenizer_n_vocab(draft), n_model = tokenizer_n_vocab(model);
    for (int32_t id = 0; id < n_draft && id < n_model; id++)
        MR_TRY(compare_token(draft, model, id, err));
    if (n_draft != n_model)
        return mr_fail(err, MR_BAD_INPUT, "it has %d tokens, but the model %d", n_draft, n_model);
    MR_TRY(compare_named(tokenizer_bos(draft), tokenizer_bos(model), "first (BOS)", err));
    MR_TRY(compare_named(tokenizer_eos(draft), tokenizer_eos(model), "last (EOS)", err));
    if (tokenizer_adds_bos(draft) != tokenizer_adds_bos(model))
        return mr_fail(err, MR_BAD_INPUT, "only %s puts a BOS in front of a text",
                       tokenizer_adds_bos(draft) ? "it" : "the model");
    return MR_OK;
}

static enum mr_status check_vocabulary(const struct gguf *file, const struct tokenizer *vocabulary, struct mr_error *err)
{
    struct tokenizer *own;
    MR_TRY(tokenizer_create(&own, file, err));
    const enum mr_status status = draft_model_compare(own, vocabulary, err);
    tokenizer_free(own);
    return status == MR_BAD_INPUT ? mr_fail_in(err, status, "another vocabulary than the model's") : status;
}

static enum mr_status open_checked(struct draft_model *d, const struct tokenizer *vocabulary,
                                   const struct model_options *options, struct mr_error *err)
{
    MR_TRY(check_vocabulary(d->file, vocabulary, err));
    MR_TRY(model_open(&d->model, d->file, options, err));
    if (model_info(d->model)->n_vocab != tokenizer_n_vocab(vocabulary))
        return mr_fail(err, MR_BAD_FORMAT, "its output has %d tokens, its vocabulary %d", model_info(d->model)->n_vocab,
                       tokenizer_n_vocab(vocabulary));
    return MR_OK;
}

enum mr_status draft_model_open(struct draft_model *d, const char *path, const struct tokenizer *vocabulary,
                                const struct model_options *options, struct mr_error *err)
{
    enum mr_status status = gguf_open(&d->file, path, err);
    if (status != MR_OK)
        return mr_fail_in(err, status, "draft model");
    status = open_checked(d, vocabulary, options, err);
    return status == MR_OK ? MR_OK : mr_fail_in(err, status, "draft model '%s'", path);
}

void draft_model_close(struct draft_model *d)
{
    model_free(d->model);
    gguf_close(d->file);
    *d = (struct draft_model){0};
}

enum mr_status draft_model_check(const struct tokenizer *draft, const char *model_path, struct mr_error *err)
{
    struct gguf *file = NULL;
    struct tokenizer *model = NULL;
    enum mr_status status = gguf_open(&file, model_path, err);
    if (status == MR_OK)
        status = tokenizer_create(&model, file, err);
    if (status == MR_OK)
        status = draft_model_compare(draft, model, err);
    tokenizer_free(model);
    gguf_close(file);
    return status;
}
