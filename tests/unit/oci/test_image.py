# Images become directories, once: made here by hand around busybox, fetched by skopeo and unpacked by
# umoci through get_image. Needs root (owners are kept) and both programs.
import glob
import hashlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "lib"))
from testlib import BIN, at_most, main, tmpdir  # noqa: E402

GET_IMAGE = str(BIN / "tests" / "get_image")
BUSYBOX = shutil.which("busybox")


def entry(name, data=None, mode=0o644, uid=0, kind=tarfile.REGTYPE, link=""):
    info = tarfile.TarInfo(name)
    info.mode, info.uid, info.gid, info.type, info.linkname = mode, uid, uid, kind, link
    info.size = len(data) if data is not None else 0
    return info, data


def tar(path, entries):
    with tarfile.open(path, "w") as out:
        for info, data in entries:
            out.addfile(info, io.BytesIO(data) if data is not None else None)


def layer(entries):
    with tempfile.NamedTemporaryFile() as f:
        tar(f.name, entries)
        return f.read()


def directory(name, uid=0):
    return entry(name, None, 0o755, uid, tarfile.DIRTYPE)


def base_layer(extra=()):
    with open(BUSYBOX, "rb") as f:
        program = f.read()
    return layer([directory("bin"), entry("bin/busybox", program, 0o755),
                  entry("bin/sh", None, 0o777, 0, tarfile.SYMTYPE, "busybox")] + list(extra))


PASSWD = [directory("etc"), entry("etc/passwd", b"root:x:0:0::/root:/bin/sh\nnode:x:1000:1000::/home/node:/bin/sh"),
          entry("etc/group", b"root:x:0:\n")]


def archive(path, layers, env=("PATH=/bin", "QUOTED=a \"b\" c"), workdir="/srv"):
    config = json.dumps({
        "architecture": "amd64", "os": "linux", "config": {"Env": list(env), "WorkingDir": workdir},
        "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(l).hexdigest() for l in layers]},
    }).encode()
    name = hashlib.sha256(config).hexdigest() + ".json"
    names = ["%d/layer.tar" % i for i in range(len(layers))]
    manifest = json.dumps([{"Config": name, "RepoTags": ["box:1"], "Layers": names}]).encode()
    tar(path, [entry(name, config), entry("manifest.json", manifest)] +
        [entry(n, l) for n, l in zip(names, layers)])


