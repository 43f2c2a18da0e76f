/* identity.c - finds users of the box, and switches to one of them. The files are read here because
 * a static program cannot load the C library's lookup modules. */
#include "agent/core/identity.h"

#include <errno.h>
#include <grp.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/core/plain.h"
#include "base/str.h"

enum { LINE_LEN = 4096, FALLBACK_ID = 1000 };
static const char fallback_name[] = "user";

/* Splits the line at its colons; returns the number of fields. */
static size_t split(char *line, char **fields, size_t max)
{
    size_t count = 0;

    line[strcspn(line, "\r\n")] = '\0';
    while (line != NULL && count < max) {
        fields[count++] = line;
        line = strchr(line, ':');
        if (line != NULL)
            *line++ = '\0';
    }
    return count;
}

static FILE *open_in(const char *dir, const char *name)
{
    char path[512];
    int fd;
    FILE *file;

    if ((size_t) snprintf(path, sizeof(path), "%s/%s", dir, name) >= sizeof(path))
        return NULL;
    fd = plain_open_file(AT_FDCWD, path, O_RDONLY, 0, NULL); /* the box's root may have made it */
    file = fd >= 0 ? fdopen(fd, "r") : NULL;
    if (file == NULL && fd >= 0)
        (void) close(fd);
    return file;
}

/* The next complete line; the rest of a longer one is skipped. */
static bool next_line(FILE *file, char *line)
{
    while (fgets(line, LINE_LEN, file) != NULL) {
        bool is_whole = strchr(line, '\n') != NULL || feof(file);

        while (strchr(line, '\n') == NULL && !feof(file))
            if (fgets(line, LINE_LEN, file) == NULL)
                return false;
        if (is_whole)
            return true;
    }
    return false;
}

static bool parse_id(const char *text, uint32_t *ret)
{
    uint64_t n;

    if (!str_parse_u64(text, 0, UINT32_MAX - 1, &n))
        return false;
    *ret = (uint32_t) n;
    return true;
}

/* The first line with this name, or with this uid where `name` is NULL. */
static bool find_user(const char *dir, const char *name, uid_t uid, struct identity *ret)
{
    FILE *file = open_in(dir, "passwd");
    char line[LINE_LEN];
    bool is_found = false;

    while (file != NULL && !is_found && next_line(file, line)) {
        char *f[7];

        if (split(line, f, 7) < 6 || !parse_id(f[2], &ret->uid) || !parse_id(f[3], &ret->gid))
            continue;
        if (name != NULL ? strcmp(f[0], name) != 0 : ret->uid != uid)
            continue;
        if (!str_copy(ret->name, sizeof(ret->name), f[0]))
            continue;
        if (f[5][0] != '/' || !str_copy(ret->home, sizeof(ret->home), f[5]))
            str_copy_cut(ret->home, sizeof(ret->home), "/");
        is_found = true;
    }
    if (file != NULL)
        (void) fclose(file); /* only read */
    return is_found;
}

static bool has_member(const char *members, const char *name)
{
    size_t len = strlen(name);

    while (*members != '\0') {
        size_t n = strcspn(members, ",");

        if (n == len && strncmp(members, name, n) == 0)
            return true;
        members += n;
        members += *members == ',';
    }
    return false;
}

static void add_group(struct identity *id, gid_t gid)
{
    for (size_t i = 0; i < id->group_count; i++)
        if (id->groups[i] == gid)
            return;
    if (id->group_count < IDENTITY_GROUPS_MAX)
        id->groups[id->group_count++] = gid;
}

static void find_groups(const char *dir, struct identity *id)
{
    FILE *file = open_in(dir, "group");
    char line[LINE_LEN];

    id->group_count = 0;
    add_group(id, id->gid);
    while (file != NULL && next_line(file, line)) {
        char *f[4];
        gid_t gid;

        if (split(line, f, 4) == 4 && parse_id(f[2], &gid) && has_member(f[3], id->name))
            add_group(id, gid);
    }
    if (file != NULL)
        (void) fclose(file); /* only read */
}

