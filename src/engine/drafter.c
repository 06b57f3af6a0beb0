/* drafter.c: how many drafts are worth it, and the text that a constraint forces. */
#include "engine/drafter.h"

enum {
    FORCED_BYTES_MAX = 128
};

const double draft_rate_hopeful = 0.8;
static const double weight = 0.25;         /* of the latest draft in the average */
static const double weight_all = 1.0 / 32; /* in that over answers */
static const double forget = 1.0 / 512;    /* a bad record is tried again after some dozens of tokens */
static const double likely_cost = 0.3;     /* before any is known */
static const double likely_rate = 0.75;    /* from there on a cost that forbids drafts is measured anew now and then */

static const double purse_max = 8;      /* tokens */
static const double purse_part = 0.005; /* of a token for each that comes: speculation may cost 2 %, of which this is a part */
static const double balance_max = 4;    /* what paid long ago does not pay for today's */

enum {
    TOO_DEAR = 32 /* once in so many times */
};

static void observe(double *rate, int n, int n_accepted, double w)
{
    for (int i = 0; i < n_accepted; i++)
        *rate += (1 - *rate) * w;
    if (n_accepted < n)
        *rate -= *rate * w;
}

void draft_rate_observe(double *rate, int n, int n_accepted) { observe(rate, n, n_accepted, weight_all); }

void draft_record_init(struct draft_record *r, double rate, double balance)
{
    *r = (struct draft_record){.rate = rate, .balance = balance};
}

static double known(double row_cost) { return row_cost > 0 ? row_cost : likely_cost; }

static double at_most(double x, double most) { return x < most ? x : most; }

void draft_record_observe(struct draft_record *r, int n, int n_accepted, double row_cost)
{
    observe(&r->rate, n, n_accepted, weight);
    r->is_tried |= n > 0;
    r->balance = at_most(r->balance + n_accepted - n * known(row_cost), balance_max);
}

bool draft_record_is_proven(const struct draft_record *r) { return r->balance > 0; }

void draft_purse_init(struct draft_purse *p) { p->tokens = purse_max; }

void draft_purse_earn(struct draft_purse *p, int n) { p->tokens = at_most(p->tokens + n * purse_part, purse_max); }

void draft_purse_pay(struct draft_purse *p, int n, double row_cost) { p->tokens -= n * known(row_cost); }

void draft_purse_take(struct draft_purse *p, int n_accepted) { p->tokens = at_most(p->tokens + n_accepted, purse_max); }

double draft_gain(double rate, int n, double row_cost)
{
    double gain = 0, stays = rate;
    for (int i = 0; i < n; i++, stays *= rate)
        gain += stays - known(row_cost);
    return gain;
}

static int at_least_one(int n) { return n > 1 ? n : 1; }

/* The i-th draft brings a token with probability rate^i, and pays while that is worth more than its row. Where none pays,
 * rarely one is scored nevertheless: the rate may be another answer's, the cost that of another time, and only drafts renew
 * them. */
int draft_record_depth(struct draft_record *r, double row_cost, double may_lose)
{
    int n = 0;
    const bool is_proven = draft_record_is_proven(r);
    if (may_lose <= 0 && !is_proven)
        return 0;
    for (double stays = r->rate; n < DRAFTS_MAX && stays > known(row_cost); stays *= r->rate)
        n++;
    if (n > 0)
        return is_proven || n * known(row_cost) <= may_lose ? n : at_least_one((int)(may_lose / known(row_cost)));
    r->rate += (draft_rate_hopeful - r->rate) * (r->rate < draft_rate_hopeful ? forget : 0);
    r->n_too_dear += r->rate > likely_rate;
    if (r->is_tried && r->n_too_dear < TOO_DEAR)
        return 0;
    r->n_too_dear = 0;
    return 1;
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
