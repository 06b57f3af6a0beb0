/* page.c: looks up the files of the page. */
#include "server/page.h"

#include <string.h>

const struct page_file *page_find(const char *name)
{
    for (int i = 0; i < page_n_files; i++) {
        if (strcmp(page_files[i].name, name) == 0) {
            return &page_files[i];
        }
    }
    return NULL;
}

static const struct {
    const char *end, *type;
} content_types[] = {
    {".html", "text/html; charset=utf-8"},
    {".css", "text/css; charset=utf-8"},
    {".js", "text/javascript; charset=utf-8"},
    {".svg", "image/svg+xml"},
};

const char *page_content_type(const char *name)
{
    const size_t n = strlen(name);
    for (size_t i = 0; i < sizeof content_types / sizeof *content_types; i++) {
        const size_t n_end = strlen(content_types[i].end);
        if (n >= n_end && strcmp(name + n - n_end, content_types[i].end) == 0) {
            return content_types[i].type;
        }
    }
    return "application/octet-stream";
}

bool page_is_known(const struct page_file *file, const char *if_none_match)
{
    const char *separators = " \t,";
    for (const char *s = if_none_match; s != NULL && *s != '\0'; s += strcspn(s, separators)) {
        s += strspn(s, separators);
        const char *tag = strncmp(s, "W/", 2) == 0 ? s + 2 : s;
        const size_t n = strcspn(tag, separators);
        if ((n == 1 && *tag == '*') || (n == strlen(file->etag) && strncmp(tag, file->etag, n) == 0)) {
            return true;
        }
    }
    return false;
}
