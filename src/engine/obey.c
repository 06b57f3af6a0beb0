/* obey.c: what an answer obeys: a constraint, bad words, the text that its prompt's last token gave back. */
#include <string.h>

#include "base/utf8.h"
#include "engine/engine_state.h"

/* Token healing: the prompt's last token is chosen again among those that begin with its text, since a tokenizer would have cut
 * prompt and answer differently where it had seen both. */
bool engine_heals(const struct mr_engine *e, const struct mr_request *r)
{
    if (!r->token_healing || r->n_prompt < 2)
        return false;
    const struct gguf_string text = tokenizer_piece(e->model->tokenizer, r->prompt[r->n_prompt - 1], false);
    return text.n > 0 && text.n <= TOKEN_BYTES_MAX && utf8_is_valid(text.s, text.n);
}

static enum mr_status take(struct mr_engine *e, struct request_record *r, struct stored_key key, struct mr_error *err)
{
    return constraint_store_take(&e->constraints, &r->stored[key.role], &key, err);
}

enum mr_status engine_take_stored(struct mr_engine *e, struct request_record *r, const struct mr_request *request,
                                  struct mr_error *err)
{
    static const enum constraint_kind kinds[] = {[MR_CONSTRAINT_JSON_SCHEMA] = CONSTRAINT_JSON_SCHEMA,
                                                 [MR_CONSTRAINT_JSON_OBJECT] = CONSTRAINT_JSON_OBJECT,
                                                 [MR_CONSTRAINT_REGEX] = CONSTRAINT_REGEX,
                                                 [MR_CONSTRAINT_GRAMMAR] = CONSTRAINT_GRAMMAR,
                                                 [MR_CONSTRAINT_CALLS] = CONSTRAINT_CALLS};
    if (r->constraint != MR_CONSTRAINT_NONE)
        MR_TRY(take(
            e, r,
            (struct stored_key){STORED_CONSTRAINT, kinds[r->constraint], request_record_constraint(r), (size_t)r->n_constraint},
            err));
    if (r->n_bad_word > 0)
        MR_TRY(take(
            e, r, (struct stored_key){.role = STORED_BAN, .text = request_record_bad_word(r), .n_text = (size_t)r->n_bad_word},
            err));
    if (r->n_prompt == request->n_prompt)
        return MR_OK;
    const struct gguf_string text = tokenizer_piece(e->model->tokenizer, request->prompt[r->n_prompt], false);
    return take(e, r, (struct stored_key){.role = STORED_PREFIX, .text = text.s, .n_text = text.n}, err);
}

void engine_leave_stored(struct mr_engine *e, const struct request_record *r)
{
    for (int i = 0; i < N_STORED_ROLES; i++)
        constraint_store_leave(&e->constraints, r->stored[i]);
}

bool engine_is_ready(const struct request_record *r)
{
    for (int i = 0; i < N_STORED_ROLES; i++)
        if (r->stored[i] != NULL && stored_constraint_state(r->stored[i]) != STORED_READY)
            return false;
    return true;
}

const struct stored_constraint *engine_failed_stored(const struct request_record *r)
{
    for (int i = 0; i < N_STORED_ROLES; i++)
        if (r->stored[i] != NULL && stored_constraint_state(r->stored[i]) == STORED_FAILED)
            return r->stored[i];
    return NULL;
}

enum mr_status sequence_start_obeying(struct sequence *s, struct mr_error *err)
{
    struct stored_constraint *const *stored = s->request->stored;
    if (stored[STORED_PREFIX] != NULL)
        s->answer.n_skip = stored[STORED_PREFIX]->key.n_text;
    return stored[STORED_CONSTRAINT] != NULL ? constraint_state_create(&s->constraint, stored[STORED_CONSTRAINT]->masks, err)
                                             : MR_OK;
}

enum mr_status sequence_allowed(struct mr_engine *e, struct sequence *s, const uint64_t **mask, struct mr_error *err)
{
    struct stored_constraint *const *stored = s->request->stored;
    const size_t bytes = ((size_t)model_info(e->model->model)->n_vocab + 63) / 64 * sizeof **mask;
    *mask = NULL;
    if (s->constraint != NULL)
        MR_TRY(constraint_mask(mask, s->constraint, err));
    if (stored[STORED_PREFIX] != NULL && s->usage.n_generated == 0)
        *mask = stored[STORED_PREFIX]->prefix;
    if (stored[STORED_BAN] == NULL)
        return MR_OK;
    if (*mask != NULL)
        memcpy(e->allowed, *mask, bytes);
    else
        memset(e->allowed, 0xff, bytes);
    word_ban_exclude(stored[STORED_BAN]->ban, &s->ban, e->allowed);
    *mask = e->allowed;
    return MR_OK;
}

enum mr_status sequence_obey(struct sequence *s, int32_t token, struct mr_error *err)
{
    const struct stored_constraint *ban = s->request->stored[STORED_BAN];
    if (ban != NULL)
        word_ban_accept(ban->ban, &s->ban, token);
    return s->constraint != NULL ? constraint_accept(s->constraint, token, err) : MR_OK;
}
