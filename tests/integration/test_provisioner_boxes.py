"""The provisioner on real boxes: what DeerFlow's client does in a sandbox works through the proxy and on
an open port, without a token; files of hundreds of MB, restarts, deaths, mounts."""

import hashlib
import http.client
import json
import os
import pathlib
import threading
import time
import urllib.parse

from fixtures import IS_SANITIZED, MIB, SLOW, free_port, main, wait_until
from oci_case import BoxCase
from provisioner import KEY, Caller


class Sandbox:
    """DeerFlow's client of one sandbox: it knows the address and nothing else."""

    def __init__(self, url, timeout=120):
        self.url = urllib.parse.urlsplit(url)
        self.connection = http.client.HTTPConnection(self.url.hostname, self.url.port,
                                                     timeout=timeout)

    def call(self, method, path, body=None, headers=None):
        if isinstance(body, dict):
            body = json.dumps(body)
            headers = {"Content-Type": "application/json", **(headers or {})}
        self.connection.request(method, self.url.path + path, body, headers or {})
        response = self.connection.getresponse()
        return response.status, response.read()

    def post(self, target, /, **fields):
        status, data = self.call("POST", target, fields)
        assert status == 200, (status, data[:300])
        return json.loads(data)["data"]

    def sh(self, command):
        return self.post("/v1/shell/exec", command=command, no_change_timeout=600)["output"]

    def close(self):
        self.connection.close()


class Case(BoxCase):
    boxes = "proxy"

    @classmethod
    def make_config(cls):
        cls.port = free_port()
        cls.shared = cls.home / "shared"
        cls.shared.mkdir(exist_ok=True)
        cls.config = {"provisioner": {"enabled": True, "listen": f"127.0.0.1:{cls.port}",
                                      "api_key": KEY, "boxes": cls.boxes},
                      "mounts": {"allow": [str(cls.shared)]}}
        return super().make_config()

    def setUp(self):
        super().setUp()
        self.caller = Caller(self.port)
        self.addCleanup(self.caller.close)

    def create(self, sandbox_id, **fields):
        answer = self.caller.create(sandbox_id, **fields)
        self.assertEqual(answer.status, 200, (answer, self.log_tail()))
        return answer.json

    def sandbox(self, sandbox_id, **fields):
        return self.at(self.create(sandbox_id, **fields)["sandbox_url"])

    def at(self, url):
        box = Sandbox(url)
        self.addCleanup(box.close)
        return box

    def init(self, container_id):
        return int((self.server.state / "oci" / "boxes" / container_id / "pid").read_text())


class Common:
    """The same, however boxes are reached."""

    def test_what_deerflow_does(self):
        box = self.sandbox("a", thread_id="t1", user_id="alice")
        self.assertEqual(box.call("GET", "/v1/sandbox")[0], 200)
        self.assertEqual(box.sh("echo hello"), "hello\n")
        self.assertEqual(box.sh("cd /tmp; X=1"), "")
        self.assertEqual(box.sh("echo $PWD $X"), "/tmp 1\n")
        done = box.post("/v1/bash/exec", command="echo $WHO; echo no >&2; exit 3",
                        env={"WHO": "me"}, hard_timeout=600)
        self.assertEqual((done["stdout"], done["stderr"], done["exit_code"]), ("me\n", "no\n", 3))
        box.post("/v1/file/write", file="/tmp/a/b.txt", content="one\ntwo\n")
        self.assertEqual(box.post("/v1/file/read", file="/tmp/a/b.txt", start_line=1)["content"],
                         "two\n")
        self.assertEqual(box.post("/v1/file/find", path="/tmp/a", glob="*.txt")["files"],
                         ["/tmp/a/b.txt"])
        self.assertEqual(len(box.post("/v1/file/list", path="/tmp/a", recursive=True)["files"]), 1)
        self.assertEqual(box.post("/v1/file/grep", path="/tmp/a", pattern="tw.")["match_count"], 1)
        status, data = box.call("GET", "/v1/file/download?path=/tmp/a/b.txt")
        self.assertEqual((status, data), (200, b"one\ntwo\n"))
        session = box.post("/v1/shell/sessions/create", id="own")["session_id"]
        self.assertEqual(box.call("DELETE", f"/v1/shell/sessions/{session}")[0], 200)

    def test_mounts(self):
        (self.shared / "work").mkdir(exist_ok=True)
        os.chown(self.shared / "work", 12345, 12345)  # what of root's is not written by boxes
        (self.shared / "work" / "in").write_text("from outside")
        mounts = [{"host_path": str(self.shared / "work"), "container_path": "/mnt/acp-workspace"}]
        first = self.create("a", extra_mounts=mounts)
        self.assertEqual(self.create("a", extra_mounts=mounts), first)
        box = self.sandbox("a")
        self.assertEqual(box.sh("cat /mnt/acp-workspace/in"), "from outside")
        os.symlink("/etc", self.shared / "out")
        self.addCleanup(os.unlink, self.shared / "out")
        answer = self.caller.create("b", extra_mounts=[
            {"host_path": str(self.shared / "out"), "container_path": "/mnt/x"}])
        self.assertEqual(answer.status, 400, answer)
        self.assertIn("Invalid extra mount: ", answer.json["detail"])
        wait_until(lambda: self.caller.get("b").status == 404, "no box stays")

    def test_a_box_that_dies(self):
        first = self.create("a")
        os.kill(self.init(first["container_id"]), 9)
        wait_until(lambda: self.caller.get("a").status == 404, "the death is seen")
        again = self.create("a")
        self.assertNotEqual(again["container_id"], first["container_id"])
        self.assertEqual(self.sandbox("a").sh("echo alive"), "alive\n")

    def test_the_daemon_is_killed(self):
        before = self.create("a")
        box = self.sandbox("a")
        box.sh("echo kept > /tmp/kept")
        self.server.kill()
        self.server.start()
        self.caller.close()
        self.assertEqual(self.caller.get("a").json, before)
        self.assertEqual(self.at(before["sandbox_url"]).sh("cat /tmp/kept"), "kept\n")

    def test_deleted_is_gone(self):
        box = self.create("a")
        directory = self.server.state / "oci" / "boxes" / box["container_id"]
        self.assertTrue(directory.is_dir())
        self.assertEqual(self.caller.delete("a").json, {"ok": True, "sandbox_id": "a"})
        self.assertFalse(directory.exists())


