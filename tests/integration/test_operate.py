"""What operators do: look, pause, resume, drain, reload, follow events; who may do it."""

import json
import os
import signal
import socket
import stat
import time
import unittest
import urllib.error
import urllib.request

from fixtures import WAIT_S, Client, TestCase, UnixConnection, at_most, main, wait_until


class Modes(TestCase):
    def test_pause_holds_new_leases_and_resume_serves_them(self):
        daemon = self.daemon({"warm": {"min": 1, "max": 1}})
        client = self.client(daemon)
        lease = self.assertOk(client.acquire("a"))
        self.assertEqual(self.assertOk(client.post("/v1/pool/pause"))["mode"], "paused")
        self.assertEqual(self.assertOk(client.acquire("a"))["source"], "kept")
        self.assertCode(client.acquire("b", wait_ms=100), 503, "paused")
        self.assertEqual(client.get("/readyz").status, 503)
        self.assertOk(client.post("/v1/pool/resume"))
        self.assertOk(client.acquire("b"))
        self.assertOk(client.release(lease["sandbox_id"]))

    def test_drain_refuses_empties_and_survives_a_restart(self):
        daemon = self.daemon({"warm": {"min": 2, "max": 2}}, sim=self.sim())
        client = self.client(daemon)
        self.wait_blank(client, 2)
        lease = self.assertOk(client.acquire("a"))
        self.assertOk(client.post("/v1/pool/drain", {"evict_parked": True}))
        self.assertCode(client.acquire("b"), 503, "draining")
        wait_until(lambda: client.get("/v1/pool").json["total"] == 1, "only the lease is left")
        daemon.restart()
        client = self.client(daemon)
        self.assertEqual(client.get("/v1/pool").json["mode"], "draining")
        self.assertEqual(self.assertOk(client.acquire("a"))["box_id"], lease["box_id"])
        self.assertOk(client.post("/v1/pool/resume"))
        self.wait_blank(client, 2)

    def test_one_profile_is_drained_with_a_message_and_stays_so_after_a_restart(self):
        one = {"backend": "sim", "warm": {"min": 1, "max": 1}, "sim": {"socket": str(self.sim().socket)}}
        daemon = self.daemon(profiles={"default": one, "gpu": one})
        client = self.client(daemon)
        self.wait_blank(client, 2)
        said = self.assertOk(client.post("/v1/pool/drain", {"profile": "gpu", "message": "new cards: back at 14:00"}))
        self.assertEqual((said["mode"], said["profiles"]),
                         ("running", [{"name": "gpu", "mode": "draining", "message": "new cards: back at 14:00"}]))
        for _ in range(2):
            refused = client.acquire("b", profile="gpu")
            self.assertCode(refused, 503, "draining")
            self.assertEqual(refused.json["error"]["message"], "no new leases: new cards: back at 14:00")
            self.assertOk(client.acquire("a"))
            gpu = next(p for p in client.get("/v1/pool").json["profiles"] if p["name"] == "gpu")
            self.assertEqual((gpu["mode"], gpu["blank"], gpu["ready"], gpu["reason"]),
                             ("draining", 0, False, "the profile is draining: new cards: back at 14:00"))
            self.assertEqual(client.get("/readyz").status, 200)
            daemon.restart()
            client = self.client(daemon)
        self.assertCode(client.post("/v1/pool/pause", {"profile": "none"}), 404, "not_found")
        self.assertCode(client.post("/v1/pool/pause", {"message": "a\nb"}), 422, "invalid_field")
        self.assertCode(client.post("/v1/pool/resume", {"message": "a"}), 422, "invalid_field")
        self.assertEqual(self.assertOk(client.post("/v1/pool/resume", {"profile": "gpu"}))["profiles"], [])
        self.assertOk(client.acquire("b", profile="gpu"))

    def test_the_message_of_a_paused_pool_survives_a_restart(self):
        daemon = self.daemon({})
        self.assertOk(self.client(daemon).post("/v1/pool/pause", {"message": "moving to new disks"}))
        daemon.restart()
        client = self.client(daemon)
        self.assertEqual(client.acquire("a", wait_ms=0).json["error"]["message"], "no new leases: moving to new disks")
        self.assertEqual(client.get("/readyz").json["reason"], "the pool is paused: moving to new disks")


