/* byte_level.h: the printable characters that byte-level BPE writes bytes as (Radford et al. 2019, "Language models are
 * unsupervised multitask learners", section 2.2): the printable bytes of Latin-1 stand for themselves, the other 68
 * are, in order, U+0100 to U+0143. */
#ifndef TEXT_BYTE_LEVEL_H
#define TEXT_BYTE_LEVEL_H

#include <stdint.h>

/* The character of a byte. */
uint32_t byte_level_char(unsigned byte);

/* The byte of a character; -1: none has it. */
int byte_level_byte(uint32_t code);

#endif
