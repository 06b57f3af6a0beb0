/* interrupt.c: Ctrl-C as a flag: a signal handler has nothing but a static variable to tell what happened. */
#include "cli/interrupt.h"

#include <signal.h>
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
