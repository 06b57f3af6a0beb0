/* token_bucket.h: a bucket of model tokens. A request takes what it is expected to cost; what has been computed of it flows
 * back, so that the bucket refills at exactly the speed that the machine has, however that changes; what it took and did not
 * need is settled at its end. Nothing is lost or made: taken = refilled + settled + outstanding, at any time. Threads: owned by
 * one. */
#ifndef ENGINE_TOKEN_BUCKET_H
#define ENGINE_TOKEN_BUCKET_H

#include <stdbool.h>

struct token_bucket {
    double outstanding;              /* taken, and neither computed nor settled */
    double taken, refilled, settled; /* since the beginning */
};

void token_bucket_take(struct token_bucket *b, double n);
void token_bucket_refill(struct token_bucket *b, double n);
void token_bucket_settle(struct token_bucket *b, double n);

/* Whether n more may be taken of a bucket of this size; 0: it has no bottom. A full one gives any amount, so that what is
 * larger than the bucket runs alone. */
bool token_bucket_has(const struct token_bucket *b, double size, double n);

#endif
