"""Real boxes of a daemon that does not run as root: with one user id, with a range of them, and on a
machine where there can be none. Nothing of the machine is changed: where a test needs other settings
it has them in namespaces of its own."""

import http.client
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import threading
import unittest

from fixtures import BIN, WAIT_S, Daemon, Process, is_alive, main, skip, wait_until
from oci_case import RUNTIME, BoxCase, Leftovers, why_not

NOBODY = 65534
PROGRAMS = ("sandpoold", "sandpool", "sandpool-agent", "sandpool-helper")
AS_NOBODY = ("setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups")
# A mount namespace in which everything is as it was, except for the ranges of ids and for who may
# open the device of networks.
WITH_RANGES = ("unshare", "-m", "bash", "-c",
               'mount --bind "$0/ranges" /etc/subuid && mount --bind "$0/ranges" /etc/subgid && '
               '{ mknod -m 666 "$0/tun" c 10 200 && mount --bind "$0/tun" /dev/net/tun; '
               'rm -f "$0/tun"; true; } && exec "$@"')
# A user namespace with a limit of its own, and the same user in it.
WITHOUT_NAMESPACES = (*AS_NOBODY, "unshare", "-U", "--map-current-user", "--keep-caps", "bash", "-c",
                      "echo 0 > /proc/sys/user/max_user_namespaces && "
                      'exec setpriv --inh-caps=-all --ambient-caps=-all "$@"', "-")

# A runtime that starts the box at once, and writes its number only when nobody holds it up.
LATE = """#!/bin/bash
file=
for ((i = 1; i < $#; i++)); do
    at=$((i + 1))
    [ "${{!i}}" = --pid-file ] && file=${{!at}} && set -- "${{@:1:i}}" "$file.late" "${{@:i+2}}"
done
{runtime} "$@" || exit
[ -n "$file" ] || exit 0
while [ -e {home}/hold ]; do sleep 0.1; done
mv "$file.late" "$file"
"""


def works(*command):
    try:
        return subprocess.run([str(c) for c in command] + ["true"], capture_output=True, timeout=WAIT_S, check=False,
                              cwd="/").returncode == 0
    except OSError:
        return False


def why_not_rootless():
    if RUNTIME == "runsc":
        return "runsc needs root"
    if not works(*AS_NOBODY, "unshare", "-Urm"):
        return "ordinary users may not make user namespaces here"
    return why_not()


class UserDaemon(Daemon):
    """sandpoold of an ordinary user; `prefix` is how it is started."""

    prefix = AS_NOBODY

    def spawn(self, env=None, args=()):
        argv = [*self.prefix, self.directory / "bin" / "sandpoold", "--config", self.config,
                "--state-dir", self.state, "--socket", self.socket, *self.args, *args]
        return Process(argv, self.log, {**self.env, "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
                                        "HOME": "/nonexistent", **(env or {})})


def make_home(test):
    """A directory of the user's, with programs where the user may go."""
    home = pathlib.Path(tempfile.mkdtemp(prefix="sandpool-user-"))
    test(shutil.rmtree, home, ignore_errors=True)
    home.chmod(0o755)
    (home / "bin").mkdir()
    for name in PROGRAMS:
        shutil.copy(BIN / name, home / "bin")
    (home / "tmp").mkdir()
    (home / "data").mkdir()
    (home / "data" / "note").write_text("of the host\n")
    for path in (home, home / "tmp", home / "data", home / "data" / "note"):
        os.chown(path, NOBODY, NOBODY)
    return home


