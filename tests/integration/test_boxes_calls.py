"""Calls through the daemon to real boxes: how a command ends is what its caller sees, also when the box, the agent or
the daemon ends in the middle, and nothing of a stream is lost or doubled."""

import base64
import http.client
import json
import os
import pathlib
import signal
import threading

from calls_case import sse
from fixtures import WAIT_S, Answer, UnixConnection, is_alive, main, wait_until
from host import inside_of, read_of
from oci_case import BoxCase

IDLE_S = 1
# 3,000 numbered lines, a few at a time: about a second.
COUNT = "for i in $(seq 300); do for k in 0 1 2 3 4 5 6 7 8 9; do echo line-$i-$k; done; sleep 0.003; done"
COUNTED = "".join(f"line-{i}-{k}\n" for i in range(1, 301) for k in range(10))


class Stream:
    """Server-sent events as they come: what was read of stdout, and the last event."""

    def __init__(self, connection):
        self.connection = connection
        self.response = connection.getresponse()
        assert self.response.status == 200, self.response.read()
        self.out = b""
        self.job = None
        self.end = None

    def next(self):
        """Reads one event; None when the stream is over or broken."""
        block = []
        try:
            while True:
                line = self.response.readline()
                if not line:
                    return None
                if line == b"\n" and block:
                    break
                if line != b"\n":
                    block.append(line.decode())
        except (OSError, http.client.HTTPException):
            return None
        for name, data in sse("".join(block) + "\n"):
            if name == "start":
                self.job = data["job"]
            elif name == "stdout":
                assert data["offset"] == len(self.out), (data["offset"], len(self.out))
                self.out += base64.b64decode(data["data"])
            elif name == "end":
                self.end = data
            return name
        return "comment"

    def drain(self):
        while self.next() is not None:
            pass
        return self


class CallsCase(BoxCase):
    profiles = {"default": {"warm": {"min": 0, "max": 1}, "ttl_s": 3600, "park_timeout_s": 600}}

    def lease(self, thread, **fields):
        box = self.acquire(thread, **fields)
        self.base = f"/v1/sandboxes/{box.id}"
        return box

    def open(self, method, target, body=None, headers=None):
        connection = UnixConnection(self.server.socket)
        self.addCleanup(connection.close)
        data = json.dumps(body) if isinstance(body, dict) else body
        connection.request(method, self.base + target, data, headers or {})
        return connection

    def finish(self, connection):
        response = connection.getresponse()
        data = response.read()
        answer = Answer(response.status, dict(response.getheaders()), data.decode(errors="replace"))
        answer.data = data
        return answer

    def call(self, *args, **kw):
        return self.finish(self.open(*args, **kw))

    def run_in_box(self, command, **fields):
        return self.assertOk(self.call("POST", "/exec", {"command": command, **fields}))

    def stream(self, command, **fields):
        return Stream(self.open("POST", "/exec", {"command": command, "stream": True, **fields}))

    def jobs(self):
        return self.assertOk(self.call("GET", "/jobs"))["jobs"]


