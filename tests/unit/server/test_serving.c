/* test_serving.c: the whole server in this process, over a small model and real sockets: many clients at once, those that leave
 * at any moment, and an end in the midst of it. What the sanitizers see of the server's threads, they see here. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>

#include "server/server.h"
#include "server/settings.h"
#include "unit/engine/engine_fixture.h"

enum {
    N_CLIENT = 8,
    N_ROUND = 12,
    REPLY_MAX = 1 << 16
};

static char model_path[] = "/tmp/millrace-serving-XXXXXX";

struct fixture {
    struct server_settings settings;
    struct server *server;
};

static void start_with(struct fixture *f, const char *const *models, int n_models)
{
    struct mr_error err = {{0}};
    server_settings_defaults(&f->settings);
    f->settings.model = model_path;
    f->settings.alias = "tiny";
    f->settings.models = models;
    f->settings.n_models = n_models;
    f->settings.models_max = 2;
    f->settings.port = 0;
    f->settings.drain_s = 10;
    f->settings.engine.threads = 1;
    f->settings.engine.max_running = 4;
    f->settings.engine.n_ctx = 256;
    f->settings.engine.cpu = getenv("MILLRACE_CPU");
    check(server_start(&f->server, &f->settings, &err), &err);
    check(server_load(f->server, NULL, NULL, &err), &err);
}

static void start(struct fixture *f) { start_with(f, NULL, 0); }

static int dial(const struct server *s)
{
    const struct sockaddr_in a = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)server_port(s)), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&a, sizeof a), 0);
    return fd;
}

static void say(int fd, const char *text, size_t n)
{
    for (ssize_t sent; n > 0 && (sent = send(fd, text, n, MSG_NOSIGNAL)) > 0; n -= (size_t)sent)
        text += sent;
}

/* Everything until the other side closes. */
static size_t hear(int fd, char out[REPLY_MAX])
{
    size_t n = 0;
    for (ssize_t got; n < REPLY_MAX - 1 && (got = recv(fd, out + n, REPLY_MAX - 1 - n, 0)) > 0;)
        n += (size_t)got;
    out[n] = '\0';
    return n;
}

/* padding: bytes of a field that nobody reads, so that a worker does. */
static int ask_model(const struct server *s, const char *model, int n_predict, bool stream, size_t padding)
{
    char head[256], body[512];
    const int n = snprintf(body, sizeof body,
                           "{\"prompt\":\"some text\",\"n_predict\":%d,\"temperature\":0,\"ignore_eos\":true,\"stream\":%s,"
                           "\"model\":\"%s\",\"padding\":\"",
                           n_predict, stream ? "true" : "false", model);
    const int n_head =
        snprintf(head, sizeof head, "POST /completion HTTP/1.1\r\nHost: l\r\nConnection: close\r\nContent-Length: %zu\r\n\r\n",
                 (size_t)n + padding + 2);
    char *filler = malloc(padding + 1);
    memset(filler, 'x', padding + 1);
    const int fd = dial(s);
    say(fd, head, (size_t)n_head);
    say(fd, body, (size_t)n);
    say(fd, filler, padding);
    say(fd, "\"}", 2);
    free(filler);
    return fd;
}

static int ask(const struct server *s, int n_predict, bool stream, size_t padding)
{
    return ask_model(s, "", n_predict, stream, padding);
}

static int count(const char *text, const char *what)
{
    int n = 0;
    for (const char *p = text; (p = strstr(p, what)) != NULL; p++)
        n++;
    return n;
}

static void answers_whole_and_streamed(void **state)
{
    static char reply[REPLY_MAX];
    struct fixture f = {0};
    (void)state;
    start(&f);
    for (int i = 0; i < 4; i++) {
        const int fd = ask(f.server, 6, i % 2 == 1, i / 2 * 40000u);
        hear(fd, reply);
        close(fd);
        assert_int_equal(strncmp(reply, "HTTP/1.1 200", 12), 0);
        assert_int_equal(count(reply, "\"tokens_predicted\":6"), 1);
    }
    server_free(f.server);
}

struct client {
    struct server *server;
    const char *const *name; /* of the models to ask, n_name; NULL: the only one */
    int n_name;
    unsigned seed;
    int n_whole, n_told;
};

static void leave(int fd, unsigned how)
{
    const struct linger at_once = {.l_onoff = 1};
    if (how % 3 == 0)
        shutdown(fd, SHUT_WR);
    else if (how % 3 == 1)
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close(fd);
}

