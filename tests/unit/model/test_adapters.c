/* test_adapters.c: LoRA adapters in the forward pass: the numeric rule, what is refused, memory. */
#include "model_fixture.h"

#include "adapter_fixture.h"
#include "model/adapter.h"

enum {
    N_ADAPTER = 3,
    N_TOKEN = 70
};

struct subject {
    const char *path;
    enum precision precision;
};

static const struct subject subjects[] = {
    {TINY("llama3"), PRECISION_FP32},    {TINY("llama3_q8_0"), PRECISION_INT8}, {TINY("gemma3"), PRECISION_AUTO},
    {TINY("qwen2"), PRECISION_AUTO},     {TINY("qwen3"), PRECISION_FP32},       {TINY("gpt2"), PRECISION_FP32},
    {TINY("gpt2_q8_0"), PRECISION_INT8}, {TINY("olmoe"), PRECISION_FP32},
};

enum {
    N_SUBJECTS = sizeof subjects / sizeof *subjects
};

static enum mr_status load(struct adapter **out, struct fixture *f, const char *base, const struct adapter_recipe *r,
                           struct mr_error *err)
{
    char path[] = "/tmp/millrace-adapter-XXXXXX";
    struct gguf *g;
    close(mkstemp(path));
    adapter_write(path, base, r);
    assert_int_equal(gguf_open(&g, path, err), MR_OK);
    const enum mr_status status = adapter_load(out, f->model, g, err);
    gguf_close(g);
    unlink(path);
    return status;
}

/* Adapters of odd ranks, one of them for two products only, one of halves. */
static void load_three(struct adapter *adapter[N_ADAPTER], struct fixture *f, const char *base)
{
    static const struct adapter_recipe recipes[N_ADAPTER] = {
        {.rank = 5, .seed = 1}, {.rank = 17, .seed = 2, .only = "attn_"}, {.rank = 8, .seed = 3, .f16 = true}};
    struct mr_error err = {""};
    for (int i = 0; i < N_ADAPTER; i++)
        if (load(&adapter[i], f, base, &recipes[i], &err) != MR_OK)
            fail_msg("%s: %s", base, err.message);
}

static void free_three(struct adapter *adapter[N_ADAPTER])
{
    for (int i = 0; i < N_ADAPTER; i++)
        adapter_free(adapter[i]);
}

/* Logits of all n_vocab behind the tokens of a text, run in pieces with these adapters. The caller frees them. */
static float *logits_with(struct fixture *f, const struct adapter_set *set, int n, int chunk)
{
    int32_t token[512];
    kv_seq seqs[512];
    const struct adapter_set *sets[512];
    struct mr_error err = {""};
    const kv_seq seq = fixture_sequence(f);
    for (int first = 0; first < n; first += chunk) {
        const int n_row = n - first < chunk ? n - first : chunk;
        for (int i = 0; i < n_row; i++) {
            token[i] = fixture_token(0, first + i);
            seqs[i] = seq;
            sets[i] = set;
        }
        const struct batch batch = {.n_row = n_row, .token = token, .seq = seqs, .adapters = set != NULL ? sets : NULL};
        if (model_forward(f->model, f->kv, &batch, &err) != MR_OK)
            fail_msg("%s", err.message);
    }
    const size_t bytes = (size_t)model_info(f->model)->n_vocab * sizeof(float);
    float *copy = malloc(bytes);
    assert_non_null(copy);
    memcpy(copy, model_logits(f->model, 0), bytes);
    kv_seq_close(model_kv_cache(f->kv), seq);
    return copy;
}

static bool same(const struct fixture *f, const float *a, const float *b)
{
    return memcmp(a, b, (size_t)model_info(f->model)->n_vocab * sizeof *a) == 0;
}

