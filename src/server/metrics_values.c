/* metrics_values.c: one model's values, from its counts, its engine and its recent past. */
#include <math.h>

#include "server/metrics_state.h"

static struct metrics_totals totals_now(const struct model_metrics *mm)
{
    const struct mr_engine_stats *s = &mm->stats;
    const double drafts_lost = (double)(s->n_draft_rows - s->n_drafts_accepted);
    return (struct metrics_totals){
        .step_us = (double)s->step_us,
        .rows = (double)(s->n_decode_rows + s->n_prompt_rows + s->n_draft_rows),
        .lost_rows = (double)s->n_redone_rows + (drafts_lost > 0 ? drafts_lost : 0) + mm->lost_tokens,
        .steps = (double)s->n_steps,
        .generated = (double)mm->n_generated_tokens - mm->cancelled_tokens,
        .slo_ended = (double)mm->n_slo[1],
        .slo_met = (double)mm->n_slo_met[1],
        .cpu_us = (double)mm->owner->process.cpu_us,
    };
}

void model_take_sample(struct model_metrics *mm, int64_t now_us)
{
    mm->sample[mm->n_sample++ % (METRICS_RECENT_S + 1)] = (struct metrics_sample){now_us, totals_now(mm)};
}

/* What the engine's time was worth: the share of rows that were kept. */
static double kept_share(double rows, double lost_rows) { return rows > lost_rows ? (rows - lost_rows) / rows : 0; }

/* Operations a second that the model's products could do: int8 for what is quantised, else f32. */
static double peak_gops(const struct model_metrics *mm)
{
    const struct mr_model_info *info = &mm->source.info;
    const bool is_narrow = (double)info->weight_bytes < 1.5 * (double)info->n_parameters;
    return limits_gops(&mm->owner->limits, is_narrow ? PEAK_INT8 : PEAK_F32);
}

static void recent_values(const struct model_metrics *mm, const struct metrics_totals *now, double value[N_VALUES])
{
    const struct mr_model_info *info = &mm->source.info;
    const struct limits *l = &mm->owner->limits;
    const int64_t n_kept = mm->n_sample < METRICS_RECENT_S + 1 ? mm->n_sample : METRICS_RECENT_S + 1;
    for (int i = VALUE_ATTAINMENT; i <= VALUE_MBU; i++)
        value[i] = NAN;
    if (n_kept == 0)
        return;
    const struct metrics_sample *old = &mm->sample[(mm->n_sample - n_kept) % (METRICS_RECENT_S + 1)];
    const double seconds = (double)(metrics_now(mm->owner) - old->at_us) * 1e-6;
    const double step_s = (now->step_us - old->totals.step_us) * 1e-6, steps = now->steps - old->totals.steps;
    const double rows = now->rows - old->totals.rows, lost = now->lost_rows - old->totals.lost_rows;
    const double generated = fmax(0, now->generated - old->totals.generated), kept_s = step_s * kept_share(rows, lost);
    if (seconds <= 0)
        return;
    if (now->slo_ended > old->totals.slo_ended)
        value[VALUE_ATTAINMENT] = (now->slo_met - old->totals.slo_met) / (now->slo_ended - old->totals.slo_ended);
    value[VALUE_GOODPUT] = (now->slo_met - old->totals.slo_met) / seconds;
    value[VALUE_THROUGHPUT] = generated / seconds;
    if (kept_s > 0)
        value[VALUE_EFFECTIVE_THROUGHPUT] = generated / kept_s;
    if (steps > 0)
        value[VALUE_BATCH] = rows / steps;
    value[VALUE_BUSY] = step_s / seconds;
    if (l->n_threads > 0 && info->n_parameters > 0) {
        value[VALUE_MFU] = 2e-9 * (double)info->n_parameters * rows / seconds / peak_gops(mm);
        value[VALUE_MBU] = 1e-9 * (double)info->weight_bytes * steps / seconds / l->read_gb_s;
    }
}

