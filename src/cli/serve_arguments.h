/* serve_arguments.h: the options of `millrace serve`. */
#ifndef CLI_SERVE_ARGUMENTS_H
#define CLI_SERVE_ARGUMENTS_H

#include "cli/arguments.h"
#include "server/settings.h"

/* The settings of a server, as the command line says them; borrows argv. */
struct serve_arguments {
    struct server_settings settings;
    struct argument_list api_key, pin;
};

/* Returns ARGUMENTS_GO_ON or an exit status, the error being printed. */
int serve_arguments_parse(struct serve_arguments *a, int argc, char **argv);

#endif
