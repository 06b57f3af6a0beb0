/* test_mixes.c: the plain run is the judge. Random mixes of requests, arrivals, cancels, chunks, step budgets, policies and
 * caches so small that answers are put aside again and again; each answer is that of its request alone, token for token and
 * logprob for logprob. MILLRACE_MIXES: how many; MILLRACE_MIX: only this one. */
#include <dirent.h>

#include "base/random.h"
#include "engine/engine_state.h"
#include "unit/engine/engine_fixture.h"
#include "unit/model/adapter_fixture.h"

enum {
    N_CTX = 130,
    N_REQUEST = 48, /* that mixes draw from */
    ANSWERS_MAX = 3,
    IN_MIX_MAX = 12,
    KINDS = 3,
    REAL_MIXES = 20,
    N_REAL = 8 /* requests of the real model */
};

#ifdef TEST_SANITIZED
enum {
    MIXES = 100
};
#else
enum {
    MIXES = 2000
};
#endif

struct dice {
    uint32_t key[2], counter[4];
};

/* 0 to n - 1 */
static int roll(struct dice *d, int n)
{
    uint32_t word[4];
    d->counter[0]++;
    philox4x32(word, d->counter, d->key);
    return (int)(word[0] % (uint32_t)n);
}

static struct dice dice_of(uint32_t seed) { return (struct dice){.key = {seed, 77}}; }

struct judged {
    struct mr_request request;
    int32_t prompt[N_CTX];
    struct mr_logit_bias bias[2];
    struct mr_adapter_use adapter[2];
    char word[2][2];
    const char *words[2];
    struct outcome alone[ANSWERS_MAX];
};

/* Models of the same bits on different numbers of threads, and requests with their plain answers. */
struct pool {
    struct mr_model *model[2];
    struct judged *judged;
    int n_judged;
};

/* With a window and a full layer, with int8 activations, with int8 keys and values, too. */
static struct pool pools[KINDS];
static struct judged judged[KINDS][N_REQUEST], judged_real[N_REAL];

static const struct {
    enum mr_constraint kind;
    const char *text;
} constraints[] = {
    {MR_CONSTRAINT_REGEX, "[a-z ]{20,60}"},
    {MR_CONSTRAINT_JSON_SCHEMA, "{\"type\":\"array\",\"items\":{\"type\":\"integer\"},\"minItems\":3}"},
    {MR_CONSTRAINT_JSON_SCHEMA, "{\"type\":\"object\",\"properties\":{\"first name\":{\"enum\":[\"one\",\"other\"]}},"
                                "\"required\":[\"first name\"],\"additionalProperties\":false}"},
    {MR_CONSTRAINT_JSON_OBJECT, NULL},
    {MR_CONSTRAINT_GRAMMAR, "root ::= (\"yes\" | \"no\" | \"perhaps\") \", \" root | \"done\""},
};
enum {
    N_CONSTRAINTS = sizeof constraints / sizeof *constraints
};

/* Nothing else that excludes tokens: what is left might be none. */
static void constrain(struct mr_request *r, int i)
{
    r->constraint = constraints[i].kind;
    r->constraint_text = constraints[i].text;
    r->ignore_eos = false;
    r->n_bad_word = 0;
    r->token_healing = false;
}

/* A vector instead of answers. */
static void pool_prompt(struct mr_request *r, int pooling)
{
    r->pooling = (enum mr_pooling)pooling;
    r->n = 1;
    r->best_of = 0;
    r->prompt_logprobs = -1;
    r->token_healing = false;
    r->constraint = MR_CONSTRAINT_NONE;
}

