"""The engine's side of the docker backend, on Docker and on Podman: how it is reached, what is seen when somebody else
works on its containers, and what happens when it is away, late or silent."""

import concurrent.futures
import contextlib
import http.client
import json
import pathlib
import ssl
import subprocess
import threading

from engine_case import EngineCase, Proxy
from fixtures import free_port, main, wait_until


class Address(EngineCase):
    def test_one_engine_by_three_names(self):
        """Two backends of one engine would each take the other's boxes for strays."""
        link = pathlib.Path(self.directory, "link")
        link.symlink_to(self.engine.dir)
        daemon = self.daemon_on({
            "default": self.config(), "b": {**self.config(), "docker": {}},
            "c": self.config(f"unix://{link}/socket")}, env={"DOCKER_HOST": self.engine.address})
        boxes = {p: self.box(daemon, p, profile=p) for p in ("default", "b", "c")}
        client = self.client(daemon)
        for _ in range(3):
            self.assertEqual(client.post("/v1/pool/reconcile").json["backends_listed"], 1)
        for name, box in boxes.items():
            self.assertEqual(self.box(daemon, name, profile=name).box_id, box.box_id)
            self.assertEqual(box.sh("echo here"), "here\n")
        self.assertEqual(self.events(daemon, "lost"), [])

    def test_tcp(self):
        proxy = Proxy(self, self.engine.socket, tcp=True)
        daemon = self.daemon_on({"default": self.config(proxy.address, network="nat")})
        box = self.box(daemon, "one")
        self.assertEqual(box.sh("echo far"), "far\n")
        store = self.get(daemon, "/v1/pool").json["store"]
        self.assertGreater(store["power_commits"], 0, store)  # the box outlives this machine
        daemon.kill()
        daemon.start()
        self.assertEqual(self.box(daemon, "one").box_id, box.box_id)
        self.assertIn("without TLS", self.findings(daemon)["network"])

    def test_what_boxes_use_is_asked_in_turns(self):
        """Many who ask at once for a box get one answer, and one owner's boxes do not keep away those of another."""
        proxy = Proxy(self, self.engine.socket, tcp=True)
        go_on = threading.Event()
        self.addCleanup(go_on.set)
        port = free_port()
        daemon = self.daemon_on({"default": self.config(proxy.address, network="nat", warm=0)}, usage={"sample_s": 0},
                                tcp={"listen": f"127.0.0.1:{port}", "tokens": {"one": "a" * 32, "two": "b" * 32}})

        def call(token, method, target, body=None):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            with contextlib.closing(connection):
                connection.request(method, target, json.dumps(body) if body else None, {"Authorization": "Bearer " + token * 32})
                response = connection.getresponse()
                return response.status, json.loads(response.read())

        def ask(token, box):
            return call(token, "GET", f"/v1/sandboxes/{box}?stats=1")

        one, more, two = (call(token, "POST", "/v1/acquire", {"thread_id": name})[1]["sandbox_id"]
                          for token, name in (("a", "one"), ("a", "more"), ("b", "two")))
        held = []

        def hook(method, path):
            if "/stats?" in path and len(held) < 1:
                held.append(path)
                go_on.wait(30)

        def asked():
            return [path for _, path in proxy.seen if "/stats?" in path]

        proxy.hook = hook
        with concurrent.futures.ThreadPoolExecutor(24) as pool:
            answers = [pool.submit(ask, "a", one)]
            wait_until(asked, "the engine is asked")
            answers += [pool.submit(ask, "a", box) for box in [one] * 9 + [more] * 9]
            wait_until(lambda: (ask("b", two)[1]["stats"] or {}).get("memory_bytes"), "it is counted while the other's first is not")
            self.assertEqual(len(set(asked())), 2)
            self.assertEqual(asked().count(held[0]), 1)
            others = [path for path in asked() if path != held[0]]
            go_on.set()
            for answer in answers:
                self.assertEqual(answer.result()[0], 200)
        self.assertLess(len(asked()) - len(others), 10)

    def findings(self, daemon):
        return {f["subject"]: f["text"] for b in self.get(daemon, "/v1/doctor").json["backends"] for f in b["findings"]}

    def authority(self, name):
        """An authority, and certificates by it for the engine (127.0.0.1, localhost) and for us."""
        at = pathlib.Path(self.directory, name)
        at.mkdir()

        def openssl(*words):
            subprocess.run(["openssl", *words], cwd=at, check=True, capture_output=True, timeout=60)
        openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "ca-key.pem", "-out", "ca.pem", "-subj", "/CN=" + name)
        for who, names in (("server", "subjectAltName=IP:127.0.0.1,DNS:localhost"), ("", "extendedKeyUsage=clientAuth")):
            prefix = who + "-" if who else ""
            openssl("req", "-newkey", "rsa:2048", "-nodes", "-keyout", prefix + "key.pem", "-out", "request", "-subj", "/CN=x")
            (at / "extra").write_text(names)
            openssl("x509", "-req", "-in", "request", "-CA", "ca.pem", "-CAkey", "ca-key.pem", "-CAcreateserial",
                    "-extfile", "extra", "-out", prefix + "cert.pem")
        return at

    def test_tls(self):
        files, strangers = self.authority("one"), self.authority("two")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(files / "server-cert.pem", files / "server-key.pem")
        context.load_verify_locations(files / "ca.pem")
        context.verify_mode = ssl.CERT_REQUIRED
        proxy = Proxy(self, self.engine.socket, tcp=True, wrap=lambda s: context.wrap_socket(s, server_side=True))
        host = proxy.address.replace("127.0.0.1", "localhost")  # by name, too
        profile = self.config(host, network="nat", warm=0)
        daemon = self.daemon_on({"default": profile}, env={"DOCKER_TLS_VERIFY": "1", "DOCKER_CERT_PATH": str(files)})
        box = self.box(daemon, "one")
        self.assertEqual(box.sh("echo sealed"), "sealed\n")
        self.assertNotIn("without TLS", self.findings(daemon)["network"])
        daemon.stop()
        # By the profile's own files, and with those of strangers: nobody is spoken to.
        daemon.env = {}
        for ours, ca, works in ((files, files, True), (files, strangers, False), (strangers, files, False)):
            daemon.write_config({**json.loads(daemon.config.read_text()), "profiles": {"default": {**profile, "docker": {
                "host": host, "tls_ca": f"{ca}/ca.pem", "tls_cert": f"{ours}/cert.pem", "tls_key": f"{ours}/key.pem"}}}})
            daemon.start()
            ready = wait_until(lambda: self.get(daemon, "/readyz"), "an answer")
            self.assertEqual(ready.status, 200 if works else 503, (ready, daemon.process.output()[-1000:]))
            self.assertEqual(self.box(daemon, "one").box_id, box.box_id)  # kept either way
            daemon.stop()
        daemon.env = {"DOCKER_TLS_VERIFY": "1", "DOCKER_CERT_PATH": str(files)}
        daemon.write_config({**json.loads(daemon.config.read_text()), "profiles": {"default": profile}})
        daemon.start()

    def test_bad_addresses(self):
        for docker, words in (({"host": "ssh://a"}, "must be unix:///path or tcp://host:port"),
                              ({"host": "tcp://a:1/x"}, "must be unix:///path or tcp://host:port"),
                              ({"host": "tcp://a:1", "tls_cert": "/x"}, "give both or none")):
            daemon = self.daemon_on({"default": {**self.config(), "docker": docker}}, start=False)
            process = daemon.spawn()
            self.addCleanup(process.kill)
            self.assertNotEqual(process.child.wait(20), 0)
            self.assertIn(words, process.output())


