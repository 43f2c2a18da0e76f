"""What the tests of the proxy share: a daemon in front of a box that does what the test says."""

import pathlib
import socket
import urllib.parse

from fixtures import IS_SANITIZED, receive
from provisioner import KEY, ProvisionerCase
from http_peer import Upstream


class ProxyCase(ProvisionerCase):
    def start(self, provisioner=None, **kw):
        self.up = Upstream()
        self.addCleanup(self.up.close)
        profile = {"backend": "remote", "warm": {"min": 0, "max": 0}, **kw.pop("profile", {}),
                   "remote": {"provisioner_url": f"http://127.0.0.1:{self.up.port}",
                              "provisioner_api_key": KEY}}
        self.server = self.serve(provisioner, profiles={"default": profile}, **kw)
        self.box = self.assertOk(self.caller().create("a"))
        self.base = urllib.parse.urlsplit(self.box["sandbox_url"]).path
        return self.caller(key="")

    def url_of(self, sandbox_id):
        return urllib.parse.urlsplit(self.caller().get(sandbox_id).json["sandbox_url"]).path

    def raw(self, text, limit=60):
        """Sends bytes as they are; all that comes back until the end."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=limit) as s:
            s.sendall(text)
            return receive(s)

    def memory(self):
        status = pathlib.Path(f"/proc/{self.server.process.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) * 1024

    def assertFlat(self, grown, limit):
        if not IS_SANITIZED:  # a sanitizer keeps what is freed
            self.assertLess(grown, limit)

    def leased(self):
        client = self.client(self.server)
        return client.get("/v1/sandboxes/a").json
