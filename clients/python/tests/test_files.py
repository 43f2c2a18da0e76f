"""Files and ports against a daemon of this test."""

import asyncio
import contextlib
import json
import os
import socket
import threading
import tracemalloc
import urllib.request

from fake_daemon import BASE, BREAK, FakeCase, error, line
from testlib import WAIT_S, main, wait_until

import sandpool
from sandpool import AsyncClient, Client
from sandpool.transport import Io

DATA = bytes(range(256)) * 1000
ENTRY = {"name": "a", "path": "/workspace/a", "type": "file", "size": 3, "mode": "0640", "uid": 1000, "gid": 1000,
         "mtime": "2026-01-02T03:04:05Z", "target": None}


class Store:
    """One file; each answer breaks off after `step` bytes."""

    def __init__(self, step=len(DATA), change=False):
        self.step, self.change, self.written = step, change, []

    def __call__(self, request, sock):
        if request.method == "PUT":
            self.written.append(request.raw)
            return {"path": request.query["path"], "size": len(request.raw), "created": True}
        if request.method == "GET" and request.path == f"{BASE}/files":
            return self.read(request, sock)
        return 200, ENTRY

    def read(self, request, sock):
        first, _, last = request.headers.get("range", "bytes=0-").partition("=")[2].partition("-")
        start, end = int(first), int(last) + 1 if last else len(DATA)
        tag = '"2"' if self.change and start else '"1"'
        status = 206 if "range" in request.headers else 200
        sock.sendall(f"HTTP/1.1 {status} x\r\nETag: {tag}\r\nX-Sandpool-Mode: 4750\r\n"
                     f"Content-Length: {end - start}\r\n\r\n".encode() + DATA[start:min(end, start + self.step)])


class FilesCase(FakeCase):
    def both(self, threads, tasks):
        """What both kinds return; it must be the same."""
        with Client(self.daemon.path) as pool, pool.acquire("t") as box:
            one = threads(box.files)

        async def work():
            async with AsyncClient(self.daemon.path) as pool, await pool.acquire("t") as box:
                return await tasks(box.files)
        self.assertEqual(asyncio.run(work()), one)
        return one


