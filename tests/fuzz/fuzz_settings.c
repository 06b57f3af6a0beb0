/* fuzz_settings.c: any bytes as a deployment file: taken or refused with a message; what was taken, shown and read again,
 * holds. */
#include <stdlib.h>
#include <string.h>

#include "server/settings.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void show(const struct settings *s, struct string_buffer *out)
{
    string_buffer_init(out);
    settings_write(s, out);
    if (out->failed)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct settings *s, *again;
    struct string_buffer text;
    struct mr_error err = {""};
    if (settings_create(&s, NULL) != MR_OK || settings_create(&again, NULL) != MR_OK)
        abort();
    if (settings_read(s, (const char *)data, size, &err) == MR_OK) {
        show(s, &text);
        if (settings_read(again, text.s, text.n, &err) != MR_OK)
            abort();
        settings_check(s, &err);
        string_buffer_release(&text);
    } else if (err.message[0] == '\0') {
        abort();
    }
    settings_free(s);
    settings_free(again);
    return 0;
}
