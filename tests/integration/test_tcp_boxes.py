"""Callers on TCP reach their boxes through the daemon: the address they are given is one that they can use, needs no token
of the box, and leads nowhere else."""

import http.client
import json
import threading
import urllib.parse

from fixtures import WAIT_S, TestCase, free_port, main, wait_until

ALICE = "alice-token-of-32-characters-xxxx"
BOB = "bob-token-of-more-than-16-chars-x"
OPS = "operator-token-of-16-chars-xxxxxx"


class TcpBoxes(TestCase):
    def serve(self, idle_s=600, **tcp):
        self.port = free_port()
        self.machine = self.sim()
        self.server = self.daemon(
            {"warm": {"min": 0, "max": 0}, "idle_timeout_s": idle_s}, sim=self.machine,
            tcp={"listen": f"127.0.0.1:{self.port}", "tokens": {"alice": ALICE, "bob": BOB, "ops": OPS},
                 "operators": ["ops"], **tcp})

    def call(self, method, target, token=None, body=None, headers=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_S)
        self.addCleanup(connection.close)
        all_headers = {"Authorization": f"Bearer {token}"} if token else {}
        connection.request(method, target, json.dumps(body) if body is not None else None,
                           {**all_headers, **(headers or {})})
        response = connection.getresponse()
        text = response.read()
        return response.status, json.loads(text) if text[:1] == b"{" else text

    def acquire(self, thread="t", token=ALICE, **fields):
        status, lease = self.call("POST", "/v1/acquire", token, {"thread_id": thread, **fields})
        self.assertEqual(status, 200, lease)
        return lease

    def path_of(self, lease):
        url = urllib.parse.urlsplit(lease["sandbox_url"])
        self.assertEqual((url.hostname, url.port), ("127.0.0.1", self.port))
        return url.path

    def test_the_address_works_without_any_token(self):
        self.serve()
        lease = self.acquire()
        status, who = self.call("GET", self.path_of(lease) + "/whoami")
        self.assertEqual((status, who["sandbox_id"]), (200, lease["sandbox_id"]), "the box's token was added")
        self.assertEqual(self.call("GET", self.path_of(lease) + "/v1/sandbox")[0], 200)
        self.assertEqual(self.call("GET", self.path_of(lease) + "/no/such")[0], 404)
        shown = self.call("GET", f"/v1/sandboxes/{lease['sandbox_id']}", ALICE)[1]
        self.assertEqual(shown["sandbox_url"], lease["sandbox_url"])
        listed = self.call("GET", "/v1/sandboxes", ALICE)[1]["sandboxes"]
        self.assertEqual([b["sandbox_url"] for b in listed], [lease["sandbox_url"]])

    def test_callers_on_the_unix_socket_keep_the_box_s_own(self):
        self.serve()
        lease = self.assertOk(self.client(self.server).acquire("u"))
        self.assertNotIn("/s/", lease["sandbox_url"])
        self.assertNotEqual(urllib.parse.urlsplit(lease["sandbox_url"]).port, self.port)

    def test_with_the_caller_s_own_token(self):
        self.serve()
        lease = self.acquire()
        target = f"/s/{lease['sandbox_id']}/whoami"
        self.assertEqual(self.call("GET", target, ALICE)[0], 200)
        for token in (None, "wrong" * 8, BOB, OPS):
            self.assertEqual(self.call("GET", target, token)[0], 404, token)

    def test_only_the_owner_is_shown_the_capability(self):
        """An operator sees every box, and can use only its own."""
        self.serve()
        lease = self.acquire()
        shown = self.call("GET", f"/v1/sandboxes/{lease['sandbox_id']}", OPS)[1]
        self.assertNotIn("token", shown)
        self.assertEqual(shown["sandbox_url"], f"http://127.0.0.1:{self.port}/s/{lease['sandbox_id']}")
        self.assertEqual(self.call("GET", urllib.parse.urlsplit(shown["sandbox_url"]).path + "/whoami", OPS)[0], 404)

    def test_a_wrong_capability_is_not_told_from_a_box_that_is_not_there(self):
        self.serve()
        lease = self.acquire()
        path = self.path_of(lease)
        answers = [self.call("GET", target) for target in (
            path[:-1] + ("0" if path[-1] != "0" else "1") + "/whoami", f"/s/nobody/{'0' * 32}/whoami",
            f"/s/{lease['sandbox_id']}/whoami", "/s/", "/s/a%2fb/whoami")]
        self.assertEqual([a[0] for a in answers], [404] * 5)
        self.assertEqual(len({json.dumps(a[1]) for a in answers}), 1)

    def test_a_released_box_is_reached_by_nobody_else(self):
        self.serve()
        lease = self.acquire()
        path = self.path_of(lease)
        self.call("DELETE", f"/v1/sandboxes/{lease['sandbox_id']}", ALICE)
        self.assertEqual(self.call("GET", path + "/whoami")[0], 404)
        again = self.acquire()
        self.assertNotEqual(again["sandbox_url"], lease["sandbox_url"])
        self.assertEqual(self.call("GET", path + "/whoami")[0], 404)

    def test_public_url(self):
        self.serve(public_url="https://pool.example.com:8443/base/")
        lease = self.acquire()
        self.assertTrue(lease["sandbox_url"].startswith(
            f"https://pool.example.com:8443/base/s/{lease['sandbox_id']}/"), lease["sandbox_url"])

    def test_the_name_that_the_caller_uses(self):
        self.serve()
        status, lease = self.call("POST", "/v1/acquire", ALICE, {"thread_id": "n"}, {"Host": "pool.internal:81"})
        self.assertEqual(status, 200, lease)
        self.assertTrue(lease["sandbox_url"].startswith("http://pool.internal:81/s/"))
        status, lease = self.call("POST", "/v1/acquire", ALICE, {"thread_id": "n"}, {"Host": "x/../\"y"})
        if status == 200:
            self.assertTrue(lease["sandbox_url"].startswith(f"http://127.0.0.1:{self.port}/s/"))

    def test_it_counts_as_use(self):
        self.serve(idle_s=1)
        lease = self.acquire()
        path = self.path_of(lease)
        stop = threading.Event()
        seen = []

        def use():
            while not stop.is_set():
                seen.append(self.call("GET", path + "/whoami")[0])
                stop.wait(0.1)

        user = threading.Thread(target=use)
        user.start()
        try:
            wait_until(lambda: len(seen) > 30, "it is used for three times as long as it may stand idle")
        finally:
            stop.set()
            user.join(WAIT_S)
        self.assertEqual(set(seen), {200})
        client = self.client(self.server)
        wait_until(lambda: client.get(f"/v1/sandboxes/{lease['sandbox_id']}").status == 410, "then it is idle")

    def hold(self, lease):
        """A request whose body does not end."""
        held = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_S)
        self.addCleanup(held.close)
        held.putrequest("POST", self.path_of(lease) + "/v1/agent/access")
        held.putheader("Content-Length", "10")
        held.endheaders(b"12345")
        return held

    def test_one_caller_keeps_no_other_out(self):
        self.serve(max_requests=10)
        bobs = self.acquire("b", BOB)
        for _ in range(12):
            self.hold(bobs)
        status, answer = wait_until(lambda: self.refused(bobs), "bob has its share")
        self.assertEqual((status, answer["error"]["message"]),
                         (429, "This caller has its share of the requests to sandboxes"))
        self.assertEqual(self.call("GET", self.path_of(self.acquire("a")) + "/whoami")[0], 200)

    def refused(self, lease):
        status, answer = self.call("GET", self.path_of(lease) + "/whoami")
        return (status, answer) if status != 200 else None

    def test_limits(self):
        self.serve(max_requests=1)
        lease = self.acquire()
        held = self.hold(lease)
        wait_until(lambda: self.call("GET", self.path_of(lease) + "/whoami")[0] == 503, "one passes at a time")
        held.close()
        wait_until(lambda: self.call("GET", self.path_of(lease) + "/whoami")[0] == 200, "it has left")


if __name__ == "__main__":
    main()
