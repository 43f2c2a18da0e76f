"""Directories as archives: packed, unpacked, and what a hostile one may not do."""

import io
import os
import pathlib
import sys
import tarfile
import unittest

HERE = pathlib.Path(__file__).resolve()
sys.path[:0] = [str(HERE.parents[1]), str(HERE.parents[3] / "tests" / "lib")]

from testlib import main, tmpdir  # noqa: E402

import sandpool  # noqa: E402
from sandpool import trees  # noqa: E402
from sandpool.transport import Io, drive  # noqa: E402

DATA = bytes(range(256)) * 5000


class Local(Io):
    async def run(self, function):
        return function()


class Trees(unittest.TestCase):
    def setUp(self):
        self.directory = tmpdir(self)
        self.root = self.directory / "root"

    def pack(self, path):
        body, data = trees.Packing(Local(), str(path)), bytearray()
        while True:
            piece = drive(body.next())
            if not piece:
                return io.BytesIO(data)
            data += piece

    def test_there_and_back(self):
        source = self.directory / "source"
        (source / "d" / "empty").mkdir(parents=True)
        (source / "d" / ("n" * 150)).write_bytes(b"long name")
        (source / "zw\u00f6lf").write_bytes(DATA)
        (source / "zw\u00f6lf").chmod(0o755)
        (source / "link").symlink_to("d")
        os.mkfifo(source / "pipe")
        archive = self.pack(source)
        self.assertEqual(len(archive.getvalue()) % 512, 0)
        trees.unpack(archive, str(self.root))
        self.assertEqual((self.root / "d" / ("n" * 150)).read_bytes(), b"long name")
        self.assertEqual((self.root / "zw\u00f6lf").read_bytes(), DATA)
        self.assertEqual((self.root / "zw\u00f6lf").stat().st_mode & 0o777, 0o755)
        self.assertTrue((self.root / "d" / "empty").is_dir())
        self.assertEqual(os.readlink(self.root / "link"), "d")
        self.assertFalse((self.root / "pipe").exists())
        trees.unpack(archive, str(self.root))  # over what is there
        self.assertEqual((self.root / "zw\u00f6lf").read_bytes(), DATA)

    def archive(self, *entries):
        file = io.BytesIO()
        with tarfile.open(fileobj=file, mode="w") as archive:
            for name, kind, target in entries:
                entry = tarfile.TarInfo(name)
                entry.type, entry.linkname, entry.size = kind, target, 4 if kind == tarfile.REGTYPE else 0
                archive.addfile(entry, io.BytesIO(b"evil"))
        return file

    def test_nothing_leads_out(self):
        outside = self.directory / "outside"
        outside.mkdir()
        up = "../" * 20 + str(outside)[1:]
        regular, link, directory = tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.DIRTYPE
        for entries in (
                [(up + "/a", regular, "")],
                [(str(outside / "a"), regular, "")],
                [("d/../../outside/a", regular, "")],
                [("l", link, str(outside)), ("l/a", regular, "")],
                [("l", link, up), ("l/a", regular, "")],
                [("l", link, up)],
                [("a/b/c", directory, ""), ("a/b/c/l", link, "../../.."), ("a/b/c/m", link, "l/../outside")],
                [("a/b/c", directory, ""), ("a/b/c/l", link, "../../.."), ("a/b/c/m", link, "l/../../outside"),
                 ("a/b/c/m/x", link, "y")],
                [("h", tarfile.LNKTYPE, "../outside/a")],
                [("dev", tarfile.CHRTYPE, "")]):
            with self.subTest(entries):
                self.root = self.root / "again"
                with self.assertRaises(sandpool.FileError):
                    trees.unpack(self.archive(*entries), str(self.root))
                self.assertEqual(os.listdir(outside), [])
                for path in self.root.rglob("*"):
                    self.assertTrue(str(path.resolve()).startswith(str(self.root.resolve())), path)

    def test_lengths_that_lie(self):
        """A file of gigabytes in one block, and an entry that is followed by itself."""
        sparse = tarfile.TarInfo("huge")
        sparse.type = tarfile.GNUTYPE_SPARSE
        block = bytearray(sparse.tobuf(tarfile.GNU_FORMAT))
        block[483:495] = b"%011o " % (1 << 33)  # its real size, 8 GB: the most that octal digits can say
        back = tarfile.TarInfo("back")
        back.size = -1024
        for head in (block, bytearray(back.tobuf(tarfile.GNU_FORMAT))):
            head[148:156] = b" " * 8
            head[148:156] = b"%06o\0 " % sum(head)
            with self.subTest(head[:8]), self.assertRaises((sandpool.FileError, tarfile.TarError)):
                trees.unpack(io.BytesIO(bytes(head) + bytes(1024)), str(self.root))
            self.assertEqual([p.name for p in self.root.rglob("*")], [])

    def test_names_of_one_file(self):
        file = self.archive(("d/a", tarfile.REGTYPE, ""), ("b", tarfile.LNKTYPE, "./d/a"), ("c", tarfile.LNKTYPE, "b"))
        for _ in range(2):  # once more over what is there
            trees.unpack(file, str(self.root))
            self.assertEqual({os.stat(self.root / name).st_ino for name in ("d/a", "b", "c")}, {os.stat(self.root / "b").st_ino})
            self.assertEqual((self.root / "c").read_bytes(), b"evil")
        # A file that was there before, or that a link leads to, is not given another name.
        for entries in ([("h", tarfile.LNKTYPE, "b")], [("l", tarfile.SYMTYPE, "/etc/passwd"), ("h", tarfile.LNKTYPE, "l")]):
            with self.assertRaises(sandpool.FileError):
                trees.unpack(self.archive(*entries), str(self.root))
            self.assertFalse(os.path.lexists(self.root / "h"))

    def test_a_record_that_is_too_long(self):
        """However long it says it is, it is not read into memory; the file behind it has holes."""
        for kind in (tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK):
            head = tarfile.TarInfo("x")
            head.type, head.size = kind, 1 << 26
            with open(self.directory / "archive", "w+b") as file, self.subTest(kind):
                file.write(head.tobuf(tarfile.GNU_FORMAT))
                file.truncate(1 << 27)
                with self.assertRaises(sandpool.FileError) as caught:
                    trees.unpack(file, str(self.root))
                self.assertIn("record", str(caught.exception))

    def test_a_link_that_is_there_already(self):
        outside = self.directory / "outside"
        outside.mkdir()
        self.root.mkdir()
        (self.root / "l").symlink_to(outside)
        with self.assertRaises(sandpool.FileError):
            trees.unpack(self.archive(("l/a", tarfile.REGTYPE, "")), str(self.root))
        self.assertEqual(os.listdir(outside), [])


if __name__ == "__main__":
    main()
