/* interrupt.h: Ctrl-C as a flag. */
#ifndef CLI_INTERRUPT_H
#define CLI_INTERRUPT_H

#include <stdbool.h>

enum {
    EXIT_INTERRUPTED = 130 /* as shells report SIGINT */
};

/* From now on Ctrl-C sets a flag and interrupts system calls; three that nobody has seen end the program at once. */
void interrupt_install(void);
bool interrupt_seen(void);
void interrupt_clear(void);

/* Wait until fd can be read without waiting. false: Ctrl-C came, now or before. */
bool interrupt_wait(int fd);

#endif