class Ends(CallsCase):
    def test_outcomes(self):
        self.lease("ends", envs={"SECRET": "of-the-lease"})
        done = self.run_in_box("echo out; echo err >&2; exit 3")
        self.assertEqual((done["outcome"], done["exit_code"], done["signal"], done["stdout"], done["stderr"]),
                         ("exited", 3, None, "out\n", "err\n"))
        self.assertEqual(self.run_in_box("echo $SECRET")["stdout"], "of-the-lease\n")
        self.assertEqual(self.run_in_box("cat", stdin="given")["stdout"], "given")
        done = self.run_in_box("kill -SEGV $$")
        self.assertEqual((done["outcome"], done["exit_code"], done["signal"]), ("signalled", None, "SIGSEGV"))
        done = self.run_in_box("trap '' TERM; echo before; sleep 600", timeout_s=0.5)
        self.assertEqual((done["outcome"], done["exit_code"], done["stdout"]), ("timed_out", None, "before\n"))
        s = self.stream("echo a; sleep 0.1; echo b; exit 4").drain()
        self.assertEqual((s.out, s.end["outcome"], s.end["exit_code"]), (b"a\nb\n", "exited", 4))

    def test_a_timeout_ends_daemons_too(self):
        """Those that have a session of their own and lost their parent."""
        box = self.lease("daemons")
        kept = self.run_in_box("(setsid sleep 600 >/dev/null 2>&1 &); echo")
        self.assertEqual(kept["outcome"], "exited")
        daemon = "(env -i setsid sh -c 'trap : TERM; while :; do sleep 600; done' &); "
        done = self.run_in_box(daemon * 3 + "echo begun; sleep 600", timeout_s=1)
        self.assertEqual((done["outcome"], done["stdout"]), ("timed_out", "begun\n"))
        left = [pid for pid in inside_of(self.init_of(box)) if is_alive(pid)]  # some may be dead and not reaped
        self.assertEqual(len(left), 2, [read_of(pid, "cmdline") for pid in left])  # the agent, and what another command left

    def test_the_box_is_destroyed(self):
        box = self.lease("destroyed")
        plain = self.open("POST", "/exec", {"command": "sleep 600", "timeout_s": 0})
        s = self.stream("echo begun; sleep 600", timeout_s=0)
        wait_until(lambda: s.next() and s.out, "it has begun")
        self.destroy(box, own_connection=True)
        s.drain()
        self.assertEqual((s.out, s.end["outcome"], s.end["exit_code"]), (b"begun\n", "sandbox_lost", None))
        answer = self.finish(plain)
        self.assertCode(answer, 410, "sandbox_lost")
        self.assertIn("destroyed", answer.json["error"]["message"])
        self.assertCode(self.call("GET", "/jobs"), 410, "sandbox_lost")

    def test_the_agent_is_killed(self):
        """It is process 1 of the box, so the box dies."""
        for kind in ("plain", "stream"):
            with self.subTest(kind):
                box = self.lease(f"killed-{kind}")
                if kind == "plain":
                    held = self.open("POST", "/exec", {"command": "sleep 600", "timeout_s": 0})
                    wait_until(lambda: len(inside_of(self.init_of(box))) > 1, "it runs")
                else:
                    s = self.stream("echo begun; sleep 600", timeout_s=0)
                    wait_until(lambda: s.next() and s.out, "it has begun")
                os.kill(self.init_of(box), signal.SIGKILL)
                if kind == "plain":
                    answer = self.finish(held)
                    self.assertCode(answer, 410, "sandbox_lost")
                    self.assertIn("died", answer.json["error"]["message"])
                else:
                    self.assertEqual(s.drain().end["outcome"], "sandbox_lost")

    def test_the_caller_goes(self):
        self.lease("gone")
        first = self.stream("echo begun; sleep 600", timeout_s=0, tag="stays")
        second = self.stream("echo begun; sleep 600", timeout_s=0, tag="goes", kill_on_disconnect=True)
        for s in (first, second):
            wait_until(lambda s=s: s.next() and s.out, "it has begun")
            s.response.close()
            s.connection.close()

        def running():
            return [j["tag"] for j in self.jobs() if j["outcome"] == "running"]

        wait_until(lambda: running() == ["stays"], lambda: f"one stays: {self.jobs()}")

    def test_files(self):
        self.lease("files")
        data = os.urandom(3_000_000)
        self.assertOk(self.call("PUT", "/files?path=dir/a.bin", data))
        self.assertEqual(self.call("GET", "/files?path=/workspace/dir/a.bin").data, data)
        self.assertEqual(self.call("GET", "/files?path=dir/a.bin", headers={"Range": "bytes=10-19"}).data, data[10:20])
        self.assertCode(self.call("GET", "/files?path=nosuch"), 404, "file_not_found")

    def test_many_at_once(self):
        """Of several boxes; each answer is that of its own command."""
        boxes = [self.lease(f"many-{i}") for i in range(2)]
        failures = []

        def work(i):
            box = boxes[i % 2]
            connection = UnixConnection(self.server.socket)
            try:
                for k in range(5):
                    connection.request("POST", f"/v1/sandboxes/{box.id}/exec",
                                       json.dumps({"command": f"echo {i}-{k}; cat /etc/hostname >/dev/null"}))
                    done = json.loads(connection.getresponse().read())
                    if done.get("stdout") != f"{i}-{k}\n":
                        failures.append((i, k, done))
            finally:
                connection.close()

        threads = [threading.Thread(target=work, args=(i,)) for i in range(40)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(WAIT_S * 2)
        self.assertEqual(failures, [])


SERVER = """python3 -c "
import http.server
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = (self.path + chr(10) + str(self.headers)).encode()
        self.send_response(200)
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)
http.server.HTTPServer(('127.0.0.1', 8000), Handler).serve_forever()" """


class Ports(CallsCase):
    def test_a_server_in_a_box_without_network(self):
        box = self.lease("ports")
        self.assertCode(self.call("GET", "/ports/8000/"), 502, "port_closed")
        self.assertOk(self.call("POST", "/jobs", {"command": SERVER}))
        wait_until(lambda: 8000 in [p["port"] for p in self.assertOk(self.call("GET", "/ports"))["ports"]],
                   lambda: f"it listens: {self.jobs()}")
        text = self.call("GET", "/ports/8000/a/b?c=d").text
        self.assertTrue(text.startswith("/a/b?c=d\n"), text)
        self.assertIn(f"X-Forwarded-Prefix: {self.base}/ports/8000\n", text)
        self.assertNotIn(box.lease["token"], text)
        connection = UnixConnection(self.server.socket)
        self.addCleanup(connection.close)
        connection.connect()
        connection.sock.sendall(f"GET {self.base}/ports/8000 HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\n"
                                "Upgrade: tcp\r\n\r\n".encode())
        head = b""
        while b"\r\n\r\n" not in head:
            head += connection.sock.recv(1)
        self.assertTrue(head.startswith(b"HTTP/1.1 101 "), head)
        connection.sock.sendall(b"GET /raw HTTP/1.0\r\n\r\n")
        data = b""
        while True:
            piece = connection.sock.recv(65536)
            if not piece:
                break
            data += piece
        self.assertIn(b"\r\n\r\n/raw\n", data)
        held = self.open("POST", "/exec", {"command": "sleep 600", "timeout_s": 0})
        self.destroy(box, own_connection=True)
        self.assertCode(self.finish(held), 410, "sandbox_lost")
        self.assertCode(self.call("GET", "/ports/8000/"), 410, "sandbox_lost")


class Idle(CallsCase):
    def outlive(self):
        """Until its idle time has been over three times."""
        began = self.assertOk(self.pool.get(self.base))["age_s"]

        def look():
            shown = self.assertOk(self.pool.get(self.base))
            self.assertEqual(shown["state"], "leased")
            return shown["age_s"] > began + 3 * IDLE_S

        wait_until(look, "it is kept")

    def test_a_command_through_the_daemon(self):
        self.lease("busy", idle_timeout_s=IDLE_S)
        self.run_in_box("mkfifo /tmp/go")
        held = self.open("POST", "/exec", {"command": "read x < /tmp/go; echo $x", "timeout_s": 0})
        self.outlive()
        self.assertOk(self.call("POST", "/exec", {"command": "echo done > /tmp/go"}))
        self.assertEqual(self.assertOk(self.finish(held))["stdout"], "done\n")
        wait_until(lambda: self.pool.get(self.base).status == 410, "then it is idle")

    def test_calls_push_the_idle_time(self):
        self.lease("pushed", idle_timeout_s=IDLE_S)
        stop = threading.Event()
        seen = []

        def use():
            while not stop.is_set():
                seen.append(self.call("GET", "/jobs").status)
                stop.wait(0.1)

        user = threading.Thread(target=use)
        user.start()
        try:
            self.outlive()
        finally:
            stop.set()
            user.join(WAIT_S)
        self.assertEqual(set(seen), {200})

    def test_a_command_that_nobody_waits_for(self):
        """Its caller has gone; the agent is asked."""
        self.lease("left", idle_timeout_s=IDLE_S)
        s = self.stream("echo begun; sleep 600", timeout_s=0)
        wait_until(lambda: s.next() and s.out, "it has begun")
        s.response.close()
        s.connection.close()
        self.outlive()
        for job in self.jobs():
            self.call("DELETE", f"/jobs/{job['job']}")
        wait_until(lambda: self.pool.get(self.base).status == 410, "then it is idle")


def is_connected(port):
    """Whether somebody on this machine has a connection to it by TCP."""
    for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]:
        _, _, remote, state, *_ = line.split()
        if state == "01" and int(remote.split(":")[1], 16) == port:
            return True
    return False


