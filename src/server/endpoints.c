/* endpoints.c: all endpoints, one row each. */
#include "server/api/anthropic.h"
#include "server/api/batches.h"
#include "server/api/completion.h"
#include "server/api/embeddings.h"
#include "server/api/files.h"
#include "server/api/health.h"
#include "server/api/lora.h"
#include "server/api/metrics_endpoint.h"
#include "server/api/models.h"
#include "server/api/ollama.h"
#include "server/api/openai.h"
#include "server/api/openapi.h"
#include "server/api/responses.h"
#include "server/api/slots.h"
#include "server/api/state.h"
#include "server/api/token_endpoints.h"
#include "server/api/web_page.h"
#include "server/endpoint.h"

const struct endpoint endpoint_table[] = {
    {"GET", "/livez", ENDPOINT_OPEN | ENDPOINT_BEFORE_READY, health_live, NULL},
    {"GET", "/readyz", ENDPOINT_OPEN | ENDPOINT_BEFORE_READY, health_ready, NULL},
    {"GET", "/health", ENDPOINT_OPEN | ENDPOINT_BEFORE_READY, health_ready, NULL},
    {"GET", "/v1/health", ENDPOINT_OPEN | ENDPOINT_BEFORE_READY, health_ready, NULL},
    {"GET", "/ping", ENDPOINT_OPEN | ENDPOINT_BEFORE_READY, health_ready, NULL},
    {"GET", "/version", ENDPOINT_OPEN | ENDPOINT_BEFORE_READY, state_version, NULL},
    {"GET", "/metrics", ENDPOINT_OPEN | ENDPOINT_BEFORE_READY, metrics_show, NULL},
    {"GET", "/openapi.json", ENDPOINT_OPEN | ENDPOINT_BEFORE_READY, openapi_show, NULL},
    {"GET", "/load", 0, state_load, NULL},
    {"GET", "/props", 0, state_props, NULL},
    {"GET", "/slots", 0, slots_list, NULL},
    {"GET", "/v1/models", 0, models_list, NULL},
    {"GET", "/models", 0, models_list, NULL},
    {"GET", "/v1/models/{id}", 0, models_get, NULL},
    {"GET", "/", ENDPOINT_OPEN | ENDPOINT_BEFORE_READY, web_page_index, NULL},
    {"GET", "/web/{name}", ENDPOINT_OPEN | ENDPOINT_BEFORE_READY, web_page_file, NULL},
    {"POST", "/v1/chat/completions", 0, openai_chat_completions, NULL},
    {"POST", "/chat/completions", 0, openai_chat_completions, NULL},
    {"POST", "/v1/completions", 0, openai_completions, NULL},
    {"POST", "/v1/embeddings", 0, embeddings_create, NULL},
    {"POST", "/embeddings", 0, embeddings_create, NULL},
    {"POST", "/api/embed", 0, embeddings_ollama, ollama_write_error},
    {"POST", "/api/embeddings", 0, embeddings_ollama_one, ollama_write_error},
    {"POST", "/v1/load_lora_adapter", ENDPOINT_WAITS, lora_load, NULL},
    {"POST", "/v1/unload_lora_adapter", ENDPOINT_WAITS, lora_unload, NULL},
    {"GET", "/lora-adapters", 0, lora_list, NULL},
    {"POST", "/lora-adapters", 0, lora_scale, NULL},
    {"POST", "/v1/responses", 0, responses_create, NULL},
    {"GET", "/v1/responses/{id}", 0, responses_get, NULL},
    {"DELETE", "/v1/responses/{id}", 0, responses_delete, NULL},
    {"POST", "/v1/responses/{id}/cancel", 0, responses_cancel, NULL},
    {"POST", "/v1/files", ENDPOINT_UPLOAD | ENDPOINT_WAITS, files_create, NULL},
    {"GET", "/v1/files", ENDPOINT_WAITS, files_list, NULL},
    {"GET", "/v1/files/{id}", ENDPOINT_WAITS, files_get, NULL},
    {"DELETE", "/v1/files/{id}", ENDPOINT_WAITS, files_delete, NULL},
    {"GET", "/v1/files/{id}/content", ENDPOINT_WAITS, files_content, NULL},
    {"POST", "/v1/batches", ENDPOINT_WAITS, batches_create, NULL},
    {"GET", "/v1/batches", ENDPOINT_WAITS, batches_list, NULL},
    {"GET", "/v1/batches/{id}", ENDPOINT_WAITS, batches_get, NULL},
    {"POST", "/v1/batches/{id}/cancel", ENDPOINT_WAITS, batches_cancel, NULL},
    {"POST", "/v1/messages", 0, anthropic_messages, anthropic_write_error},
    {"POST", "/v1/messages/count_tokens", 0, anthropic_count_tokens, anthropic_write_error},
    {"POST", "/api/chat", 0, ollama_chat, ollama_write_error},
    {"POST", "/api/generate", 0, ollama_generate, ollama_write_error},
    {"GET", "/api/tags", 0, ollama_tags, ollama_write_error},
    {"POST", "/api/show", 0, ollama_show, ollama_write_error},
    {"GET", "/api/ps", 0, ollama_ps, ollama_write_error},
    {"GET", "/api/version", ENDPOINT_OPEN | ENDPOINT_BEFORE_READY, ollama_version, ollama_write_error},
    {"POST", "/completion", 0, completion_create, NULL},
    {"POST", "/completions", 0, completion_create, NULL},
    {"POST", "/infill", 0, completion_infill, NULL},
    {"POST", "/tokenize", 0, tokenize_text, NULL},
    {"POST", "/detokenize", 0, tokenize_back, NULL},
    {"POST", "/apply-template", 0, tokenize_template, NULL},
    {0},
};
