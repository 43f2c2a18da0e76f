"""Snapshots on snapshots: many layers become one in the background, nothing in them changes by it, and a daemon that dies in the
middle leaves the old or the new."""

import json
import os
import threading
import unittest

from fixtures import Client, fewer, main, wait_until
from test_boxes_snapshots import SnapshotCase
from test_crash import fault_names

# Everything on the box's own disk and its base: kind, mode, owner, size, content, links, attributes, times.
SHOW = r"""
import hashlib, json, os, stat
top, found, links = os.stat('/').st_dev, {}, {}
for here, dirs, files in os.walk('/', onerror=lambda e: None):
    dirs[:] = [d for d in dirs if os.lstat(os.path.join(here, d)).st_dev == top and os.path.join(here, d) not in
               ('/proc', '/sys', '/dev', '/.sandpool', '/run', '/usr')]
    for name in dirs + files:
        path = os.path.join(here, name)
        try:
            st = os.lstat(path)
        except OSError:
            continue
        if st.st_dev != top or path in ('/etc/hosts', '/etc/hostname', '/etc/resolv.conf', '/proc', '/sys', '/dev'):
            continue
        what = [stat.filemode(st.st_mode), st.st_uid, st.st_gid]
        if stat.S_ISREG(st.st_mode):
            with open(path, 'rb') as f:
                what += [st.st_size, hashlib.sha256(f.read()).hexdigest()[:12], st.st_mtime_ns, st.st_blocks < 2048]
            if st.st_nlink > 1:
                what.append(links.setdefault(st.st_ino, path))
        elif stat.S_ISLNK(st.st_mode):
            what.append(os.readlink(path))
        if not stat.S_ISLNK(st.st_mode):
            what += [[a, os.getxattr(path, a).hex()] for a in sorted(os.listxattr(path)) if not a.startswith('trusted')]
        found[path] = what
print(json.dumps(found, sort_keys=True))
"""

# What a round does depends on its number only.
CHANGE = r"""
import os, random, shutil, struct, sys
n = int(sys.argv[1]); r = random.Random(n)
os.makedirs('/workspace/deep/a/b/c', exist_ok=True)
def put(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, 'w') as f: f.write(text)
put(f'/workspace/file{n}', f'round {n}\n' * r.randint(1, 4000))
put(f'/workspace/deep/a/b/c/{n}', str(n)); os.utime(f'/workspace/deep/a/b/c/{n}', ns=(n, 1700000000123456789 + n))
put('/workspace/changed', str(n))
if n > 2: os.unlink(f'/workspace/file{n - 2}')
os.link(f'/workspace/file{n}', f'/workspace/deep/link{n}'); os.link(f'/workspace/file{n}', f'/opt/link{n}')
os.symlink(f'../file{n - 1}', f'/workspace/deep/sym{n}')
os.chown(f'/workspace/file{n}', 1000 + n % 3, n); os.chmod(f'/workspace/file{n}', 0o4710 if n % 2 else 0o640)
os.setxattr(f'/workspace/file{n}', 'user.round', str(n).encode())
with open(f'/workspace/sparse{n % 4}', 'w') as f: f.seek(1 << 30); f.write(str(n))
if n % 3 == 0:                                    # a directory that is made anew hides what was below
    shutil.rmtree('/workspace/deep/a'); os.makedirs('/workspace/deep/a'); put('/workspace/deep/a/new', str(n))
if n == 4: shutil.rmtree('/etc/ssl', ignore_errors=True); os.unlink('/etc/debian_version')
if n == 6: os.makedirs('/etc/ssl/own'); put('/etc/ssl/own/x', 'x')
if n == 9: shutil.rmtree('/etc/skel', ignore_errors=True); put('/etc/skel', 'a file now')
if n == 11: os.unlink('/etc/skel'); os.makedirs('/etc/skel/d')
if n == 5: os.mkfifo('/workspace/pipe'); put('/workspace/-x \n"y', 'odd'); put('/workspace/' + 'l' * 255, 'long')
if n == 7: shutil.move('/workspace/deep', '/workspace/moved')
def mark(path, name, form, *values):
    try:
        os.setxattr(path, name, struct.pack(form, *values))
    except OSError as problem:
        print(name, problem)
none = 0xffffffff
if n % 5 == 0: mark(f'/workspace/file{n}', 'system.posix_acl_access', '<I' + 'HHI' * 5, 2, 1, 6, none, 2, 7, 1005, 4, 4, none,
                    16, 7, none, 32, 4, none)
if n % 5 == 1: mark(f'/workspace/file{n}', 'security.capability', '<IIIII', 0x2000001, 1 << 13, 0, 0, 0)
"""


