/* workers.c: a list of exchanges and threads that take from it. */
#include "server/workers.h"

#include <stdlib.h>

#include "base/memory.h"
#include "base/thread_start.h"
#include "server/exchange_state.h"
#include "server/model_store.h"
#include "server/server.h"
#include "server/upload.h"

enum {
    N_WORKER = 2
};

struct workers {
    pthread_t thread[N_WORKER];
    int n_thread;
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t wake;
    struct exchange *first, **last;
    bool stop;
};

static void work_on(struct exchange *x)
{
    pthread_mutex_lock(&x->lock);
    const bool is_gone = x->is_gone, is_piece = !x->is_dispatched;
    pthread_mutex_unlock(&x->lock);
    if (!is_gone && is_piece)
        upload_take(x);
    if (!is_gone && !is_piece && !exchange_handle(x)) {
        model_store_wait(x->server->store, x); /* it stays suspended */
        exchange_drop(x);
        return;
    }
    pthread_mutex_lock(&x->lock);
    x->is_working = false;
    if (x->is_gone || x->http != 0 || is_piece)
        exchange_wake(x);
    pthread_mutex_unlock(&x->lock);
    exchange_drop(x);
}

static void *run(void *context)
{
    struct workers *w = context;
    pthread_mutex_lock(&w->lock);
    for (;;) {
        while (w->first == NULL && !w->stop)
            pthread_cond_wait(&w->wake, &w->lock);
        struct exchange *x = w->first;
        if (x == NULL)
            break;
        w->first = x->next_job;
        if (w->first == NULL)
            w->last = &w->first;
        pthread_mutex_unlock(&w->lock);
        work_on(x);
        pthread_mutex_lock(&w->lock);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

enum mr_status workers_create(struct workers **out, struct mr_error *err)
{
    *out = NULL;
    struct workers *w = mem_zero_array(1, sizeof *w);
    if (w == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for the server");
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->wake, NULL);
    w->last = &w->first;
    while (w->n_thread < N_WORKER && thread_start(&w->thread[w->n_thread], run, w))
        w->n_thread++;
    if (w->n_thread < N_WORKER) {
        workers_free(w);
        return mr_fail(err, MR_NO_MEMORY, "the threads of long requests could not be started");
    }
    *out = w;
    return MR_OK;
}

void workers_free(struct workers *w)
{
    if (w == NULL)
        return;
    pthread_mutex_lock(&w->lock);
    w->stop = true;
    pthread_cond_broadcast(&w->wake);
    pthread_mutex_unlock(&w->lock);
    for (int i = 0; i < w->n_thread; i++)
        pthread_join(w->thread[i], NULL);
    pthread_cond_destroy(&w->wake);
    pthread_mutex_destroy(&w->lock);
    free(w);
}

void workers_add(struct workers *w, struct exchange *x)
{
    exchange_hold(x);
    pthread_mutex_lock(&w->lock);
    x->next_job = NULL;
    *w->last = x;
    w->last = &x->next_job;
    pthread_cond_signal(&w->wake);
    pthread_mutex_unlock(&w->lock);
}
