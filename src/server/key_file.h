/* key_file.h: lines of a keys file (docs/keys.md):
 *     NAME sha256:SALT:DIGEST [requests_per_minute=N] [tokens_per_minute=N] [concurrency=N] [models=A,B]
 * SALT and DIGEST in hexadecimal digits; DIGEST is the SHA-256 of the salt's bytes and the token's. '#' begins a comment line.
 */
#ifndef SERVER_KEY_FILE_H
#define SERVER_KEY_FILE_H

#include "base/string_buffer.h"
#include "server/keys.h"

enum {
    KEY_SALT_BYTES = 16,
    KEY_DIGEST_BYTES = 32,
    KEY_MODELS_MAX = 1024, /* bytes of the list of models */
    KEY_FILE_MAX = 8 << 20 /* bytes */
};

struct key_line {
    char name[KEY_NAME_MAX + 1];
    uint8_t salt[KEY_SALT_BYTES], digest[KEY_DIGEST_BYTES];
    struct key_limits limits;
    char models[KEY_MODELS_MAX + 1]; /* "a,b"; "": all */
};

void key_digest(uint8_t digest[KEY_DIGEST_BYTES], const uint8_t salt[KEY_SALT_BYTES], const char *token);

/* Fill salt and digest with a salt of the system's random generator. false: it gives none. */
bool key_line_hash(struct key_line *line, const char *token);
/* A token nobody can guess: "mr-" and 48 characters. false: as above. */
enum {
    KEY_MADE_TOKEN_MAX = 64
};
bool key_make_token(char token[KEY_MADE_TOKEN_MAX]);

bool key_name_is_valid(const char *name); /* letters, digits, '.', '_', '-' */

/* Append the line with its end. */
void key_line_write(struct string_buffer *out, const struct key_line *line);

/* Read the line at *text and go on to the next one. NOT_FOUND: there is none. *number counts lines for messages. */
enum mr_status key_line_next(struct key_line *out, const char **text, int *number, struct mr_error *err);

#endif
