"""Late binding: envs, mounts and limits of an acquire reach the box before the reply does; what is
refused; and what the backends show an operator."""

import http.client
import json
import os
import socket
import subprocess
import time

from extras import MIB, ExtrasCase, failing, slow
from fixtures import BIN, in_threads, main, wait_until
from hostile import as_nobody


class Events:
    """What the journal has, read as it comes."""

    def __init__(self, daemon):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.connect(str(daemon.socket))
        self.sock.settimeout(0.2)
        self.sock.sendall(b"GET /v1/events?since=0 HTTP/1.1\r\nHost: x\r\nLast-Event-ID: 0\r\n\r\n")
        self.text = ""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.sock.close()

    def of_kind(self, kind):
        try:
            self.text += self.sock.recv(65536).decode()
        except TimeoutError:
            pass
        found, now = [], None
        for line in self.text.splitlines():
            if line.startswith("event: "):
                now = line[7:]
            elif line.startswith("data: ") and now == kind:
                found.append(json.loads(line[6:]))
        return found


class TestWhoMay(ExtrasCase):
    def test_only_operators_go_beyond_the_limits_of_a_profile(self):
        client = self.start({"limits": {"memory": "256M", "cpus": 1, "pids": 50}},
                            socket={"mode": "0666"})
        os.chmod(self.directory, 0o755)
        more = ({"memory": "257M"}, {"cpus": 1.001}, {"pids": 51})
        seen = as_nobody(lambda: [self.server.acquire("n", limits=limits).json for limits in more]
                         + [self.server.acquire("n", limits={"memory": "256M", "cpus": 1,
                                                             "pids": 50}).json])
        for answer in seen[:3]:
            self.assertEqual(answer["error"]["code"], "forbidden", answer)
            self.assertIn("more than profile 'default' gives", answer["error"]["message"])
        self.assertEqual(seen[3]["state"], "leased")
        for i, limits in enumerate(more):
            self.assertOk(client.acquire(f"t{i}", limits=limits))


