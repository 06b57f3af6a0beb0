/* block_tier.c: the engine's side of the second tier. */
#include "cache/block_tier.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/memory.h"
#include "cache/block_tier_state.h"

enum {
    NS_PER_US = 1000,
    US_PER_S = 1000000,
    NS_PER_S = 1000000000
};

static enum mr_status open_folder(struct block_tier *t, struct mr_error *err)
{
    t->state = TIER_READY;
    if (t->options.folder == NULL)
        return MR_OK;
    const enum mr_status status = block_folder_open(&t->folder, t->options.folder, err);
    if (status == MR_FULL)
        t->state = TIER_LOCKED;
    else if (status == MR_OK)
        t->state = TIER_STARTING;
    return status == MR_FULL ? MR_OK : status;
}

static enum mr_status start(struct block_tier *t, struct mr_error *err)
{
    MR_TRY(block_table_init(&t->table, err));
    MR_TRY(open_folder(t, err));
    if (t->folder == NULL)
        return MR_OK;
    t->has_thread = pthread_create(&t->thread, NULL, block_tier_work, t) == 0;
    return t->has_thread ? MR_OK : mr_fail(err, MR_NO_MEMORY, "no thread for the folder of cached blocks");
}

enum mr_status block_tier_create(struct block_tier **out, const struct block_tier_options *options, struct mr_error *err)
{
    *out = NULL;
    struct block_tier *t = mem_zero_array(1, sizeof *t);
    if (t == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for the second tier of the cache");
    t->options = *options;
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->work, NULL);
    pthread_cond_init(&t->done, NULL);
    const enum mr_status status = start(t, err);
    if (status != MR_OK)
        block_tier_free(t);
    else
        *out = t;
    return status;
}

void block_tier_free(struct block_tier *t)
{
    if (t == NULL)
        return;
    if (t->has_thread) {
        pthread_mutex_lock(&t->lock);
        t->is_ending = true;
        pthread_cond_signal(&t->work);
        pthread_mutex_unlock(&t->lock);
        pthread_join(t->thread, NULL);
    }
    block_folder_close(t->folder);
    block_table_release(&t->table);
    free(t->wanted);
    pthread_cond_destroy(&t->done);
    pthread_cond_destroy(&t->work);
    pthread_mutex_destroy(&t->lock);
    free(t);
}

static struct timespec after(int64_t us)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    t.tv_sec += us / US_PER_S;
    t.tv_nsec += us % US_PER_S * NS_PER_US;
    t.tv_sec += t.tv_nsec / NS_PER_S;
    t.tv_nsec %= NS_PER_S;
    return t;
}

bool block_tier_await_ready(struct block_tier *t, int64_t timeout_us)
{
    const struct timespec until = after(timeout_us);
    pthread_mutex_lock(&t->lock);
    while (t->state == TIER_STARTING && pthread_cond_timedwait(&t->done, &t->lock, &until) == 0)
        continue;
    const bool is_ready = t->state != TIER_STARTING;
    pthread_mutex_unlock(&t->lock);
    return is_ready;
}

void block_tier_flush(struct block_tier *t)
{
    pthread_mutex_lock(&t->lock);
    while (block_tier_oldest_unsaved(t) != NULL)
        pthread_cond_wait(&t->done, &t->lock);
    pthread_mutex_unlock(&t->lock);
}

/* Under the lock. NULL: unknown, or nothing is known yet. */
static struct block_entry *find(struct block_tier *t, const struct prefix_key *key, int group)
{
    struct block_name name;
    if (!block_tier_keeps(t))
        return NULL;
    block_name_make(&name, &t->model, key, group);
    return block_table_find(&t->table, &name);
}

enum block_found block_tier_find(struct block_tier *t, const struct prefix_key *key, int group)
{
    pthread_mutex_lock(&t->lock);
    const struct block_entry *e = find(t, key, group);
    const enum block_found found = e == NULL                ? BLOCK_ABSENT
                                   : e->is_in[PLACE_MEMORY] ? BLOCK_IN_MEMORY
                                   : e->is_in[PLACE_FOLDER] ? BLOCK_IN_FOLDER
                                                            : BLOCK_ABSENT;
    pthread_mutex_unlock(&t->lock);
    return found;
}

