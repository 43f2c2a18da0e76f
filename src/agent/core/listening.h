/* listening.h - TCP sockets of the box that are listened on, as the kernel lists them. */
#ifndef AGENT_CORE_LISTENING_H
#define AGENT_CORE_LISTENING_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { LISTENING_ADDRESS = 46, LISTENING_COMMAND = 64, LISTENING_MAX = 1024 };

struct listening {
    uint16_t port;
    char address[LISTENING_ADDRESS];
    uint64_t inode; /* of the socket */
    pid_t pid;      /* 0: not known */
    char command[LISTENING_COMMAND];
};

/* The first `max`, by port; returns how many. Reads at most 256 KiB of each of the kernel's lists. */
size_t listening_find(struct listening *ret, size_t max);
/* Adds whose they are, as far as this process may see it and the look at all processes is not too long. */
void listening_find_owners(struct listening *sockets, size_t count);

#endif
