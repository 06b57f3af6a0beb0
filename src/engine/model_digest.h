/* model_digest.h: the name of a model's contents, for what outlives the program. */
#ifndef ENGINE_MODEL_DIGEST_H
#define ENGINE_MODEL_DIGEST_H

#include "cache/block_folder.h"
#include "format/gguf.h"

/* The SHA-256 of all files of the set. It is computed once: a note in the folder keeps it, under the files' device, inode,
 * size and times, so that another file, or a changed one, is read again. context: the struct gguf. false: they cannot be read,
 * or changed meanwhile. */
bool model_digest(void *context, struct block_folder *folder, struct prefix_key *out);

#endif
