"""Tries to get out of where it runs. test_escape.py runs it in boxes, and on the host to see that each attempt would
be noticed if it worked. Each argument is JSON: [name, arguments...]; prints a list of what came of them.

An attempt is worth something only if it does no harm where it works: it opens and does not write, calls with
arguments that fail in another way than by refusal, or undoes what it did."""

import ctypes
import errno
import fcntl
import json
import os
import platform
import select
import signal
import socket
import stat
import struct
import subprocess
import sys
import time

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
IS_ARM = platform.machine() == "aarch64"
PROBES = {}

# name: (number on x86-64, on aarch64, arguments). As root of the host they fail, but never with EPERM.
CALLS = {
    "open_by_handle_at": (304, 265, (-1, 1, 0)),
    "setns": (308, 268, (-1, 0)),
    "fsopen": (430, 430, (1, 0)),
    "open_tree": (428, 428, (-1, 1, 0)),
    "move_mount": (429, 429, (-1, 1, -1, 1, 0)),
    "mount_setattr": (442, 442, (-1, 1, 0, 1, 64)),
    "pivot_root": (155, 41, (1, 1)),
    "init_module": (175, 105, (1, 1, 1)),
    "finit_module": (313, 273, (-1, 1, 0)),
    "delete_module": (176, 106, (1, 0)),
    "kexec_load": (246, 104, (0, 99, 0, 0)),
    "kexec_file_load": (320, 294, (-1, -1, 0, 0, 0)),
    "reboot": (169, 142, (0, 0, 0, 0)),
    "swapon": (167, 224, (1, 0)),
    "swapoff": (168, 225, (1,)),
    "clock_settime": (227, 112, (0, 1)),
    "settimeofday": (164, 170, (1, 0)),
    "bpf": (321, 280, (99, 0, 0)),
    "perf_event_open": (298, 241, (1, 0, -1, -1, 0)),
    "io_uring_setup": (425, 425, (1, 0)),
    "io_uring_enter": (426, 426, (-1, 0, 0, 0, 0, 0)),
    "io_setup": (206, 0, (1, 1)),
    "userfaultfd": (323, 282, (1 << 20,)),
    "keyctl": (250, 219, (0, -2, 0)),
    "add_key": (248, 217, (1, 1, 0, 0, -2)),
    "request_key": (249, 218, (1, 1, 0, 0)),
    "fanotify_init": (300, 262, (1 << 30, 0)),
    "quotactl": (179, 60, (0, 1, 0, 0)),
    "acct": (163, 89, (1,)),
    "syslog": (103, 116, (10, 0, 0)),
    "sethostname": (170, 161, (1, 4)),
    "migrate_pages": (256, 238, (0, 0, 1, 1)),
    "clone3": (435, 435, (1, 88)),
}


def probe(function):
    PROBES[function.__name__] = function
    return function


def name_of(code):
    return errno.errorcode.get(code, str(code))


def call(number, *args):
    ctypes.set_errno(0)
    result = libc.syscall(ctypes.c_long(number), *[
        a if isinstance(a, bytes) or a is None else ctypes.c_ulong(a & (1 << 64) - 1) for a in args])
    return name_of(ctypes.get_errno()) if result == -1 else "done"


def outcome(function, *args):
    """"done", or the name of the error."""
    try:
        function(*args)
        return "done"
    except OSError as e:
        return name_of(e.errno)


def opens(path, flags):
    return outcome(lambda: os.close(os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)))


