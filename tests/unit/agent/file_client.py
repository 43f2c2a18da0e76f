"""What the tests of the file API share."""

import pathlib
import urllib.parse

from agent_client import AgentTest

MIB = 1024 * 1024


def multipart(parts, boundary="xYzZy"):
    body = b""
    for name, filename, data in parts:
        extra = f'; filename="{filename}"' if filename is not None else ""
        body += f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"{extra}\r\n\r\n'.encode()
        body += data + b"\r\n"
    return body + f"--{boundary}--\r\n".encode(), {
        "Content-Type": f"multipart/form-data; boundary={boundary}"}


class FileTest(AgentTest):
    def setUp(self):
        super().setUp()
        self.root = pathlib.Path(self.dir.name) / "root"
        self.root.mkdir()

    def ask(self, what, **fields):
        fields = {k: str(v) if isinstance(v, pathlib.Path) else v for k, v in fields.items()}
        return self.post(f"/v1/file/{what}", fields)

    def ok(self, what, **fields):
        answer = self.ask(what, **fields)
        self.assertEqual(answer.status, 200, answer)
        self.assertIs(answer.json["success"], True)
        return answer.data

    def fails(self, status, kind, answer):
        self.assertEqual(answer.status, status, answer)
        self.assertIs(answer.json["success"], False)
        self.assertTrue(answer.json["message"])
        if kind is not None:
            self.assertEqual(answer.data["error_type"], kind, answer)
            self.assertIn("retryable", answer.data)
            self.assertTrue(answer.data["operation"])
        return answer.data

    def put(self, name, data):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        return path

    def download(self, path, query="", method="GET", **headers):
        target = f"/v1/file/download?path={urllib.parse.quote(str(path))}{query}"
        return self.call(method, target, headers=headers)

    def upload(self, parts):
        body, headers = multipart(parts)
        return self.call("POST", "/v1/file/upload", body, headers)

    def nothing_left(self):
        self.assertEqual([p for p in self.root.rglob(".sandpool-*")], [])
        self.assertEqual([p for p in self.home.rglob(".sandpool-*")], [])
