"""Files that somebody has made to do harm, or that are broken: each is refused with a sentence, and nothing of it stays."""

import concurrent.futures
import contextlib
import hashlib
import http.client
import os
import struct
import subprocess
import tarfile
import threading
import time
import unittest

from bundle_case import MAGIC, TOP, BundleCase, bundle, compress, entry, unpack
from fixtures import Daemon, UnixConnection, at_most, main, wait_until
from test_crash import fault_names

MB = 1024 * 1024


def directory(name, **fields):
    return entry(name, tarfile.DIRTYPE, mode=0o755, **fields)


def symlink(name, target):
    return entry(name, tarfile.SYMTYPE, link=target)


def hard_link(name, target):
    return entry(name, tarfile.LNKTYPE, link=target)


def sparse(name, size, text, data=b""):
    """A file with this map, whatever it says."""
    body = text + bytes(-len(text) % 512) + data
    return entry(name, data=body, records={"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": name,
                                           "GNU.sparse.realsize": str(size)})


def xattr(name, value="x"):
    return {"SCHILY.xattr." + name: value}


W = directory("files/w")

# What is in the archive, and a part of the sentence that refuses it.
BAD = {
    "an absolute name": ([entry("/etc/cron.d/x", data=b"x")], "not below files"),
    "a name that leads out": ([entry("files/../../x", data=b"x")], "no path"),
    "a name that leads out of a directory": ([W, entry("files/w/../../x", data=b"x")], "no path"),
    "a name with a dot": ([entry("files/./x", data=b"x")], "no path"),
    "an empty part of a name": ([W, entry("files/w//x", data=b"x")], "no path"),
    "a name that only begins alike": ([entry("files2", data=b"x")], "not below files"),
    "another name": ([entry("etc/passwd", data=b"x")], "not below files"),
    "a long part of a name": ([entry("files/" + "n" * 256, data=b"x")], "no path"),
    "a deep name": ([entry("files/" + "d/" * 300 + "x", data=b"x")], "no path"),
    "no directory": ([entry("files/none/x", data=b"x")], "the directory of"),
    "a file as a directory": ([entry("files/a", data=b"x"), entry("files/a/b", data=b"x")], "the directory of"),
    "a link as a directory": ([symlink("files/out", "/"), entry("files/out/root/x", data=b"x")], "the directory of"),
    "a link to here as a directory": ([W, symlink("files/out", "w"), entry("files/out/x", data=b"x")], "the directory of"),
    "a link on the way": ([W, directory("files/w/s"), symlink("files/out", "w"), entry("files/out/s/x", data=b"x")],
                          "the directory of"),
    "a directory over a link": ([symlink("files/out", "/etc"), directory("files/out")], "twice"),
    "a file over a link": ([symlink("files/x", "/etc/passwd"), entry("files/x", data=b"x")], "File exists"),
    "a file twice": ([entry("files/x", data=b"1"), entry("files/x", data=b"2")], "File exists"),
    "a directory twice": ([W, W], "twice"),
    "the top twice": ([TOP], "twice"),
    "a mark over a file": ([entry("files/x", data=b"1"), entry("files/x", records={"SANDPOOL.whiteout": "1"})], "File exists"),
    "a hard link out": ([hard_link("files/x", "/etc/shadow")], "leads out"),
    "a hard link up": ([hard_link("files/x", "files/../../etc/shadow")], "no path"),
    "a hard link by a link": ([symlink("files/e", "/etc"), hard_link("files/x", "files/e/shadow")], "the directory of"),
    "a hard link to a link": ([symlink("files/e", "/etc/shadow"), hard_link("files/x", "files/e")], "which is no file"),
    "a hard link to a directory": ([W, hard_link("files/x", "files/w")], "which is no file"),
    "a hard link to itself": ([hard_link("files/x", "files/x")], "which is no file"),
    "a link that leads nowhere": ([symlink("files/x", "")], "leads nowhere"),
    "a block device": ([entry("files/sda", tarfile.BLKTYPE, devmajor=8)], "a device"),
    "a character device": ([entry("files/mem", tarfile.CHRTYPE, devmajor=1, devminor=1)], "a device"),
    "a mark of the kernel's own": ([entry("files/x", tarfile.CHRTYPE)], "a device"),
    "an owner that no box has": ([entry("files/x", uid=65536)], "owner"),
    "an owner of the host": ([entry("files/x", uid=1610612736)], "owner"),
    "a group that no box has": ([entry("files/x", gid=2**31)], "owner"),
    "an attribute of the overlay": ([entry("files/x", records=xattr("trusted.overlay.redirect", "/etc"))], "attribute"),
    "an opaque mark by attribute": ([directory("files/x", records=xattr("trusted.overlay.opaque", "y"))], "attribute"),
    "an attribute of the kernel": ([entry("files/x", records=xattr("security.selinux"))], "attribute"),
    "an access list that is none": ([entry("files/x", records=xattr("system.posix_acl_access", "x"))], "attribute"),
    "a capability that is none": ([entry("files/x", records=xattr("security.capability", "x"))], "attribute"),
    "a long name of an attribute": ([entry("files/x", records=xattr("user." + "n" * 300))], "malformed"),
    "a large attribute": ([entry("files/x", records=xattr("user.n", "x" * 70000))], "attribute"),
    "a mark with content": ([entry("files/x", data=b"1", records={"SANDPOOL.whiteout": "1"})], "has content"),
    "a mark that is a directory": ([directory("files/x", records={"SANDPOOL.whiteout": "1"})], "has content"),
    "a map without numbers": ([sparse("files/x", 10, b"x\n")], "map"),
    "a map that is cut": ([sparse("files/x", 10, b"2\n0\n")], "map"),
    "a map that goes back": ([sparse("files/x", 8192, b"2\n4096\n512\n0\n512\n", bytes(1024))], "map"),
    "a map beyond the end": ([sparse("files/x", 100, b"1\n50\n512\n", bytes(512))], "map"),
    "a map with more than there is": ([sparse("files/x", 8192, b"1\n0\n1024\n", bytes(512))], "map"),
    "a map with less than there is": ([sparse("files/x", 8192, b"1\n0\n512\n", bytes(1024))], "map"),
    "a map of millions": ([sparse("files/x", 8192, b"9999999\n" + b"0\n" * 1000)], "map"),
    "a sparse file without end": ([sparse("files/x", 2**62, b"1\n%d\n0\n" % 2**62)], ""),
    "an entry of another kind": ([entry("files/x", b"Z")], "type"),
}