/* Some answers are read, some clients leave sooner or later. */
static void *run_client(void *context)
{
    struct client *c = context;
    char *reply = malloc(REPLY_MAX);
    for (int i = 0; i < N_ROUND; i++) {
        const unsigned r = (unsigned)rand_r(&c->seed);
        const char *name = c->n_name > 0 ? c->name[r / 4096 % (unsigned)c->n_name] : "";
        const int fd = ask_model(c->server, name, (int)(r % 20) + 1, r / 32 % 2 == 0, r / 64 % 4 == 0 ? 20000 : 0);
        if (r / 256 % 3 == 0) {
            usleep(r % 3000);
            leave(fd, r / 1024);
            continue;
        }
        c->n_whole++;
        hear(fd, reply);
        c->n_told += strstr(reply, "\"tokens_predicted\"") != NULL;
        close(fd);
    }
    free(reply);
    return NULL;
}

static void run_clients(struct server *s, const char *const *name, int n_name, struct client client[N_CLIENT],
                        pthread_t thread[N_CLIENT])
{
    for (int i = 0; i < N_CLIENT; i++) {
        client[i] = (struct client){.server = s, .name = name, .n_name = n_name, .seed = (unsigned)i + 1};
        assert_int_equal(pthread_create(&thread[i], NULL, run_client, &client[i]), 0);
    }
}

static void who_stays_gets_an_answer_whoever_leaves(void **state)
{
    struct fixture f = {0};
    struct client client[N_CLIENT];
    pthread_t thread[N_CLIENT];
    (void)state;
    start(&f);
    run_clients(f.server, NULL, 0, client, thread);
    for (int i = 0; i < N_CLIENT; i++) {
        pthread_join(thread[i], NULL);
        assert_int_equal(client[i].n_told, client[i].n_whole);
    }
    server_free(f.server);
}

/* Three models, two of which may be loaded: each is loaded and unloaded while others are asked. */
static void models_come_and_go_under_requests(void **state)
{
    static const char *const name[] = {"tiny", "b", "c"};
    char b[64], c[64];
    const char *const models[] = {b, c};
    struct fixture f = {0};
    struct client client[N_CLIENT];
    pthread_t thread[N_CLIENT];
    (void)state;
    snprintf(b, sizeof b, "b=%s", model_path);
    snprintf(c, sizeof c, "c=%s", model_path);
    start_with(&f, models, 2);
    run_clients(f.server, name, 3, client, thread);
    for (int i = 0; i < N_CLIENT; i++) {
        pthread_join(thread[i], NULL);
        assert_int_equal(client[i].n_told, client[i].n_whole);
    }
    const int fd = ask_model(f.server, "b", 200, true, 0), other = ask_model(f.server, "c", 200, true, 20000);
    server_free(f.server);
    close(fd);
    close(other);
}

static bool go_on(void *context)
{
    (void)context;
    return true;
}

static void a_drain_ends_what_runs(void **state)
{
    static char reply[REPLY_MAX];
    struct fixture f = {0};
    (void)state;
    start(&f);
    const int fd = ask(f.server, 60, false, 0);
    usleep(20000);
    server_drain(f.server, go_on, NULL);
    const int late = ask(f.server, 1, false, 0);
    hear(late, reply);
    close(late);
    assert_int_equal(strncmp(reply, "HTTP/1.1 503", 12), 0);
    server_free(f.server);
    hear(fd, reply);
    close(fd);
    assert_int_equal(strncmp(reply, "HTTP/1.1 ", 9), 0);
}

/* Clients that come while it ends are refused, or find nobody. */
static void *knock(void *context)
{
    struct client *c = context;
    char *reply = malloc(REPLY_MAX);
    for (int i = 0; i < N_ROUND; i++) {
        const int fd = ask(c->server, 200, i % 2 == 0, i % 3 == 0 ? 20000 : 0);
        usleep(500);
        if (i % 4 == 0)
            hear(fd, reply);
        close(fd);
    }
    free(reply);
    return NULL;
}

static void the_server_ends_in_the_midst_of_it(void **state)
{
    (void)state;
    for (int round = 0; round < 3; round++) {
        struct fixture f = {0};
        int fd[N_CLIENT];
        start(&f);
        struct client c = {.server = f.server};
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, knock, &c), 0);
        for (int i = 0; i < N_CLIENT; i++)
            fd[i] = ask(f.server, 200, i % 2 == 0, i % 4 == 0 ? 30000 : 0);
        pthread_join(thread, NULL);
        server_free(f.server);
        for (int i = 0; i < N_CLIENT; i++)
            close(fd[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_whole_and_streamed),         cmocka_unit_test(who_stays_gets_an_answer_whoever_leaves),
        cmocka_unit_test(models_come_and_go_under_requests),  cmocka_unit_test(a_drain_ends_what_runs),
        cmocka_unit_test(the_server_ends_in_the_midst_of_it),
    };
    write_model(model_path, TEST_SOURCE_DIR "/golden/data/tiny_llama3_q8_0.gguf");
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(model_path);
    return failed;
}
