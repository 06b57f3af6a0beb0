/* block_tier_work.c: the thread of a second tier: names the model, lists the folder, then reads and writes records. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "cache/block_tier_state.h"

static const double rate_weight = 0.25; /* of a new measurement of the read rate */

bool block_tier_make_room(struct block_tier *t, size_t n_bytes)
{
    const size_t need = BLOCK_RECORD_HEADER + n_bytes, most = t->options.host_bytes;
    for (struct block_entry *e = t->table.oldest[PLACE_MEMORY], *newer; e != NULL; e = newer) {
        if (need <= most && t->table.bytes[PLACE_MEMORY] <= most - need)
            break;
        newer = e->newer[PLACE_MEMORY];
        if (e->n_user > 0 || (e->is_unsaved && t->state == TIER_READY))
            continue;
        block_table_leave(&t->table, e, PLACE_MEMORY);
        if (!e->is_in[PLACE_FOLDER])
            block_table_remove(&t->table, e);
    }
    return need <= most && t->table.bytes[PLACE_MEMORY] <= most - need;
}

struct block_entry *block_tier_oldest_unsaved(const struct block_tier *t)
{
    struct block_entry *e = t->state == TIER_READY && t->folder != NULL ? t->table.oldest[PLACE_MEMORY] : NULL;
    while (e != NULL && !e->is_unsaved)
        e = e->newer[PLACE_MEMORY];
    return e;
}

/* A file found at the start. */
struct found_file {
    struct block_name name;
    size_t bytes;
    int64_t used_ns;
};

struct found_files {
    struct found_file *file;
    size_t n, capacity;
};

static bool note_file(void *context, const struct block_name *name, size_t bytes, int64_t used_ns)
{
    struct found_files *f = context;
    if (!mem_grow(&f->file, &f->capacity, f->n + 1, sizeof *f->file))
        return false;
    f->file[f->n++] = (struct found_file){*name, bytes, used_ns};
    return true;
}

static int compare_age(const void *a, const void *b)
{
    const struct found_file *x = a, *y = b;
    return (x->used_ns > y->used_ns) - (x->used_ns < y->used_ns);
}

static void forget_file(struct block_tier *t, struct block_entry *e)
{
    block_table_leave(&t->table, e, PLACE_FOLDER);
    if (!e->is_in[PLACE_MEMORY])
        block_table_remove(&t->table, e);
}

/* Remove files, the least recently used first, until n_bytes more fit. Under the lock, which is let go for each. */
static bool make_folder_room(struct block_tier *t, size_t n_bytes)
{
    while (t->table.bytes[PLACE_FOLDER] > 0 &&
           (n_bytes > t->options.folder_bytes || t->table.bytes[PLACE_FOLDER] > t->options.folder_bytes - n_bytes)) {
        struct block_entry *e = t->table.oldest[PLACE_FOLDER];
        const struct block_name name = e->name;
        forget_file(t, e);
        pthread_mutex_unlock(&t->lock);
        block_folder_remove(t->folder, &name);
        pthread_mutex_lock(&t->lock);
    }
    return n_bytes <= t->options.folder_bytes;
}

static void list_folder(struct block_tier *t)
{
    struct found_files found = {0};
    block_folder_list(t->folder, note_file, &found, NULL);
    if (found.n > 0)
        qsort(found.file, found.n, sizeof *found.file, compare_age);
    for (size_t i = 0; i < found.n; i++) {
        const struct found_file *f = &found.file[i];
        const size_t n_bytes = f->bytes > BLOCK_RECORD_HEADER ? f->bytes - BLOCK_RECORD_HEADER : 0;
        pthread_mutex_lock(&t->lock);
        struct block_entry *e = block_table_add(&t->table, &f->name, n_bytes);
        if (e != NULL)
            block_table_enter(&t->table, e, PLACE_FOLDER);
        pthread_mutex_unlock(&t->lock);
    }
    free(found.file);
    pthread_mutex_lock(&t->lock);
    make_folder_room(t, 0);
    pthread_mutex_unlock(&t->lock);
}

