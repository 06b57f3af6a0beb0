/* engine_process.h: the life of a process that computes for a server: it opens the model that it is told of, makes an engine
 * once it is told to begin, and answers requests, all over one socket (frame.h). Until it begins it has no keys and values, and
 * sleeps. It ends when the socket does. */
#ifndef SERVER_ENGINE_PROCESS_H
#define SERVER_ENGINE_PROCESS_H

#include "base/status.h"

enum {
    ENGINE_PROCESS_FD = 3,      /* of the socket */
    ENGINE_PROCESS_MODEL_FD = 4 /* of a model's file that has no name */
};

enum mr_status engine_process_run(int fd, struct mr_error *err);

#endif
