/* batch_service.h: files and batches of a server: what OpenAI's /v1/files and /v1/batches keep, under --state-dir. Two threads:
 * the clerk checks inputs, writes outputs and forgets what has expired; the runner runs lines, one job after the other. What a
 * job is at is on the disk: whatever ends the process, the next one goes on.
 *
 *   STATE/lock, batch.db     jobs, lines and records (batch_store.h, batch_records.h)
 *   STATE/files/ID           bytes of a file
 *
 * Threads: any; calls may wait for the disk. */
#ifndef SERVER_BATCH_BATCH_SERVICE_H
#define SERVER_BATCH_BATCH_SERVICE_H

#include "server/batch/batch_records.h"

struct server;
struct batch_service;

/* Take the folder. BUSY: another process has it; BAD_FORMAT: what is there is damaged. */
enum mr_status batch_service_open(struct batch_service **out, struct server *s, const char *folder, struct mr_error *err);
/* The model answers: jobs go on. */
enum mr_status batch_service_start(struct batch_service *b, struct mr_error *err);
void batch_service_stop(struct batch_service *b); /* they rest, once this returns; takes NULL */
void batch_service_free(struct batch_service *b); /* takes NULL */

struct batch_store *batch_service_store(struct batch_service *b);
/* Append the path of a file's bytes. */
void batch_service_path(const struct batch_service *b, const char *id, struct string_buffer *out);
/* "file-..." or "batch_...", which nobody has had before. */
void batch_service_new_id(char out[BATCH_ID_MAX + 1], const char *prefix);

/* A new job, its body but for id, object, status and times. BUSY: the key has too many. */
enum mr_status batch_service_add(struct batch_service *b, struct batch_record *job, struct mr_error *err);
/* The job will be cancelled, or was already on the way; *job is what it is now. BAD_INPUT: it has ended, or nearly. */
enum mr_status batch_service_cancel(struct batch_service *b, const char *id, uint64_t owner, struct batch_record *job,
                                    struct mr_error *err);
/* Counts of the job that runs are those of this moment. */
void batch_service_show(struct batch_service *b, json_t *job);
/* Forget a file. BUSY: a job that has not ended reads it. */
enum mr_status batch_service_remove_file(struct batch_service *b, const char *id, struct mr_error *err);

#endif
