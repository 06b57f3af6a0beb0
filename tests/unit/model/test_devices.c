/* test_devices.c: embeddings on one device, layers on another; and that only ops touch a device's memory. */
#include "model_fixture.h"
#include "protected_device.h"

static void same_logits(const char *path, enum precision precision, int n_token)
{
    struct fixture plain, split;
    struct model_options options;
    if (!fixture_has(path))
        return;
    fixture_open(&plain, path, precision, 2);
    fixture_make_device(&split, 2);
    struct protected_device protected = {.device = {.ops = &protected_ops, .name = "protected"}, .cpu = split.device};
    model_options_defaults(&options);
    options.device = &protected.device;
    options.embedding_device = split.device;
    options.precision = precision;
    fixture_make_model(&split, path, &options);
    const int n_op = protected.n_op;
    float *want = fixture_logits(&plain, 0, n_token, 512), *got = fixture_logits(&split, 0, n_token, n_token - 2);
    assert_true(protected.n_op > n_op + 2 * 6 * model_info(split.model)->n_layer);
    fixture_same_bits(&plain, want, got);
    free(want);
    free(got);
    fixture_close(&split);
    fixture_close(&plain);
}

static void smollm2_with_its_embedding_on_another_device(void **state)
{
    (void)state;
    same_logits(SMOLLM2, PRECISION_AUTO, 20);
}

static void small_models_with_their_embedding_on_another_device(void **state)
{
    (void)state;
    same_logits(TINY("llama3"), PRECISION_AUTO, 50);
    same_logits(TINY("llama3_q8_0"), PRECISION_INT8, 50);
    same_logits(TINY("gemma3"), PRECISION_FP32, 50);
    same_logits(TINY("qwen2"), PRECISION_FP32, 50);
    same_logits(TINY("olmoe_q8_0"), PRECISION_INT8, 50);
    same_logits(TINY("gpt2_q8_0"), PRECISION_INT8, 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_models_with_their_embedding_on_another_device),
        cmocka_unit_test(smollm2_with_its_embedding_on_another_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
