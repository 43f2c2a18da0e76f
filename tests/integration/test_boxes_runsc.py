"""Boxes by runsc (gVisor): a kernel of their own, reached through a relay, with limits that hold for
that kernel and all that runs on it together."""

import hashlib
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time

os.environ["SANDPOOL_TEST_RUNTIME"] = "runsc"

from fixtures import MIB, SLOW, at_most, in_threads, is_alive, main, wait_until  # noqa: E402
from box import JOBS  # noqa: E402
from host import group_of, has_loop_devices, processes, read_of  # noqa: E402
from oci_case import BoxCase  # noqa: E402

MEMORY = 256 * MIB
PIDS = 48
DISK = 64 * MIB
NONE = {"sandbox": [], "gofer": [], "relay": [], "connect": []}
SAME = ("box_id", "sandbox_url", "token", "generation")


def say(text):
    print(text, file=sys.stderr)


def host_only_files():
    """Of what a box sees of this machine: files that only root may read here."""
    found = subprocess.run(["find", "/usr", "-xdev", "-type", "f", "-user", "root", "!", "-perm", "/044", "-size", "+0"],
                           capture_output=True, text=True, timeout=60, check=False).stdout.split("\n")
    return [path for path in found if path]


# What root of a box can do to a socket: each must fail.
IMPOSTOR = r"""
import errno, os, socket, sys
place = sys.argv[1]
s = socket.socket(socket.AF_UNIX)
for act in (lambda: os.unlink(place), lambda: os.rename(place, place + ".old"), lambda: s.bind(place + ".new"),
            lambda: os.chmod(place, 0), lambda: os.close(os.open(place + ".file", os.O_CREAT | os.O_WRONLY))):
    try:
        act()
        print("done")
    except OSError as e:
        print(errno.errorcode[e.errno])
print(*os.listdir(os.path.dirname(place)))
"""


class RunscCase(BoxCase):
    def processes_of(self, box):
        """By kind: the kernel, the one that serves it files, those that pass on what callers say."""
        found = {"sandbox": [], "gofer": [], "relay": [], "connect": []}
        for pid in processes():
            line = read_of(pid, "cmdline").split("\0")
            if not is_alive(pid) or not any(box.box_id in word for word in line):
                continue
            if line[0] in ("runsc-sandbox", "runsc-gofer"):
                found[line[0][6:]].append(pid)
            elif line[0] == "sandpool-helper" and line[1] in found:
                found[line[1]].append(pid)
        return found

    def one(self, box, kind):
        pids = self.processes_of(box)[kind]
        self.assertEqual(len(pids), 1, (kind, pids))
        return pids[0]

    def assertLost(self, box, limit=10 * SLOW):
        wait_until(lambda: self.pool.get(f"/v1/sandboxes/{box.id}").status == 410, "it is noticed", limit)
        wait_until(lambda: box.box_id not in self.left.boxes(), "it is cleaned up", 20 * SLOW)
        self.assertEqual(self.processes_of(box), NONE)


