/* test_gguf_packed.c: a packed tensor keeps its type and shape, and what is wrong with a packed file is named. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>

#include "format/gguf_internal.h"
#include "format/gguf_write.h"
#include "gguf_bytes.h"

static void what_was_packed_reads_back(void **state)
{
    (void)state;
    static const char bytes[100] = "packed";
    static const int64_t five = 5;
    char path[] = "/tmp/gguf_packed.XXXXXX";
    struct gguf_writer *w;
    struct gguf *g;
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    const struct gguf_tensor original = {
        .name = {"a", 1}, .quant = quant_find(QUANT_Q4_0), .n_dims = 3, .dims = {64, 3, 2, 1}, .bytes = 216};
    assert_int_equal(gguf_writer_create(&w, path, NULL), MR_OK);
    assert_int_equal(gguf_declare_packed(w, &original, "q4_0_q8_isa", 102, NULL), MR_BAD_INPUT);
    assert_int_equal(gguf_declare_packed(w, &original, "q4_0_q8_isa", sizeof bytes, NULL), MR_OK);
    assert_int_equal(gguf_declare_tensor(w, (struct gguf_string){"b", 1}, quant_find(QUANT_F32), 1, &five, NULL), MR_OK);
    assert_int_equal(gguf_begin_data(w, NULL), MR_OK);
    assert_int_equal(gguf_write_data(w, bytes, sizeof bytes, NULL), MR_OK);
    assert_int_equal(gguf_write_data(w, bytes, 20, NULL), MR_OK);
    assert_int_equal(gguf_writer_finish(w, NULL), MR_OK);
    gguf_writer_free(w);

    assert_int_equal(gguf_open(&g, path, NULL), MR_OK);
    assert_true(gguf_is_packed(g));
    const struct gguf_tensor *a = gguf_tensor_find(g, "a"), *b = gguf_tensor_find(g, "b");
    assert_memory_equal(a->product.s, "q4_0_q8_isa", 11);
    assert_int_equal(a->product.n, 11);
    assert_int_equal(a->quant->type, QUANT_Q4_0);
    assert_int_equal(a->n_dims, 3);
    assert_memory_equal(a->dims, original.dims, sizeof a->dims);
    assert_int_equal(a->bytes, sizeof bytes);
    assert_memory_equal(a->data, bytes, sizeof bytes);
    assert_int_equal(b->product.n, 0);
    assert_int_equal(b->dims[0], 5);
    gguf_close(g);
    unlink(path);
}

/* What the keys of a file with one packed tensor say. */
struct packing {
    uint32_t version;
    uint32_t products_type; /* of the array's elements */
    uint64_t n_product;
    uint32_t type;
    uint64_t n_dims, dims[GGUF_MAX_DIMS];
};

static const struct packing good = {GGUF_PACK_VERSION, GGUF_STRING, 1, QUANT_Q4_0, 4, {32, 2, 1, 1}};

static enum mr_status open_packing(const struct packing *p, struct mr_error *err)
{
    static const uint64_t n = 16;
    struct string_buffer b;
    put_header(&b, 3, 1, 4);
    put_key(&b, GGUF_PACK_VERSION_KEY, GGUF_U32);
    put_u32(&b, p->version);
    put_array(&b, GGUF_PACK_PRODUCTS_KEY, p->products_type, p->n_product);
    for (uint64_t i = 0; i < p->n_product; i++)
        p->products_type == GGUF_STRING ? put_text(&b, "product") : put_u64(&b, 1);
    put_array(&b, GGUF_PACK_TYPES_KEY, GGUF_U32, 1);
    put_u32(&b, p->type);
    put_array(&b, GGUF_PACK_SHAPES_KEY, GGUF_U64, p->n_dims);
    for (uint64_t i = 0; i < p->n_dims; i++)
        put_u64(&b, p->dims[i]);
    put_tensor(&b, "t", 1, &n, QUANT_F32, 0);
    put_data(&b, 64);
    struct gguf *g;
    const enum mr_status status = gguf_open_memory(&g, b.s, b.n, err);
    gguf_close(g);
    string_buffer_release(&b);
    return status;
}

static void damage_is_named(void **state)
{
    (void)state;
    struct mr_error err;
    struct packing version = good, type = good, zero = good, negative = good, large = good, part = good, no_text = good,
                   count = good, shapes = good;
    version.version = 99;
    type.type = 4711;
    zero.dims[1] = 0;
    negative.dims[0] = UINT64_MAX - 31;
    large.dims[0] = large.dims[1] = UINT64_C(1) << 40;
    part.dims[0] = 33;
    no_text.products_type = GGUF_U64;
    count.n_product = 2;
    shapes.n_dims = 3;
    const struct {
        const struct packing *p;
        enum mr_status status;
        const char *key;
    } cases[] = {
        {&good, MR_OK, ""},
        {&version, MR_NO_SUPPORT, GGUF_PACK_VERSION_KEY},
        {&type, MR_BAD_FORMAT, GGUF_PACK_TYPES_KEY},
        {&zero, MR_BAD_FORMAT, GGUF_PACK_SHAPES_KEY},
        {&negative, MR_BAD_FORMAT, GGUF_PACK_SHAPES_KEY},
        {&large, MR_BAD_FORMAT, GGUF_PACK_SHAPES_KEY},
        {&part, MR_BAD_FORMAT, GGUF_PACK_SHAPES_KEY},
        {&no_text, MR_BAD_FORMAT, GGUF_PACK_PRODUCTS_KEY},
        {&count, MR_BAD_FORMAT, GGUF_PACK_PRODUCTS_KEY},
        {&shapes, MR_BAD_FORMAT, GGUF_PACK_SHAPES_KEY},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        err.message[0] = '\0';
        assert_int_equal(open_packing(cases[i].p, &err), cases[i].status);
        assert_non_null(strstr(err.message, cases[i].key));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_packed_reads_back),
        cmocka_unit_test(damage_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
