"""The audit trail read back, by time and by what it is about, also what is no longer in memory; and a copy of
the database while the daemon serves."""

import contextlib
import http.client
import json
import os
import pathlib
import sqlite3
import stat
import subprocess
import threading
import time
import unittest

from fixtures import BIN, TestCase, UnixConnection, free_port, in_threads, main, wait_until

RING = 2048  # events that are held in memory


class Audit(TestCase):
    def setUp(self):
        super().setUp()
        self.daemon_under_test = self.daemon({"warm": {"min": 1, "max": 4}}, sim=self.sim())

    def read(self, target, client=None):
        answer = (client or self.client(self.daemon_under_test)).get(f"/v1/events?follow=0&{target}")
        self.assertEqual(answer.status, 200, answer)
        events = []
        for block in answer.text.strip().split("\n\n"):
            fields = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line)
            if "data" in fields:
                events.append((int(fields.get("id", 0)), fields["event"],
                               json.loads(fields["data"])))
        return events

    def cli(self, *args):
        return subprocess.run([str(BIN / "sandpool"), "--socket",
                               str(self.daemon_under_test.socket), *args], capture_output=True,
                              text=True, timeout=40)

    def put_rows(self, count):
        """Events of an earlier life, more than fit into memory: a second apart, the last an hour ago."""
        self.daemon_under_test.stop()
        base = int(time.time() * 1000) - 3600_000
        with sqlite3.connect(self.daemon_under_test.state / "sandpool.db") as db:
            first = db.execute("SELECT coalesce(max(id), 0) + 1 FROM events").fetchone()[0]
            db.executemany(
                "INSERT INTO events(id, at_ms, kind, body, box_id, sandbox_id, principal) VALUES(?, ?, ?, ?, ?, ?, ?)",
                [(first + i, base - (count - i) * 1000, "leased" if i % 2 else "parked",
                  json.dumps({"box_id": f"{i % 10:016x}", "user_id": f"u{i % 3}",
                              "thread_id": f"t{i % 7}", "sandbox_id": f"s{i % 5}"}),
                  f"{i % 10:016x}", f"s{i % 5}", 65534 if i % 4 == 0 else 65533)
                 for i in range(count)])
        db.close()
        self.daemon_under_test.start()
        return first, base

    def test_what_is_not_in_memory_is_read_from_the_database(self):
        count = 3 * RING
        first, base = self.put_rows(count)
        ids = [e[0] for e in self.read(f"since={first - 1}") if e[0] < first + count]
        self.assertEqual(ids, list(range(first, first + count)))
        self.assertEqual([e[0] for e in self.read(f"since={first - 1}&limit=3")],
                         [first, first + 1, first + 2])
        of_box = self.read("since=0&box=0000000000000004")
        self.assertEqual([e[0] for e in of_box], [first + i for i in range(4, count, 10)])
        some = self.read("since=0&user=u1&thread=t2&event=leased")
        self.assertEqual([e[0] for e in some], [first + i for i in range(count)
                                                if i % 3 == 1 and i % 7 == 2 and i % 2])
        self.assertEqual({e[1] for e in some}, {"leased"})
        self.assertEqual(len(self.read("since=0&sandbox=s3")), sum(1 for i in range(count)
                                                                   if i % 5 == 3))
        # By time: the ten before the last ten seconds of them.
        found = self.read(f"since_ms={base - 20_000}&until_ms={base - 10_000}")
        self.assertEqual([e[0] for e in found], [first + i for i in range(count - 20, count - 10)])
        self.assertEqual(self.read("since=0&user=nobody"), [])

    def pages(self, target, client=None, limit=None):
        """All events of pages, and how many pages there were."""
        client = client or self.client(self.daemon_under_test)
        events, since, count = [], 0, 0
        while since is not None:
            page = self.assertOk(client.get(f"/v1/events?format=json&since={since}&{target}" + (f"&limit={limit}" if limit else "")))
            self.assertLessEqual(len(page["events"]), limit or 100)
            events += page["events"]
            since = page["next"]
            count += 1
        return events, count

    def test_pages(self):
        count = 3 * RING
        first, base = self.put_rows(count)
        events, pages = self.pages("box=0000000000000004", limit=50)
        self.assertEqual([e["id"] for e in events], [first + i for i in range(4, count, 10)])
        self.assertGreater(pages, 12)
        self.assertEqual((events[0]["event"], events[0]["sandbox_id"]), ("parked", "s4"))
        self.assertEqual([e["id"] for e in self.pages("id=box:0000000000000004", limit=1000)[0]], [e["id"] for e in events])
        self.assertEqual(len(self.pages("id=s3&event=leased")[0]), sum(1 for i in range(count) if i % 5 == 3 and i % 2))
        found, _ = self.pages(f"since_ms={base - 20_000}&until_ms={base - 10_000}")
        self.assertEqual([e["id"] for e in found], [first + i for i in range(count - 20, count - 10)])
        self.assertEqual(self.pages("user=nobody"), ([], 1))
        client = self.client(self.daemon_under_test)
        lease = self.assertOk(client.acquire("new", wait_ms=20000))
        self.assertEqual([e["event"] for e in self.pages("id=thread:default%2Fnew")[0]], ["leased"])
        self.assertEqual(self.pages(f"id={lease['sandbox_id']}")[0], self.pages("thread=new")[0])
        for bad in ("limit=1001", "limit=0", "id=a%2Fb", "id=box:x", "id=thread:a%2Fb%2Fc"):
            self.assertCode(client.get(f"/v1/events?format=json&{bad}"), 422, "invalid_field")
        self.assertCode(client.get("/v1/events?format=xml"), 422, "invalid_field")

    def test_a_page_looks_at_a_bounded_number_of_rows(self):
        first, _ = self.put_rows(25000)
        page = self.assertOk(self.client(self.daemon_under_test).get("/v1/events?format=json&since=0&user=nobody"))
        self.assertEqual(page["events"], [])
        self.assertTrue(first + 19000 < page["next"] < first + 21000, page)
        self.assertEqual(self.pages("user=nobody"), ([], 2))

    def test_an_index_finds_a_box(self):
        self.daemon_under_test.stop()
        with sqlite3.connect(self.daemon_under_test.state / "sandpool.db") as db:
            for column, index in (("box_id", "events_box"), ("sandbox_id", "events_id"), ("principal", "events_principal")):
                unset = "-1" if column == "principal" else "''"
                plan = db.execute(f"EXPLAIN QUERY PLAN SELECT body FROM events WHERE {column} = ?4 AND {column} <> {unset} "
                                  "AND id > ?1 AND id < ?2 ORDER BY id LIMIT ?3", (0, 9, 5, "x")).fetchall()
                self.assertEqual(len(plan), 1, plan)
                self.assertIn(f"SEARCH events USING INDEX {index}", plan[0][3])
        db.close()

    def test_an_older_database(self):
        """Its events get what they are found by; one that is damaged does no harm."""
        self.daemon_under_test.stop()
        path = self.daemon_under_test.state / "sandpool.db"
        with sqlite3.connect(path) as db:
            mark = db.execute("PRAGMA application_id").fetchone()[0]
        db.close()
        for name in ("sandpool.db", "sandpool.db-wal", "sandpool.db-shm"):
            (self.daemon_under_test.state / name).unlink(missing_ok=True)
        with sqlite3.connect(path) as db:
            db.executescript((pathlib.Path(__file__).parent / "schema_1.sql").read_text())
            db.execute(f"PRAGMA application_id = {mark}")
            db.execute("PRAGMA user_version = 1")
            db.executemany("INSERT INTO events(id, at_ms, kind, body) VALUES(?, 1, 'leased', ?)",
                           [(1, '{"sandbox_id":"old","box_id":"00000000000000ff"}'), (2, "{broken"), (3, '{"sandbox_id":7}')])
        db.close()
        self.daemon_under_test.start()
        for target in ("id=old", "id=box:00000000000000ff"):
            self.assertEqual([e["id"] for e in self.pages(target)[0]], [1])
        self.daemon_under_test.stop()
        with sqlite3.connect(path) as db:
            self.assertEqual(db.execute("SELECT box_id, sandbox_id, principal FROM events WHERE id <= 3 ORDER BY id").fetchall(),
                             [("00000000000000ff", "old", -1), ("", "", -1), ("", "7", -1)])
        db.close()

    # --- sentences ---

    def test_why(self):
        client = self.client(self.daemon_under_test)
        lease = self.assertOk(client.acquire("story", wait_ms=20000))
        for _ in range(3):
            self.assertOk(client.post(f"/v1/sandboxes/{lease['sandbox_id']}/renew", {"ttl_s": 600}))
        self.assertOk(client.delete(f"/v1/sandboxes/{lease['sandbox_id']}"))
        again = self.assertOk(client.acquire("story", wait_ms=20000))
        shown = self.cli("why", "story")
        self.assertEqual(shown.returncode, 0, shown)
        lines = [line.split("Z  ", 1)[-1] for line in shown.stdout.splitlines()]
        self.assertEqual(lines[0], f"box {lease['box_id']}, profile default, generation 1, of default/story")
        self.assertRegex(lines[1], "^it was given to its thread: a (new box|box that was ready)$")
        self.assertIn("its lease was renewed (3 times)", lines)
        self.assertIn("it had to end: somebody destroyed it", lines)
        self.assertIn("nothing is left of it", lines)
        self.assertIn(f"box {again['box_id']}, profile default, generation 2, of default/story", lines)
        self.assertLess(lines.index("nothing is left of it"), lines.index(f"box {again['box_id']}, profile default, generation 2, of default/story"))
        for name in (("default/story",), (lease["sandbox_id"],), ("story", "--user", "default"), ("thread:default/story",)):
            self.assertEqual(self.cli("why", *name).stdout, shown.stdout)
        whole = self.cli("why", f"box:{lease['box_id']}").stdout
        self.assertIn("it was being made", whole)
        self.assertNotIn(again["box_id"], whole)
        shown = [json.loads(line) for line in self.cli("why", "story", "--json").stdout.splitlines()]
        self.assertEqual([e["event"] for e in shown].count("renewed"), 3)
        missing = self.cli("why", "nobody")
        self.assertEqual(missing.returncode, 4)
        self.assertIn("has nothing about 'nobody'", missing.stderr)
        self.assertEqual(self.cli("why", "story", "--since", "soon").returncode, 2)

    def test_why_an_acquire_was_refused(self):
        client = self.client(self.daemon_under_test)
        self.assertOk(client.post("/v1/pool/pause", {}))
        self.assertEqual(client.acquire("late", wait_ms=0).status, 503)
        shown = self.cli("why", "late")
        self.assertRegex(shown.stdout, r"an acquire was refused: .*paused.* \(paused\)\n$")
        in_all = 1

        def flood(_):
            own = self.daemon_under_test.client()
            statuses = [own.acquire("late", wait_ms=0).status for _ in range(20)]
            own.close()
            return statuses

        def is_cut():  # a flood is noted in part, and how much is missing
            nonlocal in_all
            self.assertEqual(set(sum(in_threads(8, flood), [])), {503})
            in_all += 160
            noted, _ = self.pages("event=refused")
            missing = sum(e.get("not_noted", 0) for e in noted)
            self.assertLessEqual(len(noted) + missing, in_all)
            return missing > 0
        wait_until(is_cut, "some are not noted")
        self.assertOk(client.post("/v1/pool/resume", {}))

    def test_wrong_questions(self):
        client = self.client(self.daemon_under_test)
        for bad in ("since=x", "since_ms=0", "until_ms=-1", "limit=0", "user=" + "x" * 200,
                    "event=" + "x" * 100):
            self.assertCode(client.get(f"/v1/events?follow=0&{bad}"), 422, "invalid_field")

    def test_live_events_are_chosen_too(self):
        client = self.client(self.daemon_under_test)
        connection = UnixConnection(self.daemon_under_test.socket, 20)
        self.addCleanup(connection.close)
        connection.request("GET", "/v1/events?thread=wanted&limit=2")
        response = connection.getresponse()
        for thread in ("other", "wanted", "third"):
            lease = self.assertOk(client.acquire(thread, wait_ms=20000))
            self.assertOk(client.release(lease["sandbox_id"]))
        text = response.read().decode()  # ends by itself
        data = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: ")]
        self.assertEqual([d["thread_id"] for d in data], ["wanted", "wanted"])

    def test_the_command_line(self):
        first, _ = self.put_rows(3000)
        shown = self.cli("events", "--since", "90m", "--no-follow", "--user", "u1", "--json")
        self.assertEqual(shown.returncode, 0, shown.stderr)
        self.assertEqual({json.loads(line)["user_id"] for line in shown.stdout.splitlines()},
                         {"u1"})
        self.assertEqual(self.cli("events", "--since", "10m", "--user", "u1",
                                  "--no-follow").stdout, "")
        self.assertEqual(len(self.cli("events", "--since", str(first), "--limit",
                                      "5").stdout.splitlines()), 5)
        self.assertEqual(self.cli("events", "--since", "soon").returncode, 2)

    def test_a_copy_of_the_database(self):
        client = self.client(self.daemon_under_test)
        leases = [self.assertOk(client.acquire(f"t-{i}", wait_ms=20000)) for i in range(3)]
        self.put_rows(20000)
        copy = pathlib.Path(self.directory) / "copy.db"
        stop = threading.Event()
        refused = []

        def work():  # leases go on while it is made
            own = self.daemon_under_test.client()
            while not stop.is_set():
                answer = own.acquire("busy", wait_ms=20000)
                if answer.status != 200:
                    refused.append(answer)
                    break
            own.close()

        worker = threading.Thread(target=work)
        worker.start()
        done = self.cli("backup", str(copy))
        stop.set()
        worker.join(20)
        self.assertEqual(refused, [])
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(stat.S_IMODE(copy.stat().st_mode), 0o600)
        with sqlite3.connect(copy) as db:
            self.assertEqual(db.execute("PRAGMA integrity_check").fetchone()[0], "ok")
            found = {row[0] for row in db.execute("SELECT sandbox_id FROM leases")}
            self.assertGreaterEqual(db.execute("SELECT count(*) FROM events").fetchone()[0], 20000)
        db.close()
        self.assertLessEqual({lease["sandbox_id"] for lease in leases}, found)
        self.assertFalse((self.daemon_under_test.state / "backup.tmp").exists())
        again = self.cli("backup", str(copy))  # what is there is not overwritten
        self.assertEqual(again.returncode, 1)
        self.assertIn("it exists", again.stderr)

    def open_copies(self):
        found = []
        for fd in os.scandir(f"/proc/{self.daemon_under_test.process.pid}/fd"):
            with contextlib.suppress(FileNotFoundError):  # closed meanwhile
                found.append(os.readlink(fd.path))
        return [path for path in found if "backup.tmp" in path]

    def test_a_copy_that_nobody_takes(self):
        connection = UnixConnection(self.daemon_under_test.socket, 20)
        connection.request("GET", "/v1/backup")
        connection.close()
        copy = os.path.join(self.directory, "copy.db")
        wait_until(lambda: self.cli("backup", copy).returncode == 0, "the next one is made")
        wait_until(lambda: not self.open_copies(), "no copy is open any more")

    def test_callers_that_leave_in_the_middle(self):
        """Of several pieces, one of which is being read at that moment."""
        self.put_rows(6000)
        pid = self.daemon_under_test.process.pid
        for i in range(30):
            connections = [UnixConnection(self.daemon_under_test.socket, 20) for _ in range(3)]
            for connection in connections:
                connection.request("GET", "/v1/backup")
            if i % 3 > 0:
                connections[0].sock.recv(1 if i % 3 == 1 else 65536)
            for connection in connections:
                connection.close()
        wait_until(lambda: self.cli("backup", os.path.join(self.directory, "late.db")).returncode == 0,
                   "the next one is made")
        self.assertEqual(self.daemon_under_test.process.pid, pid)
        self.assertIsNone(self.daemon_under_test.process.child.poll(), "it still runs")

    @unittest.skipUnless(os.geteuid() == 0, "needs root to be somebody else")
    def test_only_operators(self):
        os.chmod(self.daemon_under_test.socket, 0o777)
        os.chmod(self.directory, 0o755)
        program = ("import os, socket, sys; os.setuid(65534)\n"
                   "s = socket.socket(socket.AF_UNIX); s.settimeout(20); s.connect(sys.argv[1])\n"
                   "s.send(b'GET ' + sys.argv[2].encode() + b' HTTP/1.1\\r\\n\\r\\n')\n"
                   "print(s.recv(65536).decode())\n")
        for target in ("/v1/backup", "/v1/events?since=0", "/v1/events"):
            said = subprocess.run(["python3", "-c", program, str(self.daemon_under_test.socket),
                                   target], capture_output=True, text=True, timeout=40)
            self.assertIn(" 403 ", said.stdout.splitlines()[0], said)

    @unittest.skipUnless(os.geteuid() == 0, "needs root to be somebody else")
    def test_others_see_their_own(self):
        count = 2 * RING
        first, _ = self.put_rows(count)
        client = self.client(self.daemon_under_test)
        os.chmod(self.daemon_under_test.socket, 0o777)
        os.chmod(self.directory, 0o755)
        self.assertOk(client.acquire("of-root", wait_ms=20000))
        program = ("import http.client, json, os, socket, sys\nos.setuid(65534)\n"
                   "def ask(method, target, body=None):\n"
                   "    c = http.client.HTTPConnection('localhost', timeout=60)\n"
                   "    c.sock = socket.socket(socket.AF_UNIX); c.sock.settimeout(60); c.sock.connect(sys.argv[1])\n"
                   "    c.request(method, target, body)\n"
                   "    return json.loads(c.getresponse().read())\n"
                   "lease = ask('POST', '/v1/acquire', json.dumps({'thread_id': 'mine', 'wait_ms': 20000}))\n"
                   "ask('POST', '/v1/acquire', json.dumps({'thread_id': 'of-root'}))\n"
                   "pages, since = [], 0\n"
                   "while since is not None:\n"
                   "    page = ask('GET', f'/v1/events?format=json&limit=1000&since={since}')\n"
                   "    pages += page['events']; since = page['next']\n"
                   "print(json.dumps([lease['sandbox_id'], pages, ask('GET', '/v1/events?format=json&since=0&id=thread:default%2Fof-root'),\n"
                   "                  ask('GET', '/v1/events?format=json&since=0&box=0000000000000001')]))\n")
        done = subprocess.run(["python3", "-c", program, str(self.daemon_under_test.socket)], capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done)
        sandbox_id, events, theirs, other = json.loads(done.stdout)
        past = [e for e in events if e["id"] < first + count]
        self.assertEqual([e["id"] for e in past], [first + i for i in range(0, count, 4)])
        self.assertEqual([(e["event"], e["sandbox_id"]) for e in events if e["id"] >= first + count][0], ("leased", sandbox_id))
        self.assertEqual([(e["event"], e["code"]) for e in theirs["events"]], [("refused", "forbidden")])
        self.assertEqual(other["events"], [])  # odd ones are of another caller
        self.assertEqual([e["event"] for e in self.pages("id=thread:default%2Fof-root")[0]], ["leased", "refused"])


