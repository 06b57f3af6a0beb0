/* suffix_automaton.h: where the last tokens of a growing text stood before.
 * The automaton of all substrings (Blumer et al. 1985, doi:10.1016/0304-3975(85)90157-4), built token by token: the suffix
 * link of the state for the whole text is the longest suffix that occurred earlier. Edges stand in a hash table, so that a
 * token costs the same in any vocabulary, amortised. Threads: owned by one. */
#ifndef ENGINE_SUFFIX_AUTOMATON_H
#define ENGINE_SUFFIX_AUTOMATON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct suffix_automaton;

/* Room for n_token tokens, about 100 bytes each; nothing later allocates. NULL: no memory. */
struct suffix_automaton *suffix_automaton_create(int n_token);
size_t suffix_automaton_bytes(int n_token);             /* that such a one takes */
void suffix_automaton_free(struct suffix_automaton *a); /* takes NULL */
void suffix_automaton_clear(struct suffix_automaton *a);

int suffix_automaton_n(const struct suffix_automaton *a); /* tokens of the text so far */
/* false: it is full, nothing changed. */
bool suffix_automaton_push(struct suffix_automaton *a, int32_t token);
/* Tokens of the longest suffix that occurred before, 0: none; *next: the position behind an earlier occurrence, the latest
 * one known. */
int suffix_automaton_match(const struct suffix_automaton *a, int *next);

#endif
