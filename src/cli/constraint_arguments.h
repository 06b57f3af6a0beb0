/* constraint_arguments.h: the options that say what an answer obeys. */
#ifndef CLI_CONSTRAINT_ARGUMENTS_H
#define CLI_CONSTRAINT_ARGUMENTS_H

#include "base/string_buffer.h"
#include "cli/arguments.h"

struct constraint_arguments {
    const char *schema, *schema_file, *regex, *grammar, *grammar_file;
    bool json_object;
    /* found by constraint_arguments_read */
    enum mr_constraint kind;
    const char *text; /* NULL: the kind needs none */
    struct string_buffer file;
};

extern const struct argument constraint_argument[];

/* Read the file, if one is named, and compile the constraint once, so that what cannot be enforced is known before a model is
 * loaded. Returns ARGUMENTS_GO_ON, or exit status 2 after a message. */
int constraint_arguments_read(struct constraint_arguments *a, const char *command);
void constraint_arguments_release(struct constraint_arguments *a);

#endif
