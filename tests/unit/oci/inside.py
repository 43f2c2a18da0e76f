# Runs as PID 1 of a box that test_box_rules.py made: tries things, prints what came of them as JSON.
import ctypes
import errno
import fcntl
import json
import mmap
import os
import platform
import pty
import resource
import socket
import struct
import subprocess
import sys
import tempfile

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long

# name: (number on x86-64, number on aarch64, arguments that fail otherwise than by refusal)
CALLS = {
    "mount": (165, 40, (1, 1, 1, 0, 0)),
    "umount2": (166, 39, (1, 0)),
    "pivot_root": (155, 41, (1, 1)),
    "move_mount": (429, 429, (-1, 1, -1, 1, 0)),
    "open_tree": (428, 428, (-1, 1, 0)),
    "fsopen": (430, 430, (1, 0)),
    "fsconfig": (431, 431, (-1, 0, 0, 0, 0)),
    "fsmount": (432, 432, (-1, 0, 0)),
    "mount_setattr": (442, 442, (-1, 1, 0, 1, 64)),
    "setns": (308, 268, (-1, 0)),
    "clone3": (435, 435, (0, 0)),
    "unshare_user": (272, 97, (0x10000000,)),
    "unshare_time": (272, 97, (0x80,)),
    "bpf": (321, 280, (-1, 0, 0)),
    "perf_event_open": (298, 241, (0, 0, -1, -1, 0)),
    "keyctl": (250, 219, (0, -2, 0)),
    "add_key": (248, 217, (1, 1, 1, 1, 1)),
    "request_key": (249, 218, (1, 1, 1, 1)),
    "io_uring_setup": (425, 425, (1, 0)),
    "userfaultfd": (323, 282, (1,)),
    "name_to_handle_at": (303, 264, (-100, 1, 1, 1, 0)),
    "open_by_handle_at": (304, 265, (-1, 1, 0)),
    "init_module": (175, 105, (1, 1, 1)),
    "finit_module": (313, 273, (-1, 1, 0)),
    "kexec_load": (246, 104, (0, 0, 0, 0)),
    "reboot": (169, 142, (0, 0, 0, 0)),
    "swapon": (167, 224, (1, 0)),
    "settimeofday": (164, 170, (1, 0)),
    "clock_settime": (227, 112, (0, 1)),
    "quotactl": (179, 60, (0, 1, 0, 0)),
    "acct": (163, 89, (1,)),
    "syslog": (103, 116, (3, 0, 0)),
    "fanotify_init": (300, 262, (0, 0)),
    "personality_odd": (135, 92, (0x0400000,)),
}


HIGH = 1 << 32  # the kernel looks at the lower half of a number only


def name_of(code):
    return errno.errorcode.get(code, str(code))


def call(number, *args):
    ctypes.set_errno(0)
    result = libc.syscall(ctypes.c_long(number), *[ctypes.c_ulong(a & (1 << 64) - 1) for a in args])
    return name_of(ctypes.get_errno()) if result == -1 else "done"


