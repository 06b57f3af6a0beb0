/* infill.h: prompts for a text's middle, by the tokens that models were trained with for it (Bavarian et al. 2022,
 * arXiv:2207.14255: prefix, suffix, middle). */
#ifndef SERVER_API_INFILL_H
#define SERVER_API_INFILL_H

#include "server/api/job.h"

/* input_prefix, input_suffix, input_extra (a list of {filename, text}) and prompt, which the middle begins with, become the one
 * prompt. 400 not_supported_error: the vocabulary has no such tokens. */
void infill_read(struct job *j);

#endif
