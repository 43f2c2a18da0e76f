/* seccomp.c - the allow-list of system calls, in groups. Whatever is not named fails with EPERM;
 * the table of refused calls says why the best-known ones are missing, and which of them claim not
 * to exist (ENOSYS) so that programs take their other way. Names that an architecture or the
 * runtime does not know are skipped by the runtime. */
#include "backends/oci/seccomp.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>

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

/* Names separated by spaces, sorted within each group. */
static const char *const allowed[] = {
    /* Files by name. */
    "access chdir chmod chown chown32 chroot creat faccessat faccessat2 fchmodat fchmodat2 fchownat "
    "fstatat64 futimesat getcwd getxattr getxattrat lchown lchown32 lgetxattr link linkat listxattr "
    "listxattrat llistxattr lremovexattr lstat lstat64 mkdir mkdirat mknod mknodat "
    "newfstatat open openat openat2 readlink readlinkat removexattr removexattrat rename renameat "
    "renameat2 rmdir stat stat64 statfs statfs64 statx symlink symlinkat truncate "
    "truncate64 unlink unlinkat utime utimensat utimensat_time64 utimes",
    /* Open files. mknod makes pipes and sockets; the user namespace refuses devices. */
    "_llseek arm_fadvise64_64 arm_sync_file_range cachestat close close_range copy_file_range dup dup2 "
    "dup3 fadvise64 fadvise64_64 fallocate fchdir fchmod fchown fchown32 fdatasync "
    "fgetxattr flistxattr flock fremovexattr fstat fstat64 fstatfs fstatfs64 fsync ftruncate "
    "ftruncate64 getdents getdents64 lseek pipe pipe2 pread64 preadv preadv2 "
    "pwrite64 pwritev pwritev2 read readahead readv sendfile sendfile64 splice sync_file_range "
    "sync_file_range2 syncfs tee umask vmsplice write writev",
    /* Waiting for files and events. */
    "epoll_create epoll_create1 epoll_ctl epoll_ctl_old epoll_pwait epoll_pwait2 epoll_wait "
    "epoll_wait_old eventfd eventfd2 inotify_add_watch inotify_init inotify_init1 inotify_rm_watch "
    "signalfd signalfd4 timerfd_create timerfd_gettime timerfd_gettime64 timerfd_settime "
    "timerfd_settime64",
    /* Memory. */
    "brk cacheflush madvise map_shadow_stack membarrier mincore mlock mlock2 mlockall "
    "mprotect mremap mseal msync munlock munlockall munmap pkey_alloc pkey_free pkey_mprotect "
    "process_madvise process_mrelease remap_file_pages",
    /* Processes and threads. ptrace and its kin are here because debuggers are wanted in a box: the
     * kernel lets a process look only into those of its own user in its own user namespace, nothing
     * in the box has CAP_SYS_PTRACE, and kernels since 4.8 apply this list to traced calls as well. */
    "arch_prctl execve execveat exit exit_group fork get_robust_list get_thread_area getcpu getpgid "
    "getpgrp getpid getppid getpriority getrlimit getrusage getsid gettid ioprio_get ioprio_set kcmp "
    "pidfd_getfd pidfd_open prlimit64 process_vm_readv process_vm_writev ptrace rseq "
    "sched_get_priority_max sched_get_priority_min sched_getaffinity sched_getattr sched_getparam "
    "sched_getscheduler sched_rr_get_interval sched_rr_get_interval_time64 sched_setaffinity "
    "sched_setattr sched_setparam sched_setscheduler sched_yield set_robust_list set_thread_area "
    "set_tid_address set_tls setpgid setpriority setrlimit setsid times ugetrlimit vfork wait4 waitid "
    "waitpid",
    /* Locks between threads. */
    "futex futex_requeue futex_time64 futex_wait futex_waitv futex_wake",
    /* Signals. */
    "alarm getitimer kill pause pidfd_send_signal restart_syscall rt_sigaction rt_sigpending "
    "rt_sigprocmask rt_sigqueueinfo rt_sigreturn rt_sigsuspend rt_sigtimedwait rt_sigtimedwait_time64 "
    "rt_tgsigqueueinfo setitimer sigaction sigaltstack signal sigpending sigprocmask sigreturn "
    "sigsuspend tgkill tkill",
    /* Users and groups. */
    "capget capset getegid getegid32 geteuid geteuid32 getgid getgid32 getgroups getgroups32 getresgid "
    "getresgid32 getresuid getresuid32 getuid getuid32 setfsgid setfsgid32 setfsuid setfsuid32 setgid "
    "setgid32 setgroups setgroups32 setregid setregid32 setresgid setresgid32 setresuid setresuid32 "
    "setreuid setreuid32 setuid setuid32",
    /* Clocks: reading and waiting. adjtimex with no CAP_SYS_TIME only reads. */
    "adjtimex clock_adjtime clock_adjtime64 clock_getres clock_getres_time64 clock_gettime "
    "clock_gettime64 clock_nanosleep clock_nanosleep_time64 gettimeofday nanosleep time timer_create "
    "timer_delete timer_getoverrun timer_gettime timer_gettime64 timer_settime timer_settime64",
    /* Sockets that exist; making one, also by connect, is below. */
    "accept accept4 bind getpeername getsockname getsockopt listen recv recvfrom recvmmsg "
    "recvmmsg_time64 recvmsg send sendmmsg sendmsg sendto shutdown",
    /* Messages, semaphores and memory shared within the box's own IPC namespace. */
    "mq_getsetattr mq_notify mq_open mq_timedreceive mq_timedreceive_time64 mq_timedsend "
    "mq_timedsend_time64 mq_unlink msgctl msgget msgrcv msgsnd semctl semget semop semtimedop "
    "semtimedop_time64 shmat shmctl shmdt",
    /* A process may narrow its own rights further. */
    "landlock_add_rule landlock_create_ruleset landlock_restrict_self",
    /* About the machine. */
    "breakpoint getrandom sysinfo uname",
};

