"""Calls to boxes of the AIO API that go wrong: the box or the connection to it ends, its server is old, says something unexpected
or too much. No answer is a success that was none."""

import base64
import http.client
import json
import pathlib
import select
import socket
import sys
import threading

from aio_case import AioCase
from calls_case import ALICE, BOB, wait_gone
from fixtures import WAIT_S, Answer, main, wait_until

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "clients" / "python"))
import sandpool  # noqa: E402

MIB = 1024 * 1024


def good(data):
    return {"success": True, "message": None, "data": data, "hint": None}


class Ends(AioCase):
    """The box ends while a command runs."""

    def setUp(self):
        super().setUp()
        self.died, self.asked, self.left = threading.Event(), threading.Event(), threading.Event()

    def hang(self, path):
        def act(call):
            list(call.pieces())
            self.asked.set()
            call.connection.settimeout(0.05)
            while not self.died.is_set():
                try:
                    if call.connection.recv(1) == b"":
                        self.left.set()
                        return False
                except socket.timeout:
                    pass
            return False
        self.up.overrides[path] = act

    def finish(self, connection):
        response = connection.getresponse()
        return Answer(response.status, dict(response.getheaders()), response.read().decode())

    def start(self, path="/v1/bash/exec", **body):
        self.hang(path)
        connection = self.open("POST", self.base + "/exec", {"command": "sleep 600", **body})
        self.assertTrue(self.asked.wait(WAIT_S))
        return connection

    def test_the_connection_breaks(self):
        connection = self.start()
        self.died.set()
        self.assertCode(self.finish(connection), 502, "transport_lost")

    def test_the_box_is_gone(self):
        connection = self.start()
        self.up.boxes.clear()
        self.died.set()
        self.assertCode(self.finish(connection), 410, "sandbox_lost")

    def test_it_is_destroyed(self):
        connection = self.start()
        self.assertIn(self.api.delete(self.base).status, (200, 202))
        self.assertCode(self.finish(connection), 410, "sandbox_lost")
        self.assertTrue(self.left.wait(WAIT_S), "the connection to the box is closed")

    def test_destroyed_in_a_stream(self):
        connection = self.start("/v1/bash/output", stream=True)
        response = connection.getresponse()
        self.assertTrue(response.readline().startswith(b"event: start"))
        self.api.delete(self.base)
        rest = response.read().decode()
        last = json.loads(rest.rsplit("data: ", 1)[1])
        self.assertEqual((last["outcome"], last["exit_code"]), ("sandbox_lost", None))

    def test_a_caller_whose_body_does_not_come(self):
        connection = self.open("GET", self.base + "/jobs")
        connection.getresponse().read()
        connection.putrequest("POST", self.base + "/exec")
        connection.putheader("Content-Length", "100")
        connection.endheaders(b"{")
        wait_until(lambda: self.api.get(self.base).json["idle_s"] == 0, "it is a call")
        self.api.delete(self.base)
        self.assertCode(self.finish(connection), 410, "sandbox_lost")

    def test_the_daemon_ends(self):
        connection = self.start()
        self.server.stop()
        self.assertTrue(wait_gone(connection.sock))


