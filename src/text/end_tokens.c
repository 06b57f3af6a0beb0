/* end_tokens.c: tokens known by their spelling. */
#include "text/end_tokens.h"

#include <string.h>

bool end_token_is_known(const char *spelling, size_t n)
{
    static const char *const known[] = {
        "<|endoftext|>",                           /* GPT-2, Qwen, Phi, Falcon, StarCoder */
        "<|im_end|>",                              /* ChatML */
        "<|end_of_text|>",                         /* Llama 3 */
        "<|eot_id|>",                              /* Llama 3 */
        "<|eom_id|>",                              /* Llama 3, before a tool answers */
        "<|eot|>",                                 /* Llama 4 */
        "<|eom|>",                                 /* Llama 4 */
        "<|end|>",                                 /* Phi 3 */
        "<|return|>",                              /* gpt-oss */
        "<|call|>",                                /* gpt-oss */
        "<end_of_turn>",                           /* Gemma 2 and 3 */
        "<turn|>",                                 /* Gemma 4 */
        "<end_of_utterance>",                      /* SmolVLM */
        "<|END_OF_TURN_TOKEN|>",                   /* Command R */
        "<\uff5cend\u2581of\u2581sentence\uff5c>", /* DeepSeek */
        "<|user|>",                                /* GLM 4: the next turn begins */
        "<|observation|>",                         /* GLM 4 */
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strlen(known[i]) == n && memcmp(known[i], spelling, n) == 0)
            return true;
    return false;
}

static bool has_prefix(const char *s, size_t n, const char *prefix)
{
    const size_t len = strlen(prefix);
    return n >= len && memcmp(s, prefix, len) == 0;
}

static bool has_suffix(const char *s, size_t n, const char *suffix)
{
    const size_t len = strlen(suffix);
    return n >= len && memcmp(s + n - len, suffix, len) == 0;
}

bool is_marker(const char *spelling, size_t n)
{
    return n > 4 && spelling[0] == '<' && spelling[n - 1] == '>' &&
           (has_prefix(spelling, n, "<|") || has_suffix(spelling, n, "|>") || has_prefix(spelling, n, "<\uff5c"));
}
