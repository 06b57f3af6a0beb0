/* drafts.c: the guessed tokens of a step. */
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "engine/engine_state.h"
#include "engine/lookahead.h"

enum {
    PROMPT_ROWS_BESIDE = KV_BLOCK, /* rows of a step that drafts leave to prompts which wait for them */
    LOOKUP_BYTES_MAX = 64 << 20    /* of an engine's indices: 64 answers of 8,192 tokens and more */
};

static int lesser(int a, int b) { return a < b ? a : b; }

/* A source serves its method, and AUTO. */
static const struct {
    enum mr_speculation method; /* AUTO: all but OFF */
    const struct drafter *drafter;
} sources[N_DRAFT_SOURCES] = {
    [DRAFT_FORCED] = {MR_SPECULATION_AUTO, &forced_text_drafter},
    [DRAFT_GUEST] = {MR_SPECULATION_AUTO, NULL},
    [DRAFT_PREDICTION] = {MR_SPECULATION_REFERENCE, &prediction_drafter},
    [DRAFT_EARLIER] = {MR_SPECULATION_REFERENCE, NULL},
    [DRAFT_NGRAM] = {MR_SPECULATION_NGRAM, NULL},
    [DRAFT_LOOKAHEAD] = {MR_SPECULATION_LOOKAHEAD, &lookahead_drafter},
    [DRAFT_MODEL] = {MR_SPECULATION_DRAFT, NULL},
    [DRAFT_LAYERS] = {MR_SPECULATION_LAYERS, NULL},
};

enum mr_status drafts_check(int method, struct mr_error *err)
{
    bool is_known = method == MR_SPECULATION_OFF || method == MR_SPECULATION_NONE;
    for (int i = 0; i < N_DRAFT_SOURCES; i++)
        is_known |= (int)sources[i].method == method;
    return is_known ? MR_OK
                    : mr_fail(err, MR_NO_SUPPORT, "speculation is '%s': this build has no such drafter",
                              mr_speculation_text((enum mr_speculation)method));
}

/* What stays of its drafts before any was tried. Two or three tokens that stood in the text before say little: in prose one
 * of ten such guesses stays. */
static double first_rate(int source, int grade)
{
    static const double ngram[DRAFT_GRADES] = {0.4, 0.6};
    return source == DRAFT_NGRAM && grade < 2 ? ngram[grade] : draft_rate_hopeful;
}

void drafts_create(struct mr_engine *e)
{
    draft_purse_init(&e->draft_purse);
    for (int i = 0; i < N_DRAFT_SOURCES; i++)
        for (int grade = 0; grade < DRAFT_GRADES; grade++)
            e->draft_rate[i][grade] = first_rate(i, grade);
    for (int i = 0; i < N_DRAFT_SOURCES; i++)
        if (sources[i].drafter != NULL && (i != DRAFT_FORCED || e->options.forced_drafts))
            e->drafter[i] = *sources[i].drafter;
    e->lookup.limit = LOOKUP_BYTES_MAX;
    e->drafter[DRAFT_NGRAM] = ngram_drafter(&e->lookup);
    e->drafter[DRAFT_EARLIER] = earlier_drafter(e);
}

static void add_model(struct mr_engine *e, enum draft_source source, struct model_drafter *d)
{
    if (d != NULL)
        e->drafter[source] =
            (struct drafter){.propose_all = model_drafter_propose, .token_us = model_drafter_token_us, .context = d};
}

static const int layers_part = 4; /* of the model, where nothing says how many of its layers guess */

/* Few ask for them, so they are made for the first who does. */
static enum mr_status create_layers(struct mr_engine *e, struct mr_error *err)
{
    const int n_layer = model_info(e->model->model)->n_layer, n_first = e->options.draft_layers;
    const int quarter = n_layer > layers_part ? n_layer / layers_part : 1;
    if (n_layer > 1 && e->draft_layers == NULL)
        MR_TRY(model_drafter_create(&e->draft_layers, e, NULL, n_first > 0 ? n_first : quarter, err));
    add_model(e, DRAFT_LAYERS, e->draft_layers);
    return MR_OK;
}

enum mr_status drafts_create_models(struct mr_engine *e, struct mr_error *err)
{
    const int n_layer = model_info(e->model->model)->n_layer, n_first = e->options.draft_layers;
    const int method = e->options.speculation;
    if (method == MR_SPECULATION_DRAFT && e->model->draft.model == NULL)
        return mr_fail(err, MR_BAD_INPUT, "speculation is 'draft', but no draft_model was opened");
    if (n_first >= n_layer)
        return mr_fail(err, MR_BAD_INPUT, "draft_layers is %d, but the model has %d layers", n_first, n_layer);
    if (e->model->draft.model != NULL && method != MR_SPECULATION_OFF && method != MR_SPECULATION_NONE)
        MR_TRY(model_drafter_create(&e->draft_model, e, &e->model->draft, 0, err));
    add_model(e, DRAFT_MODEL, e->draft_model);
    return method == MR_SPECULATION_LAYERS ? create_layers(e, err) : MR_OK;
}

