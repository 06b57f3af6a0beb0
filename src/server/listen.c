/* listen.c: address, socket and descriptors. */
#include "server/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "server/settings.h"

enum {
    BACKLOG = 1024,
    OTHER_DESCRIPTORS = 64 /* files, queues, threads' */
};

static bool is_loopback(const struct sockaddr *a)
{
    if (a->sa_family == AF_INET)
        return (ntohl(((const struct sockaddr_in *)(const void *)a)->sin_addr.s_addr) >> 24) == 127;
    return a->sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)(const void *)a)->sin6_addr);
}

static bool has_key(const struct server_settings *s) { return s->n_api_key > 0 || s->api_keys_file != NULL; }

static int bound_port(int fd)
{
    struct sockaddr_storage a;
    socklen_t n = sizeof a;
    if (getsockname(fd, (struct sockaddr *)&a, &n) != 0)
        return 0;
    return ntohs(a.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&a)->sin6_port : ((struct sockaddr_in *)&a)->sin_port);
}

static enum mr_status open_at(int *fd, const struct addrinfo *a, const struct server_settings *s, struct mr_error *err)
{
    static const int on = 1;
    if (!is_loopback(a->ai_addr) && !has_key(s) && !s->insecure)
        return mr_fail(err, MR_BAD_INPUT, "host %s is reachable from other machines, so an API key is needed (or insecure)",
                       s->host);
    *fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (*fd >= 0 && setsockopt(*fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
        bind(*fd, a->ai_addr, a->ai_addrlen) == 0 && listen(*fd, BACKLOG) == 0)
        return MR_OK;
    mr_fail(err, MR_IO, "cannot listen on host %s, port %d: %s", s->host, s->port, strerror(errno));
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
    return MR_IO;
}

enum mr_status listen_open(int *fd, int *port, const struct server_settings *s, struct mr_error *err)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    char service[16];
    *fd = -1;
    snprintf(service, sizeof service, "%d", s->port);
    const int failure = getaddrinfo(s->host, service, &hints, &found);
    if (failure != 0)
        return mr_fail(err, MR_BAD_INPUT, "host '%s': %s", s->host, gai_strerror(failure));
    const enum mr_status status = open_at(fd, found, s, err);
    freeaddrinfo(found);
    *port = status == MR_OK ? bound_port(*fd) : 0;
    return status;
}

int listen_raise_limit(int n)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return n;
    const rlim_t need = (rlim_t)n + OTHER_DESCRIPTORS;
    if (limit.rlim_cur < need) {
        limit.rlim_cur = limit.rlim_max == RLIM_INFINITY || need < limit.rlim_max ? need : limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
        getrlimit(RLIMIT_NOFILE, &limit);
    }
    return limit.rlim_cur >= need ? n : (int)limit.rlim_cur - OTHER_DESCRIPTORS;
}
