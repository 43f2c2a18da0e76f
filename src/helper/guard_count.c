/* guard_count.c - the kernel counts all sockets of a network namespace in one number, and the Unix sockets among
 * them in another; the two are read one after the other. What could change meanwhile to a box's advantage is known:
 * every call that makes a socket, of whatever kind, was asked for. */
#include "helper/guard_count.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/file.h"

#define REPORT_MAX 16384 /* of the kernel's lists; less than 100 for each protocol */

bool guard_count_open(struct guard_count *c, uint64_t limit)
{
    c->limit = limit;
    c->used = open("/proc/self/net/sockstat", O_RDONLY | O_CLOEXEC);
    c->protocols = open("/proc/self/net/protocols", O_RDONLY | O_CLOEXEC);
    c->opens = open("/proc/self/net/snmp", O_RDONLY | O_CLOEXEC);
    c->connections[0] = open("/proc/self/net/tcp", O_RDONLY | O_CLOEXEC);
    c->connections[1] = open("/proc/self/net/tcp6", O_RDONLY | O_CLOEXEC); /* not everywhere */
    return c->used >= 0 && c->protocols >= 0 && c->opens >= 0 && c->connections[0] >= 0;
}

/* --- calls under way --- */

static void forget(struct guard_count *c, size_t i)
{
    c->sockets -= c->under_way[i].sockets;
    c->under_way[i] = c->under_way[--c->count];
}

static void forget_thread(struct guard_count *c, int thread)
{
    for (size_t i = 0; i < c->count; i++) {
        if (c->under_way[i].thread == thread) {
            forget(c, i);
            return; /* each thread is in one call */
        }
    }
}

/* A thread that was let go on runs, or waits for memory or a lock ("D"), until it has made its socket. One that
 * sleeps otherwise, or is stopped, has come further: it waits for the other end, or for something else. */
static bool has_ended(int thread)
{
    char path[32];
    char text[128];
    const char *at;

    (void) snprintf(path, sizeof(path), "/proc/%d/stat", thread);
    if (file_read_start(AT_FDCWD, path, text, sizeof(text)) <= 0) /* not shown to us, or gone */
        return kill(thread, 0) != 0 && errno == ESRCH;
    at = strrchr(text, ')'); /* the name before it may hold anything */
    return at != NULL && at[1] == ' ' && at[2] != '\0' && strchr("STtZX", at[2]) != NULL;
}

static void forget_ended(struct guard_count *c)
{
    for (size_t i = c->count; i-- > 0;)
        if (has_ended(c->under_way[i].thread))
            forget(c, i);
}

/* --- what the kernel counts --- */

/* A text of the kernel's; "" if it cannot be had. */
static void read_report(int fd, char text[REPORT_MAX])
{
    ssize_t n = pread(fd, text, REPORT_MAX - 1, 0);

    text[n > 0 ? n : 0] = '\0';
}

/* Those that nobody has accepted yet and those that were closed and still send included. */
static uint64_t count_used(const struct guard_count *c)
{
    static const char words[] = "sockets: used ";
    char text[REPORT_MAX];

    read_report(c->used, text);
    if (strncmp(text, words, sizeof(words) - 1) != 0)
        return UINT32_MAX;
    return strtoull(text + sizeof(words) - 1, NULL, 10);
}

/* Unix sockets, whose memory is charged to the box: "UNIX-STREAM 1024 12 ...", size and number. */
static uint64_t count_unix(const struct guard_count *c)
{
    char text[REPORT_MAX];
    uint64_t count = 0;

    read_report(c->protocols, text);
    for (char *line = text; line != NULL; line = strchr(line, '\n')) {
        unsigned long size;
        unsigned long number;

        line += *line == '\n';
        if (strncmp(line, "UNIX", 4) == 0 && sscanf(line, "%*[A-Z-] %lu %lu", &size, &number) == 2)
            count += number;
    }
    return count;
}

/* Where a list of connections is read: the fourth word of a line is the state, in hex. */
struct at_word {
    unsigned word;
    bool is_inside;
    char before; /* the first digit */
};

