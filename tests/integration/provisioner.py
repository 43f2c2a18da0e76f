"""What the tests of the provisioner share: its client, and daemons that serve it."""

import http.client
import json
import re
import threading

from fixtures import WAIT_S, Answer, TestCase, free_port

KEY = "provisioner-key-of-the-tests"
ID = "fe0dc8182dec7b77"  # user default, thread thread-1
ANY_URL = re.compile(r"http://127\.0\.0\.1:\d+/s/[A-Za-z0-9._-]+/[0-9a-f]{32}")
ANY_BOX = re.compile(r"[0-9a-f]{16}")


def matches(want, have):
    """Equal, with patterns in place of texts that differ from run to run."""
    if isinstance(want, re.Pattern):
        return isinstance(have, str) and want.fullmatch(have) is not None
    if isinstance(want, dict):
        return (isinstance(have, dict) and list(want) == list(have) and
                all(matches(want[k], have[k]) for k in want))
    if isinstance(want, list):
        return (isinstance(have, list) and len(want) == len(have) and
                all(matches(w, h) for w, h in zip(want, have)))
    return type(want) is type(have) and want == have


def sandbox(sandbox_id=ID, status="Running", sessions=None):
    return {"sandbox_id": sandbox_id, "sandbox_url": ANY_URL, "status": status,
            "max_shell_sessions": sessions, "container_id": ANY_BOX, "lark_cli_broker": False}


class Caller:
    """One kept-alive connection to the provisioner, as DeerFlow's client has."""

    def __init__(self, port, key=KEY, timeout=WAIT_S * 2):
        self.port = port
        self.key = key
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)

    def call(self, method, target, body=None, headers=None, key=None):
        headers = dict(headers or {})
        if (key or self.key) and "X-API-Key" not in headers:
            headers["X-API-Key"] = key or self.key
        if isinstance(body, (dict, list)):
            body = json.dumps(body)
            headers.setdefault("Content-Type", "application/json")
        try:
            self.connection.request(method, target, body, headers)
            response = self.connection.getresponse()
            data = response.read()
        except (OSError, http.client.HTTPException):
            self.connection.close()
            raise
        answer = Answer(response.status, dict(response.getheaders()), "")
        answer.data = data
        answer.text = data.decode(errors="replace")
        kind = response.getheader("Content-Type") or ""
        answer.json = json.loads(data) if data and kind.startswith("application/json") else None
        return answer

    def create(self, sandbox_id, **fields):
        return self.call("POST", "/api/sandboxes", {"sandbox_id": sandbox_id, **fields})

    def get(self, sandbox_id):
        return self.call("GET", f"/api/sandboxes/{sandbox_id}")

    def delete(self, sandbox_id):
        return self.call("DELETE", f"/api/sandboxes/{sandbox_id}")

    def presence(self, sandbox_id):
        return self.call("GET", f"/api/sandboxes/{sandbox_id}/presence")

    def ids(self):
        answer = self.call("GET", "/api/sandboxes")
        assert answer.status == 200 and answer.json["count"] == len(answer.json["sandboxes"]), answer
        return [s["sandbox_id"] for s in answer.json["sandboxes"]]

    def close(self):
        self.connection.close()


class ProvisionerCase(TestCase):
    """self.port is where the daemon made by serve() answers."""

    def serve(self, provisioner=None, **kw):
        self.port = free_port()
        settings = {"enabled": True, "listen": f"127.0.0.1:{self.port}", "api_key": KEY,
                    **(provisioner or {})}
        self.settings = settings
        return self.daemon(provisioner=settings, **kw)

    def caller(self, **kw):
        caller = Caller(self.port, **kw)
        self.addCleanup(caller.close)
        return caller

    def once(self, work):
        """work(caller) on a connection of its own, so that threads can do it."""
        caller = Caller(self.port)
        try:
            return work(caller)
        finally:
            caller.close()

    def meanwhile(self, work):
        thread = threading.Thread(target=self.once, args=(work,))
        thread.start()
        return thread
