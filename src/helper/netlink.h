/* netlink.h - messages to the kernel's network, written one behind the other and sent together. */
#ifndef HELPER_NETLINK_H
#define HELPER_NETLINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { NETLINK_TEXT_MAX = 16384 };

struct netlink {
    int fd;
    uint32_t seq;   /* of the last message */
    size_t message; /* where it begins */
    size_t len;
    bool is_full;
    union {
        uint64_t align;
        uint8_t bytes[NETLINK_TEXT_MAX];
    } text;
};

/* A socket of this process's network namespace; -1: errno. */
int netlink_open(int protocol);
/* Empty, for this socket. */
void netlink_init(struct netlink *n, int fd);

/* A message of this type, with NLM_F_REQUEST and `flags`, and what all of its kind begin with. */
void netlink_begin(struct netlink *n, uint16_t type, uint16_t flags, const void *head, size_t len);
void netlink_put_raw(struct netlink *n, const void *data, size_t len);
void netlink_put(struct netlink *n, uint16_t type, const void *data, size_t len);
void netlink_put_str(struct netlink *n, uint16_t type, const char *text);
void netlink_put_u32(struct netlink *n, uint16_t type, uint32_t v);
/* Attributes within an attribute: what comes until netlink_close(), which gets what netlink_nest() has returned. */
size_t netlink_nest(struct netlink *n, uint16_t type);
void netlink_close(struct netlink *n, size_t nest);

/* Sends all. The kernel does it at once and answers with an error, or for the only message that has NLM_F_ACK. 0, or an
 * error number. */
int netlink_send(struct netlink *n);

#endif
