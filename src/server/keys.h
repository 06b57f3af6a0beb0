/* keys.h: API keys: who may ask, for which models, how much (docs/keys.md).
 * A key is kept as the SHA-256 of a salt and the token; finding one computes the digest with each key's salt and compares in
 * constant time, whichever key it is.
 * Threads: any, at any time. A key that was found stays valid until it is dropped, also when the ring was reloaded or freed
 * meanwhile; what it has used goes over to the key of the same name in the reloaded ring. */
#ifndef SERVER_KEYS_H
#define SERVER_KEYS_H

#include "base/status.h"

enum {
    KEY_NAME_MAX = 64,    /* characters of a name */
    KEY_TOKEN_MAX = 1024, /* bytes of what a client sends */
    KEY_RING_MAX = 4096   /* keys */
};

/* 0: no limit. */
struct key_limits {
    int32_t requests_per_minute;
    int32_t tokens_per_minute; /* model tokens: of prompts and answers */
    int32_t concurrency;       /* requests that have not ended */
};

struct api_key {
    const char *name; /* for logs and metrics; says nothing of the token */
    uint64_t id;      /* by the name; of mr_request.key */
    struct key_limits limits;
};

struct key_ring;

/* Keys in clear (named key-1, key-2, ... , without limits) and those of a file; NULL: none. BAD_INPUT: a key in clear is empty
 * or too long. Of the file the message names the line. A ring without any key is BAD_INPUT, too. */
enum mr_status key_ring_create(struct key_ring **out, const char *const *clear, int n_clear, const char *file,
                               struct mr_error *err);
void key_ring_free(struct key_ring *ring); /* takes NULL */

/* Read the file again. On failure everything is as it was. */
enum mr_status key_ring_reload(struct key_ring *ring, struct mr_error *err);

/* NULL: nobody's token. Else drop it when the request has ended. */
const struct api_key *key_ring_find(struct key_ring *ring, const char *token);
const struct api_key *key_ring_find_id(struct key_ring *ring, uint64_t id); /* the same by id */
void api_key_hold(const struct api_key *key);                               /* one drop more; takes NULL */
void api_key_drop(const struct api_key *key);                               /* takes NULL */

/* Whether the key may ask this model, by its name in the API. */
bool api_key_allows(const struct api_key *key, const char *model);

/* A request of the key begins; n_tokens: of its prompt, as far as known. BUSY: it would pass a limit, which the message names;
 * nothing is counted, and *retry_after_ms (1 or more) says when there will be room. A limit a minute lets a minute's worth come
 * at once and flows back evenly; a request larger than that comes in when nothing else was used. now_us: of any monotonic
 * clock, the same in all calls. */
enum mr_status api_key_enter(const struct api_key *key, int64_t n_tokens, int64_t now_us, int64_t *retry_after_ms,
                             struct mr_error *err);
/* The request that entered has ended; n_tokens: beyond those it entered with. */
void api_key_leave(const struct api_key *key, int64_t n_tokens, int64_t now_us);

#endif
