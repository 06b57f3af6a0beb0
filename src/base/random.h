/* random.h: Philox4x32-10, a counter-based generator (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2,
 * 3"): the numbers are a pure function of key and counter, so nothing has to be kept between calls. */
#ifndef BASE_RANDOM_H
#define BASE_RANDOM_H

#include <stdint.h>

/* Four random words of the counter under the key. */
void philox4x32(uint32_t out[4], const uint32_t counter[4], const uint32_t key[2]);

/* A seed that differs from run to run, from the system's generator. */
uint64_t random_seed(void);

#endif
