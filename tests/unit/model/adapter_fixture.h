/* adapter_fixture.h: LoRA adapters with random numbers for the models of the tests. */
#ifndef TESTS_UNIT_MODEL_ADAPTER_FIXTURE_H
#define TESTS_UNIT_MODEL_ADAPTER_FIXTURE_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fp16.h"
#include "format/gguf_write.h"

enum {
    ADAPTER_FIXTURE_TENSORS = 512
};

/* What the file is to have, beside what a good one has; zero: nothing. */
struct adapter_recipe {
    int rank, seed;
    float alpha;
    const char *only;  /* products whose name holds this; NULL: all */
    bool f16;          /* the type of its tensors */
    const char *arch;  /* NULL: that of the model */
    const char *extra; /* name of one more tensor, 4 x 4 */
    const char *leave; /* name of a tensor that is left out */
    const char *wide;  /* name of a tensor with one more column */
    const char *nan;   /* name of a tensor with a NaN */
    const char *key;   /* one more key */
};

struct adapter_tensor {
    char name[128];
    int64_t dims[2];
};

static inline bool adapter_takes(const char *name, size_t n, const char *only)
{
    static const char *const parts[] = {".attn_q.",      ".attn_k.",   ".attn_v.", ".attn_qkv.",
                                        ".attn_output.", ".ffn_gate.", ".ffn_up.", ".ffn_down."};
    if (n < 8 || memcmp(name + n - 7, ".weight", 7) != 0)
        return false;
    bool is_product = false;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        is_product |= memmem(name, n, parts[i], strlen(parts[i])) != NULL;
    return is_product && (only == NULL || memmem(name, n, only, strlen(only)) != NULL);
}

static inline void adapter_add_tensor(struct adapter_tensor *t, int *n, const struct adapter_recipe *r, const char *name,
                                      int64_t columns, int64_t rows)
{
    if (r->leave != NULL && strcmp(name, r->leave) == 0)
        return;
    assert_true(*n < ADAPTER_FIXTURE_TENSORS);
    snprintf(t[*n].name, sizeof t->name, "%s", name);
    t[*n].dims[0] = columns + (r->wide != NULL && strcmp(name, r->wide) == 0);
    t[(*n)++].dims[1] = rows;
}

static inline int adapter_tensors(struct adapter_tensor *t, const struct gguf *base, const struct adapter_recipe *r)
{
    int n = 0;
    char name[128];
    for (int i = 0; i < gguf_n_tensors(base); i++) {
        const struct gguf_tensor *b = gguf_tensor_at(base, i);
        if (!adapter_takes(b->name.s, b->name.n, r->only))
            continue;
        snprintf(name, sizeof name, "%.*s.lora_a", (int)b->name.n, b->name.s);
        adapter_add_tensor(t, &n, r, name, b->dims[0], r->rank);
        snprintf(name, sizeof name, "%.*s.lora_b", (int)b->name.n, b->name.s);
        adapter_add_tensor(t, &n, r, name, r->rank, b->dims[1]);
    }
    if (r->extra != NULL)
        adapter_add_tensor(t, &n, r, r->extra, 4, 4);
    return n;
}

static inline void adapter_write_tensor(struct gguf_writer *w, const struct adapter_tensor *t, const struct adapter_recipe *r,
                                        uint32_t *random, struct mr_error *err)
{
    const float size = 0.5f / sqrtf((float)t->dims[0]);
    for (int64_t i = 0; i < t->dims[0] * t->dims[1]; i++) {
        *random = *random * 1664525u + 1013904223u;
        float x = size * ((float)(*random >> 8) / 8388608.0f - 1);
        if (i == 3 && r->nan != NULL && strcmp(t->name, r->nan) == 0)
            x = NAN;
        const uint16_t half = f16_from_f32(x);
        assert_int_equal(r->f16 ? gguf_write_data(w, &half, sizeof half, err) : gguf_write_data(w, &x, sizeof x, err), MR_OK);
    }
}

/* Write an adapter of this recipe for the model of a GGUF file. */
static inline void adapter_write(const char *path, const char *base_path, const struct adapter_recipe *r)
{
    static struct adapter_tensor t[ADAPTER_FIXTURE_TENSORS];
    struct mr_error err = {""};
    struct gguf *base;
    struct gguf_writer *w;
    struct gguf_string arch;
    uint32_t random = (uint32_t)r->seed * 7919u + 1;
    assert_int_equal(gguf_open(&base, base_path, &err), MR_OK);
    assert_int_equal(gguf_get_string(base, "general.architecture", &arch, &err), MR_OK);
    if (r->arch != NULL)
        arch = (struct gguf_string){r->arch, strlen(r->arch)};
    assert_int_equal(gguf_writer_create(&w, path, &err), MR_OK);
    gguf_put_string(w, "general.type", (struct gguf_string){"adapter", 7}, &err);
    gguf_put_string(w, "general.architecture", arch, &err);
    gguf_put_string(w, "adapter.type", (struct gguf_string){"lora", 4}, &err);
    gguf_put_f32(w, "adapter.lora.alpha", r->alpha > 0 ? r->alpha : 2.0f * (float)r->rank, &err);
    if (r->key != NULL)
        gguf_put_int(w, r->key, GGUF_U32, 1, &err);
    const int n = adapter_tensors(t, base, r);
    for (int i = 0; i < n; i++)
        assert_int_equal(gguf_declare_tensor(w, (struct gguf_string){t[i].name, strlen(t[i].name)},
                                             quant_find(r->f16 ? QUANT_F16 : QUANT_F32), 2, t[i].dims, &err),
                         MR_OK);
    if (gguf_begin_data(w, &err) != MR_OK)
        fail_msg("%s", err.message);
    for (int i = 0; i < n; i++)
        adapter_write_tensor(w, &t[i], r, &random, &err);
    assert_int_equal(gguf_writer_finish(w, &err), MR_OK);
    gguf_writer_free(w);
    gguf_close(base);
}

#endif
