/* test_gguf_read.c: the reader gives what is in a file, and refuses what is wrong with the key or tensor and the reason. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "unit/format/gguf_bytes.h"

/* Opening b fails with this status and every word in the message, without touching a byte behind it. */
static void refuse(struct string_buffer *b, enum mr_status status, const char *word1, const char *word2)
{
    struct gguf *g = (struct gguf *)b;
    struct mr_error err = {""};
    char *exact = malloc(b->n > 0 ? b->n : 1); /* so that the sanitizer sees reads past the end */
    assert_non_null(exact);
    memcpy(exact, b->s, b->n);
    const enum mr_status got = gguf_open_memory(&g, exact, b->n, &err);
    if (got != status || strstr(err.message, word1) == NULL || strstr(err.message, word2) == NULL)
        fail_msg("status %d, message '%s', wanted status %d with '%s' and '%s'", (int)got, err.message, (int)status, word1,
                 word2);
    assert_null(g);
    free(exact);
    string_buffer_release(b);
}

static struct gguf *open_good(const struct string_buffer *b)
{
    struct gguf *g;
    struct mr_error err = {""};
    if (gguf_open_memory(&g, b->s, b->n, &err) != MR_OK)
        fail_msg("%s", err.message);
    return g;
}

static void every_value_type_is_read(void **state)
{
    (void)state;
    static const unsigned char number[] = {0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
    static const struct {
        enum gguf_type type;
        size_t bytes;
        int64_t i64;
        const char *name;
    } types[] = {
        {GGUF_U8, 1, 0xfe, "u8"},         {GGUF_I8, 1, -2, "i8"},   {GGUF_U16, 2, 0xfffe, "u16"}, {GGUF_I16, 2, -2, "i16"},
        {GGUF_U32, 4, 0xfffffffe, "u32"}, {GGUF_I32, 4, -2, "i32"}, {GGUF_U64, 8, -2, "u64"},     {GGUF_I64, 8, -2, "i64"},
    };
    for (uint32_t version = 2; version <= 3; version++)
        for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
            struct string_buffer b;
            put_header(&b, version, 0, 1);
            put_key(&b, "k", types[i].type);
            string_buffer_add(&b, (const char *)number, types[i].bytes);
            struct gguf *g = open_good(&b);
            const struct gguf_value *v = gguf_value_find(g, "k");
            assert_int_equal(gguf_version(g), version);
            assert_non_null(v);
            assert_true(gguf_is_integer(v) && gguf_is_number(v) && !v->is_array && v->n == 1);
            assert_true(gguf_as_i64(v, 0) == types[i].i64);
            assert_string_equal(gguf_type_name(v->type), types[i].name);
            gguf_close(g);
            string_buffer_release(&b);
        }
}

static void a_u64_beyond_i64_keeps_its_value(void **state)
{
    (void)state;
    struct string_buffer b;
    int64_t out;
    struct mr_error err;
    put_header(&b, 3, 0, 1);
    put_key(&b, "big", GGUF_U64);
    put_u64(&b, UINT64_MAX);
    struct gguf *g = open_good(&b);
    assert_true(gguf_as_u64(gguf_value_find(g, "big"), 0) == UINT64_MAX);
    assert_true(gguf_as_f64(gguf_value_find(g, "big"), 0) == 0x1p64);
    assert_int_equal(gguf_get_int(g, "big", 0, INT64_MAX, &out, &err), MR_BAD_FORMAT);
    assert_non_null(strstr(err.message, "18446744073709551615"));
    gguf_close(g);
    string_buffer_release(&b);
}

