"""What a profile can ask of containers, on a real Docker engine and on Podman's service: each option as the engine shows
it and as the box sees it."""

import pathlib
import time

from docker_case import INSTANCE, DockerCase, engines
from fixtures import BIN, WAIT_S, Daemon, at_most, in_threads, main, tmpdir, wait_until
from host import GROUPS

MIB = 1 << 20
CAPS = {"CHOWN": 0, "DAC_OVERRIDE": 1, "FOWNER": 3, "KILL": 5, "SETGID": 6, "SETUID": 7, "NET_RAW": 13}


def mask(*names):
    return f"{sum(1 << CAPS[n] for n in names):016x}"


def group_value(pid, controller, v1, v2):
    """A limit of the control group of a process."""
    groups = dict(line.split(":", 2)[1:] for line in pathlib.Path(f"/proc/{pid}/cgroup").read_text().splitlines())
    for names, path in groups.items():
        if controller in names.split(","):
            return (GROUPS / controller / path[1:] / v1).read_text().strip()
    return (GROUPS / groups[""][1:] / v2).read_text().strip()


FEW = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "SETGID", "SETUID")


class OptionsCase(DockerCase):
    """One engine and one daemon for all tests of a class."""

    profiles = {}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.home = tmpdir(cls)
        cls.make_server()
        cls.addClassCleanup(cls.end_server)
        cls.server.start()

    @classmethod
    def make_server(cls):
        profiles = {name: {"backend": "docker", "image": engines.IMAGE, "limits": {"memory": "64M"},
                           "warm": {"min": 0, "max": 0}, **fields,
                           "docker": {"host": cls.engine.address, **fields.get("docker", {})}}
                    for name, fields in {"default": {}, **cls.profiles}.items()}
        cls.server = Daemon(cls.home, {
            "instance": INSTANCE, "profiles": profiles, "mounts": {"allow": [str(cls.home / "share")]},
            "agent": {"path": str(engines.static_agent(BIN))},
            "helper": {"path": str((BIN / "sandpool-helper").resolve())}})

    @classmethod
    def end_server(cls):
        """The last daemon takes all boxes along; then the engine has nothing but the volumes of the test."""
        cls.server.kill()
        cls.server.args = ["--destroy-on-exit"]
        cls.server.start()
        cls.server.stop()
        try:
            wait_until(lambda: not cls.engine.left(), "the engine has nothing left")
        except AssertionError as problem:
            raise AssertionError(f"{problem}: {cls.engine.left()} {cls.server.process.output()[-3000:]}") from None

    def get_box(self, thread, profile="default", **fields):
        box = self.box(self.server, thread, profile=profile, **fields)
        self.addCleanup(self.delete, box)
        return box

    def delete(self, box):
        client = self.server.client(WAIT_S * 2)
        try:
            return client.delete(f"/v1/sandboxes/{box.id}")  # twice is fine
        finally:
            client.close()

    def destroy(self, box):
        return self.assertOk(self.delete(box))


