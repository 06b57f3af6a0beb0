/* version.c: `millrace version`. */
#include <stdio.h>

#include "cli/command.h"

int command_version(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    printf("millrace %s\n", MILLRACE_VERSION);
    return 0;
}