int identity_find_in(const char *dir, const char *name, struct identity *ret, struct err *err)
{
    memset(ret, 0, sizeof(*ret));
    if (!str_is_name(name, IDENTITY_NAME_MAX - 1, "-_.$"))
        return err_set(err, SP_INVALID_FIELD, "this is not a valid user name");
    if (!find_user(dir, name, 0, ret)) {
        if (strcmp(name, fallback_name) != 0)
            return err_set(err, SP_INVALID_FIELD, "there is no user '%s' in this box", name);
        str_copy_cut(ret->name, sizeof(ret->name), name);
        (void) snprintf(ret->home, sizeof(ret->home), "/home/%s", fallback_name);
        ret->uid = FALLBACK_ID;
        ret->gid = FALLBACK_ID;
    }
    find_groups(dir, ret);
    return SP_OK;
}

int identity_find(const char *name, struct identity *ret, struct err *err)
{
    int rc = identity_find_in("/etc", name, ret, err);

    if (rc != SP_OK)
        return rc;
    ret->must_set = geteuid() == 0;
    if (!ret->must_set && ret->uid != geteuid())
        return err_set(err, SP_FORBIDDEN,
                       "the agent is not root in this box: it cannot act as '%s'", name);
    return SP_OK;
}

void identity_own(struct identity *ret, const char *home)
{
    memset(ret, 0, sizeof(*ret));
    if (!find_user("/etc", NULL, geteuid(), ret)) {
        (void) snprintf(ret->name, sizeof(ret->name), "%u", (unsigned) geteuid());
        str_copy_cut(ret->home, sizeof(ret->home), "/");
    }
    ret->uid = geteuid();
    ret->gid = getegid();
    if (home != NULL && home[0] == '/' && !str_copy(ret->home, sizeof(ret->home), home))
        str_copy_cut(ret->home, sizeof(ret->home), "/");
}

int identity_share_groups(const struct identity *id, struct err *err)
{
    if (!id->must_set || setgroups(id->group_count, id->groups) == 0)
        return SP_OK;
    return err_sys(err, SP_CONFIG, errno, "groups of user '%s'", id->name);
}

/* Nothing to do if the agent is this user already. */
static bool is_other(const struct identity *id)
{
    return id->must_set && (id->uid != getuid() || id->gid != getgid());
}

/* Effective ids, and with them the rights of root over files, of this thread only: the C library
 * would change all of them. The real and the saved ones stay, so that there is a way back and the
 * user can neither signal nor trace the agent. (Not setfsuid(): some kernels only pretend.) */
static bool set_gid(gid_t gid)
{
    return syscall(SYS_setresgid, -1, gid, -1) == 0;
}

static bool set_uid(uid_t uid)
{
    bool is_set = syscall(SYS_setresuid, -1, uid, -1) == 0;

    /* It cannot fail, so that errno stays. */
    (void) prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); /* a change of ids can make it traceable again */
    return is_set;
}

int identity_enter(const struct identity *id)
{
    int sys;

    if (!is_other(id) || (set_gid(id->gid) && set_uid(id->uid)))
        return 0;
    sys = errno;
    (void) set_gid(getgid()); /* root still, who may */
    return sys;
}

void identity_leave(const struct identity *id)
{
    bool is_back = !is_other(id) || (set_uid(getuid()) && set_gid(getgid()));

    assert(is_back); /* a process may always switch to its own ids */
}

/* Not by the C library: it would make the agent's other threads follow. */
int identity_become(const struct identity *id)
{
    if (!id->must_set)
        return 0;
    if (syscall(SYS_setgroups, id->group_count, id->groups) != 0 ||
        syscall(SYS_setgid, id->gid) != 0 || syscall(SYS_setuid, id->uid) != 0)
        return errno;
    /* Until it execs it is the user's process with the agent's memory. A change of ids makes it
     * untraceable, unless fs.suid_dumpable says otherwise. */
    (void) prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    return 0;
}

int identity_access(const char *path, int mode)
{
    struct stat st;
    int fd;

    /* access() asks for the real user, who is still root. */
    if (syscall(SYS_faccessat2, AT_FDCWD, path, mode, AT_EACCESS) == 0)
        return 0;
    if (errno != ENOSYS)
        return errno;
    if (stat(path, &st) != 0)
        return errno;
    if (mode != W_OK || !S_ISREG(st.st_mode))
        return access(path, mode) == 0 ? 0 : errno;
    fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0)
        return errno;
    (void) close(fd); /* nothing was written */
    return 0;
}
