/* load_control.c: windows, hysteresis, and additive increase with multiplicative decrease (Chiu and Jain 1989). */
#include "engine/load_control.h"

#include <stdlib.h>

static const int64_t slot_us = 500000;
static const double hysteresis = 0.05;
static const double part_min = 0.3, part_max = 0.85;

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

/* up and down balance at one late request of two hundred to two hundred and fifty, so that P99 keeps some distance. */
void target_control_init(struct target_control *t)
{
    *t = (struct target_control){.part = 0.7, .late = 0.9, .up = 0.0005, .down = 0.9};
}

void target_control_note(struct target_control *t, double share_of_target, int64_t arrival_us, int64_t now_us)
{
    t->latency[t->at] = (float)share_of_target;
    t->at = (t->at + 1) % LATENCIES_RECENT;
    t->n += t->n < LATENCIES_RECENT;
    if (share_of_target <= t->late) {
        t->part = t->part + t->up < part_max ? t->part + t->up : part_max;
    } else if (arrival_us >= t->fell_us) {
        t->part = t->part * t->down > part_min ? t->part * t->down : part_min;
        t->fell_us = now_us;
    }
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

int32_t recent_lengths_beyond(const struct recent_lengths *r, int32_t done, int percent, const int32_t *running, int n_running)
{
    const double rounding = 1e-9;
    int32_t sorted[LENGTHS_RECENT];
    int n = 0;
    for (int i = 0; i < r->n; i++)
        if (r->length[i] > done)
            sorted[n++] = r->length[i];
    qsort(sorted, (size_t)n, sizeof *sorted, compare);
    double longer = 1; /* share of the answers */
    for (int i = 0; i < n; i++) {
        int n_as_long = n - i;
        for (int j = 0; j < n_running; j++)
            n_as_long += running[j] >= sorted[i];
        longer *= 1 - 1.0 / n_as_long;
        if (100 * (1 - longer) >= percent - rounding)
            return sorted[i];
    }
    return -1;
}

int32_t recent_lengths_percentile(const struct recent_lengths *r, int percent)
{
    return recent_lengths_beyond(r, -1, percent, NULL, 0);
}
