"""limits.disk of containers: by the engine's storage option where its driver can, else for the directories a box works in;
what neither limits is said. A full box meets the end of its disk, its neighbour and the host do not."""

import http.client
import os
import shutil
import subprocess

from docker_case import DockerCase, engines, main, wait_until
from fixtures import skip

MIB = 1 << 20
DISK = 24 * MIB


def loops():
    """Files behind loop devices that have lost their name."""
    found = subprocess.run(["losetup", "-ln", "-O", "BACK-FILE"], capture_output=True, text=True, timeout=20, check=True)
    return [line for line in found.stdout.splitlines() if "docker-disks" in line]


def fill(box, path):
    """What fits into a file there, in MiB; and what the box saw of the end."""
    ended = box.run(f"busybox dd if=/dev/zero of={path} bs=1048576 count=64; busybox stat -c %s {path}")
    return int(ended.out.split()[-1]) / MIB, ended.out + ended.err


def said_of_limits(doctor):
    return [f for b in doctor["backends"] for f in b["findings"] if f["subject"] == "disk limits"]


class Places(DockerCase):
    """On a storage driver that cannot: overlay2 on ext4, or what this machine has."""

    def begin(self, **fields):
        """Without a word of it: that is what is done by default."""
        return self.start(limits={"memory": "64M", "disk": DISK}, warm=0, **fields)

    def differences(self, daemon):
        """A disk for each container, no mark, and nothing else."""
        found = super().differences(daemon)
        files = sorted(p.name for p in (daemon.state / "docker-disks").iterdir())
        disks = [line for line in loops() if str(daemon.state) in line]
        if files not in ([], [f"template.{DISK}"]):
            found["files"] = files
        if len(disks) != len(self.containers()):
            found["disks"] = disks
        return found

    def test_a_full_box(self):
        daemon = self.begin()
        client = self.client(daemon)
        one, two = self.box(daemon, "one"), self.box(daemon, "two")
        self.assertAgree(daemon)
        self.assertEqual(one.sh("pwd; id -un").split(), ["/place", "ann"])
        size, said = fill(one, "/place/big")
        self.assertIn("No space left on device", said)
        self.assertTrue(DISK / MIB * 0.7 < size <= DISK / MIB, size)
        self.assertLess(fill(one, "/home/ann/more")[0] + fill(one, "/tmp/more")[0], 2)  # one disk for all of them
        self.assertEqual(two.sh("echo fine > /place/f; busybox dd if=/dev/zero of=/tmp/f bs=1048576 count=10 2>/dev/null; cat /place/f"),
                         "fine\n")
        one.sh("rm /place/big && echo again > /place/f")
        self.assertEqual(one.sh("cat /place/f; busybox stat -c %u:%a /place /tmp /home/ann").split(),
                         ["again", "1000:755", "0:1777", "1000:755"])
        self.assertEqual(self.assertOk(client.get("/v1/profiles/default"))["disk_limit"], "places")
        found = said_of_limits(self.assertOk(client.get("/v1/doctor")))
        self.assertEqual(found[0]["level"], "warn")
        self.assertIn("limits.disk counts for the working directory, the home, /tmp and /var/tmp", found[0]["text"])
        daemon.restart()
        self.assertEqual(self.box(daemon, "one").sh("cat /place/f"), "again\n")
        client = self.client(daemon)
        for box in (one, two):
            self.assertOk(client.delete(f"/v1/sandboxes/{box.id}"))
        self.assertAgree(daemon)

    def test_snapshots(self):
        """All of the places is in them, with what was deleted there, and boxes made from them have a limit of their own."""
        daemon = self.begin()
        client = self.client(daemon)
        one = self.box(daemon, "one")
        one.sh("umask 022; mkdir -p d/e; echo f > f; echo e > d/e/f; echo home > ~/g; echo tmp > /tmp/h; busybox ln f same; "
               "busybox ln -s f link; busybox chmod 640 d/e/f; busybox mkfifo pipe; echo gone > gone; "
               "busybox dd if=/dev/zero of=big bs=1048576 count=12 2>/dev/null")
        first = self.snapshot(client, one)
        self.assertGreater(first["size_bytes"], 12 * MIB)
        one.sh("echo changed > f")
        two = self.box(daemon, "two", snapshot_id=first["snapshot_id"])
        self.assertEqual(two.sh("cat f same link d/e/f ~/g /tmp/h; busybox stat -c %u:%a d d/e/f ~ /tmp . pipe; busybox stat -c %h f").split(),
                         ["f", "f", "f", "e", "home", "tmp", "1000:755", "1000:640", "1000:755", "0:1777", "1000:755", "1000:644", "2"])
        size, said = fill(two, "/place/more")  # what it was made from does not count
        self.assertTrue(DISK / MIB * 0.7 < size <= DISK / MIB, (size, said))
        two.sh("rm more gone; rm -r d && mkdir d && echo new > d/n; echo two > f; echo later > ~/later")
        second = self.snapshot(client, two)
        made = self.assertOk(client.post(f"/v1/sandboxes/{two.id}/fork", {"count": 1, "wait_ms": 60000}))["sandboxes"]
        self.assertEqual(made[0].get("source"), "restored", made)
        self.assertOk(client.delete(f"/v1/sandboxes/{made[0]['sandbox_id']}"))
        three = self.box(daemon, "three", snapshot_id=second["snapshot_id"])
        self.assertEqual(three.sh("ls; ls d; cat f same d/n ~/later ~/g").split(),
                         ["big", "d", "f", "link", "pipe", "same", "n", "two", "f", "new", "later", "home"])
        self.assertEqual(one.sh("cat f gone d/e/f"), "changed\ngone\ne\n")
        for snapshot in (first, second):
            self.assertOk(client.delete(f"/v1/snapshots/{snapshot['snapshot_id']}"))
        for box in (one, two, three):
            self.assertOk(client.delete(f"/v1/sandboxes/{box.id}"))
        self.assertAgree(daemon)

    def test_files_with_holes(self):
        """An image has none: a snapshot of a box with a small disk does not fill the engine's, and what it takes is said."""
        daemon = self.begin()
        client = self.client(daemon)
        box = self.box(daemon, "one")
        box.sh("busybox truncate -s 40M /place/small; busybox truncate -s 1100M /tmp/large")
        target = f"/v1/sandboxes/{box.id}"
        answer = client.post(f"{target}/snapshots", {})
        self.assertEqual((answer.status, answer.json["error"]["code"]), (413, "body_too_large"), answer)
        self.assertIn("'large' is one of them", answer.json["error"]["message"])
        answer = client.post(f"{target}/fork", {"count": 1, "wait_ms": 60000})
        self.assertEqual((answer.status, answer.json["error"]["code"]), (413, "body_too_large"), answer)
        box.sh("rm /tmp/large")
        snapshot = self.snapshot(client, box)
        self.assertTrue(40 * MIB <= snapshot["size_bytes"] < 41 * MIB, snapshot)
        self.assertOk(client.delete(f"/v1/snapshots/{snapshot['snapshot_id']}"))
        self.assertOk(client.delete(target))
        self.assertAgree(daemon)

    def snapshot(self, client, box):
        return self.assertOk(client.post(f"/v1/sandboxes/{box.id}/snapshots", {}))

    def test_places_of_the_kernel(self):
        """A box whose root has said that its home is there, by name or by a link, gets no overlay of it: that would show what the
        engine hides (/sys/firmware), with the rights of who mounts it."""
        daemon = self.start(limits={"memory": "64M", "disk": DISK}, docker={"disk": "places", "user": "0:0"}, warm=0)
        client = self.client(daemon)
        for name, home, seen in (("a", "/sys", "/place /tmp"), ("b", "/link", "/place /tmp"), ("c", "/proc/1/root/sys", "/place /tmp"),
                                 ("d", "/link/fs", "/place /tmp"), ("e", "/dev", "/place /tmp"), ("f", "/.sandpool", "/place /tmp"),
                                 ("g", "/etc", "/etc /place /tmp")):
            one = self.box(daemon, name)
            one.sh(f"echo 'root:x:0:0::{home}:/bin/sh' > /etc/passwd; rm -f /link; busybox ln -s /sys /link")
            snapshot = self.snapshot(client, one)
            two = self.box(daemon, f"{name}-2", snapshot_id=snapshot["snapshot_id"])
            self.assertEqual(two.sh("cat /proc/mounts | busybox grep ^sandpool | busybox cut -d' ' -f2 | busybox sort").split(),
                             seen.split(), home)
            self.assertEqual(two.sh("ls /sys/firmware"), "", home)
            for box in (one, two):
                self.assertOk(client.delete(f"/v1/sandboxes/{box.id}"))
            self.assertOk(client.delete(f"/v1/snapshots/{snapshot['snapshot_id']}"))
        self.assertAgree(daemon)

    def test_crashes(self):
        """Before and after the limit is there: no box without one is given out, and nothing is left."""
        daemon = self.begin(start=False)
        for point in ("places.before_limit", "places.after_limit"):
            daemon.start(env={"SANDPOOL_CRASH_AT": f"{point}:1"})
            self.acquire_until_death(daemon)
            marked = {p.name for p in (daemon.state / "docker-disks").iterdir() if len(p.name) == 16}
            self.assertTrue(marked & set(self.containers()), "one runs, and nobody knows whether it has a limit")
            daemon.start()
            self.assertAgree(daemon)
            self.assertFalse(marked & set(self.containers()), "what may have no limit is removed")
            self.assertIn("No space left on device", fill(self.box(daemon, "full"), "/place/big")[1])
            for row in self.rows(daemon).values():
                if row["sandbox_id"]:
                    self.assertOk(self.client(daemon).delete(f"/v1/sandboxes/{row['sandbox_id']}"))
            self.assertAgree(daemon)
            daemon.kill()

    def acquire_until_death(self, daemon):
        try:
            for i in range(10):
                daemon.acquire(f"thread-{i}")
        except (OSError, http.client.HTTPException):
            pass
        wait_until(lambda: not daemon.process.is_running(), "it dies there")