/* Waits for every file system of the machine, also for one that hangs: a box could not be destroyed then. Its own
 * disk is not meant to outlive the machine. syncfs waits for one that the box can open, so it may stay. */
static const char ignored[] = "sync";

struct refusal {
    int errnum;
    const char *names;
};

static const struct refusal refused[] = {
    /* Hides pages from the kernel's own map of memory, which is split for it and slows down for all. */
    {ENOSYS, "memfd_secret"},
    /* Its size lies in memory where no filter can look; see put_setxattr() below. */
    {ENOSYS, "setxattrat"},
    /* The mount table is made by the daemon alone. The newer interface claims not to exist, so that
     * programs ask the older one and show its refusal. */
    {EPERM, "mount pivot_root umount umount2"},
    {ENOSYS, "fsconfig fsmount fsopen fspick listmount mount_setattr move_mount open_tree "
             "open_tree_attr statmount"},
    /* Joining a namespace. Making one is refused by the flags of clone and unshare, below; clone3
     * hides its flags in memory where no filter can look, and libc falls back to clone. */
    {EPERM, "setns"},
    {ENOSYS, "clone3"},
    /* Programs in the kernel, its counters and its keys: none knows about namespaces enough, and all
     * have a history of holes. */
    {EPERM, "add_key bpf keyctl perf_event_open request_key"},
    /* Does what the filter refuses, without passing the filter. */
    {ENOSYS, "io_uring_enter io_uring_register io_uring_setup"},
    /* The machine has a number of these for everybody (fs.aio-max-nr): one box could take them all. */
    {ENOSYS, "io_cancel io_destroy io_getevents io_pgetevents io_pgetevents_time64 io_setup "
             "io_submit"},
    /* Each filter takes memory for compiled programs, of which the machine has one amount for
     * everybody (net.core.bpf_jit_limit): 512 processes take 160 MB, and when there is none left no
     * runtime can load the filter of a new box. prctl's way to the same is refused below. */
    {ENOSYS, "seccomp"},
    /* Lets a program stop the kernel in the middle of a copy, the first step of many exploits. */
    {EPERM, "userfaultfd"},
    /* Files by number reach outside the box's tree, whatever is mounted over it. */
    {EPERM, "name_to_handle_at open_by_handle_at"},
    /* Watching whole file systems. */
    {EPERM, "fanotify_init fanotify_mark"},
    /* The machine itself: modules, another kernel, reboot, swap, accounting, quotas, log, console,
     * names and the hardware's ports. */
    {EPERM, "create_module delete_module finit_module get_kernel_syms init_module query_module"},
    {EPERM, "kexec_file_load kexec_load reboot swapoff swapon"},
    {EPERM, "acct quotactl quotactl_fd setdomainname sethostname syslog vhangup"},
    {EPERM, "ioperm iopl modify_ldt pciconfig_iobase pciconfig_read pciconfig_write vm86 vm86old"},
    /* The time of the machine. */
    {EPERM, "clock_settime clock_settime64 settimeofday stime"},
    /* Where memory lies: moves pages of the whole machine about. */
    {EPERM, "get_mempolicy mbind migrate_pages move_pages set_mempolicy set_mempolicy_home_node"},
    /* Old, unused, unloved. */
    {EPERM, "_sysctl lookup_dcookie nfsservctl sysfs uselib ustat"},
    /* 32-bit x86 keeps the family of a new socket in memory where no filter can look. Its direct
     * calls (Linux 4.3) are filtered below, and some C libraries try them first. */
    {ENOSYS, "socketcall"},
};

