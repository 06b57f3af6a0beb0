/* test_model_load.c: hyper-parameters and tensors that do not fit are refused by name; what is no number is reported.
 * Each case is a copy of a small model with one thing changed. */
#include <math.h>

#include "base/fp16.h"
#include "format/gguf_write.h"
#include "model_fixture.h"

enum edit_kind {
    EDIT_NONE,
    EDIT_DROP_KEY,
    EDIT_INT, /* set or add a key */
    EDIT_F32,
    EDIT_STRING,
    EDIT_DROP_TENSOR,
    EDIT_RENAME_TENSOR, /* to `text` */
    EDIT_SWAP_DIMS,
    EDIT_FEWER_ROWS, /* the last dimension is one less */
    EDIT_ADD_TENSOR, /* a vector of 16 zeros */
    EDIT_FILL_NAN,
    EDIT_FILL_INFINITY,
    EDIT_FILL_HUGE, /* a vector of f32 */
};

struct edit {
    enum edit_kind kind;
    const char *name; /* key or tensor */
    int64_t number;
    float value;
    const char *text;
};

static char path[] = "/tmp/millrace-model-load-XXXXXX";

static bool is(struct gguf_string s, const char *name) { return s.n == strlen(name) && memcmp(s.s, name, s.n) == 0; }

static struct gguf_string string(const char *s) { return (struct gguf_string){s, strlen(s)}; }

static void copy_keys(struct gguf_writer *w, const struct gguf *g, const struct edit *e)
{
    const bool sets = e->kind == EDIT_INT || e->kind == EDIT_F32 || e->kind == EDIT_STRING;
    for (int i = 0; i < gguf_n_values(g); i++) {
        const struct gguf_value *v = gguf_value_at(g, i);
        if (!((sets || e->kind == EDIT_DROP_KEY) && is(v->key, e->name)))
            assert_int_equal(gguf_put_value(w, v, NULL), MR_OK);
    }
    if (e->kind == EDIT_INT)
        assert_int_equal(gguf_put_int(w, e->name, GGUF_I64, e->number, NULL), MR_OK);
    else if (e->kind == EDIT_F32)
        assert_int_equal(gguf_put_f32(w, e->name, e->value, NULL), MR_OK);
    else if (e->kind == EDIT_STRING)
        assert_int_equal(gguf_put_string(w, e->name, string(e->text), NULL), MR_OK);
}

static void declare(struct gguf_writer *w, const struct gguf_tensor *t, const struct edit *e)
{
    const bool hit = e->name != NULL && is(t->name, e->name);
    int64_t dims[GGUF_MAX_DIMS];
    memcpy(dims, t->dims, sizeof dims);
    if (hit && e->kind == EDIT_SWAP_DIMS) {
        dims[0] = t->dims[1];
        dims[1] = t->dims[0];
    } else if (hit && e->kind == EDIT_FEWER_ROWS) {
        dims[t->n_dims - 1]--;
    }
    const struct gguf_string name = hit && e->kind == EDIT_RENAME_TENSOR ? string(e->text) : t->name;
    assert_int_equal(gguf_declare_tensor(w, name, t->quant, t->n_dims, dims, NULL), MR_OK);
}

static void write_tensor(struct gguf_writer *w, const struct gguf_tensor *t, const struct edit *e)
{
    const bool hit = e->name != NULL && is(t->name, e->name);
    const size_t n = hit && e->kind == EDIT_FEWER_ROWS ? t->bytes - t->bytes / (size_t)t->dims[t->n_dims - 1] : t->bytes;
    uint16_t *bytes = malloc(n);
    assert_non_null(bytes);
    memcpy(bytes, t->data, n);
    if (hit && (e->kind == EDIT_FILL_NAN || e->kind == EDIT_FILL_INFINITY)) /* the small models hold f16 */
        for (size_t i = 0; i < n / 2; i++)
            bytes[i] = f16_from_f32(e->kind == EDIT_FILL_NAN ? NAN : INFINITY);
    for (size_t i = 0; hit && e->kind == EDIT_FILL_HUGE && i < n / sizeof(float); i++)
        ((float *)(void *)bytes)[i] = 3.4e38f;
    assert_int_equal(gguf_write_data(w, bytes, n, NULL), MR_OK);
    free(bytes);
}

