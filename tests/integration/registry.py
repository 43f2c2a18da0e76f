"""A registry of one image for tests: the part of the v2 protocol that a pull needs, with a password if wanted, and
blobs that stop half way until they are let go."""

import base64
import gzip
import hashlib
import http.server
import json
import threading

MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"


def digest(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


class Registry:
    def __init__(self, case, layer_tar, password=None, config=None):
        self.password = password
        self.may_go_on = threading.Event()
        self.may_go_on.set()
        self.requests = []
        self.layer = gzip.compress(layer_tar, 1)
        self.config = json.dumps({
            "architecture": "amd64", "os": "linux", "config": config or {},
            "rootfs": {"type": "layers", "diff_ids": [digest(layer_tar)]}}).encode()
        self.manifest = json.dumps({
            "schemaVersion": 2, "mediaType": MANIFEST,
            "config": {"mediaType": "application/vnd.docker.container.image.v1+json", "size": len(self.config),
                       "digest": digest(self.config)},
            "layers": [{"mediaType": "application/vnd.docker.image.rootfs.diff.tar.gzip", "size": len(self.layer),
                        "digest": digest(self.layer)}]}).encode()
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self.handler())
        self.server.daemon_threads = True
        self.host = "127.0.0.1:%d" % self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        case.addCleanup(self.close)

    def close(self):
        self.may_go_on.set()
        self.server.shutdown()
        self.server.server_close()

    def credentials(self):
        """As a config.json has them."""
        return {"auths": {self.host: {"auth": base64.b64encode(f"ann:{self.password}".encode()).decode()}}}

    def handler(self):
        registry = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def answer(self, status, data=b"", kind="application/json", **headers):
                self.send_response(status)
                for name, value in {"Content-Type": kind, "Content-Length": str(len(data)),
                                    "Docker-Distribution-Api-Version": "registry/2.0", **headers}.items():
                    self.send_header(name.replace("_", "-"), value)
                self.end_headers()
                if self.command == "HEAD":
                    return
                half = len(data) // 2 if kind == "application/octet-stream" else len(data)
                self.wfile.write(data[:half])
                self.wfile.flush()
                if half < len(data):
                    registry.may_go_on.wait(120)
                    self.wfile.write(data[half:])

            def refuse(self, status, code, **headers):
                self.answer(status, json.dumps({"errors": [{"code": code, "message": code.lower()}]}).encode(), **headers)

            def do_GET(self):
                try:
                    self.serve()
                except BrokenPipeError:
                    self.close_connection = True  # whoever asked has what it wanted to know

            def serve(self):
                registry.requests.append((self.command, self.path))
                expected = "Basic " + base64.b64encode(f"ann:{registry.password}".encode()).decode()
                if registry.password is not None and self.headers.get("Authorization") != expected:
                    self.refuse(401, "UNAUTHORIZED", WWW_Authenticate='Basic realm="test"')
                elif self.path.rstrip("/") == "/v2":
                    self.answer(200, b"{}")
                elif "/manifests/" in self.path and self.path.startswith("/v2/box/"):
                    self.answer(200, registry.manifest, MANIFEST, Docker_Content_Digest=digest(registry.manifest))
                elif self.path.endswith(digest(registry.config)):
                    self.answer(200, registry.config)
                elif self.path.endswith(digest(registry.layer)):
                    self.answer(200, registry.layer, "application/octet-stream")
                else:
                    self.refuse(404, "MANIFEST_UNKNOWN")

            do_HEAD = do_GET

        return Handler
