"""Every answer of the AIO dialect against the table of its published types, and that what /v1/sandbox says of the box
is true."""

import copy
import os
import pathlib
import platform
import re
import shutil
import socket

from aio_types import CALLS, answer_problems
from agent_client import TOKEN, main, wait_until
from file_client import FileTest, multipart

SOURCE = pathlib.Path(os.environ.get("SANDPOOL_SOURCE_DIR", pathlib.Path(__file__).parents[3]))


class TypedTest(FileTest):
    def setUp(self):
        super().setUp()
        self.seen = set()

    def check(self, status, method, pattern, body=None, path=None, **kw):
        """The answer, after a look at each of its fields."""
        call = f"{method} {pattern}"
        answer = self.call(method, path or pattern, body, **kw)
        self.assertEqual(answer.status, status, (call, answer))
        self.assertEqual(answer_problems(call, answer.status, answer.json), [], (call, answer))
        self.seen.add((call, status < 400))
        return answer


class Answers(TypedTest):
    def bash_calls(self):
        self.check(200, "POST", "/v1/bash/exec", {"command": "echo a; echo b >&2; exit 3"})
        self.check(200, "POST", "/v1/bash/exec", {"command": "sleep 60", "hard_timeout": 0.05})
        self.check(200, "POST", "/v1/bash/exec", {"command": "sleep 60", "timeout": 0.01})
        self.check(200, "POST", "/v1/bash/sessions/create", {"session_id": "s1"})
        fresh = self.check(200, "POST", "/v1/bash/exec",
                           {"command": "cat", "session_id": "s1", "async_mode": True})
        for fields in ({}, {"command_id": fresh.data["command_id"]}, {"wait": True, "wait_timeout": 0.01}):
            self.check(200, "POST", "/v1/bash/output", {"session_id": "s1", **fields})
        self.check(200, "POST", "/v1/bash/write", {"session_id": "s1", "input": "x\n"})
        listed = self.check(200, "GET", "/v1/bash/sessions").data
        one = next(s for s in listed if s["session_id"] == "s1")
        self.assertEqual((one["status"], one["current_command"], one["command_count"]), ("ready", "cat", 1))
        self.check(200, "POST", "/v1/bash/kill", {"session_id": "s1", "signal": "SIGKILL"})
        self.check(200, "POST", "/v1/bash/output", {"session_id": "s1", "wait": True})
        self.check(200, "POST", "/v1/bash/sessions/{id}/close", path="/v1/bash/sessions/s1/close")
        for what, fields in (("exec", {"command": "true"}), ("output", {}), ("write", {"input": ""}), ("kill", {})):
            self.check(404, "POST", f"/v1/bash/{what}", {"session_id": "nosuch", **fields})
            self.check(422, "POST", f"/v1/bash/{what}", b"[1]")
        self.check(404, "POST", "/v1/bash/sessions/{id}/close", path="/v1/bash/sessions/nosuch/close")
        self.check(422, "POST", "/v1/bash/sessions/create", {"session_id": "a b"})

    def shell_calls(self):
        self.check(200, "POST", "/v1/shell/sessions/create", {"id": "t1", "exec_dir": "/"})
        self.check(200, "POST", "/v1/shell/view", {"id": "t1"})
        self.check(200, "POST", "/v1/shell/wait", {"id": "t1"})
        self.check(200, "POST", "/v1/shell/exec", {"command": "echo a; false", "id": "t1"})
        self.check(200, "POST", "/v1/shell/exec", {"command": "cat", "id": "t1", "async_mode": True})
        for status in ("exec", "view"):
            self.assertIn("data", self.call("POST", f"/v1/shell/{status}", {"id": "t1"}).json)
        self.check(200, "POST", "/v1/shell/wait", {"id": "t1", "seconds": 0})
        self.check(200, "POST", "/v1/shell/view", {"id": "t1"})
        self.check(200, "POST", "/v1/shell/write", {"id": "t1", "input": "x", "press_enter": True})
        running = self.check(200, "GET", "/v1/shell/sessions").data["sessions"]["t1"]
        self.assertEqual((running["status"], running["current_command"]), ("active", "cat"))
        stats = self.check(200, "GET", "/v1/shell/sessions/stats").data
        self.assertEqual((stats["active_sessions"], stats["session_timeout"]), (1, 0))
        self.check(200, "POST", "/v1/shell/sessions/update", {"id": "t1", "no_change_timeout": 30})
        self.check(200, "POST", "/v1/shell/kill", {"id": "t1"})
        self.check(200, "POST", "/v1/shell/kill", {"id": "t1"})
        self.check(200, "POST", "/v1/shell/exec", {"command": "sleep 60", "id": "t1", "no_change_timeout": 0.05})
        self.check(200, "POST", "/v1/shell/exec", {"command": "sleep 60", "hard_timeout": 0.05})
        self.check(200, "POST", "/v1/shell/exec", {"command": "sleep 60", "timeout": 0.01})
        self.check(200, "DELETE", "/v1/shell/sessions/{id}", path="/v1/shell/sessions/t1")
        for what in ("exec", "view", "wait", "write", "kill", "sessions/update"):
            self.check(404, "POST", f"/v1/shell/{what}", {"id": "nosuch", "command": "true", "input": ""})
            self.check(422, "POST", f"/v1/shell/{what}", b"{")
        self.check(422, "POST", "/v1/shell/sessions/create", {"id": "a b"})
        self.check(404, "DELETE", "/v1/shell/sessions/{id}", path="/v1/shell/sessions/nosuch")
        self.check(501, "GET", "/v1/shell/terminal-url")
        self.check(200, "DELETE", "/v1/shell/sessions")

    def upload_call(self, status, parts):
        body, headers = multipart(parts)
        self.check(status, "POST", "/v1/file/upload", body, headers=headers)

    def file_calls(self):
        text = str(self.put("a.txt", "one\ntwo\nthree\n"))
        self.put("sub/b.py", "two\n")
        (self.root / "nowhere").symlink_to("/nosuch")
        top = str(self.root)
        done = (("read", {"file": text}), ("read", {"file": text, "start_line": 1, "end_line": 2}),
                ("write", {"file": top + "/new", "content": "x"}),
                ("replace", {"file": text, "old_str": "one", "new_str": "1"}),
                ("search", {"file": text, "regex": "t.*"}), ("search", {"file": text, "regex": "nothing"}),
                ("find", {"path": top, "glob": "**/*.py"}), ("glob", {"path": top, "pattern": "**/*"}),
                ("grep", {"path": top, "pattern": "two", "context_before": 1, "context_after": 1}),
                ("grep", {"path": top, "pattern": "nothing"}),
                ("list", {"path": top, "recursive": True}), ("list", {"path": top}),
                ("str_replace_editor", {"command": "view", "path": text}),
                ("str_replace_editor", {"command": "view", "path": top}),
                ("str_replace_editor", {"command": "create", "path": top + "/made", "file_text": "a\nb\n"}),
                ("str_replace_editor", {"command": "str_replace", "path": text, "old_str": "two", "new_str": "2"}),
                ("str_replace_editor", {"command": "insert", "path": text, "insert_line": 1, "new_str": "z"}))
        for what, fields in done:
            self.check(200, "POST", f"/v1/file/{what}", fields)
        self.upload_call(200, [("path", None, (top + "/up").encode()), ("file", "up", b"bytes")])
        answer = self.download(text)
        self.assertEqual((answer.status, answer.body), (200, pathlib.Path(text).read_bytes()))

    def file_failures(self):
        text = str(self.put("a.txt", "one\n"))
        gone = str(self.root / "nosuch")
        failing = (("read", {"file": gone}), ("write", {"file": "/proc/self/mem", "content": ""}),
                   ("replace", {"file": gone, "old_str": "a", "new_str": "b"}),
                   ("search", {"file": gone, "regex": "a"}), ("find", {"path": gone, "glob": "*"}),
                   ("glob", {"path": gone, "pattern": "*"}), ("grep", {"path": gone, "pattern": "a"}),
                   ("list", {"path": text}), ("str_replace_editor", {"command": "view", "path": gone}))
        for what, fields in failing:
            status = self.call("POST", f"/v1/file/{what}", fields).status
            self.assertIn(status, (400, 403, 404), what)
            self.check(status, "POST", f"/v1/file/{what}", fields)
            self.check(422, "POST", f"/v1/file/{what}", {})
        self.check(404, "GET", "/v1/file/download", path="/v1/file/download?path=/nosuch")
        self.check(422, "GET", "/v1/file/download")
        self.upload_call(422, [("path", None, b"/tmp/x")])

    def test_every_answer_has_its_type(self):
        self.check(200, "GET", "/v1/sandbox")
        self.check(200, "GET", "/v1/sandbox", token=None)
        self.bash_calls()
        self.shell_calls()
        self.file_calls()
        self.file_failures()
        served = set()
        for source in (SOURCE / "src/agent/aio").glob("*.c"):
            served |= set(re.findall(r'\{HTTP_METHOD_(\w+), "(/v1/(?:sandbox|bash|shell|file)[^"]*)"', source.read_text()))
        self.assertEqual({f"{method} {path}" for method, path in served}, set(CALLS))
        without_failure = {"GET /v1/sandbox", "GET /v1/bash/sessions", "GET /v1/shell/sessions",
                           "GET /v1/shell/sessions/stats", "DELETE /v1/shell/sessions"}
        without_success = {"GET /v1/shell/terminal-url", "GET /v1/file/download"}
        self.assertEqual({call for call, is_ok in self.seen if is_ok}, set(CALLS) - without_success)
        self.assertEqual({call for call, is_ok in self.seen if not is_ok}, set(CALLS) - without_failure)

    def test_the_check_finds_a_broken_field(self):
        """Each field of a real answer: gone, or of another type."""
        answer = self.get("/v1/sandbox").json
        for path in (("home_dir",), ("version",), ("detail", "runtime"), ("detail", "utils"),
                     ("detail", "system", "os_version"), ("detail", "system", "timezone"),
                     ("detail", "system", "occupied_ports")):
            for value in (None, 7):
                broken = copy.deepcopy(answer)
                at = broken
                for part in path[:-1]:
                    at = at[part]
                at[path[-1]] = value
                self.assertEqual(len(answer_problems("GET /v1/sandbox", 200, broken)), 1, (path, value))
        broken = self.post("/v1/bash/sessions/create").json
        for name, value in (("created_at", "yesterday"), ("created_at", 17), ("status", "busy"), ("session_id", None)):
            data = {**broken["data"], name: value}
            self.assertEqual(len(answer_problems("POST /v1/bash/sessions/create", 200, {**broken, "data": data})), 1)


