"""Real boxes made for one thread: each bears its owner's name from birth, takes what an acquire brings, and is found
again by its thread and nobody else after a crash at any moment of its making. And boxes whose network is pasta's."""

import json
import shutil
import threading
import time
import unittest

from fixtures import Daemon, main, wait_until
from oci_case import RUNTIME, BoxCase


class Personal(BoxCase):
    @classmethod
    def make_config(cls):
        cls.share = cls.home / "share"
        cls.share.mkdir()
        (cls.share / "hello").write_text("from the host\n")
        cls.home.chmod(0o755)
        cls.profiles = {"default": {"personal": True, "warm": {"min": 2, "max": 2}}}
        cls.config = {"mounts": {"allow": [str(cls.share)]}}
        return super().make_config()

    def labels(self):
        """What the boxes on disk say of themselves."""
        found = []
        for path in (self.server.state / "oci" / "boxes").glob("*/box.json"):
            try:
                found.append(json.loads(path.read_text()))
            except (OSError, ValueError):  # being made or removed
                pass
        return found

    def test_its_name_and_what_comes_later(self):
        box = self.acquire("one", "cold", user_id="ann", envs={"WORD": "given"}, mounts=[
            {"host_path": str(self.share), "container_path": "/data", "read_only": True}])
        self.assertEqual(box.sh("echo $WORD; cat /data/hello"), "given\nfrom the host\n")
        mine = [l for l in self.labels() if box.id in json.dumps(l)]
        self.assertEqual(len(mine), 1)
        self.assertIn('"ann"', json.dumps(mine[0]))
        self.assertEqual(self.counts()["blank"], 0)
        self.assertEqual(self.acquire("one", "kept", user_id="ann").box_id, box.box_id)

    def test_killed_while_it_is_made(self):
        for i in range(6):
            with self.subTest(i=i):
                thread = threading.Thread(target=self.try_acquire, args=(f"k{i}",))
                thread.start()
                time.sleep(i * 0.03)
                self.server.kill()
                thread.join()
                self.server.start()
                type(self).pool = self.server.client()
                box = self.acquire(f"k{i}", wait_ms=30000)
                self.assertEqual(box.sh("echo alive"), "alive\n")
                self.assertEqual(self.acquire(f"k{i}", "kept").box_id, box.box_id)
                self.assertEqual(self.counts()["blank"], 0)
                self.pool.close()

    def try_acquire(self, thread):
        try:
            self.server.acquire(thread, wait_ms=30000)
        except Exception:  # the daemon was killed
            pass

    def test_nobody_waits_any_more(self):
        before = len(self.rows())
        client = self.server.client(timeout=0.05)
        try:
            client.acquire("gone", wait_ms=30000)
        except OSError:
            pass
        client.close()
        wait_until(lambda: self.counts()["starting"] + self.counts()["deleting"] == 0, "settled")
        left = [r for r in self.rows() if r["thread_id"] == "gone" and r["state"] != "leased"]
        self.assertEqual((left, self.counts()["blank"]), ([], 0))
        self.assertLessEqual(len(self.rows()), before + 1)


# A mount namespace in which slirp4netns cannot be run, and the device of networks has mode $1.
ONLY_PASTA = ("unshare", "-m", "bash", "-c",
              '{ ! test -e /usr/bin/slirp4netns || mount --bind /dev/null /usr/bin/slirp4netns; } && '
              'mknod -m "$1" "$0/tun" c 10 200 && mount --bind "$0/tun" /dev/net/tun; rm -f "$0/tun"; exec "${@:2}"')


class PastaDaemon(Daemon):
    mode = "666"  # as on most machines

    def spawn(self, env=None, args=(), prefix=()):
        return super().spawn(env, args, (*ONLY_PASTA, self.directory, self.mode, *prefix))


@unittest.skipIf("runsc" in RUNTIME, "boxes by runsc have no network")
@unittest.skipUnless(shutil.which("pasta"), "pasta is not installed")
class Pasta(BoxCase):
    daemon = PastaDaemon
    profiles = {"default": {"warm": {"min": 0, "max": 0}}, "nat": {"network": "nat", "warm": {"min": 0, "max": 0}}}

    def finding(self):
        return next(f for b in self.pool.get("/v1/doctor").json["backends"] for f in b["findings"]
                    if f["subject"] == "network nat")

    def test_doctor_says_whether_it_works(self):
        for mode, level in (("600", "warn"), ("666", "ok")):
            self.server.stop()
            self.server.mode = mode
            self.server.start()
            self.pool.close()
            found = self.finding()
            self.assertEqual(found["level"], level, found)
            self.assertEqual("mode 0666" in found["text"], level == "warn", found)

    def test_network_by_pasta(self):
        box = self.acquire("one", "cold", profile="nat")
        pid = (self.server.state / "oci" / "boxes" / box.box_id / "net.pid").read_text().split()[0]
        with open(f"/proc/{pid}/cmdline", encoding="ascii") as file:
            self.assertRegex(file.read(), "^[^\0]*/pasta\0")
        self.assertIn("nameserver", box.sh("cat /etc/resolv.conf"))
        self.assertIn("\t00000000\t", box.sh("cat /proc/net/route"))


# A mount namespace in which neither can be run; or in which slirp4netns is a script of our own, when the directory has one.
NEITHER = ("unshare", "-m", "bash", "-c",
           'for p in slirp4netns pasta; do f=$(command -v $p) || continue; test -e "$0/$p" && with="$0/$p" || with=/dev/null; '
           'mount --bind "$with" "$f"; done; exec "$@"')
FAILING = """#!/bin/sh
echo "this one has no network" >&2
exit 3
"""


class NeitherDaemon(Daemon):
    def spawn(self, env=None, args=(), prefix=()):
        return super().spawn(env, args, (*NEITHER, self.directory, *prefix))


@unittest.skipIf("runsc" in RUNTIME, "boxes by runsc have no network")
class NoNetwork(BoxCase):
    daemon = NeitherDaemon
    profiles = {"default": {"warm": {"min": 0, "max": 0}}, "nat": {"network": "nat", "warm": {"min": 0, "max": 0}}}

    def reason(self):
        answer = self.server.acquire("one", profile="nat", wait_ms=30000)
        self.assertNotEqual(answer.status, 200, answer)
        return answer.text

    def test_what_to_install(self):
        self.assertIn("install the package slirp4netns or passt", self.reason())
        found = next(f for b in self.pool.get("/v1/doctor").json["backends"] for f in b["findings"]
                     if f["subject"] == "network nat")
        self.assertEqual(found["level"], "warn")
        self.assertIn("install the package slirp4netns or passt", found["text"])

    @unittest.skipUnless(shutil.which("slirp4netns"), "slirp4netns is not installed")
    def test_one_that_fails(self):
        """What it says itself is in the answer."""
        program = self.home / "slirp4netns"
        program.write_text(FAILING)
        program.chmod(0o755)
        self.server.stop()
        self.server.start()
        self.addCleanup(self.restart_without, program)
        text = self.reason()
        self.assertIn("slirp4netns ended before the network was up", text)
        self.assertIn("this one has no network", text)

    def restart_without(self, program):
        program.unlink()
        self.server.stop()
        self.server.start()


if __name__ == "__main__":
    main()
