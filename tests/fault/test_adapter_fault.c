/* test_adapter_fault.c: loading an adapter with no memory is an error, leaks nothing and harms nothing. */
#include "fault/failing_malloc.h"
#include "unit/engine/engine_fixture.h"
#include "unit/model/adapter_fixture.h"

static struct mr_model *model;

static enum mr_status load_and_unload(void *context)
{
    int32_t id;
    MR_TRY(mr_adapter_load(model, context, &id, NULL));
    return mr_adapter_unload(model, id, NULL);
}

static void an_adapter_without_memory(void **state)
{
    (void)state;
    char path[] = "/tmp/millrace-adapter-XXXXXX";
    struct mr_model_info info;
    model = fixture_model(1);
    close(mkstemp(path));
    adapter_write(path, TEST_SOURCE_DIR "/golden/data/tiny_llama3_q8_0.gguf", &(struct adapter_recipe){.rank = 4, .seed = 1});
    assert_true(check_every_allocation(load_and_unload, path) > 10);
    mr_model_info(model, &info);
    const size_t work = info.adapter_bytes;
    assert_int_equal(load_and_unload(path), MR_OK);
    mr_model_info(model, &info);
    assert_int_equal(info.adapter_bytes, work);
    unlink(path);
    mr_model_close(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(an_adapter_without_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
