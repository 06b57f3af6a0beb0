/* adapter_list.c: the adapters of the command line. */
#include "cli/adapter_list.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    SCALE_MAX = 100
};

/* FILE:SCALE; the file's name may hold colons. */
static enum mr_status split(const char *text, size_t *n_path, float *scale, struct mr_error *err)
{
    const char *colon = strrchr(text, ':');
    char *end = NULL;
    *scale = colon != NULL ? strtof(colon + 1, &end) : 0;
    if (colon == NULL || end == colon + 1 || *end != '\0' || !isfinite(*scale) || fabsf(*scale) > SCALE_MAX)
        return mr_fail(err, MR_BAD_INPUT, "--lora-scaled: '%s' is not FILE:SCALE with a scale from -%d to %d", text, SCALE_MAX,
                       SCALE_MAX);
    *n_path = (size_t)(colon - text);
    return MR_OK;
}

enum mr_status adapter_list_at(const struct model_arguments *a, int i, char path[ADAPTER_PATH_MAX], float *scale,
                               struct mr_error *err)
{
    const bool is_scaled = i >= a->lora.n;
    if (i >= a->lora.n + a->lora_scaled.n)
        return MR_NOT_FOUND;
    const char *text = is_scaled ? a->lora_scaled.s[i - a->lora.n] : a->lora.s[i];
    size_t n = strlen(text);
    *scale = 1;
    if (is_scaled)
        MR_TRY(split(text, &n, scale, err));
    if (n >= ADAPTER_PATH_MAX)
        return mr_fail(err, MR_BAD_INPUT, "--lora: a path of %zu bytes is too long", n);
    memcpy(path, text, n);
    path[n] = '\0';
    return MR_OK;
}

enum mr_status adapter_list_load(struct mr_adapter_use use[MR_ADAPTERS_MAX], int32_t *n, struct mr_model *model,
                                 const struct model_arguments *a, struct mr_error *err)
{
    const int n_all = a->lora.n + a->lora_scaled.n;
    char path[ADAPTER_PATH_MAX];
    *n = 0;
    if (n_all > MR_ADAPTERS_MAX)
        return mr_fail(err, MR_BAD_INPUT, "--lora: %d adapters, at most %d are possible", n_all, MR_ADAPTERS_MAX);
    for (int i = 0; i < n_all; i++) {
        MR_TRY(adapter_list_at(a, i, path, &use[i].scale, err));
        MR_TRY(mr_adapter_load(model, path, &use[i].adapter, err));
        *n = i + 1;
    }
    return MR_OK;
}
