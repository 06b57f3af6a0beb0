/* batch_records.h: the files and jobs of the API, beside the lines in the store. A record is the object that a client reads,
 * with what it is found by. Threads: any. */
#ifndef SERVER_BATCH_BATCH_RECORDS_H
#define SERVER_BATCH_BATCH_RECORDS_H

#include <jansson.h>

#include "server/batch/batch_store.h"

enum {
    BATCH_ID_MAX = 63,
    BATCH_TAG_MAX = 31
};

enum batch_record_kind {
    BATCH_RECORD_FILE,
    BATCH_RECORD_JOB
};

struct batch_record {
    int64_t seq; /* grows with each new one */
    enum batch_record_kind kind;
    char id[BATCH_ID_MAX + 1];
    uint64_t owner;              /* the key's id; 0: nobody's */
    char tag[BATCH_TAG_MAX + 1]; /* a file's purpose, a job's status */
    int64_t expires_s;           /* since the epoch; 0: never */
    int64_t bytes;               /* on the disk */
    json_t *body;                /* an object */
};

void batch_record_release(struct batch_record *r);
/* What the object says of itself, or 0. */
int64_t batch_record_int(const struct batch_record *r, const char *name);
const char *batch_record_text(const struct batch_record *r, const char *name); /* "": none */

/* Add or change, all or none; seq and owner of what is there stay. */
enum mr_status batch_records_put(struct batch_store *s, const struct batch_record *record, int n, struct mr_error *err);
/* Release what is found. NOT_FOUND: nothing. */
enum mr_status batch_records_get(struct batch_store *s, enum batch_record_kind kind, const char *id, struct batch_record *out,
                                 struct mr_error *err);
/* The oldest behind seq `after` with this tag ("": any); until_s not 0: of those that expire by then. */
enum mr_status batch_records_oldest(struct batch_store *s, enum batch_record_kind kind, const char *tag, int64_t until_s,
                                    int64_t after, struct batch_record *out, struct mr_error *err);

struct batch_listing {
    enum batch_record_kind kind;
    uint64_t owner;
    const char *tag; /* "": any */
    int64_t after;   /* the seq behind which to begin; 0: none */
    bool ascending;
    int limit;
};

/* Append the bodies to an array; *more: there are others behind them. */
enum mr_status batch_records_list(struct batch_store *s, const struct batch_listing *listing, json_t *out, bool *more,
                                  struct mr_error *err);
enum mr_status batch_records_remove(struct batch_store *s, const char *id, struct mr_error *err);

struct batch_sum {
    int64_t n, bytes;
};

/* tag "": any; owner NULL: everybody. */
enum mr_status batch_records_sum(struct batch_store *s, enum batch_record_kind kind, const char *tag, const uint64_t *owner,
                                 struct batch_sum *out, struct mr_error *err);

#endif
