/* embeddings.c: vectors from the cache, and the others from the engine. */
#include "server/api/embeddings.h"

#include <nettle/base64.h>
#include <string.h>

#include "server/api/embedding_cache.h"
#include "server/api/job.h"
#include "server/api/json_text.h"
#include "server/api/prompt_fields.h"

/* How the vectors are told. */
enum form {
    FORM_OPENAI,
    FORM_OPENAI_BASE64,
    FORM_OLLAMA,
    FORM_OLLAMA_ONE
};

struct embeddings {
    struct job *j;
    enum form form;
    enum mr_pooling pooling;
    int n_embd;
    float *vector;     /* [n_prompt][n_embd] */
    uint8_t *key;      /* [n_prompt][EMBEDDING_KEY_BYTES] */
    int *miss, n_miss; /* prompts that are computed */
    int64_t total_us;
};

static float *vector_of(const struct embeddings *e, int i) { return e->vector + (size_t)i * (size_t)e->n_embd; }

static void write_numbers(const struct embeddings *e, int i, struct string_buffer *out)
{
    string_buffer_puts(out, "[");
    for (int k = 0; k < e->n_embd; k++)
        string_buffer_printf(out, k > 0 ? ",%.9g" : "%.9g", (double)vector_of(e, i)[k]);
    string_buffer_puts(out, "]");
}

/* Little-endian floats, four characters for three bytes. */
static void write_base64(const struct embeddings *e, int i, struct string_buffer *out)
{
    const uint8_t *bytes = (const uint8_t *)vector_of(e, i);
    const size_t n = (size_t)e->n_embd * sizeof(float);
    char text[BASE64_ENCODE_RAW_LENGTH(48) + 1];
    string_buffer_puts(out, "\"");
    for (size_t at = 0; at < n; at += 48) {
        const size_t piece = n - at < 48 ? n - at : 48;
        base64_encode_raw(text, piece, bytes + at);
        string_buffer_add(out, text, BASE64_ENCODE_RAW_LENGTH(piece));
    }
    string_buffer_puts(out, "\"");
}

static int64_t n_token(const struct embeddings *e)
{
    int64_t n = 0;
    for (int i = 0; i < e->j->n_prompt; i++)
        n += (int64_t)e->j->prompt[i].n;
    return n;
}

static void write_openai(const struct embeddings *e, struct string_buffer *out)
{
    string_buffer_puts(out, "{\"object\":\"list\",\"data\":[");
    for (int i = 0; i < e->j->n_prompt; i++) {
        string_buffer_printf(out, "%s{\"object\":\"embedding\",\"index\":%d,\"embedding\":", i > 0 ? "," : "", i);
        (e->form == FORM_OPENAI ? write_numbers : write_base64)(e, i, out);
        string_buffer_puts(out, "}");
    }
    string_buffer_puts(out, "],\"model\":");
    json_text_string(out, e->j->model_name, strlen(e->j->model_name));
    string_buffer_printf(out, ",\"usage\":{\"prompt_tokens\":%lld,\"total_tokens\":%lld}}", (long long)n_token(e),
                         (long long)n_token(e));
}

static void write_ollama(const struct embeddings *e, struct string_buffer *out)
{
    string_buffer_puts(out, "{\"model\":");
    json_text_string(out, e->j->model_name, strlen(e->j->model_name));
    string_buffer_puts(out, e->form == FORM_OLLAMA ? ",\"embeddings\":[" : ",\"embedding\":");
    for (int i = 0; i < e->j->n_prompt; i++) {
        string_buffer_puts(out, i > 0 ? "," : "");
        write_numbers(e, i, out);
    }
    string_buffer_printf(out, "%s,\"total_duration\":%lld,\"load_duration\":0,\"prompt_eval_count\":%lld}",
                         e->form == FORM_OLLAMA ? "]" : "", (long long)e->total_us * 1000, (long long)n_token(e));
}

static void write_reply(const struct embeddings *e, struct string_buffer *out)
{
    (e->form == FORM_OPENAI || e->form == FORM_OPENAI_BASE64 ? write_openai : write_ollama)(e, out);
}

/* NULL: vectors of adapters are not kept. */
static struct embedding_cache *cache_of(const struct embeddings *e)
{
    return e->j->base.n_adapter > 0 ? NULL : exchange_server(e->j->x)->embeddings;
}

static enum mr_status take_event(void *self, int i, const struct mr_event *event, struct string_buffer *out,
                                 struct mr_error *err)
{
    struct embeddings *e = self;
    (void)out;
    if (event->embedding == NULL)
        return MR_OK;
    if (i >= e->n_miss || event->n_embedding != e->n_embd)
        return mr_fail(err, MR_IO, "a vector of %d numbers where %d were expected", event->n_embedding, e->n_embd);
    const int prompt = e->miss[i];
    const int64_t us = event->usage.first_token_us;
    memcpy(vector_of(e, prompt), event->embedding, (size_t)e->n_embd * sizeof(float));
    if (cache_of(e) != NULL)
        embedding_cache_put(cache_of(e), e->key + (size_t)prompt * EMBEDDING_KEY_BYTES, event->embedding, e->n_embd);
    e->total_us = us > e->total_us ? us : e->total_us;
    return MR_OK;
}

static enum mr_status end(void *self, struct string_buffer *out, struct mr_error *err)
{
    write_reply(self, out);
    return out->failed ? mr_fail(err, MR_NO_MEMORY, "no memory for the reply") : MR_OK;
}