class Reload(TestCase):
    def config(self, **profile):
        return {"profiles": {"default": {"backend": "sim", **profile}}}

    def test_sighup_applies_a_good_file(self):
        daemon = self.daemon({"warm": {"min": 1, "max": 4}})
        client = self.client(daemon)
        self.wait_blank(client, 1)
        daemon.write_config({**self.config(warm={"min": 3, "max": 4}),
                             "log": {"level": "debug"}})
        daemon.process.child.send_signal(signal.SIGHUP)
        self.wait_blank(client, 3)

    def test_a_bad_file_changes_nothing(self):
        daemon = self.daemon({"warm": {"min": 1, "max": 4}})
        client = self.client(daemon)
        daemon.write_config({**self.config(warm={"min": 3, "max": 4}), "pool": {"max_boxs": 5}})
        answer = client.post("/v1/pool/reload")
        self.assertEqual(answer.status, 422)
        self.assertIn("max_boxes", answer.json["error"]["message"])  # did you mean
        self.assertEqual(client.get("/v1/pool").json["profiles"][0]["target"], 1)

    def test_what_cannot_change_is_named(self):
        daemon = self.daemon({"warm": {"min": 1, "max": 4}})
        client = self.client(daemon)
        daemon.write_config({**self.config(), "pool": {"max_boxes": 77}})
        answer = client.post("/v1/pool/reload")
        self.assertEqual(answer.status, 422)
        self.assertIn("pool.max_boxes", answer.json["error"]["message"])

    def test_drift_replaces_blank_boxes_and_keeps_leased_ones(self):
        daemon = self.daemon({"warm": {"min": 2, "max": 2}, "env": {"A": "1"}})
        client = self.client(daemon)
        self.wait_blank(client, 2)
        lease = self.assertOk(client.acquire("t"))
        self.wait_blank(client, 2)
        old = {b["box_id"] for b in client.get("/v1/sandboxes?state=blank").json["sandboxes"]}
        daemon.write_config(self.config(warm={"min": 2, "max": 2}, env={"A": "2"}))
        self.assertOk(client.post("/v1/pool/reload"))

        def replaced():
            now = {b["box_id"] for b in client.get("/v1/sandboxes?state=blank").json["sandboxes"]}
            return len(now) == 2 and not now & old

        wait_until(replaced, "blank boxes are replaced")
        self.assertEqual(self.assertOk(client.acquire("t"))["box_id"], lease["box_id"])

    def test_a_removed_profile_keeps_its_leases(self):
        daemon = self.daemon(profiles={"default": {"backend": "sim"},
                                       "extra": {"backend": "sim", "warm": {"min": 1, "max": 1}}})
        client = self.client(daemon)
        lease = self.assertOk(client.acquire("t", profile="extra"))
        daemon.write_config({"profiles": {"default": {"backend": "sim"}}})
        self.assertOk(client.post("/v1/pool/reload"))
        self.assertOk(client.get("/v1/sandboxes/" + lease["sandbox_id"]))
        self.assertCode(client.acquire("u", profile="extra"), 422, "invalid_field")
        self.assertOk(client.release(lease["sandbox_id"], destroy=True))


