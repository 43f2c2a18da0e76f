/* listening.c - reads /proc/net/tcp and tcp6; then whose a socket is, from the descriptors of all processes. */
#include "agent/core/listening.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/compiler.h"
#include "base/str.h"

enum { TEXT_MAX = 256 * 1024, LOOKS_MAX = 4096, STATE_LISTEN = 0x0A };

/* "0100007F": words as they lie in memory. */
static void read_address(const char *hex, struct listening *l)
{
    uint32_t words[4] = {0};
    size_t count = strlen(hex) / 8;

    for (size_t i = 0; i < MIN_OF(count, ARRAY_LEN(words)); i++) {
        char word[9];

        if (str_copy_n(word, sizeof(word), hex + 8 * i, 8))
            words[i] = (uint32_t) strtoul(word, NULL, 16);
    }
    if (inet_ntop(count == 4 ? AF_INET6 : AF_INET, words, l->address, sizeof(l->address)) == NULL)
        l->address[0] = '\0';
}

static size_t read_list(const char *path, struct listening *ret, size_t max)
{
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    FILE *file = fd >= 0 ? fdopen(fd, "re") : NULL;
    char line[512];
    size_t seen = 0;
    size_t count = 0;

    if (file == NULL)
        return 0;
    (void) TAKE_FD(fd); /* the stream owns it now */
    while (count < max && seen < TEXT_MAX && fgets(line, sizeof(line), file) != NULL) {
        char address[33];
        unsigned port;
        unsigned state;
        unsigned long long inode;

        seen += strlen(line);
        if (sscanf(line,
                   " %*[0-9]: %32[0-9A-Fa-f]:%4x %*[0-9A-Fa-f]:%*4x %2x %*s %*s %*s %*s %*s %llu",
                   address, &port, &state, &inode) != 4 ||
            state != STATE_LISTEN)
            continue;
        ret[count] = (struct listening){.port = (uint16_t) port, .inode = inode};
        read_address(address, &ret[count]);
        count++;
    }
    (void) fclose(file); /* only read */
    return count;
}

static int compare(const void *a, const void *b)
{
    const struct listening *x = a;
    const struct listening *y = b;

    if (x->port != y->port)
        return x->port < y->port ? -1 : 1;
    return strcmp(x->address, y->address);
}

size_t listening_find(struct listening *ret, size_t max)
{
    size_t count = read_list("/proc/net/tcp", ret, max);

    count += read_list("/proc/net/tcp6", ret + count, max - count);
    qsort(ret, count, sizeof(*ret), compare);
    return count;
}

static void read_command(pid_t pid, struct listening *l)
{
    char path[48];
    AUTO_CLOSE int fd = -1;
    ssize_t len;

    (void) snprintf(path, sizeof(path), "/proc/%d/comm", (int) pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    len = fd >= 0 ? read(fd, l->command, sizeof(l->command) - 1) : 0;
    l->command[len > 0 ? len : 0] = '\0';
    l->command[strcspn(l->command, "\n")] = '\0';
    for (char *c = l->command; *c != '\0'; c++)
        if (*c < ' ' || *c > '~')
            *c = '?'; /* a program chooses it: any bytes */
    l->pid = pid;
}

/* Looks at the descriptors of one process; returns how many it looked at. */
static size_t look_at(pid_t pid, struct listening *sockets, size_t count, size_t max)
{
    char path[48];
    size_t looks = 0;
    DIR *dir;

    (void) snprintf(path, sizeof(path), "/proc/%d/fd", (int) pid);
    dir = opendir(path);
    if (dir == NULL)
        return 1;
    for (struct dirent *e = readdir(dir); e != NULL && looks < max; e = readdir(dir)) {
        char target[64];
        unsigned long long inode;
        ssize_t len = readlinkat(dirfd(dir), e->d_name, target, sizeof(target) - 1);

        looks++;
        target[len > 0 ? len : 0] = '\0';
        if (sscanf(target, "socket:[%llu]", &inode) != 1)
            continue;
        for (size_t i = 0; i < count; i++)
            if (sockets[i].inode == inode && sockets[i].pid == 0)
                read_command(pid, &sockets[i]);
    }
    (void) closedir(dir);
    return looks;
}

void listening_find_owners(struct listening *sockets, size_t count)
{
    DIR *dir = count > 0 ? opendir("/proc") : NULL;
    size_t looks = 0;

    if (dir == NULL)
        return;
    for (struct dirent *e = readdir(dir); e != NULL && looks < LOOKS_MAX; e = readdir(dir)) {
        uint64_t pid;

        if (str_parse_u64(e->d_name, 1, INT32_MAX, &pid))
            looks += look_at((pid_t) pid, sockets, count, LOOKS_MAX - looks);
    }
    (void) closedir(dir);
}
