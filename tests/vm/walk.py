#!/usr/bin/env python3
"""walk.py IMAGE BUILD SOURCE [STEP...]: installs BUILD on a machine with systemd and control groups of version 2, and walks
through what such a machine does with it. A line for each step; the last is `N passed, N failed`. With names of
steps only those (and the install); any other test of boxes can be named, too: test_boxes_late:crun."""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback

from machine import Failed, Machine, make_payload

CONFIG = """
pool: {default_wait_ms: 300000}
profiles:
  default: {backend: oci, warm: {min: 1, max: 2}, limits: {memory: 256M, cpus: 1, pids: 100, disk: 200M}}
  by-runc: {backend: oci, runtime: runc, warm: {min: 0, max: 0}, limits: {memory: 128M, cpus: 0.5, pids: 64}}
  by-crun: {backend: oci, runtime: crun, warm: {min: 0, max: 0}, limits: {memory: 128M, cpus: 0.5, pids: 64}}
  online: {backend: oci, network: nat, warm: {min: 0, max: 0}}
  kept: {backend: oci, durable: true, warm: {min: 0, max: 0}, limits: {memory: 128M, disk: 64M}, ttl_s: 7200, park_timeout_s: 7200}
  asleep: {backend: oci, park: snapshot, park_timeout_s: 0, warm: {min: 0, max: 0}, limits: {memory: 128M, disk: 64M}}
  frozen: {backend: oci, park: freeze, warm: {min: 0, max: 0}, limits: {memory: 256M, disk: 200M}}
"""
SLOW = os.environ.get("SANDPOOL_TEST_SLOW", "5")  # of the tests of boxes
ALICE = "runuser -u alice -- env XDG_RUNTIME_DIR=/run/user/$(id -u alice) HOME=/home/alice"
BOX_TESTS = ("test_boxes_limits", "test_boxes_hoard", "test_boxes_sockets", "test_boxes_kernel", "test_escape",
             "test_boxes_kinds", "test_boxes_restart", "test_boxes")  # the longest last
# With runc, by which `./dev test` makes all of its boxes, not all of them again: what the control groups, this kernel
# and the runtime's own part of a box (namespaces, filter, guard) could make different. Each takes minutes here.
RUNC_CASES = {"test_boxes_limits": (), "test_boxes_sockets": ("Floods",), "test_boxes_kernel": ("PerUser", "Netlink"),
              "test_escape": ("Kernel", "Processes"), "test_boxes": ("Life",)}
BOX_TEST_S = 1500


