/* prefix_index.c: a hash table of keys whose entries are on one list, the most recently used first. */
#include "cache/prefix_index.h"

#include <nettle/sha2.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

enum {
    GHOSTS = 2 /* keys kept for each block there is */
};
#define NONE UINT32_MAX

_Static_assert(sizeof(struct prefix_key) == SHA256_DIGEST_SIZE, "a key is a digest");

struct entry {
    struct prefix_key key;
    uint32_t block[KV_MAX_GROUPS]; /* KV_NO_BLOCK: given back, or never held */
    uint32_t chain;                /* the next entry of the bucket */
    uint32_t newer, older;         /* neighbours on the list */
    unsigned pinned;               /* a bit for each group */
};

struct prefix_index {
    struct kv_cache *kv;
    struct entry *entry;
    uint32_t n_entry, capacity;
    uint32_t *bucket;
    uint32_t mask;
    uint32_t newest, oldest;
    prefix_block_fn *evicted; /* NULL: nobody asks */
    void *context;
};

void prefix_key_seed(struct prefix_key *out, const void *bytes, size_t n)
{
    struct sha256_ctx sha;
    sha256_init(&sha);
    sha256_update(&sha, n, bytes);
    sha256_digest(&sha, sizeof out->byte, out->byte);
}

void prefix_key_next(struct prefix_key *out, const struct prefix_key *before, const int32_t *token)
{
    uint8_t bytes[KV_BLOCK * 4]; /* little endian on every machine: keys may be stored */
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)((uint32_t)token[i / 4] >> (i % 4 * 8));
    struct sha256_ctx sha;
    sha256_init(&sha);
    sha256_update(&sha, sizeof before->byte, before->byte);
    sha256_update(&sha, sizeof bytes, bytes);
    sha256_digest(&sha, sizeof out->byte, out->byte);
}