class TestApplied(ExtrasCase):
    def test_everything_is_there_before_the_reply(self):
        client = self.start()
        begun = time.monotonic()
        lease = self.assertOk(client.acquire(
            "t1", envs=slow(300, API_KEY="sesame", EMPTY=""),
            mounts=[{"host_path": "/srv/data/a", "container_path": "/data"},
                    {"host_path": "/opt/sets", "container_path": "/home/user/sets",
                     "read_only": True}],
            limits={"memory": "512M", "cpus": 1.5, "pids": 99}))
        self.assertGreater(time.monotonic() - begun, 0.29)
        self.assertEqual(lease["source"], "warm")  # customised, and still a warm box
        self.assertGreater(lease["timings_ms"]["total"], 290)
        self.assertEqual(self.updates(lease), [{
            "envs": {"SIM_UPDATE_MS": "300", "API_KEY": "sesame", "EMPTY": ""},
            "mounts": [
                {"host_path": "/srv/data/a", "box_path": "/data", "is_read_only": False},
                {"host_path": "/opt/sets", "box_path": "/home/user/sets", "is_read_only": True}],
            "memory": 512 * MIB, "cpus": 1500, "pids": 99}])

    def test_one_of_each_alone(self):
        client = self.start()
        for thread, fields in (("a", {"envs": {"A": "1"}}), ("d", {"limits": {"cpus": 2}}),
                               ("b", {"mounts": [{"host_path": "/srv/data",
                                                  "container_path": "/d"}]}),
                               ("c", {"limits": {"memory": 64 * MIB}})):
            self.assertEqual(len(self.updates(self.assertOk(client.acquire(thread, **fields)))), 1)

    def test_nothing_asked_is_nothing_done(self):
        client = self.start()
        lease = self.assertOk(client.acquire("t1", envs={}, mounts=[], limits={}))
        self.assertEqual(self.updates(lease), [])
        lease = self.assertOk(client.acquire("t2", envs=None, mounts=None, limits=None))
        self.assertEqual(self.updates(lease), [])

    def test_cold_kept_and_parked_boxes(self):
        client = self.start({"warm": {"min": 0, "max": 0}})
        lease = self.assertOk(client.acquire("t1", envs={"A": "1"}))
        self.assertEqual((lease["source"], len(self.updates(lease))), ("cold", 1))
        again = self.assertOk(client.acquire("t1", envs={"B": "2"}))
        self.assertEqual((again["source"], again["box_id"]), ("kept", lease["box_id"]))
        self.assertOk(client.release(lease["sandbox_id"]))
        again = self.assertOk(client.acquire("t1", envs={"C": "3"}))
        self.assertEqual((again["source"], again["box_id"]), ("parked", lease["box_id"]))
        self.assertEqual([u["envs"] for u in self.updates(lease)],
                         [{"A": "1"}, {"B": "2"}, {"C": "3"}])

    def test_the_machine_in_the_daemon_can_too(self):
        client = self.client(self.daemon())
        self.assertOk(client.acquire("t1", envs=slow(20)))
        self.assertCode(client.acquire("t2", envs=failing("forbidden")), 403, "forbidden")
        self.assertOk(client.acquire("t2"))

    def test_values_are_told_to_nobody(self):
        client = self.start(log={"level": "debug"})
        lease = self.assertOk(client.acquire(
            "t1", envs={"API_KEY": "open-sesame"}, limits={"pids": 9},
            mounts=[{"host_path": "/srv/data/secretdir", "container_path": "/d"}]))
        self.assertCode(client.acquire("t1", envs=failing(API_KEY="open-sesame")), 502,
                        "backend_failed")
        with Events(self.server) as events:
            seen = wait_until(lambda: events.of_kind("updated"), "the event")
        self.assertEqual((seen[0]["sandbox_id"], seen[0]["envs"], seen[0]["mounts"],
                          seen[0]["limits"]), (lease["sandbox_id"], 1, 1, 1))
        self.assertIn("box.updated", self.server.log.read_text())
        self.server.stop()
        for path in [self.server.log, *self.server.state.iterdir()]:
            self.assertNotIn(b"open-sesame", path.read_bytes(), path)
            self.assertNotIn(b"secretdir", path.read_bytes(), path)

    def test_many_at_once(self):
        self.start({"warm": {"min": 8, "max": 8}}, pool={"max_boxes": 100})
        leases = in_threads(40, lambda i: self.assertOk(self.server.acquire(
            f"t{i}", envs=slow(5 * (i % 5), WHO=str(i)))))
        self.assertEqual(len({lease["box_id"] for lease in leases}), 40)
        boxes = self.machine.boxes()
        for i, lease in enumerate(leases):
            self.assertEqual([u["envs"]["WHO"] for u in boxes[lease["box_id"]]["updates"]], [str(i)])


class TestDeadline(ExtrasCase):
    def test_a_caller_waits_no_longer_than_it_wanted_to(self):
        """The box would have what was asked for after 4 s."""
        client = self.start()
        self.assertCode(client.acquire("t1", envs=slow(4000), wait_ms=500), 504, "timeout")
        self.assertOk(client.acquire("t1", wait_ms=30000))


