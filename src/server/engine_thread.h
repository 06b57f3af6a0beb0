/* engine_thread.h: an engine on a thread of this process. Requests go in by one queue, events come out by the other, and a
 * descriptor wakes who waits for them. */
#ifndef SERVER_ENGINE_THREAD_H
#define SERVER_ENGINE_THREAD_H

#include "millrace.h"

struct engine_link;

/* Starts the thread. */
enum mr_status engine_thread_create(struct engine_link **out, struct mr_model *model, const struct mr_options *options,
                                    struct mr_error *err);

#endif