static void write_edited(const char *source, const struct edit *e)
{
    static const float zeros[16];
    struct gguf *g;
    struct gguf_writer *w;
    assert_int_equal(gguf_open(&g, source, NULL), MR_OK);
    assert_int_equal(gguf_writer_create(&w, path, NULL), MR_OK);
    copy_keys(w, g, e);
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < gguf_n_tensors(g); i++) {
            const struct gguf_tensor *t = gguf_tensor_at(g, i);
            if (e->kind == EDIT_DROP_TENSOR && is(t->name, e->name))
                continue;
            if (pass == 0)
                declare(w, t, e);
            else
                write_tensor(w, t, e);
        }
        if (pass == 0) {
            if (e->kind == EDIT_ADD_TENSOR)
                assert_int_equal(
                    gguf_declare_tensor(w, string(e->name), quant_find(QUANT_F32), 1, (const int64_t[4]){16, 1, 1, 1}, NULL),
                    MR_OK);
            assert_int_equal(gguf_begin_data(w, NULL), MR_OK);
        } else if (e->kind == EDIT_ADD_TENSOR) {
            assert_int_equal(gguf_write_data(w, zeros, sizeof zeros, NULL), MR_OK);
        }
    }
    struct mr_error err;
    if (gguf_writer_finish(w, &err) != MR_OK)
        fail_msg("%s", err.message);
    gguf_writer_free(w);
    gguf_close(g);
}

/* Open the edited file; on success the caller closes f. */
static enum mr_status open_edited(struct fixture *f, const char *source, const struct edit *e, enum precision precision,
                                  struct mr_error *err)
{
    struct gguf *g;
    struct model_options options;
    *f = (struct fixture){0};
    err->message[0] = '\0';
    write_edited(source, e);
    fixture_make_device(f, 2);
    model_options_defaults(&options);
    options.device = f->device;
    options.precision = precision;
    assert_int_equal(gguf_open(&g, path, err), MR_OK);
    const enum mr_status status = model_open(&f->model, g, &options, err);
    if (status != MR_OK) {
        struct model_memory memory;
        assert_null(f->model);
        const bool planned = e->kind == EDIT_FILL_NAN || e->kind == EDIT_FILL_INFINITY; /* seen as the weights are read */
        assert_int_equal(model_estimate(&memory, g, &options, 100, NULL), planned ? MR_OK : status);
        fixture_close(f);
    }
    gguf_close(g);
    return status;
}

static void expect_refusals(const char *source, const struct edit *edit, const enum mr_status *status,
                            const char *const *message, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct fixture f;
        struct mr_error err;
        const enum mr_status got = open_edited(&f, source, &edit[i], PRECISION_AUTO, &err);
        if (got == MR_OK)
            fail_msg("case %zu (%s) was accepted", i, edit[i].name);
        assert_string_equal(err.message, message[i]);
        assert_int_equal(got, status[i]);
    }
}

#define REFUSED(source, list)                                                                                                  \
    do {                                                                                                                       \
        struct edit edits[sizeof list / sizeof *list];                                                                         \
        enum mr_status statuses[sizeof list / sizeof *list];                                                                   \
        const char *messages[sizeof list / sizeof *list];                                                                      \
        for (size_t k = 0; k < sizeof list / sizeof *list; k++) {                                                              \
            edits[k] = list[k].edit;                                                                                           \
            statuses[k] = list[k].status;                                                                                      \
            messages[k] = list[k].message;                                                                                     \
        }                                                                                                                      \
        expect_refusals(source, edits, statuses, messages, sizeof list / sizeof *list);                                        \
    } while (0)

