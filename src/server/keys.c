/* keys.c: the ring of API keys, and what each has used. */
#include "server/keys.h"

#include <nettle/memops.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "server/key_file.h"
#include "server/text_file.h"

/* What a key has used: spent amounts flow back at the limit's rate. Shared by the keys of one name over reloads. */
struct key_account {
    atomic_int n_holders;
    pthread_mutex_t lock;
    int n_running;
    double spent_requests, spent_tokens;
    int64_t as_of_us;
};

struct ring_key {
    struct api_key key; /* first: a pointer to it is one to the whole */
    atomic_int n_holders;
    struct key_line line;
    struct key_account *account;
};

struct key_set {
    struct ring_key **key;
    size_t n, capacity;
};

struct key_ring {
    char *file;             /* NULL: none */
    struct key_line *clear; /* n_clear of them */
    int n_clear;
    pthread_rwlock_t lock;  /* of set */
    pthread_mutex_t reload; /* one at a time */
    struct key_set set;
};

static void account_drop(struct key_account *a)
{
    if (a == NULL || atomic_fetch_sub(&a->n_holders, 1) > 1)
        return;
    pthread_mutex_destroy(&a->lock);
    free(a);
}

static struct key_account *account_create(void)
{
    struct key_account *a = mem_zero_array(1, sizeof *a);
    if (a == NULL)
        return NULL;
    atomic_init(&a->n_holders, 1);
    pthread_mutex_init(&a->lock, NULL);
    return a;
}

void api_key_hold(const struct api_key *key)
{
    struct ring_key *k = (struct ring_key *)key;
    if (k != NULL)
        atomic_fetch_add(&k->n_holders, 1);
}

void api_key_drop(const struct api_key *key)
{
    struct ring_key *k = (struct ring_key *)key;
    if (k == NULL || atomic_fetch_sub(&k->n_holders, 1) > 1)
        return;
    account_drop(k->account);
    free(k);
}

static void set_release(struct key_set *set)
{
    for (size_t i = 0; i < set->n; i++)
        api_key_drop(&set->key[i]->key);
    free(set->key);
    *set = (struct key_set){0};
}

static struct ring_key *set_named(const struct key_set *set, const char *name)
{
    for (size_t i = 0; i < set->n; i++)
        if (strcmp(set->key[i]->line.name, name) == 0)
            return set->key[i];
    return NULL;
}

static uint64_t name_id(const char *name)
{
    static const uint8_t no_salt[KEY_SALT_BYTES];
    uint8_t digest[KEY_DIGEST_BYTES];
    uint64_t id;
    key_digest(digest, no_salt, name);
    memcpy(&id, digest, sizeof id);
    return id;
}

