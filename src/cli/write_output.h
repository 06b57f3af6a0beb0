/* write_output.h: a result as a file. */
#ifndef CLI_WRITE_OUTPUT_H
#define CLI_WRITE_OUTPUT_H

#include "base/string_buffer.h"

/* The text, whole or, on failure, nothing under this name that was not there before. */
enum mr_status write_output(const char *path, const struct string_buffer *text, struct mr_error *err);

#endif
