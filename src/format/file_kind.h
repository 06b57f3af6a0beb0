/* file_kind.h: what a file is that is not the one we hoped for. */
#ifndef FORMAT_FILE_KIND_H
#define FORMAT_FILE_KIND_H

#include <stddef.h>

enum {
    FILE_KIND_BYTES = 512 /* how many bytes of a file's beginning are enough */
};

/* What a file seems to be that begins with these n bytes, with its article: "a zip archive". Never NULL. */
const char *file_kind(const void *bytes, size_t n);

#endif
