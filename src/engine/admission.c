/* admission.c: prices, the plan for the batch, and the decision; what is predicted stands in forecast.c. */
#include "engine/admission.h"

#include <math.h>
#include <stdlib.h>

#include "base/memory.h"
#include "engine/engine_state.h"

enum {
    ANSWER_UNKNOWN = 128, /* expected while no answer has ended */
    PACE_UNKNOWN = 4,     /* requests at a time while nothing tells how long they take and there is a target to keep */
    STEPS_KNOWN = 8,
    DECODES_KNOWN = 16
};
static const double forget = 0.995;     /* of the mix of rows, a step */
static const double part_modest = 0.9;  /* of the target, for a key that asks for little */
static const double bound_prompt = 0.5; /* of the target that a prompt alone may take for the target to bind it */
static const double bound_answer = 0.8; /* of the target that a whole answer may take */
static const int64_t retry_max_ms = 3600 * 1000, retry_unknown_ms = 1000;

bool admission_init(struct admission *a, int n_account, int max_running)
{
    *a = (struct admission){.n_account = n_account, .serial = max_running, .cap = max_running, .prompts_max = max_running};
    target_control_init(&a->target);
    promises_init(&a->promises);
    a->account = mem_zero_array((size_t)n_account, sizeof *a->account);
    return a->account != NULL;
}

void admission_release(struct admission *a)
{
    free(a->account);
    *a = (struct admission){0};
}

static struct key_account *account_of(struct mr_engine *e, const struct request_record *r)
{
    struct key_account *k = &e->admission.account[r->share];
    if (k->key != r->key)
        *k = (struct key_account){.key = r->key};
    return k;
}

static double target_us(const struct mr_engine *e) { return e->options.admission ? e->options.latency_target_ms * 1e3 : 0; }

bool admission_has_target(const struct mr_engine *e) { return target_us(e) > 0; }

static bool is_known(const struct mr_engine *e)
{
    return e->cost.n_seen >= STEPS_KNOWN && e->cost.n_seen_prompt > 0 && e->admission.pace.capacity > 0;
}

static int n_unfinished(const struct mr_engine *e)
{
    int n = 0;
    for (int i = 0; i < e->options.max_running; i++)
        n += e->slot[i].request != NULL;
    for (int i = 0; i < e->n_waiting; i++)
        n += !e->waiting[i]->background;
    return n;
}

void admission_observe(struct mr_engine *e)
{
    struct admission *a = &e->admission;
    if (e->is_background_step)
        return; /* the recent mix of rows is that of the others */
    a->n_decode = a->n_decode * forget + e->shape.n_decode;
    a->n_prompt = a->n_prompt * forget + e->shape.n_prompt;
    a->attended = a->attended * forget + e->shape.attended;
}

/* From the recent mix of rows, or while nobody has come from as many of prompts as of answers. */
static void measure_pace(struct mr_engine *e)
{
    struct admission *a = &e->admission;
    const double rows = a->n_decode + a->n_prompt, depth = rows > 0 ? a->attended / rows : 0;
    const double n_decode = rows > 0 ? a->n_decode : 1, n_prompt = rows > 0 ? a->n_prompt : 1;
    const double step = step_cost_batch_us(&e->cost, 0, 0, 0), plain = step_cost_batch_us(&e->cost, 1, depth, 0);
    const double decode = plain - step, prompt = step_cost_batch_us(&e->cost, 1, depth, 1) - plain;
    const double us = n_decode * (step / a->serial + decode) + n_prompt * prompt;
    const double tokens = n_decode * step_cost_decode_weight(&e->cost) + n_prompt;
    a->pace = (struct pace){.step = step,
                            .decode = decode,
                            .prompt = prompt,
                            .prompts = a->n_decode >= DECODES_KNOWN ? a->n_prompt / a->n_decode : 0,
                            .capacity = us > 0 ? tokens * 1e6 / us : 0};
}

/* The largest batch whose step, with the prompts that come with it, keeps the target between tokens, not below the knee of the
 * cost curve: where the constant is shared by so many that another one costs as much as its share. */
static double serial_batch(const struct mr_engine *e)
{
    const struct pace *p = &e->admission.pace;
    if (p->decode <= 0)
        return e->options.max_running;
    const double knee = p->step / p->decode, target = e->options.itl_target_ms * 1e3;
    const double timely = target > 0 ? (target - p->step) / (p->decode + p->prompts * p->prompt) : e->options.max_running;
    return knee > timely ? knee : timely;
}