void drafts_free_models(struct mr_engine *e)
{
    model_drafter_free(e->draft_model);
    model_drafter_free(e->draft_layers);
}

void drafts_leave_cache(struct mr_engine *e, struct sequence *s)
{
    if (e->draft_model != NULL)
        model_drafter_leave(e->draft_model, s);
}

size_t drafts_kv_bytes(const struct mr_engine *e)
{
    return e->draft_model != NULL ? model_drafter_kv_bytes(e->draft_model) : 0;
}

size_t drafts_kv_bytes_in_use(const struct mr_engine *e)
{
    return e->draft_model != NULL ? model_drafter_kv_bytes_in_use(e->draft_model) : 0;
}

static bool is_there(const struct drafter *d) { return d->propose != NULL || d->propose_all != NULL; }

void engine_set_drafter(struct mr_engine *e, const struct drafter *drafter) { e->drafter[DRAFT_GUEST] = *drafter; }

static enum mr_speculation method_of(const struct mr_engine *e, const struct request_record *r)
{
    return r->speculation != MR_SPECULATION_AUTO ? (enum mr_speculation)r->speculation
                                                 : (enum mr_speculation)e->options.speculation;
}

/* Whether the answer may have drafts from there. */
static bool serves(const struct mr_engine *e, const struct sequence *s, int source)
{
    const enum mr_speculation method = method_of(e, s->request), of = sources[source].method;
    return is_there(&e->drafter[source]) && method != MR_SPECULATION_OFF && method != MR_SPECULATION_NONE &&
           ((method == MR_SPECULATION_AUTO && of != MR_SPECULATION_LAYERS && of != MR_SPECULATION_LOOKAHEAD) ||
            of == MR_SPECULATION_AUTO || of == method);
}

static struct draft_view view_of(const struct mr_engine *e, const struct sequence *s)
{
    return (struct draft_view){
        .request = s->request->id,
        .sample = s->sample,
        .slot = (int)(s - e->slot),
        .token = s->token,
        .n_token = s->n_token,
        .n_prompt = s->request->n_prompt,
        .n_room = s->room,
        .constraint = s->constraint,
        .trie = s->constraint != NULL ? constraint_store_trie(&e->constraints, s->request->stored[STORED_CONSTRAINT]) : NULL,
        .prediction = request_record_prediction(s->request),
        .n_prediction = s->request->n_prediction};
}

static const double prediction_balance = 1; /* the caller says that it is good: it does not wait for the purse */

void drafts_start(struct mr_engine *e, struct sequence *s)
{
    const struct draft_view view = view_of(e, s);
    const int64_t begin_us = clock_us();
    if (method_of(e, s->request) == MR_SPECULATION_LAYERS)
        (void)create_layers(e, NULL); /* no memory: nothing is guessed */
    for (int i = 0; i < N_DRAFT_SOURCES; i++) {
        for (int grade = 0; grade < DRAFT_GRADES; grade++)
            draft_record_init(&s->drafts[i][grade], e->draft_rate[i][grade], i == DRAFT_PREDICTION ? prediction_balance : 0);
        if (e->drafter[i].start != NULL && serves(e, s, i))
            s->draft_state[i] = e->drafter[i].start(e->drafter[i].context, &view);
    }
    e->stats.guess_us += clock_us() - begin_us;
}

void drafts_end(struct mr_engine *e, struct sequence *s)
{
    const int64_t begin_us = clock_us();
    earlier_drafter_note(e, s);
    for (int i = 0; i < N_DRAFT_SOURCES; i++)
        if (s->draft_state[i] != NULL)
            e->drafter[i].end(e->drafter[i].context, s->draft_state[i]);
    e->stats.guess_us += clock_us() - begin_us;
}

static bool has_drafter(const struct mr_engine *e)
{
    for (int i = 0; i < N_DRAFT_SOURCES; i++)
        if (is_there(&e->drafter[i]))
            return true;
    return false;
}

/* A step may take as long as the target says, and half as long again as without drafts where that alone is longer: then it is
 * the machine that is slow, and drafts are what shortens the gaps. */
static int room_in_time(const struct mr_engine *e, const struct step_shape *plain)
{
    const double plain_us = step_cost_us(&e->cost, plain), target_us = e->options.itl_target_ms * 1e3;
    const double row_us = step_cost_draft_row_us(&e->cost), slow_us = plain_us * 1.5;
    const double room_us = (target_us > slow_us ? target_us : slow_us) - plain_us;
    return e->options.itl_target_ms == 0 || row_us * e->max_row <= room_us ? e->max_row : (int)(room_us / row_us);
}

