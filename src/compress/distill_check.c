/* distill_check.c: what is found out before any work. */
#include "compress/distill_check.h"

#include "compress/teacher.h"

static enum mr_status check_k(const struct distill_options *o, struct mr_error *err)
{
    const int most = o->student->h.n_vocab < LOSS_K_MAX ? o->student->h.n_vocab : LOSS_K_MAX;
    return o->kl_weight > 0 && (o->k < 1 || o->k > most)
               ? mr_fail(err, MR_BAD_INPUT, "top-k is %d, must be from 1 to %d", o->k, most)
               : MR_OK;
}

static enum mr_status check_heads(const struct distill_options *o, struct mr_error *err)
{
    const int n_head = o->heads != NULL ? o->heads->n_head : 1,
              width = o->heads != NULL ? o->heads->n_embd : o->student->h.n_embd;
    if (o->lora != NULL || (o->heads != NULL && o->eagle != NULL))
        return mr_fail(err, MR_BAD_INPUT, "adapters and heads of several kinds are not trained together");
    if (o->is_bf16)
        return mr_fail(err, MR_BAD_INPUT, "heads are trained in fp32");
    if (o->teacher != NULL || o->cache != NULL)
        return mr_fail(err, MR_BAD_INPUT, "heads learn from the model itself: there is neither a teacher nor its cache");
    if (o->heads != NULL && o->hidden_weight > 0)
        return mr_fail(err, MR_BAD_INPUT, "heads of this kind guess no hidden states; give their weight as 0");
    if (width != o->student->h.n_embd)
        return mr_fail(err, MR_BAD_INPUT, "heads of width %d do not fit a model of width %d", width, o->student->h.n_embd);
    if (o->windows->n_tok <= n_head + 1)
        return mr_fail(err, MR_BAD_INPUT, "windows of %d tokens are too short for %d heads", o->windows->n_tok, n_head);
    return check_k(o, err);
}

enum mr_status distill_check(const struct distill_options *o, struct mr_error *err)
{
    const bool has_loss = o->ce_weight > 0 || o->kl_weight > 0 || o->hidden_weight > 0;
    if (o->n_seq < 1 || o->n_seq > TEACHER_MAX_SEQ || o->accumulate < 1 || o->n_step < 1 || !(o->temperature > 0) || !has_loss)
        return mr_fail(err, MR_BAD_INPUT, "batch, steps, temperature or the weights of all losses are not above 0");
    if (o->heads != NULL || o->eagle != NULL)
        return check_heads(o, err);
    if (o->teacher == NULL)
        return o->kl_weight > 0 || o->hidden_weight > 0
                   ? mr_fail(err, MR_BAD_INPUT, "divergence and hidden states need a teacher; give their weights as 0")
                   : MR_OK;
    if (o->teacher->h.n_vocab != o->student->h.n_vocab)
        return mr_fail(err, MR_BAD_INPUT, "the teacher has a vocabulary of %d tokens, the student one of %d",
                       o->teacher->h.n_vocab, o->student->h.n_vocab);
    MR_TRY(check_k(o, err));
    if (o->hidden_weight > 0 && o->teacher->h.n_embd != o->student->h.n_embd)
        return mr_fail(err, MR_BAD_INPUT, "hidden states of width %d cannot teach those of width %d", o->teacher->h.n_embd,
                       o->student->h.n_embd);
    return MR_OK;
}
