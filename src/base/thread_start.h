/* thread_start.h: threads of the library, which leave signals to the program. */
#ifndef BASE_THREAD_START_H
#define BASE_THREAD_START_H

#include <pthread.h>
#include <stdbool.h>

/* Run run(context) on a thread of its own, with all signals blocked but those that tell of a fault in the thread itself: a
 * handler interrupts a thread of the program's. false: no thread could be started. */
bool thread_start(pthread_t *out, void *(*run)(void *context), void *context);

#endif
