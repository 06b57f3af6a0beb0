/* version.c: `millrace version`. */
#include <stdio.h>

#include "cli/arguments.h"
#include "cli/command.h"

int command_version(int argc, char **argv)
{
    const struct command_line line = {.summary = "Print the version.", .example = "  millrace version"};
    const int status = arguments_parse(argc, argv, &line);
    if (status != ARGUMENTS_GO_ON)
        return status;
    printf("millrace %s\n", MILLRACE_VERSION);
    return 0;
}
