/* engine_spawn.h: starts an engine process: this program again. */
#ifndef SERVER_ENGINE_SPAWN_H
#define SERVER_ENGINE_SPAWN_H

#include <sys/types.h>

#include "base/status.h"

/* The command of the program that runs engine_process_run; people do not call it. */
#define ENGINE_PROCESS_COMMAND "engine-process"

/* *fd: this side of the socket. model_fd: of a file that the process finds as /proc/self/fd/4; -1: none. It gets none of the
 * other descriptors, its standard output is standard error, and the signals that end or reload a server do not reach it; it
 * dies with the thread that calls this, or when fd is closed. */
enum mr_status engine_spawn(pid_t *pid, int *fd, int model_fd, struct mr_error *err);
/* What the process does first. */
void engine_spawn_settle(void);

#endif
