/* engine_config.c: the options with their pointers cleared, counts, and behind them prompts and texts. */
#include "server/engine_config.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "server/wire.h"

enum {
    TEXTS = 4, /* the path, cpu, cache_dir, draft_model: "" for NULL */
    PINS_MAX = 4096
};

struct head {
    struct mr_options options;
    int32_t n_active, n_pin;
    bool mlock;
};

static void list_texts(const char *text[TEXTS], const struct engine_config *c)
{
    const char *all[TEXTS] = {c->path, c->options.cpu, c->options.cache_dir, c->options.draft_model};
    for (int i = 0; i < TEXTS; i++)
        text[i] = all[i] != NULL ? all[i] : "";
}

size_t engine_config_bytes(const struct engine_config *c)
{
    const char *text[TEXTS];
    size_t n = sizeof(struct head) + (size_t)c->pins.n_pin * sizeof *c->pins.n;
    for (int i = 0; i < c->pins.n_pin; i++)
        n += (size_t)c->pins.n[i] * sizeof **c->pins.ids;
    list_texts(text, c);
    for (int i = 0; i < TEXTS; i++)
        n += strlen(text[i]) + 1;
    return n;
}

static char *put(char *p, const void *bytes, size_t n)
{
    if (n > 0)
        memcpy(p, bytes, n);
    return p + n;
}

void engine_config_write(void *out, const struct engine_config *c)
{
    struct head head = {.options = c->options, .n_active = c->n_active, .n_pin = c->pins.n_pin, .mlock = c->mlock};
    const char *text[TEXTS];
    list_texts(text, c);
    head.options.cpu = head.options.cache_dir = head.options.draft_model = NULL;
    head.options.progress = NULL;
    head.options.progress_context = NULL;
    head.options.clock_us = NULL;
    head.options.clock_context = NULL;
    char *p = put(out, &head, sizeof head);
    p = put(p, c->pins.n, (size_t)c->pins.n_pin * sizeof *c->pins.n);
    for (int i = 0; i < c->pins.n_pin; i++)
        p = put(p, c->pins.ids[i], (size_t)c->pins.n[i] * sizeof **c->pins.ids);
    for (int i = 0; i < TEXTS; i++)
        p = put(p, text[i], strlen(text[i]) + 1);
}

static enum mr_status damaged(struct mr_error *err) { return mr_fail(err, MR_BAD_FORMAT, "the engine's options are damaged"); }

static enum mr_status read_pins(struct engine_config *out, const char **p, size_t *n, int32_t n_pin, struct mr_error *err)
{
    if (n_pin < 0 || n_pin > PINS_MAX || (size_t)n_pin * sizeof(int32_t) > *n)
        return damaged(err);
    out->pins.ids = mem_zero_array((size_t)n_pin, sizeof(int32_t *));
    if (out->pins.ids == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for the prompts to pin");
    out->pins.n = (int32_t *)(uintptr_t)*p; /* only read */
    *p += (size_t)n_pin * sizeof(int32_t);
    *n -= (size_t)n_pin * sizeof(int32_t);
    for (int32_t i = 0; i < n_pin; i++) {
        if (out->pins.n[i] < 0 || (size_t)out->pins.n[i] > *n / sizeof(int32_t))
            return damaged(err);
        out->pins.ids[i] = (int32_t *)(uintptr_t)*p;
        *p += (size_t)out->pins.n[i] * sizeof(int32_t);
        *n -= (size_t)out->pins.n[i] * sizeof(int32_t);
    }
    out->pins.n_pin = n_pin;
    return MR_OK;
}

static bool bools_hold(const struct head *head)
{
    return wire_is_bool(&head->options.prefix_cache) && wire_is_bool(&head->options.forced_drafts) &&
           wire_is_bool(&head->options.admission) && wire_is_bool(&head->mlock);
}

enum mr_status engine_config_read(struct engine_config *out, const void *record, size_t n, struct mr_error *err)
{
    struct head head;
    const char *text[TEXTS], *p = record;
    *out = (struct engine_config){0};
    if (n < sizeof head)
        return damaged(err);
    memcpy(&head, p, sizeof head);
    if (!bools_hold(&head))
        return damaged(err);
    out->options = head.options;
    out->n_active = head.n_active;
    out->mlock = head.mlock;
    p += sizeof head;
    n -= sizeof head;
    MR_TRY(read_pins(out, &p, &n, head.n_pin, err));
    for (int i = 0; i < TEXTS; i++) {
        const char *end = memchr(p, '\0', n);
        if (end == NULL)
            return damaged(err);
        text[i] = p;
        n -= (size_t)(end + 1 - p);
        p = end + 1;
    }
    out->path = text[0];
    out->options.cpu = *text[1] != '\0' ? text[1] : NULL;
    out->options.cache_dir = *text[2] != '\0' ? text[2] : NULL;
    out->options.draft_model = *text[3] != '\0' ? text[3] : NULL;
    out->options.progress = NULL;
    out->options.clock_us = NULL;
    return n == 0 ? MR_OK : damaged(err);
}

void engine_config_release(struct engine_config *c)
{
    free(c->pins.ids);
    *c = (struct engine_config){0};
}
