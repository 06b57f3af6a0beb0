/* constraint.h: output that obeys a JSON Schema, a regular expression, a GBNF grammar, or is one of several choices.
 * A constraint is compiled once; its masks are found for one vocabulary and kept; every answer has a state of its own.
 * docs/constraints.md says what is understood and what is refused.
 * Threads: a constraint and a trie are immutable. A mask cache and the states that use it belong to one thread; making and
 * warming a cache on another thread beforehand is how compilation stays off the critical path. */
#ifndef SAMPLE_CONSTRAINT_H
#define SAMPLE_CONSTRAINT_H

#include "sample/token_trie.h"

enum constraint_kind {
    CONSTRAINT_JSON_SCHEMA, /* text: the schema; the answer is one JSON value */
    CONSTRAINT_JSON_OBJECT, /* any JSON object; no text */
    CONSTRAINT_REGEX,       /* text: an ECMA-262 pattern that the whole answer matches */
    CONSTRAINT_GRAMMAR,     /* text: GBNF; the rule named root is the answer */
    CONSTRAINT_CALLS,       /* text: which functions the answer may or must call (call_grammar.h) */
    CONSTRAINT_CHOICE       /* the answer is one of choice[n_choice] */
};

struct constraint_text {
    const char *s;
    size_t n;
};

struct constraint_source {
    enum constraint_kind kind;
    struct constraint_text text;
    const struct constraint_text *choice;
    size_t n_choice;
};

enum {
    CONSTRAINT_TEXT_MAX = 4 << 20, /* bytes of a source */
    CONSTRAINT_UNDO_MAX = 32,      /* tokens that can be taken back */
    MASK_CACHE_WARM_WORK = 1 << 22 /* for mask_cache_warm: some milliseconds */
};

struct constraint; /* compiled */

/* BAD_INPUT names the keyword and its JSON pointer, the rule and line, or the place in the pattern; nothing that could not
 * be enforced is accepted. NO_SUPPORT: valid, but it cannot be enforced. */
enum mr_status constraint_create(struct constraint **out, const struct constraint_source *source, struct mr_error *err);
void constraint_free(struct constraint *c); /* takes NULL */

struct mask_cache; /* masks of one constraint for one vocabulary */

/* c and trie are borrowed and live longer. */
enum mr_status mask_cache_create(struct mask_cache **out, const struct constraint *c, const struct token_trie *trie,
                                 struct mr_error *err);
void mask_cache_free(struct mask_cache *m); /* takes NULL; its states have been freed */

/* Find masks that an answer will probably need, as far as `work` (nodes of tries looked at) allows. */
enum mr_status mask_cache_warm(struct mask_cache *m, size_t work, struct mr_error *err);

size_t mask_cache_bytes(const struct mask_cache *m);

struct constraint_state; /* where one answer is */

enum mr_status constraint_state_create(struct constraint_state **out, struct mask_cache *m, struct mr_error *err);
void constraint_state_free(struct constraint_state *s); /* takes NULL */

/* An independent state at the same place; what could be taken back there can be taken back here. */
enum mr_status constraint_state_copy(struct constraint_state **out, const struct constraint_state *s, struct mr_error *err);

/* The tokens that may come next, one bit each (token_trie.h), never none; valid until the next call on the same mask cache.
 * End tokens are among them where the answer may end, and are all where it must.
 * FULL: the grammar is so ambiguous here that more than 1024 readings remain. */
enum mr_status constraint_mask(const uint64_t **mask, struct constraint_state *s, struct mr_error *err);

/* Go on by one token. BAD_INPUT: it is not allowed here, nothing changed. */
enum mr_status constraint_accept(struct constraint_state *s, int32_t token, struct mr_error *err);

/* Go on by bytes, which count as one token for constraint_undo. BAD_INPUT: not allowed, nothing changed; *n_read (may be
 * NULL): how many bytes are. */
enum mr_status constraint_accept_bytes(struct constraint_state *s, const char *bytes, size_t n, size_t *n_read,
                                       struct mr_error *err);

/* Take back the last n_token tokens. BAD_INPUT: more than CONSTRAINT_UNDO_MAX, or than were accepted. */
enum mr_status constraint_undo(struct constraint_state *s, int n_token, struct mr_error *err);

bool constraint_can_end(const struct constraint_state *s);
bool constraint_must_end(const struct constraint_state *s); /* nothing but the end is possible, or it has come */

/* The only text that can come next, as far as it is the only one: its first n_max bytes to buffer. Returns their number; 0
 * where there is a choice, the end included, or where memory ran out. A source of draft tokens. */
size_t constraint_forced(struct constraint_state *s, char *buffer, size_t n_max);

#endif
