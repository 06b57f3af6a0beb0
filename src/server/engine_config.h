/* engine_config.h: what an engine process is told of its work, as one flat record. */
#ifndef SERVER_ENGINE_CONFIG_H
#define SERVER_ENGINE_CONFIG_H

#include "server/warm_engine.h"

struct engine_config {
    const char *path; /* of the model's file */
    struct mr_options options;
    int32_t n_active; /* processes that divide the CPUs */
    bool mlock;       /* its memory stays in memory */
    struct pinned_prompts pins;
};

size_t engine_config_bytes(const struct engine_config *c);
void engine_config_write(void *out, const struct engine_config *c);
/* Borrows the record, of n bytes and aligned to 8. Release it. BAD_FORMAT: it is none. */
enum mr_status engine_config_read(struct engine_config *out, const void *record, size_t n, struct mr_error *err);
void engine_config_release(struct engine_config *c); /* what engine_config_read made */

#endif
