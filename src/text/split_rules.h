/* split_rules.h: the table of pre-tokenizers: the name in a file, the regular expressions, and what else it implies. */
#ifndef TEXT_SPLIT_RULES_H
#define TEXT_SPLIT_RULES_H

#include <stdbool.h>
#include <stddef.h>

enum {
    SPLIT_STAGES_MAX = 6
};

enum split_kind {
    SPLIT_END,         /* no further stage */
    SPLIT_COVER,       /* the matches follow each other and cover the text */
    SPLIT_FIND,        /* a match is a piece, and so is what lies between two matches */
    SPLIT_PUNCTUATION, /* Falcon: runs of punctuation (old_unicode.h) are pieces of their own; no pattern */
    SPLIT_NUMERIC      /* Falcon: runs of bytes that byte-level BPE writes as numeric characters, cut into threes; no pattern */
};

struct split_stage {
    enum split_kind kind;
    const char *pattern; /* PCRE2, UTF and UCP */
};

struct split_rule { /* each stage cuts the pieces of the one before */
    const char *name;
    bool whole_piece_first, adds_bos;
    const struct split_stage *stage; /* up to SPLIT_STAGES_MAX, or SPLIT_END */
};

/* NULL: unknown. */
const struct split_rule *split_rule_find(const char *name, size_t n);

#endif