class TestRefused(ExtrasCase):
    def test_each_refusal(self):
        client = self.start()

        def mount(host="/srv/data/a", box="/d", **more):
            return {"mounts": [{"host_path": host, "container_path": box, **more}]}

        bad = [
            ({"envs": []}, "'envs' must be an object"),
            ({"envs": {"1A": "x"}}, "'1A' cannot be the name"),
            ({"envs": {"A=B": "x"}}, "'A=B' cannot be the name"),
            ({"envs": {"": "x"}}, "cannot be the name"),
            ({"envs": {"A": 1}}, "the value of 'A' must be a text"),
            ({"envs": {"A": None}}, "the value of 'A' must be a text"),
            ({"envs": {f"A{i}": "" for i in range(65)}}, "more than 64 variables"),
            ({"envs": {"A": "x" * 32768}}, "longer than 32768 bytes"),
            ({"mounts": {}}, "'mounts' must be a list"),
            ({"mounts": ["/srv/data:/d"]}, "'mounts' must be a list of objects"),
            ({"mounts": [{"host_path": "/srv/data"}]}, "'container_path' must be an absolute"),
            ({"mounts": [{"container_path": "/d"}]}, "'host_path' must be an absolute"),
            (mount(source="x"), "unknown field 'source'"),
            (mount(read_only="yes"), "'read_only'"),
            (mount("srv/data"), "'host_path' must be an absolute"),
            (mount("/srv/data/../x"), "'host_path' must be an absolute"),
            (mount("/srv/data/"), "'host_path' must be an absolute"),
            (mount("/srv//data"), "'host_path' must be an absolute"),
            (mount("/srv/data/\u0001"), "'host_path' must be an absolute"),
            (mount("/srv/data/" + "x" * 300), "'host_path'"),
            (mount(box="d"), "'container_path' must be an absolute"),
            (mount(box="/a/../proc"), "'container_path' must be an absolute"),
            *[(mount(box=box), "cannot be covered") for box in
              ("/", "/proc", "/proc/1", "/sys", "/dev", "/dev/shm", "/.sandpool", "/.sandpool/a")],
            ({"mounts": [{"host_path": "/srv/data", "container_path": "/d"}] * 2},
             "'/d' is given twice"),
            ({"mounts": [{"host_path": "/srv/data", "container_path": f"/d{i}"}
                         for i in range(17)]}, "more than 16 entries"),
            ({"limits": []}, "'limits' must be an object"),
            ({"limits": {"disk": 5}}, "unknown field 'disk'"),
            ({"limits": {"memory": 16 * MIB - 1}}, "'memory' must be"),
            ({"limits": {"memory": 0}}, "'memory' must be"),
            ({"limits": {"memory": "2T"}}, "'memory' must be"),
            ({"limits": {"memory": "much"}}, "'memory' must be"),
            ({"limits": {"memory": True}}, "'memory' must be"),
            ({"limits": {"memory": 1.5}}, "'memory' must be"),
            ({"limits": {"cpus": 0}}, "'cpus' must be"),
            ({"limits": {"cpus": -1}}, "'cpus' must be"),
            ({"limits": {"cpus": 1025}}, "'cpus' must be"),
            ({"limits": {"cpus": "1"}}, "'cpus' must be"),
            ({"limits": {"pids": 0}}, "'pids'"),
            ({"limits": {"pids": 4194305}}, "'pids'"),
        ]
        for fields, text in bad:
            answer = client.acquire("t1", **fields)
            self.assertCode(answer, 422, "invalid_field")
            self.assertIn(text, answer.json["error"]["message"], fields)
        for host in ("/etc", "/srv", "/srv/database", "/", "/opt"):
            answer = client.acquire("t1", **mount(host))
            self.assertCode(answer, 403, "forbidden")
            self.assertIn("mounts.allow", answer.json["error"]["message"])
        self.assertCode(client.acquire("t1", snapshot_id="s"), 404, "not_found")
        self.assertEqual(self.boxes_of("t1"), [])
        self.assertEqual(self.machine.client.get("/stats").json["destroyed"], 0)

    def test_the_largest_that_is_taken(self):
        client = self.start()
        mounts = [{"host_path": "/srv/data/" + "\"" * 240, "container_path": f"/d{i}"}
                  for i in range(16)]
        envs = {f"A{i}": "\u0001" * 490 for i in range(64)}
        lease = self.assertOk(client.acquire("t1", envs=envs, mounts=mounts,
                                             limits={"memory": "1T", "cpus": 1024,
                                                     "pids": 4194304}))
        self.assertEqual(self.updates(lease)[0]["envs"], envs)
        lease = self.assertOk(client.acquire("t2", limits={"memory": "16M", "cpus": 0.01,
                                                           "pids": 1}))
        self.assertEqual(self.updates(lease)[0]["cpus"], 10)

    def test_no_mounts_without_permission(self):
        client = self.start(mounts={"allow": []})
        answer = client.acquire("t1", mounts=[{"host_path": "/srv/data", "container_path": "/d"}])
        self.assertCode(answer, 403, "forbidden")


