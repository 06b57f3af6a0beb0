/* reference.h: an answer beside a text that it is expected to have much of (inference with reference, Yang et al. 2023,
 * arXiv:2304.04487): where in the text the answer is, also after it went its own way for a while. Threads: owned by one. */
#ifndef ENGINE_REFERENCE_H
#define ENGINE_REFERENCE_H

#include <stdbool.h>
#include <stdint.h>

struct reference {
    const int32_t *text; /* [n_text] borrowed */
    int n_text;
    int next;  /* the token of the text that is expected next */
    int n_run; /* tokens before it that the answer had, too; 0: the place is a guess */
    int n_seen;
};

void reference_init(struct reference *r, const int32_t *text, int n_text);
/* The answer has n tokens, those of the last call among them. */
void reference_follow(struct reference *r, const int32_t *answer, int n);
/* Up to n_max tokens that follow in the text; *grade as in drafter.h. Returns their number. */
int reference_continue(const struct reference *r, int32_t *out, int n_max, int *grade);

#endif
