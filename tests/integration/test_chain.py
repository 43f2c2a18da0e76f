"""Two daemons in a row: A gets its boxes from the provisioner that B serves, B makes real ones. Either may be stopped,
killed and started again; whoever holds a box at A keeps it, and in the end both know the same boxes."""

import http.client
import json
import pathlib
import random
import tempfile
import threading
import time
import urllib.parse

from fixtures import WAIT_S, Client, Daemon, at_most, free_port, in_threads, main, wait_until
from box import Box
from oci_case import BoxCase
from provisioner import KEY

PORT = free_port()


class ChainBox(Box):
    """A box as A's caller sees it: B's proxy stands before it, below a path."""

    def call(self, method, target, body=None, token=None):
        connection = http.client.HTTPConnection(self.url.hostname, self.url.port, timeout=self.timeout)
        try:
            connection.request(method, self.url.path + target, json.dumps(body) if body is not None else None)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()


class Chain(BoxCase):
    """self.server and self.pool are B."""

    profiles = {"default": {"warm": {"min": 2, "max": 4}}}
    config = {"provisioner": {"enabled": True, "listen": f"127.0.0.1:{PORT}", "api_key": KEY}}

    def setUp(self):
        super().setUp()
        directory = pathlib.Path(tempfile.mkdtemp(prefix="a-", dir=self.directory))
        self.a = Daemon(directory, {
            "instance": f"a-{self.instance}", "pool": {"reconcile_interval_s": 1},
            "profiles": {"default": {
                "backend": "remote", "warm": {"min": 2, "max": 2}, "park_timeout_s": 600, "check_after_s": 0,
                "remote": {"provisioner_url": f"http://localhost:{PORT}", "provisioner_api_key": KEY}}}})
        self.addCleanup(lambda: self.a.process and self.a.kill())
        self.a.start()

    def tearDown(self):
        """All that A holds is destroyed by A; then B holds nothing of it."""
        client = self.a.client()
        client.post("/v1/pool/drain", {"evict_parked": True})
        for row in client.get("/v1/sandboxes?limit=1000").json["sandboxes"]:
            client.delete(f"/v1/sandboxes/box:{row['box_id']}")
        wait_until(lambda: client.get("/v1/pool").json["total"] == 0, "A holds nothing", WAIT_S * 2)
        client.close()
        self.a.stop()
        self.assertEqual(self.held_by_b(), [])
        self.assertNotIn(KEY, self.a.log.read_text() + self.server.log.read_text())
        super().tearDown()

    def at_a(self, thread, source=None, **fields):
        answer = self.a.acquire(thread, **fields)
        self.assertEqual(answer.status, 200, (answer, self.a.log.read_text()[-2000:]))
        if source is not None:
            self.assertEqual(answer.json["source"], source)
        return ChainBox(answer.json)

    def rows_of_a(self):
        client = self.a.client()
        try:
            return self.rows(client)
        finally:
            client.close()

    def held_by_b(self):
        """Public ids of the provisioner's boxes. One whose creator was killed before it took the answer is parked until
        it is used."""
        self.pool.close()  # B may have been started anew
        rows = [r for r in self.rows() if (r["sandbox_id"] or "").startswith("sp-")]
        self.parked_at_b = [r["sandbox_id"] for r in rows if r["state"] == "parked"]
        return sorted(r["sandbox_id"] for r in rows if r["state"] in ("leased", "parked"))

    def settle(self, limit=WAIT_S * 3):
        """Every box of A is one of B, and the other way round."""
        seen = {}

        def agrees():
            rows = self.rows_of_a()
            seen.update(a=sorted(r["box_id"] for r in rows), states=[r["state"] for r in rows],
                        b=sorted(i[-16:] for i in self.held_by_b()))
            seen.update(parked=self.parked_at_b)
            return (seen["a"] == seen["b"] and not seen["parked"] and
                    not {"starting", "deleting"} & set(seen["states"]) and seen["states"].count("blank") == 2)
        try:
            wait_until(agrees, "A and B agree", limit)
        except AssertionError:
            raise AssertionError(f"A and B do not agree: {seen}; {self.a.log.read_text()[-3000:]}") from None

    def test_boxes_are_real_and_warm(self):
        self.settle()
        box = self.at_a("t", "warm")
        self.assertEqual(box.sh("echo $((6*7))"), "42\n")
        self.assertTrue(box.lease["sandbox_url"].startswith(f"http://localhost:{PORT}/s/") or
                        box.lease["sandbox_url"].startswith(f"http://127.0.0.1:{PORT}/s/"), box.lease)
        other = self.at_a("other")
        box.sh("echo mine > /workspace/file")
        self.assertNotEqual(other.run("cat /workspace/file").exit_code, 0)
        client = self.a.client()
        self.assertOk(client.release(box.id))
        self.assertEqual(self.at_a("t", "parked").sh("cat /workspace/file"), "mine\n")
        self.assertOk(client.delete(f"/v1/sandboxes/{box.id}"))
        self.assertEqual(client.get(f"/v1/sandboxes/{box.id}").status, 404)
        client.close()
        self.settle()

    def test_either_side_is_restarted(self):
        box = self.at_a("t")
        pid = box.start("exec sleep 1000")
        for side in (self.a, self.server, self.a, self.server):
            for end in (side.stop, side.kill):
                end()
                side.start()
                self.same_box(box, pid)
        self.settle()

    def same_box(self, box, pid):
        """Its thread still has it, and what it started there still runs."""
        def kept():
            answer = self.a.acquire("t")
            return answer if answer.status == 200 else None  # B may still be starting
        again = wait_until(kept, "the thread has a box")
        self.assertEqual((again.json["box_id"], again.json["source"]), (box.box_id, "kept"))
        self.assertEqual(ChainBox(again.json).process(pid)["outcome"], "running")

    def test_b_is_away_for_a_while(self):
        box = self.at_a("t")
        self.settle()
        self.server.kill()
        client = self.a.client()
        wait_until(lambda: client.get("/readyz").status == 503, "A says that its provisioner is away")
        self.assertIn("remote", client.get("/readyz").text)
        self.assertEqual(self.a.acquire("t").json["box_id"], box.box_id)  # not known to be dead
        started = time.monotonic()
        refused = [self.a.acquire(f"new-{i}", wait_ms=2000) for i in range(4)]  # two are warm
        self.assertTrue(all(a.status in (200, 502, 503) for a in refused), refused)
        self.assertTrue(any(a.status != 200 for a in refused), refused)
        self.assertLess(time.monotonic() - started, at_most(20))
        self.server.start()
        wait_until(lambda: client.get("/readyz").status == 200, "A is ready again", WAIT_S * 2)
        self.assertEqual(self.at_a("t", "kept").sh("echo here"), "here\n")
        client.close()
        self.settle()

    def test_a_box_that_dies_at_b_is_lost_at_a(self):
        box = self.at_a("t")
        row = next(r for r in self.rows() if (r["sandbox_id"] or "").endswith(box.box_id))
        self.assertOk(self.pool.delete(f"/v1/sandboxes/box:{row['box_id']}"))

        def is_new():
            answer = self.a.acquire("t")
            return answer.status == 200 and answer.json["box_id"] != box.box_id
        wait_until(is_new, "A has seen its death and gives another")
        self.settle()

    def test_kills_under_load(self):
        stop = threading.Event()
        held = {}
        served = []

        def client(i):
            """Acquires, runs, gives back or destroys; what was acknowledged last is remembered."""
            rand = random.Random(i)
            while not stop.is_set():
                thread = f"load-{i}-{rand.randrange(3)}"
                try:
                    pool = Client(self.a.socket, timeout=30)
                    answer = pool.acquire(thread, wait_ms=3000)
                    if answer.status == 200:
                        sandbox_id = answer.json["sandbox_id"]
                        served.append(thread)
                        held[thread] = None  # until the next answer nobody knows
                        if rand.random() < 0.3:
                            pool.delete(f"/v1/sandboxes/{sandbox_id}")
                        elif rand.random() < 0.5:
                            pool.release(sandbox_id)
                        else:
                            held[thread] = answer.json["box_id"]
                    pool.close()
                except (OSError, http.client.HTTPException, json.JSONDecodeError):
                    time.sleep(0.05)

        def kills():
            rand = random.Random(42)
            try:
                for _ in range(6):
                    time.sleep(rand.uniform(0.3, 1.2))
                    side = rand.choice((self.a, self.server))
                    side.kill()
                    side.start()
                # How much was served meanwhile is a matter of the machine's speed; afterwards all are served again.
                wait_until(lambda: len(served) > 20, "callers are served", WAIT_S * 2)
            finally:
                stop.set()

        in_threads(5, lambda i: kills() if i == 4 else client(i))
        self.settle()
        rows = {r["box_id"] for r in self.rows_of_a()}
        self.assertEqual([t for t, box in held.items() if box and box not in rows], [],
                         "leases that were acknowledged are gone")

    def test_url_is_for_its_holder_only(self):
        box = self.at_a("t")
        url = urllib.parse.urlsplit(box.lease["sandbox_url"])
        wrong = url.path[:-1] + ("0" if url.path[-1] != "0" else "1")
        for path in (wrong, url.path.rsplit("/", 1)[0]):
            connection = http.client.HTTPConnection(url.hostname, url.port, timeout=WAIT_S)
            connection.request("GET", path + "/v1/sandbox")
            self.assertEqual(connection.getresponse().status, 404)
            connection.close()


if __name__ == "__main__":
    main()