def apart(function):
    """In a child, for what changes the process that tries it."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(write, json.dumps(function()).encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as f:
        text = f.read()
    os.waitpid(pid, 0)
    return json.loads(text) if text else "died"


# --- the host's files ---

def ways_to(path):
    yield path
    yield "/.." * 30 + path
    for pid in ["self", "1", *[p for p in os.listdir("/proc") if p.isdigit()]]:
        yield f"/proc/{pid}/root{path}"
        yield f"/proc/{pid}/cwd" + "/.." * 30 + path
    for fd in range(3, 30):  # as the options of the overlay are called
        yield f"/proc/self/fd/{fd}" + "/.." * 30 + path


def read_text(path):
    try:
        with open(path, errors="replace") as f:
            return f.read(65536)
    except OSError:
        return ""


@probe
def find_secret(path, secret):
    """The ways on which this file of the host can be read."""
    return [way for way in ways_to(path) if secret in read_text(way)]


@probe
def find_after_chroot(path, secret):
    """The oldest trick: a root below an open directory, then up from there."""
    def climb():
        top = os.open("/", os.O_RDONLY)
        os.makedirs("/tmp/.escape", exist_ok=True)
        os.chroot("/tmp/.escape")
        os.fchdir(top)
        for _ in range(30):
            os.chdir("..")
        os.chroot(".")
        return secret in read_text(path)
    return apart(climb)


@probe
def grep_tree(text, tops):
    """Files below that hold or are called this, on the same file system (of which runsc shows only one)."""
    found = []
    for top in tops:
        device = os.stat(top).st_dev
        for here, dirs, files in os.walk(top):
            paths = {d: os.path.join(here, d) for d in dirs}
            dirs[:] = [d for d, p in paths.items() if os.lstat(p).st_dev == device and p not in ("/usr", "/proc", "/sys")]
            for name in files:
                path = os.path.join(here, name)
                if text in name or (os.path.isfile(path) and text in read_text(path)):
                    found.append(path)
    return found


@probe
def handle_of(path):
    handle = ctypes.create_string_buffer(struct.pack("=Ii", 128, 0) + bytes(128))
    mount = ctypes.create_string_buffer(8)
    return call(264 if IS_ARM else 303, -100, path.encode(), ctypes.addressof(handle), ctypes.addressof(mount), 0)


@probe
def make_device(major, minor, kind, where):
    path = os.path.join(where, f".escape-{os.getpid()}")
    mode = (stat.S_IFBLK if kind == "b" else stat.S_IFCHR) | 0o600
    made = outcome(os.mknod, path, mode, os.makedev(major, minor))
    if made == "done":
        os.unlink(path)
    return made


@probe
def devices():
    return sorted(name for name in os.listdir("/dev") if not os.path.isdir(f"/dev/{name}"))


# --- processes ---

@probe
def sees_process(text):
    return [p for p in os.listdir("/proc") if p.isdigit() and int(p) != os.getpid() and
            text in read_text(f"/proc/{p}/cmdline")]


@probe
def touch_process(pid):
    return {"kill": outcome(os.kill, pid, 0), "pidfd": outcome(lambda: os.close(os.pidfd_open(pid))),
            "affinity": outcome(os.sched_getaffinity, pid), "priority": outcome(os.getpriority, 0, pid)}


@probe
def look_into(pid):
    """What a tracer may do."""
    data = ctypes.create_string_buffer(64)
    local = struct.pack("=QQ", ctypes.addressof(data), 8)
    remote = struct.pack("=QQ", 0x400000, 8)
    seen = {name: opens(f"/proc/{pid}/{name}", os.O_RDONLY) for name in ("environ", "mem", "maps", "auxv")}
    seen.update({f"{name} link": outcome(os.readlink, f"/proc/{pid}/{name}")
                 for name in ("cwd", "root", "exe", "fd/0", "fd/3", "fd/4", "ns/net", "ns/user")})
    seen["mem for writing"] = opens(f"/proc/{pid}/mem", os.O_RDWR)
    seen["lock"] = opens(f"/proc/{pid}/fd/4", os.O_RDONLY)
    seen["attach"] = apart(lambda: call(117 if IS_ARM else 101, 0x4206, pid, 0, 0))  # PTRACE_SEIZE
    seen["vm_readv"] = call(270 if IS_ARM else 310, pid, local, 1, remote, 1, 0)
    seen["vm_writev"] = call(271 if IS_ARM else 311, pid, local, 1, remote, 1, 0)
    handle = os.pidfd_open(pid)
    for fd in (0, 3, 4):
        seen[f"getfd {fd}"] = call(438, handle, fd, 0)
    return seen


@probe
def look_into_own():
    """The same with a child of one's own: shows that look_into() can succeed."""
    child = subprocess.Popen(["sleep", "60"])
    time.sleep(0.1)
    try:
        return look_into(child.pid)
    finally:
        child.kill()
        child.wait()


