/* batch_store_state.h: what stands behind struct batch_store, for the files that speak SQL. */
#ifndef SERVER_BATCH_BATCH_STORE_STATE_H
#define SERVER_BATCH_BATCH_STORE_STATE_H

#include <pthread.h>
#include <sqlite3.h>

#include "server/batch/batch_store.h"

enum batch_statement {
    SQL_BEGIN,
    SQL_COMMIT,
    SQL_ROLLBACK,
    SQL_NEXT_JOB,
    SQL_FIND_JOB,
    SQL_ADD_JOB,
    SQL_DROP_JOB,
    SQL_SET_STATUS,
    SQL_ADD_LINE,
    SQL_CLEAR_LINES,
    SQL_PENDING,
    SQL_RECORD,
    SQL_COUNT,
    SQL_RESULTS,
    SQL_PUT,
    SQL_GET,
    SQL_OLDEST,
    SQL_LIST_UP,
    SQL_LIST_DOWN,
    SQL_REMOVE,
    SQL_SUM,
    SQL_N
};

struct batch_store {
    sqlite3 *db;
    sqlite3_stmt *statement[SQL_N];
    pthread_mutex_t lock;
    int lock_fd;
};

/* All with the lock held. */
enum mr_status batch_store_fail(const struct batch_store *s, struct mr_error *err); /* what SQLite says, as a status */
/* Run a statement that gives no rows. */
enum mr_status batch_store_finish(struct batch_store *s, enum batch_statement k, struct mr_error *err);
/* End the transaction: as a whole, or not at all. */
enum mr_status batch_store_settle(struct batch_store *s, enum mr_status status, struct mr_error *err);

#endif