static void floats_bools_and_strings_are_read(void **state)
{
    (void)state;
    struct string_buffer b;
    const float f = -1.5f;
    const double d = 1e300;
    put_header(&b, 3, 0, 5);
    put_key(&b, "f32", GGUF_F32);
    string_buffer_add(&b, (const char *)&f, sizeof f);
    put_key(&b, "f64", GGUF_F64);
    string_buffer_add(&b, (const char *)&d, sizeof d);
    put_key(&b, "bool", GGUF_BOOL);
    string_buffer_add(&b, "\1", 1);
    put_key(&b, "string", GGUF_STRING);
    put_text(&b, "a\xff z");
    put_array(&b, "strings", GGUF_STRING, 3);
    put_text(&b, "");
    put_text(&b, "x");
    put_text(&b, "yz");
    struct gguf *g = open_good(&b);
    assert_true(gguf_as_f64(gguf_value_find(g, "f32"), 0) == -1.5);
    assert_true(gguf_as_f64(gguf_value_find(g, "f64"), 0) == 1e300);
    assert_true(!gguf_is_integer(gguf_value_find(g, "f64")) && gguf_is_number(gguf_value_find(g, "f64")));
    assert_true(gguf_as_u64(gguf_value_find(g, "bool"), 0) == 1 && !gguf_is_number(gguf_value_find(g, "bool")));
    const struct gguf_string s = gguf_as_string(gguf_value_find(g, "string"), 0);
    assert_true(s.n == 4 && memcmp(s.s, "a\xff z", 4) == 0);
    const struct gguf_value *v = gguf_value_find(g, "strings");
    assert_true(v->is_array && v->n == 3 && v->type == GGUF_STRING);
    assert_true(gguf_as_string(v, 0).n == 0 && gguf_as_string(v, 2).n == 2 && gguf_as_string(v, 2).s[1] == 'z');
    assert_null(gguf_value_find(g, "strin"));
    assert_null(gguf_value_find(g, ""));
    gguf_close(g);
    string_buffer_release(&b);
}

static void look_ups_check_type_and_range(void **state)
{
    (void)state;
    struct string_buffer b;
    int64_t i;
    float f;
    bool yes;
    struct gguf_string s;
    const struct gguf_value *v;
    struct mr_error err;
    put_header(&b, 3, 0, 3);
    put_key(&b, "layers", GGUF_U32);
    put_u32(&b, 1000000000);
    put_key(&b, "eps", GGUF_F32);
    put_u32(&b, 0x7fc00000);
    put_array(&b, "list", GGUF_U8, 0);
    struct gguf *g = open_good(&b);
    assert_int_equal(gguf_get_int(g, "layers", 1, 512, &i, &err), MR_BAD_FORMAT);
    assert_string_equal(err.message, "key 'layers' is 1000000000, not in 1..512");
    assert_int_equal(gguf_get_int(g, "eps", 0, 1, &i, &err), MR_BAD_FORMAT);
    assert_string_equal(err.message, "key 'eps' is of type f32, not an integer");
    assert_int_equal(gguf_get_int(g, "list", 0, 1, &i, &err), MR_BAD_FORMAT);
    assert_string_equal(err.message, "key 'list' is of type array of u8, not an integer");
    assert_int_equal(gguf_get_int(g, "none", 0, 1, &i, &err), MR_NOT_FOUND);
    assert_string_equal(err.message, "key 'none' is missing");
    assert_int_equal(gguf_get_int_or(g, "none", 0, 1, 7, &i, &err), MR_OK);
    assert_int_equal(i, 7);
    assert_int_equal(gguf_get_f32(g, "eps", &f, &err), MR_BAD_FORMAT);
    assert_non_null(strstr(err.message, "not a finite number"));
    assert_int_equal(gguf_get_f32(g, "layers", &f, &err), MR_OK);
    assert_true(f == 1e9f);
    assert_int_equal(gguf_get_f32_or(g, "none", 0.5f, &f, &err), MR_OK);
    assert_true(f == 0.5f);
    assert_int_equal(gguf_get_bool_or(g, "none", true, &yes, &err), MR_OK);
    assert_true(yes);
    assert_int_equal(gguf_get_bool_or(g, "layers", true, &yes, &err), MR_BAD_FORMAT);
    assert_int_equal(gguf_get_string(g, "layers", &s, &err), MR_BAD_FORMAT);
    assert_int_equal(gguf_get_string(g, "none", &s, &err), MR_NOT_FOUND);
    assert_int_equal(gguf_get_array(g, "layers", &v, &err), MR_BAD_FORMAT);
    assert_null(v);
    assert_int_equal(gguf_get_array(g, "list", &v, &err), MR_OK);
    assert_int_equal(v->n, 0);
    gguf_close(g);
    string_buffer_release(&b);
}

