/* task_run.c: scores the items of a task: continuations one after the other, generated answers in a batch. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/string_buffer.h"
#include "measure/continuation.h"
#include "measure/task.h"

enum {
    MAX_RUNNING = 8 /* answers at a time */
};

struct task_rate task_rate_of(int n_right, int n)
{
    static const double z = 1.959963984540054; /* 97.5 % of a normal distribution lie below */
    if (n == 0)
        return (struct task_rate){0};
    const double p = (double)n_right / n, zz = z * z / n;
    const double middle = (p + zz / 2) / (1 + zz), half = z / (1 + zz) * sqrt(p * (1 - p) / n + zz / (4 * n));
    return (struct task_rate){p, n > 1 ? sqrt(p * (1 - p) / (n - 1)) : 0, middle - half, middle + half};
}

struct runner {
    const struct task *t;
    struct mr_model *model;
    const struct task_options *o;
    int n_done;
    int n_choice, n_right, n_right_norm; /* of choices */
    int n_generated, n_exact;
    uint64_t *request;                /* [t->n] of generated answers */
    struct string_buffer *answer;     /* [t->n] */
    struct continuation_score *score; /* of the item at work */
};

static void hear(const struct runner *r, struct task_sample sample)
{
    sample.item = (int)(sample.of - r->t->item);
    if (r->o->hear != NULL)
        r->o->hear(r->o->context, &sample);
}

static enum mr_status tell(struct runner *r, struct mr_error *err)
{
    r->n_done++;
    if (r->o->go_on != NULL && !r->o->go_on(r->o->context, r->n_done, r->t->n))
        return mr_fail(err, MR_CANCELLED, "stopped after %d of %d tasks", r->n_done, r->t->n);
    return MR_OK;
}

/* Characters of a continuation without the blank that separates it. */
static int n_characters(const char *s)
{
    int n = 0;
    for (s += *s == ' '; *s != '\0'; s++)
        n += ((unsigned char)*s & 0xc0) != 0x80;
    return n > 0 ? n : 1;
}

static enum mr_status run_choices(struct runner *r, const struct task_item *item, struct continuation_scorer *scorer,
                                  struct mr_error *err)
{
    int best = 0, best_norm = 0;
    double most = 0, most_norm = 0;
    for (int i = 0; i < item->n_choice; i++) {
        MR_TRY(continuation_score(&r->score[i], scorer, item->choice[i].context, item->choice[i].continuation, err));
        const double log_p = r->score[i].log_p, norm = log_p / n_characters(item->choice[i].continuation);
        if (i == 0 || log_p > most) {
            best = i;
            most = log_p;
        }
        if (i == 0 || norm > most_norm) {
            best_norm = i;
            most_norm = norm;
        }
    }
    const bool is_alone = item->n_choice == 1, is_right = is_alone ? r->score[0].is_greedy : best == item->gold,
               is_right_norm = is_alone ? is_right : best_norm == item->gold;
    r->n_choice++;
    r->n_right += is_right;
    r->n_right_norm += is_right_norm;
    hear(r, (struct task_sample){.of = item, .score = r->score, .is_right = is_right, .is_right_norm = is_right_norm});
    return tell(r, err);
}

