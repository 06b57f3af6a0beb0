/* load_control.h: how loaded the engine is, where between full batches and one at a time that puts it, and how far its
 * predictions are to be trusted, by what was measured. All time comes from the caller.
 * Threads: owned by one. */
#ifndef ENGINE_LOAD_CONTROL_H
#define ENGINE_LOAD_CONTROL_H

#include <stdbool.h>
#include <stdint.h>

enum {
    LOAD_SLOTS = 20,        /* of half a second: the ten seconds over which load is averaged */
    LATENCIES_RECENT = 128, /* of which the 99th percentile is taken */
    LENGTHS_RECENT = 32
};

/* What was offered lately. */
struct load_window {
    double slot[LOAD_SLOTS];
    int64_t at; /* number of the present slot */
    int64_t begin_us;
    bool is_open;
};
void load_window_add(struct load_window *w, int64_t now_us, double cost);
/* Cost a second over the last ten seconds, or since the first one came. */
double load_window_rate(struct load_window *w, int64_t now_us);

/* 0 below `low`: batches are filled; 1 above `high`: one at a time; between them linear. It goes back only once the load has
 * fallen by a further 5 %, so that it does not flutter. Returns the new position; x: the present one. */
double load_position(double x, double load, double low, double high);

/* Part of the target that predictions may use up: less by a factor with each request that is late, more by a small step with
 * each that is not, so that they balance where few are (stochastic approximation of a quantile, Robbins and Monro 1951). Who
 * was let in before the last step down tells nothing about it. */
struct target_control {
    double part;
    double late, up, down;           /* later than this share of the target; the step; the factor */
    float latency[LATENCIES_RECENT]; /* as shares of the target */
    int n, at;
    int64_t fell_us;
};
void target_control_init(struct target_control *t);
void target_control_note(struct target_control *t, double share_of_target, int64_t arrival_us, int64_t now_us);
double target_control_p99(const struct target_control *t); /* 0: nothing was measured */

/* The lengths of the last answers. */
struct recent_lengths {
    int32_t length[LENGTHS_RECENT];
    int n, at;
};
void recent_lengths_note(struct recent_lengths *r, int32_t length);
/* The smallest one that `percent` of a hundred do not exceed; -1: none is known. */
int32_t recent_lengths_percentile(const struct recent_lengths *r, int percent);
/* The same of those that are longer than `done`, beside answers that still run and have come as far as running[n_running] says:
 * the product-limit estimate (Kaplan and Meier 1958), without which short answers would count too much while the long ones
 * have not ended. -1: none is longer, or too many still run to tell. */
int32_t recent_lengths_beyond(const struct recent_lengths *r, int32_t done, int percent, const int32_t *running, int n_running);

#endif
