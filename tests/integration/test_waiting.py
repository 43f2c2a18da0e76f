"""Whoever waits is shown what for: the place in line and what is in use, or what is being made."""

import fcntl
import http.client
import json
import os
import pty
import select
import struct
import subprocess
import termios
import threading

from fixtures import BIN, WAIT_S, TestCase, free_port, main, wait_until


class Waiting(TestCase):
    def acquire(self, daemon, *args):
        return self.command(daemon, "acquire", *args)

    def command(self, daemon, *args):
        child = subprocess.Popen([BIN / "sandpool", "--socket", daemon.socket, *args], stdin=subprocess.DEVNULL,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(child.stdout.close)
        self.addCleanup(child.stderr.close)
        self.addCleanup(lambda: child.poll() is None and child.kill())
        return child

    def test_in_line(self):
        daemon = self.daemon({"warm": {"min": 0, "max": 0}}, pool={"max_boxes": 1, "max_waiters": 8})
        client = self.client(daemon)
        held = self.assertOk(client.acquire("holder"))
        first = self.acquire(daemon, "one", "--wait", "60s", "--verbose")
        wait_until(lambda: client.get("/v1/waiting?thread_id=one").json["waiting"], "it is in line")
        second = self.acquire(daemon, "two", "--wait", "60s", "--json", "--verbose")
        answer = wait_until(lambda: self.second(client), "the other one, too")
        self.assertEqual((answer["place"], answer["of"], answer["held"]), (2, 2, 1))
        self.assertIn("all 1 boxes are in use: 1 leased", answer["reason"])
        line = second.stderr.readline()
        self.assertIn("sandpool: waiting: place 2 of 2, all 1 boxes are in use", line)
        self.assertEqual(self.assertOk(client.get("/v1/waiting?thread_id=nobody"))["waiting"], False)
        self.assertOk(client.release(held["sandbox_id"], destroy=True))
        out, _ = first.communicate(timeout=WAIT_S)
        self.assertEqual(first.returncode, 0)
        self.assertNotIn("waiting", out)
        self.assertEqual(client.delete("/v1/sandboxes/thread:default/one").status, 200)
        out, _ = second.communicate(timeout=WAIT_S)
        self.assertEqual((second.returncode, out[:1], out.count("\n")), (0, "{", 1), "one document and nothing else")

    def test_on_a_terminal(self):
        """One line, written again every second, and gone when the box is there."""
        daemon = self.daemon({"warm": {"min": 0, "max": 0}}, pool={"max_boxes": 1, "max_waiters": 8})
        client = self.client(daemon)
        held = self.assertOk(client.acquire("holder"))
        here, there = pty.openpty()
        self.addCleanup(os.close, here)
        fcntl.ioctl(there, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 60, 0, 0))
        child = subprocess.Popen([BIN / "sandpool", "--socket", daemon.socket, "acquire", "one", "--wait", "60s", "--json"],
                                 stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=there)
        os.close(there)
        self.addCleanup(child.stdout.close)
        self.addCleanup(lambda: child.poll() is None and child.kill())
        seen = b""
        while seen.count(b"waiting ") < 2:
            self.assertTrue(select.select([here], [], [], WAIT_S)[0], seen)
            seen += os.read(here, 4096)
        self.assertOk(client.release(held["sandbox_id"], destroy=True))
        out, _ = child.communicate(timeout=WAIT_S)
        self.assertEqual((child.returncode, out[:1], out.count(b"\n")), (0, b"{", 1), "one document and nothing else")
        try:
            while True:
                seen += os.read(here, 4096)
        except OSError:
            pass  # nobody has it open any more
        lines = seen.split(b"\r\x1b[K")
        self.assertEqual((lines[0], lines[-1]), (b"", b""))
        for line in lines[1:-1]:
            self.assertRegex(line, rb"^sandpool: waiting \d+ s: (place 1 of 1, all 1 boxes|a box is being made|all 1)")
            self.assertLess(len(line), 60)

    def test_in_line_without_a_thread(self):
        """By the caller's own name of its request, which nobody else can ask for."""
        daemon = self.daemon({"warm": {"min": 0, "max": 0}}, pool={"max_boxes": 1, "max_waiters": 8})
        client = self.client(daemon)
        held = self.assertOk(client.acquire("holder"))
        first = self.acquire(daemon, "--wait", "60s", "--verbose")
        self.assertIn("sandpool: waiting: place 1 of 1, all 1 boxes are in use", first.stderr.readline())
        self.assertFalse(client.get("/v1/waiting").json["waiting"])
        named = self.client(daemon)
        worker = threading.Thread(target=lambda: named.post("/v1/acquire", {"request_id": "mine", "wait_ms": 60000}))
        worker.start()
        answer = wait_until(lambda: self.named(client, "mine"), "it is in line")
        self.assertEqual((answer["place"], answer["of"], answer["held"]), (2, 2, 1))
        self.assertFalse(client.get("/v1/waiting?request_id=others").json["waiting"])
        self.assertCode(client.post("/v1/acquire", {"request_id": "a b"}), 422, "invalid_field")
        self.assertOk(client.release(held["sandbox_id"], destroy=True))
        out, _ = first.communicate(timeout=WAIT_S)
        self.assertEqual(first.returncode, 0, out)
        client.post("/v1/pool/drain")
        worker.join(WAIT_S)
        named.close()
        for _ in range(20):
            self.assertFalse(client.get("/v1/waiting?request_id=mine").json["waiting"])

    def test_the_same_name_of_two_callers(self):
        """Each is shown its own place."""
        port, tokens = free_port(), {"alice": "a" * 32, "bob": "b" * 32}
        daemon = self.daemon({"warm": {"min": 0, "max": 0}}, pool={"max_boxes": 1, "max_waiters": 8},
                             tcp={"listen": f"127.0.0.1:{port}", "tokens": tokens})
        client = self.client(daemon)
        self.assertOk(client.acquire("holder"))

        def call(token, method, target, body=None):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2 * WAIT_S)
            try:
                connection.request(method, target, body, {"Authorization": f"Bearer {token}"})
                return json.loads(connection.getresponse().read())
            finally:
                connection.close()

        workers = []
        for place, token in enumerate(tokens.values(), 1):
            workers.append(threading.Thread(
                target=call, args=(token, "POST", "/v1/acquire", '{"request_id": "mine", "wait_ms": 60000}')))
            workers[-1].start()
            wait_until(lambda: client.get("/v1/pool").json["waiting"] == place, "it is in line")
        shown = [call(token, "GET", "/v1/waiting?request_id=mine") for token in tokens.values()]
        self.assertEqual([(answer["waiting"], answer.get("place")) for answer in shown], [(True, 1), (True, 2)])
        self.assertFalse(client.get("/v1/waiting?request_id=mine").json["waiting"])  # it is of neither
        client.post("/v1/pool/drain")
        for worker in workers:
            worker.join(WAIT_S)

    def named(self, client, name):
        answer = client.get(f"/v1/waiting?request_id={name}").json
        return answer if answer["waiting"] else None

    def second(self, client):
        answer = client.get("/v1/waiting?thread_id=two").json
        return answer if answer["waiting"] else None

    def test_a_box_that_is_being_made(self):
        daemon = self.daemon({"warm": {"min": 0, "max": 0}, "sim": {"create_ms": 60000}})
        child = self.acquire(daemon, "slow", "--wait", "60s", "--verbose")
        self.assertIn("a box is being made", child.stderr.readline())
        child.kill()
        child.wait(WAIT_S)

    def test_a_run_that_waits(self):
        daemon = self.daemon({"warm": {"min": 0, "max": 0}, "sim": {"create_ms": 60000}})
        child = self.command(daemon, "run", "--verbose", "--thread", "slow", "--", "true")
        self.assertIn("a box is being made", child.stderr.readline())
        child.terminate()
        self.assertEqual(child.wait(WAIT_S), 143)

    def test_nothing_is_said_to_programs(self):
        daemon = self.daemon({"warm": {"min": 0, "max": 0}, "sim": {"create_ms": 1500}})
        child = self.acquire(daemon, "quiet")
        _, err = child.communicate(timeout=WAIT_S)
        self.assertEqual((child.returncode, err), (0, ""))


if __name__ == "__main__":
    main()
