/* refused_fields.c: fields of the peers that would change the answer, and that we do not have: nothing is dropped in silence.
 */
#include <string.h>

#include "server/api/sampling_fields.h"

/* The value that changes nothing. */
enum neutral {
    NEUTRAL_NONE, /* there is none */
    NEUTRAL_FALSE,
    NEUTRAL_ZERO, /* or less */
    NEUTRAL_ONE,
    NEUTRAL_EMPTY,    /* a list without members */
    NEUTRAL_TEXT_ONLY /* ["text"] */
};

static const struct {
    const char *name;
    enum neutral neutral;
} refused[] = {
    {"dry_multiplier", NEUTRAL_ZERO},
    {"xtc_probability", NEUTRAL_ZERO},
    {"mirostat", NEUTRAL_ZERO},
    {"dynatemp_range", NEUTRAL_ZERO},
    {"top_n_sigma", NEUTRAL_ZERO},
    {"tfs_z", NEUTRAL_ONE},
    {"top_a", NEUTRAL_ZERO},
    {"length_penalty", NEUTRAL_ONE},
    {"use_beam_search", NEUTRAL_FALSE},
    {"include_stop_str_in_output", NEUTRAL_FALSE},
    {"continue_final_message", NEUTRAL_FALSE},
    {"post_sampling_probs", NEUTRAL_FALSE},
    {"truncate_prompt_tokens", NEUTRAL_NONE},
    {"allowed_token_ids", NEUTRAL_NONE},
    {"logits_processors", NEUTRAL_EMPTY},
    {"thinking_token_budget", NEUTRAL_NONE},
    {"functions", NEUTRAL_EMPTY},
    {"function_call", NEUTRAL_NONE},
    {"audio", NEUTRAL_NONE},
    {"modalities", NEUTRAL_TEXT_ONLY},
    {"web_search_options", NEUTRAL_NONE},
};

static bool is_neutral(const json_t *v, enum neutral neutral)
{
    const char *only = json_string_value(json_array_get(v, 0));
    switch (neutral) {
    case NEUTRAL_FALSE:
        return json_is_false(v);
    case NEUTRAL_ZERO:
        return json_is_number(v) && json_number_value(v) <= 0;
    case NEUTRAL_ONE:
        return json_is_number(v) && json_number_value(v) == 1;
    case NEUTRAL_EMPTY:
        return json_is_array(v) && json_array_size(v) == 0;
    case NEUTRAL_TEXT_ONLY:
        return json_array_size(v) == 1 && only != NULL && strcmp(only, "text") == 0;
    default:
        return false;
    }
}

void refused_fields_check(const struct json_fields *f)
{
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        const json_t *v = json_fields_get(f, refused[i].name);
        if (v != NULL && !is_neutral(v, refused[i].neutral))
            json_fields_fail(f, refused[i].name, "is not supported");
    }
}