static void chunks_and_threads_leave_the_bits(void **state)
{
    (void)state;
    static const int chunks[] = {1, 7, 64};
    for (int i = 0; i < N_SUBJECTS; i++) {
        if (!fixture_has(subjects[i].path))
            continue;
        float *first = NULL;
        for (int n_thread = 1; n_thread <= 3; n_thread++) {
            struct fixture f;
            struct adapter *a[N_ADAPTER];
            fixture_open(&f, subjects[i].path, subjects[i].precision, n_thread);
            cpu_device_set_fusion(f.device, n_thread != 2);
            load_three(a, &f, subjects[i].path);
            const struct adapter_set set = {2, {a[1], a[2]}, {0.75f, -1.5f}};
            for (size_t c = 0; c < sizeof chunks / sizeof *chunks; c++) {
                float *logits = logits_with(&f, &set, N_TOKEN, chunks[c]);
                if (first == NULL)
                    first = logits;
                fixture_same_bits(&f, first, logits);
                if (logits != first)
                    free(logits);
            }
            free_three(a);
            fixture_close(&f);
        }
        free(first);
    }
}

enum {
    N_MIX = 5
};

/* The next token of five sequences in one batch, and the same ones alone. */
static void rows_with_other_adapters_in_one_batch(void **state)
{
    (void)state;
    for (int i = 0; i < N_SUBJECTS; i++) {
        if (!fixture_has(subjects[i].path))
            continue;
        struct fixture f;
        struct adapter *a[N_ADAPTER];
        struct mr_error err = {""};
        fixture_open(&f, subjects[i].path, subjects[i].precision, 2);
        load_three(a, &f, subjects[i].path);
        const struct adapter_set sets[N_MIX] = {
            {1, {a[0]}, {1}}, {0}, {2, {a[2], a[0]}, {1, 0.5f}}, {1, {a[0]}, {-2}}, {3, {a[1], a[0], a[2]}, {1, 1, 1}}};
        const struct adapter_set *rows[N_MIX];
        int32_t token[N_MIX];
        kv_seq seq[N_MIX];
        bool wants[N_MIX];
        for (int s = 0; s < N_MIX; s++) {
            rows[s] = &sets[s];
            seq[s] = fixture_sequence(&f);
            token[s] = fixture_token(s, 0);
            wants[s] = true;
        }
        const struct batch batch = {.n_row = N_MIX, .token = token, .seq = seq, .wants_logits = wants, .adapters = rows};
        if (model_forward(f.model, f.kv, &batch, &err) != MR_OK)
            fail_msg("%s", err.message);
        const size_t n_vocab = (size_t)model_info(f.model)->n_vocab;
        float *together = malloc(N_MIX * n_vocab * sizeof *together);
        assert_non_null(together);
        memcpy(together, model_logits(f.model, 0), N_MIX * n_vocab * sizeof *together);
        for (int s = 0; s < N_MIX; s++) {
            kv_seq_close(model_kv_cache(f.kv), seq[s]);
            const kv_seq own = fixture_sequence(&f);
            const struct batch alone = {
                .n_row = 1, .token = &token[s], .seq = &own, .adapters = sets[s].n > 0 ? &rows[s] : NULL};
            assert_int_equal(model_forward(f.model, f.kv, &alone, &err), MR_OK);
            fixture_same_bits(&f, together + (size_t)s * n_vocab, model_logits(f.model, 0));
            kv_seq_close(model_kv_cache(f.kv), own);
        }
        free(together);
        free_three(a);
        fixture_close(&f);
    }
}

static void an_adapter_changes_what_it_should(void **state)
{
    (void)state;
    for (int i = 0; i < N_SUBJECTS; i++) {
        if (!fixture_has(subjects[i].path))
            continue;
        struct fixture f;
        struct adapter *a[N_ADAPTER];
        fixture_open(&f, subjects[i].path, subjects[i].precision, 2);
        float *plain = logits_with(&f, NULL, 20, 512);
        load_three(a, &f, subjects[i].path);
        const struct adapter_set none = {0}, zero = {1, {a[0]}, {0}}, one = {1, {a[0]}, {1}}, other = {1, {a[1]}, {1}};
        const struct adapter_set *sets[] = {&none, &zero, &one, &other};
        float *logits[4];
        for (int s = 0; s < 4; s++)
            logits[s] = logits_with(&f, sets[s], 20, 512);
        assert_true(same(&f, plain, logits[0]));
        assert_true(same(&f, plain, logits[1]));
        assert_false(same(&f, plain, logits[2]));
        assert_false(same(&f, plain, logits[3]));
        assert_false(same(&f, logits[2], logits[3]));
        for (int s = 0; s < 4; s++)
            free(logits[s]);
        free(plain);
        free_three(a);
        fixture_close(&f);
    }
}

