/* settings.h: what a deployment says of the server, from the command line, the environment (MILLRACE_*) and a YAML file
 * (docs/deployment.md); the command line wins, then the environment. */
#ifndef SERVER_SETTINGS_H
#define SERVER_SETTINGS_H

#include "millrace.h"

struct server_settings {
    const char *model; /* file */
    const char *alias; /* its name in the API; NULL: the file's stem */
    const char *chat_template;
    struct mr_options engine;
    const char *host;
    int32_t port;               /* 0: a free one */
    const char *const *api_key; /* keys in clear; n_api_key of them */
    int32_t n_api_key;
    const char *api_keys_file;             /* hashed keys with their limits (keys.h); NULL: none */
    bool insecure;                         /* any address may be bound without a key */
    const char *cors_origin;               /* NULL: none; "*" */
    const char *tls_certificate, *tls_key; /* PEM files; NULL: no TLS */
    size_t max_body_bytes;
    int32_t max_connections;
    int32_t max_connections_per_address; /* 0: no limit */
    int32_t request_timeout_s;           /* to send a whole request */
    int32_t idle_timeout_s;              /* of a connection between requests */
    int32_t keep_alive_s;                /* between comments of a silent stream; 0: none */
    int32_t drain_s;                     /* for running requests after SIGTERM */
    int32_t warm_active, warm_standby;   /* engine processes */
    const char *const *pin;              /* files of prompts that are never evicted */
    int32_t n_pin;
    bool mlock;
    const char *access_log;    /* file, "-": standard output; NULL: none */
    const char *otlp_endpoint; /* NULL: none */
};

/* host 127.0.0.1, port 8080, max_body_bytes 32 MiB, max_connections 10000, request_timeout_s 60, idle_timeout_s 120,
 * keep_alive_s 10, drain_s 30, warm_active 1; engine: the defaults with max_running 32. */
void server_settings_defaults(struct server_settings *s);

#endif