/* The largest batch in which the longer ones of the answers that the target binds end in time. */
static double timely_batch(const struct mr_engine *e)
{
    const struct admission *a = &e->admission;
    const int32_t answer = recent_lengths_percentile(&a->bound_lengths, LONG_PERCENTILE);
    if (e->options.latency_metric != MR_LATENCY_E2E || answer < 1 || target_us(e) == 0)
        return e->options.max_running;
    const double room = a->target.part * target_us(e);
    double b = e->options.max_running;
    while (b > 1 && answer * pace_step_us(&a->pace, b) > room)
        b--;
    return b;
}

void admission_plan(struct mr_engine *e)
{
    struct admission *a = &e->admission;
    const double full = e->options.max_running;
    a->cap = a->prompts_max = e->options.max_running;
    measure_pace(e);
    promises_expire(&a->promises, e->now_us);
    if (target_us(e) == 0 || !is_known(e))
        return;
    const double load = load_window_rate(&a->offered, e->now_us) / a->pace.capacity;
    a->position = load_position(a->position, load, (double)e->options.low_load, (double)e->options.high_load);
    const double serial = serial_batch(e), timely = timely_batch(e);
    a->serial = serial < 1 ? 1 : serial < timely ? serial : timely;
    double cap = full + a->position * ((serial < 1 ? 1 : serial) - full);
    if (cap < 2 && !step_cost_knows_batches(&e->cost))
        cap = 2; /* to learn what a second one costs */
    a->cap = cap < full ? (int)cap : e->options.max_running;
    a->prompts_max = (int)(full + a->position * (1 - full));
}

bool admission_may_start(const struct mr_engine *e)
{
    int n = 0, n_prompt = 0;
    for (int i = 0; i < e->options.max_running; i++) {
        const struct sequence *s = &e->slot[i];
        n += s->request != NULL;
        n_prompt += s->request != NULL && s->usage.n_generated == 0;
    }
    return n < e->admission.cap && n_prompt < e->admission.prompts_max;
}

double admission_until_us(const struct mr_engine *e, const struct request_record *r)
{
    return r->is_bound ? (double)(r->arrival_us - e->now_us) + target_us(e) : INFINITY;
}

bool admission_is_harmless(struct mr_engine *e, const struct request_record *r)
{
    struct runners runners;
    struct runner x;
    if (e->options.latency_metric != MR_LATENCY_E2E || target_us(e) == 0 || !is_known(e))
        return true;
    forecast_runners(e, &runners);
    forecast_runner(e, &x, r);
    return runners_may_join(&runners, &e->admission.pace, &x);
}

/* How far the answers that run have come, of the key of r or of all. Returns their number. */
static int lengths_so_far(const struct mr_engine *e, const struct request_record *r, bool of_all, int32_t *out)
{
    int n = 0;
    for (int i = 0; i < e->options.max_running; i++) {
        const struct sequence *s = &e->slot[i];
        if (s->request != NULL && (of_all || s->request->share == r->share) && s->usage.n_generated > 0)
            out[n++] = s->usage.n_generated;
    }
    return n;
}

/* Answers longer than all that have ended: an eighth more, or while few have ended as long as an unknown one. */
static int32_t length_unknown(const struct mr_engine *e, int32_t done)
{
    const int32_t more = done + 1 + done / 8;
    return e->admission.lengths.n < LENGTHS_RECENT && more < ANSWER_UNKNOWN ? ANSWER_UNKNOWN : more;
}

int32_t admission_answer_left(struct mr_engine *e, const struct request_record *r, int32_t done, int percent)
{
    const int room = e->n_ctx - r->n_prompt;
    const int32_t most = r->max_tokens >= 0 && r->max_tokens < room ? r->max_tokens : room;
    if (r->ignore_eos && r->n_stop == 0 && r->n_stop_token == 0 && r->n_constraint == 0)
        return most > done ? most - done : 0; /* nothing else ends it */
    int32_t running[ADMISSION_SLOTS_MAX];
    int n_running = lengths_so_far(e, r, false, running);
    int32_t n = recent_lengths_beyond(&account_of(e, r)->lengths, done, percent, running, n_running);
    if (n < 0) {
        n_running = lengths_so_far(e, r, true, running);
        n = recent_lengths_beyond(&e->admission.lengths, done, percent, running, n_running);
    }
    if (n < 0)
        n = length_unknown(e, done);
    n = n > r->min_tokens ? n : r->min_tokens;
    n = n < most ? n : most;
    return n > done ? n - done : 0;
}

