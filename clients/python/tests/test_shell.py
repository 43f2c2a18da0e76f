"""Terminals: the frames of RFC 6455, and a shell over a WebSocket that breaks off."""

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import unittest

from fake_daemon import BASE, FakeCase, accept_of, error, job
from testlib import WAIT_S, main, wait_until

import sandpool
from sandpool import AsyncClient, Client, blocking, tasks, transport, websocket


def frame(opcode, data, is_last=True):
    """As a server sends it."""
    size = len(data)
    head = bytes([(0x80 if is_last else 0) | opcode])
    if size < 126:
        return head + bytes([size]) + data
    if size < 65536:
        return head + b"\x7e" + size.to_bytes(2, "big") + data
    return head + b"\x7f" + size.to_bytes(8, "big") + data


def unmask(data):
    """One frame of a client and what is behind it; None when it is not whole."""
    if len(data) < 2:
        return None
    size, at = data[1] & 127, 2
    assert data[1] & 128, "clients mask"
    extra = {126: 2, 127: 8}.get(size, 0)
    if extra:
        size, at = int.from_bytes(data[2:2 + extra], "big"), 2 + extra
    if len(data) < at + 4 + size:
        return None
    mask = data[at:at + 4]
    payload = bytes(b ^ mask[i % 4] for i, b in enumerate(data[at + 4:at + 4 + size]))
    return data[0] & 15, payload, data[at + 4 + size:]


class Frames(unittest.TestCase):
    def test_lengths(self):
        for size in (0, 1, 125, 126, 65535, 65536, 70000):
            data = os.urandom(size)
            self.assertEqual(unmask(websocket.encode(websocket.BINARY, data)), (2, data, b""))
            self.assertEqual(websocket.Decoder().feed(frame(2, data)), [(2, data)])

    def test_fragments_with_control_frames_between(self):
        data = frame(1, b"on", False) + frame(9, b"p") + frame(0, b"", False) + frame(0, b"e") + frame(8, b"\x03\xe8")
        for step in range(1, len(data) + 1):
            decoder, found = websocket.Decoder(), []
            for at in range(0, len(data), step):
                found += decoder.feed(data[at:at + step])
            self.assertEqual(found, [(9, b"p"), (1, b"one"), (8, b"\x03\xe8")])

    def test_nonsense(self):
        for data in (frame(0, b"x"), frame(2, b"x", False) + frame(1, b"y"), frame(3, b""), b"\xc2\x00", b"\x82\x81abcdx",
                     frame(9, b"x" * 126), frame(9, b"x", False), b"\x82\x7f" + (1 << 40).to_bytes(8, "big"),
                     frame(2, b"x" * 9_000_000, False) + frame(0, b"x" * 9_000_000)):
            with self.assertRaises(sandpool.ProtocolError, msg=data[:20]):
                websocket.Decoder().feed(data)

    def test_handshake(self):
        hello = websocket.Handshake()
        hello.key = b"dGhlIHNhbXBsZSBub25jZQ=="
        good = {"upgrade": "WebSocket", "sec-websocket-accept": "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="}
        hello.check(good)
        for wrong in ({"upgrade": "tcp"}, {"sec-websocket-accept": "x"}, {"sec-websocket-protocol": "other"}):
            with self.assertRaises(sandpool.ProtocolError):
                hello.check({**good, **wrong})