class OneId(BoxCase):
    ids = 1
    ranges = "other:100000:65536\nnobody:300000:1000\n"
    user, uid = "root", 0

    @classmethod
    def setUpClass(cls):
        reason = why_not_rootless()
        if reason is not None:
            skip(reason)
        cls.home = make_home(cls.addClassCleanup)
        (cls.home / "ranges").write_text(cls.ranges)
        cls.instance = f"test-{cls.home.name[-8:].lower()}"
        cold = {"backend": "oci", "runtime": RUNTIME, "warm": {"min": 0, "max": 0}}
        cls.profiles = {"default": {**cold, "warm": {"min": 1, "max": 2}, "park_timeout_s": 600},
                        "host": {**cold, "network": "host"},
                        "late": {**cold, "runtime": cls.make_late()},
                        "data": {**cold, "mounts": [f"{cls.home}/data:/data:ro"]}}
        if shutil.which("slirp4netns") and works(*cls.prefix(), "test", "-w", "/dev/net/tun", "-a"):
            cls.profiles["nat"] = {**cold, "network": "nat"}
        cls.server = UserDaemon(cls.home, {
            "instance": cls.instance, "profiles": cls.profiles,
            "mounts": {"allow": [str(cls.home / "data")]}})
        cls.server.prefix = cls.prefix()
        cls.left = Leftovers(cls.server.state, cls.instance)
        cls.addClassCleanup(cls.left.sweep)
        cls.addClassCleanup(cls.end)
        cls.server.start()
        cls.pool = cls.server.client()

    @classmethod
    def make_late(cls):
        path = cls.home / "late" / RUNTIME
        path.parent.mkdir()
        path.write_text(LATE.format(runtime=shutil.which(RUNTIME), home=cls.home))
        path.chmod(0o755)
        return str(path)

    @classmethod
    def prefix(cls):
        return (*WITH_RANGES, cls.home, *AS_NOBODY)

    @classmethod
    def end(cls):
        super().end()
        strange = [str(p) for p in cls.server.state.rglob("*") if p.lstat().st_uid != NOBODY]
        assert not strange, f"whoever owns the directory cannot remove {strange[:5]}"

    def assertAgree(self, limit=WAIT_S):
        def agrees():
            counts = self.counts()
            rows = {r["box_id"] for r in self.rows()}
            return (counts["starting"] + counts["deleting"] == 0 and
                    set(self.left.boxes()) == rows and not self.left.groups() and
                    {s.split("/")[1] for s in self.left.runtime_states()} == rows)
        wait_until(agrees, "rows and boxes agree", limit)
        self.assertEqual(self.left.mounts(), [])

    def test_life(self):
        box = self.acquire("life")
        self.assertEqual(box.sh("id -un; id -u; pwd; echo $HOME").split(),
                         [self.user, str(self.uid), "/workspace",
                          "/root" if self.uid == 0 else "/home/user"])
        self.assertEqual(box.sh("echo x > /workspace/x; echo y > ~/y; cat /workspace/x ~/y; "
                                "stat -c %U /workspace /tmp /etc").split(),
                         ["x", "y", self.user, "root", "root"])
        self.assertEqual(box.json("POST", "/v1/file/write",
                                  {"file": "/workspace/z", "content": "by name"})["success"], True)
        self.assertEqual(box.sh("cat /workspace/z; stat -c ' %U' /workspace/z"),
                         f"by name {self.user}\n")
        self.assertNotEqual(box.run("touch /usr/x").exit_code, 0)
        self.assertNotEqual(box.run("ls " + str(self.home)).exit_code, 0)
        init = self.init_of(box)
        maps = pathlib.Path(f"/proc/{init}/uid_map").read_text().split()
        self.assertEqual(maps, ["0", str(NOBODY), "1"] + ([] if self.ids == 1 else
                                                         ["1", "300000", "65535"]))
        self.destroy(box)
        self.assertFalse(is_alive(init))
        self.assertNotIn(box.box_id, self.left.boxes())

    def test_agent_is_out_of_reach(self):
        box = self.acquire("reach")
        for command in ("readlink /proc/1/fd/3", "cat /proc/1/environ", "cat /proc/1/mem",
                        "kill -9 1; sleep 0.2; false"):
            self.assertNotEqual(box.run(command).exit_code, 0, command)
        self.assertEqual(box.sh("echo here"), "here\n")

    def test_boxes_do_not_see_each_other(self):
        one, two = self.acquire("one"), self.acquire("two")
        one.start("exec -a secret-name sleep 300")
        one.sh("echo secret > /workspace/secret; echo secret > /tmp/secret")
        self.assertNotIn("secret", two.sh("ls /workspace /tmp; cat /proc/[0-9]*/cmdline | tr '\\0' ' '"))
        port = str(one.url.port)
        self.assertNotEqual(two.run(f"exec 3<>/dev/tcp/127.0.0.1/{port}").exit_code, 0)

    def test_restart_with_a_box(self):
        box = self.acquire("stay")
        box.sh("echo kept > /workspace/kept")
        running = box.start("sleep 300")
        for end in (self.server.kill, self.server.stop):
            end()
            self.server.start()
            type(self).pool = self.server.client()
            self.addCleanup(self.pool.close)
            again = self.acquire("stay", "kept")
            self.assertEqual(again.box_id, box.box_id)
            self.assertEqual(again.sh("cat /workspace/kept"), "kept\n")
            self.assertEqual(again.process(running)["outcome"], "running")
        os.kill(self.init_of(box), signal.SIGKILL)
        wait_until(lambda: self.pool.get(f"/v1/sandboxes/{box.id}").status == 410, "lost")
        self.assertNotEqual(self.acquire("stay").box_id, box.box_id)

    def test_a_box_that_only_its_runtime_knows(self):
        """It runs, no file has its number yet, and there are no control groups to find it by. Its maker is stopped
        then, or killed, with the daemon: in a test that restarts the daemon that is any warm box at a certain moment, and
        nothing ended it, so its directory stayed for good."""
        self.destroy(self.acquire("known", profile="late"))
        boxes = self.server.state / "oci" / "boxes"
        hold = self.home / "hold"
        self.addCleanup(hold.unlink)
        hold.touch()
        thread = threading.Thread(target=self.ask_late)
        thread.start()
        found = wait_until(lambda: list(boxes.glob("*/pid.late")), "a box runs that is not made yet")[0].parent
        self.server.kill()
        thread.join()
        self.server.start()
        type(self).pool = self.server.client()
        self.addCleanup(self.pool.close)
        wait_until(lambda: not found.exists(), lambda: f"it is removed; {self.log_tail()}")

    def ask_late(self):
        try:
            self.server.acquire("t", profile="late")
        except (OSError, http.client.HTTPException):
            pass  # killed meanwhile

    def test_late_binding(self):
        box = self.acquire("late", envs={"GREETING": "hello"})
        self.assertEqual(box.sh("echo $GREETING"), "hello\n")
        refused = self.server.acquire("limited", limits={"memory": "64M"})
        self.assertCode(refused, 501, "unsupported")
        self.assertIn("limits need control groups, and the daemon does not run as root", refused.text)
        refused = self.server.acquire("mounted", mounts=[
            {"host_path": str(self.home / "data"), "container_path": "/data"}])
        self.assertCode(refused, 501, "unsupported")
        self.assertIn("mounts into a running box need root", refused.text)

    def test_mounts_of_a_profile(self):
        box = self.acquire("data", profile="data")
        self.assertEqual(box.sh("cat /data/note"), "of the host\n")

    def test_network_of_the_host(self):
        box = self.acquire("host", profile="host")
        self.assertEqual(box.sh(f"exec 3<>/dev/tcp/127.0.0.1/{box.url.port} && echo there"),
                         "there\n")

    def test_network_by_nat(self):
        if "nat" not in self.profiles:
            self.skipTest("slirp4netns cannot be used here")
        box = self.acquire("nat", profile="nat")
        wait_until(lambda: "tap0" in box.sh("cat /proc/net/dev"), "the box has its interface")
        helper = int((self.server.state / "oci" / "boxes" / box.box_id / "net.pid")
                     .read_text().split()[0])
        self.assertTrue(is_alive(helper))
        self.destroy(box)
        self.assertFalse(is_alive(helper))

    def test_doctor(self):
        done = subprocess.run([*self.server.prefix, self.home / "bin" / "sandpoold", "--doctor",
                               "--config", self.server.config], capture_output=True, text=True,
                              timeout=WAIT_S * 2, check=False, cwd="/",
                              env={**os.environ, "TMPDIR": str(self.home / "tmp")})
        self.assertEqual(done.returncode, 0, (done.stdout, done.stderr))
        found = {f["subject"]: (f["level"], f["text"])
                 for f in json.loads(done.stdout)["backends"][0]["findings"]}
        self.assertIn(f"yes, as user {NOBODY}", found["rootless"][1])
        self.assertIn("share user ids", found["rootless"][1])
        for subject in ("limits", "disk limits", "late mounts"):
            self.assertEqual(found[subject][0], "warn")
            self.assertTrue(found[subject][1].startswith("none: "), found[subject])
        self.assertEqual(found[f"runtime {RUNTIME}"][0], "ok")
        self.check_ids(*found["user ids"])
        self.assertEqual(os.listdir(self.home / "tmp"), [])

    def check_ids(self, level, text):
        self.assertEqual(level, "warn")
        self.assertTrue(text.startswith("1: commands run as the box's root"), text)
        self.assertIn("/etc/subuid and /etc/subgid have no 65536 ids for user nobody", text)


