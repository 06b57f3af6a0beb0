/* warm_engine.c: an engine is made ready to answer. */
#include "server/warm_engine.h"

#include "base/status.h"
#include "server/engine_link.h"
#include "server/engine_thread.h"

static enum mr_status pin_all(struct mr_engine *engine, void *context, struct mr_error *err)
{
    const struct pinned_prompts *p = context;
    for (int i = 0; i < p->n_pin; i++)
        MR_TRY(mr_engine_pin(engine, p->ids[i], p->n[i], NULL, err));
    return MR_OK;
}

enum {
    LEARN_PROMPT = 64, /* tokens: more than one piece of a step's time on a slow machine */
    LEARN_ANSWER = 8,  /* tokens of each, and answers of the second request */
    LEARN_ANSWERS = 4
};

/* Where a target is to be kept the engine has to know how long steps take before a crowd comes: two requests, after which it
 * knows what rows of prompts, of one answer and of several cost. Nobody waits for them, nor takes their events; they give way
 * to whoever comes. */
static enum mr_status learn(struct mr_engine *engine, void *context, struct mr_error *err)
{
    (void)context;
    static const int32_t prompt[LEARN_PROMPT];
    const int32_t room = mr_engine_n_ctx(engine) - LEARN_ANSWER;
    for (int32_t n = 1; n <= LEARN_ANSWERS; n += LEARN_ANSWERS - 1) {
        struct mr_request request;
        uint64_t id;
        mr_request_defaults(&request);
        request.prompt = prompt;
        request.n_prompt = room < LEARN_PROMPT ? room : LEARN_PROMPT;
        request.max_tokens = LEARN_ANSWER;
        request.n = n;
        request.ignore_eos = true;
        request.background = true;
        if (room < 1)
            return MR_OK;
        MR_TRY(mr_engine_submit(engine, &request, &id, err));
    }
    return MR_OK;
}

static enum mr_status warm(struct mr_engine *engine, void *context, struct mr_error *err)
{
    (void)context;
    static const int32_t prompt[] = {0};
    struct mr_request request;
    struct mr_event event;
    enum mr_status status = MR_OK;
    uint64_t id;
    mr_request_defaults(&request);
    request.prompt = prompt;
    request.n_prompt = 1;
    request.max_tokens = 1;
    request.ignore_eos = true;
    request.background = true; /* it is nobody's who may ask again */
    MR_TRY(mr_engine_submit(engine, &request, &id, err));
    while (!mr_engine_is_idle(engine))
        mr_engine_step(engine);
    while (mr_engine_next_event(engine, &event))
        if (event.finish == MR_FINISH_ERROR)
            status = mr_fail(err, event.status, "the model does not answer: %s", event.error);
    return status;
}

enum mr_status warm_engine_create(struct engine_link **out, struct mr_model *model, const struct mr_options *options,
                                  const struct pinned_prompts *pins, struct mr_error *err)
{
    struct pinned_prompts all = *pins;
    MR_TRY(engine_thread_create(out, model, options, err));
    enum mr_status status = engine_link_call(*out, pin_all, &all, err);
    if (status == MR_OK)
        status = engine_link_call(*out, warm, NULL, err);
    if (status == MR_OK && options->admission && options->latency_target_ms > 0)
        status = engine_link_call(*out, learn, NULL, err);
    if (status != MR_OK) {
        engine_link_free(*out);
        *out = NULL;
    }
    return status;
}
