/* progress_bar.c: a line that is renewed. */
#include "cli/progress_bar.h"

#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/interrupt.h"

enum {
    CELLS = 30,
    AFTER_US = 500000,
    EVERY_US = 200000
};

void progress_bar_begin(struct progress_bar *bar)
{
    *bar = (struct progress_bar){.on_terminal = isatty(STDERR_FILENO)};
    bar->begin_us = clock_us();
    bar->next_us = bar->begin_us + AFTER_US;
}

bool progress_bar_show(struct progress_bar *bar, const char *what, int64_t done, int64_t total)
{
    const int64_t now = clock_us();
    if (what != bar->what) {
        bar->what = what;
        bar->begin_us = now;
    }
    if (bar->on_terminal && now >= bar->next_us && total > 0) {
        const int cells = (int)((double)done / (double)total * CELLS);
        const double left = done > 0 ? (double)(now - bar->begin_us) * 1e-6 / (double)done * (double)(total - done) : 0;
        bar->next_us = now + EVERY_US;
        bar->shown = true;
        fprintf(stderr, "\r\033[K%s [%.*s%*s] %lld of %lld, %.0f s left", what, cells, "##############################",
                CELLS - cells, "", (long long)done, (long long)total, left);
    }
    return !interrupt_seen();
}

void progress_bar_end(struct progress_bar *bar)
{
    if (bar->shown)
        fprintf(stderr, "\r\033[K");
    bar->shown = false;
}
