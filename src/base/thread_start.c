/* thread_start.c: a new thread inherits the signal mask, so it is set around the start. */
#include "base/thread_start.h"

#include <signal.h>

bool thread_start(pthread_t *out, void *(*run)(void *context), void *context)
{
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS};
    sigset_t held, before;
    sigfillset(&held);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        sigdelset(&held, faults[i]);
    pthread_sigmask(SIG_SETMASK, &held, &before);
    const bool ok = pthread_create(out, NULL, run, context) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return ok;
}