static void fail(void *self, const struct api_error *error, struct string_buffer *out)
{
    (void)self; /* nothing goes out before the end */
    (void)error;
    (void)out;
}

static void release(void *self) { job_free(((struct embeddings *)self)->j); /* which lies in its arena */ }

static void look_up(struct embeddings *e)
{
    struct embedding_cache *cache = cache_of(e);
    for (int i = 0; i < e->j->n_prompt; i++) {
        uint8_t *key = e->key + (size_t)i * EMBEDDING_KEY_BYTES;
        embedding_cache_key(key, e->j->model->name, (int)e->pooling, e->j->prompt[i].id, e->j->prompt[i].n);
        if (cache == NULL || !embedding_cache_get(cache, key, vector_of(e, i), e->n_embd))
            e->miss[e->n_miss++] = i;
    }
}

static bool allocate(struct embeddings *e)
{
    const size_t n = (size_t)e->j->n_prompt;
    e->n_embd = e->j->model->info.n_embd;
    e->vector = job_alloc(e->j, n * (size_t)e->n_embd * sizeof(float));
    e->key = job_alloc(e->j, n * EMBEDDING_KEY_BYTES);
    e->miss = job_alloc(e->j, n * sizeof(int));
    return e->j->error.http == 0;
}

static void reply_now(struct embeddings *e)
{
    struct string_buffer out;
    string_buffer_init(&out);
    write_reply(e, &out);
    exchange_reply(e->j->x, out.failed ? 503 : 200, "application/json", out.s, out.n);
    string_buffer_release(&out);
    job_free(e->j);
}

static void start(struct embeddings *e)
{
    static const struct responder responder = {
        .content_type = "application/json", .event = take_event, .end = end, .fail = fail, .free = release};
    struct job *j = e->j;
    job_check_context(j);
    if (j->error.http != 0 || !allocate(e)) {
        job_fail(j);
        return;
    }
    look_up(e);
    if (e->n_miss == 0) {
        reply_now(e);
        return;
    }
    struct mr_request *request = job_alloc(j, (size_t)e->n_miss * sizeof *request);
    if (request == NULL) {
        job_fail(j);
        return;
    }
    for (int i = 0; i < e->n_miss; i++) {
        request[i] = j->base;
        request[i].pooling = e->pooling;
        request[i].prompt = j->prompt[e->miss[i]].id;
        request[i].n_prompt = (int32_t)j->prompt[e->miss[i]].n;
    }
    exchange_generate(j->x, j->model, request, e->n_miss, &responder, e);
}

/* The model's own, unless the client names one. */
static void read_pooling(struct embeddings *e)
{
    static const char *const name[] = {[MR_POOLING_MEAN] = "mean", [MR_POOLING_CLS] = "cls", [MR_POOLING_LAST] = "last"};
    const char *asked = NULL;
    e->pooling = (enum mr_pooling)e->j->model->info.pooling;
    if (!json_fields_string(&e->j->fields, "pooling", &asked))
        return;
    e->pooling = MR_POOLING_NONE;
    for (int i = MR_POOLING_MEAN; i < MR_N_POOLINGS; i++)
        if (strcmp(name[i], asked) == 0)
            e->pooling = (enum mr_pooling)i;
    if (e->pooling == MR_POOLING_NONE)
        json_fields_fail(&e->j->fields, "pooling", "must be 'mean', 'cls' or 'last'");
}

static void read_dimensions(struct job *j)
{
    int32_t n = 0;
    if (json_fields_int32(&j->fields, "dimensions", 1, INT32_MAX, &n) && n != j->model->info.n_embd)
        json_fields_fail(&j->fields, "dimensions", "must be %d: vectors are not cut", j->model->info.n_embd);
}

static struct embeddings *open_job(struct exchange *x, enum form form)
{
    static const struct dialect no_dialect = {0}; /* the reply is written here */
    struct job *j = job_open(x, &no_dialect, "embd-");
    struct embeddings *e = j != NULL ? job_alloc(j, sizeof *e) : NULL;
    if (e == NULL) {
        if (j != NULL)
            job_fail(j);
        return NULL;
    }
    *e = (struct embeddings){.j = j, .form = form};
    read_pooling(e);
    read_dimensions(j);
    return e;
}

void embeddings_create(struct exchange *x)
{
    struct embeddings *e = open_job(x, FORM_OPENAI);
    const char *format = "float";
    if (e == NULL)
        return;
    json_fields_string(&e->j->fields, "encoding_format", &format);
    if (strcmp(format, "base64") == 0)
        e->form = FORM_OPENAI_BASE64;
    else if (strcmp(format, "float") != 0)
        json_fields_fail(&e->j->fields, "encoding_format", "must be 'float' or 'base64'");
    prompt_fields_read(e->j, "input");
    start(e);
}

void embeddings_ollama(struct exchange *x)
{
    struct embeddings *e = open_job(x, FORM_OLLAMA);
    if (e == NULL)
        return;
    prompt_fields_read(e->j, "input");
    start(e);
}

void embeddings_ollama_one(struct exchange *x)
{
    struct embeddings *e = open_job(x, FORM_OLLAMA_ONE);
    if (e == NULL)
        return;
    if (!json_is_string(json_fields_get(&e->j->fields, "prompt")))
        json_fields_fail(&e->j->fields, "prompt", "must be a string");
    prompt_fields_read(e->j, "prompt");
    start(e);
}