class WhatTheBoxIs(TypedTest):
    def detail(self, **kw):
        return self.check(200, "GET", "/v1/sandbox", **kw).json["detail"]

    def test_the_system(self):
        system = self.detail()["system"]
        self.assertEqual((system["os"], system["arch"]), (platform.system(), platform.machine()))
        release = pathlib.Path("/etc/os-release")
        if release.exists():
            name = re.search(r'^PRETTY_NAME="?([^"\n]*)', release.read_text(), re.M).group(1)
            self.assertEqual(system["os_version"], name)
        else:
            self.assertEqual(system["os_version"], platform.release())

    def test_the_timezone_is_that_of_commands(self):
        self.post("/v1/agent/env", {"set": {"TZ": "Europe/Berlin"}})
        self.assertEqual(self.detail()["system"]["timezone"], "Europe/Berlin")

    def test_ports_are_those_that_are_listened_on(self):
        with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("::1", 0), family=socket.AF_INET6) as six:
            ports = self.detail()["system"]["occupied_ports"]
            wanted = {str(s.getsockname()[1]) for s in (one, six)} | {str(self.port)}
            self.assertLessEqual(wanted, set(ports))
            self.assertEqual(ports, sorted(set(ports), key=int))
            with socket.create_connection(one.getsockname()) as client:
                self.assertNotIn(str(client.getsockname()[1]), self.detail()["system"]["occupied_ports"])
        wait_until(lambda: not wanted - {str(self.port)} & set(self.detail()["system"]["occupied_ports"]), "closed")

    def put_program(self, where, name, target=None):
        where.mkdir(exist_ok=True)
        if target:
            (where / name).symlink_to(target)
        else:
            (where / name).write_text("#!/bin/sh\n")
            (where / name).chmod(0o755)

    def test_programs_are_those_on_the_path(self):
        one, two = self.root / "one", self.root / "two"
        self.put_program(one, "python3.11")
        self.put_program(one, "python3", "python3.11")
        self.put_program(two, "python", one / "python3")
        self.put_program(two, "python3.12")
        self.put_program(two, "node")
        self.put_program(two, "git")
        (one / "curl").write_text("not a program")
        (one / "jq").mkdir()
        os.mkfifo(one / "make")
        self.post("/v1/agent/env", {"set": {"PATH": f"{one}:relative::{two}:/nosuch"}})
        detail = self.detail()
        self.assertEqual(detail["runtime"], {
            "python": [{"ver": "3.11", "bin": str(one / "python3.11"), "alias": ["python3", "python3.11", "python"]},
                       {"ver": "3.12", "bin": str(two / "python3.12"), "alias": ["python3.12"]}],
            "nodejs": [{"ver": None, "bin": str(two / "node"), "alias": ["node"]}]})
        tools = [tool["name"] for category in detail["utils"] for tool in category["tools"]]
        self.assertEqual(tools, ["git"])
        self.put_program(two, "rg")
        (self.root / "include" / "node").mkdir(parents=True)
        header = self.root / "include" / "node" / "node_version.h"
        for text, version in (("#define NODE_MAJOR_VERSION 20\n#define NODE_MINOR_VERSION 9\n"
                               "#define NODE_PATCH_VERSION 0\n", "20.9.0"), ("#define NODE_MAJOR_VERSION x\n", None)):
            header.write_text(text)
            self.assertEqual(self.detail()["runtime"]["nodejs"][0]["ver"], version)
        header.unlink()
        os.mkfifo(header)
        self.assertIsNone(self.detail()["runtime"]["nodejs"][0]["ver"])
        self.post("/v1/agent/env", {"set": {"PATH": str(two)}})
        tools = [tool["name"] for category in self.detail()["utils"] for tool in category["tools"]]
        self.assertEqual(sorted(tools), ["git", "rg"])

    def test_programs_of_this_machine(self):
        detail = self.detail()
        for tool in (t for category in detail["utils"] for t in category["tools"]):
            self.assertTrue(shutil.which(tool["name"]), tool)
        paths = {os.path.realpath(p["bin"]) for p in detail["runtime"]["python"]}
        if shutil.which("python3"):
            self.assertIn(os.path.realpath(shutil.which("python3")), paths)

    def test_who_has_no_token_sees_no_more_than_the_system(self):
        with socket.create_server(("127.0.0.1", 0)):
            detail = self.detail(token=None)
        self.assertEqual(detail["system"]["occupied_ports"], [])
        self.assertEqual((detail["runtime"], detail["utils"]), ({"python": [], "nodejs": []}, []))
        brief = self.detail(headers={"Prefer": "return=minimal"})
        self.assertEqual(brief, detail)
        self.post("/v1/agent/access", {"open": True})
        self.assertIn(str(self.port), self.detail(token=None)["system"]["occupied_ports"])
        self.assertIn(str(self.port), self.detail(token=None, headers={"X-AIO-API-Key": TOKEN})["system"]["occupied_ports"])


class Lengths(TypedTest):
    def test_no_limit_of_output_is_no_cut(self):
        data = self.check(200, "POST", "/v1/bash/exec", {"command": "seq 1 20000", "max_output_length": 0}).data
        self.assertEqual(data["stdout"].count("\n"), 20000)


if __name__ == "__main__":
        main()
