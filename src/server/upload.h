/* upload.h: a form with a file (multipart/form-data, RFC 7578) whose bytes go to the disk as they come, so that a file of any
 * size takes the memory of a piece. libmicrohttpd reads the form. Threads: a worker's, one at a time. */
#ifndef SERVER_UPLOAD_H
#define SERVER_UPLOAD_H

#include "server/batch/batch_records.h"
#include "server/batch/durable_file.h"

struct exchange;

enum {
    UPLOAD_VALUE_MAX = 255,      /* bytes of a field, and of the file's name */
    UPLOAD_FORM_BYTES = 64 << 10 /* beside the file */
};

struct upload {
    struct exchange *x;
    struct MHD_PostProcessor *form;
    struct durable_file file; /* not committed */
    bool has_file;
    char id[BATCH_ID_MAX + 1]; /* of the file */
    int64_t bytes;
    char name[UPLOAD_VALUE_MAX + 1]; /* as the client calls it */
    char purpose[UPLOAD_VALUE_MAX + 1], anchor[UPLOAD_VALUE_MAX + 1], seconds[UPLOAD_VALUE_MAX + 1]; /* "": not there */
};

/* The exchange's body is the next piece; the first one makes its upload. What is wrong is in the exchange's refusal. */
void upload_take(struct exchange *x);
/* The body is the last piece. false: what is wrong, a form that was cut, too, is in the exchange's refusal. */
bool upload_end(struct exchange *x);
void upload_free(struct upload *u); /* the file is gone where it was not committed; takes NULL */

/* What a body may have, the form's own bytes included. */
size_t upload_body_max(const struct exchange *x);

#endif
