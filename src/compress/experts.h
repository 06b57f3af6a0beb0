/* experts.h: pruning the experts of a mixture: whole experts go, as many from each layer, each layer's own choice, with their
 * row of the router. The file is copied a piece at a time and its types stay; matrices that stay keep their bytes. */
#ifndef COMPRESS_EXPERTS_H
#define COMPRESS_EXPERTS_H

#include "compress/prune_job.h"
#include "model/hparams.h"

/* How much each expert matters, score[n_layer][n_expert]:
 *   weight      length of its down matrix
 *   activation  root of the energy that it gives over the text: squares of its activations times those of their columns
 *   removal     what the loss over the text rises by when the router never chooses it
 * There is no backward pass through a mixture: taylor is NO_SUPPORT. Errors name what is wrong with the text. */
enum mr_status experts_score(float *score, const struct gguf *g, const struct hparams *h, const struct prune_job *job,
                             struct mr_error *err);
/* By weight alone, or, sum[n_layer][n_expert][n_ff] given, by the squares of the activations. */
enum mr_status experts_weigh(float *score, const struct gguf *g, const struct hparams *h, const double *sum,
                             struct mr_error *err);

/* job->parts is PRUNE_EXPERTS. BAD_INPUT: the model has no experts, or none would be left. */
enum mr_status experts_job_run(struct prune_result *out, const struct prune_job *job, struct mr_error *err);

#endif
