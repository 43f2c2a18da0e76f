"""/v1/agent/exec: one round trip for a command, streams of events, and what is left of jobs."""

import base64
import json
import os
import signal
import socket
import threading
import time
import unittest

from agent_client import IS_SANITIZED, TOKEN, WAIT_S, AgentTest, is_alive, main, wait_until

EXEC = "/v1/agent/exec"
JOBS = "/v1/agent/jobs"
SSE = {"Accept": "text/event-stream"}
NDJSON = {"Accept": "application/x-ndjson"}


def events(response, form):
    """(name, data) of a stream of either form, as they come."""
    name = None
    for line in response:
        line = line.decode().rstrip("\n")
        if form is NDJSON:
            data = json.loads(line)
            assert next(iter(data)) == "event", line
            yield data.pop("event"), data
        elif line.startswith("event: "):
            name = line[7:]
        elif line.startswith("data: "):
            yield name, json.loads(line[6:])
        elif line.startswith(":"):
            yield "keepalive", {}


class ExecTest(AgentTest):
    def exec(self, command, expect=200, **fields):
        key = "argv" if isinstance(command, list) else "command"
        answer = self.post(EXEC, {key: command, **fields})
        self.assertEqual(answer.status, expect, answer)
        return answer.json

    def jobs(self, tag=None):
        return self.get(JOBS + (f"?tag={tag}" if tag else "")).json["jobs"]

    def stream(self, form, body):
        connection, response = self.open("POST", EXEC, body, form)
        self.assertEqual(response.status, 200)
        self.assertEqual(response.getheader("Content-Type"), form["Accept"])
        return connection, response, events(response, form)


