/* promises.c: a ring. */
#include "engine/promises.h"

static const int64_t grace_us = 1000000, farthest_us = 600000000;
static const double learn = 0.05, spare = 1.1; /* promised a little less than what the machine can do */
static const double space_min = 0.25;          /* that they keep, however few come back: a crowd may have gone unnoticed */

void promises_init(struct promises *p) { *p = (struct promises){0}; }

static void learn_from(struct promises *p, double came) { p->come_back += learn * (came - p->come_back); }

static struct promise *at(struct promises *p, int i) { return &p->promise[(p->first + i) % PROMISES_MAX]; }

int64_t promises_make(struct promises *p, int64_t now_us, int64_t earliest_us, uint64_t key, double cost, double us)
{
    const double share = space_min + (1 - space_min) * p->come_back;
    const int64_t next = p->last_us + (int64_t)(us * spare * share);
    int64_t due = next > earliest_us ? next : earliest_us;
    due = due < now_us + farthest_us ? due : now_us + farthest_us;
    p->last_us = due;
    if (p->n < PROMISES_MAX)
        *at(p, p->n++) = (struct promise){due, key, cost};
    return due;
}

void promises_keep(struct promises *p, uint64_t key)
{
    for (int i = 0; i < p->n; i++) {
        if (at(p, i)->key != key || at(p, i)->cost == 0)
            continue;
        at(p, i)->cost = 0;
        learn_from(p, 1);
        return;
    }
}

void promises_expire(struct promises *p, int64_t now_us)
{
    for (; p->n > 0 && (at(p, 0)->cost == 0 || at(p, 0)->due_us + grace_us < now_us); p->n--) {
        if (at(p, 0)->cost > 0)
            learn_from(p, 0);
        p->first = (p->first + 1) % PROMISES_MAX;
    }
    if (p->n == 0 && p->last_us > now_us)
        p->last_us = now_us;
}

double promises_due(const struct promises *p, int64_t until_us, double *cost)
{
    double n = 0;
    *cost = 0;
    for (int i = 0; i < p->n; i++) {
        const struct promise *x = &p->promise[(p->first + i) % PROMISES_MAX];
        if (x->due_us > until_us)
            break;
        n += x->cost > 0 ? p->come_back : 0;
        *cost += x->cost * p->come_back;
    }
    return n;
}