void *block_tier_put(struct block_tier *t, const struct prefix_key *key, int group)
{
    const size_t n_bytes = t->options.block_bytes[group];
    pthread_mutex_lock(&t->lock);
    struct block_entry *e = find(t, key, group);
    const bool is_here = e != NULL && (e->is_in[PLACE_MEMORY] || e->is_in[PLACE_FOLDER]);
    uint8_t *record = NULL;
    if (!is_here && block_tier_keeps(t)) {
        record = block_tier_make_room(t, n_bytes) ? mem_array(BLOCK_RECORD_HEADER + n_bytes, 1) : NULL;
        t->n_dropped += record == NULL;
    }
    pthread_mutex_unlock(&t->lock);
    if (record == NULL)
        return NULL;
    t->coming = record;
    t->coming_bytes = n_bytes;
    block_name_make(&t->coming_name, &t->model, key, group);
    return record + BLOCK_RECORD_HEADER;
}

void block_tier_put_end(struct block_tier *t)
{
    pthread_mutex_lock(&t->lock);
    struct block_entry *e = block_table_add(&t->table, &t->coming_name, t->coming_bytes);
    if (e == NULL || e->is_in[PLACE_MEMORY]) { /* the tier's thread may have read it meanwhile */
        free(t->coming);
        t->n_dropped += e == NULL;
    } else {
        e->record = t->coming;
        e->n_bytes = t->coming_bytes;
        e->is_unsaved = t->folder != NULL && t->state == TIER_READY && !e->is_in[PLACE_FOLDER];
        block_table_enter(&t->table, e, PLACE_MEMORY);
        pthread_cond_signal(&t->work);
    }
    t->coming = NULL;
    pthread_mutex_unlock(&t->lock);
}

const void *block_tier_get(struct block_tier *t, const struct prefix_key *key, int group)
{
    pthread_mutex_lock(&t->lock);
    struct block_entry *e = find(t, key, group);
    t->lent = e != NULL && e->is_in[PLACE_MEMORY] ? e : NULL;
    if (t->lent != NULL) {
        e->n_user++;
        block_table_enter(&t->table, e, PLACE_MEMORY);
    }
    pthread_mutex_unlock(&t->lock);
    return t->lent != NULL ? t->lent->record + BLOCK_RECORD_HEADER : NULL;
}

void block_tier_get_end(struct block_tier *t)
{
    pthread_mutex_lock(&t->lock);
    t->lent->n_user--;
    t->lent = NULL;
    pthread_mutex_unlock(&t->lock);
}

/* Under the lock. */
static bool want(struct block_tier *t, struct block_entry *e)
{
    if (e->is_wanted || e->is_in[PLACE_MEMORY])
        return true;
    if (!block_tier_make_room(t, t->options.block_bytes[e->name.group]) ||
        !mem_grow(&t->wanted, &t->wanted_capacity, t->n_wanted + 1, sizeof *t->wanted))
        return false;
    e->is_wanted = true;
    t->wanted[t->n_wanted++] = e->name;
    pthread_cond_signal(&t->work);
    return true;
}

bool block_tier_want(struct block_tier *t, const struct prefix_key *key, int group)
{
    pthread_mutex_lock(&t->lock);
    struct block_entry *e = find(t, key, group);
    const bool is_coming = e != NULL && want(t, e);
    pthread_mutex_unlock(&t->lock);
    return is_coming;
}

void block_tier_wait(struct block_tier *t, int64_t timeout_us)
{
    const struct timespec until = after(timeout_us);
    pthread_mutex_lock(&t->lock);
    if (t->n_wanted > 0 || t->is_reading)
        pthread_cond_timedwait(&t->done, &t->lock, &until); /* a wake-up without reason is as good */
    pthread_mutex_unlock(&t->lock);
}

void block_tier_stats(struct block_tier *t, struct block_tier_stats *out)
{
    pthread_mutex_lock(&t->lock);
    *out = (struct block_tier_stats){.state = t->state,
                                     .host_bytes = t->table.bytes[PLACE_MEMORY],
                                     .folder_bytes = t->table.bytes[PLACE_FOLDER],
                                     .n_written = t->n_written,
                                     .n_read = t->n_read,
                                     .n_damaged = t->n_damaged,
                                     .n_dropped = t->n_dropped,
                                     .read_us_per_byte = t->read_us_per_byte};
    pthread_mutex_unlock(&t->lock);
}
