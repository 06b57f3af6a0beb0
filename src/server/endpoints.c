/* endpoints.c: all endpoints, one row each. */
#include "server/api/completion.h"
#include "server/api/health.h"
#include "server/api/metrics_endpoint.h"
#include "server/api/models.h"
#include "server/api/openai.h"
#include "server/api/state.h"
#include "server/api/web_page.h"
#include "server/endpoint.h"

const struct endpoint endpoint_table[] = {
    {"GET", "/livez", ENDPOINT_OPEN | ENDPOINT_BEFORE_READY, health_live, NULL},
    {"GET", "/readyz", ENDPOINT_OPEN | ENDPOINT_BEFORE_READY, health_ready, NULL},
    {"GET", "/health", ENDPOINT_OPEN | ENDPOINT_BEFORE_READY, health_ready, NULL},
    {"GET", "/v1/health", ENDPOINT_OPEN | ENDPOINT_BEFORE_READY, health_ready, NULL},
    {"GET", "/version", ENDPOINT_OPEN | ENDPOINT_BEFORE_READY, state_version, NULL},
    {"GET", "/metrics", ENDPOINT_OPEN | ENDPOINT_BEFORE_READY, metrics_show, NULL},
    {"GET", "/load", 0, state_load, NULL},
    {"GET", "/props", 0, state_props, NULL},
    {"GET", "/slots", 0, state_slots, NULL},
    {"GET", "/v1/models", 0, models_list, NULL},
    {"GET", "/models", 0, models_list, NULL},
    {"GET", "/v1/models/{id}", 0, models_get, NULL},
    {"GET", "/", ENDPOINT_OPEN | ENDPOINT_BEFORE_READY, web_page_index, NULL},
    {"GET", "/web/{name}", ENDPOINT_OPEN | ENDPOINT_BEFORE_READY, web_page_file, NULL},
    {"POST", "/v1/chat/completions", 0, openai_chat_completions, NULL},
    {"POST", "/chat/completions", 0, openai_chat_completions, NULL},
    {"POST", "/v1/completions", 0, openai_completions, NULL},
    {"POST", "/completion", 0, completion_create, NULL},
    {0},
};