static void make_request(struct judged *j, int number)
{
    struct dice d = dice_of((uint32_t)number);
    struct mr_request *r = &j->request;
    mr_request_defaults(r);
    r->prompt = j->prompt;
    const bool is_talkative = roll(&d, 2) == 0; /* a short prompt with a long answer: grows while others run */
    r->n_prompt = is_talkative ? 1 + roll(&d, 30) : 1 + roll(&d, 110);
    const int family = roll(&d, 4), shared = roll(&d, r->n_prompt + 1); /* so that prompts begin alike */
    for (int i = 0; i < r->n_prompt; i++)
        j->prompt[i] = i < shared ? 1 + (i * 37 + family * 11) % 255 : 1 + roll(&d, 255);
    r->max_tokens = roll(&d, 8) == 0 ? roll(&d, 2) : is_talkative ? 30 + roll(&d, 60) : roll(&d, 30);
    r->ignore_eos = roll(&d, 3) > 0;
    r->n = roll(&d, 4) == 0 ? 2 + roll(&d, ANSWERS_MAX - 1) : 1;
    r->sampling.seed = (uint64_t)roll(&d, 1000);
    r->sampling.n_logprobs = 0;
    r->sampling.temperature = roll(&d, 3) == 0 ? 0 : 1;
    r->sampling.repeat_penalty = roll(&d, 2) == 0 ? 1 : 1.2f;
    r->bias = j->bias;
    r->n_bias = roll(&d, 3);
    for (int i = 0; i < r->n_bias; i++)
        j->bias[i] = (struct mr_logit_bias){.token = 10 + i * 100 + roll(&d, 90), .bias = (float)roll(&d, 8)};
    r->adapter = j->adapter;
    r->n_adapter = roll(&d, 2) * (1 + roll(&d, 2));
    for (int i = 0; i < r->n_adapter; i++)
        j->adapter[i] = (struct mr_adapter_use){.adapter = 1 + roll(&d, 2), .scale = (float)(1 + roll(&d, 2))};
    r->best_of = r->n < ANSWERS_MAX && roll(&d, 6) == 0 ? r->n + 1 : 0;
    r->prompt_logprobs = roll(&d, 6) == 0 ? 0 : -1;
    r->n_bad_word = roll(&d, 4) == 0 ? 2 : 0;
    r->bad_word = j->words;
    for (int i = 0; i < 2; i++) {
        j->word[i][0] = (char)(1 + roll(&d, 255));
        j->words[i] = j->word[i];
    }
    r->token_healing = r->n_bad_word == 0 && roll(&d, 6) == 0;
    if (roll(&d, 4) == 0)
        constrain(r, roll(&d, N_CONSTRAINTS));
    if (roll(&d, 6) == 0)
        pool_prompt(r, MR_POOLING_MEAN + roll(&d, MR_N_POOLINGS - 1));
}

/* One answer at a time, whole prompts, nothing shared. */
static struct mr_engine *plain_engine(struct mr_model *model)
{
    struct mr_options o;
    struct mr_error err = {{0}};
    struct mr_engine *e;
    mr_options_defaults(&o);
    o.n_ctx = N_CTX;
    o.prefix_cache = false;
    o.speculation = MR_SPECULATION_OFF;
    check(mr_engine_create(&e, model, &o, &err), &err);
    return e;
}

/* The ids 1 and 2. */
static void load_adapters(struct mr_model *model, const char *source)
{
    static const struct adapter_recipe recipes[] = {{.rank = 4, .seed = 1}, {.rank = 6, .seed = 2, .only = "attn_"}};
    for (int32_t i = 0; i < 2; i++) {
        char path[] = "/tmp/millrace-adapter-XXXXXX";
        struct mr_error err = {{0}};
        int32_t id;
        close(mkstemp(path));
        adapter_write(path, source, &recipes[i]);
        check(mr_adapter_load(model, path, &id, &err), &err);
        unlink(path);
        assert_int_equal(id, i + 1);
    }
}

static char folder[] = "/tmp/millrace-mixes-XXXXXX";

static void remove_folder(void)
{
    DIR *d = opendir(folder);
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        char path[512];
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        if (e->d_name[0] != '.')
            unlink(path);
    }
    closedir(d);
    rmdir(folder);
}

/* The answers alone. */
static void judge(struct pool *p)
{
    struct mr_engine *e = plain_engine(p->model[0]);
    for (int i = 0; i < p->n_judged; i++) {
        struct judged *j = &p->judged[i];
        const uint64_t id = submit(e, &j->request);
        for (int k = 0; k < ANSWERS_MAX; k++)
            j->alone[k] = (struct outcome){.id = id, .sample = k};
        run_to_end(e, j->alone, j->request.n);
    }
    mr_engine_free(e);
}

