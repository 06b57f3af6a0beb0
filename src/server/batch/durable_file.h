/* durable_file.h: files that are there whole or not at all, and folders that one process at a time works in.
 * Threads: one at a time for each file. */
#ifndef SERVER_BATCH_DURABLE_FILE_H
#define SERVER_BATCH_DURABLE_FILE_H

#include "base/string_buffer.h"

/* Bytes go to PATH.part, which takes PATH's place once they are on the disk. */
struct durable_file {
    char *path, *part;
    int fd;
    struct string_buffer buffer;
};

/* Begin anew. Discard it on failure, too. */
enum mr_status durable_file_open(struct durable_file *f, const char *path, struct mr_error *err);
enum mr_status durable_file_add(struct durable_file *f, const char *bytes, size_t n, struct mr_error *err);
/* The file is there, and stays there when power fails, once this returns. */
enum mr_status durable_file_commit(struct durable_file *f, struct mr_error *err);
/* Ends its use; what was not committed is gone. */
void durable_file_discard(struct durable_file *f);

/* Make the folder where it is missing, and hold the lock of FOLDER/lock until *fd is closed or the process ends. BUSY: another
 * process has it. */
enum mr_status durable_folder_lock(int *fd, const char *folder, struct mr_error *err);
/* Names that came, went or changed in the folder of this path are on the disk. */
enum mr_status durable_folder_sync(const char *path, struct mr_error *err);

#endif
