/* clock.h: monotonic time. Engine code takes a clock as an argument; this is the real one. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>

/* Microseconds since an arbitrary start; never goes back. */
int64_t clock_us(void);

#endif