static void tensors_are_found_with_their_data(void **state)
{
    (void)state;
    static const uint64_t a[] = {32, 3}, c[] = {4};
    struct string_buffer b;
    put_header(&b, 3, 2, 0);
    put_tensor(&b, "blk.0.w", 2, a, QUANT_Q4_1, 0);
    put_tensor(&b, "norm", 1, c, QUANT_F32, 64);
    put_data(&b, 64 + 16);
    struct gguf *g = open_good(&b);
    const struct gguf_tensor *t = gguf_tensor_find(g, "norm");
    assert_int_equal(gguf_n_tensors(g), 2);
    assert_ptr_equal(t, gguf_tensor_at(g, 1));
    assert_true(t->n_dims == 1 && t->dims[0] == 4 && t->dims[1] == 1 && t->dims[3] == 1 && t->bytes == 16);
    assert_ptr_equal(t->data, b.s + b.n - 16);
    assert_true(t->file_offset == b.n - 16);
    assert_true(gguf_tensor_at(g, 0)->bytes == 60 && gguf_tensor_at(g, 0)->quant->type == QUANT_Q4_1);
    assert_null(gguf_tensor_find(g, "nor"));
    char piece[8];
    assert_int_equal(gguf_read(g, t, 8, piece, 8, NULL), MR_OK);
    assert_int_equal(gguf_read(g, t, 9, piece, 8, NULL), MR_BAD_INPUT);
    gguf_close(g);
    string_buffer_release(&b);
}

/* C43 */
static void lengths_and_counts_are_not_trusted(void **state)
{
    (void)state;
    struct string_buffer b;
    static const uint64_t huge[] = {1ull << 62, 1ull << 63, UINT64_MAX, 1ull << 48, 1 << 20};

    string_buffer_init(&b);
    string_buffer_puts(&b, "GGUF");
    refuse(&b, MR_BAD_FORMAT, "byte 4", "the file ends here");
    for (size_t i = 0; i < sizeof huge / sizeof *huge; i++) {
        put_header(&b, 3, huge[i], 0);
        refuse(&b, MR_BAD_FORMAT, "tensors", "0 bytes are left");
        put_header(&b, 3, 0, huge[i]);
        refuse(&b, MR_BAD_FORMAT, "keys", "0 bytes are left");

        put_header(&b, 3, 0, 1);
        put_u64(&b, huge[i]); /* key */
        put_data(&b, 32);
        refuse(&b, MR_BAD_FORMAT, "key of", "bytes are left");

        put_header(&b, 3, 0, 1);
        put_key(&b, "k", GGUF_STRING);
        put_u64(&b, huge[i]);
        put_data(&b, 32);
        refuse(&b, MR_BAD_FORMAT, "key 'k'", "string of");

        put_header(&b, 3, 0, 1);
        put_array(&b, "k", GGUF_U32, huge[i]);
        put_data(&b, 32);
        refuse(&b, MR_BAD_FORMAT, "key 'k'", "values of type u32");

        put_header(&b, 3, 0, 1);
        put_array(&b, "k", GGUF_STRING, huge[i]);
        put_data(&b, 32);
        refuse(&b, MR_BAD_FORMAT, "key 'k'", "values of type string");
    }
}

static void a_cut_string_array_is_refused(void **state)
{
    (void)state;
    struct string_buffer b;
    put_header(&b, 3, 0, 1);
    put_array(&b, "k", GGUF_STRING, 3);
    put_text(&b, "one");
    put_text(&b, "two");
    put_u64(&b, 5);
    string_buffer_puts(&b, "thre");
    refuse(&b, MR_BAD_FORMAT, "key 'k'", "string of 5 bytes, but only 4 bytes are left");
}

