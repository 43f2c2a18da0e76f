"""The agent with --refuse-programs: neither it nor what it starts loads programs into the kernel, by no way."""

import platform
import shutil
import unittest

from agent_client import AgentTest

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


if __name__ == "__main__":
    unittest.main()