static void each_product_takes_part(void **state)
{
    (void)state;
    static const struct {
        const char *model, *product;
    } cases[] = {
        {TINY("llama3"), "attn_q."},      {TINY("llama3"), "attn_k."},   {TINY("llama3"), "attn_v."},
        {TINY("llama3"), "attn_output."}, {TINY("llama3"), "ffn_gate."}, {TINY("llama3"), "ffn_up."},
        {TINY("llama3"), "ffn_down."},    {TINY("gpt2"), "attn_qkv."},   {TINY("gpt2"), "ffn_up."},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct fixture f;
        struct adapter *a;
        struct mr_error err = {""};
        const struct adapter_recipe r = {.rank = 4, .seed = 5, .only = cases[i].product};
        fixture_open(&f, cases[i].model, PRECISION_FP32, 1);
        assert_int_equal(load(&a, &f, cases[i].model, &r, &err), MR_OK);
        assert_int_equal(adapter_info(a)->n_product, model_info(f.model)->n_layer);
        const struct adapter_set set = {1, {a}, {1}};
        float *plain = logits_with(&f, NULL, 20, 512), *with = logits_with(&f, &set, 20, 512);
        assert_false(same(&f, plain, with));
        free(plain);
        free(with);
        adapter_free(a);
        fixture_close(&f);
    }
}

static void what_does_not_fit_is_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *model;
        struct adapter_recipe recipe;
        const char *message;
    } cases[] = {
        {TINY("llama3"), {.rank = 4, .arch = "qwen2"}, "key 'general.architecture' is 'qwen2', must be 'llama'"},
        {TINY("llama3"),
         {.rank = 4, .wide = "blk.1.attn_v.weight.lora_a"},
         "tensor 'blk.1.attn_v.weight.lora_a' has the shape 65 x 4, the model's matrix needs 64 x RANK"},
        {TINY("llama3"),
         {.rank = 4, .wide = "blk.0.attn_q.weight.lora_b"},
         "tensor 'blk.0.attn_q.weight.lora_a' has the rank 4, its lora_b 5"},
        {TINY("llama3"), {.rank = 4, .leave = "blk.1.ffn_up.weight.lora_b"}, "there is no tensor 'blk.1.ffn_up.weight.lora_b'"},
        {TINY("llama3"), {.rank = 4, .leave = "blk.1.ffn_up.weight.lora_a"}, "there is no tensor 'blk.1.ffn_up.weight.lora_a'"},
        {TINY("llama3"),
         {.rank = 4, .extra = "token_embd.weight.lora_a"},
         "tensor 'token_embd.weight.lora_a': not of a product that an adapter can add to"},
        {TINY("llama3"),
         {.rank = 4, .extra = "blk.0.attn_norm.weight.lora_a"},
         "tensor 'blk.0.attn_norm.weight.lora_a': not of a product that an adapter can add to"},
        {TINY("llama3"),
         {.rank = 4, .extra = "blk.2.attn_q.weight.lora_a"},
         "tensor 'blk.2.attn_q.weight.lora_a': the model has 2 layers"},
        {TINY("llama3"),
         {.rank = 4, .extra = "blk.00.attn_q.weight.lora_a"},
         "tensor 'blk.00.attn_q.weight.lora_a' has the shape 4 x 4, the model's matrix needs 64 x RANK"},
        {TINY("llama3"),
         {.rank = 64, .extra = "blk.0.attn_qkv.weight.lora_a"},
         "tensor 'blk.0.attn_qkv.weight.lora_a': the family 'llama' has no such product that an adapter could add to"},
        {TINY("olmoe"),
         {.rank = 4, .extra = "blk.0.ffn_up.weight.lora_a"},
         "tensor 'blk.0.ffn_up.weight.lora_a': the family 'olmoe' has no such product that an adapter could add to"},
        {TINY("llama3"),
         {.rank = 4, .nan = "blk.1.attn_k.weight.lora_a"},
         "tensor 'blk.1.attn_k.weight.lora_a': row 0 has a NaN or an infinity"},
        {TINY("llama3"), {.rank = 1025}, "tensor 'blk.0.attn_q.weight.lora_a' has the rank 1025, at most 1024 is possible"},
        {TINY("llama3"), {.rank = 4, .only = "no such product"}, "the adapter has no tensors"},
        {TINY("llama3"),
         {.rank = 4, .key = "adapter.alora.invocation_tokens"},
         "key 'adapter.alora.invocation_tokens': not understood"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct fixture f;
        struct adapter *a;
        struct mr_error err = {""};
        fixture_open(&f, cases[i].model, PRECISION_FP32, 1);
        const enum mr_status status = load(&a, &f, cases[i].model, &cases[i].recipe, &err);
        assert_int_not_equal(status, MR_OK);
        assert_null(a);
        if (strcmp(err.message, cases[i].message) != 0)
            fail_msg("'%s' instead of '%s'", err.message, cases[i].message);
        assert_int_equal(model_info(f.model)->adapter_bytes, 0);
        fixture_close(&f);
    }
}

