/* calibrate_text.c: tokens, then statistics. */
#include "cli/calibrate_text.h"

#include "cli/progress_bar.h"
#include "engine/loaded_model.h"

static bool go_on(void *context, int64_t done, int64_t total) { return progress_bar_show(context, "calibrating", done, total); }

enum mr_status calibrate_text(struct calibration **out, struct perplexity *of_text, struct mr_model *model,
                              const struct string_buffer *text, int window, int n_tokens, struct mr_error *err)
{
    struct token_list tokens = {0};
    struct progress_bar bar;
    const int trained = model_info(model->model)->n_ctx_train, n_row = window < trained ? window : trained;
    const struct perplexity_options options = {.window = n_row, .stride = n_row - 2, .go_on = go_on, .context = &bar};
    const struct text_run part = {.s = text->s != NULL ? text->s : "", .n = text->n, .match_control = true};
    *out = NULL;
    enum mr_status status = tokenizer_encode(model->tokenizer, &part, 1, 0, &tokens, err);
    const int64_t n = n_tokens > 0 && tokens.n > (size_t)n_tokens ? n_tokens : (int64_t)tokens.n;
    progress_bar_begin(&bar);
    if (status == MR_OK)
        status = calibrate(out, of_text, model, tokens.id, n, &options, err);
    progress_bar_end(&bar);
    token_list_release(&tokens);
    return status;
}