class Range(OneId):
    """The same where the user has a range of ids."""

    ids = 65536
    ranges = f"other:100000:65536\n{NOBODY}:300000:65536\n"
    user, uid = "user", 1000

    @classmethod
    def setUpClass(cls):
        if shutil.which("newuidmap") is None:
            raise unittest.SkipTest("newuidmap is not installed")
        super().setUpClass()

    def check_ids(self, level, text):
        self.assertEqual((level, text), ("ok", "65536, the same for all boxes"))

    def test_root_of_the_box(self):
        box = self.acquire("root")
        self.assertEqual(box.sh("id -u; install -o 33 -g 33 -m 640 /etc/hosts /srv/x; "
                                "stat -c %u:%g /srv/x", user="root").split(), ["0", "33:33"])
        self.assertNotEqual(box.run("cat /srv/x").exit_code, 0)

    def test_programs_that_gain_nothing_cannot_map(self):
        done = subprocess.run(
            [*self.prefix(), "setpriv", "--no-new-privs", self.home / "bin" / "sandpoold", "--doctor",
             "--config", self.server.config], capture_output=True, text=True, timeout=WAIT_S,
            check=False, cwd="/", env={**os.environ, "TMPDIR": str(self.home / "tmp")})
        self.assertEqual(done.returncode, 1)
        self.assertIn("no_new_privs", done.stdout)


