"""The agent with --refuse-programs: neither it nor what it starts loads programs into the kernel, by no way, joins
multicast groups, has modules loaded or waits for the machine's disks."""

import platform
import shutil
import subprocess
import unittest

from agent_client import AgentTest, main

# Each way, and what must go on. Without the refusal socket filters and system call filters are loaded; `int 0x80` calls the 32-bit table.
PROBE = r"""
import ctypes, errno, mmap, os, platform, socket, struct
libc = ctypes.CDLL(None, use_errno=True)
def name(rc):
    return "done" if rc >= 0 else errno.errorcode[ctypes.get_errno()]
code = ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, 0x7fff0000), 8)  # lets everything through
program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", 1, ctypes.addressof(code)), 16)
where = ctypes.c_void_p(ctypes.addressof(program))
seen = []
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for option in (26, 51):
    for level in (1, 1 | 1 << 32):  # the kernel looks at the lower half only
        seen.append(name(libc.syscall(SETSOCKOPT, s.fileno(), ctypes.c_long(level), option, where, 16)))
seen.append(name(libc.prctl(22, ctypes.c_ulong(2), where, 0, 0)))
seen.append(name(libc.syscall(SECCOMP, 1, 0, where)))
seen.append(name(libc.syscall(425, 8, ctypes.create_string_buffer(120))))
s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
s.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, 26)
libc.prctl(15, b"named", 0, 0, 0)
seen.append(open("/proc/self/comm").read().strip())
if platform.machine() == "x86_64":
    page = mmap.mmap(-1, 4096, prot=7)
    page.write(bytes.fromhex("5389f889f331c931d2cd805bc3"))  # eax, ebx from the arguments, ecx and edx 0
    call = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))
    for number in (354, 102, 425):
        seen.append(errno.errorcode.get(-call(number, 99), "done"))
    seen.append(name(libc.syscall(ctypes.c_long(0x40000000 + 39))))
print(*seen)
"""
NUMBERS = {"x86_64": (54, 317), "aarch64": (208, 277)}
WANTED = ["EPERM"] * 4 + ["EINVAL", "ENOSYS", "ENOSYS", "named"]


# Joins by every option there is, of both families; the other options, and lingering. Nothing is joined by these values: without
# the refusal they say EINVAL, ENODEV or the like.
JOINS = r"""
import ctypes, errno, mmap, platform, socket, struct
libc = ctypes.CDLL(None, use_errno=True)
value = ctypes.create_string_buffer(512)
def option(sock, level, name, high=0):
    rc = libc.syscall(SETSOCKOPT, sock.fileno(), ctypes.c_long(level | high), ctypes.c_long(name | high), value, 512)
    return "done" if rc >= 0 else errno.errorcode[ctypes.get_errno()]
four = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
six = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
refused = {0: (35, 39, 41, 42, 46, 48), 41: (20, 27, 32, 42, 46, 48)}
for high in (0, 1 << 32):
    print(*(option(four if level == 0 else six, level, name, high) for level in refused for name in refused[level]))
print(*sorted({name for level, sock in ((0, four), (41, six)) for name in range(128)
               if name not in refused[level] and option(sock, level, name) == "EPERM"}))
value[:8] = struct.pack("ii", 1, 3600)
print(option(four, 1, 13), four.getsockopt(socket.SOL_SOCKET, 13, 8) == bytes(8))  # no linger
size = [four.getsockopt(socket.SOL_SOCKET, name) for name in (7, 8)]
print(option(four, 1, 7), option(four, 1, 8), size == [four.getsockopt(socket.SOL_SOCKET, name) for name in (7, 8)])
four.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 3)
print(four.getsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL))
if platform.machine() == "x86_64":
    page = mmap.mmap(-1, 4096, prot=7)
    # setsockopt of the 32-bit table: eax 366, ebx, ecx, edx from the arguments, esi and edi 0
    page.write(bytes.fromhex("53565789fb89f131f631ffb86e010000cd805f5e5bc3"))
    call = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_int)(
        ctypes.addressof(ctypes.c_char.from_buffer(page)))
    print(*(errno.errorcode.get(-call(four.fileno(), 0, name), "done") for name in (35, 2)))
"""


