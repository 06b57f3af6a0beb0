/* thread_pin.h: threads that stay on one CPU (pthread_setaffinity_np(3)). */
#ifndef BASE_THREAD_PIN_H
#define BASE_THREAD_PIN_H

#include <pthread.h>
#include <stdbool.h>

/* Pin thread i of `thread` to the CPU behind the i-th that the calling thread may use, beginning again where there are fewer.
 * The first one is left to the caller. false: a thread could not be pinned; those before it are. */
bool threads_pin(const pthread_t *thread, int n);

#endif
