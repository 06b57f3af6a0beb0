/* runners.h: answers that run together and when each has to have ended, for latency_metric e2e: whether another one may join
 * without making any of them late, and, played forward, when it could. All times are microseconds from now. */
#ifndef ENGINE_RUNNERS_H
#define ENGINE_RUNNERS_H

#include <stdbool.h>

enum {
    RUNNERS_MAX = 64
};

/* Microseconds in the present mix of rows; all zero: not known. */
struct pace {
    double step, decode, prompt; /* of a step, of one more row of an answer, of a prompt */
    double prompts;              /* rows of prompts for each of an answer */
    double capacity;             /* model tokens a second in batches as large as a high load allows */
};
/* One step of b answers, with the prompts that come with them. */
double pace_step_us(const struct pace *p, double b);

struct runner {
    double prompt_us;     /* of rows that come before its first token */
    double left, longest; /* tokens: expected, and what there is to be time for */
    double until_us;      /* when it has to have ended; infinite: whenever */
    double slack_us;      /* others do not bring it nearer to that; what is later by more is lost */
};

struct runners {
    struct runner run[RUNNERS_MAX];
    int n;
    double now_us;
};

/* Whether it may join: nobody who could end in time ends late for it, by what is expected. */
bool runners_may_join(const struct runners *r, const struct pace *p, const struct runner *x);
/* Let answers end, at most `most` running, until it may join, and let it. Returns when its longest has ended in a batch that
 * stays as large; *start_us: when it began. */
double runners_join(struct runners *r, const struct pace *p, const struct runner *x, int most, double *start_us);

#endif