# Commands of ioctl that load modules; sync, which is known by what is left to be written (cachestat), if the kernel says. Others on this
# machine may call it in between: several tries.
MACHINE = r"""
import ctypes, errno, mmap, os, platform, pty, socket, struct, tempfile
libc = ctypes.CDLL(None, use_errno=True)
number = ctypes.create_string_buffer(struct.pack("i", 0))
def ioctl(fd, command):
    rc = libc.syscall(IOCTL, fd, ctypes.c_long(command), number)
    return "done" if rc >= 0 else errno.errorcode[ctypes.get_errno()]
fd, other = pty.openpty()
s = socket.socket(socket.AF_UNIX)
for high in (0, 1 << 32):
    print(ioctl(other, 0x5423 | high), *(ioctl(s.fileno(), c | high) for c in (0x8940, 0x8941, 0x8980, 0x8981, 0x8982, 0x8983, 0x89a0, 0x89a1)))
print(ioctl(other, 0x5424), os.get_terminal_size(other).lines, ioctl(s.fileno(), 0x8942))
def dirty(f):
    counts = (ctypes.c_uint64 * 5)()
    return libc.syscall(451, f.fileno(), (ctypes.c_uint64 * 2)(0, 0), counts, 0) == 0 and counts[1] > 0
def is_left(call):
    found = "unknown"
    for i in range(200):
        with tempfile.TemporaryFile() as f:
            f.write(b"x" * 65536)
            f.flush()
            if not dirty(f):
                continue
            if call() not in (0, None):
                return "failed"
            if dirty(f):
                return "left"
            found = "written"
        if i >= 10:
            break
    return found
print(is_left(os.sync))
if platform.machine() == "x86_64":
    page = mmap.mmap(-1, 4096, prot=7)
    page.write(bytes.fromhex("53b82400000031dbcd805bc3"))  # sync of the 32-bit table: eax 36, ebx 0
    print(is_left(ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))))
"""
IOCTLS = {"x86_64": 16, "aarch64": 29}

# Locks of an open file, asked for, taken and waited for; locks and commands that programs use.
LOCKS = r"""
import ctypes, errno, fcntl, mmap, os, platform, struct, tempfile
libc = ctypes.CDLL(None, use_errno=True)
f = tempfile.TemporaryFile()
seen = []
for command in (36, 37, 38, 1 << 32 | 37):
    lock = ctypes.create_string_buffer(struct.pack("hhqqi", fcntl.F_WRLCK, 0, 0, 1, 0))
    rc = libc.syscall(FCNTL, f.fileno(), ctypes.c_long(command), lock)
    seen.append("done" if rc == 0 else errno.errorcode[ctypes.get_errno()])
fcntl.lockf(f, fcntl.LOCK_EX, 1, 10)
fcntl.flock(f, fcntl.LOCK_EX)
os.close(fcntl.fcntl(f, 1030, 0)), fcntl.fcntl(f, fcntl.F_GETFL)
if platform.machine() == "x86_64":
    page = mmap.mmap(-1, 4096, prot=7)
    # eax, ebx, ecx from the arguments, edx 0: of the 32-bit table, whose lock is at address 0
    page.write(bytes.fromhex("5389f889f389d131d2cd805bc3"))
    call = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_int)(
        ctypes.addressof(ctypes.c_char.from_buffer(page)))
    seen += [errno.errorcode[-call(number, f.fileno(), 37)] for number in (55, 221)]
print(*seen)
"""
# New user namespaces by every call, alone and with other flags; other flags, threads and processes go on.
NAMESPACES = r"""
import ctypes, errno, mmap, os, platform, subprocess, threading
libc = ctypes.CDLL(None, use_errno=True)
USER = 0x10000000
def name(rc):
    return "done" if rc >= 0 else errno.errorcode[ctypes.get_errno()]
def apart(call):
    pid = os.fork()  # what is done is done to a process of its own
    if pid == 0:
        print(call(), flush=True)
        os._exit(0)
    os.waitpid(pid, 0)
def clone(flags):
    rc = libc.syscall(CLONE, ctypes.c_long(flags | 17), 0, 0, 0, 0)
    if rc == 0:
        os._exit(0)
    return name(rc)
apart(lambda: name(libc.unshare(USER)))
apart(lambda: name(libc.unshare(USER | 0x40000000)))
apart(lambda: clone(USER))
apart(lambda: clone(USER | 0x20000 | 1 << 33))  # the kernel looks at the lower half only
apart(lambda: name(libc.syscall(435, ctypes.create_string_buffer(88), 0)))  # too short for any kernel
if platform.machine() == "x86_64":
    page = mmap.mmap(-1, 4096, prot=7)
    page.write(bytes.fromhex("5389f889f331c931d2cd805bc3"))  # eax, ebx from the arguments, ecx and edx 0
    call = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))
    apart(lambda: errno.errorcode.get(-call(310, USER), "done"))
apart(lambda: name(libc.unshare(0x400)))
apart(lambda: clone(0))
thread = threading.Thread(target=lambda: print("thread", flush=True))
thread.start()
thread.join()
print(subprocess.run(["echo", "process"], capture_output=True, text=True).stdout.strip())
"""
CLONES = {"x86_64": 56, "aarch64": 220}