class PodmanPlaces(Places):
    kind = "podman"


class NotLimited(DockerCase):
    def fills(self, daemon, name):
        box = self.box(daemon, name)
        self.assertEqual(box.run("busybox dd if=/dev/zero of=/place/big bs=1048576 count=40").exit_code, 0)
        return box

    def test_not_wanted(self):
        daemon = self.start(limits={"memory": "64M", "disk": DISK}, docker={"disk": "none"}, warm=0)
        self.fills(daemon, "one")
        self.assertEqual(self.assertOk(self.client(daemon).get("/v1/profiles/default"))["disk_limit"], "none")

    def test_not_possible(self):
        """Where the helper finds that it cannot be, boxes are made all the same, unless they may not be without; and it is said."""
        strict = self.profile(warm=0, limits={"memory": "64M", "disk": DISK}, docker={"disk": "places"})
        daemon = self.start(limits={"memory": "64M", "disk": DISK}, warm=0, profiles={"strict": strict})
        real = self.helper.rename(self.helper.with_name("real"))
        self.helper.write_text(f'#!/bin/sh\n[ "$1" != disk ] || {{ echo no loop device >&2; exit 7; }}\nexec {real} "$@"\n')
        self.helper.chmod(0o755)
        client = self.client(daemon)
        box = self.fills(daemon, "one")
        self.fills(daemon, "two")
        self.assertEqual(self.assertOk(client.get("/v1/profiles/default"))["disk_limit"], "none")
        found = said_of_limits(self.assertOk(client.get("/v1/doctor")))
        self.assertEqual(found[0]["level"], "warn")
        self.assertIn("limits.disk has no effect", found[0]["text"])
        self.assertIn("no loop device", found[0]["text"])
        self.assertNotEqual(daemon.acquire("three", profile="strict", wait_ms=3000).status, 200)
        copy = self.box(daemon, "copy", snapshot_id=self.assertOk(client.post(f"/v1/sandboxes/{self.box(daemon, 'two').id}/snapshots",
                                                                             {}))["snapshot_id"])
        self.assertEqual(copy.sh("busybox stat -c %s /place/big"), "41943040\n")
        self.helper.unlink()
        real.rename(self.helper)
        for row in self.assertOk(client.get("/v1/snapshots"))["snapshots"]:
            self.assertOk(client.delete(f"/v1/snapshots/{row['snapshot_id']}"))
        self.assertOk(client.delete(f"/v1/sandboxes/{box.id}"))


