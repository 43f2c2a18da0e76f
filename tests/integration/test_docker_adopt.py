"""Containers that another process started under `{adopt_prefix}-{id}`: the first who acquires that id gets them, and
until then nobody touches them."""

import json
import signal

from engine_case import EngineCase
from fixtures import main, wait_until

PREFIX = "deer-flow-sandbox"
ID = "fe0dc8182dec7b77"  # of default:thread-1
SERVE = ("/bin/sh", "-c", "/bin/busybox mkdir -p /tmp/v1 && echo '{}' >/tmp/v1/sandbox && "
         "exec /bin/busybox httpd -f -p 8080 -h /tmp")


class Adopt:
    def deer(self, sandbox_id=ID, command=SERVE, **labels):
        return self.foreign(f"{PREFIX}-{sandbox_id}", labels, command, ExposedPorts={"8080/tcp": {}}, HostConfig={
            "PortBindings": {"8080/tcp": [{"HostIp": "127.0.0.1", "HostPort": ""}]}})

    def adopting(self, prefix=PREFIX, **fields):
        return self.daemon_on({"default": self.config(
            discover=True, docker={"adopt_prefix": prefix} if prefix else {}, **{"warm": 0, **fields})})

    def lease(self, daemon, thread="thread-1", **fields):
        answer = daemon.acquire(thread, user_id="default", **fields)
        self.assertEqual(answer.status, 200, (answer, daemon.process.output()[-2000:]))
        return answer.json

    def reconcile(self, daemon, times=3):
        client = self.client(daemon)
        for _ in range(times):
            self.assertEqual(client.post("/v1/pool/reconcile").json["backends_failed"], 0)

    def test_found_kept_destroyed(self):
        container = self.deer()
        daemon = self.adopting()
        lease = self.lease(daemon)
        self.assertEqual((lease["sandbox_id"], lease["source"], lease["box_id"]), (ID, "discovered", container[:16]))
        ports = self.engine.json("GET", f"/containers/{container}/json")["NetworkSettings"]["Ports"]["8080/tcp"]
        self.assertEqual(lease["sandbox_url"], f"http://127.0.0.1:{ports[0]['HostPort']}")
        self.assertFalse(lease.get("token"))
        self.reconcile(daemon)
        self.assertEqual(self.lease(daemon)["source"], "kept")
        for stop in (daemon.stop, daemon.kill):
            stop()
            daemon.start()
            self.assertEqual((self.lease(daemon)["box_id"], self.events(daemon, "lost")), (container[:16], []))
        self.assertIs(self.get(daemon, f"/v1/sandboxes/{ID}?alive=1").json["alive"], True)
        self.assertEqual(self.engine.json("GET", f"/containers/{container}/json")["Name"].lstrip("/"), f"{PREFIX}-{ID}")
        # what cannot be done to it does not end it
        self.assertEqual(daemon.acquire("thread-1", user_id="default", envs={"A": "b"}).status, 501)
        self.assertTrue(self.is_running(container))
        client = self.client(daemon)
        self.assertEqual(client.release(ID).status, 200)
        self.assertEqual(self.lease(daemon)["source"], "parked")
        self.assertEqual(client.delete(f"/v1/sandboxes/{ID}").status, 200)
        wait_until(lambda: not self.is_running(container), "its owner has ended it")
        self.assertEqual(self.lease(daemon)["source"], "cold")

    def test_unclaimed_are_left_alone(self):
        """Also those of other daemons, whoever asks for them."""
        free = self.deer("aaaaaaaaaaaaaaaa")
        theirs = self.deer(ID, **{"sandpool.instance": "somebody", "sandpool.box": "00000000000000aa"})
        other = self.foreign("deer-flow-sandboxes-1")
        daemon = self.adopting()
        self.reconcile(daemon)
        self.assertNotEqual(self.lease(daemon)["source"], "discovered")
        self.assertEqual(len(self.rows(daemon)), 1)
        daemon.restart()
        self.reconcile(daemon)
        daemon.stop()
        daemon.args = ["--destroy-on-exit"]
        daemon.start()
        daemon.stop()
        for container in (free, theirs, other):
            self.assertTrue(self.is_running(container))
        daemon.args = []
        daemon.start()

    def test_one_that_does_not_answer(self):
        container = self.deer(command=("/bin/sleep", "1000"))
        daemon = self.adopting()
        lease = self.lease(daemon)
        self.assertEqual(lease["source"], "cold")
        self.assertIn("box.not_adopted", daemon.process.output())
        self.assertTrue(self.is_running(container))

    def test_death_and_another_name(self):
        container = self.deer()
        daemon = self.adopting()
        self.assertEqual(self.lease(daemon)["source"], "discovered")
        self.engine.call("POST", f"/containers/{container}/rename?name=mine-{container[:8]}")
        self.reconcile(daemon)
        self.assertEqual(self.lease(daemon)["box_id"], container[:16])
        self.engine.call("POST", f"/containers/{container}/kill")
        self.wait_event(daemon, "lost", box_id=container[:16])
        self.assertNotEqual(self.lease(daemon)["box_id"], container[:16])

    def test_prefix_by_reload(self):
        """What the engine is to report changes with it."""
        container = self.deer()
        daemon = self.adopting(prefix=None)
        config = json.loads(daemon.config.read_text())
        config["profiles"]["default"]["docker"]["adopt_prefix"] = PREFIX
        daemon.write_config(config)
        daemon.process.child.send_signal(signal.SIGHUP)
        wait_until(lambda: "config.reloaded" in daemon.process.output(), "the file is read")
        self.assertEqual(self.lease(daemon)["source"], "discovered")
        self.engine.call("POST", f"/containers/{container}/kill")
        self.wait_event(daemon, "lost", box_id=container[:16])
        self.assertIn("code 137", daemon.process.output())  # reported by the engine, not found by a listing

    def test_prefix_taken_away(self):
        """While the daemon runs nothing changes for who holds one; then it is given up, but not ended."""
        container = self.deer()
        daemon = self.adopting()
        self.assertEqual(self.lease(daemon)["source"], "discovered")
        config = json.loads(daemon.config.read_text())
        del config["profiles"]["default"]["docker"]["adopt_prefix"]
        daemon.write_config(config)
        daemon.process.child.send_signal(signal.SIGHUP)
        wait_until(lambda: "config.reloaded" in daemon.process.output(), "the file is read")
        self.reconcile(daemon)
        self.assertEqual(self.lease(daemon)["source"], "kept")
        daemon.restart()
        self.wait_event(daemon, "gone", box_id=container[:16])
        self.assertTrue(self.is_running(container))


class AdoptDocker(Adopt, EngineCase):
    KIND = "docker"


class AdoptPodman(Adopt, EngineCase):
    KIND = "podman"
    test_one_that_does_not_answer = test_prefix_taken_away = None  # nothing there is the engine's own way


if __name__ == "__main__":
    main()