def apart(function):
    """What the function returns in a child process."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            text = json.dumps(function())
        except Exception as e:
            text = json.dumps({"failed": repr(e)})
        os.write(write, text.encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as f:
        text = f.read()
    os.waitpid(pid, 0)
    return json.loads(text)


def as_user(function):
    """In a child of user 1000, as commands run."""
    def change():
        os.setgroups([])
        os.setresgid(1000, 1000, 1000)
        os.setresuid(1000, 1000, 1000)
        return function()

    return apart(change)


def clone_namespace():
    # A child in a user namespace of its own: leaves at once if there is one.
    number = 56 if platform.machine() == "x86_64" else 220
    child = libc.syscall(ctypes.c_long(number), ctypes.c_ulong(0x10000000 | 17), 0, 0, 0, 0)
    if child == 0:
        os._exit(0)
    if child == -1:
        return name_of(ctypes.get_errno())
    os.waitpid(child, 0)
    return "done"


def refused():
    column = 0 if platform.machine() == "x86_64" else 1
    # Each in a process of its own: a namespace that is made after all must not help the next one.
    found = {name: apart(lambda: call(row[column], *row[2])) for name, row in CALLS.items()}
    found["clone_user"] = clone_namespace()
    for family in (17, 38, 40):
        try:
            socket.socket(family, socket.SOCK_DGRAM).close()
            found["socket_%d" % family] = "done"
        except OSError as e:
            found["socket_%d" % family] = name_of(e.errno)
    ioctl = 16 if platform.machine() == "x86_64" else 29
    pid, fd = pty.fork()
    if pid == 0:  # a terminal of its own, so that the kernel itself would let it type
        typed = ctypes.create_string_buffer(b"x")
        results = [call(ioctl, 0, c, ctypes.addressof(typed)) for c in (0x5412, 0x100005412)]
        os.write(1, (" ".join(results) + " .\n").encode())
        os._exit(0)
    text = b""
    while not text.endswith(b".\r\n"):
        text += os.read(fd, 100)
    os.waitpid(pid, 0)
    os.close(fd)
    found["tiocsti"], found["tiocsti_high"] = text.decode().split()[-3:-1]
    found.update(modules(ioctl))
    return found


# What makes the kernel look for a module of the host: line disciplines, bridges, virtual networks.
SETD, BRIDGES = 0x5423, (0x8940, 0x8941, 0x8980, 0x8981, 0x8982, 0x8983, 0x89A0, 0x89A1)


def modules(ioctl):
    found = {}
    number = ctypes.create_string_buffer(struct.pack("i", 0))  # the ordinary one, which is there
    fd, other = pty.openpty()
    with socket.socket(socket.AF_UNIX) as s:
        for high in (0, HIGH):
            found["setd_%x" % high] = call(ioctl, other, SETD | high, ctypes.addressof(number))
            for command in BRIDGES:
                found["ioctl_%x" % (command | high)] = call(ioctl, s.fileno(), command | high, 0)
    os.close(fd)
    os.close(other)
    return found


def dirty_pages(f):
    counts = (ctypes.c_uint64 * 5)()
    if libc.syscall(451, f.fileno(), (ctypes.c_uint64 * 2)(0, 0), counts, 0) != 0:  # cachestat, Linux 6.5
        return 0
    return counts[1]


def sync_leaves(function):
    """What becomes of a file of the host that is not written yet. Others on this machine may call sync just then: several tries."""
    found = "unknown"
    for i in range(200):
        with tempfile.TemporaryFile(dir="/disk") as f:
            f.write(b"x" * 65536)
            f.flush()
            if dirty_pages(f) == 0:
                continue
            if function() != 0:
                return "failed"
            if dirty_pages(f) > 0:
                return "left"
            found = "written"
        if i >= 10:
            break
    return found


def sync():
    """Of both tables of calls, if there are two."""
    number = 162 if platform.machine() == "x86_64" else 81
    found = [sync_leaves(lambda: libc.syscall(ctypes.c_long(number)))]
    if platform.machine() == "x86_64":
        page = mmap.mmap(-1, 4096, prot=7)
        page.write(bytes.fromhex("53b82400000031dbcd805bc3"))  # eax 36, ebx 0
        found.append(sync_leaves(ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))))
    return found


def allowed():
    fd, other = pty.openpty()
    size = fcntl.ioctl(fd, 0x5413, b"\0" * 8)
    pair = socket.socketpair()
    pair[0].send(b"x")
    found = {
        "unshare_files": call(272 if platform.machine() == "x86_64" else 97, 0x400),
        "personality": call(135 if platform.machine() == "x86_64" else 92, 0xFFFFFFFF),
        "winsize": len(size),
        "pair": pair[1].recv(1).decode(),
        "families": [socket.socket(f, t).family for f, t in ((2, 1), (10, 1), (16, 2))],
    }
    return found


def kernel_programs():
    """Programs for the kernel, which take memory that all boxes share, and the neighbours of these calls."""
    setsockopt, prctl, seccomp = (54, 157, 317) if platform.machine() == "x86_64" else (208, 167, 277)
    code = ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, 0x7FFF0000))  # return "allowed"
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", 1, ctypes.addressof(code)))
    fd = ctypes.create_string_buffer(struct.pack("i", -1))
    one = ctypes.create_string_buffer(struct.pack("q", 1))
    group = ctypes.create_string_buffer(socket.inet_aton("224.0.0.251") + bytes(16))
    address = {"group": ctypes.addressof(group), "program": ctypes.addressof(program), "fd": ctypes.addressof(fd), "one": ctypes.addressof(one)}

    def option(level, name, value, size, kind=socket.SOCK_DGRAM):
        with socket.socket(socket.AF_INET, kind) as s:
            return call(setsockopt, s.fileno(), level, name, address[value], size)

    def attribute(size):
        fd = os.memfd_create("attributed")
        try:
            os.setxattr(fd, "user.text", b"x" * size)
        except OSError as e:  # not every file system has them, and the size is looked at first
            return name_of(e.errno).replace("ENOTSUP", "done").replace("EOPNOTSUPP", "done")
        finally:
            os.close(fd)
        return "done"

    def lingers():
        with socket.socket() as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 3600))
            return s.getsockopt(socket.SOL_SOCKET, socket.SO_LINGER, 8) != bytes(8)

    return {
        "lingers": lingers(),
        "pressure": os.path.exists("/proc/pressure") and os.listdir("/proc/pressure"),
        "refused": {
            "filter": option(1, 26, "program", 16),
            "filter_high": option(1, 26 | HIGH, "program", 16),
            "filter_high_level": option(1 | HIGH, 26, "program", 16),
            "bpf": option(1, 50, "fd", 4),
            "reuseport_cbpf": option(1, 51, "program", 16),
            "reuseport_ebpf": option(1, 52, "fd", 4),
            "multicast": option(0, 35, "group", 8),
            "multicast_source": option(0, 42 | HIGH, "group", 8),
            "multicast6": option(41, 20, "group", 20),
            "large_attribute": attribute(1024),
            "seccomp": apart(lambda: call(prctl, 38, 1, 0, 0, 0) and call(seccomp, 1, 0, address["program"])),
            "prctl": apart(lambda: call(prctl, 38, 1, 0, 0, 0) and call(prctl, 22, 2, address["program"])),
            "prctl_high": apart(lambda: call(prctl, 38, 1, 0, 0, 0) and call(prctl, 22 | HIGH, 2, address["program"])),
        },
        "allowed": {
            "SO_REUSEADDR": option(1, 2, "one", 4),
            "SO_REUSEADDR_high": option(1 | HIGH, 2 | HIGH, "one", 4),
            "SO_LINGER": option(1, 13, "one", 8),
            "small_attribute": attribute(1023),
            "SO_RCVTIMEO": option(1, 20, "one", 16),
            "SO_DETACH_FILTER": option(1, 27, "one", 4).replace("ENOENT", "done"),
            "SO_TIMESTAMP": option(1, 29, "one", 4),
            "SO_MAX_PACING_RATE": option(1, 47, "one", 4),
            "SO_INCOMING_CPU": option(1, 49, "one", 4),
            "SO_TIMESTAMP_NEW": option(1, 63, "one", 4),
            "SO_RCVTIMEO_NEW": option(1, 66, "one", 16),
            "IP_TTL": option(0, 2, "one", 4),
            "IP_MULTICAST_TTL": option(0, 33, "one", 4),
            "IP_MULTICAST_LOOP": option(0, 34, "one", 4),
            "TCP_NODELAY": option(6, 1, "one", 4, socket.SOCK_STREAM),
            "PR_SET_NAME": call(prctl, 15, ctypes.addressof(code), 0, 0, 0),
            "PR_GET_SECCOMP": apart(lambda: "done" if libc.prctl(21, 0, 0, 0, 0) in (0, 2) else "?"),
            "PR_SET_CHILD_SUBREAPER": call(prctl, 36, 0, 0, 0, 0),
            "PR_SET_PTRACER": call(prctl, 0x59616D61, 0, 0, 0, 0).replace("EINVAL", "done"),  # without Yama
        },
    }


def trace_init():
    return call(101 if platform.machine() == "x86_64" else 117, 16, 1, 0, 0)


def try_open(path, mode="r"):
    try:
        with open(path, mode) as f:
            return "" if "w" in mode else f.read(100)
    except (OSError, UnicodeDecodeError) as e:
        return name_of(e.errno) if isinstance(e, OSError) else "binary"


def try_device():
    try:
        os.mknod("/tmp/device", 0o20666, os.makedev(1, 3))
        return try_open("/tmp/device")
    except OSError as e:
        return name_of(e.errno)


def identity():
    status = dict(l.rstrip("\n").split(":\t", 1) for l in open("/proc/self/status"))
    return {
        "pid": os.getpid(),
        "uid_map": open("/proc/self/uid_map").read().split(),
        "gid_map": open("/proc/self/gid_map").read().split(),
        "status": {k: v for k, v in status.items() if k[:3] in ("Cap", "NoN", "Sec")},
        "files": resource.getrlimit(resource.RLIMIT_NOFILE),
        "core": resource.getrlimit(resource.RLIMIT_CORE),
        "oom_score_adj": open("/proc/self/oom_score_adj").read().strip(),
        "hostname": socket.gethostname(),
        "env": dict(os.environ),
        "interfaces": [name for _, name in socket.if_nameindex()],
        "processes": [d for d in os.listdir("/proc") if d.isdigit()],
        "mounts": [l.split()[4:6] + l.split(" - ")[1].split()[:1]
                   for l in open("/proc/self/mountinfo")],
        "kcore": try_open("/proc/kcore"),
        "keys": try_open("/proc/keys"),
        "locks": try_open("/proc/locks"),
        "sysctl": try_open("/proc/sys/kernel/core_pattern", "w"),
        "sysrq": try_open("/proc/sysrq-trigger", "w"),
        "null": try_open("/dev/null", "w"),
        "mknod": try_device(),
        "dev": sorted(os.listdir("/dev")),
    }


def limits():
    found = {"nproc": int(subprocess.check_output(["nproc"])), "affinity": sorted(os.sched_getaffinity(0))}
    for name in ("memory/memory.limit_in_bytes", "memory/memory.memsw.limit_in_bytes", "pids/pids.max",
                 "cpu/cpu.cfs_quota_us", "memory/memory.oom_control", "memory.max", "memory.swap.max",
                 "pids.max", "cpu.max", "memory.events"):
        if os.path.exists("/sys/fs/cgroup/" + name):
            found[name] = open("/sys/fs/cgroup/" + name).read().strip()
    found["write"] = [try_open("/sys/fs/cgroup/" + n, "w") for n in ("pids/pids.max", "pids.max")]
    return found


def program(*argv):
    r = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60)
    return [r.returncode, r.stdout.decode(errors="replace")[-600:]]


SOCKETCALL = r"""
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/mman.h>
static int old(int nr, int a, void *b, int c)
{
    int r;
    __asm__ volatile("int $0x80" : "=a"(r) : "a"(nr), "b"(a), "c"(b), "d"(c) : "memory", "r8", "r9", "r10", "r11");
    return r;
}
int main(void)
{
    int *low = mmap(0, 4096, 3, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
    low[0] = 40, low[1] = 1, low[2] = 0;
    printf("%d %d %d %d %d %d\n", old(102, 1, low, 0), old(359, 40, (void *) 1, 0), old(310, 0x10000000, 0, 0),
           old(20, 0, 0, 0) > 0, old(366, -1, (void *) 1, 26), old(366, -1, (void *) 1, 2));
    return 0;
}
"""


def programs():
    os.chdir("/tmp")
    with open("hello.c", "w") as f:
        f.write('#include <stdio.h>\nint main(void) { puts("hello"); return 0; }\n')
    with open("old.c", "w") as f:
        f.write(SOCKETCALL)
    found = {"bash": program("bash", "-c", "echo $((6*7)) | cat"),
             "python3": program("python3", "-c", "import threading, hashlib; print(6*7)")}
    for name, argv in {
        "git": ["git", "--version"],
        "node": ["node", "-e", "setTimeout(() => console.log(6*7), 5)"],
        "gcc": ["sh", "-c", "gcc -pthread hello.c -o hello && ./hello"],
        "strace": ["strace", "-f", "-o", "trace", "sh", "-c", "true; true"],
        "gdb": ["gdb", "-batch", "-ex", "break main", "-ex", "run", "-ex", "continue", "./hello"],
    }.items():
        if subprocess.run(["sh", "-c", "command -v " + argv[0]], stdout=subprocess.DEVNULL).returncode == 0:
            found[name] = program(*argv)
    if platform.machine() == "x86_64" and "gcc" in found:
        found["old_calls"] = program("sh", "-c", "gcc -w old.c -o old && ./old")
    return found


PARTS = {
    "identity": identity,
    "limits": limits,
    "refused": lambda: {"root": refused(), "user": as_user(refused), "trace_init": as_user(trace_init)},
    "allowed": lambda: as_user(allowed),
    "kernel_programs": lambda: as_user(kernel_programs),
    "programs": lambda: as_user(programs),
    "sync": lambda: as_user(sync),
}

print(json.dumps({part: PARTS[part]() for part in sys.argv[1:]}))
