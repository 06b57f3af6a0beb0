/* page.h: the files of web/, which the build puts into the program (cmake/embed_page.cmake writes the table). */
#ifndef SERVER_PAGE_H
#define SERVER_PAGE_H

#include <stdbool.h>
#include <stddef.h>

struct page_file {
    const char *name; /* "index.html" */
    const char *etag; /* of its bytes, in quotation marks */
    const unsigned char *bytes;
    size_t n;
};

extern const struct page_file page_files[]; /* page_n_files of them */
extern const int page_n_files;

const struct page_file *page_find(const char *name); /* NULL: no such file */

/* By the end of the name; a browser takes no module of another type. */
const char *page_content_type(const char *name);

/* if_none_match names the file's etag or is "*" (RFC 9110, section 13.1.2, the weak comparison); NULL: no. */
bool page_is_known(const struct page_file *file, const char *if_none_match);

#endif