@probe
def signals_to(pid, numbers):
    return {str(n): outcome(os.kill, pid, n) for n in numbers}


@probe
def descriptors():
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            found[name] = os.readlink(f"/proc/self/fd/{name}")
        except OSError:
            pass  # that of the listing
    return found


@probe
def rights():
    return dict(line.split(":\t", 1) for line in read_text("/proc/self/status").splitlines()
                if line.startswith(("Cap", "NoNewPrivs", "Seccomp:", "Uid", "Groups")))


@probe
def run_setuid(where):
    """A copy of `id` with the setuid bit, as root makes it for others."""
    path = os.path.join(where, "escape-id")
    with open("/usr/bin/id", "rb") as source, open(path, "wb") as target:
        target.write(source.read())
    os.chmod(path, 0o6755)

    def as_other():
        os.setgroups([])
        os.setgid(1000)
        os.setuid(1000)
        return subprocess.run([path, "-u"], capture_output=True, text=True).stdout.strip()
    return apart(as_other)


# --- settings of the kernel ---

@probe
def writable_below(tops):
    """Files that would take a write. Opened only; asked first, because most are refused."""
    found = []
    for top in tops:
        for here, dirs, files in os.walk(top):
            found.extend(p for p in (os.path.join(here, n) for n in files)
                         if not os.path.islink(p) and opens(p, os.O_WRONLY) == "done")
            found.extend(here for _ in (1,) if os.access(here, os.W_OK))
    return found


@probe
def open_for_writing(paths):
    return {p: opens(p, os.O_WRONLY) for p in paths}


@probe
def change_files(directory, program):
    """Everything that would change a read-only tree."""
    new = os.path.join(directory, ".escape-new")
    return {"create": outcome(lambda: os.close(os.open(new, os.O_CREAT | os.O_WRONLY))),
            "mkdir": outcome(os.mkdir, new), "link": outcome(os.link, program, new),
            "write": opens(program, os.O_WRONLY), "truncate": outcome(os.truncate, program, 0),
            "chmod": outcome(os.chmod, program, 0o777), "chown": outcome(os.chown, program, 0, 0),
            "times": outcome(os.utime, program, (0, 0)), "rename": outcome(os.rename, program, new),
            "unlink": outcome(os.unlink, program),
            "xattr": outcome(os.setxattr, program, "user.escape", b"1")}


# --- mounts, namespaces, calls ---

@probe
def mounts():
    """The older interface with arguments that are right."""
    tries = {"tmpfs": (b"none", b"/tmp", b"tmpfs", 0), "proc": (b"none", b"/tmp", b"proc", 0),
             "sysfs": (b"none", b"/tmp", b"sysfs", 0), "cgroup": (b"none", b"/tmp", b"cgroup2", 0),
             "debugfs": (b"none", b"/tmp", b"debugfs", 0), "devtmpfs": (b"none", b"/tmp", b"devtmpfs", 0),
             "overlay": (b"none", b"/tmp", b"overlay", 0), "bind": (b"/etc", b"/tmp", None, 0x1000),
             "usr rw": (b"none", b"/usr", None, 0x20 | 0x1000), "proc/sys rw": (b"none", b"/proc/sys", None, 0x1020),
             "cgroup rw": (b"none", b"/sys/fs/cgroup", None, 0x1020), "root shared": (b"none", b"/", None, 1 << 20)}
    seen = {name: call(40 if IS_ARM else 165, source, target, kind, flags, None)
            for name, (source, target, kind, flags) in tries.items()}
    for target in ("/proc/keys", "/proc/sys", "/sys/firmware", "/sys/fs/cgroup", "/usr", "/proc"):
        seen[f"umount {target}"] = call(39 if IS_ARM else 166, target.encode(), 2)
    return seen