class BtrfsEngine(engines.Engine):
    """An engine whose storage driver limits containers by itself."""

    def start_first(self):
        if shutil.which("mkfs.btrfs") is None:
            skip("mkfs.btrfs is not installed")
        image = self.dir + "/btrfs"
        with open(image, "wb") as f:
            f.truncate(1 << 30)
        os.mkdir(self.dir + "/data")
        for words in (["mkfs.btrfs", "-q", image], ["mount", "-o", "loop", image, self.dir + "/data"]):
            if subprocess.run(words, timeout=60, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode != 0:
                skip("no btrfs can be mounted here")
        super().start_first()

    def podman(self):
        program, *words = super().podman()
        return [program, *self.options, *words]


class ByEngine(DockerCase):
    options = ("--storage-driver", "btrfs")
    engine_class = BtrfsEngine

    def test_all_of_a_box_is_limited(self):
        daemon = self.start(limits={"memory": "64M", "disk": DISK}, docker={"disk": "places", "user": "root"}, warm=0)
        client = self.client(daemon)
        box = self.box(daemon, "one")
        self.assertEqual(self.assertOk(client.get("/v1/profiles/default"))["disk_limit"], "all")
        size, said = fill(box, "/big")  # outside of the places
        self.assertRegex(said, "quota exceeded|No space left on device")
        self.assertLessEqual(size, DISK / MIB)
        other = self.box(daemon, "two")
        self.assertEqual(other.sh("echo fine > /f; cat /f"), "fine\n")
        box.sh("rm /big; echo kept > /place/f")
        snapshot = self.assertOk(client.post(f"/v1/sandboxes/{box.id}/snapshots", {"name": "x"}))["snapshot_id"]
        copy = self.box(daemon, "three", snapshot_id=snapshot)
        self.assertEqual(copy.sh("cat /place/f"), "kept\n")
        self.assertLessEqual(fill(copy, "/big")[0], DISK / MIB)
        found = said_of_limits(self.assertOk(client.get("/v1/doctor")))
        self.assertEqual([(f["level"], f["text"]) for f in found], [("ok", "by the engine's storage option")])
        for box in (box, other, copy):
            self.assertOk(client.delete(f"/v1/sandboxes/{box.id}"))
        self.assertOk(client.delete(f"/v1/snapshots/{snapshot}"))


class PodmanByEngine(ByEngine):
    kind = "podman"


if __name__ == "__main__":
    main()
