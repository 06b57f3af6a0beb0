/* fair_share.c: a small table, searched from its beginning. */
#include "engine/fair_share.h"

#include <stdlib.h>

#include "base/memory.h"

bool fair_share_init(struct fair_share *f, int capacity)
{
    *f = (struct fair_share){.capacity = capacity};
    f->share = mem_array((size_t)capacity, sizeof *f->share);
    return f->share != NULL;
}

void fair_share_release(struct fair_share *f)
{
    free(f->share);
    *f = (struct fair_share){0};
}

/* The key's place; else a new one, or that of the idle key that had least. */
static struct share *place_for(struct fair_share *f, uint64_t key)
{
    struct share *idle = NULL;
    for (int i = 0; i < f->n; i++) {
        struct share *s = &f->share[i];
        if (s->key == key)
            return s;
        if (s->n_request == 0 && (idle == NULL || s->served < idle->served))
            idle = s;
    }
    if (idle == NULL || (f->n < f->capacity && idle->served > f->now))
        idle = &f->share[f->n++]; /* there are places for all requests */
    *idle = (struct share){.key = key};
    return idle;
}

int fair_share_enter(struct fair_share *f, uint64_t key)
{
    struct share *s = place_for(f, key);
    if (s->n_request++ == 0 && s->served < f->now)
        s->served = f->now;
    return (int)(s - f->share);
}

void fair_share_leave(struct fair_share *f, int place) { f->share[place].n_request--; }

int fair_share_n_active(const struct fair_share *f)
{
    int n = 0;
    for (int i = 0; i < f->n; i++)
        n += f->share[i].n_request > 0;
    return n;
}

double fair_share_served(const struct fair_share *f, int place) { return f->share[place].served; }

void fair_share_charge(struct fair_share *f, int place, double cost) { f->share[place].served += cost; }

void fair_share_chosen(struct fair_share *f, int place)
{
    if (f->share[place].served > f->now)
        f->now = f->share[place].served;
}
