/* batch.c: the rows of a step. Decoding sequences first, so that no prompt holds up a stream; then prompts, as many rows as
 * the step's time has room for. Where blocks run out the most junior sequence is put aside. */
#include "engine/engine_state.h"

/* However little time there is prompts get this share of the target's, and the more the nearer the streams come to it: as much
 * as the streams take from there on. Whoever waits for a first token waits, too, and answers that begin late leave places of
 * the batch unused. */
static const double prompt_share_min = 0.25;

/* A first token is late after this time, or after so many times its prompt's own: more than a prompt takes that has half of the
 * steps. Where two are late they queue: each second of it gives prompts so many seconds more of a step. On a machine that is
 * too slow for its streams' target prompts would else stand still. */
static const double patience_us = 1e6, patience_times = 4, late_part = 0.1;

/* A request that comes while a step of background requests runs waits for its end. For so long after others had rows such a
 * step has only the eldest of its answers, and takes prompts for what those leave of a short time, then of a longer one, and
 * for a little in any case.
 */
enum {
    BETWEEN_ROWS = 8
};
static const int64_t others_gone_us = 10000000;
static const double between_us = 60e3, alone_us = 250e3, background_least_us = 20e3;

/* Tokens that wait for their row, without drafts. */
static int todo(const struct sequence *s) { return s->n_token - s->n_cached; }

static bool runs(const struct sequence *s) { return s->request != NULL && s->in_cache; }

/* Whether it may have rows in this step. */
static bool takes_part(const struct mr_engine *e, const struct sequence *s)
{
    return runs(s) && s->request->background == e->is_background_step;
}

static bool decodes(const struct sequence *s) { return todo(s) == 1 && s->n_token > s->request->n_prompt; }

static void count_rows(struct mr_engine *e, const struct sequence *s, int n)
{
    const bool decoding = decodes(s);
    e->shape.n_decode += decoding ? n : 0;
    e->shape.n_prompt += decoding ? 0 : n;
    e->shape.n_draft += s->n_draft;
    e->shape.attended += step_attended(s->n_cached, s->n_row);
    const double cost = n * (decoding ? step_cost_decode_weight(&e->cost) : 1);
    fair_share_charge(&e->shares[s->request->background], s->request->share, s->n_draft + cost);
    admission_spend(e, s->request, cost);
}

/* The next n tokens of the sequence into the batch, then its drafts. */
static void add_rows(struct mr_engine *e, struct sequence *s, int n)
{
    if (s->n_computed == 0) {
        e->stats.n_looked_up += s->request->n_prompt;
        e->stats.n_found += s->n_cached;
    }
    s->n_row = n + s->n_draft;
    s->is_fresh = false;
    s->first_logits = e->n_logits;
    s->first_hidden = e->n_hidden;
    s->n_score = s->n_hidden = 0;
    const bool is_last = n == todo(s);
    for (int i = 0; i < s->n_row; i++) {
        const int row = e->n_row++;
        const bool scores = sequence_scores(s, s->n_cached + i);
        e->row_token[row] = s->token[s->n_cached + i];
        e->row_seq[row] = s->kv;
        e->row_adapters[row] = &s->adapters;
        e->row_wants_logits[row] = scores || (is_last && i >= n - 1 && s->pool == NULL);
        e->row_wants_hidden[row] = sequence_pools(s, s->n_cached + i);
        s->n_hidden += e->row_wants_hidden[row];
        e->n_logits += e->row_wants_logits[row];
        s->n_score += scores;
    }
    e->n_hidden += s->n_hidden;
    s->logits = is_last && s->pool == NULL ? s->first_logits + s->n_score : -1;
    kv_seq_expect_drafts(model_kv_cache(e->kv), s->kv, s->n_draft);
    count_rows(e, s, n);
    const int redone = s->n_computed - s->n_cached;
    e->stats.n_redone_rows += redone > n ? n : redone > 0 ? redone : 0;
}

/* The most junior of those that hold blocks and have no rows in this step. */
static struct sequence *most_junior(const struct mr_engine *e)
{
    struct sequence *junior = NULL;
    for (int i = 0; i < e->n_slot; i++) {
        struct sequence *s = &e->slot[i];
        if (runs(s) && s->n_row == 0 && (junior == NULL || sequence_is_senior(junior, s)))
            junior = s;
    }
    return junior;
}

/* Take blocks from the prefix cache. false: they do not suffice, or there are none. */
static bool evict(struct mr_engine *e, kv_seq seq, int n)
{
    const struct kv_cache *kv = model_kv_cache(e->kv);
    if (e->prefixes == NULL)
        return false;
    for (int group = 0; group < kv_n_groups(kv); group++)
        while (kv_blocks_missing(kv, seq, group, n) > kv_n_free_blocks(kv, group))
            if (!prefix_index_evict(e->prefixes, group))
                return false;
    return true;
}

