"""The codec alone: every way an answer can arrive, and the ways it can be wrong."""

import asyncio
import contextlib
import pathlib
import socket
import sys
import threading
import time
import unittest

HERE = pathlib.Path(__file__).resolve()
sys.path[:0] = [str(HERE.parents[1]), str(HERE.parents[3] / "tests" / "lib")]

from sandpool import AsyncClient, Client, wire  # noqa: E402
from sandpool.errors import ConnectionFailed, NotFound, ProtocolError, SandpoolError  # noqa: E402
from sandpool.types import Sandbox, sandbox_id_of  # noqa: E402
from testlib import main  # noqa: E402

SIZED = b'HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n{"a": 1}'
EVIL = SIZED.replace(b"1}", b"6}")
CHUNKED = (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
           b'3;x=y\r\n{"a\r\n5\r\n": 1}\r\n0\r\nTrailer: t\r\n\r\n')
UNTIL_CLOSE = b'HTTP/1.0 200 OK\r\n\r\n{"a": 1}'


def read(data, step, is_closed=False):
    answer = wire.Answer()
    for at in range(0, len(data), step):
        answer.feed(data[at:at + step])
    if is_closed:
        answer.feed(b"")
    return answer


class Answers(unittest.TestCase):
    def test_forms_in_pieces_of_every_size(self):
        for data, is_closed in ((SIZED, False), (CHUNKED, False), (UNTIL_CLOSE, True)):
            for step in range(1, len(data) + 1):
                answer = read(data, step, is_closed)
                self.assertTrue(answer.is_done, (data, step))
                self.assertEqual(answer.result(), {"a": 1})
                self.assertEqual(answer.is_reusable, not is_closed)

    def test_interim_answers_are_passed_over(self):
        for step in (1, 7, 1000):
            answer = read(b"HTTP/1.1 100 Continue\r\n\r\n" + SIZED, step)
            self.assertEqual((answer.status, answer.is_done), (200, True))

    def test_interim_answers_without_end(self):
        answer = read(b"HTTP/1.1 100 Continue\r\n\r\n" * 2000 + SIZED, 65536)
        self.assertTrue(answer.is_done and answer.is_reusable)
        with self.assertRaises(ProtocolError):
            read(b"HTTP/1.1 100 Continue\r\n\r\n" * 5000, 65536)

    def test_what_comes_behind_ends_the_connection(self):
        for data in (SIZED, CHUNKED, b"HTTP/1.1 204 No Content\r\n\r\n"):
            self.assertTrue(read(data, 1000).is_reusable)
            answer = read(data + SIZED, 1000)
            self.assertTrue(answer.is_done)
            self.assertFalse(answer.is_reusable, data)
        both = CHUNKED.replace(b"\r\n\r\n", b"\r\nContent-Length: 5\r\n\r\n", 1)
        self.assertFalse(read(both, 1000).is_reusable)

    def test_no_body(self):
        self.assertIsNone(read(b"HTTP/1.1 204 No Content\r\n\r\n", 1000).result())
        self.assertTrue(read(b"HTTP/1.1 204 No Content\r\n\r\n", 3).is_done)

    def test_connection_close_is_heeded(self):
        self.assertFalse(read(SIZED.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"), 9)
                         .is_reusable)

    def test_broken_off(self):
        for data in (SIZED, CHUNKED):
            for end in range(1, len(data)):
                with self.assertRaises(ProtocolError, msg=data[:end]):
                    read(data[:end], 1000, is_closed=True)
        with self.assertRaises(ConnectionFailed):
            read(b"", 1, is_closed=True)

    def test_nonsense(self):
        for data in (b"SSH-2.0-OpenSSH\r\n\r\n", b"HTTP/1.1 abc\r\n\r\n",
                     b"HTTP/1.1 \xb200 OK\r\n\r\n", b"HTTP/1.1 0 OK\r\n\r\n",
                     b"HTTP/1.1 200 OK\r\nContent-Length: \xb2\r\n\r\n",
                     b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
                     b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
                     CHUNKED.replace(b"\r\n5", b"xx5"),
                     b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1" * 70000,
                     b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
                     b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n",
                     b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
                     b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\n",
                     b"HTTP/1.1 200 OK\r\nX: " + b"x" * wire.HEADER_MAX):
            with self.assertRaises(ProtocolError, msg=data[:60]):
                read(data, 4096)
        with self.assertRaises(ProtocolError):
            read(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n{a}", 99).result()

    def test_errors_keep_code_and_retry(self):
        body = b'{"error":{"code":"queue_full","message":"m","retry_after_ms":1500}}'
        head = f"HTTP/1.1 429 x\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        with self.assertRaises(SandpoolError) as caught:
            read(head + body, 5).result()
        error = caught.exception
        self.assertEqual((error.code, error.status, error.retry_after_s), ("queue_full", 429, 1.5))
        self.assertTrue(error.is_retryable)
        missing = body.replace(b"queue_full", b"not_found").replace(b"1500", b"null")
        head = f"HTTP/1.1 404 x\r\nContent-Length: {len(missing)}\r\n\r\n".encode()
        with self.assertRaises(NotFound) as caught:
            read(head + missing, 500).result()
        self.assertIsNone(caught.exception.retry_after_s)
        self.assertFalse(caught.exception.is_retryable)
        with self.assertRaises(ProtocolError):
            read(b"HTTP/1.1 502 x\r\nContent-Length: 2\r\n\r\nhi", 500).result()


class Kept(unittest.TestCase):
    """A server that says more than it is asked, at once or a little later."""

    def serve(self, is_late):
        server = socket.create_server(("127.0.0.1", 0))
        said = threading.Semaphore(0)

        def answer(connection):
            with connection, connection.makefile("rb") as stream:
                while any(line == b"\r\n" for line in stream):  # a request without a body
                    try:
                        connection.sendall(SIZED if is_late else SIZED + EVIL)
                        if is_late:
                            connection.sendall(EVIL)
                    except OSError:
                        pass  # the client had enough
                    said.release()

        def accept():
            with contextlib.suppress(OSError):
                while True:
                    threading.Thread(target=answer, args=server.accept()[:1], daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        self.addCleanup(server.close)
        self.addCleanup(server.shutdown, socket.SHUT_RDWR)
        return f"http://127.0.0.1:{server.getsockname()[1]}", said

    def test_nothing_that_came_before_is_an_answer(self):
        for is_late in (False, True):
            address, said = self.serve(is_late)
            with Client(address) as client:
                for _ in range(5):
                    self.assertEqual(client.version(), {"a": 1})
                    said.acquire()
                    time.sleep(0.01)  # the kernel's

    def test_nothing_that_came_before_is_an_answer_async(self):
        async def ask(address, said):
            async with AsyncClient(address) as client:
                for _ in range(5):
                    self.assertEqual(await client.version(), {"a": 1})
                    said.acquire()
                    time.sleep(0.01)  # the kernel's; the loop has not looked

        for is_late in (False, True):
            asyncio.run(ask(*self.serve(is_late)))


class Requests(unittest.TestCase):
    def test_addresses(self):
        for text, expected in (
                ("/run/x.sock", wire.Address(unix_path="/run/x.sock")),
                ("unix:/run/x.sock", wire.Address(unix_path="/run/x.sock")),
                ("unix:///run/x.sock", wire.Address(unix_path="/run/x.sock")),
                ("http://127.0.0.1:8001", wire.Address(host="127.0.0.1", port=8001)),
                ("http://[::1]:8001/", wire.Address(host="::1", port=8001)),
                ("https://pool", wire.Address(host="pool", port=443, is_tls=True))):
            self.assertEqual(wire.parse_address(text), expected)
        for text in ("ftp://x", "http://", "http://x/path"):
            with self.assertRaises(ValueError, msg=text):
                wire.parse_address(text)
        self.assertEqual(wire.parse_address("http://[::1]:1").host_header, "[::1]:1")
        self.assertEqual(wire.split_url("http://h:1/s/abc/"), (wire.parse_address("http://h:1"),
                                                               "/s/abc"))

    def test_absent_members_are_left_out(self):
        data = wire.encode(wire.parse_address("/x"), "POST", "/p", {"a": None, "b": 0}, "secret")
        self.assertTrue(data.endswith(b'\r\n\r\n{"b":0}'), data)
        self.assertIn(b"Authorization: Bearer secret\r\n", data)

    def test_line_breaks_are_refused(self):
        address = wire.parse_address("/x")
        for where, token in (("/a\r\nX: y", None), ("/a", "t\r\nX: y"), ("/a", "t\n")):
            with self.assertRaises(ValueError):
                wire.encode(address, "GET", where, None, token)


class Types(unittest.TestCase):
    BOX = {"sandbox_id": "s", "generation": 1, "box_id": "00", "state": "leased",
           "profile": "default", "user_id": "u", "thread_id": None, "token": "hidden",
           "sandbox_url": "http://127.0.0.1:1", "created_at": "2026-01-02T03:04:05.678Z",
           "expires_at": None, "something_new": [1]}

    def test_sandbox(self):
        box = Sandbox.from_json(self.BOX)
        self.assertEqual(box.created_at.isoformat(), "2026-01-02T03:04:05.678000+00:00")
        self.assertEqual(box.headers, {"Authorization": "Bearer hidden"})
        self.assertNotIn("hidden", repr(box))

    def test_wrong_shapes(self):
        for wrong in (None, [], {}, {**self.BOX, "generation": "x"}, {**self.BOX, "sandbox_url": 1},
                      {**self.BOX, "created_at": "yesterday"}):
            with self.assertRaises(ProtocolError, msg=wrong):
                Sandbox.from_json(wrong)

    def test_ids(self):
        self.assertEqual(sandbox_id_of("default", "thread-1"), "fe0dc8182dec7b77")
        self.assertEqual(sandbox_id_of("alice", "thread-42"), "81fe92a7340db695")
        self.assertEqual(sandbox_id_of("user-789", "thread-456"), "7ac4ab4948b9674b")


if __name__ == "__main__":
    main()
