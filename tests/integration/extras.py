"""What the tests of late binding share. SIM_UPDATE_MS and SIM_UPDATE_ERROR are read by the simulated
machine: how long it takes to change a box, and what goes wrong."""

import json
import socket

from fixtures import TestCase, wait_until

MIB = 1024 * 1024


def failing(code="backend_failed", **more):
    return {"SIM_UPDATE_ERROR": code, **more}


def slow(ms, **more):
    return {"SIM_UPDATE_MS": str(ms), **more}


class ExtrasCase(TestCase):
    def start(self, profile=None, **config):
        self.machine = self.sim()
        config.setdefault("mounts", {"allow": ["/srv/data", "/opt/sets"]})
        self.server = self.daemon({"warm": {"min": 2, "max": 2}, **(profile or {})},
                                  sim=self.machine, **config)
        self.caller = self.client(self.server)
        if (profile or {}).get("warm", {}).get("max") != 0:
            self.wait_blank(self.caller, 2)
        return self.caller

    def updates(self, lease):
        return self.machine.boxes()[lease["box_id"]].get("updates", [])

    def is_gone(self, box_id):
        return box_id not in self.machine.boxes()

    def boxes_of(self, thread):
        listed = self.assertOk(self.caller.get("/v1/sandboxes?limit=100"))["sandboxes"]
        return [b for b in listed if b["thread_id"] == thread]

    def begin(self, body):
        """Sends an acquire and does not read its answer."""
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.addCleanup(sock.close)
        sock.connect(str(self.server.socket))
        data = json.dumps(body).encode()
        sock.sendall(b"POST /v1/acquire HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                     b"Content-Length: %d\r\n\r\n%s" % (len(data), data))
        return sock

    def leased(self, thread):
        return wait_until(lambda: [b for b in self.boxes_of(thread) if b["state"] == "leased"],
                          "the lease")[0]

    def being_changed(self, thread):
        """The thread's box, when the machine has begun to change it."""
        def find():
            boxes = self.machine.boxes()
            return [b for b in self.boxes_of(thread)
                    if b["state"] == "leased" and "updates" in boxes.get(b["box_id"], {})]
        return wait_until(find, "the change has begun")[0]
