/* speculation_bench.c: tasks, and rounds of their answers in turn, without and with guesses. */
#include "measure/speculation_bench.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "measure/spread.h"

enum {
    PROMPT_MAX = 512, /* tokens, for the context */
    GEN_MAX = 2048,
    WRONG_EACH = 10 /* of so many tokens of a prediction one is another */
};

#define TEXT                                                                                                                   \
    "The water wheel of a mill turns because the stream that is led to it through the millrace is heavy and falls. A "         \
    "breastshot wheel is met at the height of its axle, an overshot one at its top, and an undershot one dips its paddles "    \
    "into the stream. The miller opens the sluice in the morning, lets the wheel gather speed, and only then lowers the "      \
    "stones on each other, because stones without grain between them strike fire."
#define CODE                                                                                                                   \
    "def total(prices, tax):\n    result = 0\n    for price in prices:\n        if price < 0:\n"                               \
    "            raise ValueError(\"a price is negative\")\n        result = result + price\n"                                 \
    "    return result * (1 + tax)\n\n\ndef mean(prices):\n    if len(prices) == 0:\n"                                         \
    "        raise ValueError(\"there are no prices\")\n    return total(prices, 0) / len(prices)\n"
#define RECORDS                                                                                                                \
    "Ada Miller, 34 years old, lives in Bergen and works as a carpenter.\n"                                                    \
    "Tom Weir, 51 years old, lives in Utrecht and works as a teacher.\n"                                                       \
    "Ines Costa, 28 years old, lives in Porto and works as a nurse.\n"                                                         \
    "Karl Bauer, 45 years old, lives in Graz and works as a baker."
#define SCHEMA                                                                                                                 \
    "{\"type\":\"array\",\"minItems\":4,\"maxItems\":4,\"items\":{\"type\":\"object\",\"additionalProperties\":false,"         \
    "\"required\":[\"name\",\"age\",\"city\",\"job\"],\"properties\":{\"name\":{\"type\":\"string\"},"                         \
    "\"age\":{\"type\":\"integer\"},\"city\":{\"type\":\"string\"},\"job\":{\"type\":\"string\"}}}}"

struct task {
    const char *name, *question, *schema;
    int gen;
    bool is_foretold, goes_on; /* goes_on: past the end that the model would make */
};

static const struct task tasks[SPECULATION_TASKS] = {
    {.name = "quote", .question = "Repeat this text word for word, twice:\n\n" TEXT, .gen = 256},
    {.name = "edit code",
     .question = "Rewrite this code with the variable `result` renamed to `amount`. Answer with the code only.\n\n" CODE,
     .gen = 200},
    {.name = "JSON from a document", .question = "Write these people as JSON:\n\n" RECORDS, .schema = SCHEMA, .gen = 256},
    {.name = "prediction, 90 % right",
     .question = "Explain in some paragraphs how a water mill works and what a millrace is for.",
     .gen = 256,
     .is_foretold = true},
    {.name = "chat", .question = "What should I look at when I buy a used bicycle?", .gen = 256},
    {.name = "long answer", .question = "Write a long story about a miller and a river.", .gen = 1000, .goes_on = true},
};

struct bench {
    struct mr_engine *engine;
    const struct speculation_options *o;
    const struct task *task;
    struct token_list prompt;
    int gen, n_stream, n_vocab;
    int32_t *plain, *expected; /* [GEN_MAX]: the plain answer, and what a prediction makes of it */
    int n_plain;
};

/* Sums of a round's answers. */
struct round {
    double rate; /* tokens a second */
    int64_t n_token, n_step, n_drafted, n_accepted, guess_us, step_us;
};

static enum mr_status submit(struct bench *b, enum mr_speculation method, struct mr_error *err)
{
    struct mr_request r;
    uint64_t id;
    mr_request_defaults(&r);
    r.prompt = b->prompt.id;
    r.n_prompt = (int32_t)b->prompt.n;
    r.max_tokens = b->gen;
    r.sampling.temperature = 0;
    r.ignore_eos = b->task->goes_on;
    r.constraint = b->task->schema != NULL ? MR_CONSTRAINT_JSON_SCHEMA : MR_CONSTRAINT_NONE;
    r.constraint_text = b->task->schema;
    r.speculation = method;
    if (b->task->is_foretold && method != MR_SPECULATION_OFF) {
        r.prediction = b->expected;
        r.n_prediction = b->n_plain;
    }
    return mr_engine_submit(b->engine, &r, &id, err);
}

