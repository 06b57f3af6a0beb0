/* block_record.c: headers of stored blocks. */
#include "cache/block_record.h"

#include <nettle/sha2.h>
#include <string.h>

static const uint8_t magic[8] = {'M', 'R', 'B', 'L', 'O', 'C', 'K', '\n'};

enum {
    AT_VERSION = 8,
    AT_GROUP = 12,
    AT_BYTES = 16,
    AT_NAME = 24,
    AT_DIGEST = 56
};

_Static_assert(AT_DIGEST + SHA256_DIGEST_SIZE == BLOCK_RECORD_HEADER, "the digest ends the header");

static void put_little(uint8_t *to, uint64_t value, int n)
{
    for (int i = 0; i < n; i++)
        to[i] = (uint8_t)(value >> 8 * i);
}

static uint64_t get_little(const uint8_t *from, int n)
{
    uint64_t value = 0;
    for (int i = 0; i < n; i++)
        value |= (uint64_t)from[i] << 8 * i;
    return value;
}

void block_name_make(struct block_name *out, const struct prefix_key *model, const struct prefix_key *key, int group)
{
    struct sha256_ctx sha;
    sha256_init(&sha);
    sha256_update(&sha, sizeof model->byte, model->byte);
    sha256_update(&sha, sizeof key->byte, key->byte);
    sha256_digest(&sha, sizeof out->byte, out->byte);
    out->group = (uint32_t)group;
}

/* Of the header up to the digest, and the contents. */
static void digest(uint8_t out[SHA256_DIGEST_SIZE], const uint8_t *record, size_t n_bytes)
{
    struct sha256_ctx sha;
    sha256_init(&sha);
    sha256_update(&sha, AT_DIGEST, record);
    sha256_update(&sha, n_bytes, record + BLOCK_RECORD_HEADER);
    sha256_digest(&sha, SHA256_DIGEST_SIZE, out);
}

void block_record_seal(uint8_t *record, const struct block_name *name, size_t n_bytes)
{
    memcpy(record, magic, sizeof magic);
    put_little(record + AT_VERSION, BLOCK_RECORD_VERSION, 4);
    put_little(record + AT_GROUP, name->group, 4);
    put_little(record + AT_BYTES, n_bytes, 8);
    memcpy(record + AT_NAME, name->byte, sizeof name->byte);
    digest(record + AT_DIGEST, record, n_bytes);
}

enum mr_status block_record_check(const uint8_t *record, size_t n, const struct block_name *name, size_t n_bytes,
                                  struct mr_error *err)
{
    uint8_t right[SHA256_DIGEST_SIZE];
    if (n < BLOCK_RECORD_HEADER)
        return mr_fail(err, MR_BAD_FORMAT, "the record of a block has %zu bytes, less than its header", n);
    if (memcmp(record, magic, sizeof magic) != 0)
        return mr_fail(err, MR_BAD_FORMAT, "no record of a block");
    if (get_little(record + AT_VERSION, 4) != BLOCK_RECORD_VERSION)
        return mr_fail(err, MR_BAD_FORMAT, "the record of a block has version %llu, not %d",
                       (unsigned long long)get_little(record + AT_VERSION, 4), BLOCK_RECORD_VERSION);
    if (get_little(record + AT_GROUP, 4) != name->group || memcmp(record + AT_NAME, name->byte, sizeof name->byte) != 0)
        return mr_fail(err, MR_BAD_FORMAT, "the record is that of another block");
    if (get_little(record + AT_BYTES, 8) != n_bytes || n - BLOCK_RECORD_HEADER != n_bytes)
        return mr_fail(err, MR_BAD_FORMAT, "the record of a block has %zu bytes of contents, not %zu", n - BLOCK_RECORD_HEADER,
                       n_bytes);
    digest(right, record, n_bytes);
    return memcmp(right, record + AT_DIGEST, sizeof right) == 0
               ? MR_OK
               : mr_fail(err, MR_BAD_FORMAT, "the record of a block is damaged");
}
