"""TLS on our own listeners: clients that exist against the real daemon, certificates that change, strangers that misbehave."""

import asyncio
import concurrent.futures
import contextlib
import http.client
import json
import pathlib
import random
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
import urllib.request

from fixtures import SOURCE, WAIT_S, Answer, TestCase, free_port, main, wait_until
from certificates import Authority, run

KEY = "provisioner-key-0123456789"


class Tls(TestCase):
    def begin(self, profile=None, **more):
        self.authority = Authority(self.path())
        self.cert, self.key = self.authority.sign("localhost", "server")
        self.port, self.provisioner = free_port(), free_port()
        tls = {"cert": str(self.cert), "key": str(self.key), **more.pop("tls", {})}
        self.server = self.daemon({"warm": {"min": 1, "max": 4}, **(profile or {})}, sim=self.sim(), tls=tls,
                                  tcp={"listen": f"127.0.0.1:{self.port}", **more.pop("tcp", {})},
                                  provisioner={"enabled": True, "listen": f"127.0.0.1:{self.provisioner}", "api_key": KEY}, **more)
        client = self.client(self.server)
        self.token = self.assertOk(client.post("/v1/tokens", {"name": "ci", "scopes": ["use"]}))["token"]
        return client

    def path(self):
        return pathlib.Path(self.directory)

    def context(self, **client):
        context = ssl.create_default_context(cafile=str(self.authority.cert))
        if client:
            context.load_cert_chain(client["cert"], client["key"])
        return context

    def connect(self, context=None, port=None):
        connection = http.client.HTTPSConnection("127.0.0.1", port or self.port, timeout=WAIT_S, context=context or self.context())
        self.addCleanup(connection.close)
        return connection

    def ask(self, method, target, body=None, connection=None, token=None, headers=None):
        own = connection or self.connect()
        sent = {"Authorization": f"Bearer {token or self.token}"} if token != "" else {}
        own.request(method, target, json.dumps(body) if body is not None else None, {**sent, **(headers or {})})
        response = own.getresponse()
        answer = Answer(response.status, dict(response.getheaders()), response.read().decode(errors="replace"))
        if connection is None:
            own.close()
        return answer

    def serial(self):
        """Of the certificate that a new connection gets."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=WAIT_S) as plain, \
                self.context().wrap_socket(plain, server_hostname="127.0.0.1") as secure:
            return secure.getpeercert()["serialNumber"]

    # --- clients ---

    def test_clients(self):
        client = self.begin()
        lease = self.assertOk(self.ask("POST", "/v1/acquire", {"thread_id": "t"}))
        self.assertTrue(lease["sandbox_url"].startswith(f"https://127.0.0.1:{self.port}/s/"))
        # many requests on one connection, ahead of each other and in small pieces
        with socket.create_connection(("127.0.0.1", self.port), timeout=WAIT_S) as plain, \
                self.context().wrap_socket(plain, server_hostname="127.0.0.1") as secure:
            one = f"GET /v1/version HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {self.token}\r\n\r\n".encode()
            for byte in one:
                secure.sendall(bytes([byte]))
            secure.sendall(one * 49)
            got = b""
            while got.count(b'"instance"') < 50:
                piece = secure.recv(65536)
                self.assertTrue(piece)
                got += piece
        # who ends its side, with and without saying so in TLS: answered, then closed in order
        for is_said in (True, False):
            with socket.create_connection(("127.0.0.1", self.port), timeout=WAIT_S) as plain:
                secure = self.context().wrap_socket(plain, server_hostname="127.0.0.1", suppress_ragged_eofs=False)
                secure.sendall(one)
                with contextlib.closing(secure), socket.socket(fileno=socket.dup(secure.fileno())) as raw:
                    self.assertIn(b"200 OK", secure.recv(65536))
                    if is_said:
                        with contextlib.suppress(ssl.SSLWantReadError):
                            secure.setblocking(False)
                            secure.unwrap()
                        secure.setblocking(True)
                    else:
                        raw.shutdown(socket.SHUT_WR)
                        self.assertEqual(secure.recv(65536), b"")
                    raw.settimeout(WAIT_S)
                    while raw.recv(65536):
                        pass
        # a large body and a large answer
        self.assertEqual(self.ask("POST", "/v1/acquire", {"thread_id": "x", "metadata": {"a": "b" * 900000}}).status, 422)
        for i in range(40):
            self.assertOk(client.acquire(f"many-{i}", metadata={"a": "x" * 4000}) if i < 4 else client.get("/v1/version"))
        admin = self.assertOk(client.post("/v1/tokens", {"name": "op", "scopes": ["operate"]}))["token"]
        self.assertEqual(len(self.assertOk(self.ask("GET", "/v1/sandboxes", token=admin))["sandboxes"]) >= 5, True)
        backup = self.ask("GET", "/v1/backup", token=admin)
        self.assertEqual(backup.status, 200)
        # curl and openssl
        text = run("curl", "-sS", "--cacert", self.authority.cert, "-H", f"Authorization: Bearer {self.token}",
                   f"https://127.0.0.1:{self.port}/v1/version")
        self.assertIn(b'"instance"', text)
        shown = run("openssl", "s_client", "-connect", f"127.0.0.1:{self.port}", "-CAfile", self.authority.cert, "-alpn", "h2,http/1.1",
                    "-ign_eof", data=b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        self.assertIn(b"Verify return code: 0", shown)
        self.assertIn(b"ALPN protocol: http/1.1", shown)
        self.assertIn(b"HTTP/1.1 200", shown)
        for version, is_good in (("-tls1_1", False), ("-tls1_2", True), ("-tls1_3", True)):
            done = subprocess.run(["openssl", "s_client", "-connect", f"127.0.0.1:{self.port}", version], input=b"", timeout=60,
                                  capture_output=True, check=False)
            self.assertEqual(done.returncode == 0, is_good, done)
        # the provisioner
        health = self.ask("GET", "/health", connection=self.connect(port=self.provisioner), token="")
        self.assertEqual(health.status, 200)
        made = self.ask("POST", "/api/sandboxes", {"sandbox_id": "box-1", "thread_id": "t1"}, connection=self.connect(port=self.provisioner),
                        token="", headers={"X-API-Key": KEY})
        self.assertIn(f"https://127.0.0.1:{self.provisioner}/s/", made.text)
        # who does not trust the certificate, who speaks no TLS
        with self.assertRaises(ssl.SSLCertVerificationError):
            self.ask("GET", "/healthz", connection=self.connect(ssl.create_default_context()))
        with self.assertRaises((http.client.HTTPException, OSError)), contextlib.closing(
                http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_S)) as plain:
            plain.request("GET", "/healthz")
            plain.getresponse()
        self.assertEqual(self.ask("GET", "/healthz").status, 200)

    def test_our_own_clients(self):
        self.begin()
        sys.path.insert(0, str(SOURCE / "clients/python"))
        import sandpool
        address, ca = f"https://127.0.0.1:{self.port}", str(self.authority.cert)
        with sandpool.Client(address, token=self.token, ca=ca) as pool:
            box = pool.acquire("t", auto_renew=False)
            self.assertEqual([b.sandbox_id for b in pool.list()], [box.sandbox_id])

        async def ask():
            async with sandpool.AsyncClient(address, token=self.token, ca=ca) as pool:
                return (await pool.get(box.sandbox_id)).sandbox_id
        self.assertEqual(asyncio.run(ask()), box.sandbox_id)
        with sandpool.Client(address, token=self.token) as stranger, self.assertRaises(sandpool.ConnectionFailed):
            stranger.get(box.sandbox_id)
        with self.assertRaises(ValueError):
            sandpool.Client(f"http://127.0.0.1:{self.port}", ca=ca)
        program = f"""const {{ Client }} = require({json.dumps(str(SOURCE / "clients/js/index.js"))});
            (async () => {{
              const pool = new Client({{ address: {json.dumps(address)}, token: {json.dumps(self.token)},
                ca: require('fs').readFileSync({json.dumps(ca)}) }});
              console.log((await pool.get({json.dumps(box.sandbox_id)})).sandboxId);
              pool.close();
              const stranger = new Client({json.dumps(address)}, {{ token: 'x' }});
              await stranger.get('x').catch((e) => console.log(e.constructor.name));
              stranger.close();
            }})();"""
        self.assertEqual(run("node", "-e", program).decode().split(), [box.sandbox_id, "ConnectionFailed"])

    def test_streams_and_revocation(self):
        client = self.begin()
        read = self.assertOk(client.post("/v1/tokens", {"name": "r", "scopes": ["read"]}))["token"]
        stream = self.connect()
        stream.request("GET", "/v1/events?since=0", headers={"Authorization": f"Bearer {read}"})
        events = stream.getresponse()
        lease = self.assertOk(client.acquire("t"))
        seen = b""
        while lease["sandbox_id"].encode() not in seen:
            piece = events.read1(65536)
            self.assertTrue(piece)
            seen += piece
        self.assertOk(client.delete("/v1/tokens/r"))
        with self.assertRaises((http.client.IncompleteRead, ConnectionError)):
            while True:
                if not events.read1(65536):
                    raise ConnectionError

    # --- certificates ---

    def test_reload(self):
        client = self.begin()
        first = self.serial()
        open_since = self.connect()
        self.assertEqual(self.ask("GET", "/v1/version", connection=open_since).status, 200)
        self.authority.sign("localhost", "server", kind="rsa")  # same names of files
        self.assertEqual(self.serial(), first)
        self.server.process.child.send_signal(signal.SIGHUP)
        wait_until(lambda: self.serial() != first, "the new certificate is used")
        second = self.serial()
        self.assertEqual(self.ask("GET", "/v1/version", connection=open_since).status, 200)
        for bad in (b"", b"no certificate", self.key.read_bytes(), self.cert.read_bytes()[:200]):
            good = self.cert.read_bytes()
            self.cert.write_bytes(bad)
            refused = client.post("/v1/pool/reload")
            self.assertIn("tls.cert", refused.json["error"]["message"])
            self.assertEqual(self.serial(), second)
            self.cert.write_bytes(good)
        other = Authority(self.path(), "other").sign("localhost", "stray")
        good = self.key.read_bytes()
        self.key.write_bytes(other[1].read_bytes())
        self.assertIn("tls.key", client.post("/v1/pool/reload").json["error"]["message"])
        self.key.write_bytes(good)
        self.assertOk(client.post("/v1/pool/reload"))
        # off, and on again
        config = json.loads(self.server.config.read_text())
        tls = config.pop("tls")
        self.server.write_config(config)
        self.assertOk(client.post("/v1/pool/reload"))
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/healthz", timeout=WAIT_S) as response:
            self.assertEqual(response.status, 200)
        self.assertEqual(self.ask("GET", "/v1/version", connection=open_since).status, 200)
        self.server.write_config({**config, "tls": tls})
        self.assertOk(client.post("/v1/pool/reload"))
        self.assertEqual(self.ask("GET", "/healthz").status, 200)
        # a bad file at the start is said, and nothing starts
        self.server.stop()
        self.cert.write_bytes(b"")
        self.server.start(wait=False)
        wait_until(lambda: not self.server.process.is_running(), "it ends")
        self.assertIn("tls.cert", self.server.process.output())

    def test_client_certificates(self):
        users = Authority(self.path(), "users")
        client = self.begin(tcp={"operators": "ops"}, tls={"client_ca": str(users.cert)})
        ana = dict(zip(("cert", "key"), users.sign("ana", "ana")))
        ops = dict(zip(("cert", "key"), users.sign("ops", "ops")))
        odd = dict(zip(("cert", "key"), users.sign("a b;c", "odd")))
        stranger = dict(zip(("cert", "key"), Authority(self.path(), "strangers").sign("ana", "fake")))
        lease = self.assertOk(self.ask("POST", "/v1/acquire", {"thread_id": "t"}, connection=self.connect(self.context(**ana)), token=""))
        self.assertTrue(lease["token"])
        # shown by its name
        guest = self.assertOk(client.post("/v1/tokens", {"name": "guest", "scopes": ["use"], "sandbox_id": lease["sandbox_id"]}))
        self.assertEqual(guest["principal"], "token ana")
        # a token of that name is the same caller; one that is sent counts, also if it is bad
        same = self.assertOk(client.post("/v1/tokens", {"name": "ana", "scopes": ["use"]}))["token"]
        path = f"/v1/sandboxes/{lease['sandbox_id']}"
        self.assertEqual(self.ask("GET", path, token=same).json["token"], lease["token"])
        self.assertEqual(self.ask("GET", path, connection=self.connect(self.context(**ana)), token="x" * 20).status, 401)
        self.assertEqual(self.ask("POST", "/v1/pool/pause", connection=self.connect(self.context(**ana)), token="").status, 403)
        self.assertEqual(self.ask("POST", "/v1/pool/resume", connection=self.connect(self.context(**ops)), token="").status, 200)
        self.assertEqual(self.ask("GET", "/v1/pool", connection=self.connect(self.context(**odd)), token="").status, 401)
        self.assertEqual(self.ask("GET", "/v1/pool", connection=self.connect(), token="").status, 401)
        self.assertEqual(self.ask("GET", "/v1/pool").status, 200)  # a token and no certificate
        with self.assertRaises((ssl.SSLError, OSError, http.client.HTTPException)):
            self.ask("GET", "/v1/pool", connection=self.connect(self.context(**stranger)), token="")
        self.pages_of_others(ops, f"/s/{lease['sandbox_id']}/")
        self.resumption(ops)
        # required
        config = json.loads(self.server.config.read_text())
        config["tls"]["client_required"] = True
        self.server.write_config(config)
        self.assertOk(client.post("/v1/pool/reload"))
        with self.assertRaises((ssl.SSLError, OSError, http.client.HTTPException)):
            self.ask("GET", "/v1/pool")
        self.assertEqual(self.ask("GET", "/v1/pool", connection=self.connect(self.context(**ana))).status, 200)

    def pages_of_others(self, ops, box):
        """A browser shows its certificate for every page that is open in it."""
        own = f"https://127.0.0.1:{self.port}"
        good = [{}, {"Origin": own}, {"Origin": own, "Sec-Fetch-Site": "same-origin", "Sec-Fetch-Dest": "empty"},
                {"Origin": own, "Sec-Fetch-Site": "same-origin", "Sec-Fetch-Dest": "websocket"}]
        bad = [{"Origin": "https://evil.example.com"}, {"Origin": "null"}, {"Origin": own.replace("https", "http")}, {"Sec-Fetch-Site": "cross-site"},
               {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Dest": "empty"}, {"Sec-Fetch-Site": "none", "Sec-Fetch-Dest": "document"},
               {"Origin": "https://evil.example.com", "Sec-WebSocket-Protocol": "sandpool.bearer.eA", "Connection": "Upgrade", "Upgrade": "websocket"}]
        with contextlib.closing(self.connect(self.context(**ops))) as browser:
            for headers in good:
                self.assertEqual(self.ask("GET", "/v1/pool", connection=browser, token="", headers=headers).status, 200, headers)
                self.assertEqual(self.ask("GET", box, connection=browser, token="", headers=headers).status, 404, headers)
            for headers in bad:
                for method, path in (("GET", "/v1/pool"), ("POST", "/v1/pool/pause"), ("GET", box)):
                    self.assertCode(self.ask(method, path, connection=self.connect(self.context(**ops)), token="", headers=headers), 403, "forbidden")
            # who sends a token means it
            self.assertEqual(self.ask("GET", "/v1/pool", connection=browser, headers=bad[0]).status, 200)
            self.assertEqual(self.ask("GET", "/ui", connection=browser, token="", headers=bad[-2]).status, 200)
            self.assertEqual(json.loads(self.ask("GET", "/v1/pool", connection=browser).text)["mode"], "running", "no refused request has paused it")

    def resumption(self, ops):
        """Would be an end of a certificate's checks, its expiry too."""
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            context = self.context(**ops)
            context.minimum_version = context.maximum_version = version
            session = None
            for _ in range(2):
                with socket.create_connection(("127.0.0.1", self.port), timeout=WAIT_S) as plain, \
                        context.wrap_socket(plain, server_hostname="127.0.0.1", session=session) as secure:
                    secure.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
                    self.assertIn(b"200 OK", secure.recv(65536))
                    session = secure.session
                    self.assertFalse(secure.session_reused)

    # --- take-over ---

    def test_takeover(self):
        client = self.begin()
        idle = self.connect()
        self.assertEqual(self.ask("GET", "/v1/version", connection=idle).status, 200)
        self.assertOk(client.post("/v1/pool/pause"))
        answers = []
        waiting = threading.Thread(target=lambda: answers.append(self.ask("POST", "/v1/acquire", {"thread_id": "w", "wait_ms": 60000})))
        waiting.start()
        self.addCleanup(waiting.join)
        wait_until(lambda: client.get("/v1/pool").json["waiting"] == 1, "it waits")
        self.server.takeover()
        waiting.join(WAIT_S)
        self.assertCode(answers[0], 503, "draining")
        self.assertGreater(answers[0].json["error"]["retry_after_ms"], 0)
        with self.assertRaises((OSError, http.client.HTTPException)):  # it was closed
            self.ask("GET", "/v1/version", connection=idle)
        self.assertOk(self.client(self.server).post("/v1/pool/resume"))
        self.assertOk(self.ask("POST", "/v1/acquire", {"thread_id": "w"}))

    # --- strangers ---

    def test_strangers(self):
        client = self.begin(tcp={"max_unproven": 20}, http={"header_timeout_s": 2})
        dice = random.Random(7)
        good = self.connect()
        self.assertEqual(self.ask("GET", "/v1/version", connection=good).status, 200)

        def dial():
            return socket.create_connection(("127.0.0.1", self.port), timeout=WAIT_S)

        def ends(sock):
            with sock, contextlib.suppress(OSError):
                sock.settimeout(WAIT_S)
                while sock.recv(65536):
                    pass
            return True

        # nothing, a byte, a begun ClientHello: closed after header_timeout_s
        hello = self.hello()
        began = time.monotonic()
        held = [dial() for _ in range(3)]
        held[1].sendall(b"\x16")
        held[2].sendall(hello[:40])
        for sock in held:
            self.assertTrue(ends(sock))
        self.assertLess(time.monotonic() - began, WAIT_S)
        # garbage of all kinds
        pieces = [b"GET / HTTP/1.1\r\n\r\n", b"\0" * 4000, b"\x16\x03\x01\xff\xff" + b"a" * 70000, b"\x15\x03\x03\x00\x02\x02\x28",
                  b"\x17\x03\x03\x00\x10" + b"x" * 16, b"\x80\x2e\x01\x00\x02", hello[:5] + bytes(len(hello) - 5)]
        for _ in range(60):
            piece = bytearray(hello)
            for _ in range(dice.randrange(1, 6)):
                piece[dice.randrange(len(piece))] = dice.randrange(256)
            pieces.append(bytes(piece[:dice.randrange(1, len(piece) + 1)] if dice.randrange(2) else piece))
        for _ in range(30):
            pieces.append(dice.randbytes(dice.randrange(1, 3000)))
        for piece in pieces:
            sock = dial()
            with contextlib.suppress(OSError):
                sock.sendall(piece)
                sock.shutdown(socket.SHUT_WR)
            self.assertTrue(ends(sock))
        # garbage behind a handshake
        for _ in range(20):
            with dial() as plain, contextlib.suppress(OSError):
                secure = self.context().wrap_socket(plain, server_hostname="127.0.0.1")
                raw = socket.socket(fileno=socket.dup(secure.fileno()))
                with raw:
                    raw.settimeout(WAIT_S)
                    raw.sendall(b"\x17\x03\x03\x01\x00" + dice.randbytes(256))
                    while raw.recv(65536):
                        pass
        # many at once keep nobody out, on either socket
        crowd = [dial() for _ in range(60)]
        self.assertEqual(self.ask("GET", "/v1/version", connection=good).status, 200)
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda _: self.ask("GET", "/v1/version").status, range(24)))
        self.assertEqual(set(found), {200})
        self.assertOk(client.acquire("t"))
        for sock in crowd:
            sock.close()
        self.assertIn(self.key_updates(), range(9, 40))
        # renegotiation is refused
        done = subprocess.run(["openssl", "s_client", "-connect", f"127.0.0.1:{self.port}", "-tls1_2"], input=b"R\n", capture_output=True,
                              timeout=60, check=False)
        self.assertNotIn(b"200 OK", done.stdout)
        self.assertEqual(self.ask("GET", "/v1/version", connection=good).status, 200)
        self.assertTrue(self.server.process.is_running())

    def key_updates(self):
        """How many a client may send on a connection. Its program reads a letter and a request one by one."""
        client = subprocess.Popen(["openssl", "s_client", "-connect", f"127.0.0.1:{self.port}", "-tls1_3", "-crlf"], bufsize=0,
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        steps = ((b"k\n", client.stderr, b"KEYUPDATE"), (b"GET /healthz HTTP/1.1\nHost: x\n\n", client.stdout, b"HTTP/1.1 200"))
        with client, contextlib.suppress(BrokenPipeError):
            for n in range(100):
                for words, pipe, wanted in steps:
                    client.stdin.write(words)
                    while wanted not in (line := pipe.readline()):
                        if line == b"":
                            return n
            client.kill()
        return n

    def hello(self):
        """A ClientHello as Python sends it."""
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = self.context().wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
        with contextlib.suppress(ssl.SSLWantReadError):
            client.do_handshake()
        return outgoing.read()


if __name__ == "__main__":
    main()
