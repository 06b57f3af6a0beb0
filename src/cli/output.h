/* output.h: how a command ends: it prints its result whole, or one line that says why not. */
#ifndef CLI_OUTPUT_H
#define CLI_OUTPUT_H

#include <jansson.h>

#include "base/string_buffer.h"

/* A line "command: message" on stderr; returns EXIT_FAILURE. */
int output_fail(const char *command, const char *message);

/* The same for a status: EXIT_INTERRUPTED where it is CANCELLED. */
int output_fail_status(const char *command, enum mr_status status, const struct mr_error *err);

/* Print on stdout. Return the exit status; failures have been told. */
int output_text(const char *command, const struct string_buffer *text);

/* Takes root over; NULL: there was no memory for it. flags: of json_dumps. */
int output_json(const char *command, json_t *root, size_t flags);

#endif
