"""What the tests of /v1/agent/files share."""

import pathlib
import urllib.parse

from agent_client import TOKEN
from file_client import FileTest


def target(what="", **query):
    text = urllib.parse.urlencode({k: bytes(v) if isinstance(v, pathlib.Path) else v for k, v in query.items()})
    return f"/v1/agent/files{what}?{text}"


class FilesTest(FileTest):
    def ask_files(self, method, what="", body=None, headers=None, **query):
        return self.call(method, target(what, **query), body, headers)

    def good(self, method, what="", body=None, headers=None, **query):
        answer = self.ask_files(method, what, body, headers, **query)
        self.assertIn(answer.status, (200, 206), answer)
        return answer.json if answer.json is not None else answer

    def bad(self, status, code, method, what="", body=None, path=None, headers=None, **query):
        if path is not None:
            query["path"] = path
        answer = self.ask_files(method, what, body, headers, **query)
        self.assertEqual((answer.status, answer.json["error"]["code"]), (status, code), answer)
        self.assertTrue(answer.json["error"]["message"])
        return answer.json["error"]

    def change(self, what, **fields):
        fields = {k: str(v) if isinstance(v, pathlib.Path) else v for k, v in fields.items()}
        return self.good("POST", f"/{what}", fields)

    def change_fails(self, status, code, what, **fields):
        fields = {k: str(v) if isinstance(v, pathlib.Path) else v for k, v in fields.items()}
        return self.bad(status, code, "POST", f"/{what}", fields)

    def begin_put(self, what, length, **query):
        """A request whose body is still to be sent."""
        connection = self.connect()
        connection.putrequest("PUT", target(what, **query))
        connection.putheader("Authorization", f"Bearer {TOKEN}")
        connection.putheader("Content-Length", str(length))
        connection.endheaders()
        return connection

    def no_helpers(self):
        return self.children() == []
