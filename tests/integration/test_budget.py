"""Budgets: who has spent all gets no box, keeps what it has, and gets more when an operator gives it."""

import asyncio
import concurrent.futures
import json
import subprocess
import sys
import urllib.error
import urllib.request

from fixtures import BIN, SOURCE, WAIT_S, TestCase, free_port, main, wait_until

TOKEN = "0123456789abcdef"
sys.path.insert(0, str(SOURCE / "clients/python"))
import sandpool  # noqa: E402

PROFILES = {"warm": {"min": 1, "max": 2}, "park_timeout_s": 3600, "idle_timeout_s": 0, "ttl_s": 3600,
            "price": {"currency": "EUR", "per_start": 5, "per_hour": 3600}}  # one for each second


class Budget(TestCase):
    def begin(self, **more):
        self.port = free_port()
        budgets = {"currency": "EUR", "period": "month", "amount": 5.05, **more}
        self.server = self.daemon(PROFILES, budgets=budgets, sim=self.sim(),
                                  tcp={"listen": f"127.0.0.1:{self.port}", "tokens": {"bob": TOKEN}})
        return self.client(self.server)

    def spend(self, client, user="ana"):
        """A box, until the budget is used up."""
        lease = self.assertOk(client.acquire("t", user_id=user, wait_ms=20000))
        wait_until(lambda: self.budget(client, user)["spent_micros"] >= 5050000, "it is spent")
        return lease

    def budget(self, client, user="ana"):
        return self.assertOk(client.get(f"/v1/budgets/{user}"))

    def cli(self, *args, status=0):
        done = subprocess.run([BIN / "sandpool", "--socket", self.server.socket, "budget", *args], capture_output=True, text=True,
                              timeout=60, check=False)
        self.assertEqual(done.returncode, status, done)
        return done.stdout if status == 0 else done.stderr

    def boxes(self, client):
        return self.assertOk(client.get("/v1/pool"))["by_state"]

    def test_acquires_that_wait_do_not_spend_the_same_money(self):
        client = self.begin(amount=12)  # for three: 0, 5 and 10 are less than 12
        clients = [self.client(self.server) for _ in range(20)]
        with concurrent.futures.ThreadPoolExecutor(len(clients)) as pool:
            answers = list(pool.map(lambda i: clients[i].acquire(f"t{i}", user_id="ana", wait_ms=20000), range(len(clients))))
        codes = [a.status for a in answers]
        self.assertLessEqual(codes.count(200), 3, codes)
        self.assertGreaterEqual(codes.count(200), 2, codes)  # time costs, too
        self.assertEqual(codes.count(200) + codes.count(402), 20, codes)
        self.assertOk(client.acquire("t", user_id="bea", wait_ms=20000))
        # what a caller who has gone held is free again
        self.assertOk(client.post("/v1/pool/pause"))
        with self.assertRaises(OSError):
            self.client(self.server, timeout=0.3).acquire("gone", user_id="cleo", wait_ms=20000)
        wait_until(lambda: client.get("/v1/pool").json["waiting"] == 0, "the caller has gone")
        self.assertOk(client.post("/v1/pool/resume"))
        for i in range(2):
            self.assertOk(client.acquire(f"c{i}", user_id="cleo", wait_ms=20000))

    def test_python_client(self):
        self.begin()
        pool = sandpool.Client(str(self.server.socket))
        self.addCleanup(pool.close)
        self.assertEqual(pool.budget("ana")["limit"], "5.05")
        self.assertEqual(pool.set_budget("ana", "7.5")["amount_micros"], 7500000)
        self.assertEqual(pool.credit_budget("ana", "0.5")["limit"], "8")
        pool.set_budget("bea", "1")
        first = pool.budgets(limit=1)
        second = pool.budgets(cursor=first["next_cursor"])
        self.assertEqual([b["user_id"] for b in first["budgets"] + second["budgets"]], ["ana", "bea"])
        self.assertTrue(pool.set_budget("ana", None)["is_default"])

        async def ask():
            async with sandpool.AsyncClient(str(self.server.socket)) as other:
                return [await other.budget("bea"), await other.set_budget("bea", None), await other.credit_budget("bea", "3"),
                        await other.budgets()]
        of_bea, reset, credit, page = asyncio.run(ask())
        self.assertEqual((of_bea["amount_micros"], reset["is_default"], credit["credit_micros"], len(page["budgets"])),
                         (1000000, True, 3000000, 2))

    def test_used_up(self):
        client = self.begin()
        lease = self.spend(client)
        refused = client.acquire("other", user_id="ana", wait_ms=20000)
        self.assertCode(refused, 402, "budget_exceeded")
        self.assertEqual((refused.json["budget"]["limit"], refused.json["budget"]["currency"]), ("5.05", "EUR"))
        self.assertGreaterEqual(refused.json["budget"]["spent_micros"], 5050000)
        self.assertIn("of 5.05 EUR are spent; the next period begins at ", refused.json["error"]["message"])
        self.assertIsNone(client.get("/v1/sandboxes?user_id=ana").json.get("error"))
        self.assertEqual([s["thread_id"] for s in client.get("/v1/sandboxes?user_id=ana").json["sandboxes"]], ["t"])
        # others have their own money, and it has what it has
        self.assertOk(client.acquire("t", user_id="bea", wait_ms=20000))
        kept = self.assertOk(client.acquire("t", user_id="ana", ttl_s=9000))
        self.assertEqual((kept["source"], kept["expires_at"]), ("kept", lease["expires_at"]))
        self.assertCode(client.post(f"/v1/sandboxes/{lease['sandbox_id']}/renew", {"ttl_s": 9000}), 402, "budget_exceeded")
        fork = client.post(f"/v1/sandboxes/{lease['sandbox_id']}/fork", {"count": 2})
        self.assertNotEqual(fork.status, 200)  # the simulated backend has none; it is no way around
        self.assertOk(client.release(lease["sandbox_id"]))
        self.assertCode(client.acquire("t", user_id="ana"), 402, "budget_exceeded")
        events = self.assertOk(client.get("/v1/events?format=json&since=0&event=refused"))["events"]
        self.assertEqual({e["code"] for e in events}, {"budget_exceeded"})
        # a restart and a crash remember
        for change in (self.server.restart, lambda: (self.server.kill(), self.server.start())):
            spent = self.budget(client)["spent_micros"]
            change()
            client.close()
            self.assertGreaterEqual(self.budget(client)["spent_micros"], spent)
            self.assertCode(client.acquire("t", user_id="ana"), 402, "budget_exceeded")
        self.assertOk(client.post("/v1/budgets/ana/credit", {"amount": "1000"}))
        self.assertEqual(self.assertOk(client.acquire("t", user_id="ana"))["source"], "parked")
        self.assertOk(client.call("PUT", "/v1/budgets/ana", {"amount": "0.000001"}))
        self.assertOk(client.delete(f"/v1/sandboxes/{lease['sandbox_id']}"))
        self.assertEqual(self.budget(client)["spent_micros"],
                         self.assertOk(client.get("/v1/usage?user_id=ana"))["usage"][0]["cost_micros"])

    def test_operators(self):
        client = self.begin(amount=0)
        self.assertCode(client.acquire("t", user_id="ana"), 402, "budget_exceeded")  # prepaid: nothing is given yet
        lines = [line.split() for line in self.cli("set", "ana", "12.50").splitlines()]
        self.assertEqual(lines[1][:6], ["ana", "12.5", "0", "12.5", "0", "EUR"])
        self.cli("credit", "ana", "0.5")
        self.cli("credit", "bea@example.org", "3")
        self.assertEqual([line.split()[0] for line in self.cli("ls").splitlines()], ["USER", "ana", "bea@example.org"])
        self.assertEqual(json.loads(self.cli("show", "ana", "--json"))["limit_micros"], 13000000)
        self.assertIn("(default)", self.cli("set", "ana", "default"))
        page = self.assertOk(client.get("/v1/budgets?limit=1"))
        self.assertEqual((page["budgets"][0]["user_id"], page["next_cursor"]), ("ana", "ana"))
        self.assertEqual(self.assertOk(client.get("/v1/budgets?cursor=ana"))["budgets"][0]["credit"], "3")
        events = self.assertOk(client.get("/v1/events?format=json&since=0&event=budget"))["events"]
        self.assertEqual([(e.get("amount"), e.get("credit")) for e in events], [("12.5", None), (None, "0.5"), (None, "3"), (None, None)])
        for body in ({}, {"amount": 5}, {"amount": "-1"}, {"amount": "1e9"}, {"amount": "1", "more": 1}, {"amount": "1.0000001"}, []):
            self.assertIn(client.call("PUT", "/v1/budgets/ana", body).status, (400, 422), body)
        self.assertCode(client.post("/v1/budgets/ana/credit", {"amount": None}), 422, "invalid_field")
        self.assertCode(client.call("PUT", "/v1/budgets/a%20b", {"amount": "1"}), 422, "invalid_field")
        self.assertCode(client.get("/v1/budgets?limit=0"), 422, "invalid_field")
        self.cli("set", "ana", status=2)
        for path, method in (("budgets", "GET"), ("budgets/ana", "GET"), ("budgets/ana/credit", "POST")):
            request = urllib.request.Request(f"http://127.0.0.1:{self.port}/v1/{path}", method=method, data=b'{"amount": "5"}',
                                             headers={"Authorization": f"Bearer {TOKEN}"})
            with self.assertRaises(urllib.error.HTTPError) as error:
                urllib.request.urlopen(request, timeout=WAIT_S)
            self.assertEqual(error.exception.code, 403, path)

    def test_off(self):
        client = self.client(self.daemon(PROFILES))
        self.assertCode(client.get("/v1/budgets"), 501, "unsupported")
        self.assertCode(client.call("PUT", "/v1/budgets/ana", {"amount": "1"}), 501, "unsupported")


if __name__ == "__main__":
    main()