static void price(struct mr_engine *e, struct request_record *r)
{
    r->expected_answer = admission_answer_left(e, r, 0, EXPECTED_PERCENTILE);
    r->longest_answer = admission_answer_left(e, r, 0, LONG_PERCENTILE);
    r->n_uncached = r->n_prompt;
    if (!request_record_needs_all_rows(r) && (target_us(e) > 0 || r->deadline_us != INT64_MAX))
        r->n_uncached -= sequence_count_cached(e, r);
    r->cost_left = r->n_uncached + (double)r->n * r->expected_answer * step_cost_decode_weight(&e->cost);
    const struct pace *p = &e->admission.pace;
    const double prompt = p->step + r->n_uncached * p->prompt, answer = r->longest_answer * (p->step + p->decode);
    const double target = e->options.latency_target_ms * 1e3;
    r->is_bound = e->options.latency_metric == MR_LATENCY_E2E ? prompt + answer <= bound_answer * target
                                                              : prompt <= bound_prompt * target;
}

/* Whether the key would hold no more of the work than its equal part: who floods must not have it refused. */
static bool is_modest(struct mr_engine *e, const struct request_record *r)
{
    const double own = account_of(e, r)->bucket.outstanding + r->cost_left;
    const double all = e->admission.bucket.outstanding + r->cost_left;
    return own * fair_share_n_active(&e->shares[0]) <= all;
}

/* Microseconds by which the forecast passes what there is of the target. A whole answer that no queue could make meet it waits
 * less, the higher the load, and for nobody at last: what it would take is what others meet theirs with. */
static double time_over_target(const struct mr_engine *e, const struct request_record *r, const struct forecast *f, double part)
{
    const bool whole = e->options.latency_metric == MR_LATENCY_E2E;
    const double waited = (double)(e->now_us - r->arrival_us), allowed = part * target_us(e);
    if (!r->is_bound)
        return waited + f->start_us - allowed * (whole ? 1 - e->admission.position : 1);
    return waited + (whole ? f->end_us : f->first_us) - allowed;
}

/* Microseconds that the request would have to wait for more than it may; 0: none. */
static double time_over(struct mr_engine *e, const struct request_record *r, const char **what)
{
    const struct forecast f = admission_forecast(e, r);
    const double part = is_modest(e, r) && fair_share_n_active(&e->shares[0]) > 1 ? part_modest : e->admission.target.part;
    double over = 0;
    if (target_us(e) > 0) {
        over = time_over_target(e, r, &f, part);
        *what = "the wait would pass the latency target";
    }
    if (r->deadline_us != INT64_MAX && f.start_us > 0) {
        const double late = f.first_us - (double)(r->deadline_us - e->now_us);
        *what = late > over ? "the wait would pass its deadline" : *what;
        over = late > over ? late : over;
    }
    return over > 0 ? over : 0;
}

/* Microseconds until the bucket has what the request costs; 0: it has. A key that holds less than its part may take more than
 * is there. */
static double time_empty(struct mr_engine *e, const struct request_record *r)
{
    const struct admission *a = &e->admission;
    const double size = e->options.bucket_capacity, part = size / fair_share_n_active(&e->shares[0]);
    const struct token_bucket *own = &account_of(e, r)->bucket;
    if (token_bucket_has(&a->bucket, size, r->cost_left) ||
        (own->outstanding + r->cost_left <= part && a->bucket.outstanding < 2 * size))
        return 0;
    return (a->bucket.outstanding + r->cost_left - size) * 1e6 / a->pace.capacity;
}

static enum mr_status refuse(struct mr_engine *e, struct request_record *r, double over_us, const char *what,
                             struct mr_error *err)
{
    struct admission *a = &e->admission;
    const int64_t due = promises_make(&a->promises, e->now_us, e->now_us + (int64_t)over_us, r->key, r->cost_left,
                                      r->cost_left * 1e6 / a->pace.capacity);
    const int64_t ms = (due - e->now_us) / 1000 + 1;
    a->retry_after_ms = ms < retry_max_ms ? ms : retry_max_ms;
    a->n_refused++;
    r->cost_left = 0; /* it has taken nothing */
    return mr_fail(err, MR_BUSY, "%s; there will be room in %lld ms", what, (long long)a->retry_after_ms);
}

static void take(struct mr_engine *e, struct request_record *r)
{
    token_bucket_take(&e->admission.bucket, r->cost_left);
    token_bucket_take(&account_of(e, r)->bucket, r->cost_left);
}

