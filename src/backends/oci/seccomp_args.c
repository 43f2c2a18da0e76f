/* seccomp_args.c - system calls that are decided by their arguments: allowed but for some numbers, up to a size, or
 * only where somebody counts. */
#include "backends/oci/seccomp_args.h"

#include <errno.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include "backends/oci/seccomp_rule.h"
#include "base/compiler.h"
#include "base/ioctls.h"
#include "base/sockopts.h"

/* Flags of clone() and unshare() that make a namespace: NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER,
 * NEWPID, NEWNET. NEWTIME shares its bit with clone()'s signal number, only unshare() has it. */
#define CLONE_ANY_NS 0x7e020000U
#define UNSHARE_ANY_NS (CLONE_ANY_NS | 0x80U)
#define XATTR_SIZE_END 1024U /* a power of two: sizes below it are allowed */
#define LEVEL_END 512U       /* of setsockopt, likewise */
#define PRCTL_END 256U       /* options of prctl, likewise */
#define WAIT_END 4096U       /* files that one call waits for, likewise */
#define FLAG_MAP_HUGETLB 0x40000U
#define FLAG_MFD_HUGETLB 0x4U
#define FLAG_SHM_HUGETLB 0x800U
#define IPC_CALL_MASK 0xffffU /* the upper half is a version */
#define IPC_SHMGET 23U

#define LOWER_HALF 0xffffffffU
#define IS(index, value)         \
    {                            \
        index, LOWER_HALF, value \
    }

/* A call that is decided by one argument. Several rules for one call add up. */
struct by_arg {
    const char *names;
    struct oci_condition condition;
    int errnum;
};

static const struct by_arg filtered[] = {
    {"clone", {0, CLONE_ANY_NS, 0}, 0},
    {"unshare", {0, UNSHARE_ANY_NS, 0}, 0},
    /* Plain, 32-bit, old version number, both; fixed addresses for debuggers; the question. */
    {"personality", IS(0, 0x0), 0},
    {"personality", IS(0, 0x8), 0},
    {"personality", IS(0, 0x20000), 0},
    {"personality", IS(0, 0x20008), 0},
    {"personality", IS(0, 0x40000), 0},
    {"personality", IS(0, 0xffffffff), 0},
    /* The options of prctl with large numbers: PR_SET_PTRACER, PR_SET_VMA, PR_GET_AUXV. */
    {"prctl", IS(0, 0x59616d61), 0},
    {"prctl", IS(0, 0x53564d41), 0},
    {"prctl", IS(0, 0x41555856), 0},
    /* Not F_OFD_SETLK: such locks have no limit, and stay where nobody can count them (src/backend/hoard.c). */
    {"fcntl fcntl64", {1, LOWER_HALF & ~31U, 0}, 0},
    {"fcntl fcntl64", {1, LOWER_HALF & ~3U, 32}, 0},
    {"fcntl fcntl64", {1, LOWER_HALF & ~3U, 36}, EINVAL},
    {"fcntl fcntl64", {1, LOWER_HALF & ~31U, 1024}, 0},
};

/* Numbers that an argument may be but for some: put_but() makes few rules of them. */
struct numbers {
    uint64_t end; /* a power of two */
    const uint32_t *without;
    size_t count;
};

static bool has_any(const struct numbers *n, uint64_t first, uint64_t count)
{
    for (size_t i = 0; i < n->count; i++)
        if (n->without[i] >= first && n->without[i] - first < count)
            return true;
    return false;
}

/* Allows the call when its last condition is met by a number of `n` from `first` on: `count` is a power
 * of two and divides `first`, so that one mask is enough. */
static void put_but(struct json_out *o, const char *name, struct oci_condition *conditions,
                    size_t len, const struct numbers *n, uint64_t first, uint64_t count)
{
    struct oci_condition *last = &conditions[len - 1];

    if (!has_any(n, first, count)) {
        last->mask = LOWER_HALF & ~(count - 1);
        last->value = first;
        oci_rule_by_arg(o, name, 0, conditions, len);
    } else if (count > 1) {
        put_but(o, name, conditions, len, n, first, count / 2);
        put_but(o, name, conditions, len, n, first + count / 2, count / 2);
    }
}

