/* targets.c: what of the options may change while the engine runs: all of these are looked at anew in each step. */
#include "engine/engine_state.h"
#include "engine/options.h"

void mr_targets_of(struct mr_targets *out, const struct mr_options *options)
{
    *out = (struct mr_targets){.latency_target_ms = options->latency_target_ms,
                               .latency_metric = options->latency_metric,
                               .itl_target_ms = options->itl_target_ms,
                               .priority_age_ms = options->priority_age_ms,
                               .bucket_capacity = options->bucket_capacity,
                               .low_load = options->low_load,
                               .high_load = options->high_load};
}

enum mr_status mr_engine_set_targets(struct mr_engine *e, const struct mr_targets *targets, struct mr_error *err)
{
    struct mr_options o = e->options;
    o.latency_target_ms = targets->latency_target_ms;
    o.latency_metric = targets->latency_metric;
    o.itl_target_ms = targets->itl_target_ms;
    o.priority_age_ms = targets->priority_age_ms;
    o.bucket_capacity = targets->bucket_capacity;
    o.low_load = targets->low_load;
    o.high_load = targets->high_load;
    MR_TRY(options_check(&o, err));
    e->options = o;
    return MR_OK;
}
