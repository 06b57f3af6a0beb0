/* fuzz_keys.c: any bytes as a keys file: lines taken or refused with a message; a line that was taken, written and read again,
 * is the same. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "server/key_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_same(const struct key_line *line)
{
    struct string_buffer text;
    struct key_line again;
    int number = 0;
    string_buffer_init(&text);
    key_line_write(&text, line);
    const char *at = text.s;
    if (text.failed || key_line_next(&again, &at, &number, NULL) != MR_OK || strcmp(again.name, line->name) != 0 ||
        strcmp(again.models, line->models) != 0 || memcmp(again.digest, line->digest, sizeof line->digest) != 0 ||
        memcmp(&again.limits, &line->limits, sizeof line->limits) != 0)
        abort();
    string_buffer_release(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = mem_string((const char *)data, size);
    struct key_line line;
    struct mr_error err = {""};
    enum mr_status status;
    int number = 0;
    if (text == NULL)
        abort();
    const char *at = text;
    while ((status = key_line_next(&line, &at, &number, &err)) == MR_OK)
        check_same(&line);
    if (status != MR_NOT_FOUND && err.message[0] == '\0')
        abort();
    free(text);
    return 0;
}
