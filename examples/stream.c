/* stream.c: one answer, shown as it comes.
 *   cc stream.c $(pkg-config --cflags --libs millrace) -o stream
 *   ./stream model.gguf "The capital of France is" */
#include <millrace.h>
#include <stdio.h>
#include <string.h>

static int fail(const char *what, const struct mr_error *err)
{
    fprintf(stderr, "%s: %s\n", what, err->message);
    return 1;
}

/* Submit the text, step the engine, and print what comes. */
static int answer(struct mr_model *model, struct mr_engine *engine, const char *text)
{
    struct mr_error err;
    struct mr_request request;
    struct mr_event event;
    int32_t *prompt;
    uint64_t id;
    mr_request_defaults(&request);
    if (mr_tokenize(model, text, strlen(text), true, &prompt, &request.n_prompt, &err) != MR_OK)
        return fail("tokenize", &err);
    request.prompt = prompt;
    request.max_tokens = 64;
    request.sampling.temperature = 0;
    const enum mr_status status = mr_engine_submit(engine, &request, &id, &err);
    mr_tokens_free(prompt); /* the engine has its own copy */
    if (status != MR_OK)
        return fail("submit", &err);
    while (!mr_engine_is_idle(engine)) {
        mr_engine_step(engine);
        while (mr_engine_next_event(engine, &event)) {
            fwrite(event.text, 1, event.n_text, stdout);
            fflush(stdout);
        }
    }
    return putchar('\n') == EOF;
}

int main(int argc, char **argv)
{
    struct mr_options options;
    struct mr_model *model;
    struct mr_engine *engine = NULL;
    struct mr_error err;
    if (argc != 3)
        return fprintf(stderr, "usage: stream MODEL PROMPT\n"), 2;
    mr_options_defaults(&options);
    options.n_ctx = 2048;
    if (mr_model_open(&model, argv[1], &options, &err) != MR_OK)
        return fail("open", &err);
    const enum mr_status status = mr_engine_create(&engine, model, &options, &err);
    const int result = status == MR_OK ? answer(model, engine, argv[2]) : fail("engine", &err);
    mr_engine_free(engine);
    mr_model_close(model);
    return result;
}
