/* evaluation.c: one model through the text and the tasks. */
#include "measure/evaluation.h"

#include <stdio.h>

#include "engine/loaded_model.h"

struct listener {
    const struct evaluation_plan *plan;
    const char *what;
};

static bool go_on(void *context, int64_t done, int64_t total)
{
    const struct listener *l = context;
    return l->plan->go_on == NULL || l->plan->go_on(l->plan->context, l->what, done, total);
}

static void hear(void *context, const struct task_sample *sample)
{
    const struct listener *l = context;
    if (l->plan->hear != NULL)
        l->plan->hear(l->plan->context, l->what, sample);
}

static int window_of(const struct mr_model *model, const struct evaluation_plan *plan)
{
    const int trained = model_info(model->model)->n_ctx_train;
    if (plan->window > 0)
        return plan->window;
    return trained < EVALUATION_WINDOW ? trained : EVALUATION_WINDOW;
}

static enum mr_status measure_text(struct evaluation *out, struct mr_model *model, const struct evaluation_plan *plan,
                                   struct mr_error *err)
{
    struct token_list tokens = {0};
    struct listener listener = {plan, "text"};
    const int window = window_of(model, plan);
    const struct perplexity_options options = {.window = window,
                                               .stride = plan->stride > 0 ? plan->stride
                                                         : window > 3     ? window / 2
                                                                          : 1,
                                               .go_on = go_on,
                                               .context = &listener,
                                               .adapter = plan->adapter,
                                               .n_adapter = plan->n_adapter,
                                               .base = plan->base};
    const struct text_run run = {.s = plan->text, .n = plan->n_text};
    enum mr_status status = tokenizer_encode(model->tokenizer, &run, 1, 0, &tokens, err);
    if (status == MR_OK)
        status = perplexity_measure(&out->text, model, tokens.id, (int64_t)tokens.n, &options, err);
    token_list_release(&tokens);
    out->has_text = true;
    out->has_base = plan->base != NULL;
    return status;
}

enum mr_status evaluate(struct evaluation *out, struct mr_model *model, const struct evaluation_plan *plan,
                        struct mr_error *err)
{
    struct mr_model_info info;
    mr_model_info(model, &info);
    out->weight_bytes = info.weight_bytes;
    out->file_bytes = gguf_file_bytes(model->file);
    out->precision = info.precision;
    if (plan->text != NULL)
        MR_TRY(measure_text(out, model, plan, err));
    for (int i = 0; i < plan->n_task; i++) {
        struct listener listener = {plan, plan->task_name[i]};
        const struct task_options options = {
            .n_ctx = window_of(model, plan), .hear = hear, .go_on = go_on, .context = &listener};
        snprintf(out->task_name[i], sizeof out->task_name[i], "%.63s", plan->task_name[i]);
        const enum mr_status status = task_run(&out->task[i], &plan->task[i], model, &options, err);
        if (status != MR_OK)
            return mr_fail_in(err, status, "%s", plan->task_name[i]);
        out->n_task++;
    }
    return MR_OK;
}