bool batch_make_room(struct mr_engine *e, struct sequence *s, int n)
{
    while (kv_seq_reserve(model_kv_cache(e->kv), s->kv, n) != MR_OK) {
        if (evict(e, s->kv, n))
            continue;
        struct sequence *junior = most_junior(e);
        if (junior == NULL || junior == s || sequence_is_senior(junior, s))
            return false;
        sequence_put_aside(e, junior);
    }
    return true;
}

/* Insert slot i among the first n of e->order. */
static void insert(struct mr_engine *e, int i, int n, bool (*before)(const struct mr_engine *, int, int))
{
    for (; n > 0 && before(e, i, e->order[n - 1]); n--)
        e->order[n] = e->order[n - 1];
    e->order[n] = i;
}

static bool is_senior(const struct mr_engine *e, int a, int b) { return sequence_is_senior(&e->slot[a], &e->slot[b]); }

/* Shorter first, with age, within a priority. */
static bool is_due_earlier(const struct mr_engine *e, int a, int b)
{
    const struct sequence *x = &e->slot[a], *y = &e->slot[b];
    const double due_x = schedule_due_us(e, x->request, todo(x)), due_y = schedule_due_us(e, y->request, todo(y));
    if (x->request->priority != y->request->priority || due_x == due_y)
        return is_senior(e, a, b);
    return due_x < due_y;
}

bool batch_reserve_idle(struct mr_engine *e, kv_seq seq, int n)
{
    struct kv_cache *kv = model_kv_cache(e->kv);
    return kv_seq_reserve(kv, seq, n) == MR_OK || (evict(e, seq, n) && kv_seq_reserve(kv, seq, n) == MR_OK);
}

/* Blocks for the drafts, which nobody is put aside for. Returns how many there is room for. */
static int make_room_for_drafts(struct mr_engine *e, const struct sequence *s, int n)
{
    while (n > 0 && !batch_reserve_idle(e, s->kv, 1 + n))
        n--;
    return n;
}

/* Rows of the n sequences of e->order, all of which have room for one, with their share of the drafts. */
static void add_rows_and_drafts(struct mr_engine *e, int n, int n_running)
{
    struct step_shape plain = {.n_decode = n};
    for (int i = 0; i < n; i++)
        plain.attended += e->slot[e->order[i]].n_token;
    drafts_propose(e, n, &plain, drafts_room(e, &plain, n_running));
    for (int i = 0; i < n; i++) {
        struct sequence *s = &e->slot[e->order[i]];
        s->n_draft = make_room_for_drafts(e, s, s->n_draft);
        add_rows(e, s, 1);
        windows_add(e, s);
    }
}

/* Background requests' step, and others may come at any moment, who meet it: they have been there a while ago. */
static bool is_between_others(const struct mr_engine *e)
{
    return e->is_background_step && e->now_us - e->others_us < others_gone_us;
}

static void add_decoding(struct mr_engine *e)
{
    int n = 0, n_roomy = 0, n_running = 0;
    for (int i = 0; i < e->n_slot; i++) {
        n_running += takes_part(e, &e->slot[i]);
        if (takes_part(e, &e->slot[i]) && todo(&e->slot[i]) == 1)
            insert(e, i, n++, is_senior);
    }
    const int most = is_between_others(e) ? BETWEEN_ROWS : n;
    for (int i = 0; i < n && n_roomy < most; i++) {
        struct sequence *s = &e->slot[e->order[i]];
        if (!s->in_cache)
            continue; /* put aside for another one */
        if (batch_make_room(e, s, 1))
            e->order[n_roomy++] = e->order[i];
        else
            sequence_put_aside(e, s);
    }
    add_rows_and_drafts(e, n_roomy, n_running);
}

/* Another answer of the same request that has begun with its prompt. */
static struct sequence *elder_answer(const struct mr_engine *e, const struct sequence *s)
{
    struct sequence *elder = NULL;
    for (int i = 0; i < e->n_slot; i++) {
        struct sequence *t = &e->slot[i];
        if (t != s && t->request == s->request && runs(t) && !t->is_fresh)
            elder = elder == NULL || t->n_cached > elder->n_cached ? t : elder;
    }
    return elder;
}

/* Share the prompt of the elder answer, all but the row that gives the logits. */
static void share_prompt(struct mr_engine *e, struct sequence *s, const struct sequence *elder)
{
    struct kv_cache *kv = model_kv_cache(e->kv);
    const int n = s->request->n_prompt - 1;
    kv_seq other;
    if (n <= s->n_cached)
        return;
    kv_seq_close(kv, s->kv);
    if (kv_seq_fork(kv, &other, elder->kv, n) == MR_OK) {
        s->kv = other;
        s->n_cached = n;
        if (s->n_computed == 0) {
            s->usage.n_cached = n;
            s->usage.cache_miss = MR_CACHE_HIT;
        }
    } else { /* the window has left the prompt: compute it */
        sequence_enter_cache(e, s);
    }
}

/* Back to the beginning, without what the elder answer shared. */
static void unshare_prompt(struct mr_engine *e, struct sequence *s)
{
    kv_seq_truncate(model_kv_cache(e->kv), s->kv, 0);
    s->n_cached = 0;
}

