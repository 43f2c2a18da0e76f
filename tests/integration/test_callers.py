"""What one caller can do to another: connections, places in the queue, limits of boxes."""

import concurrent.futures
import contextlib
import json
import os
import signal
import socket
import unittest

from fixtures import SLOW, TestCase, free_port, main, wait_until

ALICE = "alice-token-0123456789"
BOB = "bob-token-0123456789ab"


@contextlib.contextmanager
def acting_as(uid):
    """The kernel shows the daemon who connects by the uid at that moment."""
    os.setegid(uid)
    os.seteuid(uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


def dial(address, uid=0):
    with acting_as(uid):
        if isinstance(address, int):
            return socket.create_connection(("127.0.0.1", address), timeout=20 * SLOW)
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.settimeout(20 * SLOW)
        sock.connect(str(address))
        return sock


def request(sock, method="GET", target="/v1/pool", body=None, token=None):
    """Status and text of the answer; 0 when the connection was closed."""
    data = json.dumps(body).encode() if body is not None else b""
    head = f"{method} {target} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(data)}\r\n"
    if token is not None:
        head += f"Authorization: Bearer {token}\r\n"
    text = b""
    try:
        sock.sendall(head.encode() + b"\r\n" + data)
        while b"\r\n\r\n" not in text:
            got = sock.recv(65536)
            if not got:
                break
            text += got
        head, _, rest = text.partition(b"\r\n\r\n")
        for line in head.lower().split(b"\r\n"):
            if line.startswith(b"content-length:"):
                while len(rest) < int(line.split(b":")[1]):
                    rest += sock.recv(65536)
    except (BrokenPipeError, ConnectionResetError):
        pass
    if not text:
        return 0, ""
    return int(text.split()[1]), (text if b"\r\n\r\n" not in text else rest).decode()


@unittest.skipUnless(os.geteuid() == 0, "needs several user ids")
class CallersCase(TestCase):
    def setUp(self):
        super().setUp()
        os.chmod(self.directory, 0o755)
        self.socks = []
        self.addCleanup(lambda: [s.close() for s in self.socks])

    def start(self, profile=None, **config):
        self.port = free_port()
        config.setdefault("socket", {"mode": "0666"})
        config.setdefault("tcp", {})
        config["tcp"] = {"listen": f"127.0.0.1:{self.port}",
                         "tokens": {"alice": ALICE, "bob": BOB}, **config["tcp"]}
        return self.daemon({"warm": {"min": 0, "max": 0}, **(profile or {})}, **config)

    def dial(self, address, uid=0):
        self.socks.append(dial(address, uid))
        return self.socks[-1]

    def ask(self, address, uid=0, token=None, **kw):
        sock = self.dial(address, uid)
        try:
            return request(sock, token=token, **kw)
        finally:
            sock.close()


class Connections(CallersCase):
    def test_strangers_on_tcp_keep_nobody_out(self):
        daemon = self.start(http={"max_connections": 40}, tcp={"max_unproven": 8})
        strangers = [self.dial(self.port) for _ in range(100)]
        wait_until(lambda: self.ask(daemon.socket)[0] == 200, "root on the socket", 5 * SLOW)
        self.assertEqual(self.ask(daemon.socket, uid=12345)[0], 200)
        self.assertEqual(self.ask(self.port, token=ALICE)[0], 200)
        # The oldest went; who has proven itself stays, whoever comes.
        strangers[0].settimeout(20 * SLOW)
        self.assertEqual(strangers[0].recv(100), b"")
        known = self.dial(self.port)
        self.assertEqual(request(known, token=ALICE)[0], 200)
        more = [self.dial(self.port) for _ in range(20)]
        self.assertEqual(request(more[-1], target="/healthz")[0], 200)
        self.assertEqual(request(known, token=ALICE)[0], 200)

    def test_who_sent_its_token_is_not_pushed_out_unread(self):
        for limits in ({"tcp": {"max_unproven": 8}}, {"http": {"max_connections": 40}}):
            daemon = self.start(**limits)
            os.kill(daemon.process.pid, signal.SIGSTOP)  # so that all come in one turn of its loop
            try:
                known = self.dial(self.port)
                known.sendall(f"GET /v1/pool HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {ALICE}\r\n\r\n".encode())
                for _ in range(100):
                    self.dial(self.port)
            finally:
                os.kill(daemon.process.pid, signal.SIGCONT)
            self.assertTrue(known.recv(100).startswith(b"HTTP/1.1 200"))
            daemon.stop()

    def test_strangers_on_tcp_have_little_time(self):
        self.start(http={"header_timeout_s": 1, "idle_timeout_s": 300})
        stranger = self.dial(self.port)
        known = self.dial(self.port)
        self.assertEqual(request(known, token=ALICE)[0], 200)
        self.assertEqual(stranger.recv(100), b"")  # or the time of the socket is over, long before that of idle ones
        self.assertEqual(request(known, token=ALICE)[0], 200)

    def test_one_uid_keeps_no_other_out(self):
        daemon = self.start(http={"max_connections": 40})
        held = [self.dial(daemon.socket, uid=12345) for _ in range(60)]
        refused = [text for status, text in map(request, held) if status == 503]
        self.assertGreaterEqual(len(refused), 20)
        self.assertIn("share", refused[0])
        self.assertLess(len(refused), 30)
        self.assertEqual(self.ask(daemon.socket, uid=12346)[0], 200)
        self.assertEqual(self.ask(daemon.socket)[0], 200)
        self.assertEqual(self.ask(self.port, token=ALICE)[0], 200)

    def test_one_token_keeps_no_other_out(self):
        daemon = self.start(http={"max_connections": 40}, tcp={"max_unproven": 4})
        answers = []
        for _ in range(60):
            answers.append(request(self.dial(self.port), token=ALICE))
        self.assertEqual(answers[0][0], 200)
        self.assertEqual(answers[-1][0], 503)
        self.assertEqual(self.ask(self.port, token=BOB)[0], 200)
        self.assertEqual(self.ask(daemon.socket, uid=12345)[0], 200)
        self.assertEqual(self.ask(daemon.socket)[0], 200)

    def test_operators_get_in_when_all_is_taken(self):
        daemon = self.start(http={"max_connections": 4, "share_percent": 100})
        for uid in (1, 2, 3, 4):
            self.assertEqual(request(self.dial(daemon.socket, uid=uid))[0], 200)
        status, text = self.ask(daemon.socket, uid=5)
        self.assertEqual(status, 503)
        self.assertIn("too_many_connections", text)
        for _ in range(3):
            self.assertEqual(request(self.dial(daemon.socket))[0], 200)
        for sock in self.socks:
            sock.close()
        wait_until(lambda: self.ask(daemon.socket, uid=5)[0] == 200, "there is room again")


class Turns(CallersCase):
    def test_requests_sent_ahead_keep_nobody_waiting(self):
        machine = self.sim()
        daemon = self.start(profiles={"default": {"backend": "sim", "warm": {"min": 0, "max": 0},
                                                  "sim": {"socket": str(machine.socket)}}})
        connections, ahead = 300, 20
        greedy = [self.dial(daemon.socket, uid=12345) for _ in range(connections)]
        other = self.dial(daemon.socket, uid=12346)
        self.assertEqual(request(other)[0], 200)
        os.kill(daemon.process.pid, signal.SIGSTOP)  # so that all of it is there before the first is served
        try:
            for sock in greedy:
                sock.sendall(b"GET /v1/pool HTTP/1.1\r\nHost: x\r\n\r\n" * ahead)
            body = b'{"thread_id": "t", "wait_ms": 20000}'
            other.sendall(b"POST /v1/acquire HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        finally:
            os.kill(daemon.process.pid, signal.SIGCONT)
        self.assertEqual(other.recv(100)[:13], b"HTTP/1.1 200 ")
        # Each answer shows whether the other's request had been served when it was made.
        before = sum(self.count_before(sock, ahead) for sock in greedy)
        self.assertLess(before, connections * ahead / 20)

    def count_before(self, sock, ahead):
        text = b""
        while text.count(b"HTTP/1.1 200 ") < ahead or not text.endswith(b"}"):
            got = sock.recv(1 << 20)
            self.assertTrue(got, text[-200:])
            text += got
        return text.count(b'"total":0,')


class Limits(CallersCase):
    """What counts is the profile of the box that is changed."""

    def begin(self, create_ms=0):
        self.machine = self.sim()
        profile = {"backend": "sim", "warm": {"min": 0, "max": 0},
                   "sim": {"socket": str(self.machine.socket), "create_ms": create_ms}}
        self.server = self.start(profiles={
            "default": {**profile, "limits": {"memory": "512M", "pids": 100}},
            "small": {**profile, "limits": {"memory": "64M", "pids": 10}},
            "large": {**profile, "limits": {"memory": "1G", "pids": 1000}}})

    def acquire(self, uid=12345, sock=None, **body):
        sock = sock or self.dial(self.server.socket, uid)
        status, text = request(sock, "POST", "/v1/acquire", {"wait_ms": 20000, **body})
        return status, json.loads(text)

    def limits(self, lease):
        return [u.get("limits") for u in self.machine.boxes()[lease["box_id"]].get("updates", [])]

    def test_of_the_box_the_thread_has(self):
        self.begin()
        status, lease = self.acquire(thread_id="t", profile="small")
        self.assertEqual(status, 200, lease)
        for limits in ({"memory": "65M"}, {"memory": "512M"}, {"pids": 11}):
            status, answer = self.acquire(thread_id="t", limits=limits)
            self.assertEqual((status, answer.get("error", {}).get("code")), (403, "forbidden"), answer)
            self.assertIn("'small'", answer["error"]["message"])
        self.assertEqual(self.limits(lease), [])
        self.assertEqual(self.acquire(thread_id="t", limits={"memory": "64M"})[0], 200)
        self.assertEqual(self.acquire(uid=0, thread_id="t", limits={"memory": "256M"})[0], 200)
        # More than `default` gives, but not more than its own.
        self.assertEqual(self.acquire(thread_id="u", profile="large")[0], 200)
        self.assertEqual(self.acquire(thread_id="u", limits={"memory": "1G"})[0], 200)
        self.assertEqual(self.acquire(thread_id="u", limits={"memory": "2G"})[0], 403)

    def test_a_foreign_thread_is_called_so(self):
        self.begin()
        self.assertEqual(self.acquire(uid=12345, thread_id="t")[0], 200)
        status, answer = self.acquire(uid=12346, thread_id="t")
        self.assertEqual(status, 403, answer)
        self.assertIn("belongs to another caller", answer["error"]["message"])

    def test_of_the_box_the_thread_is_about_to_get(self):
        self.begin(create_ms=300)
        first = self.dial(self.server.socket, 12345)
        second = self.dial(self.server.socket, 12345)
        client = self.client(self.server)
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            lease = pool.submit(self.acquire, sock=first, thread_id="t", profile="small")
            wait_until(lambda: client.get("/v1/pool").json["waiting"] == 1, "it waits")
            answer = pool.submit(self.acquire, sock=second, thread_id="t",
                                 limits={"memory": "512M"})
            status, lease = lease.result(30)
            self.assertEqual(status, 200, lease)
            self.assertEqual(answer.result(30)[0], 403, answer.result(30))
        self.assertEqual(self.limits(lease), [])


class Reloads(CallersCase):
    """Who waits for a box has the rights of the configuration as it is now."""

    def begin(self):
        limits = {"memory": "512M"}
        profile = {"backend": "sim", "warm": {"min": 0, "max": 0}, "limits": limits}
        provisioner = {"enabled": True, "listen": f"127.0.0.1:{free_port()}", "api_key": ALICE}
        self.server = self.start(profiles={"default": profile}, operator_uids=[12345],
                                 tcp={"operators": ["alice"]}, provisioner=provisioner)
        self.settings = json.loads(self.server.config.read_text())
        self.own = self.client(self.server)
        self.assertOk(self.own.post("/v1/pool/pause"))
        self.waiting = {}
        self.pool = concurrent.futures.ThreadPoolExecutor(8)
        self.addCleanup(self.pool.shutdown)

    def wait(self, name, address, uid=0, token=None, **body):
        sock = self.dial(address, uid)
        self.waiting[name] = self.pool.submit(request, sock, "POST", "/v1/acquire",
                                              {"thread_id": name, "wait_ms": 60000, **body}, token)

    def reload(self):
        wait_until(lambda: self.own.get("/v1/pool").json["waiting"] == len(self.waiting), "all of them wait")
        self.server.config.write_text(json.dumps(self.settings))
        self.assertOk(self.own.post("/v1/pool/reload"))

    def result(self, name):
        status, text = self.waiting.pop(name).result(20 * SLOW)
        return status, json.loads(text).get("error", {}).get("code")

    def test_rights_that_are_taken_away(self):
        self.begin()
        large = {"limits": {"memory": "2G"}}
        self.wait("operator", self.server.socket, uid=12345, **large)
        self.wait("root", self.server.socket, **large)
        self.wait("other", self.server.socket, uid=12346, limits={"memory": "512M"})
        self.wait("alice", self.port, token=ALICE, **large)
        self.wait("bob", self.port, token=BOB)
        self.settings["operator_uids"] = []
        self.settings["tcp"]["operators"] = []
        self.reload()
        self.assertEqual(self.result("operator"), (403, "forbidden"))
        self.assertEqual(self.result("alice"), (403, "forbidden"))
        del self.settings["tcp"]["tokens"]["bob"]
        self.settings["profiles"]["default"]["limits"]["memory"] = "256M"
        self.reload()
        self.assertEqual(self.result("bob"), (401, "unauthorized"))
        self.assertEqual(self.result("other"), (403, "forbidden"))
        self.wait("late", self.server.socket, uid=12346, limits={"memory": "256M"})
        self.reload()
        self.assertOk(self.own.post("/v1/pool/resume"))
        self.assertEqual([self.result(name) for name in ("root", "late")], [(200, None)] * 2)

    def test_a_key_that_is_taken_away(self):
        self.begin()
        port = int(self.settings["provisioner"]["listen"].split(":")[1])
        sock = self.dial(port)
        sock.sendall(f"POST /api/sandboxes HTTP/1.1\r\nHost: x\r\nX-API-Key: {ALICE}\r\nContent-Length: 36\r\n\r\n"
                     '{"sandbox_id":"a", "thread_id": "t"}'.encode())
        wait_until(lambda: self.own.get("/v1/pool").json["waiting"] == 1, "it waits")
        self.settings["provisioner"]["api_key"] = BOB
        self.server.config.write_text(json.dumps(self.settings))
        self.assertOk(self.own.post("/v1/pool/reload"))
        self.assertTrue(sock.recv(4096).startswith(b"HTTP/1.1 401"))
        self.assertEqual(self.own.get("/v1/pool").json["waiting"], 0)


if __name__ == "__main__":
    main()