class Answer(ExecTest):
    def test_answer_has_all_members(self):
        got = self.exec("echo out; echo err >&2; exit 3")
        self.assertIsInstance(got.pop("duration_ms"), int)
        self.assertEqual(got, {"job": "1", "outcome": "exited", "exit_code": 3, "signal": None, "stdout": "out\n",
                               "stderr": "err\n", "truncated": False, "spill": None})
        self.assertEqual(self.get(f"{JOBS}/1").status, 404)
        self.assertEqual(self.jobs(), [])

    def test_program_directory_environment(self):
        self.assertEqual(self.exec(["printf", "%s|", "a b", "$HOME"])["stdout"], "a b|$HOME|")
        got = self.exec("pwd; echo $X", cwd="/usr", env={"X": "1", "PATH": os.environ["PATH"]})
        self.assertEqual(got["stdout"], "/usr\n1\n")

    def test_input(self):
        self.assertEqual(self.exec("cat; readlink /proc/self/fd/0")["stdout"], "/dev/null\n")
        self.assertEqual(self.exec("cat", stdin="")["stdout"], "")
        self.assertEqual(self.exec("cat", stdin="täxt\n")["stdout"], "täxt\n")
        data = bytes(range(256)) * 4000
        got = self.exec("cat", stdin_base64=base64.b64encode(data).decode(), encoding="base64")
        self.assertEqual(base64.b64decode(got["stdout"]), data)
        whole = 4 * 1024 * 1024
        self.assertEqual(self.exec("wc -c", stdin_base64=base64.b64encode(b"x" * whole).decode())["stdout"].strip(), str(whole))
        error = self.exec("wc -c", 422, stdin_base64=base64.b64encode(b"x" * (whole + 1)).decode())
        self.assertIn("4194304", error["error"]["message"])
        self.assertEqual(self.exec("exec <&-; sleep 0.1", stdin="x" * 500000)["exit_code"], 0)

    def test_text_is_what_others_make_of_it(self):
        samples = [b"plain \"quoted\" back\\slash\ttab\r\x01\x1f\x7f", "äß€😀".encode(), b"a\x00b",
                   b"\xff\xfea", b"\xc3", b"\xe2\x82", b"\xed\xa0\x80", b"\xf0\x80\x80\x80", b"\xf4\x90\x80\x80",
                   b"\xc0\xaf", b"\xe2\x28\xa1", b"\xf0\x9f\x98", b"\x80\x80", os.urandom(40000)]
        for sample in samples:
            text = base64.b64encode(sample).decode()
            self.assertEqual(self.exec("cat", stdin_base64=text)["stdout"], sample.decode("utf-8", "replace"), sample[:40])
            self.assertEqual(self.exec("cat >&2", stdin_base64=text, encoding="base64")["stderr"], text)

    def test_characters_over_the_edges_of_pieces(self):
        """Long answers are read in pieces, which end anywhere."""
        for first in ("", "x", "xx", "xxx"):
            script = f"import sys; sys.stdout.write({first!r} + '\\U0001f600€ä' * 60000)"
            want = first + "\U0001f600€ä" * 60000
            self.assertEqual(self.exec(["python3", "-c", script])["stdout"], want)
            got = self.exec(["python3", "-c", script], encoding="base64")["stdout"]
            self.assertEqual(base64.b64decode(got).decode(), want)

    def test_refusals_name_the_field(self):
        for body, word in (({}, "command"), ({"command": "ls", "argv": ["ls"]}, "argv"), ({"command": 1}, "command"),
                           ({"command": "ls", "what": 1}, "what"), ({"command": "ls", "timeout_ms": 1}, "timeout_ms"),
                           ({"command": "ls", "timeout_s": -1}, "timeout_s"), ({"command": "ls", "timeout_s": "1"}, "timeout_s"),
                           ({"command": "ls", "timeout_s": 1e300}, "timeout_s"), ({"command": "ls", "timeout_s": True}, "timeout_s"),
                           ({"command": "ls", "max_output": 1 << 62}, "max_output"), ({"command": "ls", "max_output": 1.5}, "max_output"),
                           ({"command": "ls", "max_output": -1}, "max_output"), ({"command": "ls", "encoding": "latin1"}, "encoding"),
                           ({"command": "ls", "encoding": 5}, "encoding"), ({"command": "ls", "stream": "yes"}, "stream"),
                           ({"command": "ls", "kill_on_disconnect": 1}, "kill_on_disconnect"), ({"command": "ls", "tag": "x" * 129}, "tag"),
                           ({"command": "ls", "stdin": True}, "stdin"), ({"command": "ls", "stdin": "a", "stdin_base64": "YQ=="}, "stdin"),
                           ({"command": "ls", "stdin_base64": "?"}, "stdin_base64"), ({"command": "ls", "env": []}, "env"),
                           ({"command": "ls", "env": {"A": 1}}, "env"), ({"command": "ls", "pty": {}}, "pty"),
                           ({"command": "ls", "cwd": "/no/such"}, "/no/such"), ({"argv": []}, "argv"), ({"argv": [1]}, "argv")):
            answer = self.post(EXEC, body)
            self.assertEqual((answer.status, answer.json["error"]["code"]), (422, "invalid_field"), body)
            self.assertIn(word, answer.json["error"]["message"], body)
        for body, status in ((b"{", 400), (b"[]", 400), (b'{"command":"ls","command":"ls"}', 400), (b"[" * 100000, 400)):
            self.assertEqual(self.call("POST", EXEC, body).status, status, body[:20])
        connection = self.connect()  # the length alone is refused; a client that sends on may find the connection closed
        connection.putrequest("POST", EXEC)
        connection.putheader("Authorization", f"Bearer {TOKEN}")
        connection.putheader("Content-Length", str(7 << 20))
        connection.endheaders()
        self.assertEqual(connection.getresponse().status, 413)
        self.assertRefusedPrograms(EXEC)
        self.assertEqual(self.post(EXEC, {"command": "id"}, token="wrong").status, 401)
        self.assertEqual(self.call("GET", EXEC).status, 405)
        wait_until(lambda: self.children() == [], "refused ones leave no process")
        self.assertEqual(self.jobs(), [])
        for what, body, word in (("wait", {"timeout_ms": 1}, "timeout_ms"), ("wait", {"timeout_s": 3601}, "timeout_s"),
                                 ("wait", {"timeout_s": []}, "timeout_s"), ("signal", {"signum": 1}, "signum"),
                                 ("signal", {"signal": "x" * 100}, "signal"), ("resize", {"columns": 1}, "columns")):
            job = self.start(command="sleep 300")
            answer = self.post(f"{JOBS}/{job}/{what}", body)
            self.assertEqual(answer.status, 422, (what, body))
            self.assertIn(word, answer.json["error"]["message"])