#define AS_NUMBER(number) number,

/* Every one but a few; whatever is in the upper half, at which the kernel does not look. */
static void put_ioctl(struct json_out *o)
{
    static const uint32_t without[] = {IOCTLS(AS_NUMBER)};
    const struct numbers n = {UINT64_C(1) << 32, without, ARRAY_LEN(without)};
    struct oci_condition command[] = {{.index = 1}};

    put_but(o, "ioctl", command, ARRAY_LEN(command), &n, 0, n.end);
}

#define AS_ROW(level, option, errnum) {level, option, errnum},

static const struct {
    uint32_t level;
    uint32_t option;
    int errnum;
} refused_options[] = {SOCKOPTS(AS_ROW)};

static void put_level(struct json_out *o, uint32_t level)
{
    struct oci_condition both[] = {IS(1, level), {.index = 2}};
    uint32_t without[ARRAY_LEN(refused_options)];
    struct numbers n = {SOCKOPTS_END, without, 0};

    for (size_t i = 0; i < ARRAY_LEN(refused_options); i++) {
        struct oci_condition row[] = {IS(1, level), IS(2, refused_options[i].option)};

        if (refused_options[i].level != level)
            continue;
        without[n.count++] = refused_options[i].option;
        if (refused_options[i].errnum != EPERM) /* else the default is meant */
            oci_rule_by_arg(o, "setsockopt",
                            refused_options[i].errnum == 0 ? OCI_RULE_IGNORE
                                                           : refused_options[i].errnum,
                            row, ARRAY_LEN(row));
    }
    put_but(o, "setsockopt", both, ARRAY_LEN(both), &n, 0, n.end);
}

static void put_setsockopt(struct json_out *o)
{
    static const uint32_t levels[] = {SOL_SOCKET, IPPROTO_IP, IPPROTO_IPV6};
    const struct numbers others = {LEVEL_END, levels, ARRAY_LEN(levels)};
    struct oci_condition level[] = {{.index = 1}};

    for (size_t i = 0; i < ARRAY_LEN(levels); i++)
        put_level(o, levels[i]);
    put_but(o, "setsockopt", level, ARRAY_LEN(level), &others, 0, others.end);
}

/* The kernel charges access lists of files in memory to nobody, and they are as large as they say. */
static void put_setxattr(struct json_out *o)
{
    static const char *const names[] = {"setxattr", "lsetxattr", "fsetxattr"};
    struct oci_condition is_small = {3, LOWER_HALF & ~(XATTR_SIZE_END - 1), 0};

    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        oci_rule_by_arg(o, names[i], 0, &is_small, 1);
}

/* Programs that would narrow their rights take EINVAL for a kernel without filters, and go on. */
static void put_prctl(struct json_out *o)
{
    static const uint32_t without[] = {PR_SET_SECCOMP};
    const struct numbers n = {PRCTL_END, without, ARRAY_LEN(without)};
    struct oci_condition option[] = {{.index = 0}};
    struct oci_condition set_seccomp = IS(0, PR_SET_SECCOMP);

    put_but(o, "prctl", option, ARRAY_LEN(option), &n, 0, n.end);
    oci_rule_by_arg(o, "prctl", EINVAL, &set_seccomp, 1);
}

/* Pages of 2 MB or 1 GB that the host has set aside belong to whoever comes first, and count for no limit of memory. The
 * errors are those of a machine that has none: programs take ordinary pages then. The oldest form of mmap, which
 * only 32-bit programs have, keeps its arguments in memory where no filter can look. */
