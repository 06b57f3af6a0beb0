/* settings_defaults.c: what holds where nothing is said. */
#include "server/settings.h"

enum {
    MAX_RUNNING = 32,
    KEEP_S = 30 * 24 * 3600,
    ITL_TARGET_MS = 400 /* while others' prompts are computed; 200 doubles the wait for first tokens (docs/serving.md) */
};

void server_settings_defaults(struct server_settings *s)
{
    *s = (struct server_settings){.host = "127.0.0.1",
                                  .port = 8080,
                                  .max_body_bytes = (size_t)32 << 20,
                                  .max_connections = 10000,
                                  .request_timeout_s = 60,
                                  .idle_timeout_s = 120,
                                  .keep_alive_s = 10,
                                  .drain_s = 30,
                                  .warm_active = 1,
                                  .models_max = 4,
                                  .model_keep_alive_s = 300,
                                  .model_load_timeout_s = 120,
                                  .batch_file_bytes = (size_t)1 << 30,
                                  .batch_store_bytes = (size_t)10 << 30,
                                  .batch_lines = 50000,
                                  .batch_jobs = 100,
                                  .batch_keep_s = KEEP_S};
    mr_options_defaults(&s->engine);
    mr_sampling_defaults(&s->sampling);
    s->engine.max_running = MAX_RUNNING;
    s->engine.itl_target_ms = ITL_TARGET_MS;
}
