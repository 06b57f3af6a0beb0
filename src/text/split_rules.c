/* split_rules.c: the table of pre-tokenizers.
 * The expressions are those of the models' published tokenizer.json files, written for PCRE2 so that they match the same
 * strings in linear time:
 *   - \s is spelled out: White_Space of Unicode, to which PCRE2 adds U+180E;
 *   - where splitting digits off came first, the lookahead after blanks takes a digit for the end of the piece;
 *   - $ after blanks is tried only where the run of blanks begins. */
#include "text/split_rules.h"

#include <string.h>

/* Inside a character class. */
#define SPACE  "\\t-\\r \\x{85}\\x{A0}\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}\\x{205F}\\x{3000}"
#define BLANKS "[" SPACE "]+(?![^" SPACE "])|[" SPACE "]+"
#define LINES  "[" SPACE "]*[\\r\\n]+|" BLANKS

/* GPT-2 (Radford et al. 2019): contractions, words, numbers, the rest, each with the blank before it. */
#define GPT2_WORDS "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+"
static const struct split_stage gpt2[] = {
    {SPLIT_COVER, GPT2_WORDS "| ?\\p{N}+| ?[^" SPACE "\\p{L}\\p{N}]+|" BLANKS},
    {SPLIT_END, NULL},
};

/* Each numeric character alone, then GPT-2's. */
static const struct split_stage digits_gpt2[] = {
    {SPLIT_COVER, GPT2_WORDS "|\\p{N}| ?[^" SPACE "\\p{L}\\p{N}]+|[" SPACE "]+(?![^" SPACE "\\p{N}])|[" SPACE "]+"},
    {SPLIT_END, NULL},
};

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define MARKS_LINES  " ?[^" SPACE "\\p{L}\\p{N}]+[\\r\\n]*|" LINES

static const struct split_stage llama3[] = {
    {SPLIT_COVER, CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}|" MARKS_LINES},
    {SPLIT_END, NULL},
};

static const struct split_stage qwen2[] = {
    {SPLIT_COVER, CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}|" MARKS_LINES},
    {SPLIT_END, NULL},
};