static void engine_values(const struct model_metrics *mm, double value[N_VALUES])
{
    const struct mr_engine_stats *s = &mm->stats;
    const struct mr_model_info *info = &mm->source.info;
    value[VALUE_RUNNING] = s->n_running;
    value[VALUE_WAITING] = s->n_waiting;
    value[VALUE_ASIDE] = s->n_aside;
    value[VALUE_KV_SHARE] = s->kv_bytes > 0 ? (double)s->kv_bytes_in_use / (double)s->kv_bytes : 0;
    value[VALUE_PREFIX_QUERIES] = (double)s->n_looked_up;
    value[VALUE_PREFIX_HITS] = (double)s->n_found;
    value[VALUE_PREEMPTED] = (double)s->n_preempted;
    value[VALUE_STEPS] = (double)s->n_steps;
    value[VALUE_STEP_SECONDS] = (double)s->step_us * 1e-6;
    value[VALUE_IDLE_SECONDS] = (double)s->idle_us * 1e-6;
    value[VALUE_DECODE_ROWS] = (double)s->n_decode_rows;
    value[VALUE_PROMPT_ROWS] = (double)s->n_prompt_rows;
    value[VALUE_GUESS_SECONDS] = (double)s->guess_us / 1e6;
    value[VALUE_DRAFT_ROWS] = (double)s->n_draft_rows;
    value[VALUE_DRAFTS_ACCEPTED] = (double)s->n_drafts_accepted;
    for (int i = 0; i < MR_N_SPECULATIONS; i++) {
        value[VALUE_DRAFTED + i] = (double)s->drafts[i].n_drafted;
        value[VALUE_ACCEPTED + i] = (double)s->drafts[i].n_accepted;
    }
    value[VALUE_BATCH_CAP] = s->batch_cap;
    value[VALUE_LOAD] = s->load;
    value[VALUE_CAPACITY] = s->capacity;
    value[VALUE_BUCKET_SIZE] = s->bucket_size;
    value[VALUE_BUCKET_LEVEL] = s->bucket_level;
    value[VALUE_LATENCY_P99] = s->latency_p99_ms * 1e-3;
    value[VALUE_FROM_STORE] = (double)s->n_from_store;
    value[VALUE_MEMORY_WEIGHTS] = (double)info->weight_bytes;
    value[VALUE_MEMORY_KV] = (double)s->kv_bytes;
    value[VALUE_MEMORY_KV_IN_USE] = (double)s->kv_bytes_in_use;
    value[VALUE_MEMORY_KV_CACHED] = (double)s->kv_bytes_cached;
    value[VALUE_MEMORY_RESPONSES] = (double)s->store_bytes;
    value[VALUE_MEMORY_LOOKUP] = (double)s->lookup_bytes;
    value[VALUE_MEMORY_REFERENCES] = (double)s->reference_bytes;
    value[VALUE_MEMORY_HOST_TIER] = (double)s->tier_host_bytes;
    value[VALUE_FILE_TIER] = (double)s->tier_file_bytes;
    value[VALUE_TIER_EXPORTED] = (double)s->n_exported;
    value[VALUE_TIER_RESTORED] = (double)s->n_restored;
}

static void process_values(const struct model_metrics *mm, double value[N_VALUES])
{
    const struct engine_pool_counts *c = &mm->processes.counts;
    value[VALUE_PROCESSES_ACTIVE] = c->n_active;
    value[VALUE_PROCESSES_STANDBY] = c->n_standby;
    value[VALUE_PROCESSES_DIED] = (double)c->n_died;
    value[VALUE_TAKE_OVER_SECONDS] = (double)c->take_over_us * 1e-6;
    value[VALUE_HANDED_ON] = (double)c->n_handed_on;
    value[VALUE_LOST_REQUESTS] = (double)c->n_lost;
}

void model_values(const struct model_metrics *mm, double value[N_VALUES])
{
    const struct metrics_totals now = totals_now(mm);
    engine_values(mm, value);
    recent_values(mm, &now, value);
    process_values(mm, value);
    value[VALUE_IN_FLIGHT] = (double)mm->n_in_flight;
    value[VALUE_PROMPT_TOKENS] = (double)mm->n_prompt_tokens;
    value[VALUE_CACHED_TOKENS] = (double)mm->n_cached_tokens;
    value[VALUE_GENERATED_TOKENS] = (double)mm->n_generated_tokens;
    value[VALUE_LOAD_SECONDS] = mm->source.load_s;
    value[VALUE_SLO_BOUND] = (double)mm->n_slo[1];
    value[VALUE_SLO_BOUND_MET] = (double)mm->n_slo_met[1];
    value[VALUE_SLO_UNBOUND] = (double)mm->n_slo[0];
    value[VALUE_SLO_UNBOUND_MET] = (double)mm->n_slo_met[0];
    value[VALUE_LOST_ROWS] = now.lost_rows;
    for (int i = 0; i < N_OUTCOMES; i++)
        value[VALUE_OUTCOME + i] = (double)mm->n_outcome[i];
    for (int i = 0; i < N_CAUSES; i++)
        value[VALUE_CAUSE + i] = (double)mm->n_cause[i];
    value[VALUE_PROMPT_SECONDS] = mm->histogram[HISTOGRAM_STAGE + STAGE_PREFILL].sum;
    value[VALUE_DECODE_SECONDS] = mm->histogram[HISTOGRAM_STAGE + STAGE_DECODE].sum;
}
