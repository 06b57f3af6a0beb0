/* peft_config.c: reads adapter_config.json. Settings that would change what the adapter computes, and that we do not follow,
 * must be off. */
#include "format/peft_config.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

static const char *const must_be_off[] = {
    "use_dora",          "lora_bias",     "modules_to_save", "layer_replication", "trainable_token_indices",
    "target_parameters", "use_qalora",    "alpha_pattern",   "arrow_config",      "alora_invocation_tokens",
    "use_bdlora",        "lora_ga_config"};

/* Ways to begin that leave the base model as it is; others change it, so that the adapter alone is not enough. */
static const char *const beginnings[] = {"gaussian", "eva", "orthogonal"};

static bool is_off(const json_t *v)
{
    return v == NULL || json_is_null(v) || json_is_false(v) || (json_is_array(v) && json_array_size(v) == 0) ||
           (json_is_object(v) && json_object_size(v) == 0);
}

static enum mr_status check_beginning(const json_t *config, struct mr_error *err)
{
    const char *s = json_string_value(json_object_get(config, "init_lora_weights"));
    for (size_t i = 0; s != NULL && i < sizeof beginnings / sizeof *beginnings; i++)
        if (strcmp(s, beginnings[i]) == 0)
            return MR_OK;
    return s == NULL ? MR_OK
                     : mr_fail(err, MR_NO_SUPPORT, "'init_lora_weights' is '%.40s': the base model was changed, too", s);
}

static enum mr_status check(const json_t *config, struct mr_error *err)
{
    const char *type = json_string_value(json_object_get(config, "peft_type"));
    const char *bias = json_string_value(json_object_get(config, "bias"));
    if (type == NULL || strcmp(type, "LORA") != 0)
        return mr_fail(err, MR_NO_SUPPORT, "'peft_type' is %.40s, must be LORA", type != NULL ? type : "missing");
    if (bias != NULL && strcmp(bias, "none") != 0)
        return mr_fail(err, MR_NO_SUPPORT, "'bias' is '%.40s': adapted biases are not supported", bias);
    for (size_t i = 0; i < sizeof must_be_off / sizeof *must_be_off; i++)
        if (!is_off(json_object_get(config, must_be_off[i])))
            return mr_fail(err, MR_NO_SUPPORT, "'%s' is not supported", must_be_off[i]);
    return check_beginning(config, err);
}

static enum mr_status read_alpha(double *alpha, const json_t *config, struct mr_error *err)
{
    const json_t *a = json_object_get(config, "lora_alpha"), *r = json_object_get(config, "r");
    if (!json_is_number(a) || !(json_number_value(a) > 0) || !(json_number_value(a) < 1e9))
        return mr_fail(err, MR_BAD_FORMAT, "'lora_alpha' is missing or no number above 0");
    *alpha = json_number_value(a);
    if (is_off(json_object_get(config, "use_rslora")))
        return MR_OK;
    if (!is_off(json_object_get(config, "rank_pattern")))
        return mr_fail(err, MR_NO_SUPPORT, "'use_rslora' with a 'rank_pattern' is not supported");
    if (!json_is_integer(r) || json_integer_value(r) < 1)
        return mr_fail(err, MR_BAD_FORMAT, "'r' is missing or no number above 0");
    *alpha *= sqrt((double)json_integer_value(r)); /* alpha / sqrt(r), Kalajdzievski 2023, arXiv:2312.03732 */
    return MR_OK;
}

enum mr_status peft_config_alpha(double *alpha, const char *path, struct mr_error *err)
{
    json_error_t why;
    json_t *config = json_load_file(path, JSON_REJECT_DUPLICATES, &why);
    enum mr_status status = MR_OK;
    if (config == NULL)
        return mr_fail(err, json_error_code(&why) == json_error_cannot_open_file ? MR_NOT_FOUND : MR_BAD_FORMAT, "'%s': %s",
                       path, why.text);
    status = check(config, err);
    if (status == MR_OK)
        status = read_alpha(alpha, config, err);
    json_decref(config);
    return status == MR_OK ? MR_OK : mr_fail_in(err, status, "'%s'", path);
}
