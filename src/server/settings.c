/* settings.c: settings are given, checked and shown. */
#include "server/settings.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/memory.h"
#include "base/number_text.h"
#include "server/settings_state.h"
#include "server/text_file.h"

enum {
    TEXT_BYTES_MAX = 4 << 20, /* of all that is given */
    DEVICES_MAX = 64
};

static const char *const truth[] = {"false", "true", NULL};

int settings_count(void)
{
    int n = 0;
    while (setting_table[n].path != NULL)
        n++;
    return n;
}

enum mr_status settings_create(struct settings **out, struct mr_error *err)
{
    struct settings *s = *out = mem_zero_array(1, sizeof *s);
    if (s == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for settings");
    arena_init(&s->text, TEXT_BYTES_MAX);
    server_settings_defaults(&s->defaults);
    s->defaults.device = "auto";
    s->defaults.memory_gpu_share = 0.9F;
    s->values = s->defaults;
    return MR_OK;
}

void settings_free(struct settings *s)
{
    if (s == NULL)
        return;
    arena_release(&s->text);
    free(s);
}

const struct server_settings *settings_values(const struct settings *s) { return &s->values; }

/* In the arena; NULL: no memory. */
static const char *keep(struct settings *s, const char *text)
{
    const size_t n = strlen(text) + 1;
    char *copy = arena_alloc(&s->text, n);
    return copy != NULL ? memcpy(copy, text, n) : NULL;
}

static enum mr_status give_text(struct settings *s, const struct setting *row, void *field, const char *text,
                                struct mr_error *err)
{
    int64_t device = 0;
    if (row->kind == SETTING_DEVICE && strcmp(text, "auto") != 0 && strcmp(text, "cpu") != 0 &&
        (strncmp(text, "cuda:", 5) != 0 || !isdigit((unsigned char)text[5]) ||
         number_read_int(&device, text + 5, 0, DEVICES_MAX - 1, NULL) != MR_OK))
        return mr_fail(err, MR_BAD_INPUT, "'%s' is not one of auto, cpu, cuda:0, ...", text);
    if (*text == '\0')
        return mr_fail(err, MR_BAD_INPUT, "is empty");
    const char *copy = keep(s, text);
    if (copy == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for settings");
    *(const char **)field = copy;
    return MR_OK;
}

/* Index of the text among the names. */
static enum mr_status find_choice(int *out, const char *const *choice, const char *text, struct mr_error *err)
{
    char known[256] = "";
    for (int i = 0; choice[i] != NULL; i++) {
        if (strcmp(text, choice[i]) == 0) {
            *out = i;
            return MR_OK;
        }
        const size_t n = strlen(known);
        snprintf(known + n, sizeof known - n, "%s%s", i > 0 ? ", " : "", choice[i]);
    }
    return mr_fail(err, MR_BAD_INPUT, "'%s' is not one of %s", text, known);
}

static enum mr_status give_number(const struct setting *row, void *field, const char *text, struct mr_error *err)
{
    int64_t integer = 0;
    double real = 0;
    if (row->kind == SETTING_INT) {
        MR_TRY(number_read_int(&integer, text, row->low, row->high, err));
        *(int32_t *)field = (int32_t)integer;
        return MR_OK;
    }
    if (row->kind == SETTING_FLOAT) {
        MR_TRY(number_read_float(&real, text, row->low, row->high, err));
        *(float *)field = (float)real;
        return MR_OK;
    }
    /* A bare number of GB is the same number with the letter behind it. */
    char with_unit[64];
    const bool is_bare = row->kind == SETTING_GB && text[strspn(text, "0123456789.eE+-")] == '\0' && strlen(text) < 48;
    snprintf(with_unit, sizeof with_unit, "%sG", is_bare ? text : "");
    return number_read_size(field, is_bare ? with_unit : text, row->low, row->high, err);
}

static enum mr_status give_choice(const struct setting *row, void *field, const char *text, struct mr_error *err)
{
    int at = 0;
    MR_TRY(find_choice(&at, row->choice != NULL ? row->choice : truth, text, err));
    if (row->kind == SETTING_BOOL)
        *(bool *)field = at == 1;
    else
        *(int32_t *)field = at;
    return MR_OK;
}

static enum mr_status give_list(struct settings *s, const struct setting *row, const char *const *text, int n,
                                struct mr_error *err)
{
    const char **copy = arena_alloc(&s->text, (size_t)(n > 0 ? n : 1) * sizeof *copy);
    if (copy == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for settings");
    for (int i = 0; i < n; i++) {
        if (*text[i] == '\0')
            return mr_fail(err, MR_BAD_INPUT, "one of the list is empty");
        if ((copy[i] = keep(s, text[i])) == NULL)
            return mr_fail(err, MR_NO_MEMORY, "no memory for settings");
    }
    *(const char *const **)((char *)&s->values + row->offset) = copy;
    *(int32_t *)((char *)&s->values + row->n_offset) = n;
    return MR_OK;
}

size_t setting_field_size(const struct setting *row)
{
    switch (row->kind) {
    case SETTING_SIZE:
    case SETTING_GB:
        return sizeof(size_t);
    case SETTING_BOOL:
        return sizeof(bool);
    case SETTING_TEXT:
    case SETTING_DEVICE:
    case SETTING_LIST:
        return sizeof(void *);
    case SETTING_INT:
    case SETTING_FLOAT:
    case SETTING_CHOICE:
        break;
    }
    return sizeof(int32_t);
}

enum mr_status settings_give(struct settings *s, const struct setting *row, const char *const *text, int n,
                             enum settings_source source, struct mr_error *err)
{
    void *field = (char *)&s->values + row->offset;
    enum mr_status status;
    if (row->has_auto && n == 1 && strcmp(text[0], "auto") == 0) {
        memcpy(field, (char *)&s->defaults + row->offset, setting_field_size(row));
        status = MR_OK;
    } else if (row->kind == SETTING_LIST) {
        status = n <= SETTING_LIST_MAX ? give_list(s, row, text, n, err)
                                       : mr_fail(err, MR_BAD_INPUT, "has more than %d entries", SETTING_LIST_MAX);
    } else if (row->kind == SETTING_TEXT || row->kind == SETTING_DEVICE) {
        status = give_text(s, row, field, text[0], err);
    } else if (row->kind == SETTING_BOOL || row->kind == SETTING_CHOICE) {
        status = give_choice(row, field, text[0], err);
    } else {
        status = give_number(row, field, text[0], err);
    }
    if (status == MR_OK)
        s->source[row - setting_table] = source;
    return status;
}

void setting_variable(char *out, size_t size, const struct setting *row)
{
    const char *name = strncmp(row->flag, "no-", 3) == 0 ? row->flag + 3 : row->flag;
    snprintf(out, size, "MILLRACE_%s", name);
    for (char *c = out; *c != '\0'; c++)
        *c = *c == '-' ? '_' : (char)toupper((unsigned char)*c);
}

/* Cut at commas, in place. */
static enum mr_status give_joined(struct settings *s, const struct setting *row, char *text, struct mr_error *err)
{
    const char *part[SETTING_LIST_MAX];
    int n = 0;
    char *rest = NULL;
    for (char *at = strtok_r(text, ",", &rest); at != NULL; at = strtok_r(NULL, ",", &rest)) {
        if (n == SETTING_LIST_MAX)
            return mr_fail(err, MR_BAD_INPUT, "has more than %d entries", SETTING_LIST_MAX);
        part[n++] = at;
    }
    return n > 0 ? settings_give(s, row, part, n, SETTINGS_ENVIRONMENT, err) : mr_fail(err, MR_BAD_INPUT, "is empty");
}

static enum mr_status give_variable(struct settings *s, const struct setting *row, const char *text, struct mr_error *err)
{
    if (*text == '\0')
        return mr_fail(err, MR_BAD_INPUT, "is empty");
    if (row->kind != SETTING_LIST)
        return settings_give(s, row, &text, 1, SETTINGS_ENVIRONMENT, err);
    char *copy = mem_string(text, strlen(text));
    if (copy == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for settings");
    const enum mr_status status = give_joined(s, row, copy, err);
    free(copy);
    return status;
}

enum mr_status settings_read_environment(struct settings *s, char *const *environment, struct mr_error *err)
{
    for (char *const *e = environment; *e != NULL; e++)
        if (strncmp(*e, "MILLRACE_CPU=", 13) == 0) /* the mask of instructions of all commands */
            s->values.engine.cpu = *e + 13;
    for (const struct setting *row = setting_table; row->path != NULL; row++) {
        char name[128];
        setting_variable(name, sizeof name, row);
        const size_t n = strlen(name);
        for (char *const *e = environment; *e != NULL; e++) {
            if (strncmp(*e, name, n) != 0 || (*e)[n] != '=')
                continue;
            const enum mr_status status = give_variable(s, row, *e + n + 1, err);
            if (status != MR_OK)
                return mr_fail_in(err, status, "%s", name);
        }
    }
    return MR_OK;
}

enum mr_status settings_read_file(struct settings *s, const char *path, struct mr_error *err)
{
    struct string_buffer text;
    string_buffer_init(&text);
    enum mr_status status = text_file_read(&text, path, SETTINGS_FILE_MAX, err);
    if (status == MR_OK && (status = settings_read(s, text.s, text.n, err)) != MR_OK)
        mr_fail_in(err, status, "%s", path);
    string_buffer_release(&text);
    return status;
}

enum mr_status settings_check(const struct settings *s, struct mr_error *err)
{
    const struct server_settings *v = &s->values;
    if (strncmp(v->device, "cuda:", 5) == 0 && !v->device_fallback)
        return mr_fail(err, MR_NO_SUPPORT,
                       "device '%s' is not there: this build computes on the CPU; `device_fallback: cpu` lets it", v->device);
    if (v->model == NULL && v->n_models > 0 &&
        (v->alias != NULL || v->n_lora > 0 || v->lora_dir != NULL || v->n_pin > 0 || v->chat_template != NULL))
        return mr_fail(err, MR_BAD_INPUT,
                       "alias, chat_template, adapters and prompt_cache.pin are about `model`, which is not given");
    if (v->model != NULL && v->n_models > 0 && v->models_max == 1)
        return mr_fail(err, MR_BAD_INPUT, "model_cache.max_loaded is 1, which `model` fills: there is no room for `models`");
    if (v->engine.speculation == MR_SPECULATION_DRAFT && v->engine.draft_model == NULL)
        return mr_fail(err, MR_BAD_INPUT, "speculation.method draft needs speculation.draft_model");
    if (v->warm_active + v->warm_standby > 64)
        return mr_fail(err, MR_BAD_INPUT, "warm_pool: active and standby are more than 64 processes");
    if (v->engine.low_load > v->engine.high_load)
        return mr_fail(err, MR_BAD_INPUT, "scheduler.low_load is %g, above scheduler.high_load, %g", (double)v->engine.low_load,
                       (double)v->engine.high_load);
    if ((v->tls_certificate == NULL) != (v->tls_key == NULL))
        return mr_fail(err, MR_BAD_INPUT, "server.tls_certificate and server.tls_key belong together");
    if (v->memory_cpu_bytes > 0 && v->engine.kv_tokens > 0)
        return mr_fail(err, MR_BAD_INPUT, "kv_tokens and memory_pool.cpu both say how much the cache holds: give one");
    if (v->n_pin > 0 && !v->engine.prefix_cache)
        return mr_fail(err, MR_BAD_INPUT, "prompt_cache.pin needs prompt_cache.enabled");
    return MR_OK;
}
