/* interrupt.c: Ctrl-C as a flag: a signal handler has nothing but a static variable to tell what happened. */
#include "cli/interrupt.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <unistd.h>

enum {
    UNSEEN_MAX = 3
};

static volatile sig_atomic_t n_unseen;

static void on_interrupt(int signal_number)
{
    (void)signal_number;
    n_unseen = n_unseen + 1;
    if (n_unseen >= UNSEEN_MAX)
        _exit(EXIT_INTERRUPTED);
}

void interrupt_install(void)
{
    struct sigaction action = {.sa_handler = on_interrupt}; /* no SA_RESTART: reading a line ends */
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
}

bool interrupt_seen(void) { return n_unseen > 0; }

void interrupt_clear(void) { n_unseen = 0; }

/* Ctrl-C is held back but while ppoll waits: between a look at the flag and a read it would be seen with the next key only.
 * It comes to this thread, since the threads of a pool take no signals. */
bool interrupt_wait(int fd)
{
    sigset_t held, before;
    struct pollfd input = {.fd = fd, .events = POLLIN};
    sigemptyset(&held);
    sigaddset(&held, SIGINT);
    pthread_sigmask(SIG_BLOCK, &held, &before);
    while (!interrupt_seen() && ppoll(&input, 1, NULL, &before) < 0 && errno == EINTR)
        continue;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return !interrupt_seen();
}
