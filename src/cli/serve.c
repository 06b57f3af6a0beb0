/* serve.c: `millrace serve`: the server's life, from its options to a signal that ends it. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/serve_arguments.h"
#include "server/keys.h"
#include "server/process_stats.h"
#include "server/server.h"

enum {
    SWAP_LOOK_S = 30
};

/* Blocked in every thread, and taken here one after the other. */
static void block_signals(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGHUP);
    pthread_sigmask(SIG_BLOCK, set, NULL);
    signal(SIGPIPE, SIG_IGN); /* a client that leaves is told by write */
    signal(SIGXFSZ, SIG_IGN); /* the same of a file that may not grow */
}

/* Whether one that ends the server has come. */
static bool end_is_wanted(void)
{
    sigset_t pending;
    sigpending(&pending);
    return sigismember(&pending, SIGTERM) || sigismember(&pending, SIGINT);
}

static bool load_on(void *context, size_t done, size_t total)
{
    (void)context;
    (void)done;
    (void)total;
    return !end_is_wanted();
}

/* The second signal ends the wait for running requests. */
static bool wait_on(void *context)
{
    (void)context;
    return !end_is_wanted();
}

/* What a server is told anew: the settings it began with, and those that were read again, which it borrows. */
struct serving {
    struct server *server;
    int argc;
    char **argv;
    struct settings **settings;
    int n_settings;
};

static void reload_keys(struct server *s, const char *command)
{
    struct mr_error err = {{0}};
    if (s->keys != NULL && key_ring_reload(s->keys, &err) != MR_OK)
        fprintf(stderr, "%s: the keys are as they were: %s\n", command, err.message);
}

static void tell(const char *command, const char *what, const struct string_buffer *names)
{
    if (names->n > 0)
        fprintf(stderr, "%s: %s: %s\n", command, what, names->s);
}

/* Takes fresh over. */
static void give_settings(struct serving *v, struct settings *fresh)
{
    struct string_buffer changed, kept;
    struct mr_error err = {{0}};
    struct settings **grown = realloc(v->settings, (size_t)(v->n_settings + 1) * sizeof *grown);
    if (grown == NULL) {
        settings_free(fresh);
        return;
    }
    v->settings = grown;
    v->settings[v->n_settings++] = fresh;
    string_buffer_init(&changed);
    string_buffer_init(&kept);
    if (server_reload(v->server, settings_values(fresh), &changed, &kept, &err) != MR_OK)
        fprintf(stderr, "%s: %s\n", v->argv[0], err.message);
    tell(v->argv[0], "read again", &changed);
    tell(v->argv[0], "changed, and count from the next start on", &kept);
    if (changed.n == 0)
        settings_free(v->settings[--v->n_settings]);
    string_buffer_release(&changed);
    string_buffer_release(&kept);
}

static void reload(struct serving *v)
{
    struct serve_arguments arguments;
    reload_keys(v->server, v->argv[0]);
    if (serve_arguments_parse(&arguments, v->argc, v->argv) == ARGUMENTS_GO_ON)
        give_settings(v, arguments.settings);
    else
        fprintf(stderr, "%s: the settings are as they were\n", v->argv[0]);
}

/* Say so where more of the process is swapped out than *known, which it becomes. */
static void warn_of_swap(int64_t *known, const char *command)
{
    const int64_t bytes = process_swap_grown(known, "");
    if (bytes > 0)
        fprintf(
            stderr,
            "%s: warning: %lld MB of the server are swapped out, and it is slower for it: give it more memory, or --mlock\n",
            command, (long long)(bytes >> 20));
}

/* Until SIGTERM or SIGINT comes. */
static void serve_on(struct serving *v, const sigset_t *signals)
{
    const struct timespec look = {.tv_sec = SWAP_LOOK_S};
    int64_t swapped = 0;
    for (;;) {
        const int n = sigtimedwait(signals, NULL, &look);
        if (n == SIGHUP)
            reload(v);
        else if (n > 0 || (errno != EINTR && errno != EAGAIN))
            return;
        warn_of_swap(&swapped, v->argv[0]);
    }
}

static void print_address(const struct server *s)
{
    const struct server_settings *settings = s->settings;
    const bool is_v6 = strchr(settings->host, ':') != NULL;
    printf("listening on %s://%s%s%s:%d\n", settings->tls_certificate != NULL ? "https" : "http", is_v6 ? "[" : "",
           settings->host, is_v6 ? "]" : "", server_port(s));
    fflush(stdout);
}

/* Show what holds. Files that are named must be there. */
static int show_settings(const struct settings *s, const char *command)
{
    struct string_buffer text;
    struct mr_error err = {{0}};
    if (settings_check_files(s, &err) != MR_OK)
        return arguments_fail(command, "%s", err.message);
    string_buffer_init(&text);
    settings_write(s, &text);
    const int status = output_text(command, &text);
    string_buffer_release(&text);
    return status;
}

static int serve(const struct server_settings *settings, int argc, char **argv)
{
    struct server *s = NULL;
    struct serving serving = {.argc = argc, .argv = argv};
    struct mr_error err = {{0}};
    sigset_t signals;
    block_signals(&signals);
    enum mr_status status = server_start(&s, settings, &err);
    if (status == MR_OK) {
        print_address(s);
        status = server_load(s, load_on, NULL, &err);
    }
    if (status == MR_OK) {
        serving.server = s;
        serve_on(&serving, &signals);
        server_drain(s, wait_on, NULL);
    }
    server_free(s);
    for (int i = 0; i < serving.n_settings; i++)
        settings_free(serving.settings[i]);
    free(serving.settings);
    return status == MR_OK || (status == MR_CANCELLED && end_is_wanted()) ? 0 : output_fail_status(argv[0], status, &err);
}

int command_serve(int argc, char **argv)
{
    struct serve_arguments arguments;
    int status = serve_arguments_parse(&arguments, argc, argv);
    if (status != ARGUMENTS_GO_ON)
        return status;
    status =
        arguments.check ? show_settings(arguments.settings, argv[0]) : serve(settings_values(arguments.settings), argc, argv);
    settings_free(arguments.settings);
    return status;
}
