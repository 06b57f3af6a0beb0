/* serve_arguments.h: the options of `millrace serve`: one for each setting of the table, and those about where settings come
 * from. */
#ifndef CLI_SERVE_ARGUMENTS_H
#define CLI_SERVE_ARGUMENTS_H

#include "server/settings.h"

struct serve_arguments {
    struct settings *settings; /* of the file, the environment and the command line; free it with settings_free */
    const char *config;        /* NULL: no file */
    bool check;                /* show what holds, and do not serve */
};

/* Returns ARGUMENTS_GO_ON or an exit status, the error being printed; then there are no settings. */
int serve_arguments_parse(struct serve_arguments *a, int argc, char **argv);

#endif