class Outcome(ExecTest):
    def test_signal(self):
        got = self.exec("echo x; kill -SEGV $$")
        self.assertEqual((got["outcome"], got["signal"], got["exit_code"], got["stdout"]),
                         ("signalled", "SIGSEGV", None, "x\n"))
        self.assertEqual(self.exec("kill -34 $$")["signal"], "SIG34")

    def test_timeout_is_answered_when_all_are_dead(self):
        """One ignores the signal, one is in another group, one has lost its parent."""
        script = ("trap '' TERM; echo $$; (sleep 301 & echo $!); setsid sh -c 'trap \"\" TERM; echo $$; while :; do sleep 302; done' & "
                  "(trap '' TERM; sh -c 'echo $PPID; exec sleep 303') & echo last >&2; while :; do sleep 304; done")
        got = self.exec(script, timeout_s=1)
        pids = [int(p) for p in got["stdout"].split()]
        self.assertEqual((got["outcome"], got["exit_code"], got["stderr"], len(pids)), ("timed_out", None, "last\n", 4))
        self.assertEqual([p for p in pids if is_alive(p)], [])

    def test_one_that_takes_long_to_die_is_waited_for(self):
        """The kernel needs some time for the end of a program with much memory."""
        large = "import os, signal; signal.signal(15, signal.SIG_IGN); x = b'x' * 300000000; print(os.getpid(), flush=True); signal.pause()"
        job = self.start(command=f'python3 -c "{large}" & wait')
        pid = int(wait_until(lambda: self.process(job, "/output").body, "it has its memory"))
        self.assertEqual(self.call("DELETE", f"{JOBS}/{job}").json["signal"], "SIGTERM")
        self.assertFalse(is_alive(pid))

    def test_timeout_of_one_that_obeys(self):
        got = self.exec("trap 'echo bye; exit 5' TERM; echo hi; sleep 300 & wait", timeout_s=0.5)
        self.assertEqual((got["outcome"], got["exit_code"], got["signal"], got["stdout"]), ("timed_out", None, None, "hi\nbye\n"))

    def test_zero_is_no_timeout(self):
        self.assertEqual(self.exec("sleep 0.3; echo x", timeout_s=0)["outcome"], "exited")
        self.assertEqual(self.exec("sleep 300", timeout_s=1e-12)["outcome"], "timed_out")

    def test_killed_by_request(self):
        answers = []
        thread = threading.Thread(target=lambda: answers.append(self.exec("echo $$; exec sleep 300", tag="victim")))
        thread.start()
        job = wait_until(lambda: self.jobs("victim"), "it runs")[0]
        ended = self.call("DELETE", f"{JOBS}/{job['job']}").json
        thread.join(WAIT_S)
        self.assertEqual((ended["outcome"], answers[0]["outcome"], answers[0]["signal"]), ("killed", "killed", "SIGTERM"))
        self.assertEqual(answers[0]["job"], job["job"])

    def test_background_goes_on(self):
        """What a command leaves behind is not killed, neither by the answer nor by its next write."""
        got = self.exec("(trap '' HUP; while :; do echo tick; sleep 0.05; done) & echo $!")
        pid = next(int(word) for word in got["stdout"].split() if word != "tick")  # which may come first
        self.addCleanup(lambda: is_alive(pid) and os.kill(pid, signal.SIGKILL))
        self.assertEqual(got["outcome"], "exited")
        for _ in range(150):
            self.assertEqual(self.wait(self.start(argv=["true"]))["exit_code"], 0)
        self.assertTrue(is_alive(pid))
        view = self.get(f"{JOBS}/{got['job']}").json
        self.assertTrue(view["stdout"]["open"])
        wait_until(lambda: self.get(f"{JOBS}/{got['job']}").json["stdout_bytes"] > view["stdout_bytes"], "it writes on")
        self.assertGreaterEqual(len(self.jobs()), 128)
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: self.get(f"{JOBS}/{got['job']}").status == 404, "forgotten when nobody writes")


