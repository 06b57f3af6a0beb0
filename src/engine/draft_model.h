/* draft_model.h: a second, smaller model of the same vocabulary, whose guesses the first one checks. It computes on the first
 * one's threads and device. */
#ifndef ENGINE_DRAFT_MODEL_H
#define ENGINE_DRAFT_MODEL_H

#include "format/gguf.h"
#include "model/model.h"
#include "text/tokenizer.h"

struct draft_model {
    struct gguf *file;
    struct model *model; /* NULL: there is none */
};

/* options: those that the first model was opened with. BAD_INPUT: another vocabulary; the message names the first difference.
 * On failure what there is is still to be closed. */
enum mr_status draft_model_open(struct draft_model *d, const char *path, const struct tokenizer *vocabulary,
                                const struct model_options *options, struct mr_error *err);
void draft_model_close(struct draft_model *d); /* takes one that is all zero */

/* Whether each id means the same: its text, whether it is special, whether it ends an answer; and whether both begin a text
 * alike. BAD_INPUT names the first difference, with `draft`'s first. */
enum mr_status draft_model_compare(const struct tokenizer *draft, const struct tokenizer *model, struct mr_error *err);

/* The same of the vocabulary in a file. */
enum mr_status draft_model_check(const struct tokenizer *draft, const char *model_path, struct mr_error *err);

#endif
