/* model_digest.c: hashes model files, and remembers the result. */
#include "engine/model_digest.h"

#include <nettle/sha2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

enum {
    PIECE = 1 << 20, /* read at a time */
    NOTE_NAME_MAX = 80
};

/* What a note holds: the digest, and one over the stamps and it, so that a damaged note is none. */
struct note {
    struct prefix_key digest, check;
};

static bool stamp_all(const struct gguf *g, struct prefix_key *out)
{
    struct sha256_ctx sha;
    sha256_init(&sha);
    for (int i = 0; i < gguf_n_splits(g); i++) {
        struct gguf_stamp stamp;
        char text[128];
        if (!gguf_stamp(g, i, &stamp))
            return false;
        const int n = snprintf(text, sizeof text, "%llu %llu %llu %lld %lld\n", (unsigned long long)stamp.device,
                               (unsigned long long)stamp.inode, (unsigned long long)stamp.bytes, (long long)stamp.modified_ns,
                               (long long)stamp.changed_ns);
        sha256_update(&sha, (size_t)n, (const uint8_t *)text);
    }
    sha256_digest(&sha, sizeof out->byte, out->byte);
    return true;
}

static bool hash_all(const struct gguf *g, uint8_t *piece, struct prefix_key *out)
{
    struct sha256_ctx sha;
    sha256_init(&sha);
    for (int i = 0; i < gguf_n_splits(g); i++) {
        struct gguf_stamp stamp;
        if (!gguf_stamp(g, i, &stamp))
            return false;
        for (uint64_t at = 0; at < stamp.bytes; at += PIECE) {
            const size_t n = stamp.bytes - at < PIECE ? (size_t)(stamp.bytes - at) : PIECE;
            if (gguf_read_file(g, i, at, piece, n, NULL) != MR_OK)
                return false;
            sha256_update(&sha, n, piece);
        }
    }
    sha256_digest(&sha, sizeof out->byte, out->byte);
    return true;
}

static void make_check(struct note *note, const struct prefix_key *stamps)
{
    struct prefix_key both[2] = {*stamps, note->digest};
    prefix_key_seed(&note->check, both, sizeof both);
}

bool model_digest(void *context, struct block_folder *folder, struct prefix_key *out)
{
    const struct gguf *g = context;
    struct prefix_key before, after;
    struct note note, right;
    char name[NOTE_NAME_MAX] = "model-";
    if (!stamp_all(g, &before))
        return false;
    for (size_t i = 0; i < sizeof before.byte; i++)
        snprintf(name + 6 + 2 * i, 3, "%02x", before.byte[i]);
    if (block_folder_get_note(folder, name, &note, sizeof note)) {
        right = note;
        make_check(&right, &before);
        *out = note.digest;
        if (memcmp(&right.check, &note.check, sizeof note.check) == 0)
            return true;
    }
    uint8_t *piece = mem_array(PIECE, 1);
    const bool ok = piece != NULL && hash_all(g, piece, &note.digest) && stamp_all(g, &after) &&
                    memcmp(&before, &after, sizeof before) == 0;
    free(piece);
    if (!ok)
        return false;
    make_check(&note, &before);
    *out = note.digest;
    block_folder_put_note(folder, name, &note, sizeof note, NULL); /* without it the next start hashes again */
    return true;
}