static enum mr_status run_all_choices(struct runner *r, struct mr_error *err)
{
    struct continuation_scorer *scorer;
    int most = 0;
    for (int i = 0; i < r->t->n; i++)
        most = r->t->item[i].n_choice > most ? r->t->item[i].n_choice : most;
    r->score = mem_zero_array((size_t)most, sizeof *r->score);
    if (r->score == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for the scores");
    MR_TRY(continuation_scorer_create(&scorer, r->model, r->o->n_ctx, err));
    enum mr_status status = MR_OK;
    for (int i = 0; i < r->t->n && status == MR_OK; i++)
        if (r->t->item[i].prompt == NULL) {
            status = run_choices(r, &r->t->item[i], scorer, err);
            if (status != MR_OK && status != MR_CANCELLED)
                mr_fail_in(err, status, "task %d", i + 1);
        }
    continuation_scorer_free(scorer);
    return status;
}

/* Equal but for blanks at the ends. */
static bool is_equal(const char *a, const char *b)
{
    static const char blank[] = " \t\r\n";
    a += strspn(a, blank);
    b += strspn(b, blank);
    size_t n = strlen(a), m = strlen(b);
    while (n > 0 && strchr(blank, a[n - 1]) != NULL)
        n--;
    while (m > 0 && strchr(blank, b[m - 1]) != NULL)
        m--;
    return n == m && memcmp(a, b, n) == 0;
}

static enum mr_status submit(struct runner *r, struct mr_engine *engine, int i, struct mr_error *err)
{
    const struct task_item *item = &r->t->item[i];
    struct mr_request q;
    int32_t *prompt, n;
    MR_TRY(mr_tokenize(r->model, item->prompt, strlen(item->prompt), true, &prompt, &n, err));
    const int room = mr_engine_n_ctx(engine), answer = item->max_tokens < room - 1 ? item->max_tokens : room - 1;
    const int cut = n > room - answer ? n - (room - answer) : 0;
    mr_request_defaults(&q);
    q.prompt = prompt + cut;
    q.n_prompt = n - cut;
    q.max_tokens = answer;
    q.sampling.temperature = 0;
    q.stop = (const char *const *)item->until;
    q.n_stop = item->n_until;
    const enum mr_status status = mr_engine_submit(engine, &q, &r->request[i], err);
    mr_tokens_free(prompt);
    return status == MR_OK ? MR_OK : mr_fail_in(err, status, "task %d", i + 1);
}

static enum mr_status take_event(struct runner *r, const struct mr_event *event, int n_submitted, struct mr_error *err)
{
    int i = 0;
    while (i < n_submitted && (r->t->item[i].prompt == NULL || r->request[i] != event->request))
        i++;
    if (i == n_submitted)
        return MR_OK;
    string_buffer_add(&r->answer[i], event->text, event->n_text);
    if (event->finish == MR_FINISH_ERROR)
        return mr_fail(err, event->status, "task %d: %s", i + 1, event->error);
    if (event->finish == MR_FINISH_NONE)
        return MR_OK;
    r->n_generated++;
    const char *answer = r->answer[i].s != NULL ? r->answer[i].s : "";
    const bool is_right = is_equal(answer, r->t->item[i].target);
    r->n_exact += is_right;
    hear(r, (struct task_sample){.of = &r->t->item[i], .answer = answer, .is_right = is_right});
    string_buffer_release(&r->answer[i]);
    return tell(r, err);
}

static enum mr_status generate(struct runner *r, struct mr_engine *engine, struct mr_error *err)
{
    struct mr_event event;
    int next = 0, n_out = 0;
    while (next < r->t->n || n_out > 0) {
        for (; next < r->t->n && n_out < MAX_RUNNING; next++)
            if (r->t->item[next].prompt != NULL) {
                MR_TRY(submit(r, engine, next, err));
                n_out++;
            }
        if (n_out == 0)
            break;
        mr_engine_step(engine);
        while (mr_engine_next_event(engine, &event)) {
            n_out -= event.finish != MR_FINISH_NONE;
            MR_TRY(take_event(r, &event, next, err));
        }
    }
    return MR_OK;
}

static enum mr_status generate_all(struct runner *r, struct mr_error *err)
{
    struct mr_engine *engine;
    struct mr_options options;
    mr_options_defaults(&options);
    options.n_ctx = r->o->n_ctx;
    options.max_running = MAX_RUNNING;
    options.admission = false;
    r->request = mem_zero_array((size_t)r->t->n, sizeof *r->request);
    r->answer = mem_zero_array((size_t)r->t->n, sizeof *r->answer);
    if (r->request == NULL || r->answer == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for the answers");
    for (int i = 0; i < r->t->n; i++)
        string_buffer_init(&r->answer[i]);
    MR_TRY(mr_engine_create(&engine, r->model, &options, err));
    const enum mr_status status = generate(r, engine, err);
    mr_engine_free(engine);
    return status;
}

enum mr_status task_run(struct task_result *out, const struct task *t, struct mr_model *model,
                        const struct task_options *options, struct mr_error *err)
{
    struct runner r = {.t = t, .model = model, .o = options};
    int n_generated = 0;
    *out = (struct task_result){0};
    for (int i = 0; i < t->n; i++)
        n_generated += t->item[i].prompt != NULL;
    enum mr_status status = n_generated < t->n ? run_all_choices(&r, err) : MR_OK;
    if (status == MR_OK && n_generated > 0)
        status = generate_all(&r, err);
    for (int i = 0; r.answer != NULL && i < t->n; i++)
        string_buffer_release(&r.answer[i]);
    free(r.request);
    free(r.answer);
    free(r.score);
    if (status == MR_OK)
        *out = (struct task_result){r.n_choice, r.n_generated, task_rate_of(r.n_right, r.n_choice),
                                    task_rate_of(r.n_right_norm, r.n_choice), task_rate_of(r.n_exact, r.n_generated)};
    return status;
}