static void a_model_file_is_no_adapter(void **state)
{
    (void)state;
    struct fixture f;
    struct gguf *g;
    struct adapter *a;
    struct mr_error err = {""};
    fixture_open(&f, TINY("llama3"), PRECISION_FP32, 1);
    assert_int_equal(gguf_open(&g, TINY("llama3"), &err), MR_OK);
    assert_int_not_equal(adapter_load(&a, f.model, g, &err), MR_OK);
    assert_non_null(strstr(err.message, "general.type"));
    gguf_close(g);
    fixture_close(&f);
}

static void memory_is_counted(void **state)
{
    (void)state;
    struct fixture f;
    struct adapter *a[N_ADAPTER];
    struct mr_error err = {""};
    fixture_open(&f, TINY("llama3"), PRECISION_FP32, 1);
    assert_int_equal(model_info(f.model)->adapter_bytes, 0);
    load_three(a, &f, TINY("llama3"));
    size_t sum = 0;
    for (int i = 0; i < N_ADAPTER; i++)
        sum += adapter_info(a[i])->bytes;
    const size_t with = model_info(f.model)->adapter_bytes;
    assert_true(with > sum);
    free_three(a);
    assert_int_equal(model_info(f.model)->adapter_bytes, with - sum);
    fixture_close(&f);
    struct model_options options;
    fixture_make_device(&f, 1);
    model_options_defaults(&options);
    options.device = f.device;
    options.precision = PRECISION_FP32;
    options.memory_bytes = 1; /* more than enough for nothing */
    struct gguf *g;
    assert_int_equal(gguf_open(&g, TINY("llama3"), &err), MR_OK);
    struct model_memory need;
    assert_int_equal(model_estimate(&need, g, &options, 1, &err), MR_OK);
    gguf_close(g);
    options.memory_bytes = need.weight_bytes + need.activation_bytes;
    fixture_make_model(&f, TINY("llama3"), &options);
    struct adapter *one;
    assert_int_equal(load(&one, &f, TINY("llama3"), &(struct adapter_recipe){.rank = 1000}, &err), MR_NO_MEMORY);
    assert_non_null(strstr(err.message, "GB of memory are free"));
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunks_and_threads_leave_the_bits),
        cmocka_unit_test(rows_with_other_adapters_in_one_batch),
        cmocka_unit_test(an_adapter_changes_what_it_should),
        cmocka_unit_test(each_product_takes_part),
        cmocka_unit_test(what_does_not_fit_is_refused_by_name),
        cmocka_unit_test(a_model_file_is_no_adapter),
        cmocka_unit_test(memory_is_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
