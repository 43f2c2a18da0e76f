/* resolver_loop.c - one turn after another: whatever can be read is read. All memory is there from the beginning; a box
 * that asks for more than fits is answered with failures. */
#include "helper/resolver_loop.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/compiler.h"
#include "helper/egress_rules.h"
#include "helper/resolver_set.h"

#define ANSWER_MS 4000 /* that another server has */
#define CLIENT_MS 5000 /* between two bytes of a connection */
#define CHANGE_MS 1000 /* from the connection of a list to the list */
#define TURN_MAX 16    /* questions of one turn by UDP */
#define TTL_MAX_S 3600U
#define GRACE_S 60U     /* a program connects a moment after it has asked */
#define RATE 100U       /* questions to the other server in a second */
#define BURST 200U      /* and at once */
#define NOBODY SIZE_MAX /* no connection: by UDP */
#define FLAG_BYTES 2U   /* before each message by TCP */

struct asker {
    struct sockaddr_in from; /* by UDP */
    size_t client;           /* by TCP */
};

struct under_way {
    int fd; /* -1: free */
    uint16_t id;
    uint64_t deadline_ms;
    struct asker asker;
    struct dns_question question;
};

struct client {
    int fd; /* -1: free */
    uint64_t deadline_ms;
    bool is_waiting; /* for an answer: no other question is read */
    size_t len;
    uint8_t text[FLAG_BYTES + DNS_MESSAGE_MAX];
};

struct loop {
    const struct resolver_sockets *sockets;
    char *list;
    uint64_t now_ms;
    uint64_t tokens;    /* thousandths of a question */
    uint64_t filled_ms; /* when they were counted */
    struct under_way under_way[RESOLVER_UNDER_WAY_MAX];
    struct client clients[RESOLVER_CLIENTS_MAX];
};

static uint64_t now_ms(void)
{
    struct timespec t;

    (void) clock_gettime(CLOCK_MONOTONIC, &t); /* cannot fail for this clock */
    return (uint64_t) t.tv_sec * 1000 + (uint64_t) t.tv_nsec / 1000000;
}

static void end_client(struct client *c)
{
    (void) close(c->fd); /* the box's own affair */
    c->fd = -1;
}

/* --- answers --- */

static void send_answer(struct loop *l, const struct asker *a, const uint8_t *text, size_t len)
{
    uint8_t framed[FLAG_BYTES + DNS_MESSAGE_MAX];
    struct client *c;

    if (a->client == NOBODY) {
        /* Lost if there is no room: it asks again. */
        (void) sendto(l->sockets->udp, text, len, MSG_DONTWAIT | MSG_NOSIGNAL,
                      (const struct sockaddr *) &a->from, sizeof(a->from));
        return;
    }
    c = &l->clients[a->client];
    framed[0] = (uint8_t) (len >> 8);
    framed[1] = (uint8_t) len;
    memcpy(framed + FLAG_BYTES, text, len);
    c->is_waiting = false;
    c->deadline_ms = l->now_ms + CLIENT_MS;
    /* One that does not read what it has asked for has nothing more to ask. */
    if (send(c->fd, framed, len + FLAG_BYTES, MSG_DONTWAIT | MSG_NOSIGNAL) !=
        (ssize_t) (len + FLAG_BYTES))
        end_client(c);
}

static void answer(struct loop *l, const struct asker *a, const struct dns_question *q,
                   enum dns_code code)
{
    uint8_t text[DNS_MESSAGE_MAX];
    size_t none = 0;
    size_t len = dns_write_answer(q, code, NULL, &none, 0, text);

    send_answer(l, a, text, len);
}

/* Names must not lead where only networks lead: an owner of a name could point it there. */
static size_t keep_allowed(const struct loop *l, struct dns_addresses *found)
{
    size_t count = 0;

    for (size_t i = 0; i < found->count; i++)
        if (!egress_is_refused(found->list[i]) || egress_has_address(l->list, found->list[i]))
            found->list[count++] = found->list[i];
    return count;
}

/* Those of refused networks are allowed by the list's own, and the set does not count there. */
static void answer_found(struct loop *l, const struct under_way *u, struct dns_addresses *found)
{
    uint32_t ttl_s = MIN_OF(found->ttl_s, TTL_MAX_S);
    uint8_t text[DNS_MESSAGE_MAX];
    size_t count = keep_allowed(l, found);
    size_t len;

    if (count == 0 && found->count > 0) {
        answer(l, &u->asker, &u->question, DNS_REFUSED);
        return;
    }
    len = dns_write_answer(&u->question, DNS_OK, found->list, &count, ttl_s, text);
    if (count > 0 && !resolver_set_add(l->sockets->netlink, found->list, count, ttl_s + GRACE_S))
        answer(l, &u->asker, &u->question, DNS_FAILED);
    else
        send_answer(l, &u->asker, text, len);
}

static void end_question(struct under_way *u)
{
    (void) close(u->fd); /* only read */
    u->fd = -1;
}

static void fail_question(struct loop *l, struct under_way *u)
{
    answer(l, &u->asker, &u->question, DNS_FAILED);
    end_question(u);
}