class ImportCase(BundleCase):
    def assertRefused(self, data, said, status=422, query=""):
        code, answer = self.send(data, query)
        self.assertEqual(code, status, answer)
        self.assertIn(said, answer["error"]["message"])
        self.assertEqual((self.on_disk(), self.listed()), ([], []))
        return answer["error"]


class Refused(ImportCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        case = cls()
        box = case.acquire("first")
        box.sh(["sh", "-c", "echo first > /workspace/first"])
        first = case.take(box, name="first")
        cls.data = case.file_of(first)
        cls.head, cls.archive = unpack(cls.data)
        case.destroy(box)
        case.delete(first)

    def test_entries(self):
        """The digest is right: only what is in it is not."""
        for what, (entries, said) in BAD.items():
            with self.subTest(what=what):
                self.assertRefused(bundle(self.head, [TOP, *entries]), said, 413 if "without end" in what else 422)

    def test_what_boxes_may_have(self):
        """And a box can be made of it, in which it is no more than a box's own."""
        entries = [TOP, directory("files/w", uid=1000, gid=1000, records={"SANDPOOL.opaque": "1"}),
                   entry("files/w/set", data=b"x", mode=0o6755), symlink("files/w/abs", "/etc/shadow"),
                   symlink("files/w/up", "../../../../../../etc/shadow"), hard_link("files/w/hard", "files/w/set"),
                   entry("files/w/pipe", tarfile.FIFOTYPE), entry("files/.wh.name", data=b"x"),
                   sparse("files/w/hole", 2**40, b"1\n4096\n5\n", b"data!")]
        snapshot = self.imported(bundle(self.head, entries), "?name=odd")
        box = self.restored(snapshot, "odd")
        self.assertEqual(box.sh(["stat", "-c", "%n %a %u %h", "/w/set", "/w/hole"]), "/w/set 6755 0 2\n/w/hole 644 0 1\n")
        self.assertEqual(box.sh(["sh", "-c", "cat /.wh.name; dd if=/w/hole bs=1 skip=4096 count=5 2>/dev/null"]), "xdata!")
        self.assertEqual(box.sh(["sh", "-c", "cat /w/abs /w/up 2>&1 | grep -c root:; true"]), "0\n")
        self.destroy(box)
        self.assertEqual(self.delete(snapshot).status, 200)

    def test_what_makes_no_box(self):
        """What is in the way in a snapshot stays there: refused at once, and nothing of the machine is blamed."""
        etc = directory("files/etc")
        failures = self.pool.get("/v1/pool").json["boxes"]["create_failures"]
        for place, entries in {"/workspace": [symlink("files/workspace", "/nowhere")],
                               "/tmp": [entry("files/tmp", data=b"x")],
                               "/.sandpool/agent": [directory("files/.sandpool"), directory("files/.sandpool/agent")],
                               "/.sandpool": [symlink("files/.sandpool", "/nowhere")],
                               "/.sandpool' is a link": [directory("files/proc"), directory("files/proc/self"),
                                                         symlink("files/.sandpool", "/proc/self")],
                               "/.sandpool/agent' is a link": [directory("files/.sandpool"), entry("files/program", data=b"x"),
                                                               symlink("files/.sandpool/agent", "/program")],
                               "/etc/hostname": [etc, directory("files/etc/hostname")],
                               "/etc": [entry("files/etc", data=b"x")]}.items():
            with self.subTest(place=place):
                snapshot = self.imported(bundle(self.head, [TOP, *entries]))
                answer = self.server.acquire("none", snapshot_id=snapshot["snapshot_id"], wait_ms=20000)
                self.assertCode(answer, 422, "invalid_field")
                self.assertIn(f"'{place}", answer.text)
                self.assertIn(snapshot["snapshot_id"], answer.text)
                self.assertEqual(self.delete(snapshot).status, 200)
        self.assertEqual(self.pool.get("/v1/pool").json["boxes"]["create_failures"], failures)

    def test_damaged(self):
        data, archive = self.data, self.archive
        length = 8 + struct.unpack("<I", data[4:8])[0]
        good = [TOP, entry("files/x", data=b"x" * 100000)]
        whole = bundle(self.head, good)
        text = data[8:length]
        changed = text.replace(b'"first"', b'"other"')
        self.assertNotEqual(changed, text)
        cases = {
            "nothing of it": (b"x", "cut"), "only a frame": (data[:8], "cut"), "half a head": (data[:40], "cut"),
            "only a head": (data[:length], "cut"), "no end": (data[:-1], "cut"), "half": (data[:length + 500], "cut"),
            "something behind it": (data + b"x", "follows"), "twice": (data + data, "follows"),
            "an empty frame behind it": (data + struct.pack("<II", MAGIC, 0), "follows"),
            "another kind of file": (b"PK\3\4" + data, "no snapshot"), "an archive": (archive, "no snapshot"),
            "a long head": (struct.pack("<II", MAGIC, 10**6) + bytes(10**6), "no snapshot"),
            "a head that is no JSON": (bundle(b"{", good), "no snapshot"),
            "not compressed": (data[:length] + archive, "not compressed"),
            "another head": (data[:8] + changed + data[length:], "digest"),
            "a bit": (None, ""), "a wrong digest": (bundle(self.head, good, digest="sha256:" + "0" * 64), "digest"),
            "no digest": (bundle(self.head, good, end=False), "no digest"),
            "nothing": (bundle(self.head, []), "no files"), "no top": (bundle(self.head, good[1:]), "before files"),
            "an entry behind the digest": (data[:length] + compress(unpack(whole)[1][:-1024] + good[1] + bytes(1024)), ""),
            "version 2": (bundle({**self.head, "version": 2}, good), "version 2"),
            "no size": (bundle({**self.head, "bytes": -1}, good), "no snapshot"),
        }
        for what, (bad, said) in cases.items():
            with self.subTest(what=what):
                if bad is None:
                    bad = bytearray(data)
                    bad[len(data) // 2] ^= 1
                self.assertRefused(bytes(bad), said)

    def test_more_than_it_says(self):
        """What is small on the way and large on the disk ends where the head says."""
        small = {**self.head, "bytes": MB, "files": 100}
        self.assertRefused(bundle(small, [TOP, entry("files/x", data=bytes(100 * MB))]), "more is in the file", 413)
        many = [entry(f"files/{i}") for i in range(5500)]
        self.assertRefused(bundle(small, [TOP, *many]), "more is in the file", 413)
        self.assertRefused(bundle({**self.head, "bytes": 2**44}, [TOP]), "are allowed", 413)
        self.assertRefused(bundle({**self.head, "files": 2**30}, [TOP]), "are allowed", 413)

    def test_without_end(self):
        """Ends by itself, with a sender that would go on for ever."""
        small = {**self.head, "bytes": MB, "files": 100}
        start = bundle(small, [])[:8 + struct.unpack("<I", bundle(small, [])[4:8])[0]]

        def endless():
            yield start
            yield b"\x28\xb5\x2f\xfd\x00\x58"  # a frame of zstd without a size
            while True:
                yield 1000 * (struct.pack("<I", (128 * 1024) << 3 | 1 << 1)[:3] + b"\0")  # blocks of 128 KiB of zeros
        self.assertRefused(endless(), "longer than its head allows", 413)

    def test_other_places(self):
        self.assertRefused(self.data, "no profile 'none'", query="?profile=none")
        self.assertRefused(self.data, "not a name", query="?name=a/b")
        other = {**self.head, "base": "sha256:" + "1" * 64}
        error = self.assertRefused(bundle(other, [TOP]), "1" * 64, 409)
        self.assertIn(self.head["base"], error["message"])
        self.assertRefused(bundle({**self.head, "base": None}, [TOP]), "not known", 409)
        self.assertEqual(self.delete(self.imported(bundle(other, [TOP]), "?any_base=1")).status, 200)
        for about, said, status in (({"backend": "docker"}, "backend 'docker'", 409), ({"profile": "gone"}, "no profile 'gone'", 422),
                                    ({"metadata": [1]}, "metadata", 422), ({"name": "a/../b"}, "not a name", 422),
                                    ({"metadata": {"a": "x" * 5000}}, "metadata", 422)):
            self.assertRefused(bundle({**self.head, "snapshot": {**self.head["snapshot"], **about}}, [TOP]), said, status)
        answer = self.pool.post("/v1/snapshots/import")
        self.assertEqual((answer.status, answer.json["error"]["code"]), (422, "invalid_field"))


class Limited(BundleCase):
    config = {**BundleCase.config, "snapshots": {"max": 3, "max_per_caller": 3, "max_bytes_per_caller": "200M"}}

    def test_quotas(self):
        box = self.acquire("quota")
        box.sh(["sh", "-c", "head -c 30000000 /dev/urandom > /workspace/x"])
        first = self.take(box)
        data = self.file_of(first)
        head, _ = unpack(data)
        status, answer = self.send(bundle({**head, "bytes": 190 * MB}, [TOP]))
        self.assertEqual((status, answer["error"]["code"]), (429, "too_many_snapshots"), answer)
        self.assertUnderWayCounts(head, data)
        self.imported(data)
        self.imported(data)
        status, answer = self.send(data)
        self.assertEqual((status, answer["error"]["code"]), (429, "too_many_snapshots"), answer)
        self.assertIn("snapshots.max", answer["error"]["message"])
        self.assertEqual(len(self.on_disk()), 3)


    def assertUnderWayCounts(self, head, data):
        """What an import will take counts from its beginning, and no longer when it fails."""
        large = bundle({**head, "bytes": 120 * MB}, [TOP])
        begun, go = threading.Event(), threading.Event()

        def pieces():
            yield large[:-1]
            wait_until(lambda: any(self.server.state.glob("oci/snapshots/new-*")), "it has begun")
            begun.set()
            self.assertTrue(go.wait(at_most(60)))
        self.addCleanup(go.set)
        with concurrent.futures.ThreadPoolExecutor(1) as threads:
            first = threads.submit(self.send, pieces())
            self.assertTrue(begun.wait(at_most(60)))
            status, answer = self.send(large)
            go.set()
            self.assertEqual(first.result()[0], 422)
        self.assertEqual((status, answer["error"]["code"]), (429, "too_many_snapshots"), answer)
        self.assertIn("snapshots.max_bytes_per_caller", answer["error"]["message"])
        done = self.imported(large)
        self.assertEqual(self.delete(done).status, 200)


@unittest.skipUnless(fault_names(), "this build cannot hurry")
class Slow(ImportCase):
    """Two minutes are 1.2 seconds here."""
    daemon = staticmethod(lambda home, config: Daemon(home, config, {"SANDPOOL_HURRY": "100"}))

    def test_a_byte_now_and_then(self):
        box = self.acquire("slow")
        box.sh(["sh", "-c", "head -c 8000000 /dev/urandom > /workspace/x"])
        snapshot = self.take(box)
        data = self.file_of(snapshot)
        sent = []

        def pieces(size):
            for i in range(0, len(data), size):
                yield data[i:i + size]
                sent.append(size)
                time.sleep(0.02)
        status, answer = self.send(pieces(16))
        self.assertEqual((status, answer["error"]["code"]), (504, "timeout"), answer)
        self.assertIn("32 KB a second", answer["error"]["message"])
        self.assertGreater(len(sent), 10, "it was not for silence")
        status, answer = self.send(pieces(65536))
        self.assertEqual(status, 200, answer)
        self.assertEqual(self.delete(answer).status, 200)
        self.assertSlowReaderIsCut(snapshot)

    def assertSlowReaderIsCut(self, snapshot):
        with contextlib.closing(UnixConnection(self.server.socket, 60)) as connection:
            connection.request("GET", f"/v1/snapshots/{snapshot['snapshot_id']}/export")
            response = connection.getresponse()
            wait_until(lambda: response.read(16) and "snapshot.not_exported" in self.server.log.read_text(), "it is given up")
            with self.assertRaises((http.client.IncompleteRead, ConnectionResetError)):
                response.read()


class SmallDisk(ImportCase):
    """Snapshots on a file system that others fill meanwhile."""
    config = {**BundleCase.config, "store": {"min_free": "32M"}}
    SIZE = 40 * MB

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        case = cls()
        box = case.acquire("head")
        snapshot = case.take(box)
        cls.head = unpack(case.file_of(snapshot))[0]
        case.destroy(box)
        case.delete(snapshot)
        data = os.urandom(cls.SIZE)
        cls.sum = hashlib.sha256(data).hexdigest()
        cls.data = bundle({**cls.head, "bytes": cls.SIZE + MB, "files": 10}, [TOP, W, entry("files/w/x", data=data)])

    @contextlib.contextmanager
    def disk(self, kind, size_mb):
        image, place = self.home / "image", self.server.state / "oci" / "snapshots"
        with open(image, "wb") as file:
            file.truncate(size_mb * MB)
        for words in (["mkfs." + kind, "-q", "-F", "-m", "0", image], ["mount", "-o", "loop", image, place]):
            subprocess.run(words, check=True, timeout=at_most(30))
        try:
            (place / "lost+found").rmdir()
            yield place
            for snapshot in self.listed():
                self.assertEqual(self.pool.delete(f"/v1/snapshots/{snapshot}").status, 200)
            wait_until(lambda: self.on_disk() == [], "they are gone")
        finally:
            subprocess.run(["umount", place], check=True, timeout=at_most(30))
            image.unlink()

    def held(self):
        """The pieces of the file, an event that is set when its disk is there, and one that lets the rest of it go."""
        begun, go = threading.Event(), threading.Event()

        def pieces():
            half = len(self.data) // 2
            for i in range(0, half, 65536):
                yield self.data[i:min(i + 65536, half)]
            wait_until(lambda: any(self.server.state.glob("oci/snapshots/new-*/disk")), "its disk is made")
            begun.set()
            self.assertTrue(go.wait(at_most(60)))
            for i in range(half, len(self.data), 65536):
                yield self.data[i:i + 65536]
        self.addCleanup(go.set)
        return pieces(), begun, go

    def import_while_full(self, place):
        pieces, begun, go = self.held()
        with concurrent.futures.ThreadPoolExecutor(1) as threads:
            answer = threads.submit(self.send, pieces)
            self.assertTrue(begun.wait(at_most(60)))
            with open(place / "filler", "wb") as filler, contextlib.suppress(OSError):
                while True:
                    filler.write(bytes(MB))
                    filler.flush()
            go.set()
            status, answer = answer.result()
        (place / "filler").unlink()
        return status, answer

    def test_filled_meanwhile(self):
        """Its space is set aside before it begins, and what it does not need is given back."""
        with self.disk("ext4", 200) as place:
            status, snapshot = self.import_while_full(place)
            self.assertEqual(status, 200, snapshot)
            self.assertLess(snapshot["size_bytes"], self.SIZE + 8 * MB)
            box = self.restored(snapshot, "whole")
            self.assertEqual(box.sh("sha256sum /w/x")[:64], self.sum)
            self.destroy(box)

    def test_filled_where_nothing_can_be_set_aside(self):
        """What does not reach the disk is no snapshot, although the kernel took it."""
        with self.disk("ext2", 200) as place:
            status, answer = self.import_while_full(place)
            self.assertNotEqual(status, 200, answer)
            self.assertEqual((self.on_disk(), self.listed()), ([], []))

    def test_two_at_once(self):
        """The second sees what the first may still take."""
        with self.disk("ext4", 220):
            pieces, begun, go = self.held()
            with concurrent.futures.ThreadPoolExecutor(1) as threads:
                first = threads.submit(self.send, pieces)
                self.assertTrue(begun.wait(at_most(60)))
                status, answer = self.send(self.data)
                go.set()
                self.assertEqual(first.result()[0], 200)
            self.assertNotEqual(status, 200)
            self.assertIn("have to stay free", answer["error"]["message"])
            self.assertEqual(len(self.listed()), 1)

    def test_little_said(self):
        """A head that names files only: its disk counts, not what it says of bytes."""
        with self.disk("ext4", 220):
            self.assertRefused(bundle({**self.head, "bytes": 0, "files": 20000}, [TOP]), "have to stay free", 502)


if __name__ == "__main__":
    main()
