/* engine.c: the engine as its caller sees it: create, submit, cancel, events. The computing is in step.c. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "engine/options.h"
#include "engine/pin.h"
#include "engine/second_tier.h"

_Static_assert((int)MR_KV_PAGED == (int)KV_PAGED && (int)MR_KV_RESERVE == (int)KV_RESERVE && (int)MR_KV_GROW == (int)KV_GROW,
               "the public names of policies are the cache's");

int64_t engine_now_us(const struct mr_engine *e)
{
    return e->options.clock_us != NULL ? e->options.clock_us(e->options.clock_context) : clock_us();
}

int32_t mr_engine_n_ctx(const struct mr_engine *e) { return e->n_ctx; }

/* A sequence as long as the context must fit, so that whoever runs alone gets on. */
static enum mr_status create_cache(struct mr_engine *e, struct mr_error *err)
{
    const int n_seq = e->options.max_running, kv_tokens = e->options.kv_tokens;
    if (kv_tokens > 0 && e->options.n_ctx == 0 && e->n_ctx > kv_tokens)
        e->n_ctx = kv_tokens;
    if (kv_tokens > 0 && kv_tokens < e->n_ctx)
        return mr_fail(err, MR_BAD_INPUT, "kv_tokens is %d, less than the context of %d tokens", kv_tokens, e->n_ctx);
    const int64_t n_token = kv_tokens > 0 ? kv_tokens : (int64_t)n_seq * e->n_ctx;
    const int n_window = e->options.pin_tokens > 0 ? PINNED_WINDOWS : 0;
    const int n_side = e->options.speculation == MR_SPECULATION_LOOKAHEAD ? n_seq : 0; /* windows.c */
    /* The cache adds a block for each sequence but one; the background requests' sequences bring none. */
    const int64_t more = (int64_t)e->options.pin_tokens - (int64_t)(e->n_slot - n_seq) * KV_BLOCK;
    const int64_t n_given = n_token + more > 1 ? n_token + more : 1;
    MR_TRY(model_kv_create(&e->kv, e->model->model, e->n_slot + n_window + n_side, e->n_ctx, n_given, err));
    kv_set_policy(model_kv_cache(e->kv), (enum kv_policy)e->options.kv_policy, e->max_row);
    if (e->options.prefix_cache && e->options.kv_policy == MR_KV_PAGED)
        MR_TRY(prefix_index_create(&e->prefixes, model_kv_cache(e->kv), err));
    MR_TRY(second_tier_create(e, err));
    return drafts_create_models(e, err);
}

