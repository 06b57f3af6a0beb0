/* fair_share.h: what each API key has been given, so that the key that had least goes first.
 * Start-time fair queueing (Goyal, Vin and Cheng 1996): a key that comes back after a pause starts at the present virtual
 * time, and can neither save up nor be punished for old use.
 * Threads: owned by one. */
#ifndef ENGINE_FAIR_SHARE_H
#define ENGINE_FAIR_SHARE_H

#include <stdbool.h>
#include <stdint.h>

struct share {
    uint64_t key;
    double served; /* cost of its rows, on the common virtual time */
    int n_request; /* that wait or run */
};

struct fair_share {
    struct share *share;
    int n, capacity;
    double now; /* virtual time: what the key chosen last had been given */
};

/* capacity: requests that wait or run at a time. false: no memory. */
bool fair_share_init(struct fair_share *f, int capacity);
void fair_share_release(struct fair_share *f);

/* A request of the key has come; returns the key's place, valid until the request leaves. */
int fair_share_enter(struct fair_share *f, uint64_t key);
void fair_share_leave(struct fair_share *f, int place);

int fair_share_n_active(const struct fair_share *f); /* keys with requests */
double fair_share_served(const struct fair_share *f, int place);
void fair_share_charge(struct fair_share *f, int place, double cost);
/* The key has been chosen to start a request. */
void fair_share_chosen(struct fair_share *f, int place);

#endif