static const struct split_stage qwen35[] = {
    {SPLIT_COVER,
     CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^" SPACE "\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" LINES},
    {SPLIT_END, NULL},
};

/* Words in which capitals come first: GPT-4o's o200k and Mistral's Tekken. */
#define UPPER             "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER             "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define CASED_WORDS(end)  "[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+" end "|[^\\r\\n\\p{L}\\p{N}]?" UPPER "+" LOWER "*" end
#define MARKS_SLASH_LINES " ?[^" SPACE "\\p{L}\\p{N}]+[\\r\\n/]*|" LINES

static const struct split_stage gpt4o[] = {
    {SPLIT_COVER, CASED_WORDS(CONTRACTIONS "?") "|\\p{N}{1,3}|" MARKS_SLASH_LINES},
    {SPLIT_END, NULL},
};

static const struct split_stage tekken[] = {
    {SPLIT_COVER, CASED_WORDS("") "|\\p{N}|" MARKS_SLASH_LINES},
    {SPLIT_END, NULL},
};

/* The cased letters, as the tokenizer of DeepSeek LLM lists them. */
#define CASED_LETTERS                                                                                                          \
    "A-Za-z\\x{B5}\\x{C0}-\\x{D6}\\x{D8}-\\x{F6}\\x{F8}-\\x{1BA}\\x{1BC}-\\x{1BF}\\x{1C4}-\\x{293}\\x{295}-\\x{2AF}"           \
    "\\x{370}-\\x{373}\\x{376}\\x{377}\\x{37B}-\\x{37D}\\x{37F}\\x{386}\\x{388}-\\x{38A}\\x{38C}\\x{38E}-\\x{3A1}"             \
    "\\x{3A3}-\\x{3F5}\\x{3F7}-\\x{481}\\x{48A}-\\x{52F}\\x{531}-\\x{556}\\x{10A0}-\\x{10C5}\\x{13A0}-\\x{13F5}"               \
    "\\x{13F8}-\\x{13FD}\\x{1C90}-\\x{1CBA}\\x{1CBD}-\\x{1CBF}\\x{1D00}-\\x{1D2B}\\x{1D6B}-\\x{1D77}\\x{1D79}-\\x{1D9A}"       \
    "\\x{1E00}-\\x{1F15}\\x{1F18}-\\x{1F1D}\\x{1F20}-\\x{1F45}\\x{1F48}-\\x{1F4D}\\x{1F50}-\\x{1F57}\\x{1F59}\\x{1F5B}"        \
    "\\x{1F5D}\\x{1F5F}-\\x{1F7D}\\x{1F80}-\\x{1FB4}\\x{1FB6}-\\x{1FBC}\\x{1FBE}\\x{1FC2}-\\x{1FC4}\\x{1FC6}-\\x{1FCC}"        \
    "\\x{1FD0}-\\x{1FD3}\\x{1FD6}-\\x{1FDB}\\x{1FE0}-\\x{1FEC}\\x{1FF2}-\\x{1FF4}\\x{1FF6}-\\x{1FFC}\\x{2102}\\x{2107}"        \
    "\\x{210A}-\\x{2113}\\x{2115}\\x{2119}-\\x{211D}\\x{2124}\\x{2126}\\x{2128}\\x{212A}-\\x{212D}\\x{212F}-\\x{2134}"         \
    "\\x{2139}\\x{213C}-\\x{213F}\\x{2145}-\\x{2149}\\x{214E}\\x{2183}\\x{2184}\\x{2C00}-\\x{2C7B}\\x{2C7E}-\\x{2CE4}"         \
    "\\x{2CEB}-\\x{2CEE}\\x{2CF2}\\x{2CF3}\\x{A640}-\\x{A66D}\\x{A680}-\\x{A69B}\\x{A722}-\\x{A76F}\\x{A771}-\\x{A787}"        \
    "\\x{A78B}-\\x{A78E}\\x{AB70}-\\x{ABBF}\\x{FB00}-\\x{FB06}\\x{FB13}-\\x{FB17}\\x{FF21}-\\x{FF3A}\\x{FF41}-\\x{FF5A}"       \
    "\\x{10400}-\\x{1044F}\\x{104B0}-\\x{104D3}\\x{104D8}-\\x{104FB}\\x{10C80}-\\x{10CB2}\\x{10CC0}-\\x{10CF2}"                \
    "\\x{118A0}-\\x{118DF}\\x{1E900}-\\x{1E943}"
#define CJK_AND_HANGUL "[\\x{800}-\\x{9FA5}\\x{AC00}-\\x{D7FF}]+"

static const struct split_stage deepseek_llm[] = {
    {SPLIT_FIND, "[\\r\\n]"},
    {SPLIT_FIND, "[" SPACE "]?[" CASED_LETTERS "]+"},
    {SPLIT_FIND, "[" SPACE "]?[!-/:-~\\x{FF01}-\\x{FF0F}\\x{FF1A}-\\x{FF5E}\\x{2018}-\\x{201F}\\x{3000}-\\x{3002}]+"},
    {SPLIT_FIND, "(?<![" SPACE "])[" SPACE "]++\\z"},
    {SPLIT_FIND, CJK_AND_HANGUL},
    {SPLIT_FIND, "\\p{N}"},
};

static const struct split_stage deepseek_coder[] = {
    {SPLIT_FIND, "[\\r\\n]"},
    {SPLIT_FIND, "[" SPACE "]?\\p{L}+"},
    {SPLIT_FIND, "[" SPACE "]?\\p{P}+"},
    {SPLIT_FIND, CJK_AND_HANGUL},
    {SPLIT_FIND, "\\p{N}"},
    {SPLIT_END, NULL},
};

static const struct split_stage deepseek_v3[] = {
    {SPLIT_FIND, "\\p{N}{1,3}"},
    {SPLIT_FIND, "[\\x{4E00}-\\x{9FA5}\\x{3040}-\\x{30FF}]+"},
    {SPLIT_FIND, "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
                 "| ?[\\p{P}\\p{S}]+[\\r\\n]*|" LINES},
    {SPLIT_END, NULL},
};

static const struct split_stage falcon[] = {
    {SPLIT_PUNCTUATION, NULL},
    {SPLIT_COVER, GPT2_WORDS "| ?\\p{N}+| ?[^" SPACE "\\p{L}\\p{N}]+|" BLANKS},
    {SPLIT_NUMERIC, NULL},
    {SPLIT_END, NULL},
};

static const struct split_stage bloom[] = {
    {SPLIT_FIND, " ?[^(" SPACE "|.,!?\\x{2026}\\x{3002}\\x{FF0C}\\x{3001}\\x{964}\\x{6D4}\\x{60C})]+"},
    {SPLIT_END, NULL},
};

static const struct split_rule rules[] = {
    {"smollm", false, false, digits_gpt2},
    {"gpt-2", false, false, gpt2},
    {"llama-bpe", true, true, llama3},
    {"llama3", true, true, llama3},
    {"llama-v3", true, true, llama3},
    {"qwen2", false, false, qwen2},
    {"qwen35", false, false, qwen35},
    {"deepseek-llm", false, false, deepseek_llm},
    {"falcon", false, false, falcon},
    {"command-r", false, false, digits_gpt2},
    {"starcoder", false, false, digits_gpt2},
    {"refact", false, false, digits_gpt2},
    {"codeshell", false, false, digits_gpt2},
    {"phi-2", false, false, gpt2},
    {"roberta-bpe", false, false, gpt2},
    {"mpt", false, false, gpt2},
    {"olmo", false, false, gpt2},
    {"dbrx", false, false, llama3},
    {"smaug-bpe", false, false, llama3},
    {"glm4", false, false, llama3},
    {"falcon3", true, true, llama3},
    {"falcon-h1", true, true, llama3},
    {"pixtral", true, true, llama3},
    {"lfm2", true, true, llama3},
    {"megrez", false, false, qwen2},
    {"deepseek-r1-qwen", false, false, qwen2},
    {"deepseek-coder", false, false, deepseek_coder},
    {"deepseek-v3", false, false, deepseek_v3},
    {"gpt-4o", false, false, gpt4o},
    {"llama4", false, false, gpt4o},
    {"minimax-m2", false, false, gpt4o},
    {"tekken", true, true, tekken},
    {"bloom", false, false, bloom},
};

const struct split_rule *split_rule_find(const char *name, size_t n)
{
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (strlen(rules[i].name) == n && memcmp(rules[i].name, name, n) == 0)
            return &rules[i];
    return NULL;
}
