"""Whoever has seen the token or the address of a box keeps it: no attack makes somebody else its owner.

Each attack learns of a box without taking its reply; then another user acquires until the pool is
exhausted, and must not get anything that was seen."""

import os
import re
import select
import socket

from fixtures import WAIT_S, Client, free_port, main, wait_until
from hostile import HangingDisk, Hostile, as_nobody, dial, post
from provisioner import KEY, ProvisionerCase

TCP = {"thief": "t" * 32, "victim": "v" * 32}


def bearer(name):
    return f"Authorization: Bearer {TCP[name]}\r\n"


def peek(sock):
    """All of one answer, without taking a byte of it."""
    while True:
        if not select.select([sock], [], [], WAIT_S)[0]:
            raise AssertionError("no answer")
        got = sock.recv(65536, socket.MSG_PEEK)
        head, _, body = got.partition(b"\r\n\r\n")
        length = re.search(rb"(?i)content-length: (\d+)", head)
        if length and len(body) >= int(length.group(1)):
            return got


def secrets(text, names="token|sandbox_url"):
    return set(re.findall(rf'"(?:{names})":"([^"]+)"', text))


def vanish_unread(sock):
    seen = peek(sock).decode()
    sock.close()
    return seen


def vanish_before_the_last_byte(sock):
    whole = peek(sock)
    got = sock.recv(len(whole) - 1)
    sock.close()
    return got.decode()


ENDS = (vanish_unread, vanish_before_the_last_byte)


class SeenCase(Hostile):
    def serve(self, **config):
        daemon = self.daemon({"warm": {"min": 4, "max": 4}, "park_timeout_s": 600},
                             sim=self.sim(), socket={"mode": "0666"}, pool={"max_boxes": 8},
                             **config)
        os.chmod(self.directory, 0o755)
        self.wait_blank(self.client(daemon), 4)
        return daemon

    def acquire_all(self, client, at_least=8):
        """Everything another user can get; boxes parked for somebody are evicted for it."""
        texts = []
        while True:
            wait_ms = int(WAIT_S * 1000) if len(texts) < at_least else 0
            answer = client.acquire(f"v{len(texts)}", user_id="victim", wait_ms=wait_ms)
            if answer.status != 200:
                self.assertCode(answer, 429, "pool_exhausted")
                self.assertGreaterEqual(len(texts), at_least)
                return texts
            texts.append(answer.text)

    def assertUnseen(self, seen, texts, names="token|sandbox_url"):
        for text in texts:
            self.assertEqual(secrets(seen, names) & secrets(text, names), set())

    def settled(self, daemon):
        """What was undone is undone."""
        client = self.client(daemon)
        wait_until(lambda: client.get("/v1/pool").json["by_state"].get("leased", 0) == 0, "undone")
        return client


class Unix(SeenCase):
    def attack(self, work):
        daemon = self.serve()
        seen = as_nobody(lambda: work(daemon))
        self.assertIsInstance(seen, str, seen)
        self.assertTrue(secrets(seen))
        self.assertUnseen(seen, self.acquire_all(self.settled(daemon)))

    def test_replies_that_are_not_taken(self):
        def work(daemon):
            seen = ""
            for i, end in enumerate(ENDS * 2):
                sock = dial(daemon.socket)
                sock.sendall(post("/v1/acquire", {"thread_id": f"t{i}"} if i < 2 else {}))
                seen += end(sock)
            return seen

        self.attack(work)

    def test_list_while_the_reply_is_not_taken(self):
        def work(daemon):
            client = Client(daemon.socket)
            sock = dial(daemon.socket)
            sock.sendall(post("/v1/acquire", {"thread_id": "t"}))
            wait_until(lambda: '"token"' in client.get("/v1/sandboxes").text, "it is shown")
            seen = client.get("/v1/sandboxes").text
            sock.close()
            client.close()
            return seen

        self.attack(work)

    def test_the_owner_comes_back(self):
        daemon = self.serve()
        sock = dial(daemon.socket)
        sock.sendall(post("/v1/acquire", {"thread_id": "t"}))
        seen = vanish_unread(sock)
        client = self.settled(daemon)
        lease = self.assertOk(client.acquire("t"))
        self.assertEqual(lease["source"], "parked")
        self.assertIn(lease["token"], seen)

    def test_nothing_is_shown_before_the_commit(self):
        """A box whose lease is not committed can be blank again, so no view shows more than that it is
        there."""
        daemon = self.serve()
        client = self.client(daemon)
        with HangingDisk(daemon.process.pid):
            sock = dial(daemon.socket)
            sock.sendall(post("/v1/acquire", {"thread_id": "t"}))
            mine = wait_until(lambda: [b for b in client.get("/v1/sandboxes").json["sandboxes"]
                                       if b["thread_id"] == "t"], "it is being leased")[0]
            for box in (mine, client.get("/v1/sandboxes/" + mine["sandbox_id"]).json):
                self.assertIsNone(box["sandbox_url"])
                self.assertNotIn("token", box)
            sock.close()
        wait_until(lambda: client.get("/v1/sandboxes/box:" + mine["box_id"]).json.get("state", "gone") in
                   ("blank", "gone"), "it is blank again, or gone because another one is made in its place")
        for box in client.get("/v1/sandboxes?state=blank").json["sandboxes"]:
            self.assertIsNone(box["sandbox_url"])
            self.assertNotIn("token", box)