class Refused(unittest.TestCase):
    """What cannot work is reported with what to do."""

    def setUp(self):
        reason = why_not_rootless()
        if reason is not None:
            self.skipTest(reason)
        self.home = make_home(self.addCleanup)
        self.config = self.home / "sandpool.yaml"
        self.config.write_text(json.dumps({"profiles": {"default": {"backend": "oci"}}}))

    def run_daemon(self, prefix, *args):
        return subprocess.run(
            [*prefix, self.home / "bin" / "sandpoold", "--config", self.config, *args],
            capture_output=True, text=True, timeout=WAIT_S, check=False, cwd="/",
            env={**os.environ, "TMPDIR": str(self.home / "tmp")})

    def test_no_user_namespaces(self):
        if not works(*WITHOUT_NAMESPACES):
            self.skipTest("unshare is too old")
        before = pathlib.Path("/proc/sys/user/max_user_namespaces").read_text()
        sentence = ("without root the oci backend needs user namespaces, and there may be none here: "
                    "set user.max_user_namespaces (sysctl user.max_user_namespaces=15000), or run the "
                    "daemon as root")
        done = self.run_daemon(WITHOUT_NAMESPACES, "--state-dir", self.home / "state", "--socket",
                               self.home / "sock")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(f"sandpoold: profile 'default': {sentence}\n", done.stderr)
        done = self.run_daemon(WITHOUT_NAMESPACES, "--doctor")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(json.loads(done.stdout)["backends"][0]["findings"],
                         [{"level": "fail", "subject": "start", "text": sentence}])
        self.assertEqual(pathlib.Path("/proc/sys/user/max_user_namespaces").read_text(), before)

    def test_state_dir_of_root(self):
        (self.home / "locked").mkdir(mode=0o700)
        done = self.run_daemon(AS_NOBODY, "--state-dir", self.home / "locked" / "state")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(f"'{self.home}/locked/state'", done.stderr)
        self.assertIn("Permission denied", done.stderr)
        self.assertIn("--state-dir", done.stderr)


if __name__ == "__main__":
    main()
