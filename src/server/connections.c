/* connections.c: a list for each phase, in the order in which they came to it: its head is the next to be late. */
#include "server/connections.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/memory.h"

struct connection {
    int fd;
    enum connection_phase phase;
    bool is_cut;
    int64_t since_us;
    struct connection *next, *previous;
};

struct list {
    struct connection *first, *last;
    int n;
    int64_t limit_us; /* INT64_MAX: none */
};

struct connections {
    pthread_mutex_t lock;
    struct list list[CONNECTION_N_PHASES];
};

struct connections *connections_create(int64_t idle_us, int64_t request_us)
{
    struct connections *c = mem_zero_array(1, sizeof *c);
    if (c == NULL)
        return NULL;
    pthread_mutex_init(&c->lock, NULL);
    c->list[CONNECTION_IDLE].limit_us = idle_us;
    c->list[CONNECTION_SENDING].limit_us = request_us;
    c->list[CONNECTION_WAITING].limit_us = INT64_MAX;
    return c;
}

void connections_free(struct connections *c)
{
    if (c == NULL)
        return;
    pthread_mutex_destroy(&c->lock);
    free(c);
}

static void append(struct list *l, struct connection *k)
{
    k->next = NULL;
    k->previous = l->last;
    if (l->last != NULL)
        l->last->next = k;
    else
        l->first = k;
    l->last = k;
    l->n++;
}

static void unlink_from(struct list *l, struct connection *k)
{
    if (k->previous != NULL)
        k->previous->next = k->next;
    else
        l->first = k->next;
    if (k->next != NULL)
        k->next->previous = k->previous;
    else
        l->last = k->previous;
    l->n--;
}

struct connection *connections_add(struct connections *c, int fd, int64_t now_us)
{
    struct connection *k = mem_zero_array(1, sizeof *k);
    if (k == NULL)
        return NULL;
    *k = (struct connection){.fd = fd, .phase = CONNECTION_IDLE, .since_us = now_us};
    pthread_mutex_lock(&c->lock);
    append(&c->list[CONNECTION_IDLE], k);
    pthread_mutex_unlock(&c->lock);
    return k;
}

void connections_remove(struct connections *c, struct connection *k)
{
    if (k == NULL)
        return;
    pthread_mutex_lock(&c->lock);
    unlink_from(&c->list[k->phase], k);
    pthread_mutex_unlock(&c->lock);
    free(k);
}

void connections_set(struct connections *c, struct connection *k, enum connection_phase phase, int64_t now_us)
{
    pthread_mutex_lock(&c->lock);
    unlink_from(&c->list[k->phase], k);
    k->phase = phase;
    k->since_us = now_us;
    append(&c->list[phase], k);
    pthread_mutex_unlock(&c->lock);
}

bool connections_expire(struct connections *c, int64_t now_us)
{
    bool any = false;
    pthread_mutex_lock(&c->lock);
    for (int i = 0; i < CONNECTION_N_PHASES; i++) {
        struct list *l = &c->list[i];
        any |= l->n > 0 && l->limit_us < INT64_MAX;
        for (struct connection *k = l->first; k != NULL && now_us - k->since_us > l->limit_us; k = k->next) {
            if (!k->is_cut)
                shutdown(k->fd, SHUT_RDWR); /* its owner reads the end, and closes it */
            k->is_cut = true;
        }
    }
    pthread_mutex_unlock(&c->lock);
    return any;
}

int connections_all(struct connections *c)
{
    int n = 0;
    pthread_mutex_lock(&c->lock);
    for (int i = 0; i < CONNECTION_N_PHASES; i++)
        n += c->list[i].n;
    pthread_mutex_unlock(&c->lock);
    return n;
}
