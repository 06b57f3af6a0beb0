/* step_cost.h: what a step costs, fitted while the engine runs.
 * time = w0 + w1 decoding rows + w2 prompt rows + w3 attended positions + w4 drafts, by non-negative least squares of the
 * relative error over the recent steps, older ones weighing less and less. Time comes from the caller's clock. The fit knows
 * means; how far single steps scatter about them is counted beside it. Threads: owned by one. */
#ifndef ENGINE_STEP_COST_H
#define ENGINE_STEP_COST_H

#include <stdbool.h>
#include <stdint.h>

enum {
    STEP_COST_TERMS = 5,
    STEP_COST_RECENT = 128 /* steps of which the scatter is known */
};

/* The rows of a step. */
struct step_shape {
    int n_decode;    /* rows that continue an answer */
    int n_prompt;    /* rows of prompts */
    double attended; /* sum over the rows of the positions that each one reads */
    int n_draft;     /* rows beside those, of guessed tokens */
};

struct step_cost {
    double weight[STEP_COST_TERMS]; /* microseconds; all zero: nothing has been observed */
    double gram[STEP_COST_TERMS][STEP_COST_TERMS], moment[STEP_COST_TERMS];
    int n_seen;                    /* steps, up to a small number */
    int n_seen_prompt;             /* of those with prompt rows */
    float ratio[STEP_COST_RECENT]; /* of a step's time to its prediction */
    int n_ratio, at_ratio;
    double n_batch, batch_sum, batch_square_sum; /* decoding rows of the recent steps that had any */
};

/* A step of this shape took time_us; steps of no time are left out. */
void step_cost_observe(struct step_cost *c, const struct step_shape *shape, int64_t time_us);
double step_cost_us(const struct step_cost *c, const struct step_shape *shape);

/* What 98 of 100 recent steps took at most, as a multiple of the prediction; 1 to 4, and 1 while too few are known. */
double step_cost_scatter(const struct step_cost *c);

/* A step of n decoding rows that read `depth` positions each, with `prompts` rows of prompts for each of them. */
double step_cost_batch_us(const struct step_cost *c, double n, double depth, double prompts);
/* Whether batches of several sizes have been seen of late, without which the constant and the rows cannot be told apart. */
bool step_cost_knows_batches(const struct step_cost *c);

/* Rows of a prompt that fit beside `shape` in budget_us, of n_todo rows from position `first` on: 0 to n_todo. */
int step_cost_rows(const struct step_cost *c, const struct step_shape *shape, int first, int n_todo, double budget_us);

/* Positions that n rows from position `first` on read in all. */
double step_attended(int first, int n);

/* What one more draft costs, in units of a decoding row's share of a step of this shape without its drafts; 0 while that is not
 * known. */
double step_cost_draft_share(const struct step_cost *c, const struct step_shape *shape);

double step_cost_draft_row_us(const struct step_cost *c);  /* one more draft; 0 while that is not known */
double step_cost_prompt_row_us(const struct step_cost *c); /* one more row of a prompt; 0 while that is not known */

/* All rows of a prompt of n tokens; 0 while that is not known. */
double step_cost_prompt_us(const struct step_cost *c, int n);

/* What a decoding row weighs against a prompt row, by their marginal times; 1 while that is not known. */
double step_cost_decode_weight(const struct step_cost *c);

#endif