static void unknown_types_and_nesting_are_refused(void **state)
{
    (void)state;
    static const uint32_t types[] = {13, 14, 255, UINT32_MAX};
    struct string_buffer b;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        put_header(&b, 3, 0, 1);
        put_key(&b, "k", types[i]);
        put_data(&b, 64);
        refuse(&b, MR_BAD_FORMAT, "key 'k'", "unknown value type");
        put_header(&b, 3, 0, 1);
        put_array(&b, "k", types[i], 1);
        put_data(&b, 64);
        refuse(&b, MR_BAD_FORMAT, "key 'k'", "unknown value type");
    }
    put_header(&b, 3, 0, 1);
    put_array(&b, "k", GGUF_ARRAY, 1);
    put_u32(&b, GGUF_U8);
    put_u64(&b, 1);
    put_data(&b, 32);
    refuse(&b, MR_NO_SUPPORT, "key 'k'", "an array of arrays");
}

static void other_versions_are_refused(void **state)
{
    (void)state;
    static const uint32_t versions[] = {0, 1, 4, 1u << 31, 3u << 24, UINT32_MAX};
    struct string_buffer b;
    for (size_t i = 0; i < sizeof versions / sizeof *versions; i++) {
        put_header(&b, versions[i], 0, 0);
        refuse(&b, MR_NO_SUPPORT, "version", (versions[i] & 0xffff) == 0 && versions[i] != 0 ? "big endian" : "2 and 3");
    }
}

static void bad_keys_are_refused(void **state)
{
    (void)state;
    struct string_buffer b;
    put_header(&b, 3, 0, 1);
    put_key(&b, "", GGUF_U8);
    put_data(&b, 8);
    refuse(&b, MR_BAD_FORMAT, "byte", "an empty key");

    put_header(&b, 3, 0, 2);
    for (int i = 0; i < 2; i++) {
        put_key(&b, "same", GGUF_U8);
        string_buffer_add(&b, "", 1);
    }
    refuse(&b, MR_BAD_FORMAT, "key 'same'", "stands twice");

    put_header(&b, 3, 0, 1);
    put_key(&b, "flag", GGUF_BOOL);
    string_buffer_add(&b, "\2", 1);
    refuse(&b, MR_BAD_FORMAT, "key 'flag'", "a bool is 2");

    put_header(&b, 3, 0, 1);
    put_u64(&b, 70000);
    for (int i = 0; i < 70000; i++)
        string_buffer_add(&b, "k", 1);
    put_data(&b, 32);
    refuse(&b, MR_BAD_FORMAT, "key of 70000 bytes", "longer than 65535");
}

static void the_alignment_is_checked(void **state)
{
    (void)state;
    static const uint32_t wrong[] = {0, 1, 4, 24, 33, UINT32_MAX};
    struct string_buffer b;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        put_header(&b, 3, 0, 1);
        put_key(&b, "general.alignment", GGUF_U32);
        put_u32(&b, wrong[i]);
        refuse(&b, MR_BAD_FORMAT, "key 'general.alignment'", "power of two");
    }
    put_header(&b, 3, 0, 1);
    put_key(&b, "general.alignment", GGUF_U64);
    put_u64(&b, 32);
    refuse(&b, MR_BAD_FORMAT, "key 'general.alignment'", "not a u32");

    static const uint64_t dims[] = {8};
    put_header(&b, 3, 1, 1); /* 2^31: the data would begin far behind the file */
    put_key(&b, "general.alignment", GGUF_U32);
    put_u32(&b, 1u << 31);
    put_tensor(&b, "t", 1, dims, QUANT_F32, 0);
    put_data(&b, 64);
    refuse(&b, MR_BAD_FORMAT, "tensor 't'", "0 bytes of data");
}

