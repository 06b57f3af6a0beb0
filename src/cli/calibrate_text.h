/* calibrate_text.h: statistics of activations along a text. */
#ifndef CLI_CALIBRATE_TEXT_H
#define CLI_CALIBRATE_TEXT_H

#include "base/string_buffer.h"
#include "compress/calibrate.h"

/* Read at most n_tokens of the text (0: all) in windows of `window` tokens, with a bar on a terminal. The model computes in
 * fp32. BAD_INPUT: the text is too short. CANCELLED: Ctrl-C. */
enum mr_status calibrate_text(struct calibration **out, struct perplexity *of_text, struct mr_model *model,
                              const struct string_buffer *text, int window, int n_tokens, struct mr_error *err);

#endif
