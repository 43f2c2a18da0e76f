/* seccomp.c - the allow-list of system calls, in groups. Whatever is not named here or in seccomp_args.c
 * fails with EPERM; the table of refused calls says why the best-known ones are missing, and which of
 * them claim not to exist (ENOSYS) so that programs take their other way. Names that an architecture or
 * the runtime does not know are skipped by the runtime. */
#include "backends/oci/seccomp.h"

#include <errno.h>

#include "backends/oci/seccomp_args.h"
#include "backends/oci/seccomp_rule.h"
#include "base/compiler.h"

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

/* The native table and the 32-bit one, each of which costs the runtime several milliseconds per box.
 * x32 is not there: nothing uses it, and a call with its mark ends the caller. */
static void put_architectures(struct json_out *o)
{
    json_begin_arr(o, "architectures");
#if defined(__x86_64__)
    oci_rule_names(o, "SCMP_ARCH_X86_64 SCMP_ARCH_X86");
#elif defined(__aarch64__)
    oci_rule_names(o, "SCMP_ARCH_AARCH64 SCMP_ARCH_ARM");
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
            oci_rule_by_name(o, refused[i].names, refused[i].errnum);
    }
    for (size_t i = 0; i < ARRAY_LEN(allowed); i++)
        oci_rule_by_name(o, allowed[i], 0);
    oci_rule_by_name(o, ignored, OCI_RULE_IGNORE);
    oci_seccomp_put_args(o, guard, sockets);
    json_end(o);
    json_end(o);
}

const char *oci_seccomp_refused(unsigned i)
{
    return i < ARRAY_LEN(refused) ? refused[i].names : NULL;
}