@probe
def namespaces():
    kinds = {"mount": 0x20000, "cgroup": 0x2000000, "uts": 0x4000000, "ipc": 0x8000000, "user": 0x10000000,
             "pid": 0x20000000, "net": 0x40000000, "time": 0x80}
    seen = {f"unshare {k}": apart(lambda f=f: call(97 if IS_ARM else 272, f)) for k, f in kinds.items()}
    for k, f in kinds.items():
        if k != "time":  # its bit is part of the signal there
            seen[f"clone {k}"] = apart(lambda f=f: clone(f))
    for k in ("mnt", "net", "user", "pid"):
        seen[f"setns {k}"] = apart(lambda k=k: join(f"/proc/self/ns/{k}"))
    return seen


def clone(flags):
    ctypes.set_errno(0)
    pid = libc.syscall(ctypes.c_long(220 if IS_ARM else 56), ctypes.c_ulong(flags | signal.SIGCHLD), 0, 0, 0, 0)
    if pid == 0:
        os._exit(0)
    return name_of(ctypes.get_errno()) if pid < 0 else "done"


def join(path):
    fd = os.open(path, os.O_RDONLY)
    return call(268 if IS_ARM else 308, fd, 0)


@probe
def calls():
    seen = {}
    for name, (x86, arm, args) in CALLS.items():
        seen[name] = apart(lambda n=arm if IS_ARM else x86, a=args: call(n, *a))
    return seen


# --- the network ---

@probe
def connect(family, address, send=""):
    kinds = {"tcp": socket.AF_INET, "tcp6": socket.AF_INET6, "unix": socket.AF_UNIX}
    s = socket.socket(kinds[family], socket.SOCK_STREAM)
    s.settimeout(2)
    try:
        s.connect(tuple(address) if isinstance(address, list) else address.replace("@", "\0", 1))
        if send:
            s.sendall(send.encode())
        return s.recv(4096).decode(errors="replace")
    except OSError as e:
        return name_of(e.errno) if e.errno else "timeout"
    finally:
        s.close()


@probe
def sockets():
    kinds = {"packet": (17, 3, 0), "raw icmp": (2, 3, 1), "raw": (2, 3, 255), "raw6": (10, 3, 58), "vsock": (40, 1, 0),
             "alg": (38, 5, 0), "bluetooth": (31, 3, 1), "key": (15, 3, 2), "can": (29, 3, 1), "rds": (21, 5, 0),
             "xdp": (44, 3, 0)}
    return {k: outcome(lambda a=a: socket.socket(*a).close()) for k, a in kinds.items()}


@probe
def change_network():
    """RTM_NEWLINK: a new dummy interface; RTM_NEWADDR on lo."""
    seen = {}
    for name, kind, body in (("link", 16, struct.pack("=BxHiII", 0, 0, 0, 0, 0) + rta(3, b"escape0\0") +
                              rta(18, rta(1, b"dummy\0"))),
                             ("address", 20, struct.pack("=BBBBi", 2, 32, 0, 0, 1) + rta(2, bytes([127, 9, 9, 9])))):
        s = socket.socket(16, 3, 0)
        s.settimeout(2)
        s.send(struct.pack("=IHHII", 16 + len(body), kind, 0x605, 1, 0) + body)
        code = -struct.unpack_from("=i", s.recv(4096), 16)[0]
        seen[name] = name_of(code) if code else "done"
        s.close()
    return seen


def rta(kind, data):
    return struct.pack("=HH", 4 + len(data), kind) + data + bytes(-len(data) % 4)


