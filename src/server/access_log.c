/* access_log.c: a line is written with one call, so that lines of several writers never mix. */
#include "server/access_log.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/memory.h"
#include "server/exchange_state.h"
#include "server/keys.h"
#include "server/metrics.h"
#include "server/server.h"

struct access_log {
    int fd;
};

enum mr_status access_log_open(struct access_log **out, const char *path, struct mr_error *err)
{
    *out = NULL;
    if (path == NULL)
        return MR_OK;
    struct access_log *log = mem_array(1, sizeof *log);
    if (log == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for the access log");
    log->fd = strcmp(path, "-") == 0 ? dup(STDOUT_FILENO) : open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0640);
    if (log->fd < 0) {
        free(log);
        return mr_fail(err, MR_IO, "cannot open access_log '%s': %s", path, strerror(errno));
    }
    *out = log;
    return MR_OK;
}

void access_log_close(struct access_log *log)
{
    if (log == NULL)
        return;
    close(log->fd);
    free(log);
}

static void add_time(json_t *line)
{
    struct timespec now;
    struct tm utc;
    char text[40];
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    const size_t n = strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &utc);
    snprintf(text + n, sizeof text - n, ".%03ldZ", now.tv_nsec / 1000000);
    json_object_set_new(line, "time", json_string(text));
}

static void add_ms(json_t *line, const char *name, int64_t from_us, int64_t to_us)
{
    if (from_us > 0 && to_us >= from_us)
        json_object_set_new(line, name, json_real((double)(to_us - from_us) / 1e3));
}

static void add_generation(json_t *line, const struct exchange *x)
{
    json_object_set_new(line, "model", json_string(x->model->name));
    json_object_set_new(line, "prompt_tokens", json_integer(x->usage.n_prompt));
    json_object_set_new(line, "cached_tokens", json_integer(x->usage.n_cached));
    json_object_set_new(line, "completion_tokens", json_integer(x->usage.n_generated));
    if (x->finish != MR_FINISH_NONE)
        json_object_set_new(line, "finish", json_string(mr_finish_text(x->finish)));
    json_object_set_new(line, "queue_ms", json_real((double)x->usage.queue_us / 1e3));
    json_object_set_new(line, "ttft_ms", json_real((double)x->usage.first_token_us / 1e3));
}

/* Where the time of the first request went; the parts sum to total_ms. */
static json_t *stages_json(const struct exchange *x, int64_t now_us)
{
    int64_t stage_us[N_STAGES];
    json_t *stages = json_object();
    request_life_stages(&x->life[0], now_us, stage_us);
    for (int i = 0; i < N_STAGES; i++)
        json_object_set_new(stages, request_stage_name((enum request_stage)i), json_real((double)stage_us[i] / 1e3));
    return stages;
}

static json_t *make_line(const struct exchange *x, int64_t now_us)
{
    json_t *line = json_object();
    add_time(line);
    json_object_set_new(line, "id", json_string(x->id));
    json_object_set_new(line, "method", json_string(x->method));
    json_object_set_new(line, "path", json_string(x->target.path));
    json_object_set_new(line, "status", json_integer(x->http));
    json_object_set_new(line, "bytes_in", json_integer((json_int_t)(x->body.n + x->n_uploaded)));
    json_object_set_new(line, "bytes_out", json_integer(x->n_sent));
    add_ms(line, "receive_ms", x->times.begin_us, x->times.arrival_us);
    add_ms(line, "first_byte_ms", x->times.arrival_us, x->times.first_byte_us);
    add_ms(line, "total_ms", x->times.begin_us, now_us);
    if (x->is_gone)
        json_object_set_new(line, "aborted", json_true());
    if (x->key != NULL)
        json_object_set_new(line, "key", json_string(x->key->name));
    if (x->model != NULL)
        add_generation(line, x);
    if (x->n_request > 0)
        json_object_set_new(line, "stages_ms", stages_json(x, now_us));
    return line;
}

void access_log_write(struct access_log *log, struct exchange *x, int64_t now_us)
{
    if (log == NULL)
        return;
    pthread_mutex_lock(&x->lock);
    json_t *line = make_line(x, now_us);
    pthread_mutex_unlock(&x->lock);
    char *text = json_dumps(line, JSON_COMPACT | JSON_REAL_PRECISION(9));
    json_decref(line);
    const size_t n = text != NULL ? strlen(text) : 0;
    if (n > 0) {
        text[n] = '\n'; /* in place of the NUL */
        (void)!write(log->fd, text, n + 1);
    }
    free(text);
}