class Life(RunscCase):
    profiles = {"default": {"warm": {"min": 1, "max": 2}}, "cold": {"warm": {"min": 0, "max": 0}},
                "rooted": {"warm": {"min": 0, "max": 0}, "user": "root"},
                "nat": {"warm": {"min": 0, "max": 0}, "network": "nat"},
                "host": {"warm": {"min": 0, "max": 0}, "network": "host"}}

    def test_a_kernel_of_its_own(self):
        box = self.acquire("kernel")
        self.assertIn("gVisor", box.sh("dmesg"))
        self.assertNotEqual(box.sh("cat /proc/version").strip(), pathlib.Path("/proc/version").read_text().strip())
        self.assertEqual(box.sh("id -un; pwd; echo $HOME; python3 -c 'print(6*7)'"), "user\n/workspace\n/home/user\n42\n")

    def test_life(self):
        box = self.acquire("life")
        box.sh("echo mine > /workspace/file")
        sleeper = box.start("sleep 300")
        self.assertEqual(self.acquire("life", "kept").box_id, box.box_id)
        self.assertOk(self.pool.release(box.id))
        back = self.acquire("life", "parked")
        self.assertEqual([back.lease[k] for k in SAME], [box.lease[k] for k in SAME])
        self.assertEqual(back.sh("cat /workspace/file"), "mine\n")
        self.assertEqual(back.process(sleeper)["outcome"], "running")
        self.assertEqual(back.run("kill -9 $$").outcome, "signalled")
        self.assertEqual(back.run("exit 7").exit_code, 7)

    def test_a_timeout_ends_daemons_too(self):
        """Those that have a session of their own and lost their parent; what another command left goes on."""
        box = self.acquire("daemons")
        sleeper = "env -i setsid sleep {} >/dev/null 2>&1 &"
        box.sh(f"({sleeper.format(1001)}); sleep 0.1")
        done = box.json("POST", "/v1/agent/exec", {"command": f"({sleeper.format(1002)}); ({sleeper.format(1003)}); echo begun; sleep 1004",
                                                   "timeout_s": 2})
        self.assertEqual((done["outcome"], done["stdout"]), ("timed_out", "begun\n"))
        self.assertEqual(box.sh("cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -o 'sleep 100[0-9]'"), "sleep 1001\n")
        self.assertEqual(box.sh("grep -h '^[UG]id' /proc/1/status | tr -s '[:space:]' ' '"), "Uid: 0 0 0 0 Gid: 0 0 0 0 ")  # as before

    def test_cold(self):
        took = []
        for i in range(5):
            begin = time.monotonic()
            box = self.acquire(f"cold-{i}", "cold", profile="cold")
            took.append((time.monotonic() - begin) * 1000)
            self.assertEqual(box.sh("echo here"), "here\n")
        say(f"cold boxes by runsc: {', '.join(f'{t:.0f}' for t in sorted(took))} ms")

    def test_a_shell_session_on_a_terminal(self):
        box = self.acquire("shell")
        first = box.json("POST", "/v1/shell/exec", {"command": "cd /tmp; export A=1; tty"})["data"]
        self.assertIn("/dev/pts/", first["output"])
        again = box.json("POST", "/v1/shell/exec", {"id": first["session_id"], "command": "pwd; echo $A"})["data"]
        self.assertIn("/tmp", again["output"])

    def test_files(self):
        box = self.acquire("files")
        box.json("POST", "/v1/file/write", {"file": "/workspace/a.txt", "content": "one\ntwo\n"})
        read = box.json("POST", "/v1/file/read", {"file": "/workspace/a.txt"})
        self.assertEqual(read["data"]["content"], "one\ntwo\n")
        self.assertEqual(box.sh("find /workspace/a.txt -printf '%u\\n'"), "user\n")
        status, _ = box.call("POST", "/v1/file/write", {"file": "/usr/nothing", "content": "x"})
        self.assertGreaterEqual(status, 400)
        box.sh("head -c 128M /dev/urandom > /workspace/big; sha256sum < /workspace/big > /tmp/sum")
        begin = time.monotonic()
        status, data = box.call("GET", "/v1/file/download?path=/workspace/big")
        say(f"download through the relay: {128 / (time.monotonic() - begin):.0f} MiB/s")
        self.assertEqual((status, len(data)), (200, 128 * MIB))
        self.assertEqual(hashlib.sha256(data).hexdigest(), box.sh("cat /tmp/sum").split()[0])

    def test_many_callers(self):
        box = self.acquire("many")
        answers = in_threads(40, lambda i: box.sh(f"echo {i}"))
        self.assertEqual(answers, [f"{i}\n" for i in range(40)])

    def test_the_token_is_needed(self):
        box = self.acquire("token")
        for target in (JOBS, "/v1/shell/sessions", "/v1/bash/sessions"):
            self.assertEqual(box.call("GET", target, token="wrong")[0], 401)
        self.assertEqual(box.call("POST", JOBS, {"command": "id"}, token="wrong")[0], 401)

    def test_host_secrets(self):
        box = self.acquire("nosy", profile="rooted")
        self.assertEqual(box.sh("id -u"), "0\n")
        shadow = pathlib.Path("/etc/shadow").read_text()
        if "$" in shadow:
            self.assertNotIn("$", box.run("cat /etc/shadow").out)
        seen = box.sh("find / -maxdepth 3 -not -path '/proc/*' -not -path '/sys/*' 2>/dev/null")
        self.assertNotIn(str(self.home), seen)
        self.assertNotIn("docker.sock", seen)
        for path in host_only_files()[:20]:
            self.assertNotEqual(box.run(["head", "-c", "1", path]).exit_code, 0, path)
        marker = f"/usr/sandpool-test-{os.getpid()}"
        self.assertNotEqual(box.run(["touch", marker]).exit_code, 0)
        self.assertFalse(os.path.exists(marker))
        others = box.sh("cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
        self.assertNotIn("sandpoold", others)

    def test_no_network(self):
        box = self.acquire("offline", profile="rooted")
        self.assertEqual(box.sh("tail -n +3 /proc/net/dev | cut -d: -f1").split(), ["lo"])
        with socket.create_server(("0.0.0.0", 0)) as server:
            port = server.getsockname()[1]
            own = [a for a in ("127.0.0.1", socket.gethostbyname(socket.gethostname())) if a]
            for address in own:
                code = f"import socket; socket.create_connection(('{address}', {port}), 2)"
                self.assertNotEqual(box.run(["python3", "-c", code]).exit_code, 0, address)

    def test_who_it_is_on_the_host(self):
        box = self.acquire("ids")
        base = int(read_of(self.one(box, "gofer"), "uid_map").split()[1])
        self.assertGreaterEqual(base, 65536)
        for kind in ("sandbox", "gofer", "relay", "connect"):
            pid = self.one(box, kind)
            status = dict(line.split(":", 1) for line in read_of(pid, "status").splitlines() if ":" in line)
            self.assertNotIn("0", status["Uid"].split(), kind)
            for fd in pathlib.Path(f"/proc/{pid}/fd").iterdir():
                target = os.readlink(fd)
                if kind not in ("relay", "connect") and target.startswith(str(self.home)):
                    self.assertEqual(os.path.basename(target), "config.json", "no lock, no record")
        for kind in ("relay", "connect"):
            pid = self.one(box, kind)
            self.assertEqual(read_of(pid, "status").count(f"\t{base}"), 8)
            self.assertEqual([os.readlink(f"/proc/{pid}/fd/{i}") for i in range(3)], ["/dev/null"] * 3)
            self.assertEqual(os.getsid(pid), pid)
            self.assertNotEqual(os.readlink(f"/proc/{pid}/ns/net"), os.readlink("/proc/self/ns/net"))
        self.assertIn("Seccomp:\t2", read_of(self.one(box, "relay"), "status"))

    def test_an_id_of_its_own(self):
        """Not that of all other boxes, and not one that its files can have."""
        seen = set()
        for name in ("first", "second"):
            box = self.acquire(name)
            base = int(read_of(self.one(box, "gofer"), "uid_map").split()[1])
            status = read_of(self.one(box, "sandbox"), "status")
            for kind in ("Uid", "Gid"):
                ids = set(status.split(f"{kind}:", 1)[1].split("\n", 1)[0].split())
                self.assertEqual(ids, {str(base + 65535)}, kind)
            self.assertEqual(read_of(self.one(box, "gofer"), "uid_map").split(), ["0", str(base), "65535"])
            seen |= ids
        self.assertEqual(len(seen), 2)

    def test_the_socket_of_the_agent_stays(self):
        """Whoever could put another in its place would be sent the box's token."""
        box = self.acquire("impostor", profile="rooted")
        place = "/.sandpool/run/agent.sock"
        seen = box.run(["python3", "-c", IMPOSTOR, place])
        self.assertEqual(seen.out.split(), ["EROFS"] * 5 + ["agent.sock"], seen.err)
        self.assertEqual(box.sh("echo served"), "served\n")

    def test_nothing_is_left(self):
        box = self.acquire("gone")
        box.start("sleep 300")
        pids = self.processes_of(box)
        self.assertEqual({k: len(v) for k, v in pids.items()}, {"sandbox": 1, "gofer": 1, "relay": 1, "connect": 1})
        port = box.url.port
        begin = time.monotonic()
        answer = self.destroy(box)
        say(f"destroyed in {(time.monotonic() - begin) * 1000:.0f} ms: {answer['report']}")
        self.assertEqual(self.processes_of(box), NONE)
        self.assertNotIn(box.box_id, self.left.boxes())
        self.assertNotIn(box.box_id, str(self.left.runtime_states()))
        self.assertNotIn(box.box_id, str(self.left.groups()))
        with self.assertRaises(OSError):
            socket.create_connection(("127.0.0.1", port), 2)
        self.assertNotIn(box.box_id, pathlib.Path("/proc/net/unix").read_text())

    def test_other_networks_are_refused_with_a_reason(self):
        for name in ("nat", "host"):
            answer = self.server.acquire(name, profile=name, wait_ms=1000)
            self.assertNotEqual(answer.status, 200)
            self.assertIn("only `network: none`", str(answer.json) + self.log_tail())


class Death(RunscCase):
    def test_the_sandbox_is_killed(self):
        box = self.acquire("one")
        os.kill(self.one(box, "sandbox"), signal.SIGKILL)
        self.assertLost(box)
        self.assertEqual(self.acquire("one").lease["generation"], 2)

    def test_the_agent_is_killed(self):
        box = self.acquire("two")
        try:
            box.call("POST", JOBS, {"command": "kill -9 1; kill -15 1; sleep 20", "user": "root"})
        except OSError:
            pass
        self.assertLost(box, 30 * SLOW)

    def test_the_gofer_is_killed(self):
        box = self.acquire("three")
        os.kill(self.one(box, "gofer"), signal.SIGKILL)
        self.assertLost(box, 30 * SLOW)

    def test_the_relay_is_killed(self):
        box = self.acquire("four")
        self.assertEqual(self.init_of(box), self.one(box, "relay"))  # it is what is watched
        os.kill(self.one(box, "relay"), signal.SIGKILL)
        self.assertLost(box)
        self.assertEqual(self.acquire("four").sh("echo again"), "again\n")

    def test_the_connector_is_killed(self):
        box = self.acquire("five")
        os.kill(self.one(box, "connect"), signal.SIGKILL)
        self.assertLost(box)


class Restart(RunscCase):
    def check(self, end):
        box = self.acquire("lives")
        box.sh("echo kept > /workspace/file")
        counter = box.start("i=0; while :; do i=$((i+1)); echo $i; sleep 0.1; done")
        pids = self.processes_of(box)
        end()
        self.assertEqual(box.sh("echo alone"), "alone\n")
        self.server.start()
        type(self).pool = self.server.client()
        self.addCleanup(self.pool.close)
        back = self.acquire("lives", "kept")
        self.assertEqual([back.lease[k] for k in SAME], [box.lease[k] for k in SAME])
        self.assertEqual(self.processes_of(box), pids)
        before = back.process(counter)
        self.assertEqual(before["outcome"], "running")
        wait_until(lambda: back.process(counter)["stdout"]["size"] > before["stdout"]["size"], "it goes on")
        self.assertEqual(back.sh("cat /workspace/file"), "kept\n")
        os.kill(self.one(box, "sandbox"), signal.SIGKILL)  # the next daemon watches it, too
        self.assertLost(box)

    def test_kill_9(self):
        self.check(self.server.kill)

    def test_stop(self):
        self.check(self.server.stop)


class Limits(RunscCase):
    profiles = {"default": {"warm": {"min": 0, "max": 0},
                            "limits": {"memory": MEMORY, "pids": PIDS, "disk": DISK, "cpus": 0.5}}}

    def in_group(self, box, controller, name):
        return (group_of(self.instance, box.box_id, controller) / name).read_text().split()

    def test_all_of_it_is_in_the_group(self):
        box = self.acquire("in")
        members = set(map(int, self.in_group(box, "pids", "cgroup.procs")))
        self.assertIn(self.one(box, "sandbox"), members)
        self.assertIn(self.one(box, "gofer"), members)
        self.assertIn(self.one(box, "relay"), members)
        text = read_of(self.one(box, "sandbox"), "cgroup")
        self.assertGreaterEqual(text.count(f"/sandpool-{self.instance}/{box.box_id}"), 1)

    def test_as_many_processes_as_it_may_have(self):
        box = self.acquire("crowd")
        self.assertEqual(box.sh(f"for i in $(seq {PIDS - 8}); do sleep 2 & done; wait; echo all"), "all\n")

    def test_out_of_memory_ends_the_box_only(self):
        box = self.acquire("greedy")
        neighbour = self.acquire("neighbour")
        with self.assertRaises((OSError, AssertionError)):
            box.sh(["python3", "-c", "x = b'x' * (1 << 30)"])
        self.assertLost(box)
        self.assertEqual(neighbour.sh("echo calm"), "calm\n")

    def test_fork_bomb(self):
        """It meets its limit, and may take its own kernel along; nobody else feels it."""
        box = self.acquire("bomber")
        most = int(self.in_group(box, "pids", "pids.max")[0])
        neighbour = self.acquire("neighbour2")
        box.start("bomb() { bomb | bomb & }; bomb; sleep 300")
        for _ in range(10):
            begin = time.monotonic()
            self.assertTrue(self.server.answers())
            subprocess.run(["true"], check=True, timeout=30)
            self.assertLess(time.monotonic() - begin, at_most(2))
            try:
                self.assertLessEqual(int(self.in_group(box, "pids", "pids.current")[0]), most)
            except OSError:
                break  # the box has ended, and its group with it
            time.sleep(0.2)
        self.assertEqual(neighbour.sh("echo calm"), "calm\n")
        self.pool.delete(f"/v1/sandboxes/{box.id}")
        wait_until(lambda: box.box_id not in self.left.boxes(), "gone", 20 * SLOW)

    def test_processors(self):
        box = self.acquire("busy")
        pid = box.start("while :; do :; done")
        time.sleep(3)
        used = sum(sum(map(int, read_of(p, "stat").rsplit(")", 1)[1].split()[11:13]))
                   for p in map(int, self.in_group(box, "pids", "cgroup.procs")))
        time.sleep(2)
        used = sum(sum(map(int, read_of(p, "stat").rsplit(")", 1)[1].split()[11:13]))
                   for p in map(int, self.in_group(box, "pids", "cgroup.procs"))) - used
        share = used / os.sysconf("SC_CLK_TCK") / 2
        say(f"half a processor: {share:.2f}")
        self.assertLess(share, 0.75)
        box.call("DELETE", f"{JOBS}/{pid}")

    def test_disk(self):
        if not has_loop_devices():
            self.skipTest("no loop devices: disks are not limited")
        box = self.acquire("hoarder")
        self.assertIn("No space left", box.run("head -c 200M /dev/zero > /workspace/big").err)
        ended = box.run("head -c 10M /dev/zero > /.sandpool/run/big", user="root")
        self.assertNotEqual(ended.exit_code, 0, "the place of the socket has no room for more")
        self.assertEqual(box.sh("rm /workspace/big; echo fine"), "fine\n")


if __name__ == "__main__":
    main()