FCNTLS = {"x86_64": 72, "aarch64": 25}


@unittest.skipUnless(platform.machine() in NUMBERS and shutil.which("python3"), "no numbers of calls for this machine")
class Refuse(AgentTest):
    def agent_argv(self, argv):
        return [*argv, "--refuse-programs"]

    def test_every_way(self):
        first, second = NUMBERS[platform.machine()]
        text = PROBE.replace("SETSOCKOPT", str(first), 1).replace("SECCOMP", str(second), 1)
        wanted = WANTED + (["ENOSYS"] * 4 if platform.machine() == "x86_64" else [])
        pid = self.start(argv=["python3", "-c", text])
        self.assertEqual(self.wait(pid)["outcome"], "exited")
        self.assertEqual(self.process(pid, "/output").body.decode().split(), wanted)

    def test_multicast_and_linger(self):
        setsockopt, _ = NUMBERS[platform.machine()]
        argv = ["python3", "-c", JOINS.replace("SETSOCKOPT", str(setsockopt), 1)]
        free = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True).stdout.splitlines()
        pid = self.start(argv=argv)
        self.assertEqual(self.wait(pid)["outcome"], "exited")
        lines = self.process(pid, "/output").body.decode().splitlines()
        refused = " ".join(["EPERM"] * 12)
        self.assertEqual(lines[:2], [refused, refused])
        self.assertNotIn("EPERM", free[0] + free[1])
        self.assertEqual(lines[2], free[2])  # no others than those that this user may not set anyway
        self.assertEqual(lines[3:6], ["done True", "done done True", "3"])
        self.assertEqual(free[3:6], ["done False", "done done False", "3"])
        if platform.machine() == "x86_64":
            self.assertEqual(lines[6].split()[0], "EPERM")
            self.assertNotEqual(free[6].split()[0], "EPERM")
            self.assertEqual(lines[6].split()[1], free[6].split()[1])

    def test_modules_and_sync(self):
        argv = ["python3", "-c", MACHINE.replace("IOCTL", str(IOCTLS[platform.machine()]), 1)]
        free = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True).stdout.splitlines()
        pid = self.start(argv=argv)
        self.assertEqual(self.wait(pid)["outcome"], "exited")
        lines = self.process(pid, "/output").body.decode().splitlines()
        refused = " ".join(["EPERM"] * 9)
        self.assertEqual(lines[:2], [refused, refused])
        self.assertEqual([line.split()[0] for line in free[:2]], ["done", "done"])
        self.assertEqual(lines[2], free[2])
        for mine, theirs in zip(lines[3:], free[3:], strict=True):
            self.assertIn((mine, theirs), [("left", "written"), ("unknown", "unknown")])

    def test_locks_that_cannot_be_counted(self):
        argv = ["python3", "-c", LOCKS.replace("FCNTL", str(FCNTLS[platform.machine()]), 1)]
        free = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True).stdout.split()
        pid = self.start(argv=argv)
        self.assertEqual(self.wait(pid)["outcome"], "exited")
        lines = self.process(pid, "/output").body.decode().split()
        self.assertEqual(set(lines), {"EINVAL"}, lines)
        self.assertEqual(free[:4], ["done"] * 4)

    def test_user_namespaces(self):
        argv = ["python3", "-c", NAMESPACES.replace("CLONE", str(CLONES[platform.machine()]), 1)]
        free = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True).stdout.split()
        pid = self.start(argv=argv)
        self.assertEqual(self.wait(pid)["outcome"], "exited")
        lines = self.process(pid, "/output").body.decode().split()
        other = ["EPERM"] if platform.machine() == "x86_64" else []
        self.assertEqual(lines, ["EPERM"] * 4 + ["ENOSYS", *other, "done", "done", "thread", "process"])
        self.assertEqual(free[-4:], lines[-4:])
        self.assertNotEqual(free[:4], lines[:4])


if __name__ == "__main__":
    main()