static uint64_t count_in(struct at_word *w, const char *text, size_t len)
{
    uint64_t count = 0;

    for (size_t i = 0; i < len; i++) {
        char ch = text[i];

        if (ch == '\n') {
            *w = (struct at_word){0};
        } else if (ch == ' ') {
            w->is_inside = false;
        } else {
            /* 02: it asks for a connection; 03: it was asked. Either can become one more socket. */
            count += w->is_inside && w->word == 4 && w->before == '0' && (ch == '2' || ch == '3');
            w->before = w->is_inside ? '-' : ch;
            w->word += !w->is_inside;
            w->is_inside = true;
        }
    }
    return count;
}

/* The kernel walks through all connections of the machine for this: milliseconds. */
static uint64_t list_half_open(const struct guard_count *c)
{
    char text[REPORT_MAX];
    uint64_t count = 0;

    for (size_t i = 0; i < ARRAY_LEN(c->connections); i++) {
        struct at_word w = {0};
        off_t at = 0;
        ssize_t n;

        while (c->connections[i] >= 0 &&
               (n = pread(c->connections[i], text, sizeof(text), at)) > 0) {
            count += count_in(&w, text, (size_t) n);
            at += n;
        }
    }
    return count;
}

struct opens {
    unsigned long long active;  /* connections that were asked for, ever */
    unsigned long long passive; /* other ends of such that became sockets */
};

/* "Tcp: " and names, then "Tcp: " and numbers. */
static struct opens read_opens(const struct guard_count *c)
{
    struct opens o = {0, 0};
    char text[REPORT_MAX];
    const char *names;
    const char *numbers;

    read_report(c->opens, text);
    names = strstr(text, "\nTcp: ");
    numbers = names != NULL ? strstr(names + 1, "\nTcp: ") : NULL;
    if (numbers == NULL ||
        sscanf(numbers, "\nTcp: %*s %*s %*s %*s %llu %llu", &o.active, &o.passive) != 2)
        o = (struct opens){UINT32_MAX, 0};
    return o;
}

/* Connections whose other end may still come, or more: each was asked for, and leaves when the end has come. It
 * grows by those to other machines and those that failed, which only the list shows. */
static uint64_t count_half_open(const struct guard_count *c)
{
    struct opens o = read_opens(c);
    uint64_t in = c->half_open + (o.active - c->active);
    uint64_t out = o.passive - c->passive;

    return in > out ? in - out : 0;
}

/* What is asked for meanwhile counts, also when the list has it; an end that comes meanwhile may be in the list and
 * does not count as having left it. */
static void look_at_half_open(struct guard_count *c)
{
    c->active = read_opens(c).active;
    c->half_open = list_half_open(c);
    c->passive = read_opens(c).passive;
}

/* --- the verdict --- */

enum care { QUICK, EXACT, THOROUGH };

/* How many more there may be. In this order: what is forgotten here is a socket already, so the kernel's number
 * has it; what becomes a socket after it was seen here is counted twice. */
static uint64_t count_room(struct guard_count *c, enum care care)
{
    uint64_t taken;

    if (care != QUICK)
        forget_ended(c);
    if (care == THOROUGH)
        look_at_half_open(c);
    taken = count_half_open(c) + c->sockets;
    taken += count_used(c);
    /* Unix sockets that come between the two are of calls under way. */
    if (care != QUICK)
        taken -= MIN_OF(taken, count_unix(c));
    return taken < c->limit ? c->limit - taken : 0;
}

static bool take_room(struct guard_count *c)
{
    for (int care = QUICK; c->room == 0 && care <= THOROUGH; care++)
        if (care != THOROUGH || count_half_open(c) > 0)
            c->room = count_room(c, (enum care) care);
    if (c->room == 0)
        return false;
    c->room--;
    return true;
}

bool guard_count_let(struct guard_count *c, int thread, enum guard_call call)
{
    bool is_unix = call == GUARD_UNIX || call == GUARD_UNIX_PAIR;
    unsigned sockets = call == GUARD_UNIX_PAIR ? 2 : 1;

    forget_thread(c, thread);
    if (c->count == GUARD_UNDER_WAY_MAX)
        forget_ended(c);
    if (c->count == GUARD_UNDER_WAY_MAX || (!is_unix && !take_room(c)))
        return false;
    c->under_way[c->count++] = (struct guard_under_way){thread, sockets};
    c->sockets += sockets;
    return true;
}

void guard_count_undo(struct guard_count *c, int thread)
{
    forget_thread(c, thread);
}

bool guard_count_add(struct guard_count *c)
{
    return c->limit == 0 || take_room(c);
}
