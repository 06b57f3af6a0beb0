/* engine_process_command.c: `millrace engine-process`: what a server starts to compute for it. Not for people. */
#include <sys/stat.h>

#include "cli/arguments.h"
#include "cli/command.h"
#include "server/engine_process.h"
#include "server/engine_spawn.h"

int command_engine_process(int argc, char **argv)
{
    struct stat what;
    struct mr_error err = {{0}};
    if (argc != 1 || fstat(ENGINE_PROCESS_FD, &what) != 0 || !S_ISSOCK(what.st_mode))
        return arguments_fail(argv[0], "is started by `millrace serve`; see --warm-active");
    engine_spawn_settle();
    return engine_process_run(ENGINE_PROCESS_FD, &err) == MR_IO ? 0 : 1; /* it ends when the server's side of the socket does */
}
