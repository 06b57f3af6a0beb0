/* progress_bar.h: how far something is, on stderr where that is a terminal, once it has taken half a second. */
#ifndef CLI_PROGRESS_BAR_H
#define CLI_PROGRESS_BAR_H

#include <stdbool.h>
#include <stdint.h>

struct progress_bar {
    int64_t begin_us, next_us;
    const char *what;
    bool on_terminal, shown;
};

void progress_bar_begin(struct progress_bar *bar);

/* `what` is at work, done of total; a change of `what` starts anew. false: Ctrl-C came. */
bool progress_bar_show(struct progress_bar *bar, const char *what, int64_t done, int64_t total);
void progress_bar_end(struct progress_bar *bar);

#endif
