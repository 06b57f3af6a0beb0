/* text_file.h: small files that people write: settings, keys. */
#ifndef SERVER_TEXT_FILE_H
#define SERVER_TEXT_FILE_H

#include "base/string_buffer.h"

/* Append the file, at most max bytes; NUL-terminated. BAD_FORMAT: it is larger, or holds a NUL byte. The message names it. */
enum mr_status text_file_read(struct string_buffer *out, const char *path, size_t max, struct mr_error *err);

#endif
