/* calibrate.h: statistics of the activations that meet each matrix of a model along a text: the sum over rows of the squares of
 * each column, which tells quantisation where errors count (column_weights.h). */
#ifndef COMPRESS_CALIBRATE_H
#define COMPRESS_CALIBRATE_H

#include "compress/column_weights.h"
#include "measure/perplexity.h"

enum {
    CALIBRATE_TOKENS_MIN = 256 /* fewer say little of columns that are seldom large */
};

struct calibration; /* opaque */

/* Read token[n] with the model, in windows of `window` tokens that hardly overlap. The model must compute with floats (fp32):
 * the statistics are those of the products' inputs. *of_text: the text's perplexity by the way. BAD_INPUT: the text is too
 * short. CANCELLED: go_on said so. */
enum mr_status calibrate(struct calibration **out, struct perplexity *of_text, struct mr_model *model, const int32_t *token,
                         int64_t n, const struct perplexity_options *options, struct mr_error *err);
void calibration_free(struct calibration *c);   /* takes NULL */
int calibration_n(const struct calibration *c); /* matrices that were met */

/* As column_weights_read would give what calibration_write writes. */
enum mr_status calibration_weights(struct column_weights **out, const struct calibration *c, struct mr_error *err);

/* In the forms that people exchange: the older one where the name ends with ".dat", else GGUF. source: the text's name. */
enum mr_status calibration_write(const struct calibration *c, const char *path, const char *source, struct mr_error *err);

#endif