class FlattenCase(SnapshotCase):
    config = {**SnapshotCase.config, "snapshots": {"max": 64, "max_per_caller": 64}}

    def change(self, box, number):
        self.assertEqual(box.sh(["python3", "-c", CHANGE, str(number)], user="root"), "")

    def shown(self, box):
        return json.loads(box.sh(["python3", "-c", SHOW], user="root"))

    def layers(self):
        return {s["snapshot_id"]: s["layers"] for s in self.pool.get("/v1/snapshots").json["snapshots"]}

    def trouble(self):
        said = [line for line in self.server.process.output().splitlines() if "flattened" in line]
        return "\n".join([f"layers: {list(self.layers().values())}", *said])

    def flattened(self):
        return self.server.process.output().count("oci.snapshot_flattened")

    def chain(self, count, first=1, box=None, keep=True):
        """A box on `count` snapshots, and these with what is in them."""
        made = []
        box = box or self.acquire("round-0")
        for n in range(first, first + count):
            self.change(box, n)
            shown = self.shown(box)
            made.append((self.take(box), shown))
            self.destroy(box)
            box = self.restored(made[-1][0], f"round-{n}")
            self.assertSame(self.shown(box), shown, n)
            if not keep:
                self.delete(made[-1][0])
        return box, made

    def assertSame(self, found, wanted, n):
        different = {p: (found.get(p), wanted.get(p)) for p in {*found, *wanted} if found.get(p) != wanted.get(p)}
        self.assertEqual(different, {}, n)


class Flattened(FlattenCase):
    def test_many_rounds(self):
        """More than layers can lie on each other."""
        box, made = self.chain(len(list(fewer(range(27)))))
        wait_until(lambda: max(self.layers().values()) <= 8, self.trouble)
        self.assertGreaterEqual(self.flattened(), len(made) // 8)
        self.assertEqual(made[-1][0]["parent"], made[-2][0]["snapshot_id"])
        self.restart()
        for n in (0, len(made) // 2, len(made) - 1):
            self.assertSame(self.shown(self.restored(made[n][0], f"again-{n}")), made[n][1], n)
        self.assertSame(self.shown(box), made[-1][1], "a box that ran all the time")

    def test_layers_go_when_nothing_needs_them(self):
        box, made = self.chain(9, keep=False)
        wait_until(lambda: self.flattened() > 0 and len(self.on_disk()) <= 2, lambda: f"those below are gone: {self.on_disk()}")
        snapshot = self.take(box)
        self.assertLessEqual(snapshot["layers"], 3)
        self.assertSame(self.shown(self.restored(snapshot, "last")), made[-1][1], "last")


@unittest.skipUnless(fault_names(), "this build has no crash points")
class Killed(FlattenCase):
    def test_one_that_is_made_meanwhile(self):
        """It counts the layers that there are when it is whole, not those when it began."""
        gates = {point: self.server.state.parent / point for point in ("snapshot.swapped", "snapshot.recorded")}
        box, _ = self.chain(7)
        self.server.kill()
        self.server.start(env={"SANDPOOL_HANG_AT": ",".join(f"{point}={gate}" for point, gate in gates.items())})
        type(self).pool = self.server.client()
        self.addCleanup(self.pool.close)
        before = self.flattened()
        gates["snapshot.swapped"].touch()
        above = self.restored(self.take(box), "above")
        wait_until(lambda: os.path.exists(f"{gates['snapshot.swapped']}.hit"), "flattening")
        gates["snapshot.recorded"].touch()
        made = []
        taker = threading.Thread(target=lambda: made.append(self.take(above)))
        taker.start()
        wait_until(lambda: os.path.exists(f"{gates['snapshot.recorded']}.hit"), "a snapshot on what is flattened")
        gates["snapshot.swapped"].unlink()
        wait_until(lambda: self.flattened() > before, self.trouble)
        gates["snapshot.recorded"].unlink()
        taker.join()
        self.assertEqual([s["layers"] for s in made], [2])
        self.assertEqual(self.layers()[made[0]["snapshot_id"]], 2)
        self.destroy_all()

    def test_at_every_named_point(self):
        for point in ("snapshot.flattened", "snapshot.swapped", "snapshot.merged"):
            with self.subTest(point=point):
                box, made = self.chain(7)
                self.server.kill()
                self.server.start(env={"SANDPOOL_CRASH_AT": f"{point}:1"})
                client = Client(self.server.socket)
                self.assertEqual(client.post(f"/v1/sandboxes/{box.id}/snapshots", {}).status, 200)
                wait_until(lambda: not self.server.process.is_running(), "crash")
                client.close()
                self.server.start()
                type(self).pool = self.server.client()
                self.addCleanup(self.pool.close)
                wait_until(lambda: max(self.layers().values()) <= 8, "all is well")
                top = self.listed()[-1]
                self.assertSame(self.shown(self.restored({"snapshot_id": top}, f"copy-{point[9:]}")), made[-1][1], point)
                wait_until(lambda: self.layers()[top] == 1, lambda: f"it is done in the end: {self.layers()}")
                self.assertEqual(os.listdir(self.server.state / "oci" / "snapshots" / top).count("flat"), 0)
                self.assertSame(self.shown(self.restored({"snapshot_id": top}, f"late-{point[9:]}")), made[-1][1], point)
                self.assertSame(self.shown(box), made[-1][1], point)
                for snapshot in self.listed():
                    self.pool.delete(f"/v1/snapshots/{snapshot}")
                self.destroy_all()


if __name__ == "__main__":
    main()
