/* utf8.c: strict UTF-8. */
#include "base/utf8.h"

/* The range that the second byte must lie in, by lead byte: excludes overlong forms, surrogates and
 * values past U+10FFFF. Returns the length of the character, 0 for a byte that cannot lead. */
static int lead_byte(unsigned char b, unsigned char *low, unsigned char *high)
{
    *low = 0x80;
    *high = 0xbf;
    if (b < 0x80)
        return 1;
    if (b < 0xc2)
        return 0;
    if (b < 0xe0)
        return 2;
    if (b < 0xf0) {
        if (b == 0xe0)
            *low = 0xa0;
        if (b == 0xed)
            *high = 0x9f;
        return 3;
    }
    if (b < 0xf5) {
        if (b == 0xf0)
            *low = 0x90;
        if (b == 0xf4)
            *high = 0x8f;
        return 4;
    }
    return 0;
}

/* How many bytes of the character at s are well-formed; *need is its full length (0: no lead byte). */
static int good_bytes(const unsigned char *s, size_t n, int *need)
{
    unsigned char low, high;
    *need = lead_byte(s[0], &low, &high);
    if (*need <= 1)
        return *need;
    int i = 1;
    while (i < *need && (size_t)i < n && s[i] >= low && s[i] <= high) {
        low = 0x80;
        high = 0xbf;
        i++;
    }
    return i;
}

int utf8_decode(uint32_t *code, const char *str, size_t n)
{
    static const unsigned char lead_mask[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    const unsigned char *s = (const unsigned char *)str;
    *code = 0xfffd;
    if (n == 0)
        return 0;
    int need;
    const int good = good_bytes(s, n, &need);
    if (need == 0)
        return -1;
    if (good < need)
        return -good;
    uint32_t c = s[0] & lead_mask[need];
    for (int i = 1; i < need; i++)
        c = c << 6 | (s[i] & 0x3f);
    *code = c;
    return need;
}

bool utf8_is_prefix(const char *str, size_t n)
{
    int need;
    if (n == 0)
        return false;
    const int good = good_bytes((const unsigned char *)str, n, &need);
    return need > 1 && good < need && (size_t)good == n;
}

int utf8_encode(char s[UTF8_MAX], uint32_t code)
{
    if (code < 0x80) {
        s[0] = (char)code;
        return 1;
    }
    if (code < 0x800) {
        s[0] = (char)(0xc0 | code >> 6);
        s[1] = (char)(0x80 | (code & 0x3f));
        return 2;
    }
    if (code < 0x10000) {
        s[0] = (char)(0xe0 | code >> 12);
        s[1] = (char)(0x80 | (code >> 6 & 0x3f));
        s[2] = (char)(0x80 | (code & 0x3f));
        return 3;
    }
    s[0] = (char)(0xf0 | code >> 18);
    s[1] = (char)(0x80 | (code >> 12 & 0x3f));
    s[2] = (char)(0x80 | (code >> 6 & 0x3f));
    s[3] = (char)(0x80 | (code & 0x3f));
    return 4;
}

bool utf8_is_valid(const char *s, size_t n)
{
    for (size_t i = 0; i < n;) {
        uint32_t code;
        const int len = utf8_decode(&code, s + i, n - i);
        if (len <= 0)
            return false;
        i += (size_t)len;
    }
    return true;
}
