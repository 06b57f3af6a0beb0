/* byte_level.c: the printable characters that byte-level BPE writes bytes as. */
#include "text/byte_level.h"

#include <stdbool.h>

static bool stands_for_itself(uint32_t code)
{
    return (code >= 0x21 && code <= 0x7e) || (code >= 0xa1 && code <= 0xac) || (code >= 0xae && code <= 0xff);
}

uint32_t byte_level_char(unsigned byte)
{
    if (stands_for_itself(byte))
        return byte;
    if (byte <= 0x20)
        return 0x100 + byte;
    return byte == 0xad ? 0x143 : 0x121 + (byte - 0x7f);
}

int byte_level_byte(uint32_t code)
{
    if (stands_for_itself(code))
        return (int)code;
    if (code < 0x100 || code > 0x143)
        return -1;
    if (code == 0x143)
        return 0xad;
    return (int)(code <= 0x120 ? code - 0x100 : code - 0x121 + 0x7f);
}
