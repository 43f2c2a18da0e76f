"""Boxes of an ordinary user: one user id, no cgroups, no disk limit, and clear words about the rest."""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

from helper_client import AGENT, HELPER, WAIT_S, Box, Failure, HelperTest, main, wait_until

NOBODY = 65534
AS_NOBODY = {"user": NOBODY, "group": NOBODY, "extra_groups": []}


def can_unshare():
    done = subprocess.run(["unshare", "-Urm", "true"], check=False, timeout=WAIT_S, capture_output=True, **AS_NOBODY)
    return done.returncode == 0


class Rootless(HelperTest):
    ranges = None

    @classmethod
    def setUpClass(cls):
        if not can_unshare():
            raise unittest.SkipTest("ordinary users may not make user namespaces here")
        cls.state = pathlib.Path(tempfile.mkdtemp(prefix="sandpool-hands-"))
        (cls.state / "boxes").mkdir()
        for path in (cls.state, cls.state / "boxes"):
            os.chown(path, NOBODY, NOBODY)
        # The program may lie where only we may go.
        cls.bin = cls.state / "bin"
        cls.bin.mkdir()
        for path in (HELPER, AGENT):
            shutil.copy(path, cls.bin)
        cls.base_plan = {"dir": str(cls.state / "base"), "user": "user", "user_id": 1000}
        cls.base = cls.state / "base" / json.loads(cls.run_helper("base", cls.base_plan).stdout)["digest"]

    @classmethod
    def command(cls, *args):
        """How the user runs a program; with `ranges` on a machine where the user has a range of ids."""
        user = ["setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups", *args]
        if cls.ranges is None:
            return user
        cover = 'mount --bind "$0" /etc/subuid && mount --bind "$0" /etc/subgid && exec "$@"'
        return ["unshare", "-m", "bash", "-c", cover, cls.ranges, *user]

    @classmethod
    def run_helper(cls, verb, plan, **args):
        return subprocess.run(cls.command(str(cls.bin / "sandpool-helper"), verb), input=json.dumps(plan),
                              capture_output=True, text=True, timeout=WAIT_S, check=False, cwd="/")

    def spec(self, name, args=None, memory=0):
        spec = super().spec(name, args or ["/.sandpool/agent", "--channel-fd", "3", "--workdir",
                                           "/workspace", "--detach-stdio"])
        linux = spec["linux"]
        del linux["cgroupsPath"], linux["resources"], linux["uidMappings"], linux["gidMappings"]
        linux["namespaces"] = [n for n in linux["namespaces"] if n["type"] != "user"]
        spec["mounts"] = [m for m in spec["mounts"] if m["type"] != "cgroup"]
        return spec

    def plan(self, name, spec=None, **more):
        plan = super().plan(name, spec, **{"id_base": 0, "id_count": 1, "user_id": 0, "owned": [
            {"path": "/workspace", "id": 0, "mode": 0o755}], **more})
        del plan["cgroup"]
        plan["binds"][1]["from"] = str(self.bin / "sandpool-agent")
        return plan

    def box_of(self, plan):
        s = self.listen()
        p = subprocess.Popen(
            ["bash", "-c", f'exec "$@" 3<&{s.fileno()}', "-", *self.command(str(self.bin / "sandpool-helper"), "run")],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, pass_fds=[s.fileno()],
            cwd="/")
        out, err = p.communicate(json.dumps(plan), timeout=WAIT_S)
        if p.returncode != 0:
            raise Failure(p.returncode, err)
        box = Box(plan, s.getsockname()[1], json.loads(out)["pid"])
        s.close()
        return box

    def test_life(self):
        box = self.box("plain")
        self.assertEqual(box.call("GET", "/v1/sandbox")[0], 200)
        self.assertEqual(box.sh("id -u; stat -c %u /etc /workspace; echo x > /workspace/x; cat /workspace/x")[0].split(),
                         ["0", "0", "0", "x"])
        self.assertEqual((box.dir / "upper/workspace/x").stat().st_uid, NOBODY)
        self.assertNotEqual(box.sh("touch /usr/x")[1], 0)
        self.assertEqual(pathlib.Path(f"/proc/{box.pid}").stat().st_uid, NOBODY)
        report = self.remove(box.plan)
        self.assertTrue(report["was_running"])
        self.assertTrue(wait_until(lambda: not pathlib.Path(f"/proc/{box.pid}/exe").exists()))
        self.assertFalse(box.dir.exists())

    def test_what_cannot_be_done_is_said(self):
        for more, words in (({"id_count": 65536}, "/etc/subuid"), ({"disk": 1 << 26, "disk_template": "/x/y"}, "root"),
                            ({"id_base": 65536}, "'id_base' must be 0")):
            with self.assertRaises(Failure) as e:
                self.box("not", **more)
            self.assertIn(words, e.exception.text)
            self.assertFalse((self.state / "boxes" / "not").exists())
        plan = {"dir": "/x", "pid": 2, "id_base": 0, "id_count": 1, "user_id": 0, "mounts": [], "allow": []}
        done = self.run_helper("mount", plan)
        self.assertIn("root", done.stderr)


@unittest.skipUnless(shutil.which("newuidmap"), "newuidmap is not installed")
class Range(Rootless):
    """The same with 65536 ids."""

    @classmethod
    def setUpClass(cls):
        with tempfile.NamedTemporaryFile("w", prefix="sandpool-sub", delete=False) as f:
            f.write("other:100000:65536\nnobody:300000:65536\n")
        os.chmod(f.name, 0o644)
        cls.addClassCleanup(os.unlink, f.name)
        cls.ranges = f.name
        super().setUpClass()

    test_what_cannot_be_done_is_said = None

    def test_life(self):
        args = ["/.sandpool/agent", "--channel-fd", "3", "--user", "user", "--workdir", "/workspace",
                "--detach-stdio"]
        box = self.box("ids", spec=self.spec("ids", args), id_count=65536, user_id=1000,
                       owned=[{"path": "/workspace", "id": 1000, "mode": 0o755}])
        self.assertEqual(box.sh("id -un; stat -c %U /etc /workspace ~; touch /workspace/x")[0].split(),
                         ["user", "root", "user", "user"])
        self.assertEqual((box.dir / "upper/workspace/x").stat().st_uid, 300000 + 999)
        self.assertTrue(self.remove(box.plan)["was_running"])
        self.assertFalse(box.dir.exists())


if __name__ == "__main__":
    main()