static void read_upstream(struct loop *l, struct under_way *u)
{
    static uint8_t text[DNS_REPLY_MAX];
    struct dns_addresses found;
    ssize_t n = recv(u->fd, text, sizeof(text), MSG_DONTWAIT);

    if (n < 0) {
        if (errno != EAGAIN && errno != EINTR)
            fail_question(l, u); /* nobody serves there */
        return;
    }
    if (!dns_read_answer(text, (size_t) n, &u->question, u->id, &found))
        return; /* somebody else's: the right one may come */
    if (found.code == DNS_OK)
        answer_found(l, u, &found);
    else
        answer(l, &u->asker, &u->question, found.code == DNS_NO_NAME ? DNS_NO_NAME : DNS_FAILED);
    end_question(u);
}

/* --- questions --- */

static bool take_token(struct loop *l)
{
    l->tokens = MIN_OF(l->tokens + (l->now_ms - l->filled_ms) * RATE, BURST * 1000UL);
    l->filled_ms = l->now_ms;
    if (l->tokens < 1000)
        return false;
    l->tokens -= 1000;
    return true;
}

/* Each from a port of its own and with a number of its own, so that nobody can guess what to answer. */
static bool ask(struct loop *l, const struct asker *a, const struct dns_question *q)
{
    const struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons(DNS_PORT), .sin_addr = {htonl(EGRESS_UPSTREAM)}};
    struct under_way *u = l->under_way;
    uint8_t text[DNS_MESSAGE_MAX];
    size_t len;

    while (u < l->under_way + RESOLVER_UNDER_WAY_MAX && u->fd >= 0)
        u++;
    if (u == l->under_way + RESOLVER_UNDER_WAY_MAX || !take_token(l) ||
        getrandom(&u->id, sizeof(u->id), GRND_NONBLOCK) != sizeof(u->id))
        return false;
    u->fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (u->fd < 0)
        return false;
    len = dns_write_question(q, u->id, text);
    if (connect(u->fd, (const struct sockaddr *) &to, sizeof(to)) != 0 ||
        send(u->fd, text, len, MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t) len) {
        end_question(u);
        return false;
    }
    u->deadline_ms = l->now_ms + ANSWER_MS;
    u->asker = *a;
    u->question = *q;
    return true;
}

/* True: the answer comes later. */
static bool take_question(struct loop *l, const struct asker *a, const uint8_t *text, size_t len)
{
    struct dns_question q;
    enum dns_code code;

    if (!dns_read_question(text, len, &q, &code))
        return false;
    if (code == DNS_OK && !egress_has_name(l->list, q.name))
        code = DNS_NO_NAME;
    if (code == DNS_OK && q.type == DNS_A) {
        if (ask(l, a, &q))
            return true;
        code = DNS_FAILED;
    }
    answer(l, a, &q, code); /* what is no address of IPv4 is not there */
    return false;
}

static void read_udp(struct loop *l)
{
    for (unsigned i = 0; i < TURN_MAX; i++) {
        struct asker a = {.client = NOBODY};
        socklen_t from_len = sizeof(a.from);
        uint8_t text[DNS_MESSAGE_MAX];
        ssize_t n = recvfrom(l->sockets->udp, text, sizeof(text), MSG_DONTWAIT,
                             (struct sockaddr *) &a.from, &from_len);

        if (n < 0)
            return; /* none, or an error of an answer that nobody wanted */
        (void) take_question(l, &a, text, (size_t) n);
    }
}

/* --- connections --- */