class Tcp(SeenCase):
    """TCP does not say what a peer has read, so a lease may also stay with the one who has seen it."""

    def attack(self, work):
        port = free_port()
        daemon = self.serve(tcp={"listen": f"127.0.0.1:{port}", "tokens": TCP})
        seen = work(port, daemon)
        self.assertUnseen(seen, self.acquire_all(self.client(daemon), at_least=6))

    def dial(self, port):
        sock = socket.create_connection(("127.0.0.1", port), timeout=WAIT_S)
        self.addCleanup(sock.close)
        return sock

    def list(self, port):
        sock = self.dial(port)
        sock.sendall(f"GET /v1/sandboxes HTTP/1.1\r\nHost: x\r\n{bearer('thief')}\r\n".encode())
        return peek(sock).decode()

    def test_replies_that_are_not_taken(self):
        def work(port, _):
            seen = ""
            for i, end in enumerate(ENDS):
                sock = self.dial(port)
                sock.sendall(post("/v1/acquire", {"thread_id": f"t{i}"}, bearer("thief")))
                seen += end(sock)
            return seen

        self.attack(work)

    def test_list_while_the_reply_is_not_taken(self):
        def work(port, _):
            sock = self.dial(port)
            sock.sendall(post("/v1/acquire", {"thread_id": "t"}, bearer("thief")))
            peek(sock)
            seen = self.list(port)
            self.assertTrue(secrets(seen))
            sock.close()
            return seen

        self.attack(work)

    def test_list_before_the_commit(self):
        def work(port, daemon):
            client = self.client(daemon)
            with HangingDisk(daemon.process.pid):
                sock = self.dial(port)
                sock.sendall(post("/v1/acquire", {"thread_id": "t"}, bearer("thief")))
                wait_until(lambda: [b for b in client.get("/v1/sandboxes").json["sandboxes"]
                                    if b["thread_id"] == "t"], "it is being leased")
                seen = self.list(port)
                self.assertIn('"sandboxes":[]', seen)  # operators see it, the caller not yet
                sock.close()
            self.settled(daemon)
            return seen

        self.attack(work)


class Provisioner(ProvisionerCase, SeenCase):
    def test_replies_that_are_not_taken(self):
        daemon = ProvisionerCase.serve(
            self, profile={"warm": {"min": 4, "max": 4}, "park_timeout_s": 600}, sim=self.sim(),
            pool={"max_boxes": 8})
        client = self.client(daemon)
        self.wait_blank(client, 4)
        seen = ""
        for i, end in enumerate(ENDS):
            sock = socket.create_connection(("127.0.0.1", self.port), timeout=WAIT_S)
            sock.sendall(post("/api/sandboxes", {"sandbox_id": f"a{i}"}, f"X-API-Key: {KEY}\r\n"))
            seen += end(sock)
            self.caller().delete(f"a{i}")
        # its addresses are made from tokens, so it is the boxes that must not come twice
        self.assertEqual(len(secrets(seen, "container_id")), len(ENDS))
        self.assertUnseen(seen, self.acquire_all(client), "container_id|box_id")

    def test_nothing_is_shown_before_the_commit(self):
        daemon = ProvisionerCase.serve(self, profile={"warm": {"min": 1, "max": 1}}, sim=self.sim())
        self.wait_blank(self.client(daemon), 1)
        caller = self.caller()
        with HangingDisk(daemon.process.pid):
            thread = self.meanwhile(lambda c: c.create("a"))
            box = wait_until(lambda: caller.get("a").json.get("container_id") and caller.get("a").json,
                             "it is being leased")
            listed = caller.call("GET", "/api/sandboxes").json["sandboxes"]
        thread.join(WAIT_S)
        for shown in (box, *listed):
            self.assertEqual((shown["sandbox_url"], shown["status"]), ("", "Pending"))
        self.assertIn("/s/a/", caller.get("a").json["sandbox_url"])


if __name__ == "__main__":
    main()