class Restarts(CallsCase):
    def test_calls_do_not_go_by_tcp(self):
        box = self.lease("socket")
        port = box.url.port
        self.assertEqual(self.run_in_box("echo one")["stdout"], "one\n")
        self.assertEqual(self.stream("echo two").drain().out, b"two\n")
        self.assertFalse(is_connected(port))
        self.server.kill()
        (self.server.state / "oci" / "boxes" / box.box_id / "relay").unlink()  # as a box of an older version
        self.server.start()
        type(self).pool = self.server.client()
        self.assertEqual(self.run_in_box("echo three")["stdout"], "three\n")
        self.assertTrue(is_connected(port))

    def test_the_daemon_is_killed_in_the_middle(self):
        self.lease("kill")
        s = self.stream(COUNT, timeout_s=0)
        wait_until(lambda: s.next() and len(s.out) > 3000, "a part of it is here")
        self.server.kill()
        s.drain()  # what was on its way
        self.assertIsNone(s.end)
        self.server.start()
        type(self).pool = self.server.client()
        rest = Stream(self.open("GET", f"/jobs/{s.job}/output?stream=both&follow=1&offset={len(s.out)}&stderr_offset=0",
                                headers={"Accept": "text/event-stream"}))
        rest.out = s.out
        rest.drain()
        self.assertEqual(rest.out.decode(), COUNTED)
        self.assertEqual((rest.end["outcome"], rest.end["exit_code"]), ("exited", 0))

    def test_a_take_over_in_the_middle(self):
        self.lease("takeover")
        s = self.stream(COUNT, timeout_s=0)
        wait_until(lambda: s.next() and len(s.out) > 3000, "a part of it is here")
        old = self.server.process
        self.addCleanup(old.kill)
        self.server.process = self.server.spawn(args=["--takeover"])
        wait_until(lambda: "daemon.handed_over" in old.output(), "it has handed over")
        self.server.wait_ready()
        type(self).pool = self.server.client()
        s.drain()
        self.assertEqual(s.out.decode(), COUNTED)
        self.assertEqual((s.end["outcome"], s.end["exit_code"]), ("exited", 0))
        self.assertEqual(old.child.wait(WAIT_S), 0)
        self.assertEqual(self.run_in_box("echo new")["stdout"], "new\n")


if __name__ == "__main__":
    main()
