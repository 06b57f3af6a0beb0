/* load_control.c: windows, hysteresis, and additive increase with multiplicative decrease (Chiu and Jain 1989). */
#include "engine/load_control.h"

#include <stdlib.h>
#include <string.h>

static const int64_t slot_us = 500000, look_us = 500000;
static const double hysteresis = 0.05;
static const double part_min = 0.3, part_start = 0.55, part_max = 0.95, part_up = 0.01, part_down = 0.9;
static const double too_late = 0.9, early = 0.75; /* shares of the target: it is to be kept, not met */

enum {
    LATENCIES_MIN = 6 /* new ones before they are looked at */
};

/* Forget what is older than the window. */
static void advance(struct load_window *w, int64_t now_us)
{
    const int64_t at = now_us / slot_us;
    if (!w->is_open)
        *w = (struct load_window){.at = at, .begin_us = now_us, .is_open = true};
    for (int n = 0; w->at < at; n++) {
        w->at = n < LOAD_SLOTS ? w->at + 1 : at;
        w->slot[w->at % LOAD_SLOTS] = 0;
    }
}

void load_window_add(struct load_window *w, int64_t now_us, double cost)
{
    advance(w, now_us);
    w->slot[w->at % LOAD_SLOTS] += cost;
}

double load_window_rate(struct load_window *w, int64_t now_us)
{
    advance(w, now_us);
    const int64_t longest = (LOAD_SLOTS - 1) * slot_us + now_us % slot_us, since = now_us - w->begin_us;
    const int64_t span = since < longest ? since : longest, least = 2 * slot_us;
    double sum = 0;
    for (int i = 0; i < LOAD_SLOTS; i++)
        sum += w->slot[i];
    return sum * 1e6 / (double)(span > least ? span : least);
}

static double between(double load, double low, double high)
{
    if (load <= low)
        return 0;
    return load >= high ? 1 : (load - low) / (high - low);
}

double load_position(double x, double load, double low, double high)
{
    const double rising = between(load, low, high), falling = between(load + hysteresis, low, high);
    if (x < rising)
        return rising;
    return x > falling ? falling : x;
}

void target_control_init(struct target_control *t) { *t = (struct target_control){.part = part_start}; }

void target_control_note(struct target_control *t, double share_of_target)
{
    t->latency[t->at] = (float)share_of_target;
    t->at = (t->at + 1) % LATENCIES_RECENT;
    t->n += t->n < LATENCIES_RECENT;
    t->n_new++;
}

double target_control_p99(const struct target_control *t)
{
    double first = 0, second = 0;
    for (int i = 0; i < t->n; i++) {
        const double x = (double)t->latency[i];
        second = x > first ? first : x > second ? x : second;
        first = x > first ? x : first;
    }
    return t->n < 100 ? first : second; /* one of a hundred may be larger */
}

void target_control_update(struct target_control *t, int64_t now_us, int64_t n_refused)
{
    if (t->n_new < LATENCIES_MIN || now_us - t->looked_us < look_us)
        return;
    const double p99 = target_control_p99(t);
    if (p99 > too_late) {
        t->part = t->part * part_down > part_min ? t->part * part_down : part_min;
        t->n = t->at = 0; /* what was let in under the old part tells nothing about the new one */
    } else if (p99 < early && n_refused > t->n_refused) {
        t->part = t->part + part_up < part_max ? t->part + part_up : part_max;
    }
    t->n_new = 0;
    t->n_refused = n_refused;
    t->looked_us = now_us;
}

void recent_lengths_note(struct recent_lengths *r, int32_t length)
{
    r->length[r->at] = length;
    r->at = (r->at + 1) % LENGTHS_RECENT;
    r->n += r->n < LENGTHS_RECENT;
}

static int compare(const void *a, const void *b)
{
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

int32_t recent_lengths_percentile(const struct recent_lengths *r, int percent)
{
    int32_t sorted[LENGTHS_RECENT];
    if (r->n == 0)
        return -1;
    memcpy(sorted, r->length, sizeof sorted);
    qsort(sorted, (size_t)r->n, sizeof *sorted, compare);
    return sorted[(r->n * percent + 99) / 100 - 1];
}
