/* warm_engine.h: an engine that has its pinned prompts and has answered a token. */
#ifndef SERVER_WARM_ENGINE_H
#define SERVER_WARM_ENGINE_H

#include "millrace.h"

struct engine_link;

/* Prompts that are computed first and never evicted. */
struct pinned_prompts {
    int32_t **ids; /* [n_pin][n[i]] */
    int32_t *n;
    int n_pin;
};

/* Start the engine on a thread of its own, pin the prompts, and have it answer one token: pages are touched, threads awake, and
 * whatever does not work shows before anybody asks. *out is NULL on failure. */
enum mr_status warm_engine_create(struct engine_link **out, struct mr_model *model, const struct mr_options *options,
                                  const struct pinned_prompts *pins, struct mr_error *err);

#endif