enum mr_status admission_refuse_full(struct mr_engine *e, struct mr_error *err)
{
    struct admission *a = &e->admission;
    const double each = a->pace.capacity > 0 ? a->bucket.outstanding / e->n_waiting * 1e3 / a->pace.capacity : 0;
    a->retry_after_ms = each < 1 ? retry_unknown_ms : each < (double)retry_max_ms ? (int64_t)each : retry_max_ms;
    a->n_refused++;
    return mr_fail(err, MR_FULL, "%d requests are waiting already", e->n_waiting);
}

/* Who would be let in now only waits for the first of them. */
static enum mr_status refuse_unknown(struct mr_engine *e, struct mr_error *err)
{
    e->admission.retry_after_ms = retry_unknown_ms;
    e->admission.n_refused++;
    return mr_fail(err, MR_BUSY, "how long requests take is not known yet; there will be room in %lld ms",
                   (long long)retry_unknown_ms);
}

enum mr_status admission_decide(struct mr_engine *e, struct request_record *r, int64_t now_us, struct mr_error *err)
{
    struct admission *a = &e->admission;
    e->now_us = now_us;
    if (r->background)
        return MR_OK; /* it takes nothing from others */
    if (target_us(e) > 0 && !is_known(e) && n_unfinished(e) >= PACE_UNKNOWN)
        return refuse_unknown(e, err);
    price(e, r);
    load_window_add(&a->offered, e->now_us, r->cost_left);
    if (r->n_retry > 0)
        promises_keep(&a->promises, r->key);
    if (e->options.admission && is_known(e) && !engine_has_only_background(e)) {
        const char *what = "";
        double over = time_over(e, r, &what);
        const double empty = time_empty(e, r);
        if (empty > 0 && empty >= over) {
            over = empty;
            what = "the token bucket is empty";
        }
        if (over > 0)
            return refuse(e, r, over, what, err);
    }
    take(e, r);
    return MR_OK;
}

void admission_spend(struct mr_engine *e, struct request_record *r, double n)
{
    if (r->background)
        return;
    const double more = n > r->cost_left ? n - r->cost_left : 0; /* than was expected: taken now */
    struct token_bucket *bucket[] = {&e->admission.bucket, &account_of(e, r)->bucket};
    for (int i = 0; i < 2; i++) {
        token_bucket_take(bucket[i], more);
        token_bucket_refill(bucket[i], n);
    }
    r->cost_left -= n - more;
}

void admission_settle(struct mr_engine *e, struct request_record *r)
{
    if (r->background)
        return;
    token_bucket_settle(&e->admission.bucket, r->cost_left);
    token_bucket_settle(&account_of(e, r)->bucket, r->cost_left);
    r->cost_left = 0;
}

static void note_latency(struct mr_engine *e, const struct request_record *r)
{
    if (r->is_bound && target_us(e) > 0)
        target_control_note(&e->admission.target, (double)(e->now_us - r->arrival_us) / target_us(e), r->arrival_us, e->now_us);
}

void admission_first_token(struct mr_engine *e, const struct sequence *s)
{
    if (e->options.latency_metric == MR_LATENCY_TTFT && !s->request->background)
        note_latency(e, s->request);
}

void admission_answer_done(struct mr_engine *e, const struct sequence *s)
{
    struct admission *a = &e->admission;
    const struct request_record *r = s->request;
    if (r->background)
        return;
    if (r->pooling == MR_POOLING_NONE) {
        recent_lengths_note(&account_of(e, r)->lengths, s->usage.n_generated);
        recent_lengths_note(&a->lengths, s->usage.n_generated);
        if (r->is_bound)
            recent_lengths_note(&a->bound_lengths, s->usage.n_generated);
    }
    if (e->options.latency_metric == MR_LATENCY_E2E)
        note_latency(e, r);
}

void admission_get_stats(const struct mr_engine *e, struct mr_engine_stats *out)
{
    const struct admission *a = &e->admission;
    struct load_window offered = a->offered;
    const double auto_size = a->pace.capacity * target_us(e) / 1e6;
    out->capacity = a->pace.capacity;
    out->load = a->pace.capacity > 0 ? load_window_rate(&offered, engine_now_us(e)) / a->pace.capacity : 0;
    out->bucket_size = e->options.bucket_capacity > 0 ? e->options.bucket_capacity : auto_size;
    out->bucket_level = out->bucket_size - a->bucket.outstanding;
    out->n_refused = a->n_refused;
    out->batch_cap = a->cap;
    out->target_part = a->target.part;
    out->latency_p99_ms = target_control_p99(&a->target) * target_us(e) / 1e3;
}

int64_t mr_engine_retry_after_ms(const struct mr_engine *e) { return e->admission.retry_after_ms; }
