/* engine_fixture.h: a small random model with a tokenizer of 256 tokens, one for each byte. */
#ifndef TESTS_UNIT_ENGINE_FIXTURE_H
#define TESTS_UNIT_ENGINE_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/utf8.h"
#include "engine/loaded_model.h"
#include "format/gguf_write.h"

enum {
    N_VOCAB = 256,
    END_TOKEN = 0 /* "<end>" instead of byte 0; every other id is its byte */
};

static inline void check(enum mr_status status, const struct mr_error *err)
{
    if (status != MR_OK)
        fail_msg("%s: %s", mr_status_text(status), err->message);
}

/* A tokenizer: byte-level BPE without merges. */
static inline void put_vocabulary(struct gguf_writer *w)
{
    static char spelling[N_VOCAB][8];
    struct gguf_string token[N_VOCAB];
    int32_t type[N_VOCAB];
    struct mr_error err = {{0}};
    uint32_t next = 256;
    for (int b = 0; b < N_VOCAB; b++) { /* the printable characters that GPT-2 gives the bytes */
        const bool printable = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
        int n = utf8_encode(spelling[b], printable ? (uint32_t)b : next++);
        if (b == END_TOKEN)
            n = snprintf(spelling[b], sizeof spelling[b], "<end>");
        token[b] = (struct gguf_string){spelling[b], (size_t)n};
        type[b] = b == END_TOKEN ? 3 : 1;
    }
    check(gguf_put_string(w, "tokenizer.ggml.model", (struct gguf_string){"gpt2", 4}, &err), &err);
    check(gguf_put_string(w, "tokenizer.ggml.pre", (struct gguf_string){"gpt-2", 5}, &err), &err);
    check(gguf_put_strings(w, "tokenizer.ggml.tokens", token, N_VOCAB, &err), &err);
    check(gguf_put_array(w, "tokenizer.ggml.token_type", GGUF_I32, type, N_VOCAB, &err), &err);
    check(gguf_put_strings(w, "tokenizer.ggml.merges", NULL, 0, &err), &err);
    check(gguf_put_int(w, "tokenizer.ggml.eos_token_id", GGUF_U32, END_TOKEN, &err), &err);
}

static inline void copy_tensors(struct gguf_writer *w, const struct gguf *g)
{
    static char bytes[1 << 20];
    struct mr_error err = {{0}};
    for (int i = 0; i < gguf_n_tensors(g); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(g, i);
        check(gguf_declare_tensor(w, t->name, t->quant, t->n_dims, t->dims, &err), &err);
    }
    check(gguf_begin_data(w, &err), &err);
    for (int i = 0; i < gguf_n_tensors(g); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(g, i);
        assert_true(t->bytes <= sizeof bytes);
        check(gguf_read(g, t, 0, bytes, t->bytes, &err), &err);
        check(gguf_write_data(w, bytes, t->bytes, &err), &err);
    }
}

/* The model as a file of its own; path is that of mkstemp. */
static inline void write_model(char *path, const char *source)
{
    struct mr_error err = {{0}};
    struct gguf *g;
    struct gguf_writer *w;
    close(mkstemp(path));
    check(gguf_open(&g, source, &err), &err);
    check(gguf_writer_create(&w, path, &err), &err);
    for (int i = 0; i < gguf_n_values(g); i++)
        check(gguf_put_value(w, gguf_value_at(g, i), &err), &err);
    put_vocabulary(w);
    copy_tensors(w, g);
    check(gguf_writer_finish(w, &err), &err);
    gguf_writer_free(w);
    gguf_close(g);
}

