/* simulated_engine.h: an engine whose clock and steps are simulated: no row is computed, a step takes what the machine says.
 * A test that includes it is linked with --wrap of model_forward and model_logits (tests/CMakeLists.txt). */
#ifndef TESTS_UNIT_SIMULATED_ENGINE_H
#define TESTS_UNIT_SIMULATED_ENGINE_H

#include <math.h>

#include "base/random.h"
#include "engine/engine_state.h"
#include "unit/engine/engine_fixture.h"

/* Microseconds: of a step, of a row of an answer and of a prompt, of a position that a row reads. */
struct machine {
    double step, decode, prompt, position;
    double draft;  /* of a row of a draft; 0: the machine knows none, and speculation is off */
    int n_symbols; /* the model says one of so many, which nothing foretells; 0: always the same */
    double sigma;  /* of the logarithm of a step's time; 0: it is always the same */
    double stall;  /* share of the steps that take stall_us longer */
    double stall_us;
    const float *logits;                             /* of every row; NULL: as n_symbols and ends say */
    bool (*ends)(uint64_t request, int n_generated); /* where an answer ends by itself; NULL: nowhere */
    uint32_t seed, counter;
    int64_t now;
    struct mr_engine *engine;
};

static struct machine machine;
static struct mr_model *model; /* of the tests' set_up */

static int set_up(void **state)
{
    (void)state;
    model = fixture_model(1);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    mr_model_close(model);
    return 0;
}

/* Uniform in (0, 1). */
static inline double machine_uniform(void)
{
    const uint32_t key[2] = {machine.seed, 7}, counter[4] = {machine.counter++};
    uint32_t word[4];
    philox4x32(word, counter, key);
    return ((double)word[0] + 0.5) * 0x1p-32;
}

static inline double machine_noise(void)
{
    if (machine.sigma == 0)
        return 1;
    const double normal = sqrt(-2 * log(machine_uniform())) * cos(6.283185307179586 * machine_uniform());
    return exp(machine.sigma * normal);
}

enum mr_status __wrap_model_forward(struct model *m, struct model_kv *kv, const struct batch *batch, struct mr_error *err);
enum mr_status __wrap_model_forward(struct model *m, struct model_kv *kv, const struct batch *batch, struct mr_error *err)
{
    (void)m;
    (void)err;
    const struct step_shape *s = &machine.engine->shape;
    for (int i = 0; i < batch->n_row; i++)
        kv_seq_advance(model_kv_cache(kv), batch->seq[i], 1);
    const double us = machine.step + machine.decode * s->n_decode + machine.prompt * s->n_prompt +
                      machine.position * s->attended + machine.draft * s->n_draft;
    machine.now += (int64_t)(us * machine_noise());
    if (machine.stall > 0 && machine_uniform() < machine.stall)
        machine.now += (int64_t)machine.stall_us;
    return MR_OK;
}

const float *__wrap_model_logits(const struct model *m, int i);
const float *__wrap_model_logits(const struct model *m, int i)
{
    static const float ties[N_VOCAB]; /* go to the lowest id that may be chosen, END_TOKEN */
    static float go_on[N_VOCAB];
    (void)m;
    go_on[END_TOKEN] = -1;
    if (machine.logits != NULL)
        return machine.logits;
    if (machine.n_symbols > 0) {
        static float symbol[N_VOCAB];
        memset(symbol, 0, sizeof symbol);
        symbol[(int)(machine_uniform() * machine.n_symbols)] = 1;
        return symbol;
    }
    for (int k = 0; machine.ends != NULL && k < machine.engine->n_slot; k++) {
        const struct sequence *s = &machine.engine->slot[k];
        if (s->request != NULL && s->n_row > 0 && s->logits == i)
            return machine.ends(s->request->id, s->usage.n_generated + 1) ? ties : go_on;
    }
    return ties;
}

static inline int64_t machine_now(void *context)
{
    (void)context;
    return machine.now;
}

/* The machine is set up by the caller, but for its clock. */
static inline struct mr_engine *simulated_engine(struct mr_options options)
{
    struct mr_error err = {{0}};
    machine.now = 1000000;
    machine.counter = 0;
    options.clock_us = machine_now;
    options.speculation = machine.draft > 0 ? options.speculation : MR_SPECULATION_OFF;
    check(mr_engine_create(&machine.engine, model, &options, &err), &err);
    return machine.engine;
}

/* n different tokens; who differs has another prompt. */
static inline struct mr_request simulated_request(int32_t *prompt, int n_prompt, int max_tokens, int who)
{
    struct mr_request r;
    for (int i = 0; i < n_prompt; i++)
        prompt[i] = 1 + (i * 37 + who * 101) % 255;
    mr_request_defaults(&r);
    r.prompt = prompt;
    r.n_prompt = n_prompt;
    r.max_tokens = max_tokens;
    r.ignore_eos = true;
    r.sampling.temperature = 0;
    return r;
}

#endif