/* C44 */
static void shapes_that_overflow_are_refused(void **state)
{
    (void)state;
    static const struct {
        uint64_t dims[4];
        uint32_t n_dims, type;
        enum mr_status status;
        const char *reason;
    } cases[] = {
        {{1ull << 62, 8}, 2, QUANT_F32, MR_BAD_FORMAT, "shape [4611686018427387904, 8] of type f32 is too large"},
        {{INT64_MAX, 2}, 2, 24, MR_NO_SUPPORT, "type i8 is not supported"},
        {{INT64_MAX, 2}, 2, QUANT_F16, MR_BAD_FORMAT, "too large"},
        {{UINT32_MAX, UINT32_MAX, UINT32_MAX, 2}, 4, QUANT_F32, MR_BAD_FORMAT, "too large"},
        {{1ull << 32, 1ull << 31, 1}, 3, QUANT_F16, MR_BAD_FORMAT, "too large"},
        {{1ull << 62, 1}, 2, QUANT_F32, MR_BAD_FORMAT, "too large"},
        {{UINT64_MAX}, 1, QUANT_F32, MR_BAD_FORMAT, "dimension 0 is 18446744073709551615"},
        {{1ull << 63}, 1, QUANT_F32, MR_BAD_FORMAT, "dimension 0"},
        {{0, 4}, 2, QUANT_F32, MR_BAD_FORMAT, "dimension 0 is 0"},
        {{4, 0}, 2, QUANT_F32, MR_BAD_FORMAT, "dimension 1 is 0"},
        {{1}, 0, QUANT_F32, MR_BAD_FORMAT, "0 dimensions"},
        {{1, 1, 1, 1}, 5, QUANT_F32, MR_BAD_FORMAT, "5 dimensions"},
        {{1, 1, 1, 1}, 9, QUANT_F32, MR_BAD_FORMAT, "9 dimensions"},
        {{1, 1, 1, 1}, UINT32_MAX, QUANT_F32, MR_BAD_FORMAT, "4294967295 dimensions"},
        {{32}, 1, 9999, MR_BAD_FORMAT, "unknown type 9999"},
        {{32}, 1, UINT32_MAX, MR_BAD_FORMAT, "unknown type 4294967295"},
        {{256}, 1, 16, MR_NO_SUPPORT, "type iq2_xxs is not supported"},
        {{33, 2}, 2, QUANT_Q8_0, MR_BAD_FORMAT, "shape [33, 2]: rows of q8_0 must be a multiple of 32"},
        {{32, 8}, 2, QUANT_Q4_K, MR_BAD_FORMAT, "multiple of 256"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct string_buffer b;
        uint64_t dims[16] = {0};
        memcpy(dims, cases[i].dims, sizeof cases[i].dims);
        put_header(&b, 3, 1, 0);
        put_tensor(&b, "blk.0.w", cases[i].n_dims, dims, cases[i].type, 0);
        put_data(&b, 4096);
        refuse(&b, cases[i].status, "tensor 'blk.0.w'", cases[i].reason);
    }
}

static void sizes_whose_sum_overflows_are_refused(void **state)
{
    (void)state;
    static const uint64_t dims[] = {1ull << 61};
    struct string_buffer b;
    put_header(&b, 3, 2, 0);
    put_tensor(&b, "a", 1, dims, QUANT_F32, 0);
    put_tensor(&b, "b", 1, dims, QUANT_F32, 1ull << 63);
    put_data(&b, 64);
    refuse(&b, MR_BAD_FORMAT, "tensor 'a'", "needs 9223372036854775808 bytes");
}

/* C45 */
static void data_outside_the_file_is_refused(void **state)
{
    (void)state;
    static const uint64_t dims[] = {16};
    static const struct {
        uint64_t offset;
        const char *reason;
    } cases[] = {
        {1ull << 40, "needs 64 bytes from byte 1099511627776 of the data, but the file has 64 bytes of data"},
        {32, "needs 64 bytes from byte 32 of the data, but the file has 64 bytes of data"},
        {UINT64_MAX - 31, "needs 64 bytes"}, /* offset + size wraps */
        {UINT64_MAX - 63, "needs 64 bytes"},
        {7, "offset 7 is not a multiple of the alignment 32"},
        {UINT64_MAX, "is not a multiple"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct string_buffer b;
        put_header(&b, 3, 1, 0);
        put_tensor(&b, "t", 1, dims, QUANT_F32, cases[i].offset);
        put_data(&b, 64);
        refuse(&b, MR_BAD_FORMAT, "tensor 't'", cases[i].reason);
    }
}

static void every_cut_of_a_file_is_refused(void **state)
{
    (void)state;
    static const uint64_t dims[] = {16};
    struct string_buffer b, cut;
    put_header(&b, 3, 1, 2);
    put_key(&b, "name", GGUF_STRING);
    put_text(&b, "value");
    put_array(&b, "list", GGUF_STRING, 2);
    put_text(&b, "one");
    put_text(&b, "two");
    put_tensor(&b, "t", 1, dims, QUANT_F32, 0);
    put_data(&b, 64);
    gguf_close(open_good(&b));
    for (size_t n = 0; n < b.n; n++) {
        string_buffer_init(&cut);
        string_buffer_add(&cut, b.s, n);
        refuse(&cut, MR_BAD_FORMAT, "", "");
    }
    string_buffer_release(&b);
}

static void tensors_that_overlap_are_refused(void **state)
{
    (void)state;
    static const uint64_t dims[] = {16};
    struct string_buffer b;
    put_header(&b, 3, 3, 0);
    put_tensor(&b, "a", 1, dims, QUANT_F32, 64);
    put_tensor(&b, "b", 1, dims, QUANT_F32, 32);
    put_tensor(&b, "c", 1, dims, QUANT_F32, 128);
    put_data(&b, 192);
    refuse(&b, MR_BAD_FORMAT, "tensor 'a'", "overlaps tensor 'b'");

    put_header(&b, 3, 2, 0);
    put_tensor(&b, "same", 1, dims, QUANT_F32, 0);
    put_tensor(&b, "same", 1, dims, QUANT_F32, 64);
    put_data(&b, 128);
    refuse(&b, MR_BAD_FORMAT, "tensor 'same'", "stands twice");
}

static void bad_tensor_names_are_refused(void **state)
{
    (void)state;
    static const uint64_t dims[] = {1};
    struct string_buffer b;
    char name[66];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    put_header(&b, 3, 1, 0);
    put_tensor(&b, name, 1, dims, QUANT_F32, 0);
    put_data(&b, 4);
    refuse(&b, MR_BAD_FORMAT, "tensor name of 65 bytes", "longer than 64");
    put_header(&b, 3, 1, 0);
    put_tensor(&b, "", 1, dims, QUANT_F32, 0);
    put_data(&b, 4);
    refuse(&b, MR_BAD_FORMAT, "a tensor without a name", "");
}

static void part_of_a_split_model_in_memory_is_refused(void **state)
{
    (void)state;
    struct string_buffer b;
    put_header(&b, 3, 0, 1);
    put_key(&b, "split.count", GGUF_U16);
    string_buffer_add(&b, "\3\0", 2);
    refuse(&b, MR_NO_SUPPORT, "one of 3 files of a split model", "");
}

static void hostile_names_do_not_reach_the_message(void **state)
{
    (void)state;
    struct string_buffer b;
    put_header(&b, 3, 0, 1);
    put_key(&b, "a\x1b[31m\xff", 77);
    put_data(&b, 32);
    refuse(&b, MR_BAD_FORMAT, "key 'a?[31m?'", "unknown value type 77");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_value_type_is_read),
        cmocka_unit_test(a_u64_beyond_i64_keeps_its_value),
        cmocka_unit_test(floats_bools_and_strings_are_read),
        cmocka_unit_test(look_ups_check_type_and_range),
        cmocka_unit_test(tensors_are_found_with_their_data),
        cmocka_unit_test(lengths_and_counts_are_not_trusted),
        cmocka_unit_test(a_cut_string_array_is_refused),
        cmocka_unit_test(unknown_types_and_nesting_are_refused),
        cmocka_unit_test(other_versions_are_refused),
        cmocka_unit_test(bad_keys_are_refused),
        cmocka_unit_test(the_alignment_is_checked),
        cmocka_unit_test(shapes_that_overflow_are_refused),
        cmocka_unit_test(sizes_whose_sum_overflows_are_refused),
        cmocka_unit_test(data_outside_the_file_is_refused),
        cmocka_unit_test(every_cut_of_a_file_is_refused),
        cmocka_unit_test(tensors_that_overlap_are_refused),
        cmocka_unit_test(bad_tensor_names_are_refused),
        cmocka_unit_test(part_of_a_split_model_in_memory_is_refused),
        cmocka_unit_test(hostile_names_do_not_reach_the_message),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