class Events(TestCase):
    def read_events(self, client, target, headers=None):
        text = client.get(target, headers=headers or {}).text
        events = []
        for block in text.strip().split("\n\n"):
            fields = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line)
            if "data" in fields:
                events.append((int(fields.get("id", 0)), fields["event"],
                               json.loads(fields["data"])))
        return events

    def test_events_tell_the_story_and_resume_by_id(self):
        daemon = self.daemon({"warm": {"min": 1, "max": 1}}, sim=self.sim())
        client = self.client(daemon)
        lease = self.assertOk(client.acquire("t"))
        self.assertOk(client.release(lease["sandbox_id"]))
        events = self.read_events(client, "/v1/events?since=0&follow=0")
        ids = [e[0] for e in events]
        self.assertEqual(ids, list(range(ids[0], ids[0] + len(ids))))
        kinds = [e[1] for e in events if e[2].get("box_id") == lease["box_id"]]
        self.assertEqual([k for k in kinds if k in ("created", "ready", "leased", "parked")],
                         ["created", "ready", "leased", "parked"])
        rest = self.read_events(client, "/v1/events?follow=0",
                                {"Last-Event-ID": str(ids[2])})
        self.assertEqual([e[0] for e in rest][:len(ids) - 3], ids[3:])
        daemon.restart()
        client = self.client(daemon)
        again = self.read_events(client, "/v1/events?since=0&follow=0")
        self.assertEqual([e[0] for e in again][:len(ids)], ids)
        self.assertCode(client.get("/v1/events?since=x"), 422, "invalid_field")

    def test_a_follower_sees_events_as_they_happen(self):
        daemon = self.daemon({"warm": {"min": 1, "max": 1}})
        client = self.client(daemon)
        self.wait_blank(client, 1)
        connection = UnixConnection(daemon.socket, 20)
        self.addCleanup(connection.close)
        connection.request("GET", "/v1/events")
        response = connection.getresponse()
        self.assertEqual(response.getheader("Content-Type"), "text/event-stream")
        lease = self.assertOk(client.acquire("t"))
        while True:
            line = response.readline().decode()
            self.assertTrue(line, "the stream ended")
            if line.startswith("data:") and lease["sandbox_id"] in line:
                break
        # A follower does not hold up a stop: its stream ends.
        start = time.monotonic()
        daemon.restart()
        self.assertLess(time.monotonic() - start, at_most(1.5))
        response.read()  # ends
        client = self.client(daemon)
        connection = UnixConnection(daemon.socket, 20)
        self.addCleanup(connection.close)
        connection.request("GET", "/v1/events")
        connection.getresponse()
        # The stream of a reader that left does not disturb the daemon.
        connection.close()
        lease = self.assertOk(client.acquire("t"))
        self.assertOk(client.release(lease["sandbox_id"]))


class Access(TestCase):
    def test_socket_mode_and_tokens_on_tcp(self):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        daemon = self.daemon(start=False, socket={"mode": "0600"}, tcp={
            "listen": f"127.0.0.1:{port}", "operators": "admin",
            "tokens": {"ci": "ci-token-0123456789", "admin": "${ADMIN_TOKEN}"}})
        daemon.env["ADMIN_TOKEN"] = "admin-token-0123456789"
        daemon.start()
        self.assertEqual(stat.S_IMODE(os.stat(daemon.socket).st_mode), 0o600)

        def call(target, token=None, method="GET", body=None):
            request = urllib.request.Request(f"http://127.0.0.1:{port}{target}", method=method,
                                             data=json.dumps(body).encode() if body else None)
            if token:
                request.add_header("Authorization", "Bearer " + token)
            try:
                with urllib.request.urlopen(request, timeout=20) as response:
                    return response.status, json.loads(response.read())
            except urllib.error.HTTPError as refusal:
                return refusal.code, json.loads(refusal.read())

        self.assertEqual(call("/healthz")[0], 200)
        self.assertEqual(call("/v1/pool")[0], 401)
        self.assertEqual(call("/v1/pool", "ci-token-012345678x")[0], 401)
        self.assertEqual(call("/v1/pool", "ci-token-0123456789")[0], 200)
        self.assertEqual(call("/v1/pool/pause", "ci-token-0123456789", "POST")[0], 403)
        self.assertEqual(call("/v1/pool/resume", "admin-token-0123456789", "POST")[0], 200)
        status, lease = call("/v1/acquire", "ci-token-0123456789", "POST", {"thread_id": "t"})
        self.assertEqual(status, 200)
        self.assertTrue(lease["token"])
        # An operator sees the box, but its token is the owner's; log and config print hide both.
        client = self.client(daemon)
        seen = self.assertOk(client.get("/v1/sandboxes/" + lease["sandbox_id"]))
        self.assertNotIn("token", seen)
        self.assertNotIn("token-0123", daemon.process.output())
        self.assertNotIn(lease["token"], daemon.process.output())

    @unittest.skipUnless(os.geteuid() == 0, "needs root to become another user")
    def test_another_user_sees_only_its_own(self):
        daemon = self.daemon(socket={"mode": "0666"})
        os.chmod(self.directory, 0o755)
        client = self.client(daemon)
        lease = self.assertOk(client.acquire("t"))
        wait_until(lambda: "disk" in client.get("/v1/pool").json, "the disk was looked at")
        self.assertEqual(client.get("/v1/pool").json["disk"]["dir"], str(daemon.state))
        pid = os.fork()
        if pid == 0:  # the other user
            os.setgid(65534)
            os.setuid(65534)
            try:
                own = Client(daemon.socket)
                one = own.get("/v1/sandboxes/" + lease["sandbox_id"])
                taken = own.acquire("t")
                released = own.release(lease["sandbox_id"])
                paused = own.post("/v1/pool/pause")
                listed = own.get("/v1/sandboxes").json["sandboxes"]
                paths = ("/v1/sandboxes/" + lease["sandbox_id"], "/v1/sandboxes/box:" + lease["box_id"])
                unseen = [own.post(p + what).status for p in paths for what in ("/pause", "/renew", "/release", "/resume")]
                unseen += [own.delete(p).status for p in paths] + [own.get(p).status for p in paths]
                assert set(unseen) == {404}, unseen  # as if there were none
                assert "dir" not in own.get("/v1/pool").json["disk"]
                good = (one.status, taken.status, released.status, paused.status, listed) == \
                    (404, 403, 404, 403, [])
                os._exit(0 if good else 1)
            except BaseException:
                os._exit(2)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0)


