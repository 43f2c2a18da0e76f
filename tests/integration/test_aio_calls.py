"""Commands, jobs and files through the daemon in boxes that have no agent of ours and serve the AIO API: the same calls, the same
answers, and a refusal that says why where that API has nothing."""

import base64
import json
import os
import pathlib
import subprocess

from aio_box import AgentBox
from aio_case import AioCase
from fixtures import BIN, WAIT_S, main, wait_until


class Same:
    """What is the same on every server of that API."""

    def test_exec(self):
        result = self.run_exec(command="echo out; echo err >&2; exit 3")
        self.assertEqual((result["outcome"], result["exit_code"], result["signal"]), ("exited", 3, None))
        self.assertEqual((result["stdout"], result["stderr"]), ("out\n", "err\n"))
        self.assertEqual((result["truncated"], result["spill"]), (False, None))
        self.assertGreaterEqual(result["duration_ms"], 0)
        words = ["printf", "%s|", "a b", "it's", '$HOME "x" `y`', "", "-n", "\\", "é\n*"]
        self.assertEqual(self.run_exec(argv=words)["stdout"], "".join(w + "|" for w in words[2:]))
        self.assertEqual(self.run_exec(command="pwd", cwd="/")["stdout"], "/\n")
        result = self.run_exec(command="cat; echo end")  # it has no input, not one that never ends
        self.assertEqual(result["stdout"], "end\n")
        self.sessions_are_closed()

    def test_exec_with_input_and_variables(self):
        raw = bytes(range(256)) * 64
        result = self.run_exec(command="sha256sum | cut -c1-64; exit 4", stdin_base64=base64.b64encode(raw).decode())
        self.assertEqual((result["stdout"], result["exit_code"]),
                         (subprocess.check_output(["sha256sum"], input=raw).decode()[:64] + "\n", 4))
        self.assertEqual(self.run_exec(argv=["cat"], stdin="one\ntwo")["stdout"], "one\ntwo")
        secret = "s3cret'$(x)"
        result = self.run_exec(command='printf %s "$TOKEN"; tr "\\0" "\\n" </proc/$$/cmdline', env={"TOKEN": secret})
        self.assertEqual(result["stdout"].count(secret), 1)  # not in the arguments
        commands = [json.loads(body)["command"] for path, body in self.up.calls if path == "/v1/bash/exec"]
        self.assertFalse([c for c in commands if secret in c])
        self.assertCode(self.call("POST", self.base + "/exec", {"argv": ["cat"], "stdin": "x" * 150000}), 413, "body_too_large")

    def test_exec_limits(self):
        result = self.run_exec(command="echo before; sleep 600", timeout_s=0.5)
        self.assertEqual((result["outcome"], result["exit_code"], result["stdout"]), ("timed_out", None, "before\n"))
        result = self.run_exec(command="seq 1 100000", max_output=1000)
        self.assertTrue(result["truncated"])
        self.assertTrue(result["stdout"].startswith("1\n2\n") and result["stdout"].endswith("99999\n100000\n"), result)
        self.assertLessEqual(len(result["stdout"]), 1000)
        result = self.run_exec(command="kill -9 $$")
        self.assertEqual((result["outcome"], result["exit_code"], result["signal"]), ("signalled", None, "SIGKILL"))
        result = self.run_exec(command="printf 'a\\0b'", encoding="base64")  # text is all that there is
        self.assertEqual(base64.b64decode(result["stdout"]).decode().replace("\ufffd", "")[::2][:1], "a")
        self.assertEqual(result["exit_code"], 0)

    def test_refusals_of_exec(self):
        for body, status, code in (
                ({}, 422, "invalid_field"), ({"command": "a", "argv": ["b"]}, 422, "invalid_field"),
                ({"command": "a", "typo": 1}, 422, "invalid_field"), ({"command": "a", "env": {"A=B": "c"}}, 422, "invalid_field"),
                ({"command": "a", "timeout_s": -1}, 422, "invalid_field"), ({"argv": []}, 422, "invalid_field"),
                ({"command": "a", "user": "root"}, 501, "unsupported"), ({"command": "a", "cwd": "b"}, 501, "unsupported"),
                ({"command": "a", "encoding": "utf-16"}, 422, "invalid_field")):
            self.assertCode(self.call("POST", self.base + "/exec", body), status, code)
        self.assertCode(self.call("POST", self.base + "/exec", b"{"), 400, "bad_request")
        self.assertCode(self.call("POST", self.base + "/exec", {"command": "true", "cwd": "/nosuch"}), 422, "invalid_field")
        for method, rest in (("POST", "/jobs/1/stdin"), ("POST", "/jobs/1/resize"), ("GET", "/jobs/1/attach"),
                             ("GET", "/files/tar?path=a"), ("PUT", "/files/tar?path=a"), ("GET", "/files/watch?path=a")):
            answer = self.call(method, self.base + rest)
            self.assertCode(answer, 501, "unsupported")
            self.assertIn("no agent of sandpool", self.message(answer))
        self.assertCode(self.call("POST", self.base + "/jobs", {"command": "a", "pty": {}}), 501, "unsupported")
        self.assertCode(self.call("POST", self.base + "/jobs", {"command": "a", "stdin": True}), 501, "unsupported")

    def test_stream(self):
        gate = self.home / "gate"
        os.mkfifo(gate)
        connection = self.open("POST", self.base + "/exec", {
            "command": "echo one; cat gate >&2; echo two; exit 5", "cwd": str(self.home), "stream": True},
            {"Accept": "application/x-ndjson"})
        answer = connection.getresponse()
        self.assertEqual((answer.status, answer.getheader("Content-Type")), (200, "application/x-ndjson"))

        def next_event():
            while (event := json.loads(answer.readline()))["event"] == "keepalive":
                pass
            return event
        start, first = next_event(), next_event()
        self.assertEqual(start["event"], "start")
        self.assertEqual((first["event"], first["offset"], base64.b64decode(first["data"])), ("stdout", 0, b"one\n"))
        gate.write_bytes(b"through\n")  # the first part was here before the end was
        rest = [json.loads(line) for line in answer.read().decode().splitlines()]
        got = {name: b"".join(base64.b64decode(e["data"]) for e in rest if e["event"] == name) for name in ("stdout", "stderr")}
        self.assertEqual(got, {"stdout": b"two\n", "stderr": b"through\n"})
        self.assertEqual([e["offset"] for e in rest if e["event"] == "stdout"], [4])
        end = rest[-1]
        self.assertEqual((end["event"], end["outcome"], end["exit_code"], end["job"]), ("end", "exited", 5, start["job"]))
        self.assertEqual((end["stdout_bytes"], end["stderr_bytes"]), (8, 8))
        self.sessions_are_closed()

    def test_much_output(self):
        count = 300000
        lines = self.events(command=f"seq 1 {count}")
        data = b"".join(base64.b64decode(e["data"]) for e in lines if e["event"] == "stdout")
        self.assertEqual(data, b"".join(b"%d\n" % i for i in range(1, count + 1)))
        self.assertEqual(lines[-1]["exit_code"], 0)

    def test_jobs(self):
        job = self.assertOk(self.call("POST", self.base + "/jobs", {"command": "echo a; echo b >&2; sleep 600"}))
        self.assertEqual((job["outcome"], job["exit_code"]), ("running", None))
        where = f"{self.base}/jobs/{job['job']}"
        found = wait_until(lambda: self.assertOk(self.call("GET", self.base + "/jobs"))["jobs"], "it is listed")
        self.assertEqual([(j["job"], j["command"], j["outcome"]) for j in found],
                         [(job["job"], "echo a; echo b >&2; sleep 600", "running")])
        self.assertEqual(self.assertOk(self.call("POST", where + "/wait", {"timeout_s": 0}))["outcome"], "running")
        self.assertEqual(self.assertOk(self.call("POST", where + "/wait", {"timeout_s": 0.2}))["outcome"], "running")
        connection = self.open("GET", where + "/output?stream=both&follow=1")
        answer = connection.getresponse()
        self.assertEqual(answer.getheader("Content-Type"), "text/event-stream")
        answer.readline()
        self.server.restart()  # a job is the box's
        self.assertEqual(self.assertOk(self.call("GET", where))["outcome"], "running")
        self.assertEqual(self.call("GET", where + "/output").data, b"a\n")
        self.assertEqual(self.call("GET", where + "/output?stream=stderr").data, b"b\n")
        self.assertEqual(self.call("GET", where + "/output?offset=1").data, b"\n")
        for signal in ("USR1", "nonsense"):
            self.assertCode(self.call("POST", where + "/signal", {"signal": signal}), 501, "unsupported")
        self.assertOk(self.call("POST", where + "/signal", {"signal": "TERM"}))
        end = self.assertOk(self.call("POST", where + "/wait", {}))
        self.assertIn(end["outcome"], ("killed", "signalled"))
        self.assertIsNone(end["exit_code"])
        self.assertCode(self.call("POST", where + "/signal", {"signal": "TERM"}), 409, "job_ended")
        self.assertEqual(self.assertOk(self.call("DELETE", where))["outcome"], end["outcome"])
        self.assertEqual(self.assertOk(self.call("GET", self.base + "/jobs"))["jobs"], [])
        for missing in ("/jobs/7", "/jobs/7/output", "/jobs/x"):
            self.assertCode(self.call("GET", self.base + missing), 404, "not_found")

    def test_end_of_a_job(self):
        job = self.assertOk(self.call("POST", self.base + "/jobs", {
            "command": "trap '' TERM; echo ready; while :; do sleep 1; done"}))
        where = f"{self.base}/jobs/{job['job']}"
        wait_until(lambda: self.call("GET", where + "/output").data == b"ready\n", "it ignores TERM")
        end = self.assertOk(self.call("DELETE", where))
        self.assertIn(end["outcome"], ("killed", "signalled"))
        self.assertIsNone(end["exit_code"])
        job = self.assertOk(self.call("POST", self.base + "/jobs", {"command": "exit 7"}))
        end = self.assertOk(self.call("POST", f"{self.base}/jobs/{job['job']}/wait", {}))
        self.assertEqual((end["outcome"], end["exit_code"]), ("exited", 7))

    def test_a_caller_that_goes(self):
        for is_killed in (True, False):
            mark = self.home / f"pid-{is_killed}"
            connection = self.open("POST", self.base + "/exec", {
                "command": f"echo $$ >{mark}.new; mv {mark}.new {mark}; exec sleep 600", "timeout_s": 0, "kill_on_disconnect": is_killed})
            wait_until(mark.exists, "it runs")
            pid = int(mark.read_text())
            connection.close()
            if is_killed:
                wait_until(lambda: not is_running(pid), "it is killed")
            else:
                wait_until(lambda: self.api.get("/v1/sandboxes").json["sandboxes"][0]["idle_s"] > 0, "the call is over")
                self.assertTrue(is_running(pid))
                job, = wait_until(lambda: self.assertOk(self.call("GET", self.base + "/jobs"))["jobs"], "it is a job")
                self.assertOk(self.call("DELETE", f"{self.base}/jobs/{job['job']}"))

    # -- files --

    def test_bytes_of_a_file(self):
        data = os.urandom(3 * 1024 * 1024) + b"\r\n--sandpool"
        answer = self.assertOk(self.call("PUT", self.base + "/files?path=a/b%20c%27/x.bin&mode=0640", data))
        path = self.home / "a/b c'/x.bin"
        self.assertEqual(answer, {"path": str(path), "size": len(data), "created": True})
        self.assertEqual((path.read_bytes() == data, oct(path.stat().st_mode & 0o7777)), (True, "0o640"))
        answer = self.call("GET", self.base + "/files?path=a/b%20c%27/x.bin")
        self.assertEqual((answer.status, answer.data == data), (200, True))
        self.assertEqual(answer.headers["X-Sandpool-Mode"], "0640")
        head = self.call("HEAD", f"{self.base}/files?path={path}".replace(" ", "%20").replace("'", "%27"))
        self.assertEqual((head.status, head.headers["Content-Length"], head.data), (200, str(len(data)), b""))
        answer = self.assertOk(self.call("PUT", f"{self.base}/files?path=~/a/b%20c%27/x.bin", b""))
        self.assertEqual((answer["size"], answer["created"], path.stat().st_size), (0, False, 0))
        self.assertEqual(oct(path.stat().st_mode & 0o7777), "0o640")  # as it was
        (self.home / "link").symlink_to(path)
        connection = self.open("GET", self.base + "/jobs")  # chunked: the length is not known before
        connection.getresponse().read()
        connection.request("PUT", self.base + "/files?path=link", iter([b"by ", b"the ", b"link"]), encode_chunked=True,
                           headers={"Transfer-Encoding": "chunked"})
        self.assertEqual(json.loads(connection.getresponse().read())["size"], 11)
        self.assertEqual((path.read_bytes(), (self.home / "link").is_symlink()), (b"by the link", True))
        self.assertEqual([p.name for p in self.home.rglob(".sandpool-*")], [])
        self.sessions_are_closed()

    def test_entries(self):
        (self.home / "d/sub").mkdir(parents=True)
        (self.home / "d/f").write_bytes(b"12345")
        (self.home / "d/new\nline é").write_bytes(b"")
        (self.home / "d/l").symlink_to("f")
        os.chmod(self.home / "d/f", 0o604)
        os.utime(self.home / "d/f", ns=(0, 1700000000123456789))
        entry = self.assertOk(self.call("GET", self.base + "/files/stat?path=d/f"))
        self.assertEqual(entry, {"name": "f", "path": f"{self.home}/d/f", "type": "file", "size": 5, "mode": "0604",
                                 "uid": os.getuid(), "gid": os.getgid(), "mtime": "2023-11-14T22:13:20.123Z", "target": None})
        link = self.assertOk(self.call("GET", self.base + "/files/stat?path=d/l"))
        self.assertEqual((link["type"], link["target"]), ("symlink", "f"))
        self.assertEqual(self.assertOk(self.call("GET", self.base + "/files/stat?path=d/l&follow=1"))["type"], "file")
        listing = self.assertOk(self.call("GET", self.base + "/files/list?path=d/"))
        self.assertEqual((listing["path"], listing["truncated"]), (f"{self.home}/d", False))
        self.assertEqual({e["name"]: e["type"] for e in listing["entries"]},
                         {"sub": "directory", "f": "file", "l": "symlink", "new\nline é": "file"})
        (self.home / "d/sub/deep").mkdir()
        names = {e["path"] for e in self.assertOk(self.call("GET", self.base + "/files/list?path=.&recursive=1"))["entries"]}
        self.assertIn(f"{self.home}/d/sub/deep", names)
        listing = self.assertOk(self.call("GET", self.base + "/files/list?path=d&limit=2"))
        self.assertEqual((len(listing["entries"]), listing["truncated"]), (2, True))
        self.assertEqual(self.assertOk(self.call("GET", self.base + "/files/stat?path=/"))["path"], "/")

    def test_changes(self):
        made = self.assertOk(self.call("POST", self.base + "/files/mkdir", {"path": "x/y", "mode": "0750"}))
        self.assertEqual((made["type"], made["mode"], made["path"]), ("directory", "0750", f"{self.home}/x/y"))
        self.assertOk(self.call("POST", self.base + "/files/mkdir", {"path": "x/y"}))
        self.assertCode(self.call("POST", self.base + "/files/mkdir", {"path": "x/y", "parents": False}), 409, "file_exists")
        (self.home / "x/y/f").write_text("1")
        copied = self.assertOk(self.call("POST", self.base + "/files/copy", {"from": "x", "to": "new/x2"}))
        self.assertEqual((copied["type"], (self.home / "new/x2/y/f").read_text()), ("directory", "1"))
        self.assertCode(self.call("POST", self.base + "/files/copy", {"from": "x", "to": "x3", "recursive": False}), 400, "is_directory")
        self.assertOk(self.call("POST", self.base + "/files/move", {"from": "x/y/f", "to": "g"}))
        self.assertEqual(((self.home / "g").read_text(), (self.home / "x/y/f").exists()), ("1", False))
        answer = self.call("POST", self.base + "/files/move", {"from": "g", "to": "new/x2/y/f", "overwrite": False})
        self.assertCode(answer, 409, "file_exists")
        self.assertCode(self.call("DELETE", self.base + "/files?path=new"), 409, "not_empty")
        self.assertEqual(self.assertOk(self.call("DELETE", self.base + "/files?path=new&recursive=1"))["removed"], 4)
        self.assertOk(self.call("DELETE", self.base + "/files?path=g"))
        self.assertEqual(sorted(p.name for p in self.home.iterdir()), ["x"])

    def test_errors_of_files(self):
        (self.home / "dir").mkdir()
        (self.home / "file").write_text("1")
        os.mkfifo(self.home / "fifo")
        for method, rest, body, status, code in (
                ("GET", "/files?path=nosuch", None, 404, "file_not_found"), ("GET", "/files?path=dir", None, 400, "is_directory"),
                ("GET", "/files?path=fifo", None, 400, "not_regular"), ("PUT", "/files?path=dir", b"x", 400, "is_directory"),
                ("PUT", "/files?path=file/x", b"x", 400, "not_directory"), ("PUT", "/files?path=no/x&parents=0", b"x", 404, "file_not_found"),
                ("DELETE", "/files?path=nosuch", None, 404, "file_not_found"), ("GET", "/files/stat?path=nosuch", None, 404, "file_not_found"),
                ("GET", "/files/list?path=nosuch", None, 404, "file_not_found"), ("GET", "/files/list?path=file", None, 400, "not_directory"),
                ("GET", "/files", None, 422, "invalid_field"), ("GET", "/files?path=%FF", None, 422, "invalid_field"),
                ("GET", "/files?path=a&user=root", None, 501, "unsupported"), ("PUT", "/files?path=a&mode=x", b"", 422, "invalid_field"),
                ("GET", "/files/list?path=.&limit=0", None, 422, "invalid_field"), ("POST", "/files/mkdir", {}, 422, "invalid_field"),
                ("POST", "/files/move", {"from": "nosuch", "to": "x"}, 404, "file_not_found")):
            answer = self.call(method, self.base + rest, body)
            self.assertCode(answer, status, code)
        self.assertEqual(self.call("HEAD", self.base + "/files?path=nosuch").status, 404)
        self.assertEqual([p.name for p in self.home.rglob(".sandpool-*")], [])

    def test_a_put_that_is_broken_off(self):
        (self.home / "keep").write_text("old")
        connection = self.open("GET", self.base + "/jobs")
        connection.getresponse().read()
        connection.putrequest("PUT", self.base + "/files?path=keep")
        connection.putheader("Content-Length", "1000000")
        connection.endheaders(b"new" * 1000)
        wait_until(lambda: list(self.home.glob(".sandpool-*")), "there is a place for it")
        connection.close()
        wait_until(lambda: not list(self.home.glob(".sandpool-*")), "nothing is left")
        self.assertEqual((self.home / "keep").read_text(), "old")

    # -- programs --

    def test_command_line(self):
        def run(*args, **more):
            return subprocess.run([BIN / "sandpool", "--socket", self.server.socket, *args], capture_output=True, timeout=WAIT_S,
                                  stdin=subprocess.DEVNULL, **more)
        box = self.box["sandbox_id"]
        done = run("exec", box, "--env", "A=b c", "--", "sh", "-c", 'echo "$A"; echo err >&2; exit 9')
        self.assertEqual((done.returncode, done.stdout, done.stderr), (9, b"b c\n", b"err\n"))
        local = pathlib.Path(self.directory) / "local"
        local.write_bytes(os.urandom(100000))
        done = run("cp", str(local), f"{box}:there")
        self.assertEqual((done.returncode, (self.home / "there").read_bytes() == local.read_bytes()), (0, True), done)
        done = run("cp", f"{box}:there", str(local) + ".back")
        self.assertEqual((done.returncode, pathlib.Path(str(local) + ".back").read_bytes() == local.read_bytes()), (0, True), done)
        done = run("cp", f"{box}:.", str(local) + ".tree")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(b"no agent of sandpool", done.stderr)


class OnAStandIn(Same, AioCase):
    pass


class OnOurAgent(Same, AioCase):
    KIND = AgentBox


def is_running(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


if __name__ == "__main__":
    main()
