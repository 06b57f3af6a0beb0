/* answer.c: detokenizer and stop strings, one behind the other. */
#include "engine/answer.h"

#include <string.h>

enum mr_status answer_start(struct answer *a, const struct tokenizer *t, const struct request_record *r, struct mr_error *err)
{
    *a = (struct answer){0};
    string_buffer_init(&a->decoded);
    string_buffer_init(&a->text);
    detokenizer_init(&a->detokenizer, t, r->show_special);
    a->detokenizer.at_start = false; /* an answer goes on from its prompt: a blank in front belongs to it */
    if (r->n_stop == 0)
        return MR_OK;
    const char *stop[MR_STOP_MAX];
    request_record_stop(r, stop);
    return stop_matcher_create(&a->stop, stop, r->n_stop, err);
}

void answer_release(struct answer *a)
{
    stop_matcher_free(a->stop);
    string_buffer_release(&a->decoded);
    string_buffer_release(&a->text);
    *a = (struct answer){0};
}

/* What was decoded goes through the stop strings into the text. true: one is complete. */
static bool pass_on(struct answer *a)
{
    if (a->stop != NULL)
        return stop_matcher_push(a->stop, a->decoded.s, a->decoded.n, &a->text);
    string_buffer_add(&a->text, a->decoded.s, a->decoded.n);
    return false;
}

/* What belongs to the prompt is not told. */
static void skip(struct answer *a)
{
    const size_t n = a->n_skip < a->decoded.n ? a->n_skip : a->decoded.n;
    if (n == 0)
        return;
    memmove(a->decoded.s, a->decoded.s + n, a->decoded.n - n);
    a->decoded.n -= n;
    a->n_skip -= n;
}

static enum mr_status check_memory(const struct answer *a, struct mr_error *err)
{
    return a->decoded.failed || a->text.failed ? mr_fail(err, MR_NO_MEMORY, "no memory for the text of the answer") : MR_OK;
}

enum mr_status answer_push(struct answer *a, int32_t id, bool *stopped, struct mr_error *err)
{
    string_buffer_clear(&a->decoded);
    string_buffer_clear(&a->text);
    detokenizer_push(&a->detokenizer, id, &a->decoded);
    skip(a);
    *stopped = pass_on(a);
    return check_memory(a, err);
}

enum mr_status answer_end(struct answer *a, struct mr_error *err)
{
    string_buffer_clear(&a->decoded);
    detokenizer_finish(&a->detokenizer, &a->decoded);
    if (!pass_on(a) && a->stop != NULL)
        stop_matcher_finish(a->stop, &a->text);
    return check_memory(a, err);
}