class Token(TestCase):
    def test_a_stream_ends_with_its_token(self):
        port = free_port()
        tokens = {"one": "a" * 32, "two": "b" * 32}
        daemon = self.daemon(tcp={"listen": f"127.0.0.1:{port}", "tokens": tokens,
                                  "operators": "one,two"})
        streams = {}
        for name, token in tokens.items():
            streams[name] = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
            self.addCleanup(streams[name].close)
            streams[name].request("GET", "/v1/events",
                                  headers={"Authorization": f"Bearer {token}"})
        answers = {name: stream.getresponse() for name, stream in streams.items()}
        config = json.loads(daemon.config.read_text())
        del config["tcp"]["tokens"]["one"]
        config["tcp"]["operators"] = "two"
        daemon.write_config(json.dumps(config))
        client = self.client(daemon)
        self.assertOk(client.post("/v1/pool/reload", {}))
        with contextlib.suppress(http.client.IncompleteRead, ConnectionError):
            while answers["one"].read1():  # a stream that goes on ends by the timeout, which fails
                pass
        self.assertOk(client.post("/v1/pool/pause", {}))  # an event
        line = answers["two"].readline()
        while line and b"mode" not in line:  # boxes may still be made
            line = answers["two"].readline()
        self.assertIn(b"mode", line)


if __name__ == "__main__":
    main()
