"""Tokens: what each scope may call, what a bound one may touch, how they end, and what outlives a restart."""

import datetime
import http.client
import json
import signal
import sqlite3
import subprocess
import threading

from fixtures import BIN, SOURCE, WAIT_S, Answer, TestCase, free_port, in_threads, main, wait_until

METHODS = {"get", "put", "post", "delete"}


class Tokens(TestCase):
    def begin(self, **more):
        self.port = free_port()
        self.server = self.daemon({"warm": {"min": 1, "max": 4}, "idle_timeout_s": 0, "ttl_s": 3600}, sim=self.sim(),
                                  tcp={"listen": f"127.0.0.1:{self.port}"}, **more)
        return self.client(self.server)

    def connect(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_S)
        self.addCleanup(connection.close)
        return connection

    def ask(self, token, method, target, body=None, connection=None):
        own = connection or self.connect()
        own.request(method, target, json.dumps(body) if body is not None else None, {"Authorization": f"Bearer {token}"})
        response = own.getresponse()
        answer = Answer(response.status, dict(response.getheaders()), response.read().decode(errors="replace"))
        if connection is None:
            own.close()
        return answer

    def make(self, client, name, scopes, **fields):
        return self.assertOk(client.post("/v1/tokens", {"name": name, "scopes": scopes, **fields}))

    def acquire(self, token, **fields):
        return self.ask(token, "POST", "/v1/acquire", {"wait_ms": 20000, **fields})

    def test_every_route_asks_for_its_scope(self):
        """All routes of the document, which another test compares with the table of the code."""
        client = self.begin()
        token = {scope: self.make(client, f"t-{scope}", [scope])["token"] for scope in ("read", "use", "operate")}
        bound = self.make(client, "t-bound", ["read", "use"], user_id="nobody")["token"]
        paths = json.loads((SOURCE / "docs/openapi.json").read_text())["paths"]
        seen = set()
        for path, operations in paths.items():
            target = "/".join("none" if part.startswith("{") else part for part in path.split("/"))
            for method, operation in operations.items():
                if method not in METHODS or path in ("/v1/events", "/v1/pool/live", "/v1/pool/drain") or path.startswith("/s/"):
                    continue  # a stream; what empties the pool; what has a password of its own
                needs = operation["x-scope"]
                seen.add(needs)
                for scope, secret in token.items():
                    answer = self.ask(secret, method.upper(), target, {} if method in ("post", "put") else None)
                    is_refused = answer.status == 403
                    may = needs == "none" or scope == "operate" or \
                        (scope == "read" and needs == "read") or \
                        (scope == "use" and needs != "operate" and not operation.get("x-operator"))
                    self.assertEqual(is_refused, not may, (method, path, needs, scope, answer))
                answer = self.ask(bound, method.upper(), target, {} if method in ("post", "put") else None)
                if needs != "none" and not operation.get("x-bound"):
                    self.assertEqual(answer.status, 403, (method, path, answer))
                if needs != "none":
                    self.assertEqual(self.ask("spt_" + "0" * 64, method.upper(), target).status, 401)
        self.assertEqual(seen, {"read", "use", "operate", "none"})
        # the stream, for those who see all
        self.assertEqual(self.ask(token["read"], "GET", "/v1/events?follow=0&since=0").status, 200)
        self.assertEqual(self.ask(token["use"], "GET", "/v1/events?follow=0&since=0").status, 403)
        self.assertEqual(self.ask(token["use"], "POST", "/v1/pool/drain").status, 403)

    def test_who_sees_and_has_what(self):
        client = self.begin()
        use = self.make(client, "ci", ["use"])["token"]
        other = self.make(client, "dev", ["use"])["token"]
        read = self.make(client, "grafana", ["read"])["token"]
        both = self.make(client, "ci", ["read", "use"])["token"]
        lease = self.assertOk(self.acquire(use, thread_id="t"))
        path = f"/v1/sandboxes/{lease['sandbox_id']}"
        self.assertTrue(lease["token"])
        self.assertEqual(self.ask(other, "GET", path).status, 404)
        self.assertEqual(self.ask(other, "GET", "/v1/sandboxes").json["sandboxes"], [])
        shown = self.assertOk(self.ask(read, "GET", path))
        self.assertNotIn("token", shown)
        self.assertNotIn(lease["token"], json.dumps(self.assertOk(self.ask(read, "GET", "/v1/sandboxes"))))
        self.assertEqual(self.ask(read, "DELETE", path).status, 403)
        # a capability of the box is shown to its owner only
        self.assertNotEqual(shown["sandbox_url"], lease["sandbox_url"])
        # nor to a token of the owner's name, or for its sandbox, that may only look
        for eyes in (self.make(client, "ci", ["read"]), self.make(client, "guest", ["read"], sandbox_id=lease["sandbox_id"])):
            for target in (path, "/v1/sandboxes"):
                text = self.ask(eyes["token"], "GET", target).text
                self.assertIn(lease["sandbox_id"], text)
                self.assertNotIn(lease["token"], text)
                self.assertNotIn(lease["sandbox_url"], text)
        # tokens of one name are one caller
        self.assertEqual(self.assertOk(self.acquire(both, thread_id="t"))["box_id"], lease["box_id"])
        self.assertOk(self.ask(both, "DELETE", path))

    def test_bound_tokens(self):
        client = self.begin()
        ana = self.make(client, "ci", ["use"], user_id="ana")["token"]
        free = self.make(client, "ci", ["use"])["token"]
        lease = self.assertOk(self.acquire(ana, thread_id="t"))
        self.assertEqual(lease["user_id"], "ana")
        self.assertCode(self.acquire(ana, thread_id="t", user_id="ben"), 403, "forbidden")
        ben = self.assertOk(self.acquire(free, thread_id="t", user_id="ben"))
        path = f"/v1/sandboxes/{ben['sandbox_id']}"
        for method, target in (("GET", path), ("DELETE", path), ("POST", path + "/release"), ("POST", path + "/renew"),
                               ("POST", path + "/exec"), ("GET", f"/v1/sandboxes/box:{ben['box_id']}"),
                               ("GET", "/v1/sandboxes/thread:ben%2Ft")):
            self.assertCode(self.ask(ana, method, target, {} if method == "POST" else None), 404, "not_found")
        # nor by naming its id
        self.assertCode(self.acquire(ana, sandbox_id=ben["sandbox_id"]), 403, "forbidden")
        listed = [b["user_id"] for b in self.ask(ana, "GET", "/v1/sandboxes").json["sandboxes"]]
        self.assertEqual(listed, ["ana"])
        self.assertEqual(len(self.ask(free, "GET", "/v1/sandboxes").json["sandboxes"]), 2)
        # one sandbox, as who has it
        one = self.make(client, "guest", ["use"], sandbox_id=lease["sandbox_id"])
        self.assertEqual(one["principal"], "token ci")
        self.assertEqual(self.assertOk(self.acquire(one["token"]))["box_id"], lease["box_id"])
        self.assertOk(self.ask(one["token"], "POST", f"/v1/sandboxes/{lease['sandbox_id']}/renew", {}))
        self.assertCode(self.ask(one["token"], "GET", path), 404, "not_found")
        self.assertCode(self.acquire(one["token"], thread_id="more"), 403, "forbidden")
        # one profile
        small = self.make(client, "ci", ["use"], profile="default")["token"]
        self.assertCode(self.acquire(small, thread_id="p", profile="auto", labels={"a": "b"}), 422, "invalid_field")
        self.assertOk(self.acquire(small, thread_id="p"))
        # what cannot be
        for fields, status in (({"scopes": ["operate"], "user_id": "ana"}, 422), ({"scopes": []}, 422),
                               ({"scopes": ["root"]}, 422), ({"scopes": ["use"], "profile": "none"}, 422),
                               ({"scopes": ["use"], "sandbox_id": "none"}, 404), ({"scopes": ["use"], "ttl_s": 0}, 422)):
            self.assertEqual(client.post("/v1/tokens", {"name": "x", **fields}).status, status, fields)

    def test_revoked_at_once(self):
        client = self.begin()
        made = self.make(client, "ci", ["use"])
        keep = self.make(client, "ci", ["use"])["token"]
        read = self.make(client, "grafana", ["read"])["token"]
        connection = self.connect()
        self.assertEqual(self.ask(made["token"], "GET", "/v1/pool", connection=connection).status, 200)
        streams = []
        for target in ("/v1/events?since=0", "/v1/pool/live?every_ms=60000"):
            stream = self.connect()
            stream.request("GET", target, headers={"Authorization": f"Bearer {read}"})
            streams.append(stream.getresponse())
            self.assertEqual(streams[-1].status, 200)
            self.addCleanup(stream.close)
        # an acquire that waits
        self.assertOk(client.post("/v1/pool/pause"))
        answers = []
        waiting = threading.Thread(target=lambda: answers.append(self.acquire(made["token"], thread_id="w")))
        waiting.start()
        self.addCleanup(waiting.join)
        wait_until(lambda: client.get("/v1/pool").json["waiting"] == 1, "it waits")
        self.assertEqual(self.assertOk(client.delete(f"/v1/tokens/{made['token_id']}"))["revoked"], 1)
        waiting.join(WAIT_S)
        self.assertCode(answers[0], 401, "unauthorized")
        # what it has is still shown with its name
        self.assertOk(client.post("/v1/pool/resume"))
        left = self.assertOk(self.acquire(self.make(client, "gone", ["use"])["token"], thread_id="g"))
        self.assertOk(client.delete("/v1/tokens/gone"))
        self.assertEqual(self.make(client, "x", ["use"], sandbox_id=left["sandbox_id"])["principal"], "token gone")
        self.assertEqual(self.ask(made["token"], "GET", "/v1/pool", connection=connection).status, 401)
        self.assertEqual(self.ask(keep, "GET", "/v1/pool").status, 200)
        self.assertEqual(client.delete(f"/v1/tokens/{made['token_id']}").status, 404)
        # the streams of a reader, by name
        self.assertEqual(self.assertOk(client.delete("/v1/tokens/grafana"))["revoked"], 1)
        for stream in streams:
            with self.assertRaises((http.client.IncompleteRead, ConnectionError)):
                while True:
                    if not stream.read1(65536):
                        raise ConnectionError
        kinds = [e["event"] for e in self.assertOk(client.get("/v1/events?format=json&since=0&limit=1000"))["events"]]
        self.assertEqual((kinds.count("token_created"), kinds.count("token_revoked")), (5, 3))

    def test_the_end_by_itself(self):
        client = self.begin()
        made = self.make(client, "short", ["use"], ttl_s=1)
        self.assertTrue(made["expires_at"])
        self.assertEqual(self.ask(made["token"], "GET", "/v1/pool").status, 200)
        wait_until(lambda: self.ask(made["token"], "GET", "/v1/pool").status == 401, "it has expired")
        wait_until(lambda: client.get("/v1/tokens").json["tokens"] == [], "its row is gone")

    def test_restart_takeover_reload_and_what_lies_on_the_disk(self):
        client = self.begin()
        made = self.make(client, "ci", ["use"], user_id="ana", ttl_s=3600)
        gone = self.make(client, "ci", ["use"])
        self.assertOk(client.delete(f"/v1/tokens/{gone['token_id']}"))
        lease = self.assertOk(self.acquire(made["token"], thread_id="t"))
        before = client.get("/v1/tokens").json["tokens"][0]
        self.assertNotIn("token", before)
        self.server.process.child.send_signal(signal.SIGHUP)
        self.assertEqual(self.ask(made["token"], "GET", "/v1/pool").status, 200)
        self.server.takeover()
        self.assertEqual(self.ask(made["token"], "GET", "/v1/pool").status, 200)
        self.server.kill()
        self.server.start()
        client = self.client(self.server)
        after = client.get("/v1/tokens").json["tokens"]
        self.assertEqual(len(after), 1)
        for key in before.keys() - {"last_used_at", "created_at", "expires_at"}:
            self.assertEqual(after[0][key], before[key])
        for key in ("created_at", "expires_at"):  # milliseconds of two clocks
            apart = datetime.datetime.fromisoformat(after[0][key]) - datetime.datetime.fromisoformat(before[key])
            self.assertLess(abs(apart), datetime.timedelta(seconds=1), key)
        self.assertEqual(self.assertOk(self.acquire(made["token"], thread_id="t"))["box_id"], lease["box_id"])
        self.assertEqual(self.ask(gone["token"], "GET", "/v1/pool").status, 401)
        self.server.stop()
        for secret in (made["token"], gone["token"]):
            for path in (*self.server.state.iterdir(), self.server.log):
                if path.is_file():
                    self.assertNotIn(secret.encode(), path.read_bytes(), path)
        with sqlite3.connect(self.server.state / "sandpool.db") as db:
            self.assertEqual(db.execute("SELECT count(*) FROM tokens").fetchone()[0], 1)

    def test_quotas(self):
        """Of a caller and of its users; operators, those who have a sandbox, and ends are never refused."""
        client = self.begin(quotas={"enabled": True, "caller_boxes": 3, "user_boxes": 2, "caller_per_minute": 5})
        ci = self.make(client, "ci", ["use"])["token"]
        dev = self.make(client, "dev", ["use"])["token"]
        leases = [self.assertOk(self.acquire(ci, thread_id=f"t{i}", user_id=user)) for i, user in enumerate(("ana", "ana", "ben"))]
        refused = self.acquire(ci, thread_id="t3", user_id="ana")
        self.assertCode(refused, 429, "quota_boxes")
        self.assertIn("user 'ana' of this caller has 2 boxes", refused.json["error"]["message"])
        self.assertTrue(refused.json["error"]["retry_after_ms"] > 0 and refused.headers["Retry-After"])
        self.assertIn("this caller has 3 boxes", self.acquire(ci, thread_id="t3", user_id="eva").json["error"]["message"])
        self.assertOk(self.acquire(ci, thread_id="t0", user_id="ana"))
        self.assertOk(self.acquire(dev, thread_id="d"))
        for i in range(5):
            self.assertOk(client.acquire(f"o{i}"))
        # at once, and no more than are free
        self.assertOk(self.ask(ci, "DELETE", f"/v1/sandboxes/{leases[2]['sandbox_id']}"))
        answers = in_threads(8, lambda i: self.acquire(ci, thread_id=f"x{i}", user_id=f"u{i}"))
        self.assertEqual(sorted(a.status for a in answers), [200] + 7 * [429])
        # a restart does not forget what they have
        self.server.kill()
        self.server.start()
        client = self.client(self.server)
        self.assertCode(self.acquire(ci, thread_id="t3", user_id="eva"), 429, "quota_boxes")
        # new limits, without a restart; then the rate
        config = json.loads(self.server.config.read_text())
        config["quotas"].update(caller_boxes=0, user_boxes=0)
        self.server.write_config(config)
        self.assertOk(client.post("/v1/pool/reload"))
        for i in range(5):
            self.assertOk(self.acquire(ci, thread_id=f"y{i}"))
        refused = self.acquire(ci, thread_id="y5")
        self.assertCode(refused, 429, "quota_creates")
        self.assertGreater(refused.json["error"]["retry_after_ms"], 1000)
        page = self.assertOk(client.get("/v1/events?format=json&event=refused&since=0&limit=1000"))["events"]
        self.assertEqual({e["code"] for e in page}, {"quota_boxes", "quota_creates"})

    def test_cli(self):
        self.begin()

        def run(*args, status=0):
            done = subprocess.run([BIN / "sandpool", "--socket", self.server.socket, "token", *args], capture_output=True,
                                  text=True, timeout=60, check=False)
            self.assertEqual(done.returncode, status, done)
            return done

        secret = run("create", "ci", "--scope", "read,use", "--user", "ana", "--ttl", "30d").stdout.strip()
        self.assertRegex(secret, r"^spt_[0-9a-f]{64}$")
        self.assertEqual(self.ask(secret, "GET", "/v1/pool").status, 200)
        listed = run("ls").stdout
        self.assertIn("read,use", listed)
        self.assertNotIn(secret, listed)
        self.assertIn("needs a NAME", run("create", status=2).stderr)
        self.assertIn("--scope must be one of", run("create", "x", "--scope", "root", status=2).stderr)
        self.assertEqual(run("revoke", "ci").stdout, "1 token revoked\n")
        self.assertEqual(self.ask(secret, "GET", "/v1/pool").status, 401)
        run("revoke", "ci", status=4)


if __name__ == "__main__":
    main()
