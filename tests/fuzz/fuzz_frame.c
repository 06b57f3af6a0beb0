/* fuzz_frame.c: any bytes as what an engine process says, and as what it is told: frames taken or refused with a message; a
 * record that passes its check can be read to its end. */
#include <stdlib.h>
#include <string.h>

#include "server/engine_config.h"
#include "server/engine_order.h"
#include "server/frame.h"
#include "server/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile size_t sink;

static void use_event(const void *record, size_t n)
{
    const struct wire_limits limits = {.n_vocab = 1000, .n_embd = 2, .n = 4};
    struct mr_event e;
    if (wire_event_check(record, n, &limits, NULL) != MR_OK)
        return;
    wire_event_read(&e, record);
    sink = e.n_text + (e.error != NULL ? strlen(e.error) : 0);
    for (int32_t i = 0; i < e.n_top; i++)
        sink += (size_t)e.top[i].token;
    for (int32_t i = 0; i < e.n_embedding; i++)
        sink += e.embedding[i] > 0;
}

static void use_request(const void *record, size_t n)
{
    struct wire_request w;
    size_t bytes;
    if (wire_request_check(record, n, NULL) != MR_OK)
        return;
    wire_request_read(&w, record);
    if (wire_request_bytes(&bytes, &w.request, NULL) != MR_OK || bytes != n)
        abort();
}

static void use_order(const void *record, size_t n)
{
    struct engine_order o;
    if (engine_order_read(&o, record, n, NULL) == MR_OK && (strlen(o.path) >= n || o.kind >= N_ENGINE_ORDERS))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct frame_buffer in;
    struct frame_head head;
    struct engine_config config;
    struct mr_error err = {""};
    const void *payload;
    enum mr_status status;
    frame_buffer_init(&in);
    for (size_t at = 0, n = size > 0 ? data[0] % 64 + 1 : 1; at < size; at += n)
        if (!frame_feed(&in, data + at, size - at < n ? size - at : n))
            abort();
    while ((status = frame_next(&in, &head, &payload, &err)) == MR_OK) {
        use_event(payload, (size_t)head.bytes);
        use_request(payload, (size_t)head.bytes);
        use_order(payload, (size_t)head.bytes);
        if (engine_config_read(&config, payload, (size_t)head.bytes, NULL) == MR_OK && strlen(config.path) > size)
            abort();
        engine_config_release(&config);
    }
    if (status == MR_BAD_FORMAT && err.message[0] == '\0')
        abort();
    frame_buffer_release(&in);
    return 0;
}
