/* file_kind.c: recognises files by their first bytes. */
#include "format/file_kind.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

#include "base/utf8.h"

struct magic {
    size_t offset;
    const char *bytes;
    size_t n;
    const char *kind;
};

/* The first that fits wins. */
#define MAGIC(offset, bytes, kind)                                                                                             \
    {                                                                                                                          \
        offset, bytes, sizeof bytes - 1, kind                                                                                  \
    }
static const struct magic magics[] = {
    MAGIC(0, "GGUF", "a GGUF file"),
    MAGIC(0, "lmgg", "an old GGML file (convert it to GGUF)"),
    MAGIC(0, "fmgg", "an old GGML file, GGMF (convert it to GGUF)"),
    MAGIC(0, "tjgg", "an old GGML file, GGJT (convert it to GGUF)"),
    MAGIC(0, "algg", "an old GGML adapter (convert it to GGUF)"),
    MAGIC(0, "PK\x03\x04", "a zip archive"),
    MAGIC(0, "\x80\x02", "a Python pickle (an old PyTorch checkpoint)"),
    MAGIC(0, "\x80\x03", "a Python pickle"),
    MAGIC(0, "\x80\x04", "a Python pickle"),
    MAGIC(0, "\x80\x05", "a Python pickle"),
    MAGIC(0, "\x89HDF\r\n", "an HDF5 file"),
    MAGIC(0, "\x93NUMPY", "a NumPy array"),
    MAGIC(4, "TFL3", "a TensorFlow Lite model"),
    MAGIC(0,
          "\x7f"
          "ELF",
          "an ELF program or library"),
    MAGIC(0, "MZ", "a Windows program"),
    MAGIC(0, "\x1f\x8b", "a gzip archive (unpack it first)"),
    MAGIC(0, "BZh", "a bzip2 archive (unpack it first)"),
    MAGIC(0,
          "\xfd"
          "7zXZ",
          "an xz archive (unpack it first)"),
    MAGIC(0, "\x28\xb5\x2f\xfd", "a zstd archive (unpack it first)"),
    MAGIC(0, "7z\xbc\xaf\x27\x1c", "a 7z archive (unpack it first)"),
    MAGIC(257, "ustar", "a tar archive (unpack it first)"),
    MAGIC(0, "%PDF-", "a PDF document"),
    MAGIC(0, "SQLite format 3", "an SQLite database"),
    MAGIC(0, "\x89PNG", "a PNG image"),
    MAGIC(0, "\xff\xd8\xff", "a JPEG image"),
    MAGIC(0, "version https://git-lfs", "a Git LFS pointer (the model itself was not fetched)"),
};
#undef MAGIC

static bool contains(const char *s, size_t n, const char *part) { return memmem(s, n, part, strlen(part)) != NULL; }

/* A JSON header of up to 100 MB behind its length. */
static bool is_safetensors(const unsigned char *s, size_t n)
{
    uint64_t header = 0;
    for (int i = 0; i < 8 && n > 8; i++)
        header |= (uint64_t)s[i] << 8 * i;
    return n > 8 && s[8] == '{' && header >= 2 && header <= 100000000;
}

static bool is_html(const char *s, size_t n)
{
    while (n > 0 && strchr(" \t\r\n", *s) != NULL && *s != '\0') {
        s++;
        n--;
    }
    return (n >= 5 && strncasecmp(s, "<html", 5) == 0) || (n >= 9 && strncasecmp(s, "<!doctype", 9) == 0);
}

/* Text: UTF-8, perhaps cut within its last character, without control characters but blanks and line ends. */
static bool is_text(const char *s, size_t n)
{
    for (size_t i = 0; i < n;) {
        uint32_t code;
        const int len = utf8_decode(&code, s + i, n - i);
        if (len <= 0)
            return n - i < UTF8_MAX && utf8_is_prefix(s + i, n - i);
        if ((code < 0x20 && (code < '\t' || code > '\r')) || code == 0x7f)
            return false;
        i += (size_t)len;
    }
    return true;
}

static bool is_zeros(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (s[i] != 0)
            return false;
    return true;
}

const char *file_kind(const void *bytes, size_t n)
{
    const char *s = bytes;
    if (n == 0)
        return "an empty file";
    if (n > FILE_KIND_BYTES)
        n = FILE_KIND_BYTES;
    for (size_t i = 0; i < sizeof magics / sizeof *magics; i++) {
        const struct magic *m = &magics[i];
        if (n < m->offset + m->n || memcmp(s + m->offset, m->bytes, m->n) != 0)
            continue;
        return m->bytes[0] == 'P' && contains(s, n, "data.pkl") ? "a PyTorch checkpoint" : m->kind;
    }
    if (is_safetensors(bytes, n))
        return "a safetensors file";
    if (is_zeros(s, n))
        return "a file of zeros (a download that did not finish?)";
    if (is_html(s, n))
        return "an HTML page (a download that was refused?)";
    if (is_text(s, n))
        return s[0] == '{' || s[0] == '[' ? "a JSON text" : "a text file";
    return "a file of an unknown kind";
}