class Adopted(TestCase):
    @unittest.skipUnless(os.geteuid() == 0, "needs root to become another user")
    def test_a_lost_database_opens_no_box_to_another_user(self):
        sim = self.sim()
        os.chmod(self.directory, 0o755)
        daemon = self.daemon({"warm": {"min": 1, "max": 1}}, sim=sim, instance="fixed",
                             socket={"mode": "0666"})
        lease = self.assertOk(self.client(daemon).acquire("t"))
        daemon.stop()
        for file in daemon.state.glob("sandpool.db*"):
            file.unlink()
        daemon.start()
        client = self.client(daemon)
        wait_until(lambda: client.get("/v1/pool").json["by_state"]["parked"] == 1, "adopted")
        pid = os.fork()
        if pid == 0:  # the other user
            os.setgid(65534)
            os.setuid(65534)
            try:
                own = Client(daemon.socket)
                taken = own.acquire("t").status
                deleted = own.delete("/v1/sandboxes/" + lease["sandbox_id"]).status
                os._exit(0 if (taken, deleted) == (403, 404) else 1)
            except BaseException:
                os._exit(2)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0)
        self.assertEqual(self.assertOk(client.acquire("t"))["token"], lease["token"])


class Check(TestCase):
    def test_check_prints_and_points(self):
        daemon = self.daemon(start=False)
        good = daemon.spawn(args=["--check"])
        self.assertEqual(good.child.wait(20), 0)
        daemon.write_config("profiles:\n  default:\n    warm: {mim: 4}\n")
        bad = daemon.spawn(args=["--check"])
        self.assertEqual(bad.child.wait(20), 1)
        self.assertIn("sandpool.yaml:3:12", bad.output())
        self.assertIn("did you mean 'min'", bad.output())

    def test_check_finds_what_cannot_work(self):
        daemon = self.daemon(start=False)
        for profile, words in (
                ("{backend: oci, image: 'debian:12'}", "must say where the image is: docker://debian:12"),
                ("{backend: oci, runtime: nosuch}", "must be crun, runc, runsc or the absolute path"),
                ("{backend: oci, runtime: /usr/bin/nosuch}", "there is no program '/usr/bin/nosuch'"),
                ("{backend: oci, limits: {memory: 1GB}}", "must be a size like 512M or 1G")):
            daemon.write_config(f"profiles:\n  default: {profile}\n")
            bad = daemon.spawn(args=["--check"])
            self.assertEqual(bad.child.wait(20), 1, profile)
            self.assertIn(words, bad.output())

    def test_a_start_that_fails_leaks_nothing(self):
        """What a sanitizer finds at the end would be printed after the reason."""
        daemon = self.daemon(start=False)
        daemon.write_config("nonsense: 1\n")
        bad = daemon.spawn()
        self.assertEqual(bad.child.wait(WAIT_S), 1)
        self.assertRegex(bad.output(), r"\A\S*sandpoold: .*unknown key 'nonsense'\n\Z")

    def test_a_start_that_fails_late_leaks_nothing(self):
        """Backends are open by then, and are closed again."""
        daemon = self.daemon(start=False)
        daemon.write_config('log: {level: error}\nmounts: {allow: [/srv]}\n'
                            'profiles:\n'
                            '  default: {backend: sim}\n'
                            '  other: {backend: sim, sim: {late: false}, mounts: ["/srv/{user_id}:/data"]}\n')
        bad = daemon.spawn()
        self.assertEqual(bad.child.wait(WAIT_S), 1, bad.output())
        self.assertRegex(bad.output(), r"\A\S*sandpoold: profile 'other': mounts with .* do not\n\Z")


if __name__ == "__main__":
    main()
