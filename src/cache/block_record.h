/* block_record.h: one block of keys and values as bytes that outlive the program: a header that names it, then its contents.
 * A record is used only where its name is the one asked for and the digest over name and contents is right.
 *
 *   magic[8]  version u32  group u32  n_bytes u64  name[32]  digest[32]  contents[n_bytes]      (little endian)
 *
 * Threads: functions of their arguments. */
#ifndef CACHE_BLOCK_RECORD_H
#define CACHE_BLOCK_RECORD_H

#include "cache/prefix_index.h"

enum {
    BLOCK_RECORD_HEADER = 88, /* bytes in front of the contents */
    BLOCK_RECORD_VERSION = 1
};

/* A block of one group of layers, anywhere: the digest of the model's and the block's key. */
struct block_name {
    uint8_t byte[32];
    uint32_t group;
};

/* model: of all that decides a block's bits and is not in its key. */
void block_name_make(struct block_name *out, const struct prefix_key *model, const struct prefix_key *key, int group);

/* Fill the header in front of n_bytes of contents, record[BLOCK_RECORD_HEADER + n_bytes]. */
void block_record_seal(uint8_t *record, const struct block_name *name, size_t n_bytes);

/* Whether n bytes are the whole record of that name with n_bytes of contents. BAD_FORMAT: the message says what is wrong. */
enum mr_status block_record_check(const uint8_t *record, size_t n, const struct block_name *name, size_t n_bytes,
                                  struct mr_error *err);

#endif