static int set_up(void **state)
{
    (void)state;
    if (mkdtemp(folder) == NULL)
        return 1;
    static const char *const source[] = {TEST_SOURCE_DIR "/golden/data/tiny_gemma3.gguf",
                                         TEST_SOURCE_DIR "/golden/data/tiny_llama3_q8_0.gguf"},
                             *const draft[KINDS] = {TEST_SOURCE_DIR "/golden/data/tiny_gemma3.gguf", /* with a window, too */
                                                    TEST_SOURCE_DIR "/golden/data/tiny_llama3.gguf",
                                                    TEST_SOURCE_DIR "/golden/data/tiny_gemma3.gguf"};
    for (int kind = 0; kind < KINDS; kind++) {
        struct pool *p = &pools[kind];
        *p = (struct pool){.judged = judged[kind], .n_judged = N_REQUEST};
        for (int i = 0; i < 2; i++) {
            p->model[i] = fixture_model_and_draft(source[kind > 0], draft[kind], 1 + i * (1 + kind), kind == 2);
            load_adapters(p->model[i], source[kind > 0]);
        }
        for (int i = 0; i < N_REQUEST; i++)
            make_request(&p->judged[i], i);
        judge(p);
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    for (int kind = 0; kind < KINDS; kind++)
        for (int i = 0; i < 2; i++)
            mr_model_close(pools[kind].model[i]);
    remove_folder();
    return 0;
}

/* A clock that a die moves, so that each step has a budget of its own. */
static int64_t random_clock(void *context)
{
    static int64_t now;
    return now += 1 + roll(context, 20000);
}

/* Time stands still: what computing costs stays unknown, and whatever a second tier has kept is taken. */
static int64_t still_clock(void *context)
{
    (void)context;
    return 1;
}

struct mix {
    struct dice dice, clock, drafts;
    int right_in_8; /* of the drafts */
    struct mr_engine *engine;
    int n;
    const struct judged *of[IN_MIX_MAX];
    int arrival[IN_MIX_MAX], cancel[IN_MIX_MAX]; /* steps; cancel -1: never */
    struct outcome outcome[IN_MIX_MAX * ANSWERS_MAX];
};

/* What the answer alone says comes next, mixed with what it does not say: right drafts, wrong ones, and ids that are none. */
static int propose(void *context, struct draft_view *view, int32_t *out, int n_max)
{
    struct mix *m = context;
    const int some = n_max < 3 ? n_max : 3, n = roll(&m->drafts, 6) == 0 ? n_max : roll(&m->drafts, some + 1);
    for (int i = 0; i < m->n; i++) {
        const struct outcome *alone = &m->of[i]->alone[view->sample];
        if (m->outcome[i * ANSWERS_MAX].id != view->request)
            continue;
        for (int k = 0; k < n; k++) {
            const int at = view->n_token - view->n_prompt + k;
            const bool is_right = roll(&m->drafts, 8) < m->right_in_8 && at < alone->n_token;
            out[k] = is_right ? alone->token[at] : roll(&m->drafts, N_VOCAB + 2) - 1;
        }
        return n;
    }
    return 0;
}

static const int32_t methods[] = {MR_SPECULATION_AUTO,      MR_SPECULATION_DRAFT,     MR_SPECULATION_NGRAM,
                                  MR_SPECULATION_REFERENCE, MR_SPECULATION_DRAFT,     MR_SPECULATION_LAYERS,
                                  MR_SPECULATION_LOOKAHEAD, MR_SPECULATION_LOOKAHEAD, MR_SPECULATION_OFF};
enum {
    N_METHODS = sizeof methods / sizeof *methods
};

static void start_mix(struct mix *m, int number, const struct pool *pool)
{
    struct mr_options o;
    struct mr_error err = {{0}};
    *m = (struct mix){.dice = dice_of((uint32_t)number + 1000000), .clock = dice_of((uint32_t)number + 2000000)};
    struct dice *d = &m->dice;
    pool = pool != NULL ? pool : &pools[roll(d, KINDS)];
    mr_options_defaults(&o);
    o.max_running = 1 + roll(d, 8);
    o.prompt_chunk = 1 + (roll(d, 2) == 0 ? roll(d, 8) : roll(d, 80));
    o.n_ctx = N_CTX;
    o.kv_tokens = roll(d, 3) == 0 ? 0 : N_CTX + roll(d, roll(d, 2) == 0 ? 20 : 200);
    o.itl_target_ms = roll(d, 3) == 0 ? 0 : 1 + roll(d, 40);
    o.prefix_cache = roll(d, 4) > 0;
    const int tier = roll(d, 4); /* host memory for some blocks or for all, and now and then files */
    o.cache_host_bytes = tier == 0 ? (size_t)1 << (10 + roll(d, 10)) : tier == 1 ? 64 << 20 : 0;
    o.response_bytes = roll(d, 6) == 0 ? (size_t)1 << (8 + roll(d, 12)) : 0;
    o.cache_dir = roll(d, 16) == 0 ? folder : NULL;
    o.cache_bytes = (size_t)1 << (16 + roll(d, 8));
    o.kv_policy = roll(d, 4) == 0 ? roll(d, MR_N_KV_POLICIES) : MR_KV_PAGED;
    o.priority_age_ms = roll(d, 2) * 100;
    o.batching = roll(d, 4) == 0 ? roll(d, MR_N_BATCHINGS) : MR_BATCHING_CONTINUOUS;
    o.clock_us = tier < 2 && roll(d, 2) == 0 && o.batching != MR_BATCHING_DYNAMIC ? still_clock : random_clock;
    o.clock_context = &m->clock;
    m->drafts = dice_of((uint32_t)number + 3000000);
    const int32_t method = methods[number % N_METHODS];
    const bool has_draft = pool->model[0]->draft.model != NULL;
    o.speculation = method != MR_SPECULATION_DRAFT || has_draft ? method : MR_SPECULATION_AUTO;
    o.draft_tokens = number % 9 == 0 ? 1 + number % MR_DRAFT_TOKENS_MAX : 0;
    check(mr_engine_create(&m->engine, pool->model[roll(d, 2)], &o, &err), &err);
    m->engine->drafter[DRAFT_MODEL].always = m->engine->drafter[DRAFT_LAYERS].always = roll(&m->drafts, 2) == 0;
    m->right_in_8 = roll(&m->drafts, 9);
    const struct drafter drafter = {.propose = propose, .context = m, .always = roll(&m->drafts, 2) == 0};
    if (roll(&m->drafts, 3) > 0)
        engine_set_drafter(m->engine, &drafter);
    m->n = 1 + roll(d, IN_MIX_MAX);
    for (int i = 0; i < m->n; i++) {
        m->of[i] = &pool->judged[roll(d, pool->n_judged)];
        m->arrival[i] = roll(d, 40);
        m->cancel[i] = roll(d, 5) == 0 ? m->arrival[i] + roll(d, 60) : -1;
        if (m->of[i]->request.best_of > 0)
            m->cancel[i] = -1; /* which of its answers are told depends on when */
        for (int k = 0; k < ANSWERS_MAX; k++)
            m->outcome[i * ANSWERS_MAX + k].sample = k;
    }
}

static bool run_step(struct mix *m, int step)
{
    bool more = false;
    for (int i = 0; i < m->n; i++) {
        struct mr_request r = m->of[i]->request;
        r.priority = i % 3;
        r.background = i % 5 == 4;
        r.key = (uint64_t)i % 2;
        r.speculation = (enum mr_speculation)methods[(i + step) % (N_METHODS - 1)];
        r.prediction = m->of[i]->alone[step % ANSWERS_MAX].token; /* the answer, or another one's */
        r.n_prediction = i % 2 * m->of[i]->alone[step % ANSWERS_MAX].n_token;
        if (m->arrival[i] == step) {
            const uint64_t id = submit(m->engine, &r);
            for (int k = 0; k < ANSWERS_MAX; k++)
                m->outcome[i * ANSWERS_MAX + k].id = id;
        }
        if (m->cancel[i] == step)
            mr_engine_cancel(m->engine, m->outcome[i * ANSWERS_MAX].id); /* may have ended */
        more |= m->arrival[i] > step;
    }
    mr_engine_step(m->engine);
    take_events(m->engine, m->outcome, m->n * ANSWERS_MAX);
    return more || !mr_engine_is_idle(m->engine);
}

/* A cancelled answer is the beginning of the one alone. */
static bool is_right(const struct outcome *got, const struct outcome *alone, bool may_be_cancelled)
{
    const size_t n = (size_t)got->n_token;
    if (got->n_scored > alone->n_scored || memcmp(got->scored, alone->scored, (size_t)got->n_scored * sizeof *got->scored) != 0)
        return false;
    if (memcmp(got->token, alone->token, n * sizeof *got->token) != 0 ||
        memcmp(got->logprob, alone->logprob, n * sizeof *got->logprob) != 0 || got->n_text > alone->n_text ||
        memcmp(got->text, alone->text, got->n_text) != 0)
        return false;
    if (may_be_cancelled && got->finish == MR_FINISH_CANCELLED)
        return true;
    return got->finish == alone->finish && got->n_embedding == alone->n_embedding &&
           memcmp(got->embedding, alone->embedding, (size_t)got->n_embedding * sizeof *got->embedding) == 0 &&
           got->n_token == alone->n_token && got->n_text == alone->n_text && got->n_scored == alone->n_scored;
}

static struct mr_engine_stats run_mix(int number, const struct pool *pool)
{
    static struct mix m;
    struct mr_engine_stats stats;
    start_mix(&m, number, pool);
    for (int step = 0; run_step(&m, step); step++)
        if (step > 20000)
            fail_msg("mix %d does not end", number);
    for (int i = 0; i < m.n; i++)
        for (int k = 0; k < m.of[i]->request.n; k++)
            if (!is_right(&m.outcome[i * ANSWERS_MAX + k], &m.of[i]->alone[k], m.cancel[i] >= 0))
                fail_msg("mix %d: answer %d of request %d is not that of the plain run", number, k, i);
    mr_engine_get_stats(m.engine, &stats);
    assert_int_equal(stats.kv_bytes_in_use, 0);
    assert_int_equal(stats.n_running, 0);
    mr_engine_free(m.engine);
    return stats;
}

static void each_answer_is_that_of_the_plain_run(void **state)
{
    (void)state;
    const char *one = getenv("MILLRACE_MIX"), *many = getenv("MILLRACE_MIXES");
    const int first = one != NULL ? atoi(one) : 0, n = one != NULL ? 1 : many != NULL ? atoi(many) : MIXES;
    int64_t n_restored = 0, n_preempted = 0, n_found = 0, n_drafted = 0, n_accepted = 0;
    for (int i = first; i < first + n; i++) {
        const struct mr_engine_stats stats = run_mix(i, NULL);
        n_preempted += stats.n_preempted;
        n_restored += stats.n_restored;
        n_found += stats.n_found;
        n_drafted += stats.n_draft_rows;
        n_accepted += stats.n_drafts_accepted;
    }
    print_message("%d mixes, %lld answers put aside, %lld tokens shared, %lld restored, %lld drafts, %lld of them right\n", n,
                  (long long)n_preempted, (long long)n_found, (long long)n_restored, (long long)n_drafted,
                  (long long)n_accepted);
    assert_true(n < 50 || (n_preempted > n / 10 && n_found > 10 * n && n_restored > n / 4)); /* the mixes are hard enough */
    assert_true(n < 50 || (n_drafted > 5 * n && n_accepted > n_drafted / 10));
}

/* Short requests: the machine may be slow. */
static void each_answer_of_a_real_model_is_that_of_the_plain_run(void **state)
{
    (void)state;
    static const char path[] = TEST_SOURCE_DIR "/../models/SmolLM2-135M-Instruct.Q4_1.gguf";
    struct pool pool = {.judged = judged_real, .n_judged = N_REAL};
    struct mr_options o;
    struct mr_error err = {{0}};
#ifdef TEST_SANITIZED
    skip();
#endif
    if (access(path, R_OK) != 0) {
        print_message("%s is not there\n", path);
        skip();
    }
    mr_options_defaults(&o);
    o.max_running = 8;
    for (int i = 0; i < 2; i++) {
        o.threads = i + 1;
        check(mr_model_open(&pool.model[i], path, &o, &err), &err);
    }
    for (int i = 0; i < N_REAL; i++) {
        struct judged *j = &judged_real[i];
        make_request(j, i);
        j->request.n_adapter = 0;
        j->request.n_prompt = j->request.n_prompt < 20 ? j->request.n_prompt : 20;
        j->request.max_tokens = j->request.max_tokens < 8 ? j->request.max_tokens : 8;
    }
    judge(&pool);
    for (int i = 0; i < REAL_MIXES; i++)
        run_mix(i, &pool);
    for (int i = 0; i < 2; i++)
        mr_model_close(pool.model[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_answer_is_that_of_the_plain_run),
                                       cmocka_unit_test(each_answer_of_a_real_model_is_that_of_the_plain_run)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