class Bytes(FilesCase):
    def test_reading_goes_on_where_it_broke_off(self):
        self.daemon.answer = Store(100001)
        self.assertEqual(self.both(lambda f: f.read("a"), lambda f: f.read("a")), DATA)
        self.assertEqual([r.headers.get("range") for r in self.daemon.asked("GET", f"{BASE}/files")][:3],
                         [None, "bytes=100001-", "bytes=200002-"])

    def test_parts(self):
        self.daemon.answer = Store(1000)
        for start, end in ((0, 5), (5, 5), (5, 3000), (255000, None)):
            self.assertEqual(self.both(lambda f: f.read("a", start=start, end=end),
                                       lambda f: f.read("a", start=start, end=end)), DATA[start:end])

    def test_a_file_of_any_size_does_not_fill_memory(self):
        self.daemon.answer = Store()

        def threads(files):
            with self.assertRaises(sandpool.SandpoolError) as caught:
                files.read_text("x", max_bytes=len(DATA) - 1)
            return caught.exception.code, files.read("x", max_bytes=len(DATA)) == files.read("x", max_bytes=None) == DATA

        async def tasks(files):
            with self.assertRaises(sandpool.SandpoolError) as caught:
                await files.read_text("x", max_bytes=len(DATA) - 1)
            return caught.exception.code, await files.read("x", max_bytes=len(DATA)) == DATA
        self.assertEqual(self.both(threads, tasks), ("too_big", True))

    def test_a_file_that_changes_is_not_mixed(self):
        self.daemon.answer = Store(1000, change=True)

        async def tasks(files):
            with self.assertRaises(sandpool.SandpoolError):
                await files.read("a")

        def threads(files):
            with self.assertRaises(sandpool.SandpoolError):
                files.read("a")
        self.both(threads, tasks)

    def test_download_appears_whole_and_without_special_bits(self):
        self.daemon.answer = Store(100001)
        target = self.directory / "down"

        async def tasks(files):
            return await files.download("a", str(target))
        self.both(lambda f: f.download("a", target), tasks)
        self.assertEqual((target.read_bytes(), target.stat().st_mode & 0o7777), (DATA, 0o750))
        self.daemon.answer = Store(1000, change=True)
        with Client(self.daemon.path) as pool, pool.acquire("t") as box:
            with self.assertRaises(sandpool.SandpoolError):
                box.files.download("a", self.directory / "other")
        self.assertEqual(sorted(os.listdir(self.directory)), ["daemon.sock", "down"])

    def test_all_that_can_be_written(self):
        self.daemon.answer = store = Store()
        source = self.directory / "up"
        source.write_bytes(DATA)
        source.chmod(0o741)

        def threads(files):
            with open(source, "rb") as file:
                file.seek(10)
                return [files.write("a", "z\u00f6"), files.write("a", b"12", mode=0o600), files.write("a", file),
                        files.write("a", iter([b"1", b"", b"2"])), files.upload(source, "a")]

        async def tasks(files):
            async def pieces():
                yield b"1"
                yield b"2"
            with open(source, "rb") as file:
                file.seek(10)
                return [await files.write("a", "z\u00f6"), await files.write("a", b"12", mode=0o600),
                        await files.write("a", file), await files.write("a", pieces()), await files.upload(source, "a")]
        self.assertEqual(self.both(threads, tasks), [3, 2, len(DATA) - 10, 2, len(DATA)])
        self.assertEqual(store.written[:5], store.written[5:])
        self.assertEqual(store.written[2:5], [DATA[10:], b"12", DATA])
        self.assertEqual([r.query.get("mode") for r in self.daemon.asked("PUT", f"{BASE}/files")[:5]],
                         [None, "0600", None, None, "0741"])

    def test_a_refusal_comes_before_the_end_of_the_file(self):
        body = json.dumps(error("no_space", path="/workspace/a")).encode()
        self.daemon.refuse = f"HTTP/1.1 507 x\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
        source = self.directory / "up"
        with open(source, "wb") as file:
            file.truncate(64 * 1024 * 1024)

        def threads(files):
            with self.assertRaises(sandpool.FileError) as caught:
                files.upload(source, "a")
            return caught.exception.code, caught.exception.path

        async def tasks(files):
            with self.assertRaises(sandpool.FileError) as caught:
                await files.upload(source, "a")
            return caught.exception.code, caught.exception.path
        self.assertEqual(self.both(threads, tasks), ("no_space", "/workspace/a"))

    def test_a_file_is_never_held_whole(self):
        size = 256 * 1024 * 1024
        source = self.directory / "up"
        with open(source, "wb") as file:
            file.truncate(size)

        def swallow(sock, stream):
            left = size
            while left:
                left -= len(stream.read(min(left, 1024 * 1024)))
        self.daemon._read = self.swallowing(self.daemon._read, swallow)
        with Client(self.daemon.path) as pool, pool.acquire("t") as box:
            tracemalloc.start()
            self.addCleanup(tracemalloc.stop)
            self.assertEqual(box.files.upload(source, "a"), size)
            self.assertLess(tracemalloc.get_traced_memory()[1], 32 * 1024 * 1024)

    def swallowing(self, read, swallow):
        def change(stream, sock):
            first = stream.peek(4)[:4]
            if first != b"PUT ":
                return read(stream, sock)
            for text in iter(stream.readline, b"\r\n"):
                self.assertTrue(text)
            swallow(sock, stream)
            body = b'{"size":%d}' % (256 * 1024 * 1024)
            sock.sendall(b"HTTP/1.1 200 x\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            return None
        return change


class Calls(FilesCase):
    def test_errors_are_those_of_python(self):
        kinds = {"file_not_found": FileNotFoundError, "permission_denied": PermissionError,
                 "is_directory": IsADirectoryError, "not_directory": NotADirectoryError, "file_exists": FileExistsError,
                 "not_empty": OSError}
        for code, kind in kinds.items():
            self.daemon.answer = lambda request, _, code=code: (400, error(code, path="/workspace/a"))
            with Client(self.daemon.path) as pool, pool.acquire("t") as box:
                for call in (box.files.read, box.files.stat, box.files.mkdir, box.files.remove):
                    with self.assertRaises(kind) as caught:
                        call("a")
                    self.assertEqual((caught.exception.code, caught.exception.path), (code, "/workspace/a"))
                    self.assertIn(f"this is {code}", str(caught.exception))

    def test_exists(self):
        async def tasks(files):
            return await files.exists("a")
        for answer, expected in (((404, error("file_not_found")), False), (ENTRY, True)):
            self.daemon.answer = lambda request, _, answer=answer: answer
            self.assertEqual(self.both(lambda f: f.exists("a"), tasks), expected)

    def test_what_is_sent(self):
        self.daemon.answer = lambda request, _: (
            {"path": "a", "entries": [ENTRY], "truncated": True} if request.path.endswith("/list") else ENTRY)
        with Client(self.daemon.path) as pool, pool.acquire("t") as box:
            found = box.files.list("a b", recursive=True, limit=1)
            self.assertEqual((found[0].mode, found[0].mtime.year, found.truncated), (0o640, 2026, True))
            box.files.mkdir("d", mode=0o700, user="root")
            box.files.move("a", "b", overwrite=False)
            box.files.copy("a", "b")
            box.files.remove("a", recursive=True)
        sent = [(r.method, r.path[len(BASE):], r.query, r.json if r.raw else None) for r in self.daemon.requests[1:-1]]
        self.assertEqual(sent, [
            ("GET", "/files/list", {"path": "a b", "recursive": "1", "limit": "1"}, None),
            ("POST", "/files/mkdir", {"user": "root"}, {"path": "d", "parents": True, "mode": "0700"}),
            ("POST", "/files/move", {}, {"from": "a", "to": "b", "overwrite": False}),
            ("POST", "/files/copy", {}, {"from": "a", "to": "b", "overwrite": True}),
            ("DELETE", "/files", {"path": "a", "recursive": "1"}, None)])

    def test_watch(self):
        first = [line("ready"), line("created", path="/workspace/a", type="file"), BREAK]
        later = [line("ready"), line("moved", path="/workspace/a", to="/workspace/b", type="file"), line("keepalive"),
                 line("deleted", path="/workspace/b", type="file"), BREAK]

        def answer(request, _):
            return first if len(self.daemon.asked("GET", f"{BASE}/files/watch")) == 1 else later
        self.daemon.answer = answer

        def threads(files):
            self.daemon.requests.clear()
            with files.watch(".", recursive=True) as watch:
                return [next(watch) for _ in range(4)]

        async def tasks(files):
            self.daemon.requests.clear()
            async with await files.watch(".", recursive=True) as watch:
                return [await watch.next() for _ in range(4)]
        found = self.both(threads, tasks)
        self.assertEqual([e.event for e in found], ["created", "overflow", "moved", "deleted"])
        self.assertEqual(found[2].to, "/workspace/b")


class TreeCalls(FilesCase):
    def test_whole_directories(self):
        kept = {}

        def answer(request, _):
            if request.method == "PUT":
                kept["tar"] = request.raw
                return {}
            return 200, kept["tar"]
        self.daemon.answer = answer
        source = self.directory / "source"
        source.mkdir()
        (source / "a").write_bytes(DATA)

        def threads(files):
            files.upload_tree(source, "/workspace/t")
            files.download_tree("/workspace/t", self.directory / "one")

        async def tasks(files):
            await files.upload_tree(source, "/workspace/t")
            await files.download_tree("/workspace/t", self.directory / "two")
        self.both(threads, tasks)
        for name in ("one", "two"):
            self.assertEqual((self.directory / name / "a").read_bytes(), DATA)
        with Client(self.daemon.path) as pool, pool.acquire("t") as box:
            with self.assertRaises(NotADirectoryError):
                box.files.upload_tree(source / "a", "t")


class Ports(FakeCase):
    def upgrade(self, request, sock):
        """Echoes in capitals until the end of the input, then says goodbye."""
        self.assertEqual(request.headers["upgrade"], "tcp")
        sock.sendall(b"HTTP/1.1 101 x\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\nhello ")
        with contextlib.suppress(OSError):
            for data in iter(lambda: sock.recv(65536), b""):
                sock.sendall(data.upper())
            sock.sendall(b" bye")

    def test_requests(self):
        def answer(request, _):
            if request.path == f"{BASE}/ports":
                return {"ports": [{"port": 8000, "address": "127.0.0.1", "pid": 12, "command": "python3"}]}
            if request.path.startswith(f"{BASE}/ports/9/"):
                return 502, error("port_closed")
            return 418, (f"X-Path: {request.path}\r\n", request.raw)
        self.daemon.answer = answer
        with Client(self.daemon.path) as pool, pool.acquire("t") as box:
            self.assertEqual(box.ports.list()[0].port, 8000)
            found = box.ports[8000].request("POST", "/a b?c=d", body="text", headers={"X-A": "b"})
            self.assertEqual((found.status, found.text, found.headers["x-path"]),
                             (418, "text", f"{BASE}/ports/8000/a%20b"))
            with self.assertRaises(sandpool.SandpoolError) as caught:
                box.ports[9].request()
            self.assertEqual(caught.exception.code, "port_closed")
            with self.assertRaises(ValueError):
                box.ports[70000]

    def test_url_over_tcp(self):
        from sandpool.jobs import Held
        from sandpool.link import Link
        from sandpool.ports import AsyncPorts
        link = Link(Io(), sandpool.wire.parse_address("http://pool:81"), "t", 1, 1)
        port = AsyncPorts(Held(link, "b1"))[8000]
        self.assertEqual(port.url, "http://pool:81/v1/sandboxes/box:b1/ports/8000/")
        self.assertEqual(port.headers, {"Authorization": "Bearer t"})

    def talk(self, address):
        """Through a forwarded port: everything, also what comes after the end of the input."""
        with socket.create_connection(address, WAIT_S) as sock:
            sock.sendall(b"abc")
            sock.shutdown(socket.SHUT_WR)
            return b"".join(iter(lambda: sock.recv(65536), b""))

    def test_forward(self):
        self.daemon.answer = self.upgrade
        with Client(self.daemon.path) as pool, pool.acquire("t") as box:
            with box.ports[8000].forward(limit=2) as forward:
                self.assertEqual(forward.url, f"http://127.0.0.1:{forward.port}")
                self.assertEqual([self.talk(forward.address) for _ in range(5)], [b"hello ABC bye"] * 5)
                held = [socket.create_connection(forward.address, WAIT_S) for _ in range(3)]
                wait_until(lambda: len(self.daemon.asked("GET", f"{BASE}/ports/8000")) == 7, "two are served")
                for sock in held[:2]:
                    self.assertEqual(sock.recv(6), b"hello ")
                self.assertEqual(len(self.daemon.asked("GET", f"{BASE}/ports/8000")), 7)
                held[0].close()
                self.assertEqual(held[2].recv(6), b"hello ", "its turn")
            for sock in held[1:]:
                self.assertEqual(sock.recv(6), b"", "closed with the forward")
                sock.close()
            with self.assertRaises(OSError):
                socket.create_connection(forward.address, WAIT_S)
            wait_until(lambda: not [t for t in threading.enumerate() if t.name == "sandpool-forward"], "threads end")

    def test_forward_with_asyncio(self):
        self.daemon.answer = self.upgrade

        async def work():
            async with AsyncClient(self.daemon.path) as pool, await pool.acquire("t") as box:
                async with await box.ports[8000].forward() as forward:
                    loop = asyncio.get_running_loop()
                    for _ in range(3):
                        self.assertEqual(await loop.run_in_executor(None, self.talk, forward.address), b"hello ABC bye")
        asyncio.run(asyncio.wait_for(work(), WAIT_S))

    def test_url_over_a_unix_socket(self):
        self.daemon.answer = self.upgrade
        with Client(self.daemon.path, token="secret") as pool, pool.acquire("t") as box:
            url = box.ports[8000].url
            self.assertRegex(url, r"^http://127\.0\.0\.1:[0-9]+$")
            self.assertEqual((box.ports[8000].url, box.ports[8000].headers), (url, {}), "one port, and no token for the box")
            self.assertNotEqual(box.ports[8001].url, url)
            address = ("127.0.0.1", int(url.rpartition(":")[2]))
            self.assertEqual(self.talk(address), b"hello ABC bye")
            box.destroy()
            with self.assertRaises(OSError):
                socket.create_connection(address, WAIT_S)
        wait_until(lambda: not [t for t in threading.enumerate() if t.name == "sandpool-forward"], "threads end")

    def test_url_over_a_unix_socket_with_asyncio(self):
        self.daemon.answer = self.upgrade

        async def work():
            async with AsyncClient(self.daemon.path) as pool:
                async with await pool.acquire("t") as box:
                    url = box.ports[8000].url
                    self.assertEqual(box.ports[8000].url, url)
                    address = ("127.0.0.1", int(url.rpartition(":")[2]))
                    talk = asyncio.get_running_loop().run_in_executor(None, self.talk, address)
                    self.assertEqual(await talk, b"hello ABC bye")
                    box.ports[8001].url  # closed before it was served
                with self.assertRaises(OSError):
                    socket.create_connection(address, WAIT_S)
        asyncio.run(asyncio.wait_for(work(), WAIT_S))

    def test_a_box_that_is_gone(self):
        self.daemon.answer = lambda request, _: (404, error("not_found"))
        self.daemon.box_answer = (404, error("not_found"))
        with Client(self.daemon.path) as pool, pool.acquire("t") as box:
            for call in (box.ports[80].request, box.ports[80].connect, box.ports.list, box.jobs, box.pause, box.resume,
                         box.snapshot, lambda: box.fork(1), lambda: box.files.read("a"), lambda: box.start("x"), box.shell):
                with self.assertRaises(sandpool.SandboxLost):
                    call()
        asked = {r.path for r in self.daemon.requests} - {"/v1/acquire", "/v1/sandboxes/s1/release"}
        self.assertEqual([path for path in asked if not path.startswith(BASE)], [], "only this very box")

    def test_nobody_listens(self):
        self.daemon.answer = lambda request, _: (502, error("port_closed"))
        with Client(self.daemon.path) as pool, pool.acquire("t") as box:
            with self.assertRaises(sandpool.SandpoolError) as caught:
                box.ports[8000].connect()
            self.assertEqual(caught.exception.code, "port_closed")
            with box.ports[8000].forward() as forward, self.assertRaises(OSError):
                urllib.request.urlopen(forward.url, timeout=WAIT_S)


if __name__ == "__main__":
    main()