class Truncation(ExecTest):
    def test_both_ends_and_the_rest_by_the_job(self):
        got = self.exec("seq 100000; echo err >&2", max_output=100)
        whole = "".join(f"{i}\n" for i in range(1, 100001))
        self.assertEqual(got["stdout"], whole[:50] + whole[-50:])
        self.assertEqual((got["stderr"], got["truncated"]), ("err\n", True))
        self.assertEqual(got["spill"], {"job": got["job"], "stdout_bytes": len(whole), "stderr_bytes": 4,
                                        "stdout_gap": {"from": 50, "to": len(whole) - 50}, "stderr_gap": None})
        self.assertEqual(self.get(f"{JOBS}/{got['job']}/output").body.decode(), whole)
        self.assertEqual([j["job"] for j in self.jobs()], [got["job"]])

    def test_edges(self):
        for size, limit, cut in ((100, 100, False), (101, 100, True), (1, 0, True), (0, 0, False), (5, 3, True)):
            got = self.exec(f"head -c {size} /dev/zero | tr '\\0' x", max_output=limit)
            self.assertEqual((got["truncated"], len(got["stdout"])), (cut, size if not cut else limit // 2 * 2))

    def test_long_answers(self):
        size = 1024 * 1024
        self.assertEqual(self.exec(f"head -c {size} /dev/zero | tr '\\0' x")["stdout"], "x" * size)
        got = self.exec(f"head -c {size + 1} /dev/zero | tr '\\0' x")
        self.assertEqual((len(got["stdout"]), got["truncated"]), (size, True))
        most = 8 * size
        before = self.memory_kb("VmHWM")
        got = self.exec(f"head -c {most} /dev/zero; seq 3000000 >&2", max_output=most)
        self.assertEqual((got["stdout"], got["truncated"]), ("\0" * most, True))
        self.assertEqual(len(got["stderr"]), most)
        if not IS_SANITIZED:
            self.assertLess(self.memory_kb("VmHWM") - before, 8192)

    def test_no_half_characters(self):
        got = self.exec(["python3", "-c", "print('€' * 1000, end='')"], max_output=100)
        self.assertEqual(got["stdout"], "€" * 32)
        got = self.exec(["python3", "-c", "print('€' * 1000, end='')"], max_output=100, encoding="base64")
        self.assertEqual(len(base64.b64decode(got["stdout"])), 100)

    def test_without_disk_both_ends_are_there(self):
        self.spill.rmdir()
        got = self.exec("seq 100000")
        self.spill.mkdir()
        whole = "".join(f"{i}\n" for i in range(1, 100001))
        gap = got["spill"]["stdout_gap"]
        self.assertTrue(got["truncated"])
        self.assertEqual(got["stdout"], whole[:gap["from"]] + whole[gap["to"]:])
        self.assertGreaterEqual(gap["from"], 32768)
        self.assertTrue(got["stdout"].endswith("99999\n100000\n"))


class Streams(ExecTest):
    FORMS = (SSE, NDJSON)

    def test_events(self):
        for form in self.FORMS:
            _, _, stream = self.stream(form, {"command": "echo a; sleep 0.2; echo b >&2; exit 4", "tag": "t"})
            got = list(stream)
            self.assertEqual([name for name, _ in got], ["start", "stdout", "stderr", "end"])
            self.assertEqual(set(got[0][1]), {"job", "pid"})
            self.assertEqual(got[1][1], {"offset": 0, "data": base64.b64encode(b"a\n").decode()})
            end = got[-1][1]
            self.assertEqual((end["job"], end["outcome"], end["exit_code"], end["stdout_bytes"], end["stderr_bytes"], end["tag"]),
                             (got[0][1]["job"], "exited", 4, 2, 2, "t"))
            self.assertEqual(self.get(f"{JOBS}/{end['job']}").json["outcome"], "exited")

    def test_stream_true_is_sse(self):
        answer = self.post(EXEC, {"command": "echo a", "stream": True})
        self.assertEqual(answer.headers["Content-Type"], "text/event-stream")
        self.assertTrue(answer.body.startswith(b"event: start\ndata: {"))

    def test_timeout_in_a_stream(self):
        _, _, stream = self.stream(NDJSON, {"command": "echo x; sleep 300", "timeout_s": 0.3})
        self.assertEqual(list(stream)[-1][1]["outcome"], "timed_out")

    def test_resume_loses_and_doubles_nothing(self):
        """The connection is cut again and again; in the end every byte came once, in its place."""
        lines = 20000  # more than a few events hold, however many writes are read together
        script = (f"import sys\nfor i in range({lines}):\n  print('%07d' % i)\n  print('e%06d' % i, file=sys.stderr)\n"
                  "  if i % 1000 == 0: sys.stdout.flush(); sys.stderr.flush()")
        want = {"stdout": b"".join(b"%07d\n" % i for i in range(lines)),
                "stderr": b"".join(b"e%06d\n" % i for i in range(lines))}
        for form in self.FORMS:
            got = {"stdout": b"", "stderr": b""}
            connection, response, stream = self.stream(form, {"argv": ["python3", "-c", script]})
            job, count, end = next(stream)[1]["job"], 0, None
            while end is None:
                for name, data in stream:
                    if name == "end":
                        end = data
                        break
                    self.assertEqual(data["offset"], len(got[name]))
                    got[name] += base64.b64decode(data["data"])
                    count += 1
                    if count % 3 == 0:
                        break
                response.close()
                connection.close()
                if end is None:
                    connection, response = self.open("GET", f"{JOBS}/{job}/output?stream=both&follow=1&offset={len(got['stdout'])}"
                                                            f"&stderr_offset={len(got['stderr'])}", headers=form)
                    stream = events(response, form)
            self.assertGreater(count, 3)
            self.assertEqual(got, want)
            self.assertEqual(end["exit_code"], 0)


class Disconnect(ExecTest):
    def begin(self, form, **fields):
        """Sends a request and gives its connection and the running job."""
        body = json.dumps({"command": "echo $$; sleep 1; echo end", "tag": "left", **fields}).encode()
        one = socket.create_connection(("127.0.0.1", self.port), WAIT_S)
        self.addCleanup(one.close)
        accept = f"Accept: {form['Accept']}\r\n" if form else ""
        one.sendall(f"POST {EXEC} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n{accept}"
                    f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
        job = wait_until(lambda: self.jobs("left"), "it runs")[-1]["job"]
        wait_until(lambda: self.get(f"{JOBS}/{job}/output").body, "it has written")
        return one, job

    def test_it_goes_on(self):
        for form in (None, SSE):
            one, job = self.begin(form)
            one.close()
            ended = self.wait(job)
            self.assertEqual((ended["outcome"], ended["exit_code"], ended["tag"]), ("exited", 0, "left"))
            self.assertTrue(self.get(f"{JOBS}/{job}/output").body.endswith(b"\nend\n"))
            self.assertEqual(self.call("DELETE", f"{JOBS}/{job}").json["outcome"], "exited")

    def test_it_is_killed_when_that_is_wanted(self):
        for form in (None, NDJSON):
            one, job = self.begin(form, command="echo $$; sleep 300", kill_on_disconnect=True)
            pid = int(self.get(f"{JOBS}/{job}/output").body)
            one.close()
            self.assertEqual(self.wait(job)["outcome"], "killed")
            self.assertFalse(is_alive(pid))

    def test_answer_that_nobody_reads_is_not_lost(self):
        one, job = self.begin(None, command="echo on; head -c 8000000 /dev/zero", max_output=8 << 20)
        one.recv(1000)  # of many times more, with its escapes
        one.close()
        self.assertEqual(self.wait(job)["stdout_bytes"], 8000003)
        self.assertEqual(len(self.get(f"{JOBS}/{job}/output").body), 8000003)


class Records(ExecTest):
    def test_outcomes_outlive_the_output(self):
        first = self.start(command="echo x; exit 7", tag="first")
        self.wait(first)
        killed = self.start(argv=["sleep", "300"])
        self.assertEqual(self.call("DELETE", f"{JOBS}/{killed}").json["outcome"], "killed")
        for _ in range(140):
            self.wait(self.start(argv=["true"]))
        for _ in range(2):
            for answer in (self.get(f"{JOBS}/{first}"), self.post(f"{JOBS}/{first}/wait", {"timeout_s": 0}),
                           self.call("DELETE", f"{JOBS}/{first}")):
                self.assertEqual(answer.status, 200)
                self.assertEqual({k: answer.json[k] for k in ("job", "outcome", "exit_code", "tag", "command", "stdout_bytes")},
                                 {"job": first, "outcome": "exited", "exit_code": 7, "tag": "first", "command": "echo x; exit 7",
                                  "stdout_bytes": 2})
        self.assertEqual(self.get(f"{JOBS}/{killed}").json["signal"], "SIGTERM")
        self.assertNotIn(first, [j["job"] for j in self.jobs()])
        answer = self.get(f"{JOBS}/{first}/output")
        self.assertEqual((answer.status, answer.body, answer.headers["X-Sandpool-Offset"]), (200, b"", "2"))
        _, response = self.open("GET", f"{JOBS}/{first}/output?stream=both&follow=1", headers=NDJSON)
        got = list(events(response, NDJSON))
        self.assertEqual(got[0], ("gap", {"stream": "stdout", "from": 0, "to": 2}))
        self.assertEqual((got[1][0], got[1][1]["exit_code"]), ("end", 7))
        for what in ("stdin", "signal", "resize"):
            answer = self.post(f"{JOBS}/{first}/{what}")
            self.assertEqual((answer.status, answer.json["error"]["code"]), (409, "job_ended"))

    def test_long_commands_are_cut(self):
        job = self.start(command=": " + "x" * 100000, tag="t" * 128)
        self.assertEqual(len(self.wait(job)["command"]), 4096)
        for _ in range(130):
            self.wait(self.start(argv=["true"]))
        view = self.get(f"{JOBS}/{job}").json
        self.assertEqual((len(view["command"]), view["tag"]), (64, "t" * 128))

    def test_probe_and_limit_of_waiting(self):
        job = self.start(command="sleep 300")
        self.assertEqual(self.wait(job, 0)["outcome"], "running")
        self.assertEqual(self.wait(job, 0.1)["outcome"], "running")


class Leftovers(ExecTest):
    def run_many(self, count, connections, target, body, check):
        failures = []

        def run():
            connection = self.connect()
            for _ in range(count // connections):
                connection.request("POST", target, body, {"Authorization": f"Bearer {TOKEN}"})
                answer = connection.getresponse().read()
                if check not in answer:
                    failures.append(answer)
                    break
            connection.close()

        threads = [threading.Thread(target=run) for _ in range(connections)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(8 * WAIT_S)
            self.assertFalse(thread.is_alive())
        self.assertEqual(failures, [])

    def test_thousands_of_commands_leave_nothing(self):
        silent = [(form, self.open("POST", EXEC, {"command": "sleep 20"}, form)[1]) for form in (SSE, NDJSON)]
        count = 400 if IS_SANITIZED else 5000
        body = b'{"argv":["/bin/true"],"tag":"short"}'
        self.run_many(400, 4, EXEC, body, b'"exit_code":0')
        wait_until(lambda: self.jobs("short") == [], "all are forgotten")
        descriptors, memory = self.descriptors(), self.memory_kb()
        started = time.monotonic()
        self.run_many(count, 1, EXEC, body, b'"exit_code":0')
        print(f"{(time.monotonic() - started) / count * 1e6:.0f} us each")
        self.assertEqual(self.jobs("short"), [])
        self.assertEqual(self.get(f"{JOBS}/300").status, 404)
        wait_until(lambda: len(self.children()) <= 2, "all are reaped")
        wait_until(lambda: self.descriptors() <= descriptors, "descriptors are closed")
        self.assertEqual(os.listdir(self.spill), [])
        if not IS_SANITIZED:
            self.assertLess(self.memory_kb() - memory, 384)
        for form, response in silent:  # they had nothing to say meanwhile
            names = [name for name, _ in events(response, form)]
            self.assertEqual((names[0], set(names[1:-1]), names[-1]), ("start", {"keepalive"}, "end"))


if __name__ == "__main__":
    unittest.TestCase.maxDiff = 2000
    main()
