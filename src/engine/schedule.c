/* schedule.c: who runs. Those who wait are ranked by priority, which grows with waiting, then by what their key has been
 * given, then the shorter and older first; whoever is first starts when there are a slot and blocks for it, and nobody
 * overtakes it. */

#include "engine/engine_state.h"

/* Who wants to start: a waiting request's next answer, or one that was put aside. */
struct candidate {
    const struct request_record *request;
    struct sequence *aside; /* NULL: it waits */
    int waiting;            /* its place in the queue */
    int n_token;            /* to be computed */
    int64_t level;          /* priority with age */
    double served, due_us;
};

double schedule_due_us(const struct mr_engine *e, const struct request_record *r, int n)
{
    const double shortest_first = admission_has_target(e) ? 0 : 2;
    return (double)r->arrival_us + shortest_first * step_cost_prompt_row_us(&e->cost) * n;
}

static struct candidate rank(const struct mr_engine *e, const struct request_record *r, int n_token)
{
    const int64_t age_us = (int64_t)e->options.priority_age_ms * 1000, waited = e->now_us - r->arrival_us;
    return (struct candidate){.request = r,
                              .n_token = n_token,
                              .level = r->background ? INT64_MIN : r->priority + (age_us > 0 ? waited / age_us : 0),
                              .served = fair_share_served(&e->shares[r->background], r->share),
                              .due_us = schedule_due_us(e, r, n_token)};
}

static bool comes_first(const struct candidate *a, const struct candidate *b)
{
    if (a->level != b->level)
        return a->level > b->level;
    if (a->served != b->served)
        return a->served < b->served;
    if (a->due_us != b->due_us)
        return a->due_us < b->due_us;
    return a->request->id < b->request->id;
}

static void consider(struct candidate *best, struct candidate c)
{
    if (best->request == NULL || comes_first(&c, best))
        *best = c;
}

static struct sequence *free_slot(const struct mr_engine *e, bool background)
{
    const int first = background ? e->options.max_running : 0;
    for (int i = first; i < first + e->options.max_running; i++)
        if (e->slot[i].request == NULL)
            return &e->slot[i];
    return NULL;
}

static int n_running(const struct mr_engine *e)
{
    int n = 0;
    for (int i = 0; i < e->options.max_running; i++)
        n += e->slot[i].request != NULL;
    return n;
}

/* Whether a background request may start: nobody else runs. */
static bool background_may_start(const struct mr_engine *e) { return n_running(e) == 0 && free_slot(e, true) != NULL; }

/* Whether the policy lets a waiting request join now. began: others have joined in this step. */
static bool may_join(const struct mr_engine *e, bool began)
{
    const int n = n_running(e);
    switch ((enum mr_batching)e->options.batching) {
    case MR_BATCHING_NONE:
        return n == 0;
    case MR_BATCHING_STATIC:
        return n == 0 || began;
    case MR_BATCHING_DYNAMIC:
        return began || (n == 0 && (e->n_waiting >= e->options.max_running ||
                                    e->now_us - e->waiting[0]->arrival_us >= (int64_t)e->options.batch_window_ms * 1000));
    case MR_BATCHING_CONTINUOUS:
    case MR_N_BATCHINGS:
        break;
    }
    return true;
}

static struct candidate best_candidate(const struct mr_engine *e, bool began)
{
    struct candidate best = {0};
    const bool is_quiet = n_running(e) == 0;
    for (int i = 0; i < e->n_slot; i++) {
        struct sequence *s = &e->slot[i];
        if (s->request == NULL || s->in_cache || (s->request->background && !is_quiet))
            continue;
        struct candidate c = rank(e, s->request, s->n_token);
        c.aside = s;
        consider(&best, c);
    }
    if (e->n_waiting == 0)
        return best;
    const bool may_start[] = {free_slot(e, false) != NULL && may_join(e, began) && admission_may_start(e),
                              background_may_start(e)};
    for (int i = 0; i < e->n_waiting; i++) {
        if (!may_start[e->waiting[i]->background] || !engine_is_ready(e->waiting[i]))
            continue;
        struct candidate c = rank(e, e->waiting[i], e->waiting[i]->n_prompt);
        c.waiting = i;
        consider(&best, c);
    }
    return best;
}

