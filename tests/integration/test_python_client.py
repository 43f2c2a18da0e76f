"""The Python client against a real daemon: both kinds, over both kinds of socket, and DeerFlow's five
operations. Servers that misbehave are sockets of this test."""

import ast
import asyncio
import contextlib
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import threading
import time
import unittest

from fixtures import TestCase, at_most, free_port, in_threads, main, wait_until

PACKAGE = pathlib.Path(__file__).resolve().parents[2] / "clients" / "python"
sys.path.insert(0, str(PACKAGE))

import sandpool  # noqa: E402
from sandpool import deerflow  # noqa: E402


@contextlib.contextmanager
def server(*answers):
    """A TCP server; the n-th connection is handled by answers[n], the last serves all further ones.
    Yields its URL and a list that grows by one entry per connection."""
    listener = socket.create_server(("127.0.0.1", 0))
    seen, open_socks = [], []

    def serve():
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            open_socks.append(sock)
            seen.append(time.monotonic())
            handle = answers[min(len(seen), len(answers)) - 1]
            threading.Thread(target=quietly, args=(handle, sock), daemon=True).start()

    def quietly(handle, sock):
        with contextlib.suppress(OSError):
            handle(sock)

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", seen
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        for sock in open_socks:
            sock.close()


def answer(status, body=b"{}"):
    def handle(sock):
        sock.recv(65536)
        sock.sendall(f"HTTP/1.1 {status} x\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        sock.close()
    return handle


def silence(sock):
    sock.recv(65536)
    time.sleep(30)


def hang_up(sock):
    sock.recv(65536)
    sock.close()


def drip(sock):
    sock.recv(65536)
    for byte in b"HTTP/1.1 200 OK\r\n" + b"X: " + b"x" * 1000:
        sock.sendall(bytes([byte]))
        time.sleep(0.05)


class Package(unittest.TestCase):
    def test_grammar_is_that_of_python_3_9(self):
        for path in sorted((PACKAGE / "sandpool").glob("*.py")):
            ast.parse(path.read_text(), str(path), feature_version=(3, 9))

    def test_only_the_standard_library(self):
        for path in sorted((PACKAGE / "sandpool").glob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                names = []
                if isinstance(node, ast.Import):
                    names = [alias.name for alias in node.names]
                elif isinstance(node, ast.ImportFrom) and node.level == 0:
                    names = [node.module]
                for name in names:
                    self.assertIn(name.split(".")[0], sys.stdlib_module_names, path)

    def test_types(self):
        mypy = shutil.which("mypy")
        if mypy is None:
            self.skipTest("mypy is not installed")
        run = subprocess.run([mypy, "--config-file", "pyproject.toml", "--cache-dir=/dev/null"],
                             cwd=PACKAGE, capture_output=True, text=True, timeout=150, check=False)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)


class Sync(TestCase):
    def pool(self, daemon, **options):
        client = sandpool.Client(str(daemon.socket), **options)
        self.addCleanup(client.close)
        return client

    def test_a_lease(self):
        pool = self.pool(self.daemon({"warm": {"min": 2, "max": 4}}))
        with pool.acquire("thread-1", metadata={"a": 1}, ttl_s=100) as lease:
            self.assertEqual(lease.sandbox_id, "fe0dc8182dec7b77")
            self.assertEqual(lease.sandbox_id, sandpool.sandbox_id_of("default", "thread-1"))
            self.assertTrue(lease.headers["Authorization"].startswith("Bearer "))
            lease.renew(200)
            box = pool.get(lease.sandbox_id, ask_backend=True)
            self.assertEqual((box.state, box.alive, box.metadata), ("leased", True, {"a": 1}))
            self.assertEqual([b.box_id for b in pool.list(state="leased")], [box.box_id])
        self.assertEqual(pool.get(lease.sandbox_id).state, "parked")
        again = pool.acquire("thread-1")
        self.assertEqual((again.sandbox.source, again.sandbox.box_id), ("parked", box.box_id))
        self.assertEqual(pool.destroy(again.sandbox_id).report.text, "the simulated box was removed")
        with self.assertRaises(sandpool.NotFound):
            pool.get(again.sandbox_id)
        self.assertEqual(pool.pool()["mode"], "running")
        self.assertEqual(pool.drain(evict_parked=True)["mode"], "draining")
        with self.assertRaises(sandpool.SandpoolError) as caught:
            pool.acquire("x", wait_s=1)
        self.assertEqual((caught.exception.code, caught.exception.is_retryable), ("draining", True))
        self.assertEqual(pool.resume()["mode"], "running")
        self.assertEqual(pool.version()["instance"], pool.pool()["instance"])

    def test_pages(self):
        pool = self.pool(self.daemon({"warm": {"min": 0, "max": 0}, "sim": {"create_ms": 0},
                                      "create": {"concurrency": 100}},
                                     pool={"max_boxes": 2000}))
        sandpool.calls.PAGE = 7
        self.addCleanup(setattr, sandpool.calls, "PAGE", 1000)
        for i in range(20):
            pool.acquire(f"t{i}")
        self.assertEqual({box.thread_id for box in pool.list()}, {f"t{i}" for i in range(20)})

    def test_threads_share_a_client(self):
        daemon = self.daemon({"warm": {"min": 4, "max": 16}, "sim": {"create_ms": 1}})
        pool = self.pool(daemon)

        def work(i):
            for _ in range(10):
                with pool.acquire(f"thread-{i}") as lease:
                    assert lease.sandbox.thread_id == f"thread-{i}"
            return True
        self.assertEqual(in_threads(12, work), [True] * 12)

    def test_tcp_with_a_token(self):
        port = free_port()
        daemon = self.daemon(tcp={"listen": f"127.0.0.1:{port}", "tokens": {"bot": "s" * 20}})
        url = f"http://127.0.0.1:{port}"
        with sandpool.Client(url, token="s" * 20) as pool:
            self.assertEqual(pool.acquire("t").sandbox.thread_id, "t")
        with sandpool.Client(url, token="wrong") as pool:
            with self.assertRaises(sandpool.SandpoolError) as caught:
                pool.acquire("t")
        self.assertEqual(caught.exception.code, "unauthorized")
        self.assertNotIn("s" * 20, daemon.log.read_text())

    def test_a_restart_is_not_noticed(self):
        sim = self.sim()
        daemon = self.daemon(sim=sim)
        pool = self.pool(daemon)
        first = pool.acquire("t")
        daemon.restart()  # the kept connection is dead now
        again = pool.acquire("t")
        self.assertEqual((again.sandbox.source, again.sandbox.box_id),
                         ("kept", first.sandbox.box_id))

    def test_nobody_there(self):
        started = time.monotonic()
        with self.assertRaises(sandpool.ConnectionFailed) as caught:
            sandpool.Client(self.directory + "/none.sock").pool()
        self.assertIn("none.sock", str(caught.exception))
        self.assertTrue(caught.exception.is_retryable)
        self.assertLess(time.monotonic() - started, at_most(10))

    def test_servers_that_misbehave(self):
        for handle, expected in ((silence, sandpool.DeadlineExceeded),
                                 (drip, sandpool.DeadlineExceeded),
                                 (hang_up, sandpool.ConnectionFailed),
                                 (answer(200, body=b"no json"), sandpool.ProtocolError),
                                 (answer(200, body=b"[]"), sandpool.ProtocolError)):
            with server(handle) as (url, _), sandpool.Client(url, timeout_s=1) as pool:
                started = time.monotonic()
                with self.assertRaises(expected, msg=handle):
                    pool.pool()
                self.assertLess(time.monotonic() - started, at_most(10))

    def test_a_dead_kept_connection_is_replaced_but_not_for_anonymous_acquires(self):
        def once(sock):
            sock.recv(65536)
            sock.sendall(b"HTTP/1.1 200 x\r\nContent-Length: 2\r\n\r\n{}")
            hang_up(sock)  # the second request is read, and not answered
        with server(once, answer(200)) as (url, seen), sandpool.Client(url) as pool:
            pool.pool()
            pool.pool()
            self.assertEqual(len(seen), 2)
        with server(hang_up) as (url, seen), sandpool.Client(url) as pool:
            with self.assertRaises(sandpool.ConnectionFailed):
                pool.acquire()
            self.assertEqual(len(seen), 1)


class Async(TestCase):
    def run_async(self, work):
        return asyncio.run(asyncio.wait_for(work, 60))

    def test_a_lease(self):
        daemon = self.daemon({"warm": {"min": 2, "max": 8}, "sim": {"create_ms": 1}})

        async def work():
            async with sandpool.AsyncClient(str(daemon.socket)) as pool:
                async with await pool.acquire("t") as lease:
                    await lease.renew(60)
                    self.assertTrue((await pool.get(lease.sandbox_id, ask_backend=True)).alive)
                self.assertEqual((await pool.get(lease.sandbox_id)).state, "parked")
                leases = await asyncio.gather(*(pool.acquire(f"t{i}") for i in range(20)))
                listed = {box.box_id async for box in pool.list(state="leased")}
                self.assertEqual(listed, {lease.sandbox.box_id for lease in leases})
                await asyncio.gather(*(lease.release(destroy=True) for lease in leases))
                with self.assertRaises(sandpool.NotFound):
                    await pool.renew("nobody")
                self.assertEqual((await pool.pool())["mode"], "running")
        self.run_async(work())

    def test_a_cancelled_acquire_leaves_no_lease(self):
        daemon = self.daemon({"warm": {"min": 0, "max": 0}, "sim": {"create_ms": 1000}})

        async def work():
            async with sandpool.AsyncClient(str(daemon.socket)) as pool:
                task = asyncio.ensure_future(pool.acquire("t"))
                await asyncio.sleep(0.2)
                task.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await task
        self.run_async(work())
        client = self.client(daemon)
        wait_until(lambda: client.get("/v1/pool").json["by_state"]["starting"] == 0, "it is made")
        self.assertEqual(client.get("/v1/pool").json["by_state"]["leased"], 0)

    def test_servers_that_misbehave(self):
        async def one(url, expected):
            async with sandpool.AsyncClient(url, timeout_s=1) as pool:
                with self.assertRaises(expected):
                    await pool.pool()
        for handle, expected in ((silence, sandpool.DeadlineExceeded),
                                 (drip, sandpool.DeadlineExceeded),
                                 (hang_up, sandpool.ConnectionFailed)):
            with server(handle) as (url, _):
                self.run_async(one(url, expected))
        self.run_async(one(self.directory + "/none.sock", sandpool.ConnectionFailed))

    def test_a_restart_is_not_noticed(self):
        sim = self.sim()
        daemon = self.daemon(sim=sim)

        async def work():
            async with sandpool.AsyncClient(str(daemon.socket)) as pool:
                first = await pool.acquire("t")
                await asyncio.get_running_loop().run_in_executor(None, daemon.restart)
                self.assertEqual((await pool.acquire("t")).sandbox.box_id, first.sandbox.box_id)
        self.run_async(work())


class Readiness(TestCase):
    def both(self, url, timeout):
        """The verdicts of both kinds, and how long each took."""
        started = time.monotonic()
        one = deerflow.wait_for_sandbox_ready(url, timeout)
        middle = time.monotonic()
        two = asyncio.run(deerflow.wait_for_sandbox_ready_async(url, timeout, poll_interval=0.05))
        return [(one, middle - started), (two, time.monotonic() - middle)]

    def test_ready(self):
        with server(answer(200)) as (url, _):
            self.assertEqual([is_ready for is_ready, _ in self.both(url + "/s/x/", 20)],
                             [True, True])

    def test_ready_after_a_while(self):
        handlers = [answer(503), hang_up, answer(404)] + [answer(503)] * 3 + [answer(200)]
        for wait in (lambda u: deerflow.wait_for_sandbox_ready(u, 30),
                     lambda u: asyncio.run(deerflow.wait_for_sandbox_ready_async(u, 30))):
            with server(*handlers) as (url, seen):
                self.assertTrue(wait(url))
                self.assertEqual(len(seen), len(handlers))

    def test_the_deadline_is_kept_whatever_the_box_does(self):
        for handle in (silence, drip, hang_up, answer(503)):
            with server(handle) as (url, _):
                for is_ready, took in self.both(url, 1.0):
                    self.assertFalse(is_ready)
                    self.assertGreater(took, 0.9)
                    self.assertLess(took, at_most(4))  # the old way asked for 5 s each time

    def test_proxies_of_the_environment_are_not_asked(self):
        os.environ["http_proxy"] = "http://127.0.0.1:9"
        self.addCleanup(os.environ.pop, "http_proxy")
        with server(answer(200)) as (url, _):
            self.assertTrue(deerflow.wait_for_sandbox_ready(url, 20))


class DeerFlow(TestCase):
    def backend(self, daemon, **options):
        backend = deerflow.SandpoolBackend(str(daemon.socket), **options)
        self.addCleanup(backend.close)
        return backend

    def test_the_five_operations(self):
        sim = self.sim()
        daemon = self.daemon({"warm": {"min": 2, "max": 4}}, sim=sim)
        backend = self.backend(daemon)
        name = sandpool.sandbox_id_of("alice", "t1")
        info = backend.create("t1", name, user_id="alice")
        self.assertEqual(info.sandbox_id, name)
        self.assertTrue(deerflow.wait_for_sandbox_ready(info.sandbox_url, 20))
        self.assertTrue(asyncio.run(deerflow.wait_for_sandbox_ready_async(info.sandbox_url, 20)))
        self.assertIn("Authorization", info.request_headers)
        self.assertTrue(backend.is_alive(info))
        self.assertEqual(backend.create("t1", name, user_id="alice").container_id,
                         info.container_id)
        self.assertEqual(backend.discover(name).container_id, info.container_id)
        self.assertIsNone(backend.discover("0123456789abcdef"))
        self.assertEqual([found.sandbox_id for found in backend.list_running()], [name])
        self.assertLess(abs(backend.list_running()[0].created_at - time.time()), 600)
        backend.destroy(info)
        backend.destroy(info)  # gone already
        self.assertFalse(backend.is_alive(info))
        self.assertEqual(backend.list_running(), [])
        self.assertNotIn(info.container_id, sim.boxes())

    def test_anonymous(self):
        backend = self.backend(self.daemon())
        info = backend.create(None, "a1b2c3d4")
        self.assertEqual(backend.discover("a1b2c3d4").container_id, info.container_id)
        backend.destroy(info)
        self.assertIsNone(backend.discover("a1b2c3d4"))

    def test_async_create(self):
        backend = self.backend(self.daemon())
        info = asyncio.run(backend.create_async("t", sandpool.sandbox_id_of("default", "t")))
        self.assertTrue(backend.is_alive(info))

    def test_a_replacement_is_not_taken_for_the_original(self):
        sim = self.sim()
        backend = self.backend(self.daemon({"warm": {"min": 0, "max": 0}}, sim=sim))
        name = sandpool.sandbox_id_of("default", "t")
        first = backend.create("t", name)
        sim.kill_box(first.container_id)
        wait_until(lambda: not backend.is_alive(first), "its death is seen")
        second = backend.create("t", name)
        self.assertNotEqual(first.container_id, second.container_id)
        backend.destroy(first)
        self.assertTrue(backend.is_alive(second))

    def test_nobody_knows_raises(self):
        sim = self.sim()
        backend = self.backend(self.daemon(sim=sim))
        info = backend.create("t", sandpool.sandbox_id_of("default", "t"))
        sim.kill()
        with self.assertRaises(sandpool.SandpoolError):
            backend.is_alive(info)

    def test_parked_is_taken_when_discovered(self):
        daemon = self.daemon({"park_timeout_s": 600})
        backend = self.backend(daemon)
        name = sandpool.sandbox_id_of("default", "t")
        backend.create("t", name)
        self.client(daemon).release(name)
        self.assertIsNotNone(backend.discover(name))
        self.assertEqual(self.client(daemon).get(f"/v1/sandboxes/{name}").json["state"], "leased")

    def test_a_type_of_their_own(self):
        class Info:
            def __init__(self, sandbox_id, sandbox_url, container_name=None, container_id=None,
                         created_at=0.0):
                self.sandbox_id, self.sandbox_url = sandbox_id, sandbox_url
                self.container_id, self.created_at = container_id, created_at
        backend = self.backend(self.daemon(), info_type=Info)
        info = backend.create("t", "0123456789abcdef")
        self.assertIsInstance(info, Info)
        self.assertTrue(backend.is_alive(info))

    def test_info_is_written_and_read_without_secrets(self):
        info = deerflow.SandboxInfo("s", "u", container_id="c", created_at=1.0,
                                    request_headers={"Authorization": "Bearer hidden"})
        self.assertNotIn("hidden", repr(info) + str(info.to_dict()))
        self.assertEqual(deerflow.SandboxInfo.from_dict(info.to_dict()), info)
        self.assertEqual(deerflow.SandboxInfo.from_dict(
            {"sandbox_id": "s", "base_url": "old"}).sandbox_url, "old")


if __name__ == "__main__":
    main()
