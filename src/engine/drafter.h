/* drafter.h: guesses how an answer goes on.
 * Drafts are scored in the forward pass that computes the answer's own row. One stays where the sampler chooses that very token
 * at its place, with the logits of the draft before it, so a wrong guess costs time and never changes an answer: token,
 * logprob and event are those of one row a step. How many tokens are asked for follows from how often they stayed so far and
 * from what a row costs (Leviathan et al. 2023, arXiv:2211.17192, section 3.3, with the costs measured).
 * Threads: called by the engine's. */
#ifndef ENGINE_DRAFTER_H
#define ENGINE_DRAFTER_H

#include "sample/constraint.h"
#include "text/tokenizer.h"

enum {
    DRAFTS_MAX = MR_DRAFT_TOKENS_MAX, /* of one answer in one step */
    DRAFT_GRADES = 3                  /* of a source's own confidence; how often drafts stay is counted for each */
};

/* The answer that a guess is for. All is borrowed for the call. */
struct draft_view {
    uint64_t request;
    int sample, slot;                    /* slot: of the engine's max_running */
    void *state;                         /* the drafter's own, of this answer */
    const int32_t *token;                /* [n_token]: the prompt, then the answer so far */
    int n_token, n_prompt, n_room;       /* n_room: tokens that there may be in the end */
    struct constraint_state *constraint; /* NULL: the answer is free */
    const struct token_trie *trie;       /* with a constraint */
    const int32_t *prediction;           /* [n_prediction]: what the caller expects of the answer */
    int n_prediction;
    int grade; /* set by propose: how sure it is, 0 (not) to DRAFT_GRADES - 1; 0 where it says nothing */
};

struct sequence;

/* An answer that generates, in the cache but for its last token. */
struct draft_ask {
    struct sequence *s;
    int n_max; /* tokens wanted, 1 to DRAFTS_MAX; there is room behind the sequence's tokens */
    int n;     /* out: that stand there now */
};

struct drafter {
    /* Up to n_max tokens, 1 to DRAFTS_MAX, that may come next; returns their number. */
    int (*propose)(void *context, struct draft_view *view, int32_t *out, int n_max);
    /* In place of propose: for n_ask answers of a step at once, those that no other drafter has a guess for. */
    void (*propose_all)(void *context, struct draft_ask *ask, int n_ask);
    /* Memory of its own for an answer that begins, and its end. start NULL: needs none. NULL is what there is no memory for:
     * propose finds it in the view and gives 0. */
    void *(*start)(void *context, const struct draft_view *view);
    void (*end)(void *context, void *state);
    /* Microseconds that one more draft takes to guess, beside its row; NULL: nothing. Whoever says so is asked for no more
     * than is worth it, and the grade stays 0. */
    double (*token_us)(void *context);
    void *context;
    bool always; /* asked for as many as there is room for, however few stay */
};

/* How often the drafts of one source and grade stay in one answer. */
struct draft_record {
    double rate;    /* moving average */
    bool is_tried;  /* in this answer */
    int n_too_dear; /* times that likely drafts were not worth their rows */
    double balance; /* tokens that they brought beyond their rows' cost, as far as it is remembered */
};

/* Tokens that an engine may lose by drafts which nothing speaks for yet: a part of those that come, and what such drafts
 * bring. Records are averages of a few drafts and begin with those of other answers; however they mislead, no more is lost. */
struct draft_purse {
    double tokens;
};

void draft_purse_init(struct draft_purse *p);
/* n tokens come without drafts. */
void draft_purse_earn(struct draft_purse *p, int n);
/* n drafts, each of which costs row_cost, were asked for, or fewer: n below 0. */
void draft_purse_pay(struct draft_purse *p, int n, double row_cost);
void draft_purse_take(struct draft_purse *p, int n_accepted);

extern const double draft_rate_hopeful; /* before anything is known */

/* rate: what other answers were like. balance: what they may lose without a purse. */
void draft_record_init(struct draft_record *r, double rate, double balance);
/* n drafts were scored, each at row_cost, n_accepted of them were accepted. */
void draft_record_observe(struct draft_record *r, int n, int n_accepted, double row_cost);
/* They have paid for themselves, so that they lose at most what they brought. */
bool draft_record_is_proven(const struct draft_record *r);
/* The same for the average over answers, of which each one counts little. */
void draft_rate_observe(double *rate, int n, int n_accepted);
/* Drafts that are worth their rows, 0 to DRAFTS_MAX. row_cost: of one, in units of a token that comes without drafts; 0 while
 * that is not known. may_lose: tokens in the purse; those that are not proven get no more than it covers, and one while it has
 * something. An answer tries each source once; each call that gives 0 because of the record lets the rate forget a little, so
 * that drafts are tried again. */
int draft_record_depth(struct draft_record *r, double row_cost, double may_lose);
/* Tokens that n drafts bring beyond what their rows cost. */
double draft_gain(double rate, int n, double row_cost);

/* NO_SUPPORT: this build has no source for the method (enum mr_speculation). */
enum mr_status drafts_check(int method, struct mr_error *err);

/* Text to which a constraint leaves no alternative, cut into the longest tokens. */
extern const struct drafter forced_text_drafter;

/* What the indices of the answers' texts take, and may: who begins gets half of what is left, and where that is too little
 * nothing is looked up for it. */
struct lookup_memory {
    size_t bytes, limit;
};
/* What followed the same tokens before, in the prompt or the answer. memory is borrowed until all answers have ended. */
struct drafter ngram_drafter(struct lookup_memory *memory);
/* The view's prediction. */
extern const struct drafter prediction_drafter;

#endif
