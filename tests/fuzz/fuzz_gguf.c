/* fuzz_gguf.c: any bytes as a GGUF file; what opens is touched through the whole interface. */
#include <stdlib.h>
#include <string.h>

#include "format/file_kind.h"
#include "format/gguf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Keeps reads from being optimised away. */
static volatile uint64_t sink;

static void touch(const void *bytes, size_t n)
{
    const unsigned char *p = bytes;
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += p[i];
    sink += sum;
}

/* The name as a C string cut at its first NUL, for the look-ups. */
static void c_name(char name[128], struct gguf_string s)
{
    const size_t n = s.n < 127 ? s.n : 127;
    memcpy(name, s.s, n);
    name[n] = '\0';
}

static void touch_value(const struct gguf *g, const struct gguf_value *v)
{
    char key[128];
    int64_t i64;
    float f32;
    bool yes;
    struct gguf_string s;
    const struct gguf_value *array;
    struct mr_error err;
    touch(v->key.s, v->key.n);
    for (size_t i = 0; i < v->n; i++) {
        s = gguf_as_string(v, i);
        touch(s.s, s.n);
        sink += gguf_as_u64(v, i) + (uint64_t)(gguf_as_f64(v, i) > 0);
    }
    c_name(key, v->key);
    gguf_get_int(g, key, -100, 100, &i64, &err);
    gguf_get_int_or(g, key, 0, INT64_MAX, 1, &i64, &err);
    gguf_get_f32(g, key, &f32, &err);
    gguf_get_bool_or(g, key, true, &yes, &err);
    gguf_get_string(g, key, &s, &err);
    touch(s.s, s.n);
    gguf_get_array(g, key, &array, &err);
    touch(err.message, strlen(err.message));
}

static void touch_tensor(const struct gguf *g, const struct gguf_tensor *t)
{
    char name[128];
    float row[256];
    touch(t->name.s, t->name.n);
    touch(t->data, t->bytes);
    c_name(name, t->name);
    if (gguf_tensor_find(g, name) != t && strlen(name) == t->name.n)
        abort();
    for (size_t i = 0; i < t->bytes / t->quant->bytes; i++) {
        t->quant->decode(row, (const char *)t->data + i * t->quant->bytes, (size_t)t->quant->block);
        touch(row, (size_t)t->quant->block * sizeof *row);
    }
    char byte;
    if (gguf_read(g, t, t->bytes - 1, &byte, 1, NULL) != MR_OK)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gguf *g;
    struct mr_error err;
    touch(file_kind(data, size), 1);
    if (gguf_open_memory(&g, data, size, &err) != MR_OK) {
        if (g != NULL || err.message[0] == '\0')
            abort();
        return 0;
    }
    for (int i = 0; i < gguf_n_values(g); i++)
        touch_value(g, gguf_value_at(g, i));
    for (int i = 0; i < gguf_n_tensors(g); i++)
        touch_tensor(g, gguf_tensor_at(g, i));
    gguf_close(g);
    return 0;
}