class Walk:
    def __init__(self, machine):
        self.m = machine
        self.boot_time = 0

    # -- what steps share --

    def expect(self, is_so, what):
        if not is_so:
            raise Failed(what)

    def equal(self, seen, wanted, what):
        self.expect(seen == wanted, f"{what}: {seen!r}, not {wanted!r}")

    def configure(self, text):
        self.m.run(f"cat >/etc/sandpool/config.yaml <<'END'\n{text}\nEND\nsystemctl restart sandpoold")

    def sandpool(self, words, prefix=""):
        return json.loads(self.m.run(f"{prefix} sandpool {words} --json"))

    def group(self, lease):
        return f"/sys/fs/cgroup/sandpool-*/{lease['box_id']}"

    def main_pid(self):
        return int(self.m.run("systemctl show -P MainPID sandpoold"))

    def journal(self, since, words=""):
        return self.m.run(f"journalctl --sync; journalctl -q -u sandpoold --since={since if since[0] == '-' else '@' + since} {words}")

    def now(self):
        """For journal(). Not a cursor: where that entry is not of the unit, the next one is left out (systemd 252)."""
        return self.m.run("date +%s.%6N").strip()

    def same_box(self, lease, thread):
        """The thread still has its box, which still runs and has its file."""
        again = self.sandpool(f"acquire {thread}")
        self.equal((again["box_id"], again["source"]), (lease["box_id"], "kept"), "the box of the thread")
        self.equal(self.m.run(f"sandpool run --keep --thread {thread} -- cat /workspace/mine 2>/dev/null"), "mine\n", "its file")

    # -- the steps, in this order --

    def step_install(self):
        """a fresh install starts by `systemctl start`, with the configuration that came with it"""
        self.m.run("mkdir /root/payload && tar -C /root/payload -xf /dev/vdb && cp -a /root/payload/install/. /")
        self.m.run("systemctl daemon-reload; ! getent group sandpool")
        self.m.run("systemctl start sandpoold")
        self.equal(self.m.run("systemctl is-active sandpoold").strip(), "active", "the service")
        self.equal(self.m.run("stat -c '%U %G %a' /run/sandpool/sandpool.sock").strip(), "root sandpool 660", "socket")
        # The first box takes longer than callers wait by default where the processor is emulated on a busy machine.
        self.equal(self.m.until("sandpool run -- python3 -c 'print(6*7)'", 300), "42\n", "what a box prints")

    def step_configure(self):
        """the configuration of the next steps"""
        self.configure(CONFIG)

    def step_socket(self):
        """sandpoold.socket starts the service, also where the group is missing"""
        self.m.run("systemctl stop sandpoold; groupdel sandpool; systemctl start sandpoold.socket")
        self.equal(self.m.run("stat -c '%U %G %a' /run/sandpool/sandpool.sock").strip(), "root sandpool 660", "socket")
        self.m.run("sandpool pool")
        self.m.run("systemctl stop sandpoold.socket sandpoold; systemctl start sandpoold")

    def step_doctor(self):
        """`sandpool doctor` finds version 2, and both runtimes work"""
        text = self.m.run("sandpool doctor")
        for line in ("control groups +version 2", "ok +runtime crun", "ok +runtime runc", "ok +disk limits"):
            self.expect(re.search(line, text), f"no '{line}' in\n{text}")

    def step_runtimes(self):
        """boxes by crun (chosen first), and by runc"""
        for profile, runtime in (("default", "crun"), ("by-runc", "runc"), ("by-crun", "crun")):
            begin = time.monotonic()
            lease = self.sandpool(f"acquire {profile} --profile {profile}")
            record = json.loads(self.m.run(f"cat /var/lib/sandpool/oci/boxes/{lease['box_id']}/box.json"))
            self.equal(os.path.basename(record["runtime"]), runtime, f"the runtime of {profile}")
            print(f"        {profile}: {lease['source']} in {time.monotonic() - begin:.1f} s", flush=True)
            self.m.run(f"sandpool destroy {lease['sandbox_id']}")

    def step_limits(self):
        """exact limits in the control group, by either runtime"""
        for runtime in ("crun", "runc"):
            lease = self.sandpool(f"acquire limits --profile by-{runtime}")
            seen = self.m.run(f"cd {self.group(lease)} && cat memory.max memory.swap.max pids.max cpu.max").split("\n")
            self.equal(seen[:4], [str(128 << 20), "0", "64", "50000 100000"], runtime)
            self.equal(self.m.run(f"find {self.group(lease)} ! -user root"), "", "files that are not root's")
            inside = self.m.run(f"for p in $(cat {self.group(lease)}/cgroup.procs); do cat /proc/$p/comm; done").split()
            self.equal(sorted(inside), ["agent", "sandpool-guard", "sandpool-relay"], "processes in the group")
            self.equal(self.m.run("sandpool run --keep --thread limits -- cat /proc/self/cgroup /proc/1/cgroup 2>/dev/null"),
                       "0::/\n0::/\n", "where the box is, as it sees it")
            self.m.run(f"sandpool destroy {lease['sandbox_id']}")

    def step_reload(self):
        """limits stay when systemd reads its units again, starts anew, or has units with limits of their own"""
        lease = self.sandpool("acquire reload --profile by-crun")
        files = f"cd {self.group(lease)} && cat memory.max memory.swap.max pids.max cpu.max cpuset.cpus cgroup.controllers"
        before = self.m.run(files)
        for command in ("systemctl daemon-reload", "systemctl daemon-reexec",
                        "systemd-run --wait -q -p CPUQuota=20% -p MemoryMax=50M -p AllowedCPUs=0 true"):
            self.m.run(command)
            self.equal(self.m.run(files), before, command)
        self.m.run("sandpool destroy reload")

    def step_oom(self):
        """a command that takes too much memory ends as such, the box stays; swap gives nothing on top"""
        self.m.run("fallocate -l 512M /swap; chmod 600 /swap; mkswap -q /swap; swapon /swap")
        for runtime in ("crun", "runc"):
            status, text = self.m.run(f"sandpool run --keep --thread oom-{runtime} --profile by-{runtime} --"
                                      " python3 -c \"x = b'x' * (1 << 30)\"", check=False)
            self.expect(status == 137 and "memory" in text, f"{runtime}: {status} {text}")
            peaks = self.m.run("cat /sys/fs/cgroup/sandpool-*/*/memory.swap.current").split()
            self.equal(set(peaks), {"0"}, "swap in use by boxes")
            self.equal(self.m.run(f"sandpool run --thread oom-{runtime} -- echo fine"), "fine\n", runtime)
            self.m.run(f"sandpool destroy oom-{runtime}")
        self.m.run("swapoff /swap; rm /swap")

    def step_crash(self):
        """leased boxes outlive kill -9 of the daemon, a restart, and SIGKILL for the whole service"""
        lease = self.sandpool("acquire survivor")
        self.m.run("sandpool run --keep --thread survivor -- sh -c 'echo mine > /workspace/mine'")
        for command in ("systemctl kill -s KILL --kill-who=main sandpoold", "systemctl restart sandpoold",
                        "systemctl kill -s KILL sandpoold", "systemctl stop sandpoold; systemctl start sandpoold"):
            before = self.main_pid()
            self.m.run(command)
            self.m.until(f"p=$(systemctl show -P MainPID sandpoold); test $p != 0 -a $p != {before} &&"
                         " systemctl is-active sandpoold && sandpool pool")
            self.same_box(lease, "survivor")
        self.m.run("sandpool destroy survivor")

    def step_upgrade(self):
        """SIGUSR2, then stop and restart end the successor in order: no SIGKILL"""
        lease = self.sandpool("acquire upgrader")
        self.m.run("sandpool run --keep --thread upgrader -- sh -c 'echo mine > /workspace/mine'")
        for command in ("systemctl stop sandpoold", "systemctl restart sandpoold"):
            self.m.run("systemctl start sandpoold")
            before = self.main_pid()
            since = self.now()
            self.m.run("systemctl kill -s USR2 --kill-who=main sandpoold")
            self.m.until(f"p=$(systemctl show -P MainPID sandpoold); test $p != 0 -a $p != {before} && ! test -d"
                         f" /proc/{before}")
            pid = self.main_pid()
            self.equal(self.m.run(f"ps -o ppid= -p {pid}").strip(), "1", "the parent of the main process")
            self.same_box(lease, "upgrader")
            self.m.run(command)
            said = self.journal(since)
            self.expect("SIGKILL" not in said and "not our child" not in said, said)
            self.expect(re.search(rf"sandpoold\[{pid}\]: .*event=daemon.stopped status=0", said), said)
            self.equal(self.m.run("systemctl show -P Result sandpoold").strip(), "success", "result of the service")
        self.same_box(lease, "upgrader")
        self.m.run("sandpool destroy upgrader")

    def step_journal(self):
        """lines in the journal have their priorities"""
        since = self.now()
        self.m.run("cp /etc/sandpool/config.yaml /root/good; echo '{' > /etc/sandpool/config.yaml;"
                   " systemctl kill -s HUP --kill-who=main sandpoold")
        try:
            self.m.until(f"journalctl -q -u sandpoold --since=@{since} -p err | grep config.reload_failed")
        finally:
            self.m.run("cp /root/good /etc/sandpool/config.yaml; systemctl restart sandpoold")
        wanted = {"debug": "7", "info": "6", "warn": "4", "error": "3"}
        seen = set()
        for line in self.journal(since, "_COMM=sandpoold -o json").splitlines():
            entry = json.loads(line)
            level = re.search(r"level=(\w+)", entry["MESSAGE"])
            if level:
                self.equal(entry["PRIORITY"], wanted[level[1]], entry["MESSAGE"])
                seen.add(level[1])
        self.expect({"info", "error"} <= seen, f"only {seen}")

    def nat_box(self, thread):
        lease = self.sandpool(f"acquire {thread} --profile online")
        route = self.m.run(f"sandpool run --keep --thread {thread} -- cat /proc/net/route")
        self.expect("\t00000000\t" in route, f"no way out at once:\n{route}")
        pid = self.m.run(f"cut -d' ' -f1 /var/lib/sandpool/oci/boxes/{lease['box_id']}/net.pid").strip()
        self.expect(lease["box_id"] in self.m.run(f"cat /proc/{pid}/cgroup"), "not in the box's control group")
        return lease, pid

    def lost(self, lease, pattern):
        def ask():
            return self.m.run("curl -s -o /dev/stdout -w ' %{http_code}' --unix-socket /run/sandpool/sandpool.sock"
                              f" http://x/v1/sandboxes/{lease['sandbox_id']}")
        deadline = time.monotonic() + 60
        while not ask().endswith(" 410"):
            self.expect(time.monotonic() < deadline, ask())
            time.sleep(0.5)
        said = ask()
        self.expect(re.search(pattern, said), said)
        print(f"        {said}", flush=True)

    def step_nat(self):
        """a nat box has its network at once; it survives `systemctl kill`; when its network ends the owner learns it"""
        lease, pid = self.nat_box("online")
        for signal in ("TERM", "KILL"):
            self.m.run(f"systemctl kill -s {signal} sandpoold; sleep 2; systemctl start sandpoold")
            self.equal(self.m.run(f"cat /proc/{pid}/comm").strip(), "slirp4netns", f"after SIG{signal}")
            self.expect("tap0" in self.m.run("sandpool run --keep --thread online -- cat /proc/net/dev"), "its interface")
        self.m.run(f"kill -9 {pid}")
        self.lost(lease, "network_ended")

    def step_pasta(self):
        """the same with pasta, where slirp4netns is not installed"""
        self.m.run("mv /usr/bin/slirp4netns /root; systemctl restart sandpoold")
        try:
            lease, pid = self.nat_box("pasta")
            self.expect("pasta" in self.m.run(f"cat /proc/{pid}/cmdline"), "its program")
            self.m.run(f"kill -9 {pid}")
            self.lost(lease, "network_ended")
        finally:
            self.m.run("mv /root/slirp4netns /usr/bin; systemctl restart sandpoold")

    def step_reboot(self):
        """after a reboot the lease is lost, with the reason; a new box is another generation"""
        lease = self.sandpool("acquire rebooter")
        self.m.run("systemctl enable sandpoold")
        self.m.reboot()
        self.m.until("systemctl is-active sandpoold && sandpool pool")
        self.lost(lease, "machine|restart|boot")
        again = self.sandpool("acquire rebooter")
        self.expect(again["generation"] > lease["generation"], again)
        self.m.run("sandpool destroy rebooter")

    def leave(self, thread, profile):
        """A box with a file that its program has synced, and a process."""
        lease = self.sandpool(f"acquire {thread} --profile {profile}")
        self.m.run(f"sandpool exec {thread} -- sh -c 'echo {thread} > /workspace/mine; sync /workspace/mine /workspace'")
        self.m.run(f"sandpool exec -d {thread} -- sleep 100000")
        return lease

    def step_kept(self):
        """after a power cut, and after a reboot, durable boxes (leased, parked) and hibernated ones have their files"""
        self.m.run("systemctl enable sandpoold")
        for how in ("echo b >/proc/sysrq-trigger", "systemctl reboot"):
            leases = {thread: self.leave(thread, profile) for thread, profile in
                      (("leased", "kept"), ("parked", "kept"), ("asleep", "asleep"), ("mortal", "default"))}
            for thread in ("parked", "asleep"):
                self.m.run(f"sandpool release {leases[thread]['sandbox_id']}")
            self.m.until(f"sandpool get {leases['asleep']['sandbox_id']} --json | grep -q hibernated", 120)
            self.m.reboot(how)
            self.m.until("systemctl is-active sandpoold && sandpool pool", 120)
            for thread in ("leased", "parked", "asleep"):
                again = self.sandpool(f"acquire {thread} --profile {leases[thread]['profile']} --wait 120s")
                self.equal((again["source"], again["sandbox_id"], again["generation"]),
                           ("restored", leases[thread]["sandbox_id"], leases[thread]["generation"] + 1), f"{thread} after {how}")
                self.equal(self.m.run(f"sandpool exec {thread} -- cat /workspace/mine"), f"{thread}\n", "its file")
                self.expect("sleep" not in self.m.run(f"sandpool exec {thread} -- sh -c 'cat /proc/[0-9]*/comm'"),
                            "its process cannot have outlived the machine")
                self.m.run(f"sandpool destroy {again['sandbox_id']}")
            self.lost(leases["mortal"], "machine|restart|boot")

    def step_frozen(self):
        """parked boxes that stand still give all of their memory back where there is swap, and have it again when they go on"""
        self.m.run("fallocate -l 512M /swap; chmod 600 /swap; mkswap -q /swap; swapon /swap")
        lease = self.sandpool("acquire frozen --profile frozen")
        self.m.run("sandpool exec frozen -- sh -c 'head -c 40000000 /dev/urandom > /workspace/file; sync /workspace/file;"
                   " sha256sum /workspace/file > /workspace/sum'")
        self.m.run("sandpool exec -d frozen -- python3 -c \"import os, time; x = os.urandom(60 << 20); open('/workspace/held', 'w').write(str(hash(x)));"
                   " [time.sleep(0.1) for _ in iter(lambda: os.path.exists('/workspace/go'), True)];"
                   " open('/workspace/same', 'w').write(str(hash(x)))\"")
        held = "sandpool exec frozen -- cat /workspace/held"
        self.m.until(f"test -n \"$({held})\"")
        read = f"cd {self.group(lease)} && cat memory.current memory.swap.current memory.swap.max"
        before = self.m.run(read).split()
        self.expect(int(before[0]) > 90e6 and before[1:] == ["0", "0"], before)
        begin = time.monotonic()
        self.m.run("sandpool release frozen")
        self.m.until(f"test $(cat {self.group(lease)}/memory.current) -lt 15000000")
        self.m.until(f"test $(cat {self.group(lease)}/memory.swap.max) = 0")
        after = self.m.run(read).split()
        print(f"        memory {int(before[0]) >> 20} MB, then {int(after[0]) >> 20} MB and {int(after[1]) >> 20} MB of swap"
              f" ({time.monotonic() - begin:.1f} s)", flush=True)
        self.expect(int(after[1]) > 50e6, after)
        self.expect(re.search("ok +frozen boxes .*to swap", self.m.run("sandpool doctor").replace("\n", " ")), "doctor does not say so")
        self.equal(self.sandpool("acquire frozen --profile frozen")["source"], "parked", "the box")
        self.expect("OK" in self.m.run("sandpool exec frozen -- sh -c 'sha256sum -c /workspace/sum; touch /workspace/go'"), "its file")
        self.m.until("sandpool exec frozen -- cmp /workspace/held /workspace/same")
        self.m.run("sandpool destroy frozen; swapoff /swap; rm /swap")

    def step_rootless(self):
        """a user's own service: exact limits, the out-of-memory outcome, boxes that outlive a restart"""
        self.m.run("loginctl enable-linger alice")
        self.m.until("test -S /run/user/$(id -u alice)/bus")
        self.m.run(f"{ALICE} mkdir -p /home/alice/.config/sandpool; {ALICE} tee /home/alice/.config/sandpool/config.yaml"
                   f" >/dev/null <<'END'\n{CONFIG}\nEND\n{ALICE} systemctl --user start sandpoold")
        socket = "SANDPOOL_SOCKET=/run/user/$(id -u alice)/sandpool/sandpool.sock"
        alice = f"{ALICE} {socket}"
        self.expect(re.search("ok +limits", self.m.run(f"{alice} sandpool doctor; true")), "doctor does not find limits")
        for runtime in ("crun", "runc"):
            lease = self.sandpool(f"acquire mine-{runtime} --profile by-{runtime}", alice)
            group = self.m.run(f"echo /sys/fs/cgroup/user.slice/*/*/sandpool-*/{lease['box_id']}").strip()
            seen = self.m.run(f"cd {group} && cat memory.max memory.swap.max pids.max cpu.max").split("\n")
            self.equal(seen[:4], [str(128 << 20), "0", "64", "50000 100000"], runtime)
            run = f"{alice} sandpool run --keep --thread mine-{runtime}"
            self.m.run(f"{run} -- sh -c 'echo mine > /workspace/mine'")
            status, text = self.m.run(f"{run} -- python3 -c \"x = b'x' * (1 << 30)\"", check=False)
            self.expect(status == 137 and "memory" in text, f"{runtime}: {status} {text}")
            for command in ("restart", "kill -s KILL"):
                self.m.run(f"{ALICE} systemctl --user {command} sandpoold")
                self.m.until(f"{alice} sandpool pool")
                again = self.sandpool(f"acquire mine-{runtime}", alice)
                self.equal((again["box_id"], again["source"]), (lease["box_id"], "kept"), f"the box after {command}")
                self.equal(self.m.run(f"{run} -- cat /workspace/mine 2>/dev/null"), "mine\n", "its file")
            self.m.run(f"{alice} sandpool destroy mine-{runtime}; ! test -e {group}")
        self.m.run(f"{ALICE} systemctl --user stop sandpoold; loginctl disable-linger alice")

    def step_nothing_left(self):
        """destroyed boxes leave no process, mount, control group or loop device"""
        self.m.run("sandpool drain; sandpool ls --quiet | xargs -r -n 1 sandpool destroy >/dev/null 2>&1 || true")
        self.m.until("test -z \"$(sandpool ls --quiet)\" && test -z \"$(ls /var/lib/sandpool/oci/boxes)\"")
        self.m.run("systemctl disable sandpoold; systemctl stop sandpoold")
        self.m.until("! pgrep -a 'sandpool|slirp4netns|pasta|passt' && ! ls -d /sys/fs/cgroup/sandpool-* && ! grep sandpool"
                     " /proc/mounts && ! losetup -a | grep sandpool")

    def dpkg(self, words):
        self.m.run(f"DEBIAN_FRONTEND=noninteractive dpkg {words}", timeout=300)

    def step_package(self):
        """the Debian package: it starts, an upgrade keeps boxes and what runs in them, a purge leaves nothing"""
        here = "/root/payload/packages"
        self.m.run("rm -rf /etc/sandpool /var/lib/sandpool; systemctl daemon-reload")
        self.dpkg(f"-i {here}/sandpool_*.deb")
        self.equal(self.m.run("systemctl is-active sandpoold; systemctl is-enabled sandpoold").split(), ["active", "enabled"],
                   "the service after the installation")
        self.equal(self.m.until("sandpool run -- python3 -c 'print(6*7)'", 300), "42\n", "what a box prints")
        lease = self.sandpool("acquire packed")
        self.m.run("sandpool run --keep --thread packed -- sh -c 'echo mine > /workspace/mine'; "
                   "sandpool exec -d packed -- sh -c 'while :; do date >> /workspace/ticks; sleep 0.2; done'")
        before = self.main_pid()
        # The same files as a newer version.
        self.m.run(f"cd /root && dpkg-deb -R {here}/sandpool_*.deb newer && sed -i 's/^Version: .*/&+1/' newer/DEBIAN/control"
                   " && dpkg-deb --root-owner-group -b newer newer.deb >/dev/null")
        self.dpkg("-i /root/newer.deb")
        self.expect(self.main_pid() not in (0, before), "the daemon was not replaced")
        self.same_box(lease, "packed")
        lines = "sandpool exec packed -- wc -l /workspace/ticks"
        self.expect(self.m.run(lines) != self.m.until(f"sleep 1; {lines}"), "the command in the box has ended")
        said = self.journal("-5min")
        self.expect("SIGKILL" not in said, said)
        self.dpkg("-r sandpool")
        left = "pgrep -a sandpool; ls -d /sys/fs/cgroup/sandpool-*; grep sandpool /proc/mounts; losetup -a | grep sandpool"
        self.m.until(f"test -z \"$({left})\"")
        self.dpkg("-i /root/newer.deb")
        self.equal(self.m.until("sandpool run -- echo again", 300), "again\n", "a box after a removal")
        self.dpkg("--purge sandpool")
        self.m.until(f"test -z \"$({left})\"")
        self.equal(self.m.run("ls -d /var/lib/sandpool /etc/sandpool /run/sandpool /usr/bin/sandpool* 2>/dev/null; true"), "",
                   "what a purge leaves")

    def box_test(self, name, runtime, cases=()):
        status, text = self.m.run(
            f"cd /root/payload/source && SANDPOOL_BIN_DIR=/root/payload/install/usr/bin SANDPOOL_SOURCE_DIR=$PWD"
            f" SANDPOOL_TEST_RUNTIME={runtime} SANDPOOL_TEST_SLOW={SLOW}"
            f" timeout -k 60 {BOX_TEST_S} python3 -B tests/integration/{name}.py"
            f" {' '.join(f'-k .{case}.' for case in cases)} 2>&1",
            timeout=BOX_TEST_S + 90, check=False)
        found = re.search(r"^Ran (\d+) tests? in ([\d.]+)s", text, re.M)
        # The first says most: those after it may only follow from it.
        names = "\n".join(re.findall(r"^(?:FAIL|ERROR): .*", text, re.M))
        first = text[max(text.find("\n====="), 0):][:5000]
        self.expect(found and found[1] != "0" and status == 0, f"exit status {status}\n{names}\n{first}\n...\n{text[-1000:]}")
        skipped = re.search(r"skipped=(\d+)", text)
        return f"{found[1]} tests in {found[2]} s" + (f", {skipped[1]} skipped" if skipped else "")


