/* test_server_fault.c: an allocation that fails while a request is taken apart or made flat is told, and leaves nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "fault/failing_malloc.h"
#include "server/connections.h"
#include "server/exchange_state.h"
#include "server/id_map.h"

static enum mr_status fill_map(void *context)
{
    static int value;
    struct id_map m;
    bool ok = true;
    (void)context;
    id_map_init(&m);
    for (uint64_t id = 1; ok && id <= 200; id++)
        ok = id_map_add(&m, id, &value);
    const size_t n = m.n;
    for (uint64_t id = 1; id <= n; id++)
        assert_ptr_equal(id_map_find(&m, id), &value);
    id_map_release(&m);
    return ok ? MR_OK : MR_NO_MEMORY;
}

static enum mr_status keep_connections(void *context)
{
    enum {
        N = 3
    };
    struct connections *c = connections_create(1000, 1000);
    struct connection *k[N];
    bool ok = true;
    (void)context;
    if (c == NULL)
        return MR_NO_MEMORY;
    for (int i = 0; i < N; i++) {
        k[i] = connections_add(c, -1, 0);
        ok &= k[i] != NULL;
    }
    for (int i = 0; i < N; i++)
        connections_remove(c, k[i]);
    assert_int_equal(connections_all(c), 0);
    connections_free(c);
    return ok ? MR_OK : MR_NO_MEMORY;
}

static void resume(void *connection) { (void)connection; }

static const char *header(void *connection, const char *name)
{
    (void)connection;
    (void)name;
    return NULL;
}

/* A request to a path that does not matter, its reply and its headers. */
static enum mr_status reply_once(void *context)
{
    static const struct transport transport = {.resume = resume, .header = header};
    struct exchange *x = exchange_create(NULL, "/a%20path?with=query");
    (void)context;
    if (x == NULL)
        return MR_NO_MEMORY;
    x->transport = &transport;
    const int refused = x->refusal.http;
    exchange_choose_id(x);
    exchange_set_header(x, "x-own", "value");
    exchange_reply_json(x, 200, json_pack("{s:s}", "status", "ok"));
    const int http = x->http, n_header = x->n_header;
    assert_int_not_equal(http, 0); /* some reply there always is */
    exchange_drop(x);
    return refused == 0 && http == 200 && n_header == 1 ? MR_OK : MR_NO_MEMORY;
}

static void a_map_loses_nothing(void **state)
{
    (void)state;
    assert_true(check_every_allocation(fill_map, NULL) > 1);
}

static void connections_lose_nothing(void **state)
{
    (void)state;
    assert_true(check_every_allocation(keep_connections, NULL) > 1);
}

static void a_request_without_memory_gets_some_reply(void **state)
{
    (void)state;
    assert_true(check_every_allocation(reply_once, NULL) > 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_map_loses_nothing),
        cmocka_unit_test(connections_lose_nothing),
        cmocka_unit_test(a_request_without_memory_gets_some_reply),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