enum mr_status prefix_index_create(struct prefix_index **out, struct kv_cache *kv, struct mr_error *err)
{
    *out = NULL;
    struct prefix_index *p = mem_zero_array(1, sizeof *p);
    if (p == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for the index of prefixes");
    p->kv = kv;
    for (int i = 0; i < kv_n_groups(kv); i++)
        if ((uint32_t)kv_n_blocks(kv, i) > p->capacity)
            p->capacity = (uint32_t)kv_n_blocks(kv, i);
    p->capacity = p->capacity < UINT32_MAX / 8 ? p->capacity * GHOSTS : p->capacity;
    for (p->mask = 1; p->mask < p->capacity; p->mask *= 2)
        continue;
    p->entry = mem_array(p->capacity, sizeof *p->entry);
    p->bucket = mem_array(p->mask, sizeof *p->bucket);
    if (p->entry == NULL || p->bucket == NULL) {
        prefix_index_free(p);
        return mr_fail(err, MR_NO_MEMORY, "no memory for the index of prefixes");
    }
    memset(p->bucket, 0xff, p->mask * sizeof *p->bucket);
    p->mask--;
    p->newest = p->oldest = NONE;
    *out = p;
    return MR_OK;
}

void prefix_index_free(struct prefix_index *p)
{
    if (p == NULL)
        return;
    for (uint32_t i = 0; i < p->n_entry; i++)
        for (int group = 0; group < kv_n_groups(p->kv); group++)
            if (p->entry[i].block[group] != KV_NO_BLOCK)
                kv_block_drop(p->kv, group, p->entry[i].block[group]);
    free(p->entry);
    free(p->bucket);
    free(p);
}

static uint32_t *bucket_of(const struct prefix_index *p, const struct prefix_key *key)
{
    uint32_t word;
    memcpy(&word, key->byte, sizeof word); /* a digest is as good as a hash */
    return &p->bucket[word & p->mask];
}

static uint32_t find(const struct prefix_index *p, const struct prefix_key *key)
{
    uint32_t i = *bucket_of(p, key);
    while (i != NONE && memcmp(&p->entry[i].key, key, sizeof *key) != 0)
        i = p->entry[i].chain;
    return i;
}

static void unlink_entry(struct prefix_index *p, uint32_t i)
{
    const struct entry *e = &p->entry[i];
    *(e->newer != NONE ? &p->entry[e->newer].older : &p->newest) = e->older;
    *(e->older != NONE ? &p->entry[e->older].newer : &p->oldest) = e->newer;
}

/* Put an entry on the list behind `newer`; NONE: at its beginning. */
static void link_behind(struct prefix_index *p, uint32_t i, uint32_t newer)
{
    struct entry *e = &p->entry[i];
    e->newer = newer;
    e->older = newer != NONE ? p->entry[newer].older : p->newest;
    *(newer != NONE ? &p->entry[newer].older : &p->newest) = i;
    *(e->older != NONE ? &p->entry[e->older].newer : &p->oldest) = i;
}

int prefix_index_match(const struct prefix_index *p, const struct prefix_key *key, int n, enum prefix_miss *why)
{
    const int n_group = kv_n_groups(p->kv);
    int missing[KV_MAX_GROUPS], best = 0, b = 0; /* missing: the last block that a group does not have */
    enum prefix_miss gap = PREFIX_UNKNOWN;
    for (int group = 0; group < n_group; group++)
        missing[group] = -1;
    for (; b < n; b++) {
        const uint32_t i = find(p, &key[b]);
        if (i == NONE)
            break;
        bool usable = true;
        for (int group = 0; group < n_group; group++) {
            const int first = kv_first_block(p->kv, group, (b + 1) * KV_BLOCK);
            if (p->entry[i].block[group] == KV_NO_BLOCK)
                missing[group] = b;
            if (missing[group] < first)
                continue;
            usable = false;
            gap = first == 0 ? PREFIX_EVICTED : PREFIX_NO_WINDOW;
        }
        best = usable ? b + 1 : best;
    }
    *why = best == n ? PREFIX_WHOLE : best == b ? PREFIX_UNKNOWN : gap;
    return best;
}

void prefix_index_adopt(struct prefix_index *p, kv_seq seq, const struct prefix_key *key, int n)
{
    for (int b = 0; b < n; b++) {
        const struct entry *e = &p->entry[find(p, &key[b])];
        for (int group = 0; group < kv_n_groups(p->kv); group++) {
            const bool is_read = b >= kv_first_block(p->kv, group, n * KV_BLOCK);
            kv_seq_adopt(p->kv, seq, group, b, is_read ? e->block[group] : KV_NO_BLOCK);
        }
    }
    kv_seq_adopted(p->kv, seq, n * KV_BLOCK);
    prefix_index_touch(p, key, n);
}

void prefix_index_touch(struct prefix_index *p, const struct prefix_key *key, int n)
{
    while (n-- > 0) { /* the end first, so that it is given back before the beginning */
        const uint32_t i = find(p, &key[n]);
        if (i == NONE)
            continue;
        unlink_entry(p, i);
        link_behind(p, i, NONE);
    }
}

void prefix_index_on_evict(struct prefix_index *p, prefix_block_fn *evicted, void *context)
{
    p->evicted = evicted;
    p->context = context;
}

void prefix_index_each(const struct prefix_index *p, prefix_block_fn *visit, void *context)
{
    for (uint32_t i = p->oldest; i != NONE; i = p->entry[i].newer)
        for (int group = 0; group < kv_n_groups(p->kv); group++)
            if (p->entry[i].block[group] != KV_NO_BLOCK)
                visit(context, &p->entry[i].key, group, p->entry[i].block[group]);
}

static void drop(struct prefix_index *p, uint32_t i, int group)
{
    uint32_t *block = &p->entry[i].block[group];
    if (*block == KV_NO_BLOCK)
        return;
    if (p->evicted != NULL)
        p->evicted(p->context, &p->entry[i].key, group, *block);
    kv_block_drop(p->kv, group, *block);
    *block = KV_NO_BLOCK;
}

/* An entry for a new key: an unused one, or the least recently used. */
static uint32_t take_entry(struct prefix_index *p, const struct prefix_key *key)
{
    uint32_t i = p->n_entry;
    if (i < p->capacity) {
        p->n_entry++;
    } else {
        for (i = p->oldest; p->entry[i].pinned != 0;) /* there are more entries than blocks */
            i = p->entry[i].newer;
        for (int group = 0; group < kv_n_groups(p->kv); group++)
            drop(p, i, group);
        uint32_t *at = bucket_of(p, &p->entry[i].key);
        while (*at != i)
            at = &p->entry[*at].chain;
        *at = p->entry[i].chain;
        unlink_entry(p, i);
    }
    struct entry *e = &p->entry[i];
    uint32_t *bucket = bucket_of(p, key);
    *e = (struct entry){.key = *key, .chain = *bucket};
    memset(e->block, 0xff, sizeof e->block);
    *bucket = i;
    return i;
}

void prefix_index_add(struct prefix_index *p, kv_seq seq, const struct prefix_key *key, int b)
{
    uint32_t i = find(p, &key[b]);
    if (i == NONE) {
        i = take_entry(p, &key[b]);
        link_behind(p, i, b > 0 ? find(p, &key[b - 1]) : NONE); /* given back before the one in front of it */
    }
    for (int group = 0; group < kv_n_groups(p->kv); group++) {
        const uint32_t block = kv_seq_blocks(p->kv, seq, group)[b];
        if (p->entry[i].block[group] != KV_NO_BLOCK || block == KV_NO_BLOCK)
            continue;
        kv_block_hold(p->kv, group, block);
        p->entry[i].block[group] = block;
    }
}

static bool is_idle(const struct prefix_index *p, uint32_t i, int group)
{
    const uint32_t block = p->entry[i].block[group];
    return block != KV_NO_BLOCK && kv_block_owners(p->kv, group, block) == 1 && (p->entry[i].pinned >> group & 1) == 0;
}

bool prefix_index_evict(struct prefix_index *p, int group)
{
    for (uint32_t i = p->oldest; i != NONE; i = p->entry[i].newer) {
        if (!is_idle(p, i, group))
            continue;
        drop(p, i, group);
        for (int other = 0; !kv_has_window(p->kv, group) && other < kv_n_groups(p->kv); other++)
            drop(p, i, other); /* of no use without what all tokens read */
        return true;
    }
    return false;
}

int prefix_index_n_idle(const struct prefix_index *p, int group)
{
    int n = 0;
    for (uint32_t i = 0; i < p->n_entry; i++)
        n += is_idle(p, i, group);
    return n;
}

bool prefix_index_pin(struct prefix_index *p, const struct prefix_key *key, int n)
{
    enum prefix_miss why;
    if (prefix_index_match(p, key, n, &why) != n)
        return false;
    for (int b = 0; b < n; b++) {
        const uint32_t i = find(p, &key[b]);
        for (int group = 0; group < kv_n_groups(p->kv); group++) {
            if (b >= kv_first_block(p->kv, group, n * KV_BLOCK))
                p->entry[i].pinned |= 1U << group;
            else if (is_idle(p, i, group))
                drop(p, i, group); /* what is out of the window would only take room */
        }
    }
    return true;
}

int prefix_index_n_pinned(const struct prefix_index *p, int group)
{
    int n = 0;
    for (uint32_t i = 0; i < p->n_entry; i++)
        n += p->entry[i].pinned >> group & 1;
    return n;
}