/* One condition on an argument: (argument & mask) == value. A mask without the upper 32 bits, at which
 * the kernel does not look: a value with others there is treated the same. Mask 0: argument >= value; only
 * to give an error, because it counts the upper half. */
struct condition {
    unsigned index;
    uint64_t mask;
    uint64_t value;
};

#define LOWER_HALF 0xffffffffU
#define IS(index, value)         \
    {                            \
        index, LOWER_HALF, value \
    }

/* A call that is decided by one argument. Several rules for one call add up. */
struct by_arg {
    const char *names;
    struct condition condition;
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

/* Instead of an error: */
#define ASK (-1)    /* whoever listens decides */
#define IGNORE (-2) /* success, and nothing is done */

static void put_action(struct json_out *o, int errnum)
{
    json_put_str(o, "action",
                 errnum == 0     ? "SCMP_ACT_ALLOW"
                 : errnum == ASK ? "SCMP_ACT_NOTIFY"
                                 : "SCMP_ACT_ERRNO");
    if (errnum > 0 || errnum == IGNORE)
        json_put_u64(o, "errnoRet", errnum > 0 ? (uint64_t) errnum : 0);
}

static void put_names(struct json_out *o, const char *names)
{
    char name[64];

    while (*names != '\0') {
        size_t len = strcspn(names, " ");
        assert(len > 0 && len < sizeof(name));
        memcpy(name, names, len);
        name[len] = '\0';
        json_put_str(o, NULL, name);
        names += len;
        names += strspn(names, " ");
    }
}

static void put_group(struct json_out *o, const char *names, int errnum)
{
    json_begin_obj(o, NULL);
    json_begin_arr(o, "names");
    put_names(o, names);
    json_end(o);
    put_action(o, errnum);
    json_end(o);
}

static void put_condition(struct json_out *o, const struct condition *c)
{
    json_begin_obj(o, NULL);
    json_put_u64(o, "index", c->index);
    json_put_u64(o, "value", c->mask != 0 ? c->mask : c->value);
    if (c->mask != 0)
        json_put_u64(o, "valueTwo", c->value);
    json_put_str(o, "op", c->mask != 0 ? "SCMP_CMP_MASKED_EQ" : "SCMP_CMP_GE");
    json_end(o);
}

/* All conditions must hold, each on another argument: libseccomp takes no two on the same one. */
static void put_filtered(struct json_out *o, const char *names, int errnum,
                         const struct condition *conditions, size_t count)
{
    json_begin_obj(o, NULL);
    json_begin_arr(o, "names");
    put_names(o, names);
    json_end(o);
    put_action(o, errnum);
    json_begin_arr(o, "args");
    for (size_t i = 0; i < count; i++)
        put_condition(o, &conditions[i]);
    json_end(o);
    json_end(o);
}

static bool has_any(const struct numbers *n, uint64_t first, uint64_t count)
{
    for (size_t i = 0; i < n->count; i++)
        if (n->without[i] >= first && n->without[i] - first < count)
            return true;
    return false;
}

/* Allows the call when its last condition is met by a number of `n` from `first` on: `count` is a power
 * of two and divides `first`, so that one mask is enough. */
static void put_but(struct json_out *o, const char *name, struct condition *conditions, size_t len,
                    const struct numbers *n, uint64_t first, uint64_t count)
{
    struct condition *last = &conditions[len - 1];

    if (!has_any(n, first, count)) {
        last->mask = LOWER_HALF & ~(count - 1);
        last->value = first;
        put_filtered(o, name, 0, conditions, len);
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
    struct condition command[] = {{.index = 1}};

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
    struct condition both[] = {IS(1, level), {.index = 2}};
    uint32_t without[ARRAY_LEN(refused_options)];
    struct numbers n = {SOCKOPTS_END, without, 0};

    for (size_t i = 0; i < ARRAY_LEN(refused_options); i++) {
        struct condition row[] = {IS(1, level), IS(2, refused_options[i].option)};

        if (refused_options[i].level != level)
            continue;
        without[n.count++] = refused_options[i].option;
        if (refused_options[i].errnum != EPERM) /* else the default is meant */
            put_filtered(o, "setsockopt",
                         refused_options[i].errnum == 0 ? IGNORE : refused_options[i].errnum, row,
                         ARRAY_LEN(row));
    }
    put_but(o, "setsockopt", both, ARRAY_LEN(both), &n, 0, n.end);
}

static void put_setsockopt(struct json_out *o)
{
    static const uint32_t levels[] = {SOL_SOCKET, IPPROTO_IP, IPPROTO_IPV6};
    const struct numbers others = {LEVEL_END, levels, ARRAY_LEN(levels)};
    struct condition level[] = {{.index = 1}};

    for (size_t i = 0; i < ARRAY_LEN(levels); i++)
        put_level(o, levels[i]);
    put_but(o, "setsockopt", level, ARRAY_LEN(level), &others, 0, others.end);
}

/* The kernel charges access lists of files in memory to nobody, and they are as large as they say. */
static void put_setxattr(struct json_out *o)
{
    static const char *const names[] = {"setxattr", "lsetxattr", "fsetxattr"};
    struct condition is_small = {3, LOWER_HALF & ~(XATTR_SIZE_END - 1), 0};

    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        put_filtered(o, names[i], 0, &is_small, 1);
}

/* Programs that would narrow their rights take EINVAL for a kernel without filters, and go on. */
static void put_prctl(struct json_out *o)
{
    static const uint32_t without[] = {PR_SET_SECCOMP};
    const struct numbers n = {PRCTL_END, without, ARRAY_LEN(without)};
    struct condition option[] = {{.index = 0}};
    struct condition set_seccomp = IS(0, PR_SET_SECCOMP);

    put_but(o, "prctl", option, ARRAY_LEN(option), &n, 0, n.end);
    put_filtered(o, "prctl", EINVAL, &set_seccomp, 1);
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
    struct condition shmget[] = {{0, IPC_CALL_MASK, IPC_SHMGET}, {3, FLAG_SHM_HUGETLB, 0}};

    for (size_t i = 0; i < ARRAY_LEN(calls); i++) {
        struct condition without = {calls[i].index, calls[i].flag, 0};
        struct condition with = {calls[i].index, calls[i].flag, calls[i].flag};

        put_filtered(o, calls[i].name, 0, &without, 1);
        put_filtered(o, calls[i].name, calls[i].errnum, &with, 1);
    }
    /* All of ipc() but its shmget: one rule for each bit that may differ. */
    for (uint64_t bit = 1; bit < IPC_CALL_MASK; bit <<= 1) {
        struct condition differs = {0, bit, ~(uint64_t) IPC_SHMGET & bit};

        put_filtered(o, "ipc", 0, &differs, 1);
    }
    put_filtered(o, "ipc", 0, shmget, ARRAY_LEN(shmget));
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
        struct condition is_few = {calls[i].index, LOWER_HALF & ~(WAIT_END - 1), 0};
        struct condition is_many = {calls[i].index, 0, WAIT_END};

        put_filtered(o, calls[i].name, 0, &is_few, 1);
        put_filtered(o, calls[i].name, EINVAL, &is_many, 1);
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
    struct condition netlink = IS(0, AF_NETLINK);
    struct condition local = IS(0, AF_UNIX);
    bool is_counted = sockets == OCI_SOCKETS_COUNTED;

    put_filtered(o, "socket", guard != NULL ? ASK : 0, &netlink, 1);
    put_filtered(o, "socketpair", is_counted ? ASK : 0, &local, 1);
    for (size_t i = 0; i < ARRAY_LEN(counted); i++) {
        struct condition family = IS(0, counted[i]);

        if (sockets == OCI_SOCKETS_UNIX && counted[i] != AF_UNIX)
            put_filtered(o, "socket", EAFNOSUPPORT, &family, 1); /* as a kernel without them */
        else
            put_filtered(o, "socket", is_counted ? ASK : 0, &family, 1);
    }
    put_group(o, "connect", is_counted ? ASK : 0);
}

/* The native table and the 32-bit one, each of which costs the runtime several milliseconds per box.
 * x32 is not there: nothing uses it, and a call with its mark ends the caller. */
static void put_architectures(struct json_out *o)
{
    json_begin_arr(o, "architectures");
#if defined(__x86_64__)
    put_names(o, "SCMP_ARCH_X86_64 SCMP_ARCH_X86");
#elif defined(__aarch64__)
    put_names(o, "SCMP_ARCH_AARCH64 SCMP_ARCH_ARM");
#else
#error "which system call tables has this architecture?"
#endif
    json_end(o);
}

void oci_seccomp_put(struct json_out *o, const char *key, const char *guard,
                     enum oci_sockets sockets)
{
    json_begin_obj(o, key);
    json_put_str(o, "defaultAction", "SCMP_ACT_ERRNO");
    json_put_u64(o, "defaultErrnoRet", EPERM);
    put_architectures(o);
    if (guard != NULL)
        json_put_str(o, "listenerPath", guard);
    json_begin_arr(o, "syscalls");
    /* Those with EPERM are covered by the default, and runtimes refuse duplicate rules. First, because
     * for 32-bit x86 libseccomp turns rules about sockets into rules about socketcall, too, and finds
     * that two of them disagree if the whole call is not refused already. */
    for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
        if (refused[i].errnum != EPERM)
            put_group(o, refused[i].names, refused[i].errnum);
    }
    for (size_t i = 0; i < ARRAY_LEN(allowed); i++)
        put_group(o, allowed[i], 0);
    for (size_t i = 0; i < ARRAY_LEN(filtered); i++)
        put_filtered(o, filtered[i].names, filtered[i].errnum, &filtered[i].condition, 1);
    put_group(o, ignored, IGNORE);
    put_ioctl(o);
    put_prctl(o);
    put_setsockopt(o);
    put_setxattr(o);
    put_waiting(o);
    put_huge_pages(o);
    put_sockets(o, guard, sockets);
    json_end(o);
    json_end(o);
}

const char *oci_seccomp_refused(unsigned i)
{
    return i < ARRAY_LEN(refused) ? refused[i].names : NULL;
}
