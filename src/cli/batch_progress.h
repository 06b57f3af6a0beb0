/* batch_progress.h: how far a batch is, on stderr: a line that is renewed on a terminal, else one now and then. */
#ifndef CLI_BATCH_PROGRESS_H
#define CLI_BATCH_PROGRESS_H

#include "server/batch/batch_run.h"

struct batch_progress_line {
    bool is_terminal, is_shown;
    int64_t begin_us, shown_us;
};

void batch_progress_begin(struct batch_progress_line *l, int64_t now_us, bool is_terminal);
/* Lines done, failed, a second, tokens a second, and the time left at this rate. */
void batch_progress_show(struct batch_progress_line *l, const struct batch_progress *p, int64_t now_us);
void batch_progress_end(struct batch_progress_line *l);

#endif
