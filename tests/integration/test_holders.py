"""Who holds which box since when, what was done with it last, and leases that nobody gives back: in the API, on the command
line, in metrics, events and the log. And what an operator does then: destroy those that conditions name."""

import http.client
import json
import os
import pty
import subprocess

from fixtures import BIN, WAIT_S, Client, TestCase, free_port, main, wait_until
from hostile import as_nobody

TOKEN = "t" * 32


class Holders(TestCase):
    def serve(self, sim=None, **profile):
        self.port = free_port()
        daemon = self.daemon({"warm": {"min": 0, "max": 0}, **profile}, sim=sim, socket={"mode": "0666"},
                             tcp={"listen": f"127.0.0.1:{self.port}", "tokens": {"ci": TOKEN}})
        os.chmod(self.directory, 0o755)
        return daemon, self.client(daemon)

    def over_tcp(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_S)
        connection.request(method, path, json.dumps(body) if body else None, {"Authorization": f"Bearer {TOKEN}"})
        answer = json.loads(connection.getresponse().read())
        connection.close()
        return answer

    def cli(self, daemon, *args, status=0, **kw):
        done = subprocess.run([BIN / "sandpool", "--socket", daemon.socket, *args], capture_output=True, text=True,
                              timeout=WAIT_S, stdin=subprocess.DEVNULL, **kw)
        self.assertEqual(done.returncode, status, (args, done.stdout, done.stderr))
        return done

    def listed(self, client, query=""):
        """Those that have not ended."""
        return {b["thread_id"]: b for b in self.assertOk(client.get(f"/v1/sandboxes?{query}"))["sandboxes"]
                if b["state"] != "deleting"}

    def test_who_holds_what(self):
        daemon, client = self.serve()
        mine = self.assertOk(client.acquire("mine", user_id="ana"))
        self.assertOk(client.acquire("other", user_id="ben"))
        as_nobody(lambda: Client(daemon.socket).acquire("theirs", user_id="eve").status)
        self.over_tcp("POST", "/v1/acquire", {"thread_id": "remote"})
        wait_until(lambda: "root (uid 0)" in self.listed(client)["mine"]["principal_name"], "uids have names")
        wait_until(lambda: "nobody (uid 65534)" == self.listed(client)["theirs"]["principal_name"], "this one, too")
        boxes = self.listed(client)
        self.assertEqual(boxes["remote"]["principal_name"], "token ci")
        self.assertEqual(boxes["mine"]["principal"], "0" * 16)
        self.assertEqual((boxes["mine"]["last"]["verb"], boxes["mine"]["last"]["from"]), ("acquire", f"pid {os.getpid()}"))
        self.assertTrue(boxes["remote"]["last"]["from"].startswith("127.0.0.1:"), boxes["remote"]["last"])
        self.assertLess(boxes["mine"]["leased_s"], WAIT_S)
        self.assertOk(client.post(f"/v1/sandboxes/{mine['sandbox_id']}/renew"))
        self.assertEqual(self.listed(client)["mine"]["last"]["verb"], "renew")
        client.get(f"/v1/sandboxes/{mine['sandbox_id']}/jobs")
        self.assertEqual(self.listed(client)["mine"]["last"]["verb"], "jobs")
        self.assertOk(client.release(mine["sandbox_id"]))
        parked = self.listed(client)["mine"]
        self.assertEqual((parked["last"]["verb"], "leased_s" in parked, parked["principal"]), ("release", False, "0" * 16))
        self.assertEqual(set(self.listed(client, "principal=65534")), {"theirs"})
        self.assertEqual(set(self.listed(client, "principal=" + boxes["remote"]["principal"])), {"remote"})
        self.assertEqual(self.listed(client, "min_leased_s=3600"), {})
        self.assertEqual(self.listed(client, "min_idle_s=3600"), {})
        wait_until(lambda: set(self.listed(client, "min_leased_s=1&min_idle_s=1")) == {"other", "theirs", "remote"}, "a second")
        for wrong in ("principal=root", "min_leased_s=0", "min_idle_s=x", "leaking=2"):
            self.assertCode(client.get(f"/v1/sandboxes?{wrong}"), 422, "invalid_field")
        seen = as_nobody(lambda: Client(daemon.socket).get("/v1/sandboxes").json["sandboxes"])
        self.assertEqual([b["thread_id"] for b in seen], ["theirs"])
        self.on_the_command_line(daemon)

    def on_the_command_line(self, daemon):
        lines = self.cli(daemon, "ls", "--sort", "leased").stdout.splitlines()
        self.assertIn("PRINCIPAL", lines[0])
        self.assertIn("token ci", "\n".join(lines))
        self.assertLess([n for n, line in enumerate(lines) if " other " in line], [n for n, line in enumerate(lines)
                                                                                    if " remote " in line])
        groups = json.loads(self.cli(daemon, "ls", "--by", "principal", "--json").stdout)["groups"]
        self.assertEqual([(g["principal"], g["boxes"], g["leased"], g["parked"]) for g in groups],
                         [("root (uid 0)", 2, 1, 1), ("nobody (uid 65534)", 1, 1, 0), ("token ci", 1, 1, 0)])
        users = self.cli(daemon, "ls", "--by", "user").stdout.splitlines()
        self.assertEqual([line.split()[0] for line in users], ["USER", "ana", "ben", "default", "eve"])
        self.assertEqual([line.split()[:2] for line in self.cli(daemon, "ls", "--by", "profile").stdout.splitlines()[1:]],
                         [["default", "4"]])
        self.assertEqual(len(self.cli(daemon, "ls", "-q", "--principal", "65534").stdout.split()), 1)
        self.assertEqual(self.cli(daemon, "ls", "-q", "--leased-for", "1h").stdout, "")
        self.assertIn("one of user principal profile", self.cli(daemon, "ls", "--by", "many", status=2).stderr)

    # --- leases that nobody gives back ---

    def events(self, client, kind):
        text = client.get(f"/v1/events?since=0&follow=0&event={kind}").text
        return [json.loads(line[len("data: "):]) for line in text.splitlines() if line.startswith("data: ")]

    def test_a_lease_that_nobody_gives_back(self):
        daemon, client = self.serve(self.sim(), leak_after_s=1)
        lease = self.assertOk(client.acquire("t", user_id="ana"))
        wait_until(lambda: self.events(client, "leak"), "it is reported")
        event = self.events(client, "leak")[0]
        self.assertEqual((event["sandbox_id"], event["user_id"], event["thread_id"], event["last"], event["from"],
                          event["principal"]), (lease["sandbox_id"], "ana", "t", "acquire", f"pid {os.getpid()}", "0" * 16))
        self.assertGreaterEqual(event["held_s"], 1)
        line = wait_until(lambda: [text for text in daemon.process.output().splitlines() if "event=lease.leak " in text],
                          "the log: a thread of its own writes it")[0]
        self.assertTrue("level=warn" in line and "user=ana" in line and "last=acquire" in line, line)
        self.assertTrue(self.listed(client)["t"]["leaking"])
        self.assertEqual(set(self.listed(client, "leaking=1")), {"t"})
        self.assertEqual(client.get("/v1/pool").json["profiles"][0]["leaking"], 1)
        self.assertIn('sandpool_leases_leaking{profile="default"} 1\n', client.get("/metrics").text)
        self.assertIn("1 leases leak", self.cli(daemon, "pool").stdout)
        self.assertIn("leased leaking", self.cli(daemon, "ls", "--leaking").stdout)
        top = self.cli(daemon, "top", "--once").stdout
        self.assertTrue("1 leases leak" in top and "leaking" in top, top)
        self.assertOk(client.acquire("t", user_id="ana"))  # the same lease
        self.assertOk(client.post(f"/v1/sandboxes/{lease['sandbox_id']}/renew"))
        daemon.kill()
        daemon.start()
        client = self.client(daemon)
        wait_until(lambda: len(self.events(client, "leak")) == 2, "a restart reports it once more")
        self.assertOk(client.release(lease["sandbox_id"]))
        wait_until(lambda: len(self.events(client, "leak_over")) == 1, "its end, too")
        self.assertEqual(client.get("/v1/pool").json["profiles"][0]["leaking"], 0)
        self.assertIn('sandpool_lease_leaks_total{profile="default"} 1\n', client.get("/metrics").text)
        self.assertEqual(self.listed(client, "leaking=1"), {})
        self.assertEqual(len(self.events(client, "leak")), 2, "not again for every renewal")

    def test_it_is_set_while_leases_are_held(self):
        daemon, client = self.serve()
        for n in range(70):  # more than are reported in one turn
            self.assertOk(client.acquire(f"t{n}"))
        config = json.loads(daemon.config.read_text())
        config["profiles"]["default"]["leak_after_s"] = 1
        daemon.write_config(config)
        self.assertOk(client.post("/v1/pool/reload"))
        wait_until(lambda: client.get("/v1/pool").json["profiles"][0]["leaking"] == 70, "all are reported")
        self.assertEqual(len(self.events(client, "leak")), 70)
        daemon.stop()
        self.assertEqual(len([text for text in daemon.process.output().splitlines() if "lease.leak_over" in text]), 0)

    # --- destroy those that conditions name ---

    def test_destroy_where(self):
        daemon, client = self.serve()
        for user in ("ana", "ana", "ben"):
            self.assertOk(client.acquire(f"t{len(self.listed(client))}", user_id=user))
        dry = self.cli(daemon, "destroy", "--all", "--where", "user=ana", "--dry-run").stdout
        self.assertEqual(sorted(line.split()[4] for line in dry.splitlines()[1:]), ["t0", "t1"])
        ids = json.loads(self.cli(daemon, "rm", "--all", "--where", "user=ana", "--dry-run", "--json").stdout)
        self.assertEqual((ids["dry_run"], len(ids["sandboxes"])), (True, 2))
        self.assertEqual(len(self.listed(client)), 3, "nothing was destroyed")
        for wrong, words in ((("--where", "usr=ana"), "not 'usr=ana'"), (("--where", "user="), "not 'user='"),
                             (("--where", "idle-for=soon"), "not 'soon'"), (("--where", "leaking=0"), "not '0'"),
                             ((), "add --yes")):
            args = ("destroy", "--all", *wrong) + (("--yes",) if wrong else ())
            self.assertIn(words, self.cli(daemon, *args, status=2).stderr)
        self.assertIn("need --all", self.cli(daemon, "destroy", "t0", "--where", "user=ana", status=2).stderr)
        self.assertEqual(len(self.listed(client)), 3)
        self.cli(daemon, "destroy", "--all", "--where", "user=ana", "--where", "thread=t1", "--yes")
        self.assertEqual(set(self.listed(client)), {"t0", "t2"})
        for answer, left in (("n", {"t0", "t2"}), ("y", {"t2"})):
            shown = self.asked(daemon, answer, "destroy", "--all", "--where", "user=ana")
            self.assertIn("Destroy 1 sandbox with all that is in it? [y/N]", shown)
            self.assertIn("t0", shown)
            self.assertEqual(set(self.listed(client)), left)

    def asked(self, daemon, answer, *args):
        """With a terminal as its input."""
        near, far = pty.openpty()
        process = subprocess.Popen([BIN / "sandpool", "--socket", daemon.socket, *args], stdin=far, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        os.close(far)
        os.write(near, answer.encode() + b"\n")
        out, err = process.communicate(timeout=WAIT_S)
        os.close(near)
        return out + err


if __name__ == "__main__":
    main()
