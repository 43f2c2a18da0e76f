/* fake_names.c - see fake_names.h. libuv calls these instead of the C library's. */
#include "tests/unit/loop/fake_names.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

atomic_uint fake_lookups;
atomic_uint fake_moved;
sem_t fake_stuck;

static struct addrinfo *make_addr(const char *text, struct addrinfo *next)
{
    struct addrinfo *ai = calloc(1, sizeof(*ai) + sizeof(struct sockaddr_in6));
    struct sockaddr_in *four;
    struct sockaddr_in6 *six;

    if (ai == NULL)
        abort();
    ai->ai_addr = (struct sockaddr *) (void *) (ai + 1);
    four = (struct sockaddr_in *) (void *) ai->ai_addr;
    six = (struct sockaddr_in6 *) (void *) ai->ai_addr;
    ai->ai_next = next;
    ai->ai_socktype = SOCK_STREAM;
    ai->ai_family = strchr(text, ':') != NULL ? AF_INET6 : AF_INET;
    ai->ai_addr->sa_family = (sa_family_t) ai->ai_family;
    ai->ai_addrlen = ai->ai_family == AF_INET6 ? sizeof(*six) : sizeof(*four);
    if (inet_pton(ai->ai_family, text,
                  ai->ai_family == AF_INET6 ? (void *) &six->sin6_addr
                                            : (void *) &four->sin_addr) != 1)
        abort();
    return ai;
}

/* On a thread of the loop's. */
int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
                struct addrinfo **ret)
{
    (void) service;
    (void) hints;
    atomic_fetch_add(&fake_lookups, 1);
    *ret = NULL;
    if (strcmp(node, "one.test") == 0 || strcmp(node, "uno.test") == 0)
        *ret = make_addr("127.0.0.1", NULL);
    else if (strcmp(node, "moves.test") == 0)
        *ret = make_addr(atomic_load(&fake_moved) == 0 ? "127.0.0.1" : "127.0.0.2", NULL);
    else if (strcmp(node, "many.test") == 0) /* only the last one listens */
        *ret = make_addr(
            "::1", make_addr("127.0.0.3", make_addr("127.0.0.4", make_addr("127.0.0.1", NULL))));
    else if (strcmp(node, "refused.test") == 0)
        *ret = make_addr("127.0.0.5", make_addr("::1", NULL));
    else if (strcmp(node, "stuck.test") == 0)
        (void) sem_wait(&fake_stuck);
    return *ret != NULL ? 0 : EAI_NONAME;
}

void freeaddrinfo(struct addrinfo *ai)
{
    while (ai != NULL) {
        struct addrinfo *next = ai->ai_next;

        free(ai);
        ai = next;
    }
}