def steps_of(walk, wanted):
    """Name, sentence, function: the methods in their order, then the project's own tests of boxes."""
    for name, method in vars(Walk).items():
        if name.startswith("step_"):
            yield name[5:], method.__doc__, getattr(walk, name)
    tests = [(name, ()) for name in wanted if ":" in name]
    if not tests:
        tests = [(f"{name}:crun", ()) for name in BOX_TESTS] + [(f"{n}:runc", cases) for n, cases in RUNC_CASES.items()]
    for name, cases in tests:
        test, runtime = name.split(":")
        sentence = f"the project's own {test} with {runtime}{', of it ' + ', '.join(cases) if cases else ''}"
        yield name, sentence, lambda test=test, runtime=runtime, cases=cases: walk.box_test(test, runtime, cases)


def main():
    image, build, source, *wanted = sys.argv[1:]
    passed, failed = 0, []
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("told to stop"))  # else the machine would run on
    with tempfile.TemporaryDirectory(prefix="sandpool-vm-") as work:
        work = pathlib.Path(work)
        install = work / "install"
        subprocess.run(["cmake", "--install", build, "--prefix", "/usr"], check=True, stdout=subprocess.DEVNULL,
                       env={**os.environ, "DESTDIR": str(install)})
        parts = work / "source"
        for part in ("tests", "docs", "clients"):
            shutil.copytree(pathlib.Path(source) / part, parts / part, symlinks=True)
        make_payload(work / "payload.tar", {"install": install, "source": parts, "packages": pathlib.Path(build) / "packages"})
        machine = Machine(image, work)
        try:
            begin = time.monotonic()
            machine.start(work / "payload.tar")
            print(f"  ok    boot: Debian with systemd ({time.monotonic() - begin:.0f} s)", flush=True)
            passed += 1
            for name, sentence, act in steps_of(Walk(machine), wanted):
                if wanted and name not in ("install", "configure", *wanted):
                    continue
                begin = time.monotonic()
                try:
                    more = act()
                    print(f"  ok    {name}: {sentence} ({more or f'{time.monotonic() - begin:.0f} s'})", flush=True)
                    passed += 1
                except Exception as problem:  # the next step may work all the same
                    print(f"  FAIL  {name}: {sentence}\n{problem}", flush=True)
                    if not isinstance(problem, Failed):
                        traceback.print_exc(file=sys.stdout)
                    failed.append(name)
                    print(machine.run("journalctl -q -u sandpoold -n 15", check=False)[1], flush=True)
        except Failed as problem:
            print(f"  FAIL  the machine: {problem}", flush=True)
            failed.append("the machine")
        finally:
            machine.stop()
    if failed:
        print(f"failed: {' '.join(failed)}")
    print(f"{passed} passed, {len(failed)} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
