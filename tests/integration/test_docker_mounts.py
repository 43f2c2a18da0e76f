"""Directories of the host in containers that run already, on a real Docker engine and on Podman's service: what the box
sees, as whom, and what it must never see."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest
import urllib.parse

from docker_case import engines
from fixtures import main
from host import mount_points
from test_docker_options import OptionsCase

OWNER = 4321  # of the directories that are mounted; no user of this machine


class Mounts:
    profiles = {"root": {"docker": {"user": "root"}},
                "warm": {"warm": {"min": 1, "max": 1}, "network": "nat"},
                "own": {"image": "serves:1", "agent": "image", "network": "nat", "docker": {"port": 9000}}}

    @classmethod
    def make_server(cls):
        cls.share = cls.home / "share"
        for path in (cls.share, cls.share / "data", cls.share / "rooted", cls.share / "other", cls.home / "secret"):
            path.mkdir()
        (cls.share / "data" / "hello").write_text("from the host\n")
        (cls.share / "data" / "private").write_text("of root\n")
        (cls.home / "secret" / "key").write_text("not for boxes\n")
        (cls.share / "out").symlink_to(cls.home / "secret")
        (cls.share / "in").symlink_to("data")
        for path in (cls.share / "data", cls.share / "data" / "hello", cls.share / "other"):
            os.chown(path, OWNER, OWNER)
        os.chmod(cls.share / "data" / "private", 0o600)
        os.chmod(cls.share / "rooted", 0o777)
        cls.engine.call("POST", "/images/create?fromSrc=-&repo=serves&tag=1&changes=" + urllib.parse.quote(
            'CMD ["/bin/sh","-c","mkdir -p /tmp/v1 && echo $GREETING>/tmp/v1/sandbox && '
            'exec /bin/busybox httpd -f -p 9000 -h /tmp"]'), engines.image_tar(), "application/x-tar")
        cls.engine.call("POST", "/images/serves:latest/tag?repo=serves&tag=1")  # Podman forgets the tag
        super().make_server()

    first_id = 0  # on this machine, of the box's

    def mount(self, name, to, read_only=False):
        return {"host_path": str(self.share / name), "container_path": to, "read_only": read_only}

    def host_mounts(self):
        return [m for m in mount_points() if str(self.home) in m]

    def test_owner_is_the_box_user(self):
        for profile in ("default", "root"):
            with self.subTest(profile=profile):
                box = self.get_box("rw", profile, user_id=profile, mounts=[self.mount("data", "/mnt/deep/data")])
                self.assertEqual(box.sh("cat /mnt/deep/data/hello"), "from the host\n")
                self.assertNotEqual(box.run("cat /mnt/deep/data/private").exit_code, 0)  # nobody stands for root
                box.sh(f"echo from the box > /mnt/deep/data/{profile}")
                made = self.share / "data" / profile
                self.assertEqual((made.read_text(), made.stat().st_uid, made.stat().st_gid),
                                 ("from the box\n", OWNER, OWNER))
                line = [m.split() for m in box.sh("cat /proc/mounts").splitlines() if " /mnt/deep/data " in m]
                self.assertTrue({"nosuid", "nodev", "rw"} <= set(line[0][3].split(",")), line)
                self.assertFalse(self.host_mounts())
                self.destroy(box)
                self.assertEqual(made.read_text(), "from the box\n")

    def test_read_only_and_one_file(self):
        box = self.get_box("ro", "root", mounts=[self.mount("in", "/data", True), self.mount("other", "/place/other"),
                                             self.mount("data/hello", "/etc/greeting", True)])
        self.assertEqual(box.sh("cat /data/hello /etc/greeting"), "from the host\n" * 2)
        refused = box.run("echo x > /data/hello; echo x > /etc/greeting; echo x > /data/new")
        self.assertEqual(refused.err.count("Read-only file system"), 3, refused)
        self.assertNotEqual(box.run("busybox mount -o remount,rw /data").exit_code, 0)
        self.assertNotEqual(box.run("busybox umount /data").exit_code, 0)
        box.sh("echo x > /place/other/ok")
        self.assertEqual((self.share / "data" / "hello").read_text(), "from the host\n")

    def test_what_root_owns_is_as_the_engine_shows_it(self):
        box = self.get_box("rooted", mounts=[self.mount("rooted", "/rooted")])
        box.sh("echo mine > /rooted/file")
        self.assertEqual((self.share / "rooted" / "file").stat().st_uid, self.first_id + 1000)  # ann's

    def test_warm_box_and_after_a_restart(self):
        client = self.client(self.server)
        self.wait_blank(client, 1)
        box = self.get_box("warm", "warm", mounts=[self.mount("data", "/data", True)])
        self.assertEqual(box.lease["source"], "warm")
        self.assertEqual(box.sh("cat /data/hello"), "from the host\n")
        self.server.kill()
        self.server.start()
        again = self.get_box("warm", "warm", mounts=[self.mount("data", "/data", True), self.mount("other", "/other")])
        self.assertEqual((again.box_id, again.lease["source"]), (box.box_id, "kept"))
        again.sh("cat /data/hello; echo x > /other/x")
        answer = self.server.acquire("warm", profile="warm", mounts=[self.mount("other", "/data")])
        self.assertCode(answer, 409, "spec_conflict")
        self.assertEqual(again.sh("cat /data/hello"), "from the host\n")

    def test_image_that_serves_itself(self):
        """Variables must be there from birth, mounts come late: one acquire has both."""
        fields = {"envs": {"GREETING": "good day"}, "mounts": [self.mount("data", "/tmp/data", True)]}
        box = self.get_box("own", "own", **fields)
        self.assertEqual(box.call("GET", "/v1/sandbox")[1], b"good day\n")
        self.assertEqual(box.call("GET", "/data/hello")[1], b"from the host\n")
        self.assertEqual(self.get_box("own", "own", **fields).box_id, box.box_id)

    def test_out_of_what_is_allowed(self):
        for path in (str(self.home / "secret"), "/etc", "/", f"{self.share}-not", f"{self.share}/out",
                     f"{self.share}/out/key"):
            answer = self.server.acquire("thief", mounts=[{"host_path": path, "container_path": "/data"}])
            self.assertCode(answer, 403, "forbidden")
        for mount in (self.mount("no-such", "/data"), self.mount("data", "/proc/x"), self.mount("data", "/.sandpool/x"),
                      self.mount("../secret", "/data")):
            answer = self.server.acquire("thief", mounts=[mount])
            self.assertCode(answer, 422, "invalid_field")
        box = self.get_box("thief")
        self.assertNotEqual(box.run("ls /data").exit_code, 0)
        # Nor by a link to what cannot be covered: where it leads counts.
        for name, place in (("kernel", "/proc/sys/kernel"), ("ns", "/proc/1/ns"), ("own", "/.sandpool")):
            box.sh(f"busybox ln -s {place} /place/{name}")
            answer = self.server.acquire("thief", mounts=[self.mount("data", f"/place/{name}")])
            self.assertCode(answer, 422, "invalid_field")
        # A link in the box leads nowhere else but into the box.
        box.sh("busybox ln -s /../../../tmp /place/link")
        box = self.get_box("thief", mounts=[self.mount("data", "/place/link/data", True)])
        self.assertEqual(box.sh("cat /tmp/data/hello"), "from the host\n")
        self.assertFalse(pathlib.Path("/tmp/data").exists())
        self.assertFalse(self.host_mounts())


class OnDocker(Mounts, OptionsCase):
    pass


class OnPodman(Mounts, OptionsCase):
    kind = "podman"


class RemappedEngine(engines.Engine):
    def dockerd(self):
        os.chmod(self.dir, 0o755)  # it starts only where its containers' root can look
        return [*super().dockerd(), "--userns-remap=nobody:nogroup"]


@unittest.skipUnless(os.environ.get("SANDPOOL_TEST_ISOLATED") == "yes" and os.path.exists("/etc/subgid"),
                     "would change the machine's /etc")
class OnRemappedDocker(Mounts, OptionsCase):
    """Its containers have other ids than this machine."""

    engine_class = RemappedEngine
    first_id = 100000

    @classmethod
    def setUpClass(cls):
        with tempfile.NamedTemporaryFile("w") as ids:
            ids.write(f"nobody:{cls.first_id}:65536\nnogroup:{cls.first_id}:65536\n")
            ids.flush()
            for path in ("/etc/subuid", "/etc/subgid"):  # in our own mount namespace
                subprocess.run(["mount", "--bind", ids.name, path], check=True, timeout=10)
                cls.addClassCleanup(subprocess.run, ["umount", path], check=True, timeout=10)
            super().setUpClass()


class GvisorEngine(engines.Engine):
    def dockerd(self):
        runtime = pathlib.Path(self.dir + "/runsc")
        runtime.write_text('#!/bin/sh\nexec runsc --platform=ptrace --ignore-cgroups --network=host "$@"\n')
        runtime.chmod(0o755)
        return [*super().dockerd(), f"--add-runtime=runsc={runtime}"]


@unittest.skipUnless(shutil.which("runsc"), "runsc is not installed")
class OnGvisor(OptionsCase):
    """What runs there has a kernel of its own: nothing can be mounted past it, so a box is made with it."""

    engine_class = GvisorEngine
    profiles = {"strict": {"runtime": "runsc", "network": "nat", "warm": {"min": 1, "max": 1}}}

    def test_box(self):
        (self.home / "share").mkdir()
        (self.home / "share" / "hello").write_text("from the host\n")
        self.wait_blank(self.client(self.server), 1)
        box = self.get_box("plain", "strict")
        self.assertEqual(box.lease["source"], "warm")
        self.assertIn("Linux version 4.4.0", box.sh("cat /proc/version"))  # gVisor's
        self.assertEqual(self.container(box)["HostConfig"]["Runtime"], "runsc")
        box = self.get_box("mounted", "strict", mounts=[
            {"host_path": str(self.home / "share"), "container_path": "/data", "read_only": True}])
        self.assertEqual(box.lease["source"], "cold")
        self.assertEqual(box.sh("cat /data/hello"), "from the host\n")
        self.assertNotEqual(box.run("echo x > /data/hello").exit_code, 0)
        (self.home / "share" / "out").symlink_to("/etc")
        for name, status, code in (("out", 403, "forbidden"), ("missing", 422, "invalid_field")):
            answer = self.server.acquire(name, profile="strict", wait_ms=20000, mounts=[
                {"host_path": str(self.home / "share" / name), "container_path": "/data"}])
            self.assertCode(answer, status, code)


if __name__ == "__main__":
    main()