class Options:
    profiles = {
        "root": {"docker": {"user": "root"}},
        "all": {"docker": {
            "user": "root", "volumes": ["shared-data:/shared", "shared-data:/readable:ro"],
            "tmpfs": {"/scratch": "size=1m,mode=1777", "/tools": "exec"}, "shm_size": "2M",
            "cap_add": ["NET_RAW"]}},
        "grace": {"docker": {"user": "root", "stop_grace_s": 20, "volumes": ["shared-data:/shared"]}},
        "short": {"docker": {"user": "root", "stop_grace_s": 4}, "destroy_timeout_s": 15},
        "strict": {"runtime": "runsc-of-nobody", "network": "nat"},
        "address": {"network": "nat", "docker": {"reach": "address"}},
        "far": {"network": "nat", "docker": {"bind_host": "0.0.0.0", "url_host": "127.0.0.2"}},
    }

    def status(self, box):
        return dict(line.split(":\t", 1) for line in box.sh("cat /proc/self/status").splitlines())

    def test_hardened(self):
        for profile, caps in (("default", mask()), ("root", mask(*FEW, "KILL"))):
            box = self.get_box("hard", profile, user_id=profile)
            status = self.status(box)
            self.assertEqual([status[k] for k in ("CapBnd", "CapPrm", "CapEff")], [caps] * 3)
            self.assertEqual(status["CapAmb"], mask())
            self.assertEqual((status["NoNewPrivs"], status["Seccomp"]), ("1", "2"))
            # The engine's filter and the agent's; kernels before 5.10 do not count them.
            self.assertGreaterEqual(int(status.get("Seccomp_filters", "2")), 2)
            host = self.container(box)["HostConfig"]
            self.assertEqual((host["Memory"], host["MemorySwap"], host["PidsLimit"], host["NanoCpus"]),
                             (64 * MIB, 64 * MIB, 512, 10 ** 9))
            self.assertFalse(host["Privileged"])
            self.assertIn("no-new-privileges", str(host["SecurityOpt"]))
            self.assertEqual(box.sh("cat /proc/locks /proc/keys; ls /sys/firmware"), "")
            # Podman's list of calls would let every user make one, and be root in it.
            self.assertIn("not permitted", box.run("busybox unshare -U true").err)

    def test_mounts_of_a_profile(self):
        box = self.get_box("all", "all")
        self.assertEqual(self.status(box)["CapEff"], mask(*FEW, "KILL", "NET_RAW"))
        box.sh("echo kept > /shared/file")
        self.assertEqual(box.sh("cat /readable/file"), "kept\n")
        self.assertIn("Read-only", box.run("echo x > /readable/file").err)
        mounts = {line.split()[1]: line.split() for line in box.sh("cat /proc/mounts").splitlines()}
        for path, size in (("/scratch", "size=1024k"), ("/dev/shm", "size=2048k"), ("/tools", "")):
            self.assertEqual(mounts[path][2], "tmpfs")
            self.assertIn(size, mounts[path][3])
            self.assertIn("nosuid", mounts[path][3])
        self.assertIn("noexec", mounts["/scratch"][3])
        self.assertNotIn("noexec", mounts["/tools"][3])
        self.assertEqual(box.sh("ls -ld /scratch")[:10], "drwxrwxrwt")
        self.assertNotEqual(box.run("busybox dd if=/dev/zero of=/scratch/big bs=1M count=2").exit_code, 0)
        self.destroy(box)
        self.assertEqual(self.get_box("more", "all").sh("cat /shared/file"), "kept\n")  # it is the engine's

    def test_grace(self):
        box = self.get_box("grace", "grace")
        box.start("trap 'sleep 1; echo saved > /shared/grace; exit 0' TERM; echo ready > /shared/on; "
                  "while :; do sleep 0.1; done")
        wait_until(lambda: box.run("cat /shared/on").exit_code == 0, "it runs")
        self.destroy(box)
        self.assertNotIn(box.box_id, self.containers())
        reader = self.get_box("reader", "grace")
        self.assertEqual(reader.sh("cat /shared/grace"), "saved\n")
        # An idle shell and what ignores the signal: the one does not cost the grace, nor does a box without any.
        reader.json("POST", "/v1/shell/exec", {"command": "echo hello"})
        started = time.monotonic()
        self.destroy(reader)
        self.assertLess(time.monotonic() - started, at_most(15))

    def test_grace_that_is_not_used(self):
        """Killed after it, all at the same time, and within the time a destroy has."""
        def begin(i):
            box = self.get_box(f"deaf-{i}", "short")
            box.start("trap '' TERM; echo > /tmp/on; while :; do sleep 0.1; done")
            wait_until(lambda: box.run("cat /tmp/on").exit_code == 0, "it runs")
            return box
        boxes = in_threads(4, begin)
        started = time.monotonic()
        in_threads(4, lambda i: self.destroy(boxes[i]))
        took = time.monotonic() - started
        self.assertGreater(took, 3.5)
        self.assertLess(took, at_most(4 * 4))
        self.assertFalse({b.box_id for b in boxes} & set(self.containers()))

    def test_own_address(self):
        box = self.get_box("near", "address")
        self.assertEqual(box.sh("echo here"), "here\n")
        seen = self.container(box)
        networks = seen["NetworkSettings"]["Networks"]
        self.assertEqual([n["IPAddress"] for n in networks.values()], [box.url.hostname])
        self.assertFalse(any((seen["NetworkSettings"]["Ports"] or {}).values()))
        self.server.kill()
        self.server.start()
        again = self.get_box("near", "address")
        self.assertEqual((again.box_id, again.url), (box.box_id, box.url))
        self.assertEqual(again.sh("echo here"), "here\n")

    def test_address_that_changes(self):
        """The next look at the engine finds the box where it is now."""
        box = self.get_box("moved", "address")
        container = self.container(box)
        network = next(iter(container["NetworkSettings"]["Networks"]))
        self.assertEqual(self.engine.call("POST", f"/networks/{network}/disconnect", {
            "Container": container["Id"], "Force": True})[0], 200)
        other = self.engine.json("POST", "/containers/create?name=takes-the-address", {
            "Image": engines.IMAGE, "Cmd": ["/bin/sleep", "1000"]})["Id"]
        self.addCleanup(self.engine.call, "DELETE", f"/containers/{other}?force=1")
        self.engine.json("POST", f"/containers/{other}/start")
        self.assertEqual(self.engine.call("POST", f"/networks/{network}/connect", {
            "Container": container["Id"]})[0], 200)
        self.assertNotEqual(next(iter(self.container(box)["NetworkSettings"]["Networks"].values()))["IPAddress"],
                            box.url.hostname)
        client = self.client(self.server)
        client.post("/v1/pool/reconcile")
        moved = wait_until(lambda: (lambda b: b.url != box.url and b)(self.get_box("moved", "address")), "another url")
        self.assertEqual((moved.box_id, moved.sh("echo here")), (box.box_id, "here\n"))

    def test_published_elsewhere(self):
        box = self.get_box("far", "far")
        self.assertEqual(box.url.hostname, "127.0.0.2")
        self.assertEqual(box.sh("echo here"), "here\n")
        ports = self.container(box)["NetworkSettings"]["Ports"]["8080/tcp"]
        self.assertIn("0.0.0.0", [p["HostIp"] or "0.0.0.0" for p in ports])
        self.assertIn(str(box.url.port), [p["HostPort"] for p in ports])

    def test_runtime_that_is_not_there(self):
        """Never another one instead: Podman would take its own."""
        answer = self.server.acquire("strict", profile="strict", wait_ms=2000)
        self.assertEqual(answer.status, 503, answer)
        self.assertIn("runsc-of-nobody", self.server.process.output())

    def test_limits_of_an_acquire(self):
        box = self.get_box("limits", limits={"memory": "96M", "cpus": 0.5, "pids": 77})
        pid = self.container(box)["State"]["Pid"]  # Podman goes on reporting what was at first
        self.assertEqual(group_value(pid, "memory", "memory.limit_in_bytes", "memory.max"), str(96 * MIB))
        self.assertEqual(group_value(pid, "pids", "pids.max", "pids.max"), "77")
        self.assertEqual(group_value(pid, "cpu", "cpu.cfs_quota_us", "cpu.max").split()[0], "50000")
        self.assertEqual(box.sh("echo here"), "here\n")


class OnDocker(Options, OptionsCase):
    pass


class OnPodman(Options, OptionsCase):
    kind = "podman"


if __name__ == "__main__":
    main()