@probe
def interfaces():
    return sorted(name for _, name in socket.if_nameindex())


# --- what is shared ---

@probe
def watch(directory, seconds, name, said):
    """Does anybody else's opening of directory/name show here? Writes `said` when it is ready."""
    fd = libc.inotify_init1(os.O_CLOEXEC)
    libc.inotify_add_watch(fd, directory.encode(), 0x20)  # IN_OPEN
    print(said, flush=True)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if select.select([fd], [], [], 0.1)[0] and name.encode() + b"\0" in os.read(fd, 65536):
            return True
    return False


@probe
def hold_lock(path, seconds, said):
    with open(path, "rb") as f:
        fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
        print(said, flush=True)
        time.sleep(seconds)


@probe
def leave_shared(key, text):
    """Memory, semaphores and a message by this key."""
    ident = libc.shmget(key, 4096, 0o1666)
    libc.shmat.restype = ctypes.c_void_p
    ctypes.memmove(libc.shmat(ident, None, 0), text.encode(), len(text))
    libc.semget(key, 1, 0o1666)
    with open(f"/dev/shm/{text}", "w") as f:
        f.write(text)
    return [ident >= 0, *find_shared(key, text)]


@probe
def find_shared(key, text):
    return [libc.shmget(key, 0, 0) >= 0, libc.semget(key, 0, 0) >= 0, os.path.exists(f"/dev/shm/{text}")]


@probe
def drop_shared(key, text):
    libc.shmctl(libc.shmget(key, 0, 0), 0, None)
    libc.semctl(libc.semget(key, 0, 0), 0, 0)
    os.unlink(f"/dev/shm/{text}")


# --- what is hard to remove ---

@probe
def litter(where, outside, depth, count):
    """A tree that a careless remover follows, chokes on, or never ends with."""
    top = os.path.join(where, "litter")
    os.mkdir(top)
    here = os.open(top, os.O_RDONLY)
    for i in range(depth):
        os.mkdir("d" * 200 if i % 2 else ".sandpool-deep.0", dir_fd=here)
        below = os.open("d" * 200 if i % 2 else ".sandpool-deep.0", os.O_RDONLY | os.O_NOFOLLOW, dir_fd=here)
        os.symlink(outside, "up", dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    for i in range(count):
        os.close(os.open(f"{top}/{i}", os.O_CREAT | os.O_WRONLY))
    for name in (b"new\nline", b"\xff\xfe\x01\x1b[2J", b"x" * 255, b"lock", b"box.json", b"-rf", b" ", b"..."):
        os.close(os.open(os.path.join(top.encode(), name), os.O_CREAT | os.O_WRONLY))
    os.symlink(outside, f"{where}/to-outside")
    os.symlink("/", f"{top}/to-root")
    os.symlink("loop", f"{top}/loop")
    os.mkfifo(f"{top}/fifo")
    socket.socket(socket.AF_UNIX).bind(f"{where}/socket")
    os.mkdir(f"{top}/closed")
    os.mkdir(f"{top}/closed/inner")
    os.chmod(f"{top}/closed", 0)
    os.chmod(f"{top}/0", 0o6755)
    os.link(f"{top}/0", f"{top}/again")
    with open(f"{top}/sparse", "wb") as f:
        f.truncate(1 << 40)
    with open(f"{top}/fast", "wb") as f:  # FS_IMMUTABLE_FL, FS_APPEND_FL
        flags = {n: outcome(fcntl.ioctl, f, 0x40086602, struct.pack("=L", n)) for n in (0x10, 0x20)}
    return {**flags, "whiteout": make_device(0, 0, "c", top),
            "overlay": outcome(os.setxattr, top, "trusted.overlay.redirect", b"/")}


def main():
    os.dup2(1, 2)  # what goes wrong is seen by the caller
    print("\n" + json.dumps([PROBES[name](*args) for name, *args in map(json.loads, sys.argv[1:])]))


main()
