/* test_packed.c: packed files give the same logits, and are refused where they do not fit. */
#include "base/cpu.h"
#include "format/gguf_write.h"
#include "model_fixture.h"

static char packed_path[] = "/tmp/packed.XXXXXX", copy_path[] = "/tmp/packed_copy.XXXXXX";

static int make_paths(void **state)
{
    (void)state;
    const int a = mkstemp(packed_path), b = mkstemp(copy_path);
    return a >= 0 && b >= 0 && close(a) == 0 && close(b) == 0 ? 0 : -1;
}

static int remove_paths(void **state)
{
    (void)state;
    return unlink(packed_path) == 0 && unlink(copy_path) == 0 ? 0 : -1;
}

/* A model and the file that it may be a view of. */
struct opened {
    struct fixture f;
    struct gguf *g;
};

static enum mr_status open_file(struct opened *o, const char *path, enum precision precision, const char *isa,
                                struct mr_error *err)
{
    unsigned features;
    struct model_options options;
    *o = (struct opened){0};
    assert_int_equal(cpu_features(&features, isa, NULL), MR_OK);
    assert_int_equal(pool_create(&o->f.pool, 2, NULL), MR_OK);
    assert_int_equal(cpu_device_create(&o->f.device, o->f.pool, features, NULL), MR_OK);
    model_options_defaults(&options);
    options.device = o->f.device;
    options.precision = precision;
    MR_TRY(gguf_open(&o->g, path, err));
    MR_TRY(model_open(&o->f.model, o->g, &options, err));
    return model_kv_create(&o->f.kv, o->f.model, 8, 1024, 4096, err);
}

static void close_file(struct opened *o)
{
    fixture_close(&o->f);
    gguf_close(o->g);
}

/* Logits of a text of 40 tokens, and how many; n may be NULL. */
static float *logits_of(const char *path, enum precision precision, const char *pack_to, size_t *n)
{
    struct opened o;
    struct mr_error err = {""};
    if (open_file(&o, path, precision, getenv("MILLRACE_CPU"), &err) != MR_OK)
        fail_msg("%s", err.message);
    if (pack_to != NULL)
        assert_int_equal(model_pack(o.f.model, o.g, pack_to, NULL, NULL, NULL), MR_OK);
    float *logits = fixture_logits(&o.f, 0, 40, 16);
    if (n != NULL)
        *n = (size_t)model_info(o.f.model)->n_vocab;
    close_file(&o);
    return logits;
}

static void packed_files_give_the_same_logits(void **state)
{
    (void)state;
    static const struct {
        const char *path;
        enum precision precision;
    } list[] = {
        {TINY("llama3"), PRECISION_AUTO},      {TINY("llama3"), PRECISION_FP32},    {TINY("llama3_q8_0"), PRECISION_AUTO},
        {TINY("llama3_q8_0"), PRECISION_FP32}, {TINY("qwen2"), PRECISION_AUTO},     {TINY("gemma3"), PRECISION_AUTO},
        {TINY("olmoe_q8_0"), PRECISION_AUTO},  {TINY("gpt2_q8_0"), PRECISION_AUTO}, {SMOLLM2, PRECISION_AUTO},
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        if (!fixture_has(list[i].path))
            continue;
        size_t n, m;
        float *plain = logits_of(list[i].path, list[i].precision, packed_path, &n);
        float *packed = logits_of(packed_path, list[i].precision, NULL, &m);
        assert_int_equal(n, m);
        assert_memory_equal(plain, packed, n * sizeof *plain);
        free(plain);
        free(packed);
    }
}

static void refused(const char *path, enum precision precision, const char *isa, enum mr_status status, const char *words)
{
    struct opened o;
    struct mr_error err = {""};
    assert_int_equal(open_file(&o, path, precision, isa, &err), status);
    if (strstr(err.message, words) == NULL)
        fail_msg("'%s' does not say '%s'", err.message, words);
    close_file(&o);
}

static void other_products_are_refused(void **state)
{
    (void)state;
    free(logits_of(TINY("llama3_q8_0"), PRECISION_AUTO, packed_path, NULL));
    refused(packed_path, PRECISION_FP32, getenv("MILLRACE_CPU"), MR_NO_SUPPORT, "pack the original model again");
    unsigned features;
    assert_int_equal(cpu_features(&features, getenv("MILLRACE_CPU"), NULL), MR_OK);
    if (features != 0)
        refused(packed_path, PRECISION_AUTO, "scalar", MR_NO_SUPPORT, "pack the original model again");
}

static void a_packed_file_is_not_packed_again(void **state)
{
    (void)state;
    struct opened o;
    struct mr_error err = {""};
    free(logits_of(TINY("llama3_q8_0"), PRECISION_AUTO, packed_path, NULL));
    assert_int_equal(open_file(&o, packed_path, PRECISION_AUTO, getenv("MILLRACE_CPU"), &err), MR_OK);
    assert_int_equal(model_pack(o.f.model, o.g, copy_path, NULL, NULL, &err), MR_BAD_INPUT);
    assert_string_equal(err.message, "the model is packed already");
    close_file(&o);
}

