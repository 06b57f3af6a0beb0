/* old_unicode.h: character classes as Unicode 8.0 has them: those by which the published tokenizers of BERT and Falcon
 * split and clean text. Later characters count as none of these. */
#ifndef TEXT_OLD_UNICODE_H
#define TEXT_OLD_UNICODE_H

#include <stdbool.h>
#include <stdint.h>

bool old_unicode_is_punctuation(uint32_t code);     /* general category P, and the symbols of ASCII */
bool old_unicode_is_nonspacing_mark(uint32_t code); /* Mn */
bool old_unicode_is_control(uint32_t code);         /* Cc, Cf, Co */

#endif
