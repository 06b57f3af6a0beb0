/* prune_latency.c: candidates on the disk. Which heads and channels they keep does not change their time: the first ones. */
#include "compress/prune_latency.h"

#include <stdio.h>
#include <unistd.h>

#include "base/string_buffer.h"
#include "compress/room.h"

enum {
    STEPS = 64, /* shares of the shape that are told apart */
    TIMED_MAX = 8
};

struct search {
    const struct train_model *m;
    struct prune_source *source;
    const struct gguf *file;
    const struct prune_latency *o;
    struct structures mask, none; /* none: all scores alike */
    struct string_buffer whole, candidate;
    int n_timed;
};

static enum mr_status time_shape(double *ratio, struct search *s, struct prune_shape shape, struct mr_error *err)
{
    struct train_model plan;
    if (s->o->go_on != NULL && !s->o->go_on(s->o->context, s->n_timed, TIMED_MAX))
        return mr_fail(err, MR_CANCELLED, "stopped after %d shapes", s->n_timed);
    s->n_timed++;
    prune_choose(&s->mask, &s->none, shape);
    MR_TRY(prune_plan(&plan, s->m, &s->mask, err));
    prune_source_keep(s->source, &s->mask);
    const enum mr_status status =
        train_model_write_from(&plan, &s->source->source, s->file, false, s->o->type, s->candidate.s, err);
    prune_source_keep(s->source, NULL);
    MR_TRY(status);
    return answer_time_ratio(ratio, s->whole.s, s->candidate.s, &s->o->timing, err);
}

static enum mr_status prepare(struct search *s, struct mr_error *err)
{
    string_buffer_printf(&s->whole, "%s.whole", s->o->beside);
    string_buffer_printf(&s->candidate, "%s.candidate", s->o->beside);
    if (s->whole.failed || s->candidate.failed)
        return mr_fail(err, MR_NO_MEMORY, "no memory for the names of files");
    MR_TRY(structures_create(&s->mask, &s->m->h, err));
    MR_TRY(structures_create(&s->none, &s->m->h, err));
    MR_TRY(room_check(s->o->beside, (uint64_t)s->m->n_weight * quant_find(s->o->type)->bytes * 2, err));
    return train_model_write_from(s->m, &s->source->source, s->file, false, s->o->type, s->whole.s, err);
}

/* Shares low / STEPS keep the target, high / STEPS do not, or have not been tried: less weights take less time. */
static enum mr_status search(struct prune_shape *out, double *measured, struct search *s, struct mr_error *err)
{
    int low = 1, high = STEPS;
    MR_TRY(prepare(s, err));
    while (low < high && !prune_shape_at(out, s->m, s->o->parts, (double)low / STEPS))
        low++;
    MR_TRY(time_shape(measured, s, *out, err));
    if (*measured > s->o->target)
        return mr_fail(err, MR_BAD_INPUT, "a token takes %.2f times as long without all that may go, not %.2f", *measured,
                       s->o->target);
    while (high - low > 1) {
        struct prune_shape shape;
        double ratio;
        const int middle = low + (high - low) / 2;
        prune_shape_at(&shape, s->m, s->o->parts, (double)middle / STEPS);
        MR_TRY(time_shape(&ratio, s, shape, err));
        if (ratio <= s->o->target) {
            *out = shape;
            *measured = ratio;
            low = middle;
        } else
            high = middle;
    }
    return MR_OK;
}

enum mr_status prune_shape_within(struct prune_shape *out, double *measured, const struct train_model *m,
                                  struct prune_source *source, const struct gguf *file, const struct prune_latency *o,
                                  struct mr_error *err)
{
    struct search s = {.m = m, .source = source, .file = file, .o = o};
    string_buffer_init(&s.whole);
    string_buffer_init(&s.candidate);
    const enum mr_status status = search(out, measured, &s, err);
    if (!s.whole.failed && s.whole.n > 0)
        unlink(s.whole.s);
    if (!s.candidate.failed && s.candidate.n > 0)
        unlink(s.candidate.s);
    string_buffer_release(&s.whole);
    string_buffer_release(&s.candidate);
    structures_release(&s.mask);
    structures_release(&s.none);
    return status;
}
