"""`sandpool cp` out of a box whose archive is made to harm the machine that it is unpacked on."""

import io
import json
import os
import pathlib
import socketserver
import stat
import subprocess
import sys
import tarfile
import tempfile
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "agent"))
from agent_client import BIN, WAIT_S, QuietHandler, main

ID = "fe0dc8182dec7b77"


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    archive = b""


class Handler(QuietHandler):
    def do_GET(self):
        body = self.server.archive
        if "/files/tar" not in self.path:
            body = json.dumps({"sandbox_id": ID, "state": "leased", "name": "d", "path": "/workspace/d", "type": "directory",
                               "size": 0, "mode": "0755", "uid": 0, "gid": 0, "mtime": "2026-01-01T00:00:00.000Z",
                               "target": None}).encode()
        self.answer(body)


class CopyTest(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.dir = pathlib.Path(place.name)
        self.server = Server(str(self.dir / "sock"), Handler)
        self.addCleanup(self.server.server_close)
        thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(self.server.shutdown)

    def copy(self, *entries):
        """Each is a name, its kind, its mode and where it leads."""
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w") as tar:
            for name, kind, mode, target in entries:
                entry = tarfile.TarInfo(name)
                entry.type, entry.mode, entry.linkname = kind, mode, target
                entry.size = 4 if kind == tarfile.REGTYPE else 0
                entry.devmajor, entry.devminor = 1, 3
                tar.addfile(entry, io.BytesIO(b"evil"))
        self.server.archive = archive.getvalue()
        return subprocess.run([str(BIN / "sandpool"), "--socket", str(self.dir / "sock"), "cp", f"{ID}:d", "out"], cwd=self.dir,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=WAIT_S, check=False)

    def test_no_rights_come_out_of_a_box(self):
        result = self.copy(("run", tarfile.REGTYPE, 0o6755, ""), ("d", tarfile.DIRTYPE, 0o2777, ""), ("open", tarfile.REGTYPE, 0o666, ""))
        self.assertEqual(result.returncode, 0, result)
        umask = os.umask(0)
        os.umask(umask)
        for name, mode in (("run", 0o755), ("d", 0o777), ("open", 0o666)):
            self.assertEqual(stat.S_IMODE(os.lstat(self.dir / "out" / name).st_mode), mode & ~umask, name)

    def test_no_devices(self):
        result = self.copy(("null", tarfile.CHRTYPE, 0o666, ""), ("after", tarfile.REGTYPE, 0o644, ""))
        self.assertEqual(result.returncode, 1, result)
        self.assertIn(b"tar could not copy everything", result.stderr)
        self.assertEqual(os.listdir(self.dir / "out"), ["after"])

    def test_nothing_leads_out(self):
        for entries in ([("../evil", tarfile.REGTYPE, 0o644, "")],
                        [(str(self.dir / "evil"), tarfile.REGTYPE, 0o644, "")],
                        [("l", tarfile.SYMTYPE, 0o777, ".."), ("l/evil", tarfile.REGTYPE, 0o644, "")],
                        [("h", tarfile.LNKTYPE, 0o644, "../sock")]):
            with self.subTest(entries[0]):
                self.copy(*entries)
                self.assertFalse((self.dir / "evil").exists())
                self.assertFalse((self.dir / "out" / "h").exists())


main()