/* Blocks of the group for all its tokens and the next one, beside those it shares. */
static int blocks_to_take(const struct mr_engine *e, const struct sequence *s, int group)
{
    const struct kv_cache *kv = model_kv_cache(e->kv);
    const int n_token = s->n_token < e->n_ctx ? s->n_token + 1 : s->n_token;
    const int missing = kv_blocks_missing(kv, s->kv, group, n_token - s->n_cached),
              most = kv_blocks_needed(kv, group, n_token, e->max_row);
    return missing < most ? missing : most;
}

/* Whether there is room for s beside what the others need for their prompts and their next block. */
static bool has_room(const struct mr_engine *e, const struct sequence *s)
{
    struct kv_cache *kv = model_kv_cache(e->kv);
    bool fits = true, alone = true;
    if (e->options.kv_policy != MR_KV_PAGED)
        return kv_seq_claim(kv, s->kv, s->n_token < e->n_ctx ? s->n_token + 1 : s->n_token) == MR_OK;
    for (int group = 0; group < kv_n_groups(kv); group++) {
        int need = blocks_to_take(e, s, group), room = kv_n_free_blocks(kv, group);
        for (int i = 0; i < e->n_slot; i++) {
            const struct sequence *t = &e->slot[i];
            if (t == s || t->request == NULL || !t->in_cache || (t->request->background && !s->request->background))
                continue;
            alone = false;
            need += kv_blocks_missing(kv, t->kv, group, t->n_token - t->n_cached) + 1;
        }
        if (need > room && e->prefixes != NULL)
            room += prefix_index_n_idle(e->prefixes, group);
        fits &= need <= room;
    }
    return fits || alone;
}

/* Put a background answer aside for another one; false: there is none. */
static bool put_background_aside(struct mr_engine *e)
{
    for (int i = e->options.max_running; i < e->n_slot; i++) {
        if (e->slot[i].request == NULL || !e->slot[i].in_cache)
            continue;
        sequence_put_aside(e, &e->slot[i]);
        return true;
    }
    return false;
}

/* false: there is no room, s stays aside. */
static bool enter(struct mr_engine *e, struct sequence *s)
{
    sequence_enter_cache(e, s);
    while (!has_room(e, s)) {
        if (!s->request->background && put_background_aside(e))
            continue;
        sequence_leave_cache(e, s);
        return false;
    }
    if (s->start_us < 0) {
        s->start_us = e->now_us;
        s->usage.queue_us = s->start_us - s->request->arrival_us;
    }
    return true;
}

static struct sequence *begin_answer(struct mr_engine *e, int waiting)
{
    struct request_record *r = e->waiting[waiting];
    struct sequence *s = free_slot(e, r->background);
    struct mr_error err = {{0}};
    const enum mr_status status = sequence_start(e, s, r, &err);
    const int sample = r->n_started++;
    if (r->n_started == r->n)
        engine_leave_queue(e, waiting);
    fair_share_chosen(&e->shares[r->background], r->share);
    if (status == MR_OK)
        return s;
    const struct event_record event = {
        .request = r->id, .sample = sample, .token = -1, .finish = MR_FINISH_ERROR, .status = (int32_t)status};
    engine_emit_end(e, event, err.message);
    engine_answer_ended(e, r);
    return NULL;
}

static void end_overdue(struct mr_engine *e)
{
    for (int i = e->n_waiting - 1; i >= 0; i--)
        if (e->waiting[i]->deadline_us <= e->now_us)
            engine_end_waiting(e, i, MR_FINISH_TIMEOUT);
    for (int i = 0; i < e->n_slot; i++)
        if (e->slot[i].request != NULL && e->slot[i].request->deadline_us <= e->now_us)
            sequence_end(e, &e->slot[i], MR_FINISH_TIMEOUT);
}

void schedule_admit(struct mr_engine *e)
{
    end_overdue(e);
    engine_end_refused(e);
    admission_plan(e);
    for (bool began = false;;) {
        const struct candidate c = best_candidate(e, began);
        if (c.request == NULL)
            return;
        if (c.aside == NULL && !c.request->background && !admission_is_harmless(e, c.request))
            return;
        struct sequence *s = c.aside != NULL ? c.aside : begin_answer(e, c.waiting);
        began |= c.aside == NULL;
        if (s != NULL && !enter(e, s))
            return;
    }
}
