/* forecast.c: what a request would meet: the answers that run, those that go before it, and its own rows, in time. */
#include "engine/engine_state.h"

enum {
    PLAYED_MAX = 128,  /* answers ahead that are played forward */
    AHEAD_EXACT = 1024 /* answers ahead that are placed one by one */
};

static const double slack = 0.08; /* of the target, for steps that take longer than expected; 0.05 to 0.13 do as well */

static void add(struct work *a, const struct work *b, double share)
{
    a->n += share * b->n;
    a->prompt += share * b->prompt;
    a->answer += share * b->answer;
}

static struct work work_of(const struct request_record *r)
{
    const double n = r->n - r->n_started;
    return (struct work){n, r->n_started == 0 ? r->n_uncached : 0, n * r->expected_answer};
}

static double cost_of(const struct mr_engine *e, const struct work *a)
{
    return a->prompt + a->answer * step_cost_decode_weight(&e->cost);
}

/* Of the same priority and other keys: what of their work is served in turn with that of the request's own key. */
static void add_others(struct mr_engine *e, const struct request_record *r, const struct work *own, struct work *out)
{
    const struct work self = work_of(r);
    const double served = fair_share_served(&e->shares[0], r->share), turn = cost_of(e, own) + cost_of(e, &self);
    for (int share = 0; share < e->shares[0].n; share++)
        e->admission.account[share].waiting = (struct work){0};
    for (int i = 0; i < e->n_waiting; i++) {
        const struct work w = work_of(e->waiting[i]);
        if (!e->waiting[i]->background && e->waiting[i]->share != r->share && e->waiting[i]->priority == r->priority)
            add(&e->admission.account[e->waiting[i]->share].waiting, &w, 1);
    }
    for (int share = 0; share < e->shares[0].n; share++) {
        const struct work *other = &e->admission.account[share].waiting;
        const double lead = served - fair_share_served(&e->shares[0], share), limit = turn + (lead > 0 ? lead : 0);
        const double cost = cost_of(e, other);
        add(out, other, cost > limit ? limit / cost : 1);
    }
}

static struct work work_ahead(struct mr_engine *e, const struct request_record *r)
{
    struct work own = {0}, all = {0};
    const double due = schedule_due_us(e, r, r->n_prompt);
    for (int i = 0; i < e->n_waiting; i++) {
        const struct request_record *w = e->waiting[i];
        if (w->background)
            continue;
        const struct work work = work_of(w);
        const bool earlier = w->share == r->share && schedule_due_us(e, w, w->n_prompt) <= due;
        if (w->priority > r->priority)
            add(&all, &work, 1);
        else if (w->priority == r->priority && earlier)
            add(&own, &work, 1);
    }
    add_others(e, r, &own, &all);
    add(&all, &own, 1);
    return all;
}

/* Microseconds of a prompt's row beside n answers: steps have only so much time for them. */
static double prompt_row_us(const struct mr_engine *e, double n)
{
    const struct pace *p = &e->admission.pace;
    if (n < 1 || e->options.itl_target_ms == 0 || p->prompt <= 0)
        return p->prompt;
    const double streams = p->step + n * p->decode, rows = batch_prompt_us(e, streams) / p->prompt;
    return p->prompt + streams / (rows > 1 ? rows : 1);
}

/* Answers that are being generated. */
static int n_streams(const struct mr_engine *e)
{
    int n = 0;
    for (int i = 0; i < e->options.max_running; i++)
        n += e->slot[i].request != NULL && e->slot[i].usage.n_generated > 0;
    return n;
}

/* When each of the slots that may be used is free; returns their number. *prompt: rows that are still to come. */
static int free_times(struct mr_engine *e, double step_us, double free_us[ADMISSION_SLOTS_MAX], double *prompt)
{
    const struct admission *a = &e->admission;
    int n = 0;
    *prompt = 0;
    for (int i = 0; i < e->options.max_running; i++) {
        const struct sequence *s = &e->slot[i];
        if (s->request == NULL)
            continue;
        const int done = s->usage.n_generated, left = admission_answer_left(e, s->request, done, EXPECTED_PERCENTILE);
        const int rows = done == 0 ? s->n_token - s->n_cached : 0;
        const double us = left * step_us + rows * a->pace.prompt;
        *prompt += rows;
        int at = n++;
        for (; at > 0 && free_us[at - 1] > us; at--)
            free_us[at] = free_us[at - 1];
        free_us[at] = us;
    }
    if (n > a->cap) { /* the first to end make no room */
        for (int i = 0; i < a->cap; i++)
            free_us[i] = free_us[i + n - a->cap];
        return a->cap;
    }
    for (; n < a->cap; n++)
        free_us[n] = 0;
    return n;
}

/* The next answer takes the slot that is free first, for us; returns when. */
static double take_slot(double *free_us, int n, double us)
{
    int first = 0;
    for (int i = 1; i < n; i++)
        first = free_us[i] < free_us[first] ? i : first;
    const double at = free_us[first];
    free_us[first] += us;
    return at;
}

static double take_slots(double *free_us, int n_slot, double n, double us)
{
    double at = 0;
    if (n > AHEAD_EXACT) { /* the others in rounds */
        const double rounds = (double)(int)((n - AHEAD_EXACT) / n_slot);
        for (int i = 0; i < n_slot; i++)
            free_us[i] += rounds * us;
        n -= rounds * n_slot;
    }
    for (int i = 0; i < (int)(n + 0.5); i++)
        at = take_slot(free_us, n_slot, us);
    return at;
}

