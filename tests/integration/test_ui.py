"""The web page: how it is served, what is refused to other pages, and a walk through it in a real browser, whose steps are in
tests/browser. One daemon serves all of it, with simulated boxes."""

import contextlib
import gzip
import json
import os
import shutil
import socket
import subprocess
import unittest

from fixtures import SOURCE, WAIT_S, Daemon, TestCase, main, skip, tmpdir, wait_until
from testlib import SLOW, free_port

TOKENS = {"boss": "boss-0123456789+/=abc", "other": "other-0123456789abcdef"}
HOSTILE = "<img src=x onerror=alert(1)>"
BROWSER = "chromium"


def tcp(port, request):
    with socket.create_connection(("127.0.0.1", port), WAIT_S) as s:
        s.sendall(request.encode())
        data = b""
        while piece := s.recv(65536):
            data += piece
    return data.decode(errors="replace")


class Page(TestCase):
    @classmethod
    def setUpClass(cls):
        cls.port = free_port()
        sim = {"create_ms": 1, "create_jitter_ms": 0}
        cls.daemon = Daemon(tmpdir(cls), {
            "tcp": {"listen": f"127.0.0.1:{cls.port}", "tokens": TOKENS, "operators": ["boss"]},
            "socket": {"hosts": ["pool.example.com"]},
            "pool": {"max_boxes": 200},
            "profiles": {"default": {"backend": "sim", "warm": {"min": 3, "max": 3}, "sim": sim},
                         "broken": {"backend": "sim", "warm": {"min": 1, "max": 1}, "sim": {**sim, "fail_percent": 100}}}},
            env={"SANDPOOL_HURRY": "20"})  # the steps of its history
        cls.addClassCleanup(lambda: cls.daemon.process and cls.daemon.process.kill())
        cls.daemon.start()

    def setUp(self):
        super().setUp()
        self.here = self.client(self.daemon)

    def test_files(self):
        answer = self.here.get("/ui")
        self.assertEqual(answer.status, 200, answer)
        policy = dict(p.strip().split(" ", 1) for p in answer.headers["Content-Security-Policy"].split(";"))
        self.assertEqual(policy["default-src"], "'none'")
        for kind in ("script-src", "style-src", "connect-src"):
            self.assertEqual(policy[kind], "'self'", kind)
        self.assertEqual((policy["frame-ancestors"], policy["base-uri"], policy["trusted-types"]), ("'none'",) * 3)
        wanted = {"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer",
                  "Cross-Origin-Opener-Policy": "same-origin", "Content-Type": "text/html; charset=utf-8"}
        self.assertEqual({k: answer.headers.get(k) for k in wanted}, wanted)
        self.assertNotIn("Content-Encoding", answer.headers)
        etag = answer.headers["ETag"]
        self.assertEqual(self.here.get("/ui", headers={"If-None-Match": etag}).status, 304)
        self.assertEqual(self.here.get("/ui", headers={"If-None-Match": 'W/"0"'}).status, 200)
        self.assertEqual(self.here.get("/ui/").headers["Location"], "../ui")
        for missing in ("/ui/x", "/ui/../ui", "/ui/index.html/", "/ui/%2e%2e/etc/passwd"):
            self.assertEqual(self.here.get(missing).status, 404, missing)
        self.assertEqual(self.here.post("/ui").status, 405)

    def test_compressed(self):
        plain = self.here.get("/ui/main.js")
        self.assertEqual(plain.headers["Content-Type"], "text/javascript; charset=utf-8")
        self.assertEqual(plain.text, (SOURCE / "src/ui/web/main.js").read_text())
        ask = "GET /ui/main.js HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: {}\r\nConnection: close\r\n\r\n"
        with socket.create_connection(("127.0.0.1", self.port), WAIT_S) as s:
            s.sendall(ask.format("br, gzip").encode())
            data = b"".join(iter(lambda: s.recv(65536), b""))
        head, body = data.split(b"\r\n\r\n", 1)
        self.assertIn(b"Content-Encoding: gzip", head)
        self.assertEqual(gzip.decompress(body).decode(), plain.text)
        self.assertNotIn("Content-Encoding", tcp(self.port, ask.format("gzip;q=0")))

    def test_other_pages_are_refused(self):
        """On the Unix socket, where nobody needs a token."""
        good = [{}, {"Host": "sandpool"}, {"Host": "localhost:8080"}, {"Host": "127.0.0.1:8080"}, {"Host": "[::1]:8080"},
                {"Host": "pool.localhost"}, {"Host": "pool.example.com"}, {"Host": "localhost:80", "Origin": "http://localhost:80"},
                {"Host": "x", "Origin": "https://pool.example.com"}, {"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Dest": "empty"}]
        bad = [{"Host": "evil.example.com"}, {"Host": "evil.example.com:8080"}, {"Host": "127.0.0.1.evil.com"}, {"Host": "localhost."},
               {"Host": "evil.localhost.com"}, {"Origin": "http://evil.example.com"}, {"Origin": "null"}, {"Origin": "http://localhost:81"},
               {"Host": "localhost:80", "Origin": "http://localhost:8080"}, {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"},
               {"Sec-Fetch-Site": "none", "Sec-Fetch-Dest": "document"}, {"Sec-Fetch-Dest": "script"}, {"Sec-Fetch-Dest": "iframe"}]
        for headers in good:
            self.assertOk(self.here.get("/v1/pool", headers={"Host": "localhost", **headers}))
        for headers in bad:
            for call in (lambda h: self.here.get("/v1/pool", headers=h), lambda h: self.here.post("/v1/pool/pause", headers=h)):
                self.assertCode(call({"Host": "localhost", **headers}), 403, "forbidden")
        self.assertEqual(self.here.get("/v1/pool").json["mode"], "running", "no refused request has paused it")
        # What boxes answer may be passed on for browsers by a program of the caller's; as a page it has no right here.
        port = "/v1/sandboxes/0123456789abcdef/ports/80/"
        for host in ("x", "app.example.com"):
            self.assertEqual(self.here.get(port, headers={"Host": host, "Origin": "http://app", "Sec-Fetch-Dest": "document"}).status, 404)
        for path in (port, "/s/0123456789abcdef/x"):
            for headers in ({"Host": "localhost:8080", "Sec-Fetch-Dest": "document"}, {"Host": "[::1]:1", "Origin": "null"}, {"Host": "evil.example.com:8080"}):
                self.assertCode(self.here.get(path, headers=headers), 403, "forbidden")
        # The page itself is the same for everybody.
        self.assertEqual(self.here.get("/ui", headers={"Host": "localhost:1", "Sec-Fetch-Dest": "document", "Sec-Fetch-Site": "cross-site"}).status, 200)

    def test_tokens(self):
        ask = "GET {} HTTP/1.1\r\nHost: a.example.com\r\nConnection: close\r\n{}\r\n"
        self.assertTrue(tcp(self.port, ask.format("/ui", "")).startswith("HTTP/1.1 200"), "the page is no secret")
        for path in ("/v1/pool/live", "/v1/pool/history"):
            self.assertTrue(tcp(self.port, ask.format(path, "")).startswith("HTTP/1.1 401"), path)
        # A token as a subprotocol is for WebSockets only.
        text = "Sec-WebSocket-Protocol: sandpool.bearer.Ym9zcy0wMTIzNDU2Nzg5Ky89YWJj\r\n"
        self.assertTrue(tcp(self.port, ask.format("/v1/pool", text)).startswith("HTTP/1.1 401"))
        head = ask.replace("Connection: close", "Connection: Upgrade\r\nUpgrade: websocket")
        self.assertTrue(tcp(self.port, head.format("/v1/pool", text)).startswith("HTTP/1.1 200"))
        self.assertTrue(tcp(self.port, head.format("/v1/pool", text.replace("Ym9z", "Ym9y"))).startswith("HTTP/1.1 401"))

    def test_live(self):
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(WAIT_S)
            s.connect(str(self.daemon.socket))
            s.sendall(b"GET /v1/pool/live?every_ms=200 HTTP/1.1\r\nHost: localhost\r\n\r\n")
            data = b""
            while data.count(b"event: pool\n") < 3:
                data += s.recv(65536)
        first = next(line for line in data.decode().splitlines() if line.startswith("data: "))
        live = json.loads(first[len("data: "):])
        pool = self.here.get("/v1/pool").json
        self.assertEqual(set(live["pool"]), set(pool))
        self.assertEqual([a["source"] for a in live["acquires"]], ["kept", "parked", "discovered", "warm", "cold", "restored"])
        self.assertTrue(live["operator"])
        # One caller cannot keep the loop busy with them. The one above may count a moment longer.
        with contextlib.ExitStack() as stack:
            heads = []
            for _ in range(33):
                s = stack.enter_context(socket.socket(socket.AF_UNIX))
                s.settimeout(WAIT_S)
                s.connect(str(self.daemon.socket))
                s.sendall(b"GET /v1/pool/live?every_ms=60000 HTTP/1.1\r\nHost: localhost\r\n\r\n")
                heads.append(s.recv(65536)[:12])
            self.assertIn(heads.count(b"HTTP/1.1 200"), (31, 32))
            self.assertEqual(heads[-1], b"HTTP/1.1 429")
        for wrong in ("199", "60001", "x", ""):
            self.assertCode(self.here.get(f"/v1/pool/live?every_ms={wrong}"), 422, "invalid_field")
        self.assertCode(self.here.get("/v1/pool/history?since=x"), 422, "invalid_field")
        history = self.assertOk(self.here.get("/v1/pool/history"))
        lists = [*history["boxes"].values(), history["waiting"], history["refused"],
                 *(column for source in history["acquires"].values() for column in source.values())]
        self.assertEqual({len(column) for column in lists}, {history["steps"] - history["first"]})
        self.assertEqual(self.here.get(f"/v1/pool/history?since={history['steps']}").json["first"], history["steps"])

    def test_switched_off(self):
        config = json.loads(self.daemon.config.read_text())
        self.addCleanup(lambda: (self.daemon.write_config(config), self.here.post("/v1/pool/reload")))
        self.daemon.write_config({**config, "ui": {"enabled": False}})
        self.assertOk(self.here.post("/v1/pool/reload"))
        for path in ("/ui", "/ui/main.js"):
            self.assertCode(self.here.get(path), 404, "not_found")

    def test_in_a_browser(self):
        if shutil.which(BROWSER) is None or shutil.which("node") is None:
            skip("the web page is not looked at: there is no chromium, or no Node.js")
        client = self.here
        for n in range(60):
            self.assertOk(client.acquire(f"thread-{n}", user_id="ana" if n % 2 else "ben", metadata={"run": n, "note": HOSTILE}))
        self.assertOk(client.acquire("to-be-destroyed"))
        self.assertOk(client.acquire("to-be-released"))
        wait_until(lambda: client.get("/v1/pool").json["profiles"][0]["breaker"]["open"], "the breaker is open")
        env = {**os.environ, "SANDPOOL_URL": f"http://127.0.0.1:{self.port}", "SANDPOOL_TOKENS": json.dumps(TOKENS),
               "SANDPOOL_TEST_SLOW": str(SLOW), "SANDPOOL_HOSTILE": HOSTILE}
        walk = subprocess.run(["node", SOURCE / "tests/browser/walk.mjs"], env=env, capture_output=True, text=True, timeout=240)
        self.assertEqual(walk.returncode, 0, walk.stdout[-6000:] + walk.stderr[-6000:])
        self.assertIn("the walk is over", walk.stdout)
        self.assertNotIn(TOKENS["boss"], self.daemon.log.read_text(), "a token is in the log")


class Source(unittest.TestCase):
    def test_text_is_only_set_as_text(self):
        """What could make elements or programs of a text does not occur in the page."""
        words = ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "DOMParser", "createContextualFragment", "eval(",
                 "new Function", "setHTML", "srcdoc", "javascript:", "localStorage", "sessionStorage", "document.cookie", "http://", "https://")
        files = sorted((SOURCE / "src/ui/web").iterdir())
        self.assertGreater(len(files), 15)
        for file in files:
            text = file.read_text().replace("http://www.w3.org/2000/svg", "")
            self.assertEqual([w for w in words if w in text], [], file.name)
        page = (SOURCE / "src/ui/web/index.html").read_text()
        for inline in (" onclick", " style=", "<style", "<script>"):
            self.assertNotIn(inline, page)


main()
