/* descriptors.c - closes by close_range(2), else by the list in /proc. That list is read without
 * the C library, because a process that shares the agent's memory must not allocate. */
#include "agent/core/descriptors.h"

#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/str.h"

/* As getdents64(2) gives it. */
struct entry {
    uint64_t inode;
    int64_t next;
    uint16_t len;
    uint8_t type;
    char name[];
};

/* Returns how many of these were closed. */
static unsigned close_listed(const char *list, size_t len, int first, int own)
{
    unsigned count = 0;

    for (size_t at = 0; at < len;) {
        const struct entry *e = (const void *) (list + at);
        uint64_t fd;

        if (str_parse_u64(e->name, (uint64_t) first, INT32_MAX, &fd) && (int) fd != own &&
            close((int) fd) == 0)
            count++;
        at += e->len;
    }
    return count;
}

bool descriptors_close_from(int first)
{
    _Alignas(struct entry) char list[4096];
    unsigned closed = 1;
    int dir;

    if (close_range((unsigned) first, ~0U, 0) == 0)
        return true;
    dir = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return false;
    while (closed > 0) { /* until a complete pass finds none: closing changes the list */
        long n;

        closed = 0;
        (void) lseek(dir, 0, SEEK_SET);
        while ((n = syscall(SYS_getdents64, dir, list, sizeof(list))) > 0)
            closed += close_listed(list, (size_t) n, first, dir);
    }
    (void) close(dir);
    return true;
}
