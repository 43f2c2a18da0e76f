"""The file API: uploads and downloads, large ones and broken ones."""

import os
import threading
import time

from agent_client import IS_SANITIZED, TOKEN, Answer, main, wait_until
from file_client import MIB, FileTest, multipart


class TransferTest(FileTest):
    def test_upload(self):
        data = os.urandom(3 * MIB + 17) + b"\r\n--xYzZ\r\n"
        for order in (1, -1):
            target = self.root / f"deep/{order}/ü.bin"
            parts = [("path", None, str(target).encode()), ("other", None, b"x"),
                     ("file", "name.bin", data)][::order]
            answer = self.upload(parts)
            self.assertEqual(answer.status, 200, answer)
            self.assertEqual(answer.data, {"file_path": str(target), "file_size": len(data),
                                           "success": True})
            self.assertTrue(target.read_bytes() == data)
        self.nothing_left()

    def test_upload_places(self):
        self.assertEqual(self.upload([("file", "n.txt", b"1")]).data["file_path"],
                         str(self.home / "n.txt"))
        self.assertEqual(self.upload([("path", None, str(self.root).encode()),
                                      ("file", "../../evil", b"2")]).data["file_path"],
                         str(self.root / "evil"))
        self.assertEqual(self.upload([("file", "e", b""), ("path", None, b"sub/")]).data["file_size"], 0)
        self.assertEqual((self.home / "sub/e").read_bytes(), b"")

    def test_upload_errors(self):
        self.assertEqual(self.upload([("path", None, b"/tmp/x")]).status, 422)
        self.assertEqual(self.call("POST", "/v1/file/upload", b"x").status, 422)
        body, headers = multipart([("file", "f", b"x" * 100)])
        answer = self.call("POST", "/v1/file/upload", body[:-20], headers)
        self.assertIn(answer.status, (400, 422), answer)
        self.fails(400, "is_directory", self.upload([("path", None, str(self.root).encode()),
                                                     ("file", "", b"x")]))
        path = self.put("file", "x")
        self.fails(400, "not_directory", self.upload([("path", None, f"{path}/y".encode()),
                                                      ("file", "f", b"x" * MIB)]))
        self.nothing_left()

    def test_upload_broken_off(self):
        body, headers = multipart([("path", None, str(self.root / "f").encode()),
                                   ("file", "f", b"x" * 4 * MIB)])
        connection = self.connect()
        connection.putrequest("POST", "/v1/file/upload")
        for name, value in {**headers, "Authorization": f"Bearer {TOKEN}",
                            "Content-Length": str(len(body))}.items():
            connection.putheader(name, value)
        connection.endheaders()
        connection.send(body[: 2 * MIB])
        wait_until(lambda: list(self.root.glob(".sandpool-*")), "the upload has begun")
        connection.close()
        wait_until(lambda: not list(self.root.iterdir()), "nothing is left of it")

    def test_download(self):
        data = b"x" + os.urandom(2 * MIB + 5)  # no "{": it would be read as JSON
        path = self.put('ü "x".bin', data)
        answer = self.download(path)
        self.assertEqual(answer.status, 200, answer)
        self.assertTrue(answer.body == data)
        self.assertEqual(answer.headers["Content-Length"], str(len(data)))
        self.assertIn("%C3%BC%20%22x%22.bin", answer.headers["Content-Disposition"])
        answer = self.download(path, method="HEAD")
        self.assertEqual((answer.status, answer.headers["Content-Length"], answer.body),
                         (200, str(len(data)), b""))
        self.assertEqual(self.download(self.put("empty", b"")).body, b"")
        self.assertIn(b"MemTotal:", self.download("/proc/meminfo").body)

    def test_download_ranges(self):
        path = self.put("f", b"0123456789")
        answer = self.download(path, Range="bytes=2-4")
        self.assertEqual((answer.status, answer.body, answer.headers["Content-Range"]),
                         (206, b"234", "bytes 2-4/10"))
        self.assertEqual(self.download(path, Range="bytes=-3").body, b"789")
        answer = self.download(path, Range="bytes=10-")
        self.fails(416, "no_range", answer)
        self.assertEqual(answer.headers["Content-Range"], "bytes */10")

    def test_download_errors(self):
        self.fails(404, "not_found", self.download("/no/file"))
        self.fails(400, "is_directory", self.download(self.root))
        self.fails(400, "not_regular", self.download("/dev/zero"))
        self.assertEqual(self.get("/v1/file/download").status, 422)
        self.assertEqual(self.download("/etc/passwd", "&change_policy=maybe").status, 422)

    def test_download_of_a_changing_file(self):
        path = self.put("f", b"x" * 7 * MIB)
        done = threading.Event()

        def grow():
            with open(path, "ab", buffering=0) as f:
                while not done.is_set() and f.tell() < 7 * MIB + 900000:
                    f.write(b"y")

        thread = threading.Thread(target=grow)
        thread.start()
        try:
            wait_until(lambda: self.download(path, "&change_policy=abort").status == 409, "a change")
            self.assertEqual(self.download(path).status, 200)
        finally:
            done.set()
            thread.join(30)
        self.assertEqual(self.download(path, "&change_policy=abort").status, 200)

    def test_flat_memory(self):
        """A hundred times what it may use, and less up; a sanitizer's memory shows nothing, so less is moved there."""
        down, up = (256 * MIB, 64 * MIB) if IS_SANITIZED else (1280 * MIB, 512 * MIB)
        path = self.root / "sparse"
        with open(path, "wb") as f:
            f.truncate(down)
        connection, response = self.open("GET", f"/v1/file/download?path={path}")
        self.assertEqual(response.getheader("Content-Length"), str(down))
        left = down
        buffer = bytearray(MIB)
        while left > 0:
            n = response.readinto(buffer)
            self.assertGreater(n, 0)
            left -= n
        connection.close()
        head, headers = multipart([("path", None, str(self.root / "up").encode()), ("file", "f", b"@")])
        head, tail = head.split(b"@")
        connection = self.connect()
        connection.putrequest("POST", "/v1/file/upload")
        for name, value in {**headers, "Authorization": f"Bearer {TOKEN}",
                            "Content-Length": str(len(head) + up + len(tail))}.items():
            connection.putheader(name, value)
        connection.endheaders()
        connection.send(head)
        for _ in range(up // MIB):
            connection.send(bytes(buffer))
        connection.send(tail)
        response = connection.getresponse()
        answer = Answer(response.status, {}, response.read())
        self.assertEqual((answer.status, answer.data["file_size"]), (200, up))
        self.assertEqual((self.root / "up").stat().st_size, up)
        (self.root / "up").unlink()
        if not IS_SANITIZED:
            self.assertLess(self.memory_kb("VmHWM"), 12 * 1024)

    def test_slow_reader_and_gone_reader(self):
        path = self.root / "sparse"
        with open(path, "wb") as f:
            f.truncate(512 * MIB)
        before = self.descriptors()
        connection, response = self.open("GET", f"/v1/file/download?path={path}")
        response.read(1000)
        time.sleep(0.3)
        self.assertEqual(self.ok("read", file=self.put("g", "x"))["content"], "x")
        response.close()
        connection.close()
        wait_until(lambda: self.descriptors() <= before + 1, "the file is closed")


if __name__ == "__main__":
    main()
