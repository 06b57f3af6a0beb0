/* settings.h: what a deployment says of the server, from the command line, the environment (MILLRACE_*) and a YAML file
 * (docs/deployment.md); the command line wins, then the environment. */
#ifndef SERVER_SETTINGS_H
#define SERVER_SETTINGS_H

#include "base/string_buffer.h"
#include "millrace.h"

struct server_settings {
    const char *model;         /* file */
    const char *alias;         /* its name in the API; NULL: the file's stem */
    const char *const *models; /* more of them: "FILE", "NAME=FILE" or a folder; n_models of these */
    int32_t n_models;
    int32_t models_max;           /* loaded at a time; 0: no limit */
    size_t models_bytes;          /* of those that are loaded; 0: no limit */
    int32_t model_keep_alive_s;   /* after the last request; -1: for ever */
    int32_t model_load_timeout_s; /* for a request that waits for its model */
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
    const char *const *lora; /* adapters, "FILE" or "NAME=FILE"; n_lora of them */
    int32_t n_lora;
    const char *lora_dir; /* from where clients may load adapters; NULL: they may not */
    bool mlock;
    struct mr_sampling sampling; /* of requests that say nothing */
    const char *access_log;      /* file, "-": standard output; NULL: none */
    const char *otlp_endpoint;   /* NULL: none */
    bool slots_debug;            /* /slots shows prompts and answers */

    const char *state_dir;    /* of files and batches; NULL: there are none */
    size_t batch_file_bytes;  /* of one file */
    size_t batch_store_bytes; /* of all files of a key */
    int32_t batch_lines;      /* of one input */
    int32_t batch_jobs;       /* of a key that have not ended */
    int32_t batch_keep_s;     /* files without a time of their own, and jobs that have ended; 0: for ever */

    const char *device;      /* "auto", "cpu", "cuda:0" */
    bool device_fallback;    /* to the CPU, where there is no such device */
    size_t memory_cpu_bytes; /* for keys, values and what is remembered; 0: as the context and the batch need */
    float memory_gpu_share;  /* of a device's memory */
};

/* host 127.0.0.1, port 8080, max_body_bytes 32 MiB, max_connections 10000, request_timeout_s 60, idle_timeout_s 120,
 * keep_alive_s 10, drain_s 30, warm_active 1, batch_file_bytes 1 GiB,
 * batch_store_bytes 10 GiB, batch_lines 50000, batch_jobs 100, batch_keep_s 30 days; engine: the defaults with max_running 32
 * and itl_target_ms 400. */
void server_settings_defaults(struct server_settings *s);

/* Settings as they are given: one table for the command line, the environment, the file and the documentation. */
enum setting_kind {
    SETTING_TEXT,   /* const char *; null: none */
    SETTING_DEVICE, /* the same, "auto", "cpu" or "cuda:N" */
    SETTING_INT,    /* int32_t */
    SETTING_FLOAT,  /* float */
    SETTING_BOOL,   /* bool, written false or true, or as choice has it */
    SETTING_SIZE,   /* size_t, bytes: 1500, 512M, 2GB */
    SETTING_GB,     /* size_t, a number of GB, or as above */
    SETTING_CHOICE, /* int32_t, an index */
    SETTING_LIST    /* const char *const *, and int32_t for how many */
};

enum {
    SETTING_ALSO_MAX = 3,
    SETTING_LIST_MAX = 64,
    SETTINGS_FILE_MAX = 256 << 10
};

enum setting_change {
    SETTING_AT_START,    /* at the next one */
    SETTING_WITH_ENGINE, /* where a standby takes over from each engine process, when it has; else at the next start */
    SETTING_AT_ONCE
};

struct setting {
    const char *path;                   /* in the file: "server.port" */
    const char *flag;                   /* "port", or "no-admission" for what is true by default; also MILLRACE_PORT */
    const char *also[SETTING_ALSO_MAX]; /* names of the flag that users of other servers know */
    int letter;                         /* 0: none */
    const char *value;                  /* what the help calls it; NULL: the flag takes none */
    const char *help;
    enum setting_kind kind;
    enum setting_change change; /* when a value that is read again in a running server counts */
    size_t offset, n_offset;    /* in struct server_settings; n_offset: of a list */
    double low, high;
    const char *const *choice; /* ends with NULL */
    bool has_auto;             /* "auto" says the default */
    bool is_secret;            /* is not shown */
    bool not_in_file;
};

extern const struct setting setting_table[]; /* a row without a path ends it; rows of a section stand together */

enum settings_source {
    SETTINGS_DEFAULT,
    SETTINGS_FILE,
    SETTINGS_ENVIRONMENT,
    SETTINGS_COMMAND_LINE
};

struct settings; /* the settings and the memory of their texts */

/* The defaults. */
enum mr_status settings_create(struct settings **out, struct mr_error *err);
void settings_free(struct settings *s); /* takes NULL */
/* Borrowed; what is given later changes it. */
const struct server_settings *settings_values(const struct settings *s);

/* Give a setting; the texts are copied. n: 1, but for lists. BAD_INPUT: the message does not name it. */
enum mr_status settings_give(struct settings *s, const struct setting *row, const char *const *text, int n,
                             enum settings_source source, struct mr_error *err);

/* Take all that a YAML text says, or a file, whose name comes first in messages; the line number always does. Unknown keys,
 * wrong types, keys that stand twice, anchors, aliases and tags are BAD_INPUT, damaged YAML is BAD_FORMAT. */
enum mr_status settings_read(struct settings *s, const char *text, size_t n, struct mr_error *err);
enum mr_status settings_read_file(struct settings *s, const char *path, struct mr_error *err);
/* Variables "MILLRACE_PORT=8080" of the settings in the table; lists with commas between; and MILLRACE_CPU, which is borrowed.
 * Others are let be. */
enum mr_status settings_read_environment(struct settings *s, char *const *environment, struct mr_error *err);
/* The variable of a setting. */
void setting_variable(char *out, size_t size, const struct setting *row);

/* What does not go together, or is not there: names the keys. */
enum mr_status settings_check(const struct settings *s, struct mr_error *err);

/* The files that are named can be read, and the keys in theirs. */
enum mr_status settings_check_files(const struct settings *s, struct mr_error *err);

/* Give `to` what of `from` may change in a running server. Texts are borrowed. Appends to `changed` the paths of what has
 * changed, and to `kept` of what differs and counts from the next start on. Returns whether engines have to be made anew, which
 * is only where `renews`: where they can be. */
bool settings_merge(struct server_settings *to, const struct server_settings *from, bool renews, struct string_buffer *changed,
                    struct string_buffer *kept);

/* Append what holds, as a file that says the same, with where each value comes from. Keys in clear are left out. */
void settings_write(const struct settings *s, struct string_buffer *out);

#endif
