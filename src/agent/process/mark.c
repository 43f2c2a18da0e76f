/* mark.c - see mark.h. */
#include "agent/process/mark.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file.h"
#include "base/rand.h"

/* 2^32 agents with 2^30 processes each. */
#define MARK_MIN (1ULL << 62)
#define MARK_SHIFT 30

uint64_t mark_first(void)
{
    uint32_t agent;

    rand_secure(&agent, sizeof(agent));
    return MARK_MIN + ((uint64_t) agent << MARK_SHIFT);
}

void mark_set(uint64_t mark)
{
    const struct rlimit limit = {.rlim_cur = mark, .rlim_max = mark};

    if (mark != 0)
        (void) setrlimit(RLIMIT_RSS, &limit); /* without it fewer are found */
}

/* System calls, which change this thread alone: it is the one that asks. */
static bool set_real_ids(uid_t uid, gid_t gid)
{
    return syscall(SYS_setresgid, gid, -1, -1) == 0 && syscall(SYS_setresuid, uid, -1, -1) == 0;
}

/* For a kernel without the file. It answers who has the same real ids, or CAP_SYS_RESOURCE, which the agent does not have. So
 * it has the real ids of that process for a moment, in which the process may signal it; its effective ids, which
 * decide what it can be made to do, stay. */
static unsigned long long ask_limit(pid_t pid)
{
    uid_t own_uid = getuid();
    gid_t own_gid = getgid();
    struct rlimit limit = {0};
    struct stat st;
    char path[32];

    if (prlimit(pid, RLIMIT_RSS, NULL, &limit) == 0)
        return limit.rlim_cur;
    (void) snprintf(path, sizeof(path), "/proc/%d", (int) pid);
    if (errno != EPERM || geteuid() != 0 || stat(path, &st) != 0)
        return 0;
    if (!set_real_ids(st.st_uid, st.st_gid) || prlimit(pid, RLIMIT_RSS, NULL, &limit) != 0)
        limit.rlim_cur = 0;
    if (!set_real_ids(own_uid, own_gid))
        abort(); /* root can */
    return limit.rlim_cur;
}

static unsigned long long read_limit(pid_t pid)
{
    static const char line[] = "\nMax resident set";
    char path[32];
    char text[2048];
    const char *at;

    (void) snprintf(path, sizeof(path), "/proc/%d/limits", (int) pid);
    if (file_read_start(AT_FDCWD, path, text, sizeof(text)) <= 0)
        return errno == ENOENT ? ask_limit(pid) : 0;
    at = strstr(text, line);
    return at != NULL ? strtoull(at + strlen(line), NULL, 10) : 0; /* "unlimited" is 0 */
}

uint64_t mark_of(pid_t pid)
{
    unsigned long long mark = read_limit(pid);

    return mark >= MARK_MIN && mark != RLIM_INFINITY ? mark : 0;
}