static enum mr_status create_parts(struct mr_engine *e, struct mr_error *err)
{
    const struct model_info *info = model_info(e->model->model);
    const int n_running = e->options.max_running, n_slot = 2 * n_running;
    e->n_slot = n_slot;
    e->n_ctx = e->options.n_ctx;
    if (e->n_ctx == 0)
        e->n_ctx = info->n_ctx_train < MR_CTX_DEFAULT_MAX ? info->n_ctx_train : MR_CTX_DEFAULT_MAX;
    e->max_row = e->options.prompt_chunk > n_running ? e->options.prompt_chunk : n_running;
    if (e->max_row > info->max_row)
        return mr_fail(err, MR_BAD_INPUT, "prompt_chunk is %d, the model was opened for at most %d rows",
                       e->options.prompt_chunk, info->max_row);
    if (n_running > info->max_logits)
        return mr_fail(err, MR_BAD_INPUT, "max_running is %d, the model was opened for at most %d", n_running,
                       info->max_logits);
    MR_TRY(create_cache(e, err));
    MR_TRY(sampler_create(&e->sampler, info->n_vocab, err));
    if (!constraint_store_init(&e->constraints, e->model->tokenizer))
        return mr_fail(err, MR_NO_MEMORY, "no memory for the constraints");
    e->slot = mem_zero_array((size_t)n_slot, sizeof *e->slot);
    e->waiting = mem_zero_array((size_t)e->options.max_queue, sizeof(struct request_record *));
    e->row_token = mem_array((size_t)e->max_row, sizeof *e->row_token);
    e->row_seq = mem_array((size_t)e->max_row, sizeof *e->row_seq);
    e->row_wants_logits = mem_array((size_t)e->max_row, sizeof *e->row_wants_logits);
    e->row_wants_hidden = mem_array((size_t)e->max_row, sizeof *e->row_wants_hidden);
    e->row_adapters = mem_array((size_t)e->max_row, sizeof(struct adapter_set *));
    e->order = mem_array((size_t)n_slot, sizeof *e->order);
    e->ask = mem_array((size_t)n_slot, sizeof *e->ask);
    e->allowed = mem_array(((size_t)info->n_vocab + 63) / 64, sizeof *e->allowed);
    const int n_share = e->options.max_queue + n_slot;
    if (!fair_share_init(&e->shares[0], n_share) || !fair_share_init(&e->shares[1], n_share) ||
        !admission_init(&e->admission, n_share, n_running) || e->slot == NULL || e->waiting == NULL || e->row_token == NULL ||
        e->row_seq == NULL || e->row_wants_logits == NULL || e->row_wants_hidden == NULL || e->row_adapters == NULL ||
        e->order == NULL || e->ask == NULL || e->allowed == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for the engine");
    return MR_OK;
}

enum mr_status mr_engine_create(struct mr_engine **out, struct mr_model *model, const struct mr_options *options,
                                struct mr_error *err)
{
    *out = NULL;
    MR_TRY(options_check(options, err));
    struct mr_engine *e = mem_zero_array(1, sizeof *e);
    if (e == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for the engine");
    e->model = model;
    e->options = *options;
    e->next_id = 1;
    e->others_us = INT64_MIN / 2;
    drafts_create(e);
    record_queue_init(&e->events);
    response_store_init(&e->responses, options->response_bytes);
    earlier_answers_init(&e->earlier, options->reference_bytes);
    const enum mr_status status = create_parts(e, err);
    if (status != MR_OK)
        mr_engine_free(e);
    else
        *out = e;
    return status;
}

static void free_request(struct mr_engine *e, struct request_record *r)
{
    adapters_leave(e->model, r);
    engine_leave_stored(e, r);
    free(r);
}

void mr_engine_free(struct mr_engine *e)
{
    if (e == NULL)
        return;
    for (int i = 0; e->slot != NULL && i < e->n_slot; i++)
        sequence_release(e, &e->slot[i]);
    for (int i = 0; i < e->n_waiting; i++)
        free_request(e, e->waiting[i]);
    drafts_free_models(e);
    second_tier_free(e);
    prefix_index_free(e->prefixes);
    model_kv_free(e->kv);
    sampler_free(e->sampler);
    constraint_store_release(&e->constraints);
    record_queue_release(&e->events);
    for (struct contest *c; (c = e->contests) != NULL;) {
        e->contests = c->next;
        contest_free(c);
    }
    response_store_release(&e->responses);
    earlier_answers_release(&e->earlier);
    free(e->slot);
    free(e->waiting);
    free(e->row_token);
    free(e->row_seq);
    free(e->row_wants_logits);
    free(e->row_wants_hidden);
    free(e->row_adapters);
    free(e->order);
    free(e->ask);
    free(e->allowed);
    fair_share_release(&e->shares[0]);
    fair_share_release(&e->shares[1]);
    admission_release(&e->admission);
    free(e);
}

static void unreserve_ends(struct mr_engine *e, int n)
{
    for (int i = 0; i < n; i++)
        record_queue_unreserve(&e->events, LAST_EVENT_BYTES);
}

/* Room for the last event of each answer. */
static bool reserve_ends(struct mr_engine *e, int n)
{
    for (int i = 0; i < n; i++) {
        if (record_queue_reserve(&e->events, LAST_EVENT_BYTES))
            continue;
        unreserve_ends(e, i);
        return false;
    }
    return true;
}

/* What the request's answers obey, and room for how they end. */
static enum mr_status prepare(struct mr_engine *e, struct request_record *r, const struct mr_request *request,
                              struct mr_error *err)
{
    MR_TRY(engine_take_stored(e, r, request, err));
    if (!reserve_ends(e, r->n_return))
        return mr_fail(err, MR_NO_MEMORY, "no memory for the events of a request");
    const enum mr_status status = r->n_return < r->n ? contest_begin(e, r, err) : MR_OK;
    if (status != MR_OK)
        unreserve_ends(e, r->n_return);
    return status;
}

/* Takes the record, or frees it. request: as it came. */
static enum mr_status let_in(struct mr_engine *e, struct request_record *r, const struct mr_request *request, uint64_t *id,
                             struct mr_error *err)
{
    const int32_t deadline_ms = request->deadline_ms;
    const int64_t now = engine_now_us(e);
    if (r->arrival_us == 0 || r->arrival_us > now)
        r->arrival_us = now;
    r->deadline_us = deadline_ms > 0 ? r->arrival_us + (int64_t)deadline_ms * 1000 : INT64_MAX;
    r->id = e->next_id++;
    r->share = fair_share_enter(&e->shares[r->background], r->key);
    enum mr_status status = adapters_check(e->model, r, err);
    if (status == MR_OK)
        status = admission_decide(e, r, now, err);
    if (status == MR_OK)
        status = prepare(e, r, request, err);
    if (status != MR_OK) {
        admission_settle(e, r);
        fair_share_leave(&e->shares[r->background], r->share);
        engine_leave_stored(e, r);
        free(r);
        return status;
    }
    adapters_hold(e->model, r);
    *id = r->id;
    e->waiting[e->n_waiting++] = r;
    return MR_OK;
}

/* false: its answers are not kept, or it names an adapter that is not there. */
static bool make_response_key(const struct mr_engine *e, const struct request_record *r, struct prefix_key *out)
{
    struct prefix_key seed;
    if (e->responses.capacity == 0 || r->n_return != r->n || r->prompt_logprobs >= 0 || r->pooling != MR_POOLING_NONE ||
        adapters_check(e->model, r, NULL) != MR_OK)
        return false;
    sequence_seed(e, r, &seed);
    response_key(out, &seed, r);
    return true;
}

enum mr_status mr_engine_submit(struct mr_engine *e, const struct mr_request *request, uint64_t *id, struct mr_error *err)
{
    *id = 0;
    if (e->n_waiting == e->options.max_queue)
        return admission_refuse_full(e, err);
    const struct request_limits limits = {.n_vocab = model_info(e->model->model)->n_vocab, .n_ctx = e->n_ctx};
    struct request_record *record;
    struct mr_request healed = *request;
    healed.n_prompt -= engine_heals(e, request);
    MR_TRY(request_record_create(&record, &healed, &limits, err));
    struct prefix_key key;
    const bool is_storable = healed.n_prompt == request->n_prompt && make_response_key(e, record, &key);
    if (is_storable && response_store_serve(e, &key, e->next_id)) {
        *id = e->next_id++;
        free(record);
        return MR_OK;
    }
    const int n = record->n;
    MR_TRY(let_in(e, record, request, id, err));
    if (is_storable)
        response_store_open(&e->responses, &key, *id, n);
    return MR_OK;
}

void engine_answer_ended(struct mr_engine *e, struct request_record *r)
{
    if (--r->n_open > 0)
        return;
    admission_settle(e, r);
    fair_share_leave(&e->shares[r->background], r->share);
    free_request(e, r);
}

struct request_record *engine_leave_queue(struct mr_engine *e, int i)
{
    struct request_record *r = e->waiting[i];
    memmove(e->waiting + i, e->waiting + i + 1, (size_t)(--e->n_waiting - i) * sizeof(struct request_record *));
    return r;
}

/* error: with MR_FINISH_ERROR, why, and in words; may belong to the request. */
static void end_waiting(struct mr_engine *e, int i, enum mr_finish finish, enum mr_status status, const char *error)
{
    struct request_record *r = engine_leave_queue(e, i);
    for (int n = r->n - r->n_started; n > 0; n--) {
        const struct event_record event = {.request = r->id,
                                           .sample = r->n - n,
                                           .token = -1,
                                           .finish = (int32_t)finish,
                                           .status = (int32_t)status,
                                           .usage = {.n_prompt = r->n_prompt}};
        engine_emit_end(e, event, error);
        engine_answer_ended(e, r); /* frees it with the last one */
    }
}

void engine_end_waiting(struct mr_engine *e, int i, enum mr_finish finish) { end_waiting(e, i, finish, MR_OK, NULL); }

void engine_end_refused(struct mr_engine *e)
{
    for (int i = e->n_waiting - 1; i >= 0; i--) {
        const struct stored_constraint *c = engine_failed_stored(e->waiting[i]);
        if (c != NULL)
            end_waiting(e, i, MR_FINISH_ERROR, c->status, c->error.message);
    }
}

enum mr_status mr_engine_cancel(struct mr_engine *e, uint64_t id)
{
    enum mr_status status = MR_NOT_FOUND;
    for (int i = 0; i < e->n_waiting; i++) { /* first, while a running answer keeps the record */
        if (e->waiting[i]->id != id)
            continue;
        engine_end_waiting(e, i, MR_FINISH_CANCELLED);
        status = MR_OK;
        break;
    }
    for (int i = 0; i < e->n_slot; i++) {
        struct sequence *s = &e->slot[i];
        if (s->request == NULL || s->request->id != id)
            continue;
        sequence_end(e, s, MR_FINISH_CANCELLED);
        status = MR_OK;
    }
    return status;
}

bool mr_engine_is_idle(const struct mr_engine *e)
{
    for (int i = 0; i < e->n_slot; i++)
        if (e->slot[i].request != NULL)
            return false;
    return e->n_waiting == 0;
}

bool engine_has_only_background(const struct mr_engine *e)
{
    for (int i = 0; i < e->options.max_running; i++)
        if (e->slot[i].request != NULL)
            return false;
    for (int i = 0; i < e->n_waiting; i++)
        if (!e->waiting[i]->background)
            return false;
    return true;
}

void mr_engine_get_stats(const struct mr_engine *e, struct mr_engine_stats *out)
{
    const struct kv_cache *kv = model_kv_cache(e->kv);
    *out = e->stats;
    out->n_waiting = e->n_waiting;
    out->n_from_store = e->responses.n_served;
    out->store_bytes = e->responses.bytes;
    out->reference_bytes = e->earlier.bytes;
    out->lookup_bytes = e->lookup.bytes;
    for (int i = 0; i < e->n_slot; i++) {
        const struct sequence *s = &e->slot[i];
        out->n_running += s->request != NULL && !s->request->background;
        out->n_background += s->request != NULL && s->request->background;
        out->n_aside += s->request != NULL && !s->in_cache;
        out->kv_bytes_live += s->request != NULL && s->in_cache ? kv_seq_bytes(kv, s->kv) : 0;
    }
    second_tier_stats(e, out);
    out->kv_bytes = kv_bytes(kv) + drafts_kv_bytes(e);
    out->kv_bytes_copied = kv_bytes_copied(kv);
    for (int i = 0; e->prefixes != NULL && i < kv_n_groups(kv); i++)
        out->kv_bytes_cached += kv_block_bytes(kv, i) * (size_t)prefix_index_n_idle(e->prefixes, i);
    out->kv_bytes_in_use = kv_bytes_in_use(kv) - out->kv_bytes_cached + drafts_kv_bytes_in_use(e);
    admission_get_stats(e, out);
}
