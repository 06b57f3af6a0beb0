/* model_drafter.c: a token of each answer with every pass. */
#include "engine/model_drafter.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "engine/engine_state.h"

enum {
    CATCH_UP_MIN = KV_BLOCK /* rows of a step, however slow they are, and while that is not known */
};
static const double catch_up_share = 0.25; /* of the target for a step's time */
static const double weight = 0.25;         /* of the latest figure in an average */

/* What the model's own cache has of an answer. */
struct draft_place {
    bool is_open;
    kv_seq kv;
    int n_sure;                /* tokens that were the answer's when they were computed */
    int n_shared;              /* blocks of them that the prefix index knows */
    int32_t guess[DRAFTS_MAX]; /* and those behind them */
};

struct model_drafter {
    struct mr_engine *e;
    struct model *model;
    struct model_kv *kv; /* its own, or the engine's */
    bool is_own;
    struct prefix_index *prefixes; /* of its own cache; NULL: none */
    int n_layer;
    struct draft_place *place; /* [max_running], by the engine's slots */
    double row_us;             /* of a row while catching up, measured; 0: not yet */
    double token_us;           /* of a guess */
    int max_row;
    /* the pass at hand */
    int n_row;
    int32_t *token;
    kv_seq *seq;
    bool *wants_logits;
    const struct adapter_set **adapters;
    bool *goes_on; /* [n_slot], by the asks: the pass has its row of logits */
};

static enum mr_status create_cache(struct model_drafter *d, struct mr_error *err)
{
    struct mr_engine *e = d->e;
    const int n_position = model_info(d->model)->n_position;
    const int max_token = n_position > 0 && n_position < e->n_ctx ? n_position : e->n_ctx;
    const int64_t n_token = e->options.kv_tokens > 0 ? e->options.kv_tokens : (int64_t)e->options.max_running * max_token;
    MR_TRY(model_kv_create(&d->kv, d->model, e->n_slot, max_token, n_token, err));
    return e->prefixes != NULL ? prefix_index_create(&d->prefixes, model_kv_cache(d->kv), err) : MR_OK;
}

