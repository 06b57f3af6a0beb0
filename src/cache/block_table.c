/* block_table.c: entries in buckets and on lists. */
#include "cache/block_table.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

enum {
    BUCKETS_MIN = 1024
};

enum mr_status block_table_init(struct block_table *t, struct mr_error *err)
{
    *t = (struct block_table){.bucket = mem_zero_array(BUCKETS_MIN, sizeof(struct block_entry *)), .n_bucket = BUCKETS_MIN};
    return t->bucket != NULL ? MR_OK : mr_fail(err, MR_NO_MEMORY, "no memory for the table of cached blocks");
}

void block_table_release(struct block_table *t)
{
    for (size_t i = 0; t->bucket != NULL && i < t->n_bucket; i++)
        for (struct block_entry *e = t->bucket[i], *next; e != NULL; e = next) {
            next = e->chain;
            free(e->record);
            free(e);
        }
    free(t->bucket);
    *t = (struct block_table){0};
}

static struct block_entry **bucket_of(const struct block_table *t, const struct block_name *name)
{
    uint64_t word;
    memcpy(&word, name->byte, sizeof word); /* a digest is as good as a hash */
    return &t->bucket[(word + name->group) & (t->n_bucket - 1)];
}

struct block_entry *block_table_find(const struct block_table *t, const struct block_name *name)
{
    struct block_entry *e = *bucket_of(t, name);
    while (e != NULL && (e->name.group != name->group || memcmp(e->name.byte, name->byte, sizeof name->byte) != 0))
        e = e->chain;
    return e;
}

/* Without memory for more buckets the chains become longer. */
static void grow(struct block_table *t)
{
    struct block_table larger = {.n_bucket = t->n_bucket * 2};
    larger.bucket = mem_zero_array(larger.n_bucket, sizeof(struct block_entry *));
    if (larger.bucket == NULL)
        return;
    for (size_t i = 0; i < t->n_bucket; i++)
        for (struct block_entry *e = t->bucket[i], *next; e != NULL; e = next) {
            struct block_entry **bucket = bucket_of(&larger, &e->name);
            next = e->chain;
            e->chain = *bucket;
            *bucket = e;
        }
    free(t->bucket);
    t->bucket = larger.bucket;
    t->n_bucket = larger.n_bucket;
}

struct block_entry *block_table_add(struct block_table *t, const struct block_name *name, size_t n_bytes)
{
    struct block_entry *e = block_table_find(t, name);
    if (e != NULL)
        return e;
    if (t->n >= t->n_bucket)
        grow(t);
    e = mem_zero_array(1, sizeof *e);
    if (e == NULL)
        return NULL;
    struct block_entry **bucket = bucket_of(t, name);
    *e = (struct block_entry){.name = *name, .n_bytes = n_bytes, .chain = *bucket};
    *bucket = e;
    t->n++;
    return e;
}

void block_table_remove(struct block_table *t, struct block_entry *e)
{
    struct block_entry **at = bucket_of(t, &e->name);
    while (*at != e)
        at = &(*at)->chain;
    *at = e->chain;
    t->n--;
    free(e->record);
    free(e);
}

static void unlink_entry(struct block_table *t, struct block_entry *e, enum block_place place)
{
    *(e->older[place] != NULL ? &e->older[place]->newer[place] : &t->oldest[place]) = e->newer[place];
    *(e->newer[place] != NULL ? &e->newer[place]->older[place] : &t->newest[place]) = e->older[place];
}

void block_table_leave(struct block_table *t, struct block_entry *e, enum block_place place)
{
    if (!e->is_in[place])
        return;
    unlink_entry(t, e, place);
    e->is_in[place] = false;
    t->bytes[place] -= BLOCK_RECORD_HEADER + e->n_bytes;
    if (place == PLACE_MEMORY) {
        free(e->record);
        e->record = NULL;
    }
}

void block_table_enter(struct block_table *t, struct block_entry *e, enum block_place place)
{
    if (e->is_in[place])
        unlink_entry(t, e, place);
    else
        t->bytes[place] += BLOCK_RECORD_HEADER + e->n_bytes;
    e->is_in[place] = true;
    e->newer[place] = NULL;
    e->older[place] = t->newest[place];
    *(e->older[place] != NULL ? &e->older[place]->newer[place] : &t->oldest[place]) = e;
    t->newest[place] = e;
}