static bool never(void *context, size_t done, size_t total)
{
    (void)context;
    assert_true(done <= total);
    return false;
}

static void packing_can_be_stopped(void **state)
{
    (void)state;
    struct opened o;
    struct mr_error err = {""};
    free(logits_of(TINY("llama3_q8_0"), PRECISION_AUTO, packed_path, NULL));
    assert_int_equal(open_file(&o, TINY("llama3_q8_0"), PRECISION_AUTO, getenv("MILLRACE_CPU"), &err), MR_OK);
    assert_int_equal(model_pack(o.f.model, o.g, packed_path, never, NULL, &err), MR_CANCELLED);
    close_file(&o);
    float *logits = logits_of(packed_path, PRECISION_AUTO, NULL, NULL); /* what was there still stands */
    free(logits);
}

enum damage {
    DAMAGE_ORDER,    /* the first two matrices change places */
    DAMAGE_SIZE,     /* the last tensor is cut */
    DAMAGE_UNPACKED, /* a matrix stands there as floats */
    DAMAGE_VECTOR,   /* a norm is packed for something */
};

static void put_tensor(struct gguf_writer *w, const struct gguf_tensor *t, enum damage damage, bool is_last)
{
    const bool is_norm = strstr(t->name.s, "output_norm") == t->name.s;
    const int64_t n = (int64_t)(t->bytes / sizeof(float));
    char product[64];
    snprintf(product, sizeof product, "%.*s", (int)t->product.n, t->product.s);
    if (is_last && damage == DAMAGE_SIZE)
        assert_int_equal(gguf_declare_packed(w, t, product, t->bytes - 64, NULL), MR_OK);
    else if (is_norm && damage == DAMAGE_VECTOR)
        assert_int_equal(gguf_declare_packed(w, t, "norm", t->bytes, NULL), MR_OK);
    else if (t->product.n == 0 || (is_last && damage == DAMAGE_UNPACKED))
        assert_int_equal(gguf_declare_tensor(w, t->name, quant_find(QUANT_F32), t->n_dims, t->n_dims == 1 ? &n : t->dims, NULL),
                         MR_OK);
    else
        assert_int_equal(gguf_declare_packed(w, t, product, t->bytes, NULL), MR_OK);
}

/* A copy of the packed file with one thing wrong. */
static void copy_damaged(enum damage damage)
{
    struct gguf *g;
    struct gguf_writer *w;
    assert_int_equal(gguf_open(&g, packed_path, NULL), MR_OK);
    assert_int_equal(gguf_writer_create(&w, copy_path, NULL), MR_OK);
    for (int i = 0; i < gguf_n_values(g); i++) {
        const struct gguf_value *v = gguf_value_at(g, i);
        if (v->key.n < 14 || memcmp(v->key.s, "millrace.pack.", 14) != 0)
            assert_int_equal(gguf_put_value(w, v, NULL), MR_OK);
    }
    const int n = gguf_n_tensors(g);
    int last = n - 1;
    while (gguf_tensor_at(g, last)->product.n == 0)
        last--;
    for (int i = 0; i < n; i++)
        put_tensor(w, gguf_tensor_at(g, damage == DAMAGE_ORDER && i < 2 ? 1 - i : i), damage, i == last);
    assert_int_equal(gguf_begin_data(w, NULL), MR_OK);
    const float one = 1;
    enum mr_status status;
    do /* however many bytes it takes */
        status = gguf_write_data(w, &one, 4, NULL);
    while (status == MR_OK);
    assert_int_equal(gguf_writer_finish(w, NULL), MR_OK);
    gguf_writer_free(w);
    gguf_close(g);
}

static void damage_is_refused(void **state)
{
    (void)state;
    static const struct {
        enum damage damage;
        enum mr_status status;
        const char *words;
    } cases[] = {
        {DAMAGE_ORDER, MR_BAD_FORMAT, "is not in its place"},
        {DAMAGE_SIZE, MR_BAD_FORMAT, "packed bytes, not"},
        {DAMAGE_UNPACKED, MR_BAD_FORMAT, "is not packed"},
        {DAMAGE_VECTOR, MR_BAD_FORMAT, "is no vector of floats"},
    };
    free(logits_of(TINY("llama3_q8_0"), PRECISION_AUTO, packed_path, NULL));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        copy_damaged(cases[i].damage);
        refused(copy_path, PRECISION_AUTO, getenv("MILLRACE_CPU"), cases[i].status, cases[i].words);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packed_files_give_the_same_logits),
        cmocka_unit_test(other_products_are_refused),
        cmocka_unit_test(a_packed_file_is_not_packed_again),
        cmocka_unit_test(packing_can_be_stopped),
        cmocka_unit_test(damage_is_refused),
    };
    return cmocka_run_group_tests(tests, make_paths, remove_paths);
}
