/* fifty.c: fifty requests at once, eight computed at a time.
 *   cc fifty.c $(pkg-config --cflags --libs millrace) -o fifty
 *   ./fifty model.gguf */
#include <millrace.h>
#include <stdio.h>

enum {
    N = 50
};

static int fail(const char *what, const struct mr_error *err)
{
    fprintf(stderr, "%s: %s\n", what, err->message);
    return 1;
}

static int submit(struct mr_model *model, struct mr_engine *engine, int i, struct mr_error *err)
{
    char text[64];
    struct mr_request request;
    int32_t *prompt;
    uint64_t id;
    const int n = snprintf(text, sizeof text, "%d and %d make", i, i + 1);
    mr_request_defaults(&request);
    if (mr_tokenize(model, text, (size_t)n, false, &prompt, &request.n_prompt, err) != MR_OK)
        return fail("tokenize", err);
    request.prompt = prompt;
    request.max_tokens = 16;
    const enum mr_status status = mr_engine_submit(engine, &request, &id, err);
    mr_tokens_free(prompt);
    return status == MR_OK ? 0 : fail("submit", err);
}

int main(int argc, char **argv)
{
    struct mr_options options;
    struct mr_model *model;
    struct mr_engine *engine;
    struct mr_event event;
    struct mr_error err;
    int n_ended = 0;
    mr_options_defaults(&options);
    options.n_ctx = 512;
    options.max_running = 8;
    if (mr_model_open(&model, argc == 2 ? argv[1] : "", &options, &err) != MR_OK)
        return fail("fifty MODEL", &err);
    int result = mr_engine_create(&engine, model, &options, &err) == MR_OK ? 0 : fail("engine", &err);
    for (int i = 0; i < N && result == 0; i++)
        result = submit(model, engine, i, &err);
    while (result == 0 && !mr_engine_is_idle(engine)) {
        mr_engine_step(engine);
        while (mr_engine_next_event(engine, &event))
            n_ended += event.finish == MR_FINISH_STOP || event.finish == MR_FINISH_LENGTH;
    }
    printf("%d of %d answers\n", n_ended, N);
    mr_engine_free(engine);
    mr_model_close(model);
    return result != 0 || n_ended != N;
}
