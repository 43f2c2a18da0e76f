"""/v1/agent/jobs/{job}/attach, by a client that is not ours (python3-websockets), and by one that breaks the rules."""

import asyncio
import base64
import json
import os
import socket
import struct
import subprocess
import sys
import time
import unittest

from agent_client import BIN, IS_SANITIZED, TOKEN, WAIT_S, AgentTest, main, receive, wait_until

sys.path.append("/usr/lib/python3/dist-packages")  # the system's, also for another Python
try:
    import websockets
except ImportError:
    websockets = None
sys.path.pop()

AUTHORIZATION = {"Authorization": f"Bearer {TOKEN}"}


@unittest.skipIf(websockets is None, "python3-websockets is not installed")
class Attach(AgentTest):
    def assertFlat(self, before, kb):
        if not IS_SANITIZED:  # a sanitizer keeps what is freed
            self.assertLess(self.memory_kb() - before, kb)

    def attached(self, job, talk, query="", **kw):
        """Runs talk(ws) on a connection to the job."""
        async def run():
            url = f"ws://127.0.0.1:{self.port}/v1/agent/jobs/{job}/attach{query}"
            async with websockets.connect(url, extra_headers=AUTHORIZATION, open_timeout=WAIT_S, max_size=None, **kw) as ws:
                return await asyncio.wait_for(talk(ws), WAIT_S)
        return asyncio.run(run())

    async def rest(self, ws):
        """Output of both streams, the events, and the code of the close."""
        out, err, events = bytearray(), bytearray(), []
        try:
            while True:
                message = await ws.recv()
                if isinstance(message, str):
                    events.append(json.loads(message))
                elif message[0] == 1:
                    out += message[1:]
                else:
                    self.assertEqual(message[0], 2)
                    err += message[1:]
        except websockets.ConnectionClosed as e:
            return bytes(out), bytes(err), events, e.rcvd.code if e.rcvd else None

    async def until(self, ws, text):
        out = b""
        while text not in out:
            message = await ws.recv()
            out += message[1:]
        return out

    def test_output_and_end(self):
        job = self.start(command="echo out; echo err >&2; exit 3")
        out, err, events, code = self.attached(job, self.rest)
        self.assertEqual((out, err, code), (b"out\n", b"err\n", 1000))
        self.assertEqual((events[-1]["event"], events[-1]["outcome"], events[-1]["exit_code"]), ("end", "exited", 3))

    def test_offsets(self):
        job = self.start(command="printf 0123456789; printf abcdef >&2")
        self.wait(job)
        out, err, _, code = self.attached(job, self.rest, "?offset=7&stderr_offset=4")
        self.assertEqual((out, err, code), (b"789", b"ef", 1000))
        self.assertEqual(self.get(f"/v1/agent/jobs/{job}/attach?offset=x").status, 422)

    def test_input_and_eof(self):
        job = self.start(command="cat; echo done", stdin=True)

        async def talk(ws):
            await ws.send(b"\0hello\n")
            await self.until(ws, b"hello\n")
            await ws.send([b"\0in ", b"parts\n"])  # a message of two frames
            await self.until(ws, b"in parts\n")
            await ws.send('{"eof":true}')
            return await self.rest(ws)
        out, _, events, code = self.attached(job, talk)
        self.assertEqual((out, code, events[-1]["exit_code"]), (b"done\n", 1000, 0))

    def test_terminal_resize_and_signal(self):
        job = self.start(command="trap 'stty size' WINCH; trap 'echo got; exit 4' INT; echo ready; "
                                 "while :; do sleep 0.05; done", pty={"cols": 80, "rows": 24})

        async def talk(ws):
            await self.until(ws, b"ready")
            await ws.send('{"resize":{"cols":101,"rows":33}}')
            await self.until(ws, b"33 101")
            await ws.send('{"signal":"INT"}')
            return await self.rest(ws)
        _, _, events, _ = self.attached(job, talk)
        self.assertEqual(events[-1]["exit_code"], 4)

    def test_errors_leave_it_open(self):
        job = self.start(command="read x; echo got $x", stdin=True)

        async def talk(ws):
            for text in ("{", "[]", '{"what":1}', '{"signal":"NO"}', '{"resize":{"cols":5}}', '{"eof":3}'):
                await ws.send(text)
                answer = json.loads(await ws.recv())
                self.assertEqual(answer["event"], "error", text)
            await ws.ping()
            await ws.send(b"\0end\n")
            return await self.rest(ws)
        out, _, events, code = self.attached(job, talk)
        self.assertEqual((out, code), (b"got end\n", 1000))

    def test_closing_leaves_the_job_or_kills_it(self):
        async def nothing(ws):
            await self.until(ws, b"up")
        job = self.start(command="echo up; exec sleep 1000")
        self.attached(job, nothing)
        self.assertEqual(self.process(job).json["outcome"], "running")
        self.attached(job, nothing, "?kill=1")
        self.assertEqual(self.wait(job)["outcome"], "killed")

    def test_long_output_to_a_slow_reader(self):
        size = 20 * 1024 * 1024
        job = self.start(command=f"head -c {size} /dev/zero")

        async def talk(ws):
            await asyncio.sleep(0.3)
            return await self.rest(ws)
        before = self.memory_kb()
        out, _, events, code = self.attached(job, talk, max_queue=2)
        gaps = sum(e["to"] - e["from"] for e in events if e["event"] == "gap")
        self.assertEqual((len(out) + gaps, code), (size, 1000))
        self.assertFlat(before, 16 * 1024)

    def test_input_that_is_not_read_waits(self):
        """The sender is slowed; nothing is lost when the program reads."""
        go = self.home / "go"
        size = 8 * 1024 * 1024
        job = self.start(command=f"while [ ! -e {go} ]; do sleep 0.05; done; wc -c", stdin=True)
        before = self.memory_kb()

        async def talk(ws):
            async def send():
                for _ in range(size // 65536):
                    await ws.send(b"\0" + b"x" * 65536)
                await ws.send('{"eof":true}')
            sender = asyncio.ensure_future(send())
            await asyncio.sleep(0.5)
            self.assertFalse(sender.done())
            self.assertFlat(before, 4 * 1024)
            go.touch()
            await sender
            return await self.rest(ws)
        out, _, _, code = self.attached(job, talk)
        self.assertEqual((int(out), code), (size, 1000))

    def test_limit(self):
        job = self.start(command="sleep 1000")

        async def run():
            url = f"ws://127.0.0.1:{self.port}/v1/agent/jobs/{job}/attach"
            all_of_them = [await websockets.connect(url, extra_headers=AUTHORIZATION, open_timeout=WAIT_S) for _ in range(64)]
            with self.assertRaises(websockets.InvalidStatusCode) as caught:
                await websockets.connect(url, extra_headers=AUTHORIZATION)
            self.assertEqual(caught.exception.status_code, 429)
            for ws in all_of_them:
                await ws.close()
            async with websockets.connect(url, extra_headers=AUTHORIZATION, subprotocols=["x", "sandpool.v1"]) as ws:
                self.assertEqual(ws.subprotocol, "sandpool.v1")
        asyncio.run(run())


def frame(opcode, data=b"", first=0x80, mask=b"abcd", length=None):
    length = len(data) if length is None else length
    bit = 0x80 if mask else 0
    if length < 126:
        head = bytes([first | opcode, bit | length])
    elif length < 65536:
        head = bytes([first | opcode, bit | 126]) + struct.pack(">H", length)
    else:
        head = bytes([first | opcode, bit | 127]) + struct.pack(">Q", length)
    masked = bytes(b ^ mask[i % 4] for i, b in enumerate(data)) if mask else data
    return head + (mask or b"") + masked


class Rules(AgentTest):
    def shake(self, job, query="", **changes):
        headers = {"Host": "x", "Authorization": f"Bearer {TOKEN}", "Connection": "Upgrade", "Upgrade": "websocket",
                   "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": base64.b64encode(os.urandom(16)).decode()}
        headers.update({name.replace("_", "-"): value for name, value in changes.items()})
        text = "".join(f"{name}: {value}\r\n" for name, value in headers.items() if value is not None)
        s = socket.create_connection(("127.0.0.1", self.port), timeout=WAIT_S)
        self.addCleanup(s.close)
        s.sendall(f"GET /v1/agent/jobs/{job}/attach{query} HTTP/1.1\r\n{text}\r\n".encode())
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            piece = s.recv(1)
            if not piece:
                break
            head += piece
        return s, head.decode()

    def code(self, job, *frames):
        """The status it closes with."""
        s, head = self.shake(job)
        self.assertIn(" 101 ", head)
        s.sendall(b"".join(frames))
        data = b""
        while True:
            piece = s.recv(65536)
            if not piece:
                break
            data += piece
        at = data.rindex(b"\x88")
        return struct.unpack(">H", data[at + 2:at + 4])[0]

    def test_handshake(self):
        job = self.start(command="sleep 1000")
        self.assertIn(" 101 ", self.shake(job)[1])
        accept = self.shake(job, Sec_WebSocket_Key="dGhlIHNhbXBsZSBub25jZQ==")[1]
        self.assertIn("Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n", accept)
        for changes in ({"Upgrade": None}, {"Connection": None}, {"Upgrade": "tcp"}, {"Sec_WebSocket_Version": "8"},
                        {"Sec_WebSocket_Version": None}):
            head = self.shake(job, **changes)[1]
            self.assertIn(" 426 ", head, changes)
            self.assertIn("Sec-WebSocket-Version: 13", head)
        for key in (None, "", "short", "dGhlIHNhbXBsZSBub25jZQ=", "!" * 24, "x" * 24):
            self.assertIn(" 400 ", self.shake(job, Sec_WebSocket_Key=key)[1], key)
        self.assertIn(" 401 ", self.shake(job, Authorization=None)[1])
        self.assertIn(" 404 ", self.shake("99")[1])
        self.assertIn(" 404 ", self.shake("x")[1])

    def test_broken_frames(self):
        job = self.start(command="exec cat", stdin=True)
        for want, frames in (
                (1002, [frame(2, b"\0x", mask=None)]), (1002, [frame(3)]), (1002, [frame(11)]),
                (1002, [frame(2, b"\0x", first=0xC0)]), (1002, [frame(0, b"x")]),
                (1002, [frame(2, b"\0x", first=0), frame(2, b"\0y")]),
                (1002, [frame(9, b"x" * 126)]), (1002, [frame(9, b"x", first=0)]),
                (1002, [bytes([0x82, 0xFE, 0, 5]) + b"abcd"]), (1002, [frame(8, b"x")]),
                (1002, [frame(8, struct.pack(">H", 1005))]),
                (1009, [frame(2, length=1 << 20 | 1)]), (1009, [frame(2, length=1 << 62)]),
                (1009, [frame(2, b"\0" * 600000, first=0), frame(0, length=600000)]),
                (1007, [frame(1, b"\xff")]), (1008, [frame(2, b"")]), (1008, [frame(2, b"\x01x")]),
                (1000, [frame(8)]), (1000, [frame(8, struct.pack(">H", 1001) + b"bye")]),
                (1000, [frame(9, b"ping"), frame(10), frame(8)])):
            self.assertEqual(self.code(job, *frames), want, [f[:8] for f in frames])
        self.assertEqual(self.process(job).json["outcome"], "running")

    def test_a_client_that_vanishes_is_forgotten(self):
        job = self.start(command="exec sleep 1000")
        before = self.descriptors()
        s, _ = self.shake(job)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        s.close()
        t, _ = self.shake(job)
        t.shutdown(socket.SHUT_WR)
        self.assertEqual(t.recv(100), b"")
        wait_until(lambda: self.descriptors() <= before, "both are closed")


class Silence(Rules):
    """Its times are a thirtieth here: a ping every 0.5 s, and 2 s for an answer."""

    env = {"SANDPOOL_HURRY": "30"}
    test_handshake = test_broken_frames = test_a_client_that_vanishes_is_forgotten = None

    def setUp(self):
        done = subprocess.run([BIN / "sandpoold", "--fault-points"], capture_output=True, text=True, timeout=WAIT_S, check=True)
        if not done.stdout.split():
            self.skipTest("this build has no shorter times")
        super().setUp()

    def test_who_does_not_answer_is_left(self):
        job, killed, full = (self.start(command="exec sleep 1000", stdin=True) for _ in range(3))
        (answers, _), (silent, _), (held, _) = self.shake(job), self.shake(killed, "?kill=1"), self.shake(full)
        held.sendall(frame(2, bytes(400000)))  # input that nobody reads: its answers cannot be read either
        for _ in range(6):  # longer than one may be silent
            ping = answers.recv(1) + answers.recv(1)
            self.assertEqual(ping, b"\x89\x00")
            answers.sendall(frame(10))
        self.assertEqual(self.wait(killed)["outcome"], "killed")
        self.assertEqual(receive(silent).strip(b"\x89\x00"), b"")  # up to its end
        self.assertEqual(receive(answers).strip(b"\x89\x00"), b"")
        self.assertEqual(receive(held, 20)[:20], b"\x89\x00" * 10)  # and has not been left
        self.assertEqual([self.process(j).json["outcome"] for j in (job, full)], ["running"] * 2)

    def test_a_stream_in_silence(self):
        for accept, line in (("text/event-stream", b":\n"), ("application/x-ndjson", b'{"event":"keepalive"}\n')):
            _, answer = self.open("POST", "/v1/agent/exec", {"command": "sleep 1000", "timeout_s": 0, "stream": True,
                                                            "kill_on_disconnect": True}, {"Accept": accept})
            seen = 0
            while seen < 3:
                got = answer.readline()
                self.assertNotEqual(got, b"")
                seen += got == line
            self.assertNotIn(b"stdout", got)


if __name__ == "__main__":
    main()
