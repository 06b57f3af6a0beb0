/* promises.h: when the refused were told to come back. Each is told a time of its own, as far apart as the machine needs to
 * serve them, and room is kept for those whose time has come, as far as the refused do come back. Threads: owned by one. */
#ifndef ENGINE_PROMISES_H
#define ENGINE_PROMISES_H

#include <stdint.h>

enum {
    PROMISES_MAX = 256
};

struct promise {
    int64_t due_us;
    uint64_t key;
    double cost; /* model tokens; 0: kept */
};

struct promises {
    struct promise promise[PROMISES_MAX]; /* a ring in order of due_us */
    int first, n;
    int64_t last_us;  /* the latest time that was promised */
    double come_back; /* share of the refused that does */
};

void promises_init(struct promises *p);

/* A time for one who is refused, not before earliest_us. us: in which the machine serves the request. */
int64_t promises_make(struct promises *p, int64_t now_us, int64_t earliest_us, uint64_t key, double cost, double us);
/* One of the key's refused has come back. */
void promises_keep(struct promises *p, uint64_t key);
/* Forget those who did not come back in time. */
void promises_expire(struct promises *p, int64_t now_us);
/* How many are expected until until_us; *cost: of all of them. */
double promises_due(const struct promises *p, int64_t until_us, double *cost);

#endif