static enum mr_status create_parts(struct model_drafter *d, struct mr_error *err)
{
    const size_t n_slot = (size_t)d->e->n_slot, n_row = (size_t)d->max_row;
    d->token = mem_array(n_row, sizeof *d->token);
    d->seq = mem_array(n_row, sizeof *d->seq);
    d->wants_logits = mem_array(n_row, sizeof *d->wants_logits);
    d->adapters = mem_array(n_row, sizeof(struct adapter_set *));
    d->place = mem_zero_array(n_slot, sizeof *d->place);
    d->goes_on = mem_zero_array(n_slot, sizeof *d->goes_on);
    if (d->token == NULL || d->seq == NULL || d->wants_logits == NULL || d->adapters == NULL || d->place == NULL ||
        d->goes_on == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for a model that guesses");
    return d->is_own ? create_cache(d, err) : MR_OK;
}

enum mr_status model_drafter_create(struct model_drafter **out, struct mr_engine *e, const struct draft_model *draft,
                                    int n_layer, struct mr_error *err)
{
    *out = NULL;
    struct model_drafter *d = mem_zero_array(1, sizeof *d);
    if (d == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for a model that guesses");
    *d = (struct model_drafter){.e = e,
                                .model = draft != NULL ? draft->model : e->model->model,
                                .kv = draft != NULL ? NULL : e->kv,
                                .is_own = draft != NULL,
                                .n_layer = n_layer,
                                .max_row = e->max_row};
    const enum mr_status status = create_parts(d, err);
    if (status != MR_OK)
        model_drafter_free(d);
    else
        *out = d;
    return status;
}

void model_drafter_free(struct model_drafter *d)
{
    if (d == NULL)
        return;
    prefix_index_free(d->prefixes);
    if (d->is_own)
        model_kv_free(d->kv);
    free(d->token);
    free(d->seq);
    free(d->wants_logits);
    free(d->adapters);
    free(d->place);
    free(d->goes_on);
    free(d);
}

static struct kv_cache *cache_of(const struct model_drafter *d) { return model_kv_cache(d->kv); }

static struct draft_place *place_of(const struct model_drafter *d, const struct sequence *s)
{
    return &d->place[s - d->e->slot];
}

void model_drafter_leave(struct model_drafter *d, const struct sequence *s)
{
    struct draft_place *p = place_of(d, s);
    if (p->is_open)
        kv_seq_close(cache_of(d), p->kv);
    *p = (struct draft_place){0};
}

size_t model_drafter_kv_bytes(const struct model_drafter *d) { return d->is_own ? kv_bytes(cache_of(d)) : 0; }

size_t model_drafter_kv_bytes_in_use(const struct model_drafter *d)
{
    size_t bytes = d->is_own ? kv_bytes_in_use(cache_of(d)) : 0;
    for (int i = 0; d->prefixes != NULL && i < kv_n_groups(cache_of(d)); i++)
        bytes -= kv_block_bytes(cache_of(d), i) * (size_t)prefix_index_n_idle(d->prefixes, i);
    return bytes;
}

/* Room for n more tokens, at the cost of cached prefixes alone. */
static bool reserve(struct model_drafter *d, kv_seq seq, int n)
{
    struct kv_cache *kv = cache_of(d);
    struct prefix_index *prefixes = d->is_own ? d->prefixes : d->e->prefixes;
    enum mr_status status;
    while ((status = kv_seq_reserve(kv, seq, n)) == MR_FULL && prefixes != NULL)
        for (int group = 0; group < kv_n_groups(kv); group++)
            while (kv_blocks_missing(kv, seq, group, n) > kv_n_free_blocks(kv, group))
                if (!prefix_index_evict(prefixes, group))
                    return false;
    return status == MR_OK;
}

/* Blocks that other answers' prompts, or this one's before a pause, have left. */
static void match_prefix(struct model_drafter *d, const struct sequence *s, struct draft_place *p)
{
    const int n_whole = (s->n_token - 1) / KV_BLOCK, n_block = n_whole < s->n_key ? n_whole : s->n_key;
    enum prefix_miss why;
    if (d->prefixes == NULL)
        return;
    p->n_shared = prefix_index_match(d->prefixes, s->key, n_block, &why);
    if (p->n_shared > 0)
        prefix_index_adopt(d->prefixes, p->kv, s->key, p->n_shared);
    p->n_sure = p->n_shared * KV_BLOCK;
}

/* Full blocks of what is certain are for others to share. */
static void publish(struct model_drafter *d, const struct sequence *s, struct draft_place *p, int n)
{
    const int n_block = n / KV_BLOCK < s->n_key ? n / KV_BLOCK : s->n_key;
    for (; d->prefixes != NULL && p->n_shared < n_block; p->n_shared++)
        prefix_index_add(d->prefixes, p->kv, s->key, p->n_shared);
}

/* The answer's place in the model's own cache, holding nothing but tokens of the answer. NULL: there is none. */
static struct draft_place *find_place(struct model_drafter *d, const struct sequence *s)
{
    struct draft_place *p = place_of(d, s);
    if (!p->is_open) {
        if (kv_seq_open(cache_of(d), &p->kv) != MR_OK)
            return NULL;
        p->is_open = true;
        match_prefix(d, s, p);
        return p;
    }
    const int length = kv_seq_length(cache_of(d), p->kv);
    int n = p->n_sure < length ? p->n_sure : length;
    while (n < length && n < s->n_token - 1 && p->guess[n - p->n_sure] == s->token[n])
        n++;
    publish(d, s, p, n);
    kv_seq_settle(cache_of(d), p->kv, n);
    return p;
}

static void add_row(struct model_drafter *d, const struct sequence *s, kv_seq seq, int32_t token, bool wants_logits)
{
    d->token[d->n_row] = token;
    d->seq[d->n_row] = seq;
    d->wants_logits[d->n_row] = wants_logits;
    d->adapters[d->n_row++] = &s->adapters;
}

/* The tokens that the model has not seen, as far as room_rows allows. Returns the rows of catching up. */
static int add_own_rows(struct model_drafter *d, struct draft_ask *ask, int room_rows, bool *goes_on)
{
    const struct sequence *s = ask->s;
    struct draft_place *p = find_place(d, s);
    if (p == NULL)
        return 0;
    const int length = kv_seq_length(cache_of(d), p->kv), n_missing = s->n_token - length;
    const bool behind = n_missing > DRAFTS_MAX + 1;
    int n = behind && room_rows < n_missing ? room_rows : n_missing;
    n = n < d->max_row - d->n_row ? n : d->max_row - d->n_row;
    *goes_on = n == n_missing && reserve(d, p->kv, n + ask->n_max - 1);
    if (n <= 0 || (!*goes_on && !reserve(d, p->kv, n)))
        return 0;
    kv_seq_expect_drafts(cache_of(d), p->kv, ask->n_max);
    for (int i = 0; i < n; i++)
        add_row(d, s, p->kv, s->token[length + i], *goes_on && i == n - 1);
    p->n_sure = length + n;
    return behind ? n : 0;
}

/* The last token, to where the engine's own row will overwrite it with the same. */
static void add_shared_row(struct model_drafter *d, struct draft_ask *ask, bool *goes_on)
{
    const struct sequence *s = ask->s;
    *goes_on = d->n_row < d->max_row && reserve(d, s->kv, ask->n_max);
    if (!*goes_on)
        return;
    kv_seq_expect_drafts(cache_of(d), s->kv, ask->n_max);
    add_row(d, s, s->kv, s->token[s->n_token - 1], true);
}

static int catch_up_rows(const struct model_drafter *d)
{
    const double room_us = d->e->options.itl_target_ms * 1e3 * catch_up_share;
    if (room_us == 0)
        return d->max_row;
    if (d->row_us * CATCH_UP_MIN >= room_us || d->row_us == 0)
        return CATCH_UP_MIN;
    return room_us >= d->row_us * d->max_row ? d->max_row : (int)(room_us / d->row_us);
}

/* What the model has not seen yet, each answer's last token included. Returns the rows of catching up. */
static int add_first_rows(struct model_drafter *d, struct draft_ask *ask, int n_ask)
{
    const int room = catch_up_rows(d);
    int n = 0;
    d->n_row = 0;
    for (int i = 0; i < n_ask; i++) {
        d->goes_on[i] = false;
        if (d->is_own)
            n += add_own_rows(d, &ask[i], room - n, &d->goes_on[i]);
        else
            add_shared_row(d, &ask[i], &d->goes_on[i]);
    }
    return n;
}

/* The tokens that a constraint leaves behind the guesses, all of which it allows. NULL: all, or nothing is known. */
static const uint64_t *allowed_behind(const struct draft_ask *ask)
{
    const uint64_t *mask = NULL;
    return ask->s->constraint != NULL && constraint_mask(&mask, ask->s->constraint, NULL) == MR_OK ? mask : NULL;
}

/* One more guess, as the engine would draw it from these logits. false: there is none, or no more is wanted behind it. */
static bool guess(struct model_drafter *d, struct draft_ask *ask, const float *logits)
{
    struct sequence *s = ask->s;
    struct mr_sampling params = s->request->sampling;
    params.n_logprobs = -1;
    const int n_token = s->n_token + ask->n;
    const bool is_early = s->usage.n_generated + ask->n < s->request->min_tokens;
    const struct sample_point point = {.params = &params,
                                       .bias = s->bias,
                                       .n_bias = is_early ? s->n_early_bias : s->n_bias,
                                       .allowed = allowed_behind(ask),
                                       .recent = s->token,
                                       .n_recent = n_token,
                                       .position = n_token,
                                       .sample = s->sample};
    struct sampled chosen;
    if (sampler_pick(d->e->sampler, logits, &point, &chosen, NULL) != MR_OK)
        return false;
    s->token[n_token] = chosen.token;
    ask->n++;
    if (s->constraint != NULL && constraint_accept(s->constraint, chosen.token, NULL) != MR_OK) {
        ask->n--;
        return false;
    }
    return ask->n < ask->n_max && !tokenizer_is_end(d->e->model->tokenizer, chosen.token);
}

static bool run(struct model_drafter *d)
{
    const struct batch batch = {.n_row = d->n_row,
                                .token = d->token,
                                .seq = d->seq,
                                .wants_logits = d->wants_logits,
                                .adapters = d->is_own ? NULL : d->adapters,
                                .n_layer = d->n_layer};
    return d->n_row > 0 && model_forward(d->model, d->kv, &batch, NULL) == MR_OK;
}

/* Take a guess for each row of logits, and put in the rows of the next pass. */
static void take_guesses(struct model_drafter *d, struct draft_ask *ask, int n_ask)
{
    int row = 0;
    d->n_row = 0;
    for (int i = 0; i < n_ask; i++) {
        if (!d->goes_on[i])
            continue;
        const struct sequence *s = ask[i].s;
        d->goes_on[i] = guess(d, &ask[i], model_logits(d->model, row++));
        if (d->goes_on[i])
            add_row(d, s, d->is_own ? place_of(d, s)->kv : s->kv, s->token[s->n_token + ask[i].n - 1], true);
    }
}

/* Leave the caches, and the constraint, as the engine's own step expects them. */
static void end(struct model_drafter *d, const struct draft_ask *ask)
{
    struct sequence *s = ask->s;
    if (s->constraint != NULL)
        constraint_undo(s->constraint, ask->n, NULL);
    if (d->is_own) {
        memcpy(place_of(d, s)->guess, s->token + s->n_token, (size_t)ask->n * sizeof *s->token);
        return;
    }
    kv_seq_settle(cache_of(d), s->kv, s->n_cached);
    kv_seq_reserve(cache_of(d), s->kv, 1); /* its blocks have just been given back */
}

double model_drafter_token_us(void *model_drafter) { return ((struct model_drafter *)model_drafter)->token_us; }

static void average(double *x, double latest) { *x += (latest - *x) * (*x > 0 ? weight : 1); }

void model_drafter_propose(void *model_drafter, struct draft_ask *ask, int n_ask)
{
    struct model_drafter *d = model_drafter;
    int n_guess = 0;
    const int64_t begin_us = engine_now_us(d->e);
    int64_t first_us = begin_us;
    const int n_behind = add_first_rows(d, ask, n_ask), n_first = d->n_row;
    bool ok = run(d);
    if (ok && n_behind > 0) {
        first_us = engine_now_us(d->e);
        average(&d->row_us, (double)(first_us - begin_us) / n_first);
    }
    for (; ok; ok = run(d))
        take_guesses(d, ask, n_ask);
    for (int i = 0; i < n_ask; i++) {
        n_guess += ask[i].n;
        end(d, &ask[i]);
    }
    const int64_t end_us = engine_now_us(d->e);
    if (n_guess > 0)
        average(&d->token_us, (double)(end_us - first_us) / n_guess);
    d->e->draft_us += end_us - begin_us;
}