class Odd(AioCase):
    def say(self, path, status, value):
        """The server of the box answers so."""
        def act(call):
            list(call.pieces())
            return call.reply(status, value if isinstance(value, bytes) else json.dumps(value).encode())
        self.up.overrides[path] = act

    def exec(self, **body):
        return self.call("POST", self.base + "/exec", {"command": "true", **body})

    def test_an_image_without_that_api(self):
        for path in ("/v1/bash/sessions/create", "/v1/bash/exec"):
            self.say(path, 404, {"detail": "Not Found"})
            answer = self.exec()
            self.assertCode(answer, 501, "unsupported")
            self.assertIn(path, self.message(answer))
            self.assertIn("1.9.3", self.message(answer))
            self.up.overrides.clear()
        self.say("/v1/bash/exec", 404, b"<html>no</html>")
        self.assertCode(self.call("GET", self.base + "/files/stat?path=a"), 501, "unsupported")

    def test_answers_that_say_nothing(self):
        ended = {"session_id": "s", "command_id": "c", "command": "true", "stdout": "", "stderr": ""}
        for data in ({**ended, "status": "completed"}, {**ended, "status": "completed", "exit_code": None},
                     {**ended, "status": "completed", "exit_code": "0"}, {**ended, "status": "completed", "exit_code": 4711},
                     {**ended, "exit_code": 0}, {**ended, "status": "fine", "exit_code": 0}, None, [], "text",
                     {**ended, "status": "completed", "exit_code": 0, "more": [[]] * 40000}):  # would keep the daemon busy
            self.say("/v1/bash/exec", 200, good(data))
            self.assertCode(self.exec(), 502, "backend_failed")
        for status, value, code in ((200, b"{}", "backend_failed"), (200, b"no json", "backend_failed"), (200, b"", "backend_failed"),
                                    (200, {"success": False, "message": "out of luck"}, "backend_failed"),
                                    (500, {"success": False, "message": "out of luck"}, "backend_failed"),
                                    (502, b"<html>Bad Gateway</html>", "backend_failed"), (401, b"{}", "backend_failed"),
                                    (429, {"success": False, "message": "too many"}, "too_many_calls")):
            self.say("/v1/bash/exec", status, value)
            answer = self.exec()
            self.assertEqual(answer.code, code, (status, value, answer))
            if b"luck" in json.dumps(value if isinstance(value, dict) else {}).encode():
                self.assertIn("out of luck", self.message(answer))
        self.say("/v1/bash/exec", 200, good({**ended, "status": "timed_out", "exit_code": 0}))
        self.assertEqual([self.exec().json[k] for k in ("outcome", "exit_code")], ["timed_out", None])

    def test_jobs_that_cannot_be(self):
        for job in ("nope", "0", "-1", "9" * 30):
            for method, rest in (("GET", ""), ("GET", "/output?stream=both&follow=1"), ("POST", "/wait"), ("POST", "/signal"), ("DELETE", "")):
                self.assertCode(self.call(method, f"{self.base}/jobs/{job}{rest}"), 404, "not_found")

    def test_another_name_than_ours(self):
        self.say("/v1/bash/sessions/create", 200, good({"session_id": "mine", "working_dir": "/"}))
        self.assertCode(self.exec(), 501, "unsupported")

    def test_answers_that_are_too_long(self):
        """How a command ended is found out all the same, and that something is missing."""
        def long(call):
            call.connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (20 * MIB))
            for _ in range(20):
                call.connection.sendall(b"x" * MIB)
            return True

        def start(call):
            self.inside.exec(_Silent(call), json.loads(b"".join(call.pieces())))
            return long(call)
        self.up.overrides["/v1/bash/exec"] = start
        result = self.assertOk(self.exec(command="exit 6"))
        self.assertEqual((result["outcome"], result["exit_code"], result["truncated"]), ("exited", 6, True))
        self.up.overrides["/v1/bash/exec"] = lambda call: (list(call.pieces()), long(call))[1]
        self.assertCode(self.call("GET", self.base + "/files/stat?path=a"), 502, "backend_failed")

    def test_what_one_caller_may_hold(self):
        """Answers that do not end: one caller has half of the memory for them at most, and others are served."""
        size = 15 * MIB // 2
        before = set(self.up.boxes)
        self.lease("alice", token=ALICE)
        theirs = set(self.up.boxes) - before

        def act(call):
            if call.target.split("/")[2] not in theirs:
                return self.inside.answer(call, "/v1/bash/sessions/create", self.up.calls)
            list(call.pieces())
            call.connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (size + 1) + b" " * size)
            self.up.go.wait(WAIT_S)
            return False
        self.up.overrides["/v1/bash/sessions/create"] = act
        asked = [self.open("POST", self.base + "/exec", {"command": "true"}, token=ALICE) for _ in range(20)]
        refused = []
        while len(refused) < 20 - 128 * MIB // size:  # the rest is held
            ready, _, _ = select.select([c.sock for c in asked if c not in refused], [], [], WAIT_S)
            self.assertNotEqual(ready, [], len(refused))
            for connection in [c for c in asked if c.sock in ready]:
                self.assertEqual(connection.getresponse().status, 429)
                refused.append(connection)
        self.lease("bob", token=BOB)
        self.assertOk(self.call("POST", self.base + "/exec", {"command": "true"}, token=BOB))
        self.up.go.set()

    def test_a_server_that_does_not_wait(self):
        """A question that is answered at once is not asked again at once."""
        job = self.assertOk(self.call("POST", self.base + "/jobs", {"command": "sleep 600"}))
        count = []

        def act(call):
            list(call.pieces())
            count.append(1)
            facts = {"command_id": "c", "command": "x", "status": "running" if len(count) < 4 else "completed", "exit_code": 0}
            return call.reply_json(200, good({"session_id": "s", "stdout": "", "stderr": "", "offset": 0, "stderr_offset": 0,
                                              "command": facts}))
        self.up.overrides["/v1/bash/output"] = act
        end = self.assertOk(self.call("POST", f"{self.base}/jobs/{job['job']}/wait", {}))
        self.assertEqual((end["outcome"], len(count)), ("exited", 4))
        self.assertGreaterEqual(self.api.get(self.base).json["age_s"], 0.4)

    def test_bytes_that_are_cut(self):
        (self.home / "f").write_bytes(b"x" * 1000)

        def act(call):
            call.connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf")
            return False
        self.up.overrides["/v1/file/download"] = act
        response = self.open("GET", self.base + "/files?path=f").getresponse()
        if response.status == 200:  # else it was noticed before anything was passed on
            with self.assertRaises(http.client.IncompleteRead):
                response.read()
        else:
            self.assertEqual((response.status, json.loads(response.read())["error"]["code"]), (502, "transport_lost"))
        self.say("/v1/file/upload", 413, b"<html>too large</html>")
        self.assertCode(self.call("PUT", self.base + "/files?path=g", b"x"), 413, "too_large")
        self.say("/v1/file/upload", 200, good({"file_path": "x", "file_size": 1, "success": True}))  # it was kept nowhere
        self.assertCode(self.call("PUT", self.base + "/files?path=g", b"x"), 500, "io")
        wait_until(lambda: [p.name for p in self.home.iterdir()] == ["f"], "nothing is left")

    def test_ports(self):
        self.assertEqual([p["port"] for p in self.assertOk(self.call("GET", self.base + "/ports"))["ports"]], [8080, 8091])
        seen = []

        def act(call):
            seen.append((call.method, call.path, dict(call.headers), b"".join(call.pieces())))
            return call.reply(201, b"from the program", "X-Mine: yes")
        self.up.overrides["/proxy/8000/a/b"] = act
        answer = self.call("POST", self.base + "/ports/8000/a/b?c=%2F", b"12345", {"Authorization": "Basic mine"})
        self.assertEqual((answer.status, answer.data, answer.headers["X-Mine"]), (201, b"from the program", "yes"))
        method, path, headers, body = seen[0]
        self.assertEqual((method, path, body), ("POST", "/proxy/8000/a/b?c=%2F", b"12345"))
        self.assertEqual((headers["Authorization"], headers["X-Forwarded-Prefix"]), ("Basic mine", self.base + "/ports/8000"))
        for rest, more in (("/ports/8000", {}), ("/ports/8000", {"Connection": "Upgrade", "Upgrade": "tcp"}),
                           ("/ports/8000/ws", {"Connection": "Upgrade", "Upgrade": "websocket"})):
            self.assertCode(self.call("GET", self.base + rest, headers=more), 501, "unsupported")
        self.assertCode(self.call("GET", self.base + "/ports/0/"), 422, "invalid_field")

    def test_a_program_in_python(self):
        with sandpool.Client(str(self.server.socket)) as pool, pool.acquire("t") as box:
            lines = []
            result = box.run("echo out; echo err >&2; exit 3", on_stdout=lines.append)
            self.assertEqual((result.exit_code, result.stdout, result.stderr, "".join(lines).strip()), (3, "out\n", "err\n", "out"))
            self.assertEqual(box.run(["cat"], stdin=b"some input").stdout, "some input")
            box.files.write("a/b.bin", bytes(range(256)))
            self.assertEqual(box.files.read("a/b.bin"), bytes(range(256)))
            self.assertTrue(box.files.exists("a/b.bin"))
            self.assertFalse(box.files.exists("nosuch"))
            self.assertEqual([e.name for e in box.files.list("a")], ["b.bin"])
            with self.assertRaises(FileNotFoundError):
                box.files.read("nosuch")
            job = box.start("sleep 600")
            job.kill()
            self.assertFalse(job.wait(WAIT_S).outcome == "running")

    def test_few_bytes_at_a_time_and_no_reader(self):
        """A caller that does not read holds the daemon back, which then asks the box for nothing more."""
        mark = self.home / "mark"
        response = self.open("POST", self.base + "/exec", {
            "command": f"for i in $(seq 1000 1030); do seq ${{i}}00000 ${{i}}20000; sleep 0.02; done; touch {mark}", "timeout_s": 0},
            {"Accept": "application/x-ndjson"}).getresponse()

        def asked():
            return sum(path == "/v1/bash/output" for path, _ in self.up.calls)
        wait_until(mark.exists, "it has written everything")
        counts = []
        wait_until(lambda: counts.append(asked()) or (len(counts) > 20 and len(set(counts[-20:])) == 1), "it is not asked any more")
        lines = [json.loads(line) for line in response.read().decode().splitlines()]
        data = b"".join(base64.b64decode(e["data"]) for e in lines if e["event"] == "stdout")
        self.assertEqual(data, b"".join(b"%d\n" % n for i in range(1000, 1031) for n in range(i * 100000, i * 100000 + 20001)))
        self.assertEqual((lines[-1]["event"], lines[-1]["exit_code"]), ("end", 0))

    def test_more_output_at_once_than_is_taken(self):
        mark = self.home / "mark"
        response = self.open("POST", self.base + "/exec", {
            "command": f"until [ -e {mark} ]; do sleep 0.05; done; head -c 30000000 /dev/zero; exit 8", "timeout_s": 0},
            {"Accept": "application/x-ndjson"}).getresponse()
        self.assertEqual(json.loads(response.readline())["event"], "start")
        job, = wait_until(lambda: self.assertOk(self.call("GET", self.base + "/jobs"))["jobs"], "it is a job")
        command = self.inside.sessions[f"sandpool-{job['job']}"]
        with command.lock:  # it writes all of it, or nearly, before anything is given
            mark.touch()
            command.streams["stdout"] += b"x" * (9 * MIB)
        lines = [json.loads(line) for line in response.read().decode().splitlines()]
        self.assertIn("gap", [e["event"] for e in lines])
        self.assertEqual((lines[-1]["event"], lines[-1]["outcome"], lines[-1]["exit_code"]), ("end", "exited", 8))


class _Silent:
    """A call whose answer is thrown away."""

    def __init__(self, call):
        self.call = call

    def reply_json(self, status, value, *extra):
        return True


if __name__ == "__main__":
    main()