class ByHand:
    """A person works on the containers; seen by the engine's stream, so within moments."""

    def act(self, container, what):
        status, data = self.engine.call("POST", f"/containers/{container}/{what}")
        self.assertLess(status, 300, data)

    def test_paused(self):
        daemon = self.daemon_on({"default": self.config()})
        box = self.box(daemon, "one")
        blank = wait_until(lambda: list(self.rows(daemon, "blank")), "a blank box")[0]
        mine = self.container(box)
        self.act(mine, "pause")
        event = self.wait_event(daemon, "box.paused", box_id=box.box_id)
        self.assertEqual((event["sandbox_id"], event["thread_id"]), (box.id, "one"))
        self.assertEqual(self.box(daemon, "one").box_id, box.box_id)  # paused is not dead
        answer = self.get(daemon, f"/v1/sandboxes/{box.id}?alive=1")
        self.assertIs(answer.json["alive"], True, answer)
        theirs = next(c["Id"] for c in self.engine.json("GET", "/containers/json")
                      if c["Labels"].get("sandpool.box") == blank)
        self.act(theirs, "pause")
        wait_until(lambda: blank not in self.rows(daemon), "a blank box that does not answer is replaced")
        self.assertEqual(self.box(daemon, "two").sh("echo awake"), "awake\n")
        daemon.kill()  # the lease stands though its box does not answer
        daemon.start()
        self.assertEqual(self.box(daemon, "one").box_id, box.box_id)
        # A listing of a busy Podman may come too late for the start: who does not know of a pause sees no end of it.
        wait_until(lambda: self.get(daemon, "/readyz").status == 200, "a listing has shown it")
        self.act(mine, "unpause")
        self.wait_event(daemon, "box.resumed", box_id=box.box_id)
        self.assertEqual(box.sh("echo awake"), "awake\n")

    def test_killed_and_removed(self):
        daemon = self.daemon_on({"default": self.config(warm=0)})
        for thread, method, path, words in (
                ("killed", "POST", "/kill", "its container was sent signal 9 and has ended with code 137"),
                ("stopped", "POST", "/stop?t=0", "its container"),
                ("removed", "DELETE", "?force=1", "its container")):
            with self.subTest(thread):
                box = self.box(daemon, thread)
                status, data = self.engine.call(method, f"/containers/{self.container(box)}{path}")
                self.assertLess(status, 300, data)
                self.wait_event(daemon, "lost", box_id=box.box_id)
                died = [line for line in daemon.process.output().splitlines()
                        if "box.died" in line and box.box_id in line]
                self.assertEqual(len(died), 1, died)
                if self.KIND == "docker":  # Podman does not report the signal
                    self.assertIn(words, died[0])
                self.assertNotEqual(self.box(daemon, thread).box_id, box.box_id)

    def test_renamed(self):
        daemon = self.daemon_on({"default": self.config()})
        box = self.box(daemon, "one")
        blank = wait_until(lambda: list(self.rows(daemon, "blank")), "a blank box")[0]
        for c in self.engine.json("GET", "/containers/json"):
            self.act(c["Id"], "rename?name=sandpool-mine" + c["Id"][:8])
        client = self.client(daemon)
        client.post("/v1/pool/reconcile")
        daemon.restart()
        self.assertEqual(self.box(daemon, "one").box_id, box.box_id)
        self.assertIn(blank, self.rows(daemon))

    def test_out_of_memory(self):
        if self.KIND == "podman":
            self.skipTest("Podman does not tell of it")
        daemon = self.daemon_on({"default": self.config(warm=0)})
        box = self.box(daemon, "one")
        box.run("x=1; while true; do x=$x$x; done")
        self.wait_event(daemon, "box.oom", box_id=box.box_id)

    def test_pause_that_fails(self):
        """Runtimes fail to stop a container on a busy machine: it is tried again, and not for ever."""
        proxy = Proxy(self, self.engine.socket)
        daemon = self.daemon_on({"default": self.config(proxy.address, warm=0)})
        box = self.box(daemon, "one")
        tries, failing = [], 2

        def hook(_, path):
            if not path.endswith("/pause"):
                return None
            tries.append(path)
            return "fail" if len(tries) <= failing else None
        proxy.hook = hook
        answer = self.client(daemon).post(f"/v1/sandboxes/{box.id}/pause", {})
        self.assertEqual((answer.status, len(tries)), (200, 3), answer)
        self.assertEqual(self.client(daemon).post(f"/v1/sandboxes/{box.id}/resume", {}).status, 200)
        tries.clear()
        failing = 3
        answer = self.client(daemon).post(f"/v1/sandboxes/{box.id}/pause", {})
        self.assertEqual((answer.status, len(tries)), (502, 3), answer)
        self.assertEqual(self.box(daemon, "one").sh("echo on"), "on\n")

    def test_broken_stream(self):
        """What happens while it is broken is found by the listing that follows."""
        proxy = Proxy(self, self.engine.socket)
        daemon = self.daemon_on({"default": self.config(proxy.address)}, pool={"reconcile_interval_s": 3600})
        gone, kept = self.box(daemon, "gone"), self.box(daemon, "kept")
        may_watch = []
        proxy.hook = lambda method, path: "refuse" if "/events" in path and not may_watch else None
        wait_until(lambda: proxy.cut("/events"), "the stream is cut")
        wait_until(lambda: "docker.events_lost" in daemon.process.output(), "the daemon has seen it")
        blank = wait_until(lambda: list(self.rows(daemon, "blank")), "a blank box")[0]
        self.act(next(c["Id"] for c in self.engine.json("GET", "/containers/json")
                      if c["Labels"].get("sandpool.box") == blank), "pause")
        self.act(self.container(gone), "kill")
        before = len(proxy.seen)
        may_watch.append(True)
        self.wait_event(daemon, "lost", box_id=gone.box_id)
        wait_until(lambda: blank not in self.rows(daemon), "the paused one is found too")
        self.assertIn("docker.events_resumed", daemon.process.output())
        self.assertEqual(self.box(daemon, "kept").box_id, kept.box_id)
        since = [path for _, path in proxy.seen[before:] if "/events?since=" in path]
        self.assertTrue(since, proxy.seen[before:])


class ByHandDocker(ByHand, EngineCase):
    KIND = "docker"


class ByHandPodman(ByHand, EngineCase):
    KIND = "podman"


if __name__ == "__main__":
    main()
