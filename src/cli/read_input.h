/* read_input.h: whole files and pipes into memory. */
#ifndef CLI_READ_INPUT_H
#define CLI_READ_INPUT_H

#include <stdio.h>

#include "base/string_buffer.h"

enum {
    READ_INPUT_MAX = 1 << 30 /* bytes; more is refused */
};

/* Append everything that stream holds. name is for the message. CANCELLED: Ctrl-C. */
enum mr_status read_stream(struct string_buffer *out, FILE *stream, const char *name, struct mr_error *err);
/* The file, or standard input for "-". */
enum mr_status read_input(struct string_buffer *out, const char *path, struct mr_error *err);
enum mr_status read_file(struct string_buffer *out, const char *path, struct mr_error *err);

#endif
