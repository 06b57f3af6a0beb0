/* engine_spawn.c: posix_spawn of /proc/self/exe. */
#include "server/engine_spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/engine_process.h"

/* The descriptors that are kept are first moved out of the way of their new numbers. */
static bool add_actions(posix_spawn_file_actions_t *a, int fd, int model_fd)
{
    return posix_spawn_file_actions_addopen(a, STDIN_FILENO, "/dev/null", O_RDONLY, 0) == 0 &&
           posix_spawn_file_actions_adddup2(a, STDERR_FILENO, STDOUT_FILENO) == 0 &&
           posix_spawn_file_actions_adddup2(a, fd, ENGINE_PROCESS_FD) == 0 &&
           (model_fd < 0 || posix_spawn_file_actions_adddup2(a, model_fd, ENGINE_PROCESS_MODEL_FD) == 0) &&
           posix_spawn_file_actions_addclosefrom_np(a, model_fd < 0 ? ENGINE_PROCESS_MODEL_FD : ENGINE_PROCESS_MODEL_FD + 1) ==
               0;
}

static bool set_signals(posix_spawnattr_t *attributes)
{
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    return posix_spawnattr_setsigmask(attributes, &none) == 0 && posix_spawnattr_setsigdefault(attributes, &all) == 0 &&
           posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF) == 0;
}

/* errno's number; 0: it runs. */
static int spawn(pid_t *pid, int fd, int model_fd)
{
    static char name[] = "millrace", command[] = ENGINE_PROCESS_COMMAND;
    char *argv[] = {name, command, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    int error = posix_spawn_file_actions_init(&actions);
    if (error != 0)
        return error;
    error = posix_spawnattr_init(&attributes);
    if (error == 0) {
        error = add_actions(&actions, fd, model_fd) && set_signals(&attributes)
                    ? posix_spawn(pid, "/proc/self/exe", &actions, &attributes, argv, environ)
                    : ENOMEM;
        posix_spawnattr_destroy(&attributes);
    }
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

/* A duplicate above the numbers that the process's own get. */
static int move_up(int fd) { return fcntl(fd, F_DUPFD_CLOEXEC, ENGINE_PROCESS_MODEL_FD + 1); }

enum mr_status engine_spawn(pid_t *pid, int *fd, int model_fd, struct mr_error *err)
{
    int pair[2], error;
    *fd = -1;
    *pid = 0;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
        return mr_fail(err, MR_IO, "no socket for an engine process: %s", strerror(errno));
    const int theirs = move_up(pair[1]), model = model_fd >= 0 ? move_up(model_fd) : -1;
    error = theirs < 0 || (model_fd >= 0 && model < 0) ? EMFILE : spawn(pid, theirs, model);
    close(pair[1]);
    if (theirs >= 0)
        close(theirs);
    if (model >= 0)
        close(model);
    if (error == 0) {
        *fd = pair[0];
        return MR_OK;
    }
    close(pair[0]);
    return mr_fail(err, MR_IO, "an engine process cannot be started: %s", strerror(error));
}

void engine_spawn_settle(void)
{
    static const int left_to_the_server[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};
    for (size_t i = 0; i < sizeof left_to_the_server / sizeof *left_to_the_server; i++)
        signal(left_to_the_server[i], SIG_IGN);
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* and the end of the socket, should the parent be gone already */
}
