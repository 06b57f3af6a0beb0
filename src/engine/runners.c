/* runners.c: batches played forward. */
#include "engine/runners.h"

double pace_step_us(const struct pace *p, double b) { return p->step + b * (p->decode + p->prompts * p->prompt); }

/* end_us[i]: when the longest that run[i] may become has ended, if nobody joins; the others end as expected. */
static void play(const struct runners *r, const struct pace *p, double *end_us)
{
    bool ended[RUNNERS_MAX] = {false};
    double now = r->now_us, done = 0;
    for (int n = r->n; n > 0; n--) {
        int first = -1;
        for (int i = 0; i < r->n; i++)
            if (!ended[i] && (first < 0 || r->run[i].left < r->run[first].left))
                first = i;
        const double step = pace_step_us(p, n), left = r->run[first].left;
        now += (left > done ? left - done : 0) * step;
        done = left > done ? left : done;
        end_us[first] = now + (r->run[first].longest > left ? r->run[first].longest - left : 0) * step;
        ended[first] = true;
    }
}

bool runners_may_join(const struct runners *r, const struct pace *p, const struct runner *x)
{
    double with[RUNNERS_MAX], without[RUNNERS_MAX];
    struct runners more = *r;
    if (r->n == 0 || r->n == RUNNERS_MAX)
        return r->n == 0;
    more.now_us += x->prompt_us;
    more.run[more.n++] = *x;
    play(r, p, without);
    play(&more, p, with);
    for (int i = 0; i < r->n; i++) {
        const struct runner *y = &r->run[i];
        if (with[i] + y->prompt_us > y->until_us - y->slack_us && without[i] + y->prompt_us <= y->until_us + y->slack_us)
            return false;
    }
    return true;
}

/* The next one ends. */
static void end_one(struct runners *r, const struct pace *p)
{
    int first = 0;
    for (int i = 1; i < r->n; i++)
        first = r->run[i].left < r->run[first].left ? i : first;
    const double left = r->run[first].left;
    r->now_us += left * pace_step_us(p, r->n);
    r->run[first] = r->run[--r->n];
    for (int i = 0; i < r->n; i++) {
        r->run[i].left -= left;
        r->run[i].longest -= left;
    }
}

double runners_join(struct runners *r, const struct pace *p, const struct runner *x, int most, double *start_us)
{
    while (r->n > 0 && (r->n >= most || !runners_may_join(r, p, x)))
        end_one(r, p);
    *start_us = r->now_us;
    r->now_us += x->prompt_us;
    r->run[r->n] = *x;
    r->run[r->n++].prompt_us = 0;
    double end[RUNNERS_MAX];
    play(r, p, end);
    return end[r->n - 1];
}