class FakeTerminal:
    """Echoes what is typed; after `cut` bytes of output the connection breaks. `flood` comes before all else."""

    def __init__(self, cut=10 ** 9, flood=b""):
        self.flood = flood
        self.cut, self.output, self.commands, self.offsets, self.pongs = cut, b"$ ", [], [], 0

    def __call__(self, request, sock):
        if request.path == f"{BASE}/jobs":
            self.started = request.json
            return job("running")
        if request.path == f"{BASE}/jobs/7" and request.method == "DELETE":
            self.commands.append("killed")
            return job("killed")
        if request.path != f"{BASE}/jobs/7/attach":
            return 404, error("not_found")
        sock.sendall(f"HTTP/1.1 101 x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                     f"Sec-WebSocket-Protocol: sandpool.v1\r\nSec-WebSocket-Accept: {accept_of(request)}\r\n\r\n".encode())
        self.offsets.append(int(request.query["offset"]))
        with contextlib.suppress(OSError):
            self.talk(sock, self.offsets[-1])
        return None

    def talk(self, sock, sent):
        data = b""
        sock.sendall(self.flood)
        while True:
            sock.sendall(frame(9, b"ping"))
            while sent < len(self.output):
                piece = self.output[sent:min(sent + 3, self.cut)]
                if not piece:
                    self.cut = 10 ** 9
                    return
                sock.sendall(frame(2, b"\x01" + piece))
                sent += len(piece)
            if self.output.endswith(b"exit\n"):
                sock.sendall(frame(1, json.dumps({"event": "end", **job(exit_code=4)}).encode()) + frame(8, b"\x03\xe8"))
                return
            while unmask(data) is None:
                more = sock.recv(65536)
                if not more:
                    return
                data += more
            opcode, payload, data = unmask(data)
            self.take(opcode, payload)

    def take(self, opcode, payload):
        if opcode == 2:
            assert payload[0] == 0
            self.output += payload[1:]
        elif opcode == 1:
            self.commands.append(json.loads(payload))
        elif opcode == 10:
            assert payload == b"ping" or self.flood
            self.pongs += 1


class Shells(FakeCase):
    def both(self, cut=10 ** 9):
        """What both kinds of client see of a terminal that is typed into."""
        for kind in ("threads", "asyncio"):
            with self.subTest(kind):
                self.daemon.answer = terminal = FakeTerminal(cut)
                read, end = self.threads() if kind == "threads" else asyncio.run(asyncio.wait_for(self.tasks(), WAIT_S))
                self.assertEqual(read, b"$ echo a\nlonger text\nexit\n")
                self.assertEqual((end.outcome, end.exit_code), ("exited", 4))
                self.assertEqual(terminal.commands, [{"resize": {"cols": 10, "rows": 20}}, {"signal": "INT"}])
                yield terminal

    def threads(self):
        with Client(self.daemon.path) as pool, pool.acquire("t") as box:
            with box.shell(cols=70) as shell:
                read = next(shell).data
                shell.resize(10, 20)
                shell.signal("INT")
                shell.send("echo a\n")
                while b"a\n" not in read:
                    read += next(shell).data
                shell.send("longer text\nexit\n")
                read += b"".join(chunk.data for chunk in shell)
                return read, shell.end

    async def tasks(self):
        async with AsyncClient(self.daemon.path) as pool, await pool.acquire("t") as box:
            async with await box.shell(cols=70) as shell:
                read = (await shell.next()).data
                await shell.resize(10, 20)
                await shell.signal("INT")
                await shell.send(b"echo a\n")
                while b"a\n" not in read:
                    read += (await shell.next()).data
                await shell.send("longer text\nexit\n")
                async for chunk in shell:
                    read += chunk.data
                return read, shell.end

    def test_a_session(self):
        for terminal in self.both():
            self.assertEqual(terminal.started["pty"], {"cols": 70, "rows": 24})
            self.assertGreater(terminal.pongs, 0)

    def test_broken_off_and_continued(self):
        for terminal in self.both(cut=15):
            # What was read before the break. asyncio drops what it has not read when an answer to a ping fails: then it
            # is asked for again.
            self.assertEqual((len(terminal.offsets), terminal.offsets[0]), (2, 0))
            self.assertIn(terminal.offsets[1], range(2, 16))

    def test_pings_without_end(self):
        """From a box that reads no answers: they are not kept for it."""
        ping = bytes((0x80 | websocket.PING, 125)) + bytes(125)
        for kind, conn, unsent in (("threads", blocking.BlockingConn, lambda c: len(c._soon)),
                                   ("asyncio", tasks.TaskConn, lambda c: c._transport.get_write_buffer_size())):
            most = 0

            def noted(c, data, conn=conn, unsent=unsent):
                nonlocal most
                send_soon(c, data)
                most = max(most, unsent(c))
            send_soon = conn.send_soon
            conn.send_soon = noted
            self.addCleanup(setattr, conn, "send_soon", send_soon)
            self.daemon.answer = FakeTerminal(flood=ping * 60000)
            with self.subTest(kind):
                if kind == "threads":
                    with Client(self.daemon.path) as pool, pool.acquire("t") as box, box.shell() as shell:
                        self.assertEqual(next(shell).data, b"$ ")
                else:
                    asyncio.run(asyncio.wait_for(self.first(), WAIT_S))
                self.assertTrue(0 < most < 2 * transport.SOON_MAX, most)

    async def first(self):
        async with AsyncClient(self.daemon.path) as pool, await pool.acquire("t") as box:
            async with await box.shell() as shell:
                self.assertEqual((await shell.next()).data, b"$ ")

    def test_closing_ends_what_runs(self):
        self.daemon.answer = terminal = FakeTerminal()
        with Client(self.daemon.path) as pool, pool.acquire("t") as box:
            with box.shell() as shell:
                self.assertEqual(next(shell).data, b"$ ")
            self.assertEqual(terminal.commands, ["killed"])
            shell = box.shell()
            shell.close(kill=False)
            self.assertEqual(terminal.commands, ["killed"])

    def test_a_lost_box_ends_it(self):
        terminal = FakeTerminal(cut=1)
        self.daemon.answer = lambda request, sock: (
            terminal(request, sock) if not terminal.offsets else (410, error("sandbox_lost")))
        with Client(self.daemon.path) as pool, pool.acquire("t") as box:
            shell = box.shell()
            self.assertEqual(b"".join(chunk.data for chunk in shell), b"$")
            self.assertEqual((shell.end.outcome, shell.end.exit_code), ("sandbox_lost", None))

    def test_interact(self):
        """With this test's standard input and output in place of a terminal."""
        self.daemon.answer = FakeTerminal()
        script = ("import sandpool, sys\n"
                  "with sandpool.Client(sys.argv[1]) as pool, pool.acquire('t') as box:\n"
                  "    sys.exit(box.shell().interact().exit_code)\n")
        done = subprocess.run([sys.executable, "-c", script, self.daemon.path], input=b"hello\nexit\n", capture_output=True,
                              timeout=WAIT_S, env={**os.environ, "PYTHONPATH": os.path.dirname(sandpool.__path__[0])},
                              check=False)
        self.assertEqual((done.stdout, done.returncode), (b"$ hello\nexit\n", 4), done.stderr)
        wait_until(lambda: self.daemon.answer.commands, "the size was sent")


if __name__ == "__main__":
    main()