/* Read the record; under the lock, which is let go meanwhile. */
static void read_one(struct block_tier *t, const struct block_name *name)
{
    struct block_entry *e = block_table_find(&t->table, name);
    if (e == NULL)
        return;
    e->is_wanted = false;
    const size_t n_bytes = t->options.block_bytes[name->group];
    if (!e->is_in[PLACE_FOLDER] || e->is_in[PLACE_MEMORY] || !block_tier_make_room(t, n_bytes))
        return;
    uint8_t *record = mem_array(BLOCK_RECORD_HEADER + n_bytes, 1);
    if (record == NULL)
        return;
    t->is_reading = true;
    pthread_mutex_unlock(&t->lock);
    const int64_t begin_us = clock_us();
    const enum mr_status status = block_folder_read(t->folder, name, record, n_bytes, NULL);
    const double us_per_byte = (double)(clock_us() - begin_us) / (double)n_bytes;
    if (status != MR_OK)
        block_folder_remove(t->folder, name);
    pthread_mutex_lock(&t->lock);
    t->is_reading = false;
    if (status == MR_OK) {
        t->n_read++;
        t->read_us_per_byte += (us_per_byte - t->read_us_per_byte) * (t->read_us_per_byte > 0 ? rate_weight : 1);
    } else {
        t->n_damaged++;
    }
    e = block_table_find(&t->table, name); /* only this thread removes what is in the folder */
    if (status != MR_OK)
        forget_file(t, e);
    if (status != MR_OK || e->is_in[PLACE_MEMORY]) {
        free(record);
        return;
    }
    e->record = record;
    block_table_enter(&t->table, e, PLACE_FOLDER);
    block_table_enter(&t->table, e, PLACE_MEMORY);
}

/* Write an unsaved record; under the lock, which is let go meanwhile. */
static void write_one(struct block_tier *t, struct block_entry *e)
{
    const struct block_name name = e->name;
    const size_t n = BLOCK_RECORD_HEADER + e->n_bytes;
    e->n_user++;
    bool ok = make_folder_room(t, n);
    pthread_mutex_unlock(&t->lock);
    if (ok) {
        block_record_seal(e->record, &name, e->n_bytes);
        ok = block_folder_write(t->folder, &name, e->record, n, NULL) == MR_OK;
    }
    pthread_mutex_lock(&t->lock);
    e->n_user--;
    e->is_unsaved = false;
    if (!ok) {
        t->state = TIER_FULL;
        return;
    }
    t->n_written++;
    block_table_enter(&t->table, e, PLACE_FOLDER);
}

static void name_model(struct block_tier *t)
{
    struct prefix_key model = {{0}};
    const bool ok = t->options.identify == NULL || t->options.identify(t->options.context, t->folder, &model);
    if (ok)
        list_folder(t);
    pthread_mutex_lock(&t->lock);
    t->model = model;
    t->state = ok ? TIER_READY : TIER_UNNAMED;
    pthread_cond_broadcast(&t->done);
    pthread_mutex_unlock(&t->lock);
}

/* Under the lock. false: there is nothing to do. */
static bool work_once(struct block_tier *t)
{
    if (t->n_wanted > 0) { /* somebody waits */
        const struct block_name name = t->wanted[0];
        memmove(t->wanted, t->wanted + 1, --t->n_wanted * sizeof *t->wanted);
        read_one(t, &name);
        return true;
    }
    struct block_entry *e = block_tier_oldest_unsaved(t);
    if (e != NULL)
        write_one(t, e);
    return e != NULL;
}

void *block_tier_work(void *context)
{
    struct block_tier *t = context;
    name_model(t);
    pthread_mutex_lock(&t->lock);
    while (!t->is_ending) {
        if (work_once(t))
            pthread_cond_broadcast(&t->done);
        else
            pthread_cond_wait(&t->work, &t->lock);
    }
    pthread_mutex_unlock(&t->lock);
    return NULL;
}