/* The part of the target that a step may be expected to take, so that all but one in a hundred keep within 1.5 times the
 * target. */
static double room_for_scatter(const struct mr_engine *e)
{
    const double widest = 1.4; /* less than 1.5: the scatter is an estimate, too */
    const double scatter = step_cost_scatter(&e->cost);
    return scatter > widest ? widest / scatter : 1;
}

/* How late first tokens are: the second latest, as one may be late because its prompt is long. 0: they come in time. */
static double lateness_us(const struct mr_engine *e)
{
    double first = 0, second = 0;
    for (int i = 0; i < e->options.max_running; i++) {
        const struct sequence *s = &e->slot[i];
        if (!runs(s) || s->n_token > s->request->n_prompt)
            continue;
        const double own = patience_times * step_cost_prompt_us(&e->cost, s->request->n_prompt),
                     late = (double)(e->now_us - s->request->arrival_us) - (own > patience_us ? own : patience_us);
        second = late > first ? first : late > second ? late : second;
        first = late > first ? late : first;
    }
    return second;
}

double batch_prompt_us(const struct mr_engine *e, double streams_us)
{
    const double target = e->options.itl_target_ms * 1e3, part = room_for_scatter(e);
    const double near = streams_us < target ? 2 * streams_us - target : streams_us;
    const double share = prompt_share_min * target * part, least = share > near ? share : near;
    const double room = target * part - streams_us;
    return (room > least ? room : least) + late_part * lateness_us(e);
}

/* Microseconds of the step, whose answers take so long. */
static double step_budget_us(const struct mr_engine *e, double streams_us)
{
    if (!e->is_background_step)
        return streams_us + batch_prompt_us(e, streams_us);
    const double room = (is_between_others(e) ? between_us : alone_us) - streams_us;
    return streams_us + (room > background_least_us ? room : background_least_us);
}

/* Rows of prompts that the step's time has room for, of n_todo from `first` on. */
static int rows_in_time(const struct mr_engine *e, int first, int n_todo)
{
    const bool any_time = e->options.itl_target_ms == 0 || (e->shape.n_decode == 0 && !e->is_background_step);
    if (any_time && !is_between_others(e))
        return n_todo;
    const int n = step_cost_rows(&e->cost, &e->shape, first, n_todo, e->step_budget_us);
    return n > 0 || e->shape.n_prompt > 0 ? n : 1; /* the first prompt gets on */
}

/* As many of n rows as there is room for. */
static int add_rows_in_room(struct mr_engine *e, struct sequence *s, int n)
{
    while (n > 0 && !batch_make_room(e, s, n))
        n = n > KV_BLOCK ? n - KV_BLOCK : 0;
    if (n > 0)
        add_rows(e, s, n);
    return n;
}

static void add_prompt(struct mr_engine *e, struct sequence *s)
{
    const struct sequence *elder =
        s->is_fresh && s->request->n > 1 && !sequence_has_scores(s) && e->options.kv_policy == MR_KV_PAGED ? elder_answer(e, s)
                                                                                                           : NULL;
    if (elder != NULL && elder->n_cached < s->request->n_prompt)
        return; /* wait for it */
    if (elder != NULL)
        share_prompt(e, s, elder);
    else if (s->is_fresh && sequence_waits_for_prefix(e, s))
        return;
    const int room = e->options.prompt_chunk - e->n_row;
    const int n_row = rows_in_time(e, s->n_cached, todo(s) < room ? todo(s) : room);
    const int n = add_rows_in_room(e, s, scores_rows(e, s, n_row));
    if (n == 0 && elder != NULL)
        unshare_prompt(e, s); /* the elder is about to write behind the prompt */
}

struct batch batch_build(struct mr_engine *e)
{
    e->n_row = e->n_logits = e->n_hidden = 0;
    e->shape = (struct step_shape){0};
    e->draft_us = 0;
    e->is_background_step = true;
    for (int i = 0; i < e->n_slot; i++) {
        e->slot[i].n_row = e->slot[i].n_draft = 0;
        e->is_background_step &= !runs(&e->slot[i]) || e->slot[i].request->background;
    }
    if (!e->is_background_step)
        e->others_us = e->now_us;
    add_decoding(e);
    const double streams_us = step_cost_us(&e->cost, &e->shape);
    e->step_budget_us = step_budget_us(e, streams_us);
    int n = 0;
    for (int i = 0; i < e->n_slot; i++)
        if (takes_part(e, &e->slot[i]) && e->slot[i].n_row == 0 && todo(&e->slot[i]) > 1)
            insert(e, i, n++, is_due_earlier);
    for (int i = 0; i < n && e->n_row < e->options.prompt_chunk; i++)
        if (e->slot[e->order[i]].in_cache)
            add_prompt(e, &e->slot[e->order[i]]);
    return (struct batch){.n_row = e->n_row,
                          .token = e->row_token,
                          .seq = e->row_seq,
                          .wants_logits = e->row_wants_logits,
                          .wants_hidden = e->n_hidden > 0 ? e->row_wants_hidden : NULL,
                          .adapters = e->row_adapters};
}
