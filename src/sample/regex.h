/* regex.h: regular expressions of ECMA-262 (2024, section 22.2, with the u flag's view of characters) as automata over code
 * points. Understood: alternatives, groups, quantifiers (lazy ones describe the same texts), classes, \d \w \s and their
 * opposites, . ^ $, escapes. Refused, NO_SUPPORT: back-references, look-around, word boundaries, \p, inline flags. */
#ifndef SAMPLE_REGEX_H
#define SAMPLE_REGEX_H

#include "sample/grammar_dfa.h"

enum {
    REGEX_DEPTH_MAX = 100, /* groups inside groups */
    REGEX_REPEAT_MAX = 10000
};

enum regex_match {
    REGEX_FULL,  /* the whole text matches */
    REGEX_SEARCH /* the text contains a match */
};

/* The minimized automaton of the texts that match. BAD_INPUT, NO_SUPPORT: the message gives the place. */
enum mr_status regex_to_dfa(struct dfa *out, const char *pattern, size_t n, enum regex_match match, struct mr_error *err);

#endif
