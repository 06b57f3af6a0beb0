/* drafter.c: how many drafts are worth it, and the text that a constraint forces. */
#include "engine/drafter.h"

enum {
    FORCED_BYTES_MAX = 128
};

static const double hopeful = 0.8;      /* the rate before anything is known */
static const double weight = 0.25;      /* of the latest draft in the average */
static const double forget = 1.0 / 256; /* a bad record is tried again after some dozens of tokens */

void draft_record_init(struct draft_record *r) { r->rate = hopeful; }

void draft_record_observe(struct draft_record *r, int n, int n_accepted)
{
    for (int i = 0; i < n_accepted; i++)
        r->rate += (1 - r->rate) * weight;
    if (n_accepted < n)
        r->rate -= r->rate * weight;
}

/* A row that is said to cost more is tried nevertheless where nearly all drafts stay: the figure may be old, and only drafts
 * renew it. */
static const double dearest = 0.75;
static const double likely = 0.3; /* the cost before any is known */

/* The i-th draft brings a token with probability rate^i, and pays while that is worth more than its row. */
int draft_record_depth(struct draft_record *r, double row_cost)
{
    const double known = row_cost > 0 ? row_cost : likely, cost = known < dearest ? known : dearest;
    int n = 0;
    for (double stays = r->rate; n < DRAFTS_MAX && stays > cost; stays *= r->rate)
        n++;
    if (n == 0)
        r->rate += (hopeful - r->rate) * forget;
    return n;
}

static int propose_forced(void *context, struct draft_view *view, int32_t *out, int n_max)
{
    char text[FORCED_BYTES_MAX];
    (void)context;
    if (view->constraint == NULL)
        return 0;
    const size_t n_text = constraint_forced(view->constraint, text, sizeof text);
    size_t at = 0, length;
    int n = 0;
    for (; n < n_max && at < n_text; n++, at += length) {
        out[n] = token_trie_longest(view->trie, text + at, n_text - at, &length);
        if (out[n] < 0)
            break;
    }
    return n;
}

const struct drafter forced_text_drafter = {.propose = propose_forced};
