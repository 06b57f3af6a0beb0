/* batch_runner.c: a job's lines beside the server's other requests. */
#include <stdio.h>
#include <string.h>

#include "server/batch/batch_service_state.h"
#include "server/keys.h"
#include "server/server.h"
#include "server/settings.h"

enum {
    AHEAD = 2 /* times max_batch_size: lines that the engine has while nobody else asks */
};

struct running {
    struct batch_service *b;
    const struct batch_record *record;
};

static bool go_on(void *context)
{
    const struct running *r = context;
    return !atomic_load(&r->b->stop) && !atomic_load(&r->b->leave) && batch_service_now() < r->record->expires_s;
}

static int room(void *context)
{
    const struct running *r = context;
    return r->b->server->settings->engine.max_running * AHEAD;
}

static bool give_way(void *context)
{
    const struct running *r = context;
    return batch_service_has_other(r->b, r->record->owner);
}

static void progress(void *context, const struct batch_progress *p)
{
    struct batch_service *b = ((const struct running *)context)->b;
    pthread_mutex_lock(&b->lock);
    batch_service_progress(b, p);
    pthread_mutex_unlock(&b->lock);
}

static enum mr_status fail(struct batch_service *b, struct batch_record *job, const char *code, const char *message,
                           struct mr_error *err)
{
    json_object_set_new(job->body, "errors",
                        json_pack("{s:s, s:[{s:s, s:s, s:n, s:n}]}", "object", "list", "data", "code", code, "message", message,
                                  "param", "line"));
    return batch_service_move(b, job, "in_progress", "failed", NULL, 0, err);
}

static enum mr_status run(struct batch_service *b, struct batch_record *record, const struct api_key *key, const char *input,
                          struct mr_error *err)
{
    struct batch_job job;
    struct running r = {b, record};
    MR_TRY(batch_store_find_job(b->store, record->id, &job, err));
    const struct batch_run_options o = {.server = b->server,
                                        .store = b->store,
                                        .job = &job,
                                        .input = input,
                                        .key = key,
                                        .room = room,
                                        .go_on = go_on,
                                        .give_way = give_way,
                                        .progress = progress,
                                        .context = &r};
    return batch_run(&o, err);
}

enum mr_status batch_runner_step(struct batch_service *b, struct batch_record *record, struct mr_error *err)
{
    struct mr_error why = {{0}};
    struct string_buffer input;
    const struct api_key *key = NULL;
    if (record->owner != 0 && b->server->keys != NULL) {
        key = key_ring_find_id(b->server->keys, record->owner);
        if (key == NULL)
            return fail(b, record, "invalid_api_key", "the key that made the batch is no more", err);
    }
    string_buffer_init(&input);
    batch_service_path(b, batch_record_text(record, "input_file_id"), &input);
    enum mr_status status = input.failed ? MR_NO_MEMORY : run(b, record, key, input.s, &why);
    if (status == MR_BAD_INPUT || status == MR_NOT_FOUND)
        status = fail(b, record, "invalid_input_file", why.message, err);
    else if (status == MR_OK)
        status = batch_service_move(b, record, "in_progress", "finalizing", NULL, 0, err);
    api_key_drop(key);
    string_buffer_release(&input);
    return status == MR_BUSY ? MR_OK : status; /* it gave way, or was cancelled meanwhile */
}
