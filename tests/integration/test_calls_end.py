"""Calls that are under way end with the lease they belong to, and with the rights of their caller: streams with a last event,
upgraded connections by being closed. The box itself goes on, and hangs nobody up."""

from calls_case import ALICE, BOB, wait_gone
from ends_case import CAROL, PATIENCE_S, EndsCase, closed
from fixtures import WAIT_S, main, receive, wait_until


class Ends(EndsCase):
    def test_release(self):
        self.begin()
        self.lease("t", ALICE)
        kinds = self.all_kinds(ALICE), self.all_kinds(), self.all_kinds(CAROL)
        released = self.assertOk(self.call("POST", self.base + "/release", {}, token=ALICE))
        self.assertEqual(released["state"], "parked")
        for one in kinds:
            self.assertEnded(one, 409, "not_leased", "released")
        wait_until(lambda: len(self.left) == 9, "the box has nobody any more")
        self.assertEqual(set(self.left), {True})
        self.assertEqual(self.lease("t", ALICE)["box_id"], released["box_id"])
        self.assertOk(self.call("POST", self.base + "/jobs", {}, token=ALICE))

    def test_only_those_of_the_box(self):
        self.begin()
        self.lease("other", ALICE)
        others = self.all_kinds(ALICE)
        self.lease("t", ALICE)
        kinds = self.all_kinds(ALICE)
        self.assertOk(self.call("POST", self.base + "/release", {}, token=ALICE))
        self.assertEnded(kinds, 409, "not_leased", "released")
        self.assertGoesOn(others)

    def test_destroy(self):
        """The remove takes long; callers need not wait for it."""
        self.begin()
        self.lease("t", ALICE)
        kinds = self.all_kinds(ALICE)
        self.up.may_delete.clear()
        remove = self.open("DELETE", self.base, token=ALICE)
        self.assertEnded(kinds, 410, "sandbox_lost", "destroyed")
        self.up.may_delete.set()
        self.assertEqual(remove.getresponse().status, 200)

    def test_end_of_the_lease(self):
        self.begin()
        self.lease("t", ALICE)
        kinds = self.all_kinds(ALICE)
        self.assertOk(self.call("POST", self.base + "/renew", {"ttl_s": 1}, token=ALICE))
        self.assertEnded(kinds, 410, "sandbox_lost", "ttl")

    def test_a_token_is_taken_away(self):
        self.begin()
        self.lease("b", BOB)
        bob = self.all_kinds(BOB)
        self.lease("a", ALICE)
        alice, operator = self.all_kinds(ALICE), self.all_kinds(CAROL)
        self.tokens(tokens={"bob": BOB, "carol": CAROL})
        self.assertEnded(alice, 403, "forbidden", "configuration")
        self.tokens(tokens={"bob": BOB, "carol": "another-" + CAROL})
        self.assertEnded(operator, 403, "forbidden", "configuration")
        self.assertGoesOn(bob)

    def test_an_operator_is_none_any_more(self):
        self.begin()
        self.lease("c", CAROL)
        own = self.all_kinds(CAROL)
        self.lease("a", ALICE)
        kinds = self.all_kinds(CAROL), self.all_kinds(ALICE)
        self.tokens(operators="")
        self.assertEnded(kinds[0], 403, "forbidden", "configuration")
        self.assertGoesOn(kinds[1])
        self.assertGoesOn(own)

    def test_through_the_address_of_the_box(self):
        """/s/{id}: with the capability, which stays valid without a token, and with the token."""
        self.begin()
        self.up.raw = lambda connection: (connection.sendall(
            b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nhello"),
            self.left.append(wait_gone(connection, PATIENCE_S)))
        box = self.lease("t", ALICE)
        path = box["sandbox_url"].split("/", 3)[3]
        short = path.rsplit("/", 1)[0]
        by_path = self.upgrade(f"/{path}/raw", "none-at-all")
        by_token = self.upgrade(f"/{short}/raw", ALICE)
        for s in (by_path, by_token):
            self.assertTrue(receive(s, until=b"hello").startswith(b"HTTP/1.1 101 "))
        self.tokens(tokens={"bob": BOB, "carol": CAROL})
        self.assertEqual(closed(by_token), b"")
        by_path.settimeout(0)
        with self.assertRaises(BlockingIOError):
            by_path.recv(1)
        by_path.settimeout(WAIT_S)
        self.assertOk(self.call("POST", self.base + "/release", {}))
        self.assertEqual(closed(by_path), b"")
        refused = self.upgrade(f"/{path}/raw", "none-at-all")
        self.assertTrue(receive(refused).startswith(b"HTTP/1.1 404 "))

    def test_a_refused_upgrade_closes(self):
        """What its client sends next would be read as a request."""
        self.begin()
        self.lease("t", ALICE)
        for path, token, status in ((self.base + "/jobs/1/attach", "wrong" * 8, 401),
                                    ("/v1/sandboxes/nobody/ports/1", ALICE, 404), (self.base + "/nosuch", ALICE, 404),
                                    (self.base + "/exec", ALICE, 405), (self.base + "/ports/0", ALICE, 422)):
            s = self.upgrade(path, token)
            s.sendall(f"DELETE {self.base} HTTP/1.1\r\nAuthorization: Bearer {ALICE}\r\n\r\n".encode())
            answer = receive(s)
            self.assertTrue(answer.startswith(f"HTTP/1.1 {status} ".encode()), answer)
            self.assertIn(b"\r\nConnection: close\r\n", answer)
            self.assertEqual(answer.count(b"HTTP/1.1 "), 1)
        self.assertEqual(self.assertOk(self.api.get(self.base))["state"], "leased")


if __name__ == "__main__":
    main()