struct refusal {
    struct edit edit;
    enum mr_status status;
    const char *message;
};

static void hyper_parameters_out_of_range(void **state)
{
    (void)state;
    static const struct refusal list[] = {
        {{EDIT_INT, "llama.attention.head_count", 0, 0, NULL},
         MR_BAD_FORMAT,
         "key 'llama.attention.head_count' is 0, not in 1..1048576"},
        {{EDIT_INT, "llama.attention.head_count_kv", 0, 0, NULL},
         MR_BAD_FORMAT,
         "key 'llama.attention.head_count_kv' is 0, not in 1..1048576"},
        {{EDIT_INT, "llama.attention.head_count_kv", 3, 0, NULL},
         MR_BAD_FORMAT,
         "key 'llama.attention.head_count_kv': 3 does not divide the 4 heads"},
        {{EDIT_INT, "llama.block_count", 0, 0, NULL}, MR_BAD_FORMAT, "key 'llama.block_count' is 0, not in 1..4096"},
        {{EDIT_INT, "llama.block_count", 1000000000, 0, NULL},
         MR_BAD_FORMAT,
         "key 'llama.block_count' is 1000000000, not in 1..4096"},
        {{EDIT_INT, "llama.embedding_length", 0, 0, NULL},
         MR_BAD_FORMAT,
         "key 'llama.embedding_length' is 0, not in 1..1048576"},
        {{EDIT_INT, "llama.context_length", 0, 0, NULL},
         MR_BAD_FORMAT,
         "key 'llama.context_length' is 0, not in 1..2147483631"},
        {{EDIT_INT, "llama.attention.key_length", 15, 0, NULL},
         MR_NO_SUPPORT,
         "key 'llama.attention.value_length': 16 differs from the 15 of the keys"},
        {{EDIT_INT, "llama.rope.dimension_count", 7, 0, NULL}, MR_BAD_FORMAT, "key 'llama.rope.dimension_count': 7 is odd"},
        {{EDIT_F32, "llama.attention.layer_norm_rms_epsilon", 0, 0, NULL},
         MR_BAD_FORMAT,
         "key 'llama.attention.layer_norm_rms_epsilon': 0 is not above 0"},
        {{EDIT_F32, "llama.rope.freq_base", 0, 0, NULL}, MR_BAD_FORMAT, "key 'llama.rope.freq_base': 0 is not above 0"},
        {{EDIT_INT, "llama.attention.sliding_window", 0, 0, NULL},
         MR_BAD_FORMAT,
         "key 'llama.attention.sliding_window' is 0, not in 1..2147483647"},
        {{EDIT_STRING, "llama.rope.scaling.type", 0, 0, "longrope"},
         MR_NO_SUPPORT,
         "key 'llama.rope.scaling.type': rope scaling 'longrope' is not known"},
        {{EDIT_STRING, "general.architecture", 0, 0, "mamba"},
         MR_NO_SUPPORT,
         "key 'general.architecture': 'mamba' is not a family that this build knows"},
        {{EDIT_DROP_KEY, "llama.block_count", 0, 0, NULL}, MR_NOT_FOUND, "key 'llama.block_count' is missing"},
        {{EDIT_INT, "llama.vocab_size", 255, 0, NULL},
         MR_BAD_FORMAT,
         "tensor 'token_embd.weight' has 256 rows, key 'llama.vocab_size' states 255"},
    };
    REFUSED(TINY("llama3"), list);
}

static void numbers_that_are_none(void **state)
{
    (void)state;
    static const char *const keys[] = {"llama.attention.layer_norm_rms_epsilon", "llama.rope.freq_base",
                                       "llama.rope.scaling.factor"};
    static const float values[] = {NAN, INFINITY, -1};
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
        for (size_t v = 0; v < sizeof values / sizeof *values; v++) {
            struct fixture f;
            struct mr_error err;
            const struct edit e = {.kind = EDIT_F32, .name = keys[k], .value = values[v]};
            assert_int_equal(open_edited(&f, TINY("llama3"), &e, PRECISION_AUTO, &err), MR_BAD_FORMAT);
            assert_non_null(strstr(err.message, keys[k]));
        }
}