/* Add a key, with the account of the key that had this name before. */
static enum mr_status set_add(struct key_set *set, const struct key_line *line, const struct key_set *before,
                              struct mr_error *err)
{
    if (set->n >= KEY_RING_MAX)
        return mr_fail(err, MR_BAD_FORMAT, "more than %d keys", KEY_RING_MAX);
    if (set_named(set, line->name) != NULL)
        return mr_fail(err, MR_BAD_FORMAT, "key '%s' stands twice", line->name);
    if (!mem_grow(&set->key, &set->capacity, set->n + 1, sizeof *set->key))
        return mr_fail(err, MR_NO_MEMORY, "no memory for keys");
    struct ring_key *k = mem_zero_array(1, sizeof *k);
    if (k == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for keys");
    atomic_init(&k->n_holders, 1);
    k->line = *line;
    k->key = (struct api_key){.name = k->line.name, .id = name_id(line->name), .limits = line->limits};
    struct ring_key *old = set_named(before, line->name);
    k->account = old != NULL ? old->account : account_create();
    if (k->account == NULL) {
        free(k);
        return mr_fail(err, MR_NO_MEMORY, "no memory for keys");
    }
    if (old != NULL)
        atomic_fetch_add(&old->account->n_holders, 1);
    set->key[set->n++] = k;
    return MR_OK;
}

static enum mr_status add_file(struct key_set *set, const char *path, const struct key_set *before, struct mr_error *err)
{
    struct string_buffer text;
    struct key_line line;
    int number = 0;
    string_buffer_init(&text);
    enum mr_status status = text_file_read(&text, path, KEY_FILE_MAX, err);
    if (status == MR_OK) {
        const char *at = text.s != NULL ? text.s : "";
        while ((status = key_line_next(&line, &at, &number, err)) == MR_OK &&
               (status = set_add(set, &line, before, err)) == MR_OK)
            continue;
        status = status == MR_NOT_FOUND ? MR_OK : mr_fail_in(err, status, "%s", path);
    }
    string_buffer_release(&text);
    return status;
}

static enum mr_status set_read(struct key_set *set, const struct key_ring *ring, struct mr_error *err)
{
    enum mr_status status = MR_OK;
    *set = (struct key_set){0};
    for (int i = 0; i < ring->n_clear && status == MR_OK; i++)
        status = set_add(set, &ring->clear[i], &ring->set, err);
    if (status == MR_OK && ring->file != NULL)
        status = add_file(set, ring->file, &ring->set, err);
    if (status == MR_OK && set->n == 0)
        status = mr_fail(err, MR_BAD_INPUT, "%s has no key: nobody could ask", ring->file != NULL ? ring->file : "the ring");
    if (status != MR_OK)
        set_release(set);
    return status;
}

static enum mr_status hash_clear(struct key_ring *ring, const char *const *clear, int n, struct mr_error *err)
{
    ring->clear = mem_zero_array((size_t)n, sizeof *ring->clear);
    if (ring->clear == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for keys");
    for (ring->n_clear = 0; ring->n_clear < n; ring->n_clear++) {
        struct key_line *line = &ring->clear[ring->n_clear];
        const size_t length = strlen(clear[ring->n_clear]);
        if (length == 0 || length > KEY_TOKEN_MAX)
            return mr_fail(err, MR_BAD_INPUT, "an API key has 1 to %d bytes", KEY_TOKEN_MAX);
        snprintf(line->name, sizeof line->name, "key-%d", ring->n_clear + 1);
        if (!key_line_hash(line, clear[ring->n_clear]))
            return mr_fail(err, MR_IO, "the system gives no random bytes");
    }
    return MR_OK;
}

enum mr_status key_ring_create(struct key_ring **out, const char *const *clear, int n_clear, const char *file,
                               struct mr_error *err)
{
    struct key_ring *ring = mem_zero_array(1, sizeof *ring);
    *out = NULL;
    if (ring == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for keys");
    pthread_rwlock_init(&ring->lock, NULL);
    pthread_mutex_init(&ring->reload, NULL);
    enum mr_status status = hash_clear(ring, clear, n_clear, err);
    if (status == MR_OK && file != NULL && (ring->file = mem_string(file, strlen(file))) == NULL)
        status = mr_fail(err, MR_NO_MEMORY, "no memory for keys");
    struct key_set set = {0};
    if (status == MR_OK)
        status = set_read(&set, ring, err);
    ring->set = set;
    if (status == MR_OK)
        *out = ring;
    else
        key_ring_free(ring);
    return status;
}

void key_ring_free(struct key_ring *ring)
{
    if (ring == NULL)
        return;
    set_release(&ring->set);
    pthread_mutex_destroy(&ring->reload);
    pthread_rwlock_destroy(&ring->lock);
    free(ring->clear);
    free(ring->file);
    free(ring);
}

enum mr_status key_ring_reload(struct key_ring *ring, struct mr_error *err)
{
    struct key_set set, old;
    pthread_mutex_lock(&ring->reload);
    const enum mr_status status = set_read(&set, ring, err);
    if (status == MR_OK) {
        pthread_rwlock_wrlock(&ring->lock);
        old = ring->set;
        ring->set = set;
        pthread_rwlock_unlock(&ring->lock);
        set_release(&old);
    }
    pthread_mutex_unlock(&ring->reload);
    return status;
}

const struct api_key *key_ring_find(struct key_ring *ring, const char *token)
{
    struct ring_key *found = NULL;
    if (strnlen(token, KEY_TOKEN_MAX + 1) > KEY_TOKEN_MAX)
        return NULL;
    pthread_rwlock_rdlock(&ring->lock);
    for (size_t i = 0; i < ring->set.n; i++) { /* all of them: time tells nothing of which one fits */
        uint8_t digest[KEY_DIGEST_BYTES];
        key_digest(digest, ring->set.key[i]->line.salt, token);
        if (memeql_sec(digest, ring->set.key[i]->line.digest, sizeof digest))
            found = ring->set.key[i];
    }
    if (found != NULL)
        atomic_fetch_add(&found->n_holders, 1);
    pthread_rwlock_unlock(&ring->lock);
    return found != NULL ? &found->key : NULL;
}

const struct api_key *key_ring_find_id(struct key_ring *ring, uint64_t id)
{
    const struct api_key *found = NULL;
    pthread_rwlock_rdlock(&ring->lock);
    for (size_t i = 0; i < ring->set.n; i++)
        if (ring->set.key[i]->key.id == id)
            found = &ring->set.key[i]->key;
    api_key_hold(found);
    pthread_rwlock_unlock(&ring->lock);
    return found;
}

bool api_key_allows(const struct api_key *key, const char *model)
{
    const struct ring_key *k = (const struct ring_key *)key;
    const size_t n = strlen(model);
    if (k->line.models[0] == '\0')
        return true;
    for (const char *at = k->line.models; *at != '\0';) {
        const size_t length = strcspn(at, ",");
        if (length == n && memcmp(at, model, n) == 0)
            return true;
        at += length + (at[length] == ',');
    }
    return false;
}

/* What of it has not flowed back after so many minutes. */
static double still_spent(double spent, int32_t per_minute, double minutes)
{
    const double left = spent - minutes * per_minute;
    return per_minute > 0 && left > 0 ? left : 0;
}

static void account_refill(struct key_account *a, const struct key_limits *limits, int64_t now_us)
{
    const double minutes = now_us > a->as_of_us ? (double)(now_us - a->as_of_us) / 60e6 : 0;
    a->spent_requests = still_spent(a->spent_requests, limits->requests_per_minute, minutes);
    a->spent_tokens = still_spent(a->spent_tokens, limits->tokens_per_minute, minutes);
    if (now_us > a->as_of_us)
        a->as_of_us = now_us;
}

/* Milliseconds until `need` fits into what a minute allows; 0: now. */
static int64_t wait_ms(double spent, double need, int32_t per_minute)
{
    const double over = spent + (need < per_minute ? need : per_minute) - per_minute;
    return per_minute == 0 || over <= 0 ? 0 : (int64_t)(over / per_minute * 60e3) + 1;
}

static enum mr_status account_check(const struct key_account *a, const struct api_key *key, int64_t n_tokens,
                                    int64_t *retry_after_ms, struct mr_error *err)
{
    const struct key_limits *l = &key->limits;
    if (l->concurrency > 0 && a->n_running >= l->concurrency) {
        *retry_after_ms = 1000;
        return mr_fail(err, MR_BUSY, "key '%s' may have %d requests running at a time", key->name, (int)l->concurrency);
    }
    if ((*retry_after_ms = wait_ms(a->spent_requests, 1, l->requests_per_minute)) > 0)
        return mr_fail(err, MR_BUSY, "key '%s' may send %d requests a minute", key->name, (int)l->requests_per_minute);
    if ((*retry_after_ms = wait_ms(a->spent_tokens, (double)n_tokens, l->tokens_per_minute)) > 0)
        return mr_fail(err, MR_BUSY, "key '%s' may use %d tokens a minute", key->name, (int)l->tokens_per_minute);
    return MR_OK;
}

enum mr_status api_key_enter(const struct api_key *key, int64_t n_tokens, int64_t now_us, int64_t *retry_after_ms,
                             struct mr_error *err)
{
    struct key_account *a = ((const struct ring_key *)key)->account;
    pthread_mutex_lock(&a->lock);
    account_refill(a, &key->limits, now_us);
    const enum mr_status status = account_check(a, key, n_tokens, retry_after_ms, err);
    if (status == MR_OK) {
        a->n_running++;
        a->spent_requests += 1;
        a->spent_tokens += (double)n_tokens;
    }
    pthread_mutex_unlock(&a->lock);
    return status;
}

void api_key_leave(const struct api_key *key, int64_t n_tokens, int64_t now_us)
{
    struct key_account *a = ((const struct ring_key *)key)->account;
    pthread_mutex_lock(&a->lock);
    account_refill(a, &key->limits, now_us);
    a->n_running--;
    a->spent_tokens += (double)n_tokens;
    pthread_mutex_unlock(&a->lock);
}
