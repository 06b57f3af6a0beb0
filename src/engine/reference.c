/* reference.c: one token after the other, and a search where they differ. */
#include "engine/reference.h"

enum {
    NEAR_BEHIND = 16, /* tokens around the place that is expected, where one equal token is enough to go on */
    NEAR_AHEAD = 128,
    SKIPPED_MAX = 3,
    FAR_MIN = 3, /* equal tokens that are enough anywhere */
    RUN_MAX = 8, /* equal tokens that are counted */
    SURE = 3,
    SURER = 8
};

void reference_init(struct reference *r, const int32_t *text, int n_text)
{
    *r = (struct reference){.text = text, .n_text = n_text};
}

/* Tokens in front of text[end] that are the last ones of the answer. */
static int n_equal(const struct reference *r, int end, const int32_t *answer, int n)
{
    int k = 0;
    while (k < RUN_MAX && k < end && k < n && r->text[end - 1 - k] == answer[n - 1 - k])
        k++;
    return k;
}

static int distance(const struct reference *r, int end) { return end > r->next ? end - r->next : r->next - end; }

/* The place where most of the last tokens stand, the nearest of several, among the ends from..to; at least n_min of them. */
static int find(const struct reference *r, int from, int to, int n_min, const int32_t *answer, int n, int *n_run)
{
    int best = -1;
    *n_run = n_min - 1;
    for (int end = from > 1 ? from : 1; end <= to && end <= r->n_text; end++) {
        const int k = r->text[end - 1] == answer[n - 1] ? n_equal(r, end, answer, n) : 0;
        if (k > *n_run || (best >= 0 && k == *n_run && distance(r, end) < distance(r, best))) {
            best = end;
            *n_run = k;
        }
    }
    return best;
}

static void follow_one(struct reference *r, const int32_t *answer, int n)
{
    if (r->next < r->n_text && r->text[r->next] == answer[n - 1]) {
        r->next++;
        r->n_run++;
        return;
    }
    /* At the first difference one equal token counts only where few lie between: most often another token stands in one's
     * place, and many a token stands nearby by chance. */
    const bool is_first = r->n_run > 0;
    int n_run, end = find(r, r->next - (is_first ? SKIPPED_MAX : NEAR_BEHIND), r->next + (is_first ? SKIPPED_MAX : NEAR_AHEAD),
                          1, answer, n, &n_run);
    if (end < 0 || n_run < FAR_MIN) {
        int n_far;
        const int far = find(r, 1, r->n_text, FAR_MIN, answer, n, &n_far);
        if (far >= 0) {
            end = far;
            n_run = n_far;
        }
    }
    if (end >= 0)
        r->next = end;
    else if (r->n_run > 0 && r->next < r->n_text)
        r->next++; /* another word in its place: the text may go on behind it */
    r->n_run = end >= 0 ? n_run : 0;
}

void reference_follow(struct reference *r, const int32_t *answer, int n)
{
    for (; r->n_seen < n; r->n_seen++)
        follow_one(r, answer, r->n_seen + 1);
}

int reference_continue(const struct reference *r, int32_t *out, int n_max, int *grade)
{
    int n = 0;
    for (; n < n_max && r->next + n < r->n_text; n++)
        out[n] = r->text[r->next + n];
    *grade = r->n_seen == 0 || r->n_run >= SURER ? 2 : r->n_run >= SURE ? 1 : 0;
    return n;
}
