/* netlink.c - messages to the kernel's network. */
#include "helper/netlink.h"

#include <errno.h>
#include <linux/netlink.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int netlink_open(int protocol)
{
    const struct sockaddr_nl own = {.nl_family = AF_NETLINK};
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol);

    if (fd >= 0 && bind(fd, (const struct sockaddr *) &own, sizeof(own)) != 0) {
        (void) close(fd); /* nobody has used it */
        return -1;
    }
    return fd;
}

void netlink_init(struct netlink *n, int fd)
{
    n->fd = fd;
    n->seq = 0;
    n->len = 0;
    n->message = 0;
    n->is_full = false;
}

/* Zeroed room, in whole words. */
static void *take(struct netlink *n, size_t len)
{
    uint8_t *at = n->text.bytes + n->len;

    if (NLMSG_ALIGN(len) > sizeof(n->text.bytes) - n->len) {
        n->is_full = true;
        return NULL;
    }
    memset(at, 0, NLMSG_ALIGN(len));
    n->len += NLMSG_ALIGN(len);
    return at;
}

/* What was added belongs to the message that was begun last. */
static void grow(struct netlink *n)
{
    struct nlmsghdr *h = (struct nlmsghdr *) (void *) (n->text.bytes + n->message);

    h->nlmsg_len = (uint32_t) (n->len - n->message);
}

void netlink_begin(struct netlink *n, uint16_t type, uint16_t flags, const void *head, size_t len)
{
    size_t start = n->len;
    struct nlmsghdr *h = take(n, (size_t) NLMSG_HDRLEN + len);

    if (h == NULL)
        return;
    n->message = start;
    h->nlmsg_type = type;
    h->nlmsg_flags = (uint16_t) (NLM_F_REQUEST | flags);
    h->nlmsg_seq = ++n->seq;
    memcpy(NLMSG_DATA(h), head, len);
    grow(n);
}

void netlink_put_raw(struct netlink *n, const void *data, size_t len)
{
    void *at = take(n, len);

    if (at == NULL)
        return;
    memcpy(at, data, len);
    grow(n);
}

void netlink_put(struct netlink *n, uint16_t type, const void *data, size_t len)
{
    struct nlattr *a = take(n, sizeof(struct nlattr) + len);

    if (a == NULL)
        return;
    a->nla_type = type;
    a->nla_len = (uint16_t) (sizeof(struct nlattr) + len);
    if (len > 0)
        memcpy(a + 1, data, len);
    grow(n);
}

void netlink_put_str(struct netlink *n, uint16_t type, const char *text)
{
    netlink_put(n, type, text, strlen(text) + 1);
}

void netlink_put_u32(struct netlink *n, uint16_t type, uint32_t v)
{
    netlink_put(n, type, &v, sizeof(v));
}

size_t netlink_nest(struct netlink *n, uint16_t type)
{
    size_t at = n->len;

    netlink_put(n, (uint16_t) (type | NLA_F_NESTED), NULL, 0);
    return at;
}

void netlink_close(struct netlink *n, size_t nest)
{
    struct nlattr *a = (struct nlattr *) (void *) (n->text.bytes + nest);

    if (!n->is_full)
        a->nla_len = (uint16_t) (n->len - nest);
}

/* What was left of answers that nobody needed to read to the end. */
static void drain(const struct netlink *n)
{
    uint8_t byte;

    while (recvfrom(n->fd, &byte, sizeof(byte), MSG_DONTWAIT, NULL, NULL) >= 0)
        ;
}

/* The answer is there when sendto() has returned: an error of one of the messages, or the acknowledgement. */
static int read_answer(const struct netlink *n)
{
    union {
        struct nlmsghdr head;
        uint8_t bytes[4096]; /* the rest of an error, which repeats the message, is cut off */
    } u;
    const struct nlmsgerr *e = NLMSG_DATA(&u.head);
    ssize_t got = recvfrom(n->fd, &u, sizeof(u), MSG_DONTWAIT, NULL, NULL);

    if (got < 0)
        return errno;
    if ((size_t) got < NLMSG_LENGTH(sizeof(*e)) || u.head.nlmsg_type != NLMSG_ERROR)
        return EPROTO;
    return -e->error;
}

int netlink_send(struct netlink *n)
{
    if (n->is_full)
        return EMSGSIZE;
    drain(n);
    if (sendto(n->fd, n->text.bytes, n->len, 0, NULL, 0) != (ssize_t) n->len)
        return errno;
    return read_answer(n);
}