static void what_the_family_does_not_use(void **state)
{
    (void)state;
    static const struct refusal list[] = {
        {{EDIT_ADD_TENSOR, "blk.0.attn_q.bias", 0, 0, NULL},
         MR_NO_SUPPORT,
         "tensor 'blk.0.attn_q.bias': the family 'llama' does not use it"},
        {{EDIT_F32, "llama.attn_logit_softcapping", 0, 50, NULL},
         MR_NO_SUPPORT,
         "key 'llama.attn_logit_softcapping': the family 'llama' does not use it"},
        {{EDIT_INT, "llama.expert_count", 8, 0, NULL},
         MR_NO_SUPPORT,
         "key 'llama.expert_count': the family 'llama' does not use it"},
        {{EDIT_INT, "llama.block_count", 1, 0, NULL},
         MR_NO_SUPPORT,
         "tensor 'blk.1.attn_q.weight': the family 'llama' does not use it"},
    };
    REFUSED(TINY("llama3"), list);
}

static void tensors_that_do_not_fit(void **state)
{
    (void)state;
    static const struct refusal list[] = {
        {{EDIT_DROP_TENSOR, "blk.1.ffn_up.weight", 0, 0, NULL}, MR_NOT_FOUND, "there is no tensor 'blk.1.ffn_up.weight'"},
        {{EDIT_SWAP_DIMS, "blk.0.attn_k.weight", 0, 0, NULL},
         MR_BAD_FORMAT,
         "tensor 'blk.0.attn_k.weight' has the shape 32 x 64, not 64 x 32"},
        {{EDIT_FEWER_ROWS, "blk.1.attn_q.weight", 0, 0, NULL},
         MR_BAD_FORMAT,
         "tensor 'blk.1.attn_q.weight' has the shape 64 x 63, not 64 x 64"},
        {{EDIT_FEWER_ROWS, "output.weight", 0, 0, NULL},
         MR_BAD_FORMAT,
         "tensor 'output.weight' has the shape 64 x 255, not 64 x 256"},
        {{EDIT_FEWER_ROWS, "output_norm.weight", 0, 0, NULL},
         MR_BAD_FORMAT,
         "tensor 'output_norm.weight' has the shape 63, not 64"},
        {{EDIT_FEWER_ROWS, "rope_freqs.weight", 0, 0, NULL},
         MR_BAD_FORMAT,
         "tensor 'rope_freqs.weight' is f32 of 7, not f32 of 8"},
        {{EDIT_DROP_TENSOR, "token_embd.weight", 0, 0, NULL}, MR_NOT_FOUND, "there is no tensor 'token_embd.weight'"},
    };
    REFUSED(TINY("llama3"), list);
}

static void weights_that_are_no_numbers_are_refused(void **state)
{
    (void)state;
    static const char *const tensors[] = {"token_embd.weight", "blk.0.attn_k.weight", "blk.1.ffn_gate.weight", "output.weight"};
    static const enum precision precisions[] = {PRECISION_AUTO, PRECISION_FP32, PRECISION_INT8};
    for (size_t t = 0; t < sizeof tensors / sizeof *tensors; t++)
        for (int kind = EDIT_FILL_NAN; kind <= EDIT_FILL_INFINITY; kind++)
            for (size_t k = 0; k < sizeof precisions / sizeof *precisions; k++) {
                struct fixture f;
                struct mr_error err;
                const struct edit e = {.kind = (enum edit_kind)kind, .name = tensors[t]};
                assert_int_equal(open_edited(&f, TINY("llama3"), &e, precisions[k], &err), MR_BAD_FORMAT);
                assert_non_null(strstr(err.message, tensors[t]));
                assert_non_null(strstr(err.message, "has a NaN or an infinity"));
            }
}