class TestCommandLine(ExtrasCase):
    def acquire(self, *args, status=0):
        done = subprocess.run([BIN / "sandpool", "acquire", *args], capture_output=True, text=True,
                              timeout=60,
                              env={**os.environ, "SANDPOOL_SOCKET": str(self.server.socket)})
        self.assertEqual(done.returncode, status, (args, done.stdout, done.stderr))
        return done

    def test_options(self):
        self.start()
        done = self.acquire("t1", "--env", "A=1", "--env", "B=x=y", "--env", "A=",
                            "--mount", "/srv/data:/a", "--mount", "/srv/data/b:/b:ro",
                            "--mount", "/opt/sets:/c:rw", "--memory", "512M", "--cpus", "1.5",
                            "--pids", "9", "--json")
        self.assertEqual(self.updates(json.loads(done.stdout)), [{
            "envs": {"A": "", "B": "x=y"},
            "mounts": [{"host_path": "/srv/data", "box_path": "/a", "is_read_only": False},
                       {"host_path": "/srv/data/b", "box_path": "/b", "is_read_only": True},
                       {"host_path": "/opt/sets", "box_path": "/c", "is_read_only": False}],
            "memory": 512 * MIB, "cpus": 1500, "pids": 9}])
        for bad in (("--env", "A"), ("--env", "=x"), ("--mount", "/a"), ("--mount", "a:/b"),
                    ("--mount", "/a:b"), ("--mount", "/a:/b:wr"), ("--mount", "/a:/b:ro:"),
                    ("--cpus", "many"), ("--cpus", "-1"), ("--cpus", "1x"), ("--pids", "x")):
            self.acquire("t1", *bad, status=2)
        self.assertIn("mounts.allow", self.acquire("t1", "--mount", "/etc:/e", status=1).stderr)


class TestDoctor(ExtrasCase):
    def test_findings(self):
        client = self.start()
        answer = self.assertOk(client.get("/v1/doctor"))
        self.assertTrue(answer["ok"])
        self.assertEqual([b["name"] for b in answer["backends"]], [f"sim:{self.machine.socket}", "machine", "disk", "database", "profiles"])
        self.assertEqual([(f["level"], f["subject"]) for f in answer["backends"][0]["findings"]],
                         [("ok", "sandpool-sim"), ("warn", "simulated boxes")])
        self.assertTrue(all(f["text"] for f in answer["backends"][0]["findings"]))
        self.machine.kill()
        answer = self.assertOk(client.get("/v1/doctor"))
        self.assertFalse(answer["ok"])
        self.assertEqual(answer["backends"][0]["findings"][0]["level"], "fail")

    def test_the_machine_in_the_daemon(self):
        client = self.client(self.daemon())
        answer = self.assertOk(client.get("/v1/doctor"))
        self.assertEqual(answer["backends"][0]["findings"][0]["level"], "warn")
        self.assertTrue(answer["ok"])

    def test_only_for_operators(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.daemon(tcp={"listen": f"127.0.0.1:{port}",
                         "tokens": {"bob": "0123456789abcdef", "eve": "fedcba9876543210"},
                         "operators": ["eve"]})
        for token, status in (("0123456789abcdef", 403), ("fedcba9876543210", 200)):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
            connection.request("GET", "/v1/doctor", headers={"Authorization": f"Bearer {token}"})
            self.assertEqual(connection.getresponse().status, status)
            connection.close()


if __name__ == "__main__":
    main()