void forecast_runner(struct mr_engine *e, struct runner *out, const struct request_record *r)
{
    *out = (struct runner){.prompt_us = r->n_uncached * e->admission.pace.prompt,
                           .left = r->expected_answer,
                           .longest = r->longest_answer,
                           .until_us = admission_until_us(e, r),
                           .slack_us = slack * e->options.latency_target_ms * 1e3};
}

void forecast_runners(struct mr_engine *e, struct runners *out)
{
    out->n = 0;
    out->now_us = 0;
    for (int i = 0; i < e->options.max_running; i++) {
        const struct sequence *s = &e->slot[i];
        if (s->request == NULL)
            continue;
        const int done = s->usage.n_generated, rows = done == 0 ? s->n_token - s->n_cached : 0;
        out->run[out->n++] = (struct runner){.prompt_us = rows * e->admission.pace.prompt,
                                             .left = admission_answer_left(e, s->request, done, EXPECTED_PERCENTILE),
                                             .longest = admission_answer_left(e, s->request, done, LONG_PERCENTILE),
                                             .until_us = admission_until_us(e, s->request),
                                             .slack_us = slack * e->options.latency_target_ms * 1e3};
    }
}

/* Whether w, which waits, is served before r. Of other keys: what is served in turn with the work of r's own key. */
static bool goes_before(struct mr_engine *e, const struct request_record *w, const struct request_record *r, double turn)
{
    if (w->priority != r->priority)
        return w->priority > r->priority;
    if (w->share == r->share)
        return schedule_due_us(e, w, w->n_prompt) <= schedule_due_us(e, r, r->n_prompt);
    const double lead = fair_share_served(&e->shares[0], r->share) - fair_share_served(&e->shares[0], w->share);
    struct work *taken = &e->admission.account[w->share].waiting;
    if (cost_of(e, taken) > turn + (lead > 0 ? lead : 0))
        return false;
    const struct work work = work_of(w);
    add(taken, &work, 1);
    return true;
}

/* Those before the request join, each when it can. */
static void play_ahead(struct mr_engine *e, const struct request_record *r, double turn, struct runners *runners)
{
    const struct admission *a = &e->admission;
    struct runner x;
    double start;
    for (int share = 0; share < e->shares[0].n; share++)
        e->admission.account[share].waiting = (struct work){0};
    for (int i = 0, n = 0; i < e->n_waiting && n < PLAYED_MAX; i++) {
        const struct request_record *w = e->waiting[i];
        if (w->background || !goes_before(e, w, r, turn))
            continue;
        forecast_runner(e, &x, w);
        for (int k = w->n_started; k < w->n; k++, n++)
            runners_join(runners, &a->pace, &x, a->cap, &start);
    }
}

/* When the request would begin and end, by playing forward what runs and goes before it. turn: the work of its key, with its
 * own. */
static void forecast_whole(struct mr_engine *e, const struct request_record *r, double turn, double promised,
                           struct forecast *f)
{
    const struct admission *a = &e->admission;
    struct runners runners;
    struct runner x;
    double start;
    forecast_runners(e, &runners);
    for (int i = 0; i < runners.n; i++)
        runners.now_us += runners.run[i].prompt_us;
    play_ahead(e, r, turn, &runners);
    forecast_runner(e, &x, r);
    for (int i = 0; i < (int)(promised + 0.5); i++) /* like itself */
        runners_join(&runners, &a->pace, &x, a->cap, &start);
    for (int i = 0; i < r->n; i++) {
        f->end_us = runners_join(&runners, &a->pace, &x, a->cap, &start);
        f->start_us = i == 0 ? start : f->start_us;
    }
}

struct forecast admission_forecast(struct mr_engine *e, const struct request_record *r)
{
    struct admission *a = &e->admission;
    double free_us[ADMISSION_SLOTS_MAX], prompt, promised_cost;
    struct work ahead = work_ahead(e, r);
    const double step = pace_step_us(&a->pace, a->cap), answer_us = r->expected_answer * step;
    const int n_slot = free_times(e, step, free_us, &prompt);
    const double promised = r->n_retry == 0 ? promises_due(&a->promises, e->now_us + (int64_t)answer_us, &promised_cost) : 0;
    ahead.n += promised;
    const double mean_us = ahead.n > 0 ? (ahead.prompt * a->pace.prompt + ahead.answer * step) / ahead.n : 0;
    take_slots(free_us, n_slot, ahead.n, mean_us > 0 ? mean_us : answer_us);
    const double streams = n_streams(e) + ahead.n / 2; /* half of those ahead, while the prompts are computed */
    const double row_us = prompt_row_us(e, streams < n_slot ? streams : n_slot);
    const double own_us = r->n_uncached * row_us, start = take_slots(free_us, n_slot, 1, own_us + answer_us);
    const double last = r->n > 1 ? take_slots(free_us, n_slot, r->n - 1, answer_us) : start;
    const double prompts_us = (prompt + ahead.prompt) * row_us, begin = start > prompts_us ? start : prompts_us;
    const double first = begin + own_us + a->pace.step + n_slot * a->pace.decode;
    struct forecast f = {start, first, (last > begin ? last : begin) + own_us + r->longest_answer * step};
    if (e->options.latency_metric == MR_LATENCY_E2E)
        forecast_whole(e, r, cost_of(e, &ahead), promised, &f);
    return f;
}