int drafts_room(const struct mr_engine *e, const struct step_shape *plain, int n_running)
{
    if (!has_drafter(e))
        return 0;
    const int n_beside = n_running > plain->n_decode ? PROMPT_ROWS_BESIDE : 0;
    int n = lesser(e->max_row, e->options.prompt_chunk > n_running ? e->options.prompt_chunk : n_running);
    n = lesser(n - plain->n_decode - n_beside, model_info(e->model->model)->max_logits - n_running);
    n = lesser(n, room_in_time(e, plain));
    return n > 0 ? n : 0;
}

/* As far as they are tokens. */
static int n_valid(const struct mr_engine *e, const int32_t *draft, int n)
{
    int i = 0;
    while (i < n && draft[i] >= 0 && draft[i] < model_info(e->model->model)->n_vocab)
        i++;
    return i;
}

/* What a draft costs, in units of a token without drafts; 0 while that is not known. */
static double draft_cost(const struct mr_engine *e, int source, const struct step_shape *plain)
{
    const struct drafter *d = &e->drafter[source];
    const double row = step_cost_draft_share(&e->cost, plain), row_us = step_cost_draft_row_us(&e->cost);
    const double guess_us = d->token_us != NULL ? d->token_us(d->context) : 0;
    return row_us > 0 ? row * (1 + guess_us / row_us) : row;
}

struct guess {
    int32_t token[DRAFTS_MAX];
    int n, source, grade;
    double cost, gain; /* tokens */
};

static int depth(const struct mr_engine *e, struct draft_record *r, double cost)
{
    return draft_record_depth(r, cost, e->draft_purse.tokens);
}

/* n drafts of the sequence cost so much each; the purse lends what its record does not cover. */
static void pay(struct mr_engine *e, struct sequence *s, int source, int grade, double cost, int n)
{
    s->draft_source = (enum draft_source)source;
    s->draft_grade = grade;
    s->draft_cost = cost;
    s->draft_is_lent = !e->drafter[source].always && !draft_record_is_proven(&s->drafts[source][grade]);
    if (s->draft_is_lent)
        draft_purse_pay(&e->draft_purse, n, cost);
}

/* The most that drafts of the source could bring: those of its best grade. */
static double hope(const struct mr_engine *e, const struct sequence *s, int source, double cost, int n_max)
{
    double most = e->drafter[source].always ? INFINITY : 0;
    for (int i = 0; i < DRAFT_GRADES; i++) {
        const struct draft_record *r = &s->drafts[source][i];
        const double gain = r->is_tried ? draft_gain(r->rate, n_max, cost) : INFINITY;
        most = gain > most ? gain : most;
    }
    return most;
}

/* What one source would draft: as many as its record of such drafts says. */
static void ask(struct mr_engine *e, struct sequence *s, struct draft_view *view, double cost, int n_max, struct guess *out)
{
    const struct drafter *d = &e->drafter[out->source];
    view->state = s->draft_state[out->source];
    view->grade = 0;
    if (d->token_us != NULL)
        n_max = lesser(n_max, depth(e, &s->drafts[out->source][0], cost));
    const int n = n_max > 0 ? d->propose(d->context, view, out->token, n_max) : 0;
    struct draft_record *r = &s->drafts[out->source][view->grade];
    out->grade = view->grade;
    out->n = n == 0 || d->always || d->token_us != NULL ? n : lesser(n, depth(e, r, cost));
    out->n = n_valid(e, out->token, out->n);
    out->cost = cost;
    out->gain = d->always ? INFINITY : draft_gain(r->rate, out->n, cost);
}

/* The best guess of the sources; those that compute for it are asked last, and only where they may be better. */
static struct guess choose(struct mr_engine *e, struct sequence *s, const struct step_shape *plain, int n_max)
{
    struct draft_view view = view_of(e, s);
    struct guess best = {.n = 0};
    for (int computes = 0; computes < 2; computes++)
        for (int i = 0; i < N_DRAFT_SOURCES; i++) {
            struct guess g = {.source = i};
            if (e->drafter[i].propose == NULL || !serves(e, s, i) || (e->drafter[i].token_us != NULL) != computes)
                continue;
            const double cost = draft_cost(e, i, plain);
            if (best.n > 0 && hope(e, s, i, cost, n_max) <= best.gain)
                continue;
            ask(e, s, &view, cost, n_max, &g);
            if (g.n > 0 && (best.n == 0 || g.gain > best.gain))
                best = g;
        }
    return best;
}