/* A norm's weights grow so far that products of them overflow. */
static void activations_that_overflow_are_reported_with_layer_and_step(void **state)
{
    (void)state;
    static const struct {
        const char *model, *tensor, *message;
    } cases[] = {
        {TINY("llama3"), "blk.1.attn_norm.weight", "layer 1: the norm gave NaN or infinity at position 0"},
        {TINY("llama3"), "blk.0.ffn_norm.weight", "layer 0: the norm gave NaN or infinity at position 0"},
        {TINY("gpt2"), "blk.1.ffn_norm.weight", "layer 1: the norm gave NaN or infinity at position 0"},
        {TINY("olmoe"), "blk.1.ffn_norm.weight", "layer 1: the norm gave NaN or infinity at position 0"},
        {TINY("qwen2"), "output_norm.weight", "outside the layers: the last norm gave NaN or infinity at position 2"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct fixture f;
        struct mr_error err;
        const struct edit e = {.kind = EDIT_FILL_HUGE, .name = cases[i].tensor};
        assert_int_equal(open_edited(&f, cases[i].model, &e, PRECISION_AUTO, &err), MR_OK);
        assert_int_equal(model_kv_create(&f.kv, f.model, 1, 100, 100, NULL), MR_OK);
        const int32_t token[] = {3, 4, 5};
        const kv_seq a = fixture_sequence(&f), seq[] = {a, a, a};
        const struct batch batch = {.n_row = 3, .token = token, .seq = seq};
        assert_int_equal(model_forward(f.model, f.kv, &batch, &err), MR_BAD_FORMAT);
        assert_string_equal(err.message, cases[i].message);
        assert_int_equal(kv_seq_length(model_kv_cache(f.kv), a), 0);
        fixture_close(&f);
    }
}

static void a_model_that_does_not_fit_is_refused_with_both_sizes(void **state)
{
    (void)state;
    struct fixture f = {0};
    struct gguf *g;
    struct mr_error err;
    struct model_options options;
    fixture_make_device(&f, 1);
    model_options_defaults(&options);
    options.device = f.device;
    options.memory_bytes = 1000000;
    assert_int_equal(gguf_open(&g, TINY("llama3"), NULL), MR_OK);
    assert_int_equal(model_open(&f.model, g, &options, &err), MR_NO_MEMORY);
    assert_null(f.model);
    assert_non_null(strstr(err.message, "weights take 0.000 GB and activations 0.00"));
    assert_non_null(strstr(err.message, "but 0.001 GB of memory are free"));
    options.memory_bytes = 100000000;
    assert_int_equal(model_open(&f.model, g, &options, &err), MR_OK);
    gguf_close(g);
    fixture_close(&f);
}

static void blocks_used_before_leave_no_trace(void **state)
{
    (void)state;
    struct fixture f;
    struct mr_error err;
    const struct edit none = {.kind = EDIT_NONE};
    assert_int_equal(open_edited(&f, TINY("mistral"), &none, PRECISION_AUTO, &err), MR_OK);
    assert_int_equal(model_kv_create(&f.kv, f.model, 2, 200, 400, NULL), MR_OK);
    float *first = fixture_logits(&f, 0, 21, 512);
    free(fixture_logits(&f, 1, 150, 512)); /* its blocks come back and are used again */
    float *again = fixture_logits(&f, 0, 21, 512);
    fixture_same_bits(&f, first, again);
    free(first);
    free(again);
    fixture_close(&f);
}

static void batches_out_of_range(void **state)
{
    (void)state;
    struct fixture f;
    struct mr_error err;
    fixture_open(&f, TINY("llama3"), PRECISION_AUTO, 1);
    const kv_seq a = fixture_sequence(&f), b = fixture_sequence(&f);
    const int32_t bad[] = {3, 256};
    const kv_seq same[] = {a, a}, apart[] = {a, b, a};
    const int32_t good[] = {1, 2, 3};
    const struct batch outside = {.n_row = 2, .token = bad, .seq = same};
    assert_int_equal(model_forward(f.model, f.kv, &outside, &err), MR_BAD_INPUT);
    assert_string_equal(err.message, "batch: token 256 is not in the vocabulary of 256");
    const struct batch empty = {.n_row = 0};
    assert_int_equal(model_forward(f.model, f.kv, &empty, &err), MR_BAD_INPUT);
    const struct batch mixed = {.n_row = 3, .token = good, .seq = apart};
    assert_int_equal(model_forward(f.model, f.kv, &mixed, &err), MR_BAD_INPUT);
    assert_int_equal(kv_seq_length(model_kv_cache(f.kv), a), 0);
    assert_int_equal(kv_bytes_in_use(model_kv_cache(f.kv)), 0);
    fixture_close(&f);
}

static void a_full_cache_changes_nothing(void **state)
{
    (void)state;
    struct fixture f;
    struct mr_error err;
    fixture_open(&f, TINY("llama3"), PRECISION_AUTO, 1);
    model_kv_free(f.kv);
    assert_int_equal(model_kv_create(&f.kv, f.model, 2, 64, 32, NULL), MR_OK); /* three blocks */
    const kv_seq a = fixture_sequence(&f), b = fixture_sequence(&f);
    fixture_run(&f, a, 0, 0, 32);
    const int32_t token[] = {1, 2};
    const kv_seq seq[] = {a, b};
    const struct batch batch = {.n_row = 2, .token = token, .seq = seq};
    assert_int_equal(model_forward(f.model, f.kv, &batch, &err), MR_FULL);
    assert_int_equal(kv_seq_length(model_kv_cache(f.kv), a), 32);
    assert_int_equal(kv_n_free_blocks(model_kv_cache(f.kv), 0), 1);
    fixture_run(&f, b, 0, 0, 3);
    fixture_close(&f);
}

static void the_estimate_is_what_loading_takes(void **state)
{
    (void)state;
    struct fixture f;
    struct gguf *g;
    struct model_memory memory;
    struct model_options options;
    fixture_open(&f, TINY("gemma3"), PRECISION_AUTO, 1);
    model_options_defaults(&options);
    options.device = f.device;
    assert_int_equal(gguf_open(&g, TINY("gemma3"), NULL), MR_OK);
    assert_int_equal(model_estimate(&memory, g, &options, 1024, NULL), MR_OK);
    assert_int_equal(memory.weight_bytes, model_info(f.model)->weight_bytes);
    assert_int_equal(memory.kv_bytes_per_token, 3 * 2 * 2 * 128);
    /* one layer of all 1024 tokens, two of the window of 32 and a call's 512 rows */
    assert_int_equal(memory.kv_bytes, 2 * 2 * 128 * (1024 + 2 * (32 + 512 + 16)));
    assert_string_equal(model_kernel_name(gguf_tensor_find(g, "output_norm.weight"), &options), "");
    gguf_close(g);
    fixture_close(&f);
}

static int make_path(void **state)
{
    (void)state;
    return mkstemp(path) < 0;
}

static int remove_path(void **state)
{
    (void)state;
    return unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hyper_parameters_out_of_range),
        cmocka_unit_test(numbers_that_are_none),
        cmocka_unit_test(what_the_family_does_not_use),
        cmocka_unit_test(tensors_that_do_not_fit),
        cmocka_unit_test(weights_that_are_no_numbers_are_refused),
        cmocka_unit_test(activations_that_overflow_are_reported_with_layer_and_step),
        cmocka_unit_test(a_model_that_does_not_fit_is_refused_with_both_sizes),
        cmocka_unit_test(blocks_used_before_leave_no_trace),
        cmocka_unit_test(batches_out_of_range),
        cmocka_unit_test(a_full_cache_changes_nothing),
        cmocka_unit_test(the_estimate_is_what_loading_takes),
    };
    return cmocka_run_group_tests(tests, make_path, remove_path);
}