class TestProxy(Common, Case):
    def memory(self):
        status = pathlib.Path(f"/proc/{self.server.process.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) * 1024

    def test_a_command_that_streams(self):
        box = self.sandbox("a")
        box.connection.request("POST", box.url.path + "/v1/shell/exec", json.dumps(
            {"command": "echo one; while ! test -e /tmp/go; do sleep 0.05; done; echo two"}),
            {"Accept": "text/event-stream", "Content-Type": "application/json"})
        response = box.connection.getresponse()
        self.assertEqual(response.getheader("Content-Type").split(";")[0], "text/event-stream")
        text = b""
        while b"one" not in text:
            text += response.read1(65536)
        self.assertNotIn(b"two", text)
        other = self.sandbox("a")
        other.post("/v1/file/write", file="/tmp/go", content="x")
        text += response.read()
        self.assertIn(b"two", text)

    def test_large_files_in_little_memory(self):
        box = self.sandbox("a")
        box.sh("true")
        size = int(256 * MIB / SLOW)
        block = os.urandom(MIB)
        before = self.memory()
        peak = [before]
        end = threading.Event()

        def watch():
            while not end.wait(0.05):
                peak.append(self.memory())
        watcher = threading.Thread(target=watch)
        watcher.start()
        self.addCleanup(watcher.join)
        self.addCleanup(end.set)
        head = (b"--edge\r\nContent-Disposition: form-data; name=\"path\"\r\n\r\n/tmp/big\r\n--edge\r\n"
                b"Content-Disposition: form-data; name=\"file\"; filename=\"big\"\r\n\r\n")
        tail = b"\r\n--edge--\r\n"
        digest = hashlib.sha256()

        def body():
            yield head
            for _ in range(size // MIB):
                digest.update(block)
                yield block
            yield tail
        begun = time.monotonic()
        status, data = box.call("POST", "/v1/file/upload", body(), {
            "Content-Type": "multipart/form-data; boundary=edge",
            "Content-Length": str(len(head) + size // MIB * MIB + len(tail))})
        self.assertEqual((status, json.loads(data)["data"]["file_size"]), (200, size // MIB * MIB))
        up = time.monotonic() - begun
        begun = time.monotonic()
        box.connection.request("GET", box.url.path + "/v1/file/download?path=/tmp/big")
        response = box.connection.getresponse()
        back = hashlib.sha256()
        while True:
            piece = response.read(MIB)
            if not piece:
                break
            back.update(piece)
        down = time.monotonic() - begun
        self.assertEqual(back.hexdigest(), digest.hexdigest())
        print(f"{size // MIB} MiB: up {up:.1f} s, down {down:.1f} s, "
              f"memory {before // 1024} -> {max(peak) // 1024} KiB")
        if not IS_SANITIZED:  # a sanitizer keeps what is freed
            self.assertLess(max(peak) - before, 16 * MIB)

    def test_without_the_address_nobody_gets_in(self):
        url = urllib.parse.urlsplit(self.create("a")["sandbox_url"])
        own = self.row_url("a")
        self.assertEqual(self.at(own).call("POST", "/v1/shell/exec", {"command": "id"})[0], 401)
        wrong = url._replace(path=url.path[:-4] + "0000").geturl()
        self.assertEqual(self.at(wrong).call("POST", "/v1/shell/exec", {"command": "id"})[0], 404)

    def row_url(self, sandbox_id):
        return self.pool.get(f"/v1/sandboxes/{sandbox_id}").json["sandbox_url"]


class TestOpen(Common, Case):
    boxes = "open"

    def test_only_boxes_of_the_provisioner(self):
        other = self.acquire("native")
        self.assertEqual(other.call("POST", "/v1/shell/exec", {"command": "id"}, token="x")[0], 401)
        url = self.create("a")["sandbox_url"]
        self.assertEqual(url, self.pool.get("/v1/sandboxes/a").json["sandbox_url"])
        self.assertEqual(self.at(url).sh("echo open"), "open\n")


if __name__ == "__main__":
    main()
