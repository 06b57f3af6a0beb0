/* block_folder.h: records of blocks in a folder, one file each, named by the block: <64 hex digits>-<group>.
 * A file is written under another name and then renamed, so that a crash leaves no half of one under its name. One process
 * uses a folder at a time: it holds the lock on the file `lock`.
 * Threads: open and close by one; the rest by one at a time. */
#ifndef CACHE_BLOCK_FOLDER_H
#define CACHE_BLOCK_FOLDER_H

#include "cache/block_record.h"

struct block_folder; /* opaque */

/* Made where it is missing. FULL: another process uses it. IO, NO_MEMORY. */
enum mr_status block_folder_open(struct block_folder **out, const char *path, struct mr_error *err);
void block_folder_close(struct block_folder *f); /* takes NULL */

/* Call found(context, name, bytes of the file, when it was last used in nanoseconds) for each record; half-written files of
 * an earlier process are removed. found returns false to end it. */
enum mr_status block_folder_list(struct block_folder *f,
                                 bool (*found)(void *context, const struct block_name *name, size_t bytes, int64_t used_ns),
                                 void *context, struct mr_error *err);

enum mr_status block_folder_write(struct block_folder *f, const struct block_name *name, const uint8_t *record, size_t n,
                                  struct mr_error *err);
/* Read and check a record with n_bytes of contents into record[BLOCK_RECORD_HEADER + n_bytes]; it counts as just used.
 * BAD_FORMAT: it is damaged, cut, or another one. */
enum mr_status block_folder_read(struct block_folder *f, const struct block_name *name, uint8_t *record, size_t n_bytes,
                                 struct mr_error *err);
void block_folder_remove(struct block_folder *f, const struct block_name *name);

/* A small file beside the records, such as what is known of a model: n bytes under a name without a slash that is no
 * record's. */
enum mr_status block_folder_put_note(struct block_folder *f, const char *name, const void *bytes, size_t n,
                                     struct mr_error *err);
bool block_folder_get_note(struct block_folder *f, const char *name, void *bytes, size_t n); /* false: not of n bytes */

#endif
