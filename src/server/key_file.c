/* key_file.c: hashed keys as lines of text. */
#include "server/key_file.h"

#include <errno.h>
#include <nettle/sha2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum {
    LINE_MAX_BYTES = 4096
};

static const char blanks[] = " \t\r";

void key_digest(uint8_t digest[KEY_DIGEST_BYTES], const uint8_t salt[KEY_SALT_BYTES], const char *token)
{
    struct sha256_ctx sha;
    sha256_init(&sha);
    sha256_update(&sha, KEY_SALT_BYTES, salt);
    sha256_update(&sha, strlen(token), (const uint8_t *)token);
    sha256_digest(&sha, KEY_DIGEST_BYTES, digest);
}

bool key_line_hash(struct key_line *line, const char *token)
{
    if (getrandom(line->salt, sizeof line->salt, 0) != (ssize_t)sizeof line->salt)
        return false;
    key_digest(line->digest, line->salt, token);
    return true;
}

bool key_make_token(char token[KEY_MADE_TOKEN_MAX])
{
    static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_"; /* 64: 6 bits each */
    uint8_t random[48];
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        return false;
    memcpy(token, "mr-", 3);
    for (size_t i = 0; i < sizeof random; i++)
        token[3 + i] = digits[random[i] & 63];
    token[3 + sizeof random] = '\0';
    return true;
}

bool key_name_is_valid(const char *name)
{
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    const size_t n = strlen(name);
    return n >= 1 && n <= KEY_NAME_MAX && strspn(name, allowed) == n;
}

static void add_hex(struct string_buffer *out, const uint8_t *byte, size_t n)
{
    for (size_t i = 0; i < n; i++)
        string_buffer_printf(out, "%02x", byte[i]);
}

static void add_limit(struct string_buffer *out, const char *name, int32_t limit)
{
    if (limit > 0)
        string_buffer_printf(out, " %s=%d", name, (int)limit);
}

void key_line_write(struct string_buffer *out, const struct key_line *line)
{
    string_buffer_printf(out, "%s sha256:", line->name);
    add_hex(out, line->salt, KEY_SALT_BYTES);
    string_buffer_puts(out, ":");
    add_hex(out, line->digest, KEY_DIGEST_BYTES);
    add_limit(out, "requests_per_minute", line->limits.requests_per_minute);
    add_limit(out, "tokens_per_minute", line->limits.tokens_per_minute);
    add_limit(out, "concurrency", line->limits.concurrency);
    if (line->models[0] != '\0')
        string_buffer_printf(out, " models=%s", line->models);
    string_buffer_puts(out, "\n");
}

static int hex_value(char c)
{
    const char lower = (char)(c | 0x20);
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'A' && lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

static bool read_hex(uint8_t *out, size_t n, const char **text)
{
    for (size_t i = 0; i < n; i++) {
        const int high = hex_value((*text)[0]), low = high < 0 ? -1 : hex_value((*text)[1]);
        if (low < 0)
            return false;
        out[i] = (uint8_t)(high * 16 + low);
        *text += 2;
    }
    return true;
}

static bool read_hash(struct key_line *out, const char *text)
{
    static const char method[] = "sha256:";
    if (strncmp(text, method, sizeof method - 1) != 0)
        return false;
    text += sizeof method - 1;
    return read_hex(out->salt, KEY_SALT_BYTES, &text) && *text++ == ':' && read_hex(out->digest, KEY_DIGEST_BYTES, &text) &&
           *text == '\0';
}

static enum mr_status read_limit(int32_t *out, const char *name, const char *value, int number, struct mr_error *err)
{
    char *end;
    errno = 0;
    const long limit = strtol(value, &end, 10);
    if (value[0] < '0' || value[0] > '9' || *end != '\0' || errno != 0 || limit < 1 || limit > INT32_MAX)
        return mr_fail(err, MR_BAD_FORMAT, "line %d: %s '%s' is not a number from 1 to %d", number, name, value, INT32_MAX);
    *out = (int32_t)limit;
    return MR_OK;
}

static enum mr_status read_option(struct key_line *out, char *word, int number, struct mr_error *err)
{
    char *value = strchr(word, '=');
    if (value == NULL)
        return mr_fail(err, MR_BAD_FORMAT, "line %d: '%s' is not NAME=VALUE", number, word);
    *value++ = '\0';
    const struct {
        const char *name;
        int32_t *limit;
    } limits[] = {{"requests_per_minute", &out->limits.requests_per_minute},
                  {"tokens_per_minute", &out->limits.tokens_per_minute},
                  {"concurrency", &out->limits.concurrency}};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        if (strcmp(word, limits[i].name) == 0)
            return *limits[i].limit == 0 ? read_limit(limits[i].limit, word, value, number, err)
                                         : mr_fail(err, MR_BAD_FORMAT, "line %d: %s stands twice", number, word);
    if (strcmp(word, "models") != 0)
        return mr_fail(err, MR_BAD_FORMAT,
                       "line %d: '%s' is none of requests_per_minute, tokens_per_minute, concurrency, models", number, word);
    if (out->models[0] != '\0' || value[0] == '\0' || strlen(value) > KEY_MODELS_MAX)
        return mr_fail(err, MR_BAD_FORMAT, "line %d: models is empty, too long, or stands twice", number);
    memcpy(out->models, value, strlen(value) + 1);
    return MR_OK;
}

static enum mr_status read_line(struct key_line *out, char *line, int number, struct mr_error *err)
{
    char *rest = NULL, *name = strtok_r(line, blanks, &rest), *hash = strtok_r(NULL, blanks, &rest);
    *out = (struct key_line){0};
    if (!key_name_is_valid(name))
        return mr_fail(err, MR_BAD_FORMAT, "line %d: a name has 1 to %d letters, digits, '.', '_' or '-'", number,
                       KEY_NAME_MAX);
    memcpy(out->name, name, strlen(name) + 1);
    if (hash == NULL || !read_hash(out, hash))
        return mr_fail(err, MR_BAD_FORMAT, "line %d: key '%s' has no hash sha256:SALT:DIGEST; `millrace key` makes such lines",
                       number, name);
    for (char *word; (word = strtok_r(NULL, blanks, &rest)) != NULL;)
        MR_TRY(read_option(out, word, number, err));
    return MR_OK;
}

enum mr_status key_line_next(struct key_line *out, const char **text, int *number, struct mr_error *err)
{
    char line[LINE_MAX_BYTES];
    while (**text != '\0') {
        const size_t n = strcspn(*text, "\n");
        const char *begin = *text;
        *text += n + (begin[n] == '\n');
        ++*number;
        const size_t n_blank = strspn(begin, blanks);
        if (n_blank >= n || begin[n_blank] == '#')
            continue;
        if (n >= sizeof line)
            return mr_fail(err, MR_BAD_FORMAT, "line %d has more than %d bytes", *number, LINE_MAX_BYTES - 1);
        memcpy(line, begin, n);
        line[n] = '\0';
        return read_line(out, line, *number, err);
    }
    return MR_NOT_FOUND;
}