/* The token of an answer, which the plain round says first. */
static enum mr_status take_token(struct bench *b, const struct mr_event *event, enum mr_speculation method,
                                 struct mr_error *err)
{
    const int at = event->usage.n_generated - 1;
    if (at >= b->n_plain && method == MR_SPECULATION_OFF)
        b->plain[b->n_plain++] = event->token;
    return at < b->n_plain && b->plain[at] == event->token
               ? MR_OK
               : mr_fail(err, MR_BAD_FORMAT, "%s, %s: token %d is not that of the plain answer", b->task->name,
                         mr_speculation_text(method), at);
}

static enum mr_status take_events(struct bench *b, enum mr_speculation method, struct round *sum, int *n_open,
                                  struct mr_error *err)
{
    struct mr_event event;
    while (mr_engine_next_event(b->engine, &event)) {
        if (event.finish == MR_FINISH_ERROR)
            return mr_fail(err, event.status, "%s: %s", b->task->name, event.error);
        if (event.token >= 0)
            MR_TRY(take_token(b, &event, method, err));
        if (event.finish == MR_FINISH_NONE)
            continue;
        const struct mr_usage *u = &event.usage;
        *n_open -= 1;
        sum->n_token += u->n_generated;
        sum->n_step += u->n_generated - u->n_accepted;
        sum->n_drafted += u->n_drafted;
        sum->n_accepted += u->n_accepted;
        sum->rate += u->generate_us > 0 ? (u->n_generated - 1) * 1e6 / (double)u->generate_us : 0;
    }
    return MR_OK;
}

static enum mr_status run_round(struct bench *b, enum mr_speculation method, struct round *sum, struct mr_error *err)
{
    struct mr_engine_stats before, after;
    int n_open = b->n_stream;
    *sum = (struct round){0};
    mr_engine_get_stats(b->engine, &before);
    for (int i = 0; i < b->n_stream; i++)
        MR_TRY(submit(b, method, err));
    while (n_open > 0) {
        if (b->o->stopped())
            return mr_fail(err, MR_CANCELLED, "interrupted");
        mr_engine_step(b->engine);
        MR_TRY(take_events(b, method, sum, &n_open, err));
    }
    mr_engine_get_stats(b->engine, &after);
    sum->guess_us = after.guess_us - before.guess_us;
    sum->step_us = after.step_us - before.step_us;
    return MR_OK;
}

static double share(int64_t part, int64_t whole) { return whole > 0 ? (double)part / (double)whole : 0; }

static enum mr_status run_case(struct bench *b, enum mr_speculation method, struct speculation_figure *out,
                               struct mr_error *err)
{
    double plain[SPECULATION_ROUNDS_MAX], rate[SPECULATION_ROUNDS_MAX], ratio[SPECULATION_ROUNDS_MAX];
    struct round sum;
    for (int i = 0; i < b->o->repeat; i++) {
        MR_TRY(run_round(b, MR_SPECULATION_OFF, &sum, err));
        plain[i] = sum.rate;
        MR_TRY(run_round(b, method, &sum, err));
        rate[i] = sum.rate;
        ratio[i] = plain[i] > 0 ? rate[i] / plain[i] : 0;
    }
    *out = (struct speculation_figure){.task = b->task->name,
                                       .method = mr_speculation_text(method),
                                       .n_stream = b->n_stream,
                                       .plain = spread_of(plain, b->o->repeat).median,
                                       .rate = spread_of(rate, b->o->repeat).median,
                                       .ratio = spread_of(ratio, b->o->repeat).median,
                                       .drafted = share(sum.n_drafted, sum.n_token),
                                       .accepted = share(sum.n_accepted, sum.n_token),
                                       .per_step = share(sum.n_token, sum.n_step),
                                       .guess_share = share(sum.guess_us, sum.step_us)};
    return MR_OK;
}

/* Whether the method has something to guess from. */
static bool serves(const struct bench *b, enum mr_speculation method)
{
    switch (method) {
    case MR_SPECULATION_REFERENCE:
        return b->task->is_foretold;
    case MR_SPECULATION_DRAFT:
        return b->o->has_draft_model;
    case MR_SPECULATION_HEADS:
    case MR_SPECULATION_NONE:
    case MR_N_SPECULATIONS:
        return false;
    default:
        return true;
    }
}

/* The plain answer, which costs become known by, and the prediction that is made of it. */
static enum mr_status run_first(struct bench *b, struct mr_error *err)
{
    struct round sum;
    b->n_plain = 0;
    MR_TRY(run_round(b, MR_SPECULATION_OFF, &sum, err));
    for (int i = 0; i < b->n_plain; i++)
        b->expected[i] = i % WRONG_EACH == WRONG_EACH / 2 ? (b->plain[i] + 1) % b->n_vocab : b->plain[i];
    return MR_OK;
}

