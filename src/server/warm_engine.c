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
    if (status != MR_OK) {
        engine_link_free(*out);
        *out = NULL;
    }
    return status;
}