/* Tokens that may stand behind the sequence's as drafts; the last one follows the last draft. */
static int room_behind(const struct mr_engine *e, const struct sequence *s, int n_max)
{
    const int most = e->options.draft_tokens > 0 ? e->options.draft_tokens : DRAFTS_MAX;
    return lesser(lesser(n_max, most), s->room - s->n_token - 1);
}

/* Of the sources that guess about one answer at a time. */
static int propose_alone(struct mr_engine *e, struct sequence *s, const struct step_shape *plain, int n_max)
{
    const int room = room_behind(e, s, n_max);
    if (room <= 0)
        return 0;
    const struct guess best = choose(e, s, plain, room);
    pay(e, s, best.source, best.grade, best.cost, best.n);
    memcpy(s->token + s->n_token, best.token, (size_t)best.n * sizeof *best.token);
    return best.n;
}

/* What a source that guesses about many answers at once is asked about one. */
static int depth_of(const struct mr_engine *e, struct sequence *s, int source, double cost, int n_max)
{
    const int room = room_behind(e, s, n_max);
    if (room <= 0 || s->n_draft > 0 || s->n_token == s->request->n_prompt || !serves(e, s, source))
        return 0;
    return e->drafter[source].always ? room : lesser(room, depth(e, &s->drafts[source][0], cost));
}

/* Returns the drafts that came. */
static int propose_together(struct mr_engine *e, int n, int source, const struct step_shape *plain, int room)
{
    const struct drafter *d = &e->drafter[source];
    const double cost = draft_cost(e, source, plain);
    int n_ask = 0, n_came = 0;
    for (int i = 0; i < n; i++) {
        struct sequence *s = &e->slot[e->order[i]];
        const int n_max = n_ask < room ? depth_of(e, s, source, cost, room) : 0;
        if (n_max == 0)
            continue;
        e->ask[n_ask++] = (struct draft_ask){.s = s, .n_max = n_max};
        pay(e, s, source, 0, cost, n_max);
    }
    if (n_ask == 0)
        return 0;
    for (int i = 0; i < n_ask; i++) {
        const int n_max = lesser(e->ask[i].n_max, room / n_ask);
        pay(e, e->ask[i].s, source, 0, cost, n_max - e->ask[i].n_max);
        e->ask[i].n_max = n_max;
    }
    d->propose_all(d->context, e->ask, n_ask);
    for (int i = 0; i < n_ask; i++) {
        struct sequence *s = e->ask[i].s;
        s->n_draft = n_valid(e, s->token + s->n_token, e->ask[i].n);
        pay(e, s, source, 0, cost, s->n_draft - e->ask[i].n_max);
        n_came += s->n_draft;
    }
    return n_came;
}

void drafts_propose(struct mr_engine *e, int n, const struct step_shape *plain, int room)
{
    const int64_t begin_us = clock_us();
    draft_purse_earn(&e->draft_purse, n);
    for (int i = 0; i < n; i++) {
        struct sequence *s = &e->slot[e->order[i]];
        const int share = (room + n - i - 1) / (n - i);
        if (s->n_token > s->request->n_prompt)
            s->n_draft = propose_alone(e, s, plain, share);
        room -= s->n_draft;
    }
    for (int source = 0; source < N_DRAFT_SOURCES; source++)
        if (e->drafter[source].propose_all != NULL)
            room -= propose_together(e, n, source, plain, room);
    for (int i = 0; i < n; i++) {
        struct sequence *s = &e->slot[e->order[i]];
        s->has_window = s->n_token > s->request->n_prompt && windows_want(e, s, plain, room);
        room -= s->has_window ? LOOKAHEAD_ROWS : 0;
    }
    e->stats.guess_us += clock_us() - begin_us;
}

void drafts_judge(struct mr_engine *e, struct sequence *s, int n_accepted)
{
    if (s->draft_state[DRAFT_LOOKAHEAD] != NULL)
        lookahead_observe(s->draft_state[DRAFT_LOOKAHEAD], s->draft_source == DRAFT_LOOKAHEAD ? n_accepted : 0);
    if (s->n_draft > 0) {
        draft_record_observe(&s->drafts[s->draft_source][s->draft_grade], s->n_draft, n_accepted, s->draft_cost);
        if (s->draft_is_lent)
            draft_purse_take(&e->draft_purse, n_accepted);
        draft_rate_observe(&e->draft_rate[s->draft_source][s->draft_grade], s->n_draft, n_accepted);
        e->stats.drafts[sources[s->draft_source].method].n_drafted += s->n_draft;
        e->stats.drafts[sources[s->draft_source].method].n_accepted += n_accepted;
    }
    e->stats.n_drafts_accepted += n_accepted;
}