static void put_huge_pages(struct json_out *o)
{
    static const struct {
        const char *name;
        unsigned index;
        uint64_t flag;
        int errnum;
    } calls[] = {
        {"mmap", 3, FLAG_MAP_HUGETLB, ENOMEM},
        {"mmap2", 3, FLAG_MAP_HUGETLB, ENOMEM},
        {"memfd_create", 1, FLAG_MFD_HUGETLB, EINVAL},
        {"shmget", 2, FLAG_SHM_HUGETLB, ENOMEM},
    };
    struct oci_condition shmget[] = {{0, IPC_CALL_MASK, IPC_SHMGET}, {3, FLAG_SHM_HUGETLB, 0}};

    for (size_t i = 0; i < ARRAY_LEN(calls); i++) {
        struct oci_condition without = {calls[i].index, calls[i].flag, 0};
        struct oci_condition with = {calls[i].index, calls[i].flag, calls[i].flag};

        oci_rule_by_arg(o, calls[i].name, 0, &without, 1);
        oci_rule_by_arg(o, calls[i].name, calls[i].errnum, &with, 1);
    }
    /* All of ipc() but its shmget: one rule for each bit that may differ. */
    for (uint64_t bit = 1; bit < IPC_CALL_MASK; bit <<= 1) {
        struct oci_condition differs = {0, bit, ~(uint64_t) IPC_SHMGET & bit};

        oci_rule_by_arg(o, "ipc", 0, &differs, 1);
    }
    oci_rule_by_arg(o, "ipc", 0, shmget, ARRAY_LEN(shmget));
}

/* The tables of those who wait are charged to nobody: 72 bytes for each file, also for the same one many
 * times. Beyond this the answer is that of a process with fewer files (EINVAL). Of 32-bit programs
 * "select" is an old form, with a pointer there: theirs is _newselect. */
static void put_waiting(struct json_out *o)
{
    static const struct {
        const char *name;
        unsigned index;
    } calls[] = {
        {"poll", 1},     {"ppoll", 1},           {"ppoll_time64", 1}, {"select", 0},
        {"pselect6", 0}, {"pselect6_time64", 0}, {"_newselect", 0},
    };

    for (size_t i = 0; i < ARRAY_LEN(calls); i++) {
        struct oci_condition is_few = {calls[i].index, LOWER_HALF & ~(WAIT_END - 1), 0};
        struct oci_condition is_many = {calls[i].index, 0, WAIT_END};

        oci_rule_by_arg(o, calls[i].name, 0, &is_few, 1);
        oci_rule_by_arg(o, calls[i].name, EINVAL, &is_many, 1);
    }
}

/* Four families: not AF_PACKET, AF_ALG, AF_VSOCK (which no network namespace confines) nor what modules bring.
 * What some sockets hold is charged to nobody, and there is no limit on their number: they are counted by
 * whoever listens (src/helper/guard_loop.c). connect makes one as well, when its listener is in the box;
 * so would sending with MSG_FASTOPEN, which is off in the box's network (spec.c). Unix sockets have no limit, but
 * the kernel's number has them as well: nobody could count while they come and go unasked. */
static void put_sockets(struct json_out *o, const char *guard, enum oci_sockets sockets)
{
    static const uint32_t counted[] = {AF_UNIX, AF_INET, AF_INET6};
    struct oci_condition netlink = IS(0, AF_NETLINK);
    struct oci_condition local = IS(0, AF_UNIX);
    bool is_counted = sockets == OCI_SOCKETS_COUNTED;

    oci_rule_by_arg(o, "socket", guard != NULL ? OCI_RULE_ASK : 0, &netlink, 1);
    oci_rule_by_arg(o, "socketpair", is_counted ? OCI_RULE_ASK : 0, &local, 1);
    for (size_t i = 0; i < ARRAY_LEN(counted); i++) {
        struct oci_condition family = IS(0, counted[i]);

        if (sockets == OCI_SOCKETS_UNIX && counted[i] != AF_UNIX)
            oci_rule_by_arg(o, "socket", EAFNOSUPPORT, &family, 1); /* as a kernel without them */
        else
            oci_rule_by_arg(o, "socket", is_counted ? OCI_RULE_ASK : 0, &family, 1);
    }
    oci_rule_by_name(o, "connect", is_counted ? OCI_RULE_ASK : 0);
}

void oci_seccomp_put_args(struct json_out *o, const char *guard, enum oci_sockets sockets)
{
    for (size_t i = 0; i < ARRAY_LEN(filtered); i++)
        oci_rule_by_arg(o, filtered[i].names, filtered[i].errnum, &filtered[i].condition, 1);
    put_ioctl(o);
    put_prctl(o);
    put_setsockopt(o);
    put_setxattr(o);
    put_waiting(o);
    put_huge_pages(o);
    put_sockets(o, guard, sockets);
}
