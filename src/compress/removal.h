/* removal.h: importance by removing and measuring: the rise of the loss over the text when a structure is taken away, the rest
 * of the model being whole. Heads go one by one, and so do layers; channels of a layer, and dimensions of the width, 32 at a
 * time, the least important by weight first, for a single one changes less than the text can tell: all 32 get the rise that
 * they cause together, and those of more weight a hair more. Kinds that are not asked for keep their importance by weight. */
#ifndef COMPRESS_REMOVAL_H
#define COMPRESS_REMOVAL_H

#include "compress/importance.h"

/* Errors as of importance_measure. */
enum mr_status removal_measure(struct structures *score, const struct train_model *m, const struct importance_options *options,
                               struct mr_error *err);

#endif
