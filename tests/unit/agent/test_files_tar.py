"""/v1/agent/files/tar: archives out and in, with GNU tar and Python's tarfile at the other end, and hostile ones."""

import io
import os
import pathlib
import socket
import subprocess
import tarfile

from agent_client import main, wait_until
from file_client import MIB
from files_client import FilesTest, target


class TarTest(FilesTest):
    def make_tree(self):
        tree = self.root / "tree"
        self.put("tree/a.txt", b"hello")
        self.put("tree/empty", b"")
        self.put("tree/bin/run.sh", b"#!/bin/sh\n").chmod(0o755)
        self.put("tree/block", os.urandom(512))
        self.put("tree/big", os.urandom(3 * MIB + 1))
        self.put("tree/" + "d" * 90 + "/" + "e" * 120 + "/" + "f" * 200, b"long")
        (tree / "link").symlink_to("a.txt")
        (tree / "out").symlink_to("/usr/bin/python3")
        (tree / "long-link").symlink_to("x" * 300)
        os.link(tree / "a.txt", tree / "zz-hard")
        (tree / "none").mkdir(mode=0o700)
        (tree / "ro").mkdir()
        (tree / "ro/file").write_text("r")
        (tree / "ro").chmod(0o555)
        with open(os.fsencode(tree) + b"/\xff\xfe odd\n", "wb") as f:
            f.write(b"odd")
        os.utime(tree / "a.txt", (1, 1234567890))
        os.utime(tree / "none", (1, 1234567890))
        return tree

    def facts(self, top):
        found = {}
        for here, dirs, files in os.walk(os.fsencode(top)):
            for name in dirs + files:
                path = os.path.join(here, name)
                st = os.lstat(path)
                what = os.readlink(path) if os.path.islink(path) else b"d" if os.path.isdir(path) else \
                    pathlib.Path(os.fsdecode(path)).read_bytes()
                found[os.path.relpath(path, os.fsencode(top))] = (
                    (what, 0, 0) if os.path.islink(path) else (what, st.st_mode, int(st.st_mtime)))
        return found

    def pack(self, path):
        answer = self.ask_files("GET", "/tar", path=path)
        self.assertEqual((answer.status, answer.headers["Content-Type"]), (200, "application/x-tar"), answer)
        self.assertEqual(len(answer.body) % 512, 0)
        return answer.body

    def unpack(self, body, path):
        return self.good("PUT", "/tar", body=body, path=path)

    def test_out(self):
        tree = self.make_tree()
        body = self.pack(tree)
        for name in ("gnu", "python"):
            to = self.root / name
            to.mkdir()
            if name == "gnu":
                subprocess.run(["tar", "-xpf", "-", "-C", to], input=body, check=True)
            else:
                with tarfile.open(fileobj=io.BytesIO(body)) as archive:
                    archive.extractall(to)
            self.assertEqual(self.facts(to), self.facts(tree), name)
            self.assertEqual((to / "a.txt").stat().st_ino, (to / "zz-hard").stat().st_ino)

    def test_in(self):
        tree = self.make_tree()
        facts = self.facts(tree)
        made = {}
        for form in ("gnu", "pax", "ustar", "v7"):
            skip = ["--exclude=*/" + "d" * 90, "--exclude=*/long-link"] if form in ("ustar", "v7") else []
            made[form] = subprocess.run(["tar", "-C", tree, f"--format={form}", *skip, "-cf", "-", "."],
                                        check=True, capture_output=True).stdout
        for form in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
            data = io.BytesIO()
            with tarfile.open(fileobj=data, mode="w", format=form) as archive:
                archive.add(tree, ".")
            made[form] = data.getvalue()
        made["ours"] = self.pack(tree)
        for name, body in made.items():
            to = self.root / f"new/{name}"
            answer = self.unpack(body, to)
            self.assertEqual(answer["skipped"], 0)
            got = self.facts(to)
            want = {k: v for k, v in facts.items() if name not in ("ustar", "v7") or k in got}
            self.assertEqual(got, want, name)
            self.assertGreaterEqual(len(got), 13)
            self.assertEqual((to / "a.txt").stat().st_ino, (to / "zz-hard").stat().st_ino)
        self.assertEqual(answer["bytes"], sum(len(v[0]) for k, v in facts.items() if v[1] & 0o170000 == 0o100000)
                         - 5)  # one name of a.txt is a link
        self.nothing_left()

    def test_again_replaces(self):
        tree = self.make_tree()
        body = self.pack(tree)
        to = self.root / "to"
        self.unpack(body, to)
        (to / "a.txt").unlink()
        (to / "a.txt").symlink_to("/etc/hostname")
        (to / "link").unlink()
        (to / "link").write_text("a file")
        self.unpack(body, to)
        self.assertEqual(self.facts(to), self.facts(tree))

    def test_sizes_over_8_gib(self):
        path = self.root / "tree/sparse"
        path.parent.mkdir()
        size = 9 * 1024 * MIB
        with open(path, "wb") as f:
            f.truncate(size)
        connection, response = self.open("GET", target("/tar", path=path.parent))
        head = response.read(2048)
        response.close()
        connection.close()
        info = tarfile.TarInfo.frombuf(head[1024:1536], "utf-8", "strict")
        self.assertIn(f"size={size}\n".encode(), head[512:1024])
        self.assertEqual(info.name, "sparse")
        wait_until(self.no_helpers, "the helper has ended")

    def test_special_files_are_left_out(self):
        tree = self.root / "tree"
        self.put("tree/f", "x")
        os.mkfifo(tree / "fifo")
        with socket.socket(socket.AF_UNIX) as s:
            s.bind(str(tree / "socket"))
        answer = self.ask_files("GET", "/tar", path=tree)
        self.assertEqual(answer.headers["X-Sandpool-Skipped"], "2")
        with tarfile.open(fileobj=io.BytesIO(answer.body)) as archive:
            self.assertEqual(archive.getnames(), ["f"])
        answer = self.unpack(self.archive(("fifo", tarfile.FIFOTYPE, ""), ("null", tarfile.CHRTYPE, ""),
                                          ("g", tarfile.REGTYPE, b"x")), self.root / "to")
        self.assertEqual((answer["entries"], answer["skipped"]), (3, 2))
        self.assertEqual(os.listdir(self.root / "to"), ["g"])

    def test_errors(self):
        self.bad(404, "file_not_found", "GET", "/tar", path=self.root / "no")
        self.bad(400, "not_directory", "GET", "/tar", path=self.put("f", "x"))
        self.bad(400, "not_directory", "PUT", "/tar", body=self.archive(), path=self.root / "f/x")
        to = self.root / "to"
        for body in (b"", b"x", b"x" * 512, b"\x1f\x8b" + b"x" * 2000, b"\xff" * 10240):
            self.bad(400, "bad_archive", "PUT", "/tar", body=body, path=to)
        self.assertEqual(os.listdir(to), [])
        self.assertEqual(self.unpack(b"\0" * 1024, to)["entries"], 0)
        whole = self.archive(("f", tarfile.REGTYPE, b"x" * 2000))
        for cut in (100, 512, 600, 1500):
            self.bad(400, "bad_archive", "PUT", "/tar", body=whole[:cut], path=to)
        self.assertEqual(os.listdir(to), [])
        sparse = self.root / "s"
        with open(sparse, "wb") as f:
            f.truncate(4 * MIB)
            f.write(b"x")
        for form in ("gnu", "pax"):
            body = subprocess.run(["tar", "-C", self.root, "-S", f"--format={form}", "-cf", "-", "s"], check=True,
                                  capture_output=True).stdout
            self.bad(400, "bad_archive", "PUT", "/tar", body=body, path=to)
        (to / "dir/sub").mkdir(parents=True)
        self.bad(400, "is_directory", "PUT", "/tar", body=self.archive(("dir", tarfile.REGTYPE, b"x")), path=to)
        self.put("to/file", "x")
        self.bad(409, "file_exists", "PUT", "/tar", body=self.archive(("file", tarfile.DIRTYPE, "")), path=to)
        self.nothing_left()

    def archive(self, *entries):
        data = io.BytesIO()
        with tarfile.open(fileobj=data, mode="w", format=tarfile.PAX_FORMAT) as archive:
            for name, kind, what in entries:
                info = tarfile.TarInfo(name)
                info.type = kind
                if kind == tarfile.REGTYPE:
                    info.size = len(what)
                elif what:
                    info.linkname = what
                archive.addfile(info, io.BytesIO(what) if kind == tarfile.REGTYPE else None)
        return data.getvalue()

    def test_hostile(self):
        outside = self.put("outside/f", "keep")
        to = self.root / "to"
        (to / "in").mkdir(parents=True)
        (to / "door").symlink_to(outside.parent)
        (to / "door-file").symlink_to(outside)
        os.link(outside, to / "hard")
        evil = str(outside.parent)
        file, dir_, link, hard = tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE
        for entries in (
                [("../outside/g", file, b"x")], [("in/../../outside/g", file, b"x")], [("..", dir_, "")],
                [(f"{evil}/g", file, b"x")], [("door/g", file, b"x")], [("door", dir_, "")],
                [("door/g", dir_, "")], [("door/g", link, "x")], [("door/g", hard, "in")],
                [("l", link, evil), ("l/g", file, b"x")], [("l", link, evil), ("l", dir_, "")],
                [("l", link, ".."), ("l/outside/g", file, b"x")],
                [("h", hard, "../outside/f")], [("h", hard, str(outside))], [("h", hard, "")],
                [("in/x", link, "../door"), ("in/x/g", file, b"x")], [("", file, b"x")], [(".", file, b"x")]):
            answer = self.ask_files("PUT", "/tar", self.archive(*entries), path=to)
            self.assertEqual((answer.status, answer.json["error"]["code"]), (400, "unsafe_entry"), entries)
            self.assertEqual(answer.json["error"]["path"].rstrip("/"), entries[-1][0])
        # Through a link of an earlier entry to a hard link: the link is not followed either.
        self.bad(400, "not_directory", "PUT", "/tar", body=self.archive(("h", hard, "door/f")), path=to)
        self.unpack(self.archive(("door-file", file, b"new"), ("hard", file, b"new")), to)
        self.assertEqual(((to / "door-file").read_text(), (to / "hard").read_text()), ("new", "new"))
        self.assertFalse((to / "door-file").is_symlink())
        self.assertEqual(outside.read_text(), "keep")
        self.assertEqual(os.listdir(outside.parent), ["f"])
        self.assertEqual(sorted(p.name for p in self.root.iterdir()), ["outside", "to"])
        info = tarfile.TarInfo("suid")
        info.mode = 0o6755
        self.unpack(info.tobuf() + b"\0" * 1024, to)
        self.assertEqual((to / "suid").stat().st_mode & 0o7777, 0o755)

    def test_broken_off(self):
        whole = self.archive(("a", tarfile.REGTYPE, b"1"), ("b", tarfile.REGTYPE, b"x" * 4 * MIB))
        to = self.root / "to"
        connection = self.begin_put("/tar", len(whole), path=to)
        connection.send(whole[:2 * MIB])
        wait_until(lambda: list(to.glob(".sandpool-*")), "it has begun")
        connection.close()
        wait_until(lambda: to.exists() and [p.name for p in to.iterdir()] == ["a"], "half a file does not stay")
        wait_until(self.no_helpers, "the helper has ended")

    def test_reader_goes(self):
        self.put("tree/big", b"")
        os.truncate(self.root / "tree/big", 512 * MIB)
        connection, response = self.open("GET", target("/tar", path=self.root / "tree"))
        response.read(5000)
        self.assertEqual(len(self.children()), 1)
        response.close()
        connection.close()
        wait_until(self.no_helpers, "the helper has ended")

    def test_many_files(self):
        for i in range(500):
            self.put(f"tree/{i % 20}/{i}", str(i))
        body = self.pack(self.root / "tree")
        self.assertEqual(self.unpack(body, self.root / "to")["entries"], 520)
        self.assertEqual(self.facts(self.root / "to"), self.facts(self.root / "tree"))


if __name__ == "__main__":
    main()