/* source: a model of tests/golden/data, of N_VOCAB tokens. draft: another one that guesses; NULL: none. */
static inline struct mr_model *fixture_model_and_draft(const char *source, const char *draft, int n_thread, int kv_int8)
{
    char path[] = "/tmp/millrace-model-XXXXXX", draft_path[] = "/tmp/millrace-draft-XXXXXX";
    struct mr_error err = {{0}};
    struct mr_options options;
    struct mr_model *m;
    write_model(path, source);
    if (draft != NULL)
        write_model(draft_path, draft);
    mr_options_defaults(&options);
    options.threads = n_thread;
    options.max_running = 64;
    options.kv_int8 = kv_int8;
    options.draft_model = draft != NULL ? draft_path : NULL;
    options.cpu = getenv("MILLRACE_CPU");
    check(mr_model_open(&m, path, &options, &err), &err);
    unlink(path);
    if (draft != NULL)
        unlink(draft_path);
    assert_int_equal(model_info(m->model)->n_vocab, N_VOCAB);
    return m;
}

static inline struct mr_model *fixture_model_with(const char *source, int n_thread, int kv_int8)
{
    return fixture_model_and_draft(source, NULL, n_thread, kv_int8);
}

static inline struct mr_model *fixture_model_of(const char *source, int n_thread)
{
    return fixture_model_with(source, n_thread, 0);
}

static inline struct mr_model *fixture_model(int n_thread)
{
    return fixture_model_of(TEST_SOURCE_DIR "/golden/data/tiny_llama3_q8_0.gguf", n_thread);
}

static inline struct mr_engine *fixture_engine(struct mr_model *m, int max_running, int prompt_chunk, int n_ctx)
{
    struct mr_options options;
    struct mr_error err = {{0}};
    struct mr_engine *e;
    mr_options_defaults(&options);
    options.max_running = max_running;
    options.prompt_chunk = prompt_chunk;
    options.n_ctx = n_ctx;
    check(mr_engine_create(&e, m, &options, &err), &err);
    return e;
}

/* What became of one answer. */
struct outcome {
    uint64_t id;
    int32_t sample;
    int32_t token[1024];
    int n_token;
    float logprob[1024];
    float scored[256]; /* logprobs of the prompt's tokens */
    int n_scored;
    float embedding[1024];
    int n_embedding;
    char text[2048];
    size_t n_text;
    enum mr_finish finish;
    struct mr_usage usage;
    int order; /* 1 for the request that ended first */
};

/* Take all events; each must belong to one of the n outcomes. */
static inline void take_events(struct mr_engine *e, struct outcome *o, int n)
{
    struct mr_event event;
    static int n_ended;
    while (mr_engine_next_event(e, &event)) {
        int i = 0;
        while (i < n && (o[i].id != event.request || o[i].sample != event.sample))
            i++;
        assert_true(i < n);
        assert_int_equal(o[i].finish, MR_FINISH_NONE); /* nothing comes after the end */
        if (event.is_prompt) {
            o[i].scored[o[i].n_scored++] = event.logprob;
            continue;
        }
        if (event.token >= 0) {
            o[i].logprob[o[i].n_token] = event.logprob;
            o[i].token[o[i].n_token++] = event.token;
        }
        memcpy(o[i].text + o[i].n_text, event.text, event.n_text);
        o[i].n_text += event.n_text;
        if (event.n_embedding > 0)
            memcpy(o[i].embedding, event.embedding, (size_t)event.n_embedding * sizeof *event.embedding);
        o[i].n_embedding = event.n_embedding;
        o[i].finish = event.finish;
        o[i].usage = event.usage;
        if (event.finish != MR_FINISH_NONE)
            o[i].order = ++n_ended;
    }
}

static inline void run_to_end(struct mr_engine *e, struct outcome *o, int n)
{
    for (int i = 0; !mr_engine_is_idle(e); i++) {
        assert_true(i < 100000);
        mr_engine_step(e);
        take_events(e, o, n);
    }
}

static inline uint64_t submit(struct mr_engine *e, const struct mr_request *r)
{
    uint64_t id;
    struct mr_error err = {{0}};
    check(mr_engine_submit(e, r, &id, &err), &err);
    return id;
}

#endif
