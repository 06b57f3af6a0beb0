/* batch_progress.c: rates are those of this run: what was done before it took another time. */
#include "cli/batch_progress.h"

#include <stdio.h>

enum {
    BAR = 20,
    TERMINAL_US = 200000, /* between two looks */
    LOG_US = 10000000
};

void batch_progress_begin(struct batch_progress_line *l, int64_t now_us, bool is_terminal)
{
    *l = (struct batch_progress_line){.is_terminal = is_terminal, .begin_us = now_us, .shown_us = now_us};
}

static void print_left(int64_t n_left, double rate)
{
    const double seconds = rate > 0 ? (double)n_left / rate : 0;
    if (rate > 0 && seconds < 1e9)
        fprintf(stderr, ", %lld:%02lld:%02lld left", (long long)seconds / 3600, (long long)seconds / 60 % 60,
                (long long)seconds % 60);
}

void batch_progress_show(struct batch_progress_line *l, const struct batch_progress *p, int64_t now_us)
{
    const int64_t n_done = p->counts.n_ok + p->counts.n_failed, n_all = p->counts.n_line;
    const double seconds = (double)(now_us - l->begin_us) * 1e-6;
    if (now_us - l->shown_us < (l->is_terminal ? TERMINAL_US : LOG_US))
        return;
    l->shown_us = now_us;
    l->is_shown = true;
    if (l->is_terminal) {
        const int filled = n_all > 0 ? (int)(n_done * BAR / n_all) : 0;
        fprintf(stderr, "\r\033[K[%.*s%.*s] ", filled, "####################", BAR - filled, "....................");
    }
    const double rate = (double)p->n_recorded / seconds;
    fprintf(stderr, "%lld of %lld lines, %lld failed, %.1f lines/s, %.0f tokens/s", (long long)n_done, (long long)n_all,
            (long long)p->counts.n_failed, rate, (double)p->n_generated / seconds);
    print_left(n_all - n_done, rate);
    fprintf(stderr, l->is_terminal ? "" : "\n");
    fflush(stderr);
}

void batch_progress_end(struct batch_progress_line *l)
{
    if (l->is_terminal && l->is_shown)
        fprintf(stderr, "\r\033[K");
}