static enum mr_status run_task(struct bench *b, const struct chat_prompt *chat, struct speculation_figures *out,
                               struct mr_error *err)
{
    /* off beside off shows what the machine's noise makes of a ratio of 1 */
    static const enum mr_speculation methods[] = {MR_SPECULATION_OFF,       MR_SPECULATION_DRAFT,     MR_SPECULATION_NGRAM,
                                                  MR_SPECULATION_REFERENCE, MR_SPECULATION_LOOKAHEAD, MR_SPECULATION_LAYERS,
                                                  MR_SPECULATION_AUTO};
    json_t *messages = json_pack("[{s:s, s:s}]", "role", "user", "content", b->task->question);
    b->gen = b->o->gen > 0 ? b->o->gen : b->task->gen;
    b->prompt.n = 0;
    const enum mr_status status = messages != NULL ? chat_prompt_render(chat, messages, NULL, 0, false, &b->prompt, err)
                                                   : mr_fail(err, MR_NO_MEMORY, "no memory for a question");
    json_decref(messages);
    MR_TRY(status);
    for (int i = 0; i < b->o->streams.n; i++) {
        b->n_stream = b->o->streams.value[i];
        MR_TRY(run_first(b, err));
        for (size_t k = 0; k < sizeof methods / sizeof *methods; k++)
            if (serves(b, methods[k]))
                MR_TRY(run_case(b, methods[k], &out->figure[out->n++], err));
    }
    return MR_OK;
}

static int most(const struct bench_list *l)
{
    int n = 1;
    for (int i = 0; i < l->n; i++)
        n = l->value[i] > n ? l->value[i] : n;
    return n;
}

enum mr_status speculation_bench_run(struct speculation_figures *out, struct mr_model *model, const struct chat_prompt *chat,
                                     const struct mr_options *options, const struct speculation_options *o,
                                     struct mr_error *err)
{
    struct mr_options with = *options;
    struct mr_model_info info;
    mr_model_info(model, &info);
    *out = (struct speculation_figures){0};
    with.max_running = most(&o->streams);
    with.n_ctx = with.n_ctx > 0 ? with.n_ctx : PROMPT_MAX + (o->gen > 0 ? o->gen : tasks[SPECULATION_TASKS - 1].gen);
    with.speculation = MR_SPECULATION_AUTO; /* each request says its own */
    with.itl_target_ms = 0;
    with.admission = false;
    with.reference_bytes = 0; /* no answer is guessed from itself */
    struct bench b = {.o = o, .n_vocab = info.n_vocab};
    b.plain = mem_array(GEN_MAX, sizeof *b.plain);
    b.expected = mem_array(GEN_MAX, sizeof *b.expected);
    enum mr_status status = b.plain != NULL && b.expected != NULL ? mr_engine_create(&b.engine, model, &with, err)
                                                                  : mr_fail(err, MR_NO_MEMORY, "no memory for an answer");
    for (int i = 0; status == MR_OK && i < SPECULATION_TASKS; i++) {
        b.task = &tasks[i];
        status = run_task(&b, chat, out, err);
    }
    mr_engine_free(b.engine);
    token_list_release(&b.prompt);
    free(b.plain);
    free(b.expected);
    return status;
}

json_t *speculation_figures_json(const struct speculation_figures *f, const struct speculation_options *o)
{
    json_t *list = json_array();
    for (int i = 0; i < f->n; i++) {
        const struct speculation_figure *g = &f->figure[i];
        json_array_append_new(list, json_pack("{s:s, s:s, s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "task", g->task, "method",
                                              g->method, "streams", g->n_stream, "plain_tok_s", g->plain, "tok_s", g->rate,
                                              "ratio", g->ratio, "drafted_per_token", g->drafted, "accepted_per_token",
                                              g->accepted, "tokens_per_step", g->per_step, "guess_share", g->guess_share));
    }
    return json_pack("{s:i, s:o}", "rounds", o->repeat, "results", list);
}

void speculation_figures_text(const struct speculation_figures *f, struct string_buffer *out)
{
    string_buffer_puts(
        out, "task                    method     streams  plain tok/s     tok/s    times  tokens a step  right  guessing\n");
    for (int i = 0; i < f->n; i++) {
        const struct speculation_figure *g = &f->figure[i];
        string_buffer_printf(out, "%-23s %-10s %7d %12.1f %9.1f %8.2f %14.2f %4.0f %% %7.2f %%\n", g->task, g->method,
                             g->n_stream, g->plain, g->rate, g->ratio, g->per_step,
                             g->drafted > 0 ? 100 * g->accepted / g->drafted : 0, 100 * g->guess_share);
    }
}
