/* pin_option.c: files to tokens to pinned prompts. */
#include "cli/pin_option.h"

#include "base/string_buffer.h"
#include "cli/read_input.h"

/* As a chat template's output is read: control tokens that stand in the text count. */
static enum mr_status read_tokens(const struct mr_model *model, const char *path, int32_t **ids, int32_t *n,
                                  struct mr_error *err)
{
    struct string_buffer text;
    string_buffer_init(&text);
    *ids = NULL;
    enum mr_status status = read_file(&text, path, err);
    if (status == MR_OK)
        status = mr_tokenize(model, text.s != NULL ? text.s : "", text.n, true, ids, n, err);
    string_buffer_release(&text);
    return status;
}

enum mr_status pin_option_plan(struct mr_options *options, const struct mr_model *model, const struct model_arguments *a,
                               struct mr_error *err)
{
    for (int i = 0; i < a->pin_prompt.n; i++) {
        int32_t *ids, n;
        MR_TRY(read_tokens(model, a->pin_prompt.s[i], &ids, &n, err));
        mr_tokens_free(ids);
        if (n > MR_PIN_TOKENS_MAX - options->pin_tokens)
            return mr_fail(err, MR_BAD_INPUT, "--pin-prompt: more than %d tokens", MR_PIN_TOKENS_MAX);
        options->pin_tokens += n;
    }
    return MR_OK;
}

enum mr_status pin_option_run(struct mr_engine *engine, const struct mr_model *model, const struct model_arguments *a,
                              struct mr_error *err)
{
    enum mr_status status = MR_OK;
    for (int i = 0; status == MR_OK && i < a->pin_prompt.n; i++) {
        int32_t *ids, n;
        MR_TRY(read_tokens(model, a->pin_prompt.s[i], &ids, &n, err));
        status = mr_engine_pin(engine, ids, n, NULL, err);
        mr_tokens_free(ids);
        if (status != MR_OK)
            mr_fail_in(err, status, "--pin-prompt '%s'", a->pin_prompt.s[i]);
    }
    return status;
}
