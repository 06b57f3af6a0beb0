/* token_bucket.c: sums. */
#include "engine/token_bucket.h"

static const double nothing = 1e-6; /* what rounding may leave */

static void leave(struct token_bucket *b, double n)
{
    b->outstanding -= n;
    if (b->outstanding < nothing)
        b->outstanding = 0;
}

void token_bucket_take(struct token_bucket *b, double n)
{
    b->outstanding += n;
    b->taken += n;
}

void token_bucket_refill(struct token_bucket *b, double n)
{
    leave(b, n);
    b->refilled += n;
}

void token_bucket_settle(struct token_bucket *b, double n)
{
    leave(b, n);
    b->settled += n;
}

bool token_bucket_has(const struct token_bucket *b, double size, double n)
{
    return size <= 0 || b->outstanding == 0 || b->outstanding + n <= size;
}