static void accept_client(struct loop *l)
{
    int fd = accept4(l->sockets->tcp, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    for (size_t i = 0; fd >= 0 && i < RESOLVER_CLIENTS_MAX; i++) {
        struct client *c = &l->clients[i];

        if (c->fd >= 0)
            continue;
        c->fd = fd;
        c->len = 0;
        c->is_waiting = false;
        c->deadline_ms = l->now_ms + CLIENT_MS;
        return;
    }
    if (fd >= 0)
        (void) close(fd); /* there are enough of them */
}

static void read_client(struct loop *l, size_t i)
{
    struct client *c = &l->clients[i];
    const struct asker a = {.client = i};
    size_t want = FLAG_BYTES;
    ssize_t n;

    if (c->len >= FLAG_BYTES)
        want += (size_t) c->text[0] << 8 | c->text[1];
    if (want > sizeof(c->text)) {
        end_client(c);
        return;
    }
    n = recv(c->fd, c->text + c->len, want - c->len, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        end_client(c);
        return;
    }
    c->len += (size_t) n;
    if (c->len < want || want == FLAG_BYTES)
        return;
    c->len = 0;
    c->deadline_ms = l->now_ms + ANSWER_MS + CLIENT_MS;
    c->is_waiting = true;
    if (!take_question(l, &a, c->text + FLAG_BYTES, want - FLAG_BYTES) && c->is_waiting)
        end_client(c); /* that was no question */
}

/* An answer that comes later must not reach who has come meanwhile. */
static void forget_client(struct loop *l, size_t i)
{
    for (size_t k = 0; k < RESOLVER_UNDER_WAY_MAX; k++)
        if (l->under_way[k].fd >= 0 && l->under_way[k].asker.client == i)
            end_question(&l->under_way[k]);
}

/* --- another list --- */

static void take_change(struct loop *l)
{
    static char text[EGRESS_TEXT_MAX + 2];
    char why[EGRESS_WHY_MAX];
    int fd = accept4(l->sockets->changes, NULL, NULL, SOCK_CLOEXEC);
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    ssize_t n;

    if (fd < 0)
        return;
    n = poll(&wait, 1, CHANGE_MS) > 0 ? recv(fd, text, sizeof(text), MSG_DONTWAIT) : -1;
    if (n > 0 && (size_t) n <= EGRESS_TEXT_MAX + 1 && text[n - 1] == '\0' &&
        egress_check(text, why)) {
        for (size_t i = 0; i < RESOLVER_UNDER_WAY_MAX; i++)
            if (l->under_way[i].fd >= 0)
                fail_question(l, &l->under_way[i]);
        memcpy(l->list, text, (size_t) n);
        (void) send(fd, ".", 1, MSG_DONTWAIT | MSG_NOSIGNAL); /* who has gone does not wait */
    }
    (void) close(fd);
}

/* --- the loop --- */

enum { WAIT_UDP, WAIT_TCP, WAIT_CHANGES, WAIT_CLIENTS };
#define WAIT_UPSTREAM (WAIT_CLIENTS + RESOLVER_CLIENTS_MAX)
#define WAIT_END (WAIT_UPSTREAM + RESOLVER_UNDER_WAY_MAX)

static int fill(const struct loop *l, struct pollfd *fds)
{
    uint64_t deadline = l->now_ms + 60000;

    fds[WAIT_UDP].fd = l->sockets->udp;
    fds[WAIT_TCP].fd = l->sockets->tcp;
    fds[WAIT_CHANGES].fd = l->sockets->changes;
    for (size_t i = 0; i < RESOLVER_CLIENTS_MAX; i++) {
        const struct client *c = &l->clients[i];

        fds[WAIT_CLIENTS + i].fd = c->fd >= 0 && !c->is_waiting ? c->fd : -1;
        if (c->fd >= 0)
            deadline = MIN_OF(deadline, c->deadline_ms);
    }
    for (size_t i = 0; i < RESOLVER_UNDER_WAY_MAX; i++) {
        fds[WAIT_UPSTREAM + i].fd = l->under_way[i].fd;
        if (l->under_way[i].fd >= 0)
            deadline = MIN_OF(deadline, l->under_way[i].deadline_ms);
    }
    for (size_t i = 0; i < WAIT_END; i++)
        fds[i].events = POLLIN;
    return deadline > l->now_ms ? (int) (deadline - l->now_ms) : 0;
}

static void expire(struct loop *l)
{
    for (size_t i = 0; i < RESOLVER_UNDER_WAY_MAX; i++)
        if (l->under_way[i].fd >= 0 && l->under_way[i].deadline_ms <= l->now_ms)
            fail_question(l, &l->under_way[i]);
    for (size_t i = 0; i < RESOLVER_CLIENTS_MAX; i++)
        if (l->clients[i].fd >= 0 && l->clients[i].deadline_ms <= l->now_ms)
            end_client(&l->clients[i]);
    for (size_t i = 0; i < RESOLVER_CLIENTS_MAX; i++)
        if (l->clients[i].fd < 0)
            forget_client(l, i);
}

static void serve(struct loop *l, const struct pollfd *fds)
{
    for (size_t i = 0; i < RESOLVER_UNDER_WAY_MAX; i++)
        if (fds[WAIT_UPSTREAM + i].revents != 0 && l->under_way[i].fd >= 0)
            read_upstream(l, &l->under_way[i]);
    for (size_t i = 0; i < RESOLVER_CLIENTS_MAX; i++)
        if (fds[WAIT_CLIENTS + i].revents != 0 && l->clients[i].fd >= 0)
            read_client(l, i);
    if (fds[WAIT_CHANGES].revents != 0)
        take_change(l);
    expire(l); /* before a new connection takes the place of one that has ended */
    if (fds[WAIT_UDP].revents != 0)
        read_udp(l);
    if (fds[WAIT_TCP].revents != 0)
        accept_client(l);
}

void resolver_loop_run(const struct resolver_sockets *s, char list[EGRESS_TEXT_MAX + 1])
{
    static struct loop l; /* large, and most of it is never touched */
    struct pollfd fds[WAIT_END] = {0};

    l.sockets = s;
    l.list = list;
    l.now_ms = l.filled_ms = now_ms();
    l.tokens = BURST * 1000UL;
    for (size_t i = 0; i < RESOLVER_UNDER_WAY_MAX; i++)
        l.under_way[i].fd = -1;
    for (size_t i = 0; i < RESOLVER_CLIENTS_MAX; i++)
        l.clients[i].fd = -1;
    for (;;) {
        int n = poll(fds, WAIT_END, fill(&l, fds));

        l.now_ms = now_ms();
        if (n < 0 && errno != EINTR)
            return;
        if (n <= 0)
            memset(fds, 0, sizeof(fds));
        serve(&l, fds);
    }
}