class Images(unittest.TestCase):
    def setUp(self):
        self.dir = str(tmpdir(self, "sandpool-image-"))
        self.cache = self.dir + "/state/oci"
        os.mkdir(self.dir + "/state")
        self.tar = self.dir + "/box.tar"
        self.env = dict(os.environ)

    def wrap(self, tool, before=""):
        """Puts a program of the tool's name before it: writes down each call."""
        tools = self.dir + "/tools"
        os.makedirs(tools, exist_ok=True)
        with open(tools + "/" + tool, "w") as f:
            f.write('#!/bin/sh\necho %s "$@" >>%s/calls\n%s\nexec %s "$@"\n' % (
                tool, self.dir, before, shutil.which(tool)))
        os.chmod(tools + "/" + tool, 0o755)
        self.env["PATH"] = tools + ":" + os.environ["PATH"]

    def calls(self, what=""):
        try:
            with open(self.dir + "/calls") as f:
                return [l for l in f if what in l]
        except FileNotFoundError:
            return []

    def get(self, *images, user="user", count=1, cancel_ms=0):
        r = subprocess.run([GET_IMAGE, self.cache, user, str(count), str(cancel_ms)] + list(images),
                           stdout=subprocess.PIPE, env=self.env, timeout=60, check=True)
        found = [json.loads(l) for l in r.stdout.splitlines()]
        self.assertEqual(len(found), count * len(images))
        return found

    def good(self, image, **options):
        found = self.get(image, **options)
        for one in found:
            self.assertEqual(one["result"], "ok", one["message"])
            self.assertEqual(one, found[0])
        self.assertNothingLeft()
        return found[0]

    def bad(self, image, code, *words, **options):
        for one in self.get(image, **options):
            self.assertEqual(one["result"], code, one["message"])
            for word in words:
                self.assertIn(word, one["message"])
        self.assertNothingLeft()

    def assertNothingLeft(self):
        self.assertEqual(glob.glob(self.cache + "/images/*.tmp"), [])

    def images(self):
        return sorted(p for p in os.listdir(self.cache + "/images") if not p.endswith((".ref", ".lock")))

    def test_archive(self):
        archive(self.tar, [base_layer(PASSWD + [
            directory("data", 33), entry("data/of33", b"x", 0o640, 33),
            entry("data/same", None, 0o640, 33, tarfile.LNKTYPE, "data/of33"),
            entry("gone", b"x")]),
            layer([entry(".wh.gone", b""), entry("later", b"2")])])
        found = self.good("docker-archive:" + self.tar)
        root = found["rootfs"]
        self.assertEqual(found["env"], ["PATH=/bin", "QUOTED=a \"b\" c"])
        self.assertEqual(found["workdir"], "/srv")
        out = subprocess.check_output(["chroot", root, "/bin/busybox", "echo", "hello"], timeout=10)
        self.assertEqual(out, b"hello\n")
        st = os.stat(root + "/data/of33")
        self.assertEqual((st.st_uid, st.st_gid, st.st_mode & 0o777, st.st_nlink), (33, 33, 0o640, 2))
        self.assertFalse(os.path.exists(root + "/gone"))
        self.assertTrue(os.path.exists(root + "/later"))
        with open(root + "/etc/passwd") as f:
            self.assertEqual(f.read().splitlines()[1:], ["node:x:1000:1000::/home/node:/bin/sh",
                                                         "user:x:1000:1000::/home/user:/bin/sh"])
        with open(root + "/etc/group") as f:
            self.assertEqual(f.read(), "root:x:0:\nuser:x:1000:\n")
        self.assertEqual(os.stat(os.path.dirname(root)).st_mode & 0o777, 0o700)
        self.assertEqual(sorted(os.listdir(os.path.dirname(root))), ["image.json", "rootfs"])

    def test_all_kinds_of_reference(self):
        archive(self.tar, [base_layer(PASSWD)])
        layout = self.dir + "/layout"
        subprocess.run(["skopeo", "copy", "-q", "docker-archive:" + self.tar, "oci:" + layout + ":one"],
                       check=True, timeout=30)
        for image in (self.tar, layout, layout + ":one", "oci:" + layout, "oci:" + layout + ":one"):
            self.assertTrue(os.path.exists(self.good(image)["rootfs"] + "/bin/busybox"), image)
        self.assertEqual(len(self.images()), 2)  # the layout has another manifest than the archive
        self.bad("oci:" + layout + ":two", "backend_failed", "skopeo", "two")

    def test_bad_references(self):
        for image in ("box", "oci:relative/path", "ftp://example.org/x", "--help"):
            self.bad(image, "invalid_field", "image '%s'" % image)
        self.bad("/nowhere/box.tar", "backend_failed", "/nowhere/box.tar", "No such file")

    def test_unpacked_once(self):
        archive(self.tar, [base_layer(PASSWD)])
        self.wrap("skopeo")
        self.wrap("umoci")
        first = self.good(self.tar)
        self.assertEqual(len(self.calls("umoci raw unpack")), 1)
        before = len(self.calls())
        self.assertEqual(self.good(self.tar), first)
        self.assertEqual(len(self.calls()), before)  # an unchanged file: nobody is asked
        os.utime(self.tar)
        self.assertEqual(self.good(self.tar), first)
        self.assertEqual(len(self.calls("umoci raw unpack")), 1)  # touched: asked, and the same
        os.remove(glob.glob(self.cache + "/images/*.ref")[0])
        self.assertEqual(self.good(self.tar), first)
        self.assertEqual(len(self.calls("umoci raw unpack")), 1)

    def test_changed(self):
        archive(self.tar, [base_layer(PASSWD)])
        first = self.good(self.tar)
        archive(self.tar, [base_layer(PASSWD + [entry("new", b"1")])], env=["A=2"])
        second = self.good(self.tar)
        self.assertNotEqual(first["rootfs"], second["rootfs"])
        self.assertTrue(os.path.exists(second["rootfs"] + "/new"))
        self.assertFalse(os.path.exists(first["rootfs"] + "/new"))
        self.assertEqual(second["env"], ["A=2"])

    def test_changed_while_it_is_read(self):
        archive(self.tar, [base_layer(PASSWD)])
        self.wrap("umoci", "touch " + self.tar)
        self.bad(self.tar, "backend_failed", "changed while")
        self.assertEqual(self.images(), [])

    def test_many_at_once(self):
        archive(self.tar, [base_layer(PASSWD)])
        self.wrap("umoci", "sleep 0.3")
        self.good(self.tar, count=8)
        self.assertEqual(len(self.calls("umoci")), 1)

    def test_two_daemons_at_once(self):
        archive(self.tar, [base_layer(PASSWD)])
        self.wrap("umoci", "sleep 0.3")
        argv = [GET_IMAGE, self.cache, "user", "1", "0", self.tar]
        both = [subprocess.Popen(argv, stdout=subprocess.PIPE, env=self.env) for _ in range(2)]
        found = [json.loads(p.communicate(timeout=30)[0]) for p in both]
        self.assertEqual(found[0]["result"], "ok")
        self.assertEqual(found[0], found[1])
        self.assertEqual(len(self.calls("umoci")), 1)

    def test_other_user(self):
        archive(self.tar, [base_layer(PASSWD)])
        found = {user: self.good(self.tar, user=user) for user in ("user", "node", "root")}
        self.assertEqual(len({f["rootfs"] for f in found.values()}), 3)
        for user, lines in (("node", 2), ("root", 2), ("user", 3)):
            with open(found[user]["rootfs"] + "/etc/passwd") as f:
                self.assertEqual(len(f.readlines()), lines, user)

    def test_no_passwd(self):
        archive(self.tar, [base_layer()])
        with open(self.good(self.tar)["rootfs"] + "/etc/passwd") as f:
            self.assertEqual(f.read(), "root:x:0:0:root:/root:/bin/sh\nuser:x:1000:1000::/home/user:/bin/sh\n")

    def test_links_lead_nowhere(self):
        """passwd of the image is a link to a file of the host, by name and by parent."""
        target = self.dir + "/host-file"
        up = "../" * 30
        for link in (target, up + target):
            with open(target, "w") as f:
                f.write("secret\n")
            archive(self.tar, [base_layer([directory("etc"), entry("etc/passwd", None, 0o777, 0,
                                                                   tarfile.SYMTYPE, link)])])
            for one in self.get(self.tar):  # fine as a dangling link, or refused
                self.assertIn(one["result"], ("ok", "io"))
            with open(target) as f:
                self.assertEqual(f.read(), "secret\n")
        archive(self.tar, [base_layer([entry("etc", None, 0o777, 0, tarfile.SYMTYPE, self.dir)])])
        self.get(self.tar)
        self.assertFalse(os.path.exists(self.dir + "/passwd"))
        self.assertNothingLeft()

    def test_passwd_is_a_pipe(self):
        archive(self.tar, [base_layer([directory("etc"), entry("etc/passwd", None, 0o666, 0, tarfile.FIFOTYPE)])])
        self.bad(self.tar, "io", "etc/passwd")
        self.assertEqual(self.images(), [])

    def test_broken_archives(self):
        archive(self.tar, [base_layer(PASSWD)])
        with open(self.tar, "rb") as f:
            whole = f.read()
        for broken in (b"", b"no archive at all", whole[:len(whole) // 2]):
            with open(self.tar, "wb") as f:
                f.write(broken)
            self.bad(self.tar, "backend_failed", "image '%.30s" % self.tar, "skopeo: ")  # long paths are cut
        self.assertEqual(self.images(), [])

    def test_broken_layer(self):
        archive(self.tar, [base_layer(PASSWD), b"this is no layer" * 100])
        self.bad(self.tar, "backend_failed", "umoci: ")
        self.assertEqual(self.images(), [])

    def test_cancelled(self):
        """In each step: the child ends, nothing is left, and the next ask succeeds."""
        archive(self.tar, [base_layer(PASSWD)])
        for tool, before in (("skopeo", "sleep 30"), ("skopeo", 'case "$*" in *copy*) sleep 30;; esac'),
                             ("umoci", "mkdir -p $5; echo half >$5/half; sleep 30 & wait")):
            self.wrap(tool, before)
            start = time.monotonic()
            self.bad(self.tar, "cancelled", cancel_ms=400, count=2)
            self.assertLess(time.monotonic() - start, at_most(10))
            self.assertEqual(self.images(), [])
            shutil.rmtree(self.dir + "/tools")
        self.good(self.tar)

    def test_killed(self):
        """What a killed daemon leaves is no image, and does not stop the next one, who waits for the
        child that is still at it."""
        archive(self.tar, [base_layer(PASSWD)])
        self.wrap("umoci", "sleep 1.5")
        p = subprocess.Popen([GET_IMAGE, self.cache, "user", "1", "0", self.tar], stdout=subprocess.DEVNULL,
                             env=self.env)
        for _ in range(200):
            if self.calls("umoci"):
                break
            time.sleep(0.05)
        p.send_signal(signal.SIGKILL)
        p.wait(timeout=10)
        self.assertEqual(len(glob.glob(self.cache + "/images/*.tmp")), 1)
        self.env["PATH"] = os.environ["PATH"]  # the next one does not sleep
        start = time.monotonic()
        self.good(self.tar)
        self.assertGreater(time.monotonic() - start, 1)

    def test_missing_tools(self):
        archive(self.tar, [base_layer(PASSWD)])
        empty = self.dir + "/empty"
        os.mkdir(empty)
        for path in ("", empty):
            self.env["PATH"] = path
            self.bad(self.tar, "unsupported", "no program skopeo", "packages skopeo and umoci")
        os.symlink(shutil.which("skopeo"), empty + "/skopeo")
        self.bad(self.tar, "unsupported", "no program umoci", "packages skopeo and umoci")

    def test_no_registry(self):
        self.bad("docker://127.0.0.1:1/none:1", "backend_failed", "skopeo: ", "refused")
        # a long line keeps its end, where the cause is, within what a caller is shown
        self.bad("docker://127.0.0.1:1/" + "long/" * 30 + "none:1", "backend_failed", "skopeo: ", " ... ", "refused")


if __name__ == "__main__":
    missing = [n for n in ("skopeo", "umoci", "busybox") if shutil.which(n) is None]
    if os.getuid() != 0 or missing:
        print("needs root, skopeo, umoci and a static busybox; missing: %s" % missing)
        sys.exit(77)
    main()
