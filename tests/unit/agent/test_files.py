"""/v1/agent/files: bytes in and out, removing, stat, list, mkdir, move, copy."""

import email.utils
import hashlib
import json
import os
import pathlib
import socket
import threading
import unittest

from agent_client import TOKEN, main, wait_until
from file_client import MIB
from files_client import FilesTest, target


class BytesTest(FilesTest):
    def test_put_and_get(self):
        data = b"x" + os.urandom(3 * MIB + 17)
        path = self.root / "deep/er/ü x.bin"
        self.assertEqual(self.good("PUT", body=data, path=path),
                         {"path": str(path), "size": len(data), "created": True})
        self.assertTrue(path.read_bytes() == data)
        answer = self.ask_files("GET", path=path)
        self.assertEqual(answer.status, 200)
        self.assertTrue(answer.body == data)
        st = path.stat()
        self.assertEqual(answer.headers["Content-Length"], str(len(data)))
        self.assertEqual(answer.headers["X-Sandpool-Mode"], f"{st.st_mode & 0o7777:04o}")
        self.assertEqual(answer.headers["X-Sandpool-Owner"], f"{st.st_uid}:{st.st_gid}")
        self.assertEqual(email.utils.parsedate_to_datetime(answer.headers["Last-Modified"]).timestamp(),
                         int(st.st_mtime))
        head = self.ask_files("HEAD", path=path)
        self.assertEqual((head.status, head.body, head.headers["ETag"], head.headers["Content-Length"]),
                         (200, b"", answer.headers["ETag"], str(len(data))))
        self.assertFalse(self.good("PUT", body=b"", path=path)["created"])
        self.assertEqual(self.ask_files("GET", path=path).body, b"")
        self.assertNotEqual(self.ask_files("HEAD", path=path).headers["ETag"], answer.headers["ETag"])
        self.nothing_left()

    def test_ranges_and_tags(self):
        path = self.put("f", b"0123456789")
        answer = self.ask_files("GET", path=path, headers={"Range": "bytes=2-4"})
        self.assertEqual((answer.status, answer.body, answer.headers["Content-Range"]),
                         (206, b"234", "bytes 2-4/10"))
        self.assertEqual(self.ask_files("GET", path=path, headers={"Range": "bytes=-3"}).body, b"789")
        answer = self.ask_files("GET", path=path, headers={"Range": "bytes=10-"})
        self.assertEqual((answer.status, answer.json["error"]["code"], answer.headers["Content-Range"]),
                         (416, "no_range", "bytes */10"))
        tag = self.ask_files("HEAD", path=path).headers["ETag"]
        self.assertEqual(self.ask_files("GET", path=path, headers={"If-None-Match": tag}).status, 304)
        self.assertEqual(self.ask_files("GET", path=path, headers={"If-None-Match": '"x"'}).status, 200)
        for given, body in ((tag, b"234"), ('"other"', b"0123456789")):
            self.assertEqual(self.ask_files("GET", path=path, headers={
                "Range": "bytes=2-4", "If-Range": given}).body, body)

    def test_places(self):
        self.assertEqual(self.good("PUT", body=b"1", path="n.txt")["path"], str(self.home / "n.txt"))
        self.assertEqual(self.good("PUT", body=b"2", path="~/m/n")["path"], str(self.home / "m/n"))
        self.assertEqual((self.home / "m/n").read_bytes(), b"2")
        link = self.root / "link"
        link.symlink_to("real")
        self.good("PUT", body=b"3", path=link)
        self.assertTrue(link.is_symlink())
        self.assertEqual((self.root / "real").read_bytes(), b"3")
        self.assertIn(b"MemTotal:", self.ask_files("GET", path="/proc/meminfo").body)

    def test_modes(self):
        path = self.root / "f"
        self.good("PUT", body=b"1", path=path, mode="0750")
        self.assertEqual(path.stat().st_mode & 0o7777, 0o750)
        self.good("PUT", body=b"2", path=path)
        self.assertEqual(path.stat().st_mode & 0o7777, 0o750)
        self.good("PUT", body=b"2", path=path, owner=f"{os.getuid()}:{os.getgid()}", mode="600")
        self.assertEqual(path.stat().st_mode & 0o7777, 0o600)
        for query in ({"mode": "8"}, {"mode": ""}, {"mode": "100000"}, {"owner": "me"}, {"owner": "1"},
                      {"parents": "yes"}, {"user": "nobody-here"}):
            self.bad(422, "invalid_field", "PUT", body=b"x", path=path, **query)
        self.bad(404, "file_not_found", "PUT", body=b"x", path=self.root / "no/f", parents="0")
        self.assertFalse((self.root / "no").exists())

    def test_errors(self):
        missing = self.root / "no"
        self.assertEqual(self.bad(404, "file_not_found", "GET", path=missing)["path"], str(missing))
        self.bad(400, "is_directory", "GET", path=self.root)
        self.bad(400, "is_directory", "PUT", body=b"x", path=self.root)
        self.bad(400, "not_regular", "GET", path="/dev/zero")
        self.bad(403, "permission_denied", "GET", path="/proc/self/environ")
        self.bad(403, "permission_denied", "GET", path=f"/proc/{self.agent.pid}/maps")
        self.bad(400, "not_directory", "PUT", body=b"x", path=self.put("file", "x") / "y")
        self.bad(400, "name_too_long", "PUT", body=b"x", path=self.root / ("n" * 300))
        self.bad(422, "invalid_field", "GET")
        self.bad(422, "invalid_field", "GET", path="x" * 5000)
        self.assertEqual(self.get("/v1/agent/files?path=%00").status, 422)
        os.mkfifo(self.root / "fifo")
        self.bad(400, "not_regular", "GET", path=self.root / "fifo")
        self.bad(400, "not_regular", "PUT", body=b"x", path=self.root / "fifo")
        self.assertEqual(self.call("PUT", target(path=missing), b"x", token="wrong").status, 401)
        self.assertFalse(missing.exists())

    def test_put_broken_off(self):
        path = self.put("f", b"old")
        connection = self.begin_put("", 4 * MIB, path=path)
        connection.send(b"x" * 2 * MIB)
        wait_until(lambda: any(p.stat().st_size > 0 for p in self.root.glob(".sandpool-*")), "the upload has begun")
        self.assertEqual(path.read_bytes(), b"old")
        self.assertEqual(self.ask_files("GET", path=path).body, b"old")
        connection.close()
        wait_until(lambda: [p.name for p in self.root.iterdir()] == ["f"], "nothing is left of it")
        wait_until(self.no_helpers, "the helper has ended")
        self.assertEqual(path.read_bytes(), b"old")

    def test_chunked_put(self):
        path = self.root / "f"
        pieces = [os.urandom(n) for n in (1, 70000, 300000, 5)]
        connection = self.connect()
        connection.request("PUT", target(path=path), iter(pieces), {"Authorization": f"Bearer {TOKEN}"},
                           encode_chunked=True)
        self.assertEqual(json.loads(connection.getresponse().read())["size"], sum(map(len, pieces)))
        self.assertEqual(path.read_bytes(), b"".join(pieces))

    def test_readers_see_old_or_new(self):
        path = self.put("f", b"0" * 200000)
        over = threading.Event()
        seen = set()

        def read():
            while not over.is_set():
                seen.add(hashlib.sha256(path.read_bytes()).hexdigest())

        thread = threading.Thread(target=read)
        thread.start()
        texts = [bytes([48 + i]) * 200000 for i in range(10)]
        try:
            for _ in range(3):
                for text in texts:
                    self.good("PUT", body=text, path=path)
        finally:
            over.set()
            thread.join()
        self.assertLessEqual(seen, {hashlib.sha256(t).hexdigest() for t in texts})

    def test_gone_and_slow_readers(self):
        path = self.root / "sparse"
        with open(path, "wb") as f:
            f.truncate(512 * MIB)
        readers = [self.open("GET", target(path=path)) for _ in range(4)]
        for _, response in readers:
            response.read(1000)
        self.assertEqual(len(self.children()), 4)
        self.assertEqual(self.ask_files("GET", path=self.put("g", "x")).body, b"x")
        for connection, response in readers:
            response.close()
            connection.close()
        wait_until(self.no_helpers, "the helpers have ended")

    def test_at_most_64_at_once(self):
        path = self.root / "sparse"
        with open(path, "wb") as f:
            f.truncate(64 * MIB)
        readers = [self.open("GET", target(path=path)) for _ in range(64)]
        for _, response in readers:
            self.assertEqual(response.status, 200)
        self.bad(503, "busy", "GET", path=path)
        for connection, response in readers:
            response.close()
            connection.close()
        wait_until(self.no_helpers, "the helpers have ended")
        self.assertEqual(self.ask_files("HEAD", path=path).status, 200)

    def test_a_file_that_gets_shorter(self):
        path = self.root / "f"
        with open(path, "wb") as f:
            f.truncate(256 * MIB)
        connection, response = self.open("GET", target(path=path))
        response.read(1000)
        os.truncate(path, 2000)
        with self.assertRaises(Exception):
            while response.read(MIB):
                pass
            if response.length:
                raise ConnectionError("cut")
        connection.close()


class TreeTest(FilesTest):
    def names(self, **query):
        answer = self.good("GET", "/list", **query)
        return sorted(os.path.relpath(e["path"], self.root) for e in answer["entries"])

    def test_stat(self):
        path = self.put("d/f", b"12345")
        os.chmod(path, 0o4711)
        os.utime(path, ns=(0, 1700000000123456789))
        self.assertEqual(self.good("GET", "/stat", path=path), {
            "name": "f", "path": str(path), "type": "file", "size": 5, "mode": "4711", "uid": os.getuid(),
            "gid": path.stat().st_gid, "mtime": "2023-11-14T22:13:20.123Z", "target": None})
        link = self.root / "link"
        link.symlink_to("d/f")
        entry = self.good("GET", "/stat", path=link)
        self.assertEqual((entry["type"], entry["target"]), ("symlink", "d/f"))
        entry = self.good("GET", "/stat", path=link, follow="1")
        self.assertEqual((entry["type"], entry["size"], entry["name"]), ("file", 5, "link"))
        self.assertEqual(self.good("GET", "/stat", path="/")["type"], "directory")
        self.assertEqual(self.good("GET", "/stat", path=f"{self.root}/d/..")["type"], "directory")
        self.assertEqual(self.good("GET", "/stat", path=f"{self.root}/d/")["name"], "d")
        self.assertEqual(self.good("GET", "/stat", path="/dev/null")["type"], "other")
        (self.root / "nowhere").symlink_to("none")
        self.assertEqual(self.good("GET", "/stat", path=self.root / "nowhere")["target"], "none")
        self.bad(404, "file_not_found", "GET", "/stat", path=self.root / "nowhere", follow="1")
        self.bad(404, "file_not_found", "GET", "/stat", path=self.root / "no")
        self.bad(400, "not_directory", "GET", "/stat", path=path / "x")
        self.bad(403, "permission_denied", "GET", "/stat", path="/proc/self/fd")

    def test_list(self):
        self.put("a/b/c", "x")
        self.put("a/d", "x")
        self.put(".hidden", "x")
        (self.root / "loop").symlink_to(".")
        self.assertEqual(self.names(path=self.root), [".hidden", "a", "loop"])
        self.assertEqual(self.names(path=self.root, recursive="1"),
                         [".hidden", "a", "a/b", "a/b/c", "a/d", "loop"])
        self.assertEqual(self.names(path=self.root, recursive="1", depth="2"),
                         [".hidden", "a", "a/b", "a/d", "loop"])
        answer = self.good("GET", "/list", path=self.root, recursive="1", limit="6")
        self.assertEqual((len(answer["entries"]), answer["truncated"], answer["unreadable"]), (6, False, 0))
        answer = self.good("GET", "/list", path=self.root, recursive="1", limit="5")
        self.assertEqual((len(answer["entries"]), answer["truncated"]), (5, True))
        self.assertEqual(self.good("GET", "/list", path=self.root / "a/b")["entries"][0],
                         self.good("GET", "/stat", path=self.root / "a/b/c"))
        (self.root / "empty").mkdir()
        self.assertEqual(self.good("GET", "/list", path=self.root / "empty")["entries"], [])
        self.bad(404, "file_not_found", "GET", "/list", path=self.root / "no")
        self.bad(400, "not_directory", "GET", "/list", path=self.root / "a/d")
        for query in ({"limit": "0"}, {"limit": "100001"}, {"depth": "0"}, {"recursive": "x"}):
            self.bad(422, "invalid_field", "GET", "/list", path=self.root, **query)

    def test_list_many(self):
        for i in range(10000):
            (self.root / f"f{i}").touch()
        answer = self.good("GET", "/list", path=self.root)
        self.assertEqual((len(answer["entries"]), answer["truncated"]), (10000, False))
        self.assertEqual(len({e["name"] for e in answer["entries"]}), 10000)
        connection, response = self.open("GET", target("/list", path=self.root))
        response.read(10)
        response.close()
        connection.close()
        wait_until(self.no_helpers, "the helper has ended")
        self.assertEqual(self.good("DELETE", path=self.root, recursive="1")["removed"], 10001)

    def test_odd_names(self):
        odd = os.fsencode(self.root) + b'/\xff\xfe"\n\\'
        self.good("PUT", body=b"1", path=odd)
        with open(odd, "rb") as f:
            self.assertEqual(f.read(), b"1")
        answer = self.good("GET", "/list", path=self.root)
        self.assertEqual(answer["entries"][0]["name"], '\ufffd\ufffd"\n\\')
        self.assertEqual(self.ask_files("GET", path=odd).body, b"1")
        self.assertEqual(self.bad(404, "file_not_found", "GET", path=odd + b"\xff")["path"][-1], "\ufffd")
        self.good("DELETE", path=odd)
        self.assertEqual(os.listdir(self.root), [])

    def test_delete(self):
        outside = self.put("out/side", "x")
        self.put("d/e/f", "x")
        (self.root / "d/link").symlink_to(outside.parent)
        (self.root / "d/e/flink").symlink_to(outside)
        os.mkfifo(self.root / "d/fifo")
        self.bad(409, "not_empty", "DELETE", path=self.root / "d")
        self.assertEqual(self.good("DELETE", path=self.root / "d", recursive="1")["removed"], 6)
        self.assertFalse((self.root / "d").exists())
        self.assertEqual(outside.read_text(), "x")
        link = self.root / "link"
        link.symlink_to("out")
        self.assertEqual(self.good("DELETE", path=link, recursive="1")["removed"], 1)
        self.assertTrue(outside.exists())
        self.good("DELETE", path=outside)
        self.good("DELETE", path=self.root / "out")
        self.bad(404, "file_not_found", "DELETE", path=self.root / "out")
        self.bad(400, "invalid", "DELETE", path="/", recursive="1")
        self.bad(400, "invalid", "DELETE", path=f"{self.root}/.", recursive="1")

    def test_delete_deep(self):
        os.mkdir(self.root / "top")
        fd = os.open(self.root / "top", os.O_RDONLY)
        depth = 400
        for i in range(depth):
            os.mkdir("d", dir_fd=fd)
            if i % 100 == 0:
                os.close(os.open("f", os.O_CREAT | os.O_WRONLY, dir_fd=fd))
            below = os.open("d", os.O_RDONLY, dir_fd=fd)
            os.close(fd)
            fd = below
        os.close(fd)
        answer = self.good("GET", "/list", path=self.root, recursive="1", limit="100000")
        self.assertIs(answer["truncated"], True)
        self.assertEqual(self.good("DELETE", path=self.root / "top", recursive="1")["removed"],
                         1 + depth + depth // 100)
        self.assertEqual(os.listdir(self.root), [])

    def test_mkdir(self):
        path = self.root / "a/b"
        self.change_fails(404, "file_not_found", "mkdir", path=path, parents=False)
        self.assertEqual(self.change("mkdir", path=path, mode="0700")["mode"], "0700")
        self.assertEqual(self.change("mkdir", path=path)["type"], "directory")
        self.assertEqual(path.stat().st_mode & 0o777, 0o700)
        self.change_fails(409, "file_exists", "mkdir", path=path, parents=False)
        self.change_fails(409, "file_exists", "mkdir", path=self.put("f", ""))
        self.change_fails(422, "invalid_field", "mkdir")
        self.change_fails(422, "invalid_field", "mkdir", path=path, mode="9")
        self.change_fails(422, "invalid_field", "mkdir", path=path, parents="x")
        self.bad(400, "bad_request", "POST", "/mkdir", b"nonsense")
        self.bad(400, "bad_request", "POST", "/mkdir", b"[]")

    def test_move(self):
        self.put("a", "1")
        entry = self.change("move", **{"from": self.root / "a", "to": self.root / "x/b"})
        self.assertEqual((entry["path"], entry["size"]), (str(self.root / "x/b"), 1))
        self.assertFalse((self.root / "a").exists())
        self.put("c", "22")
        both = {"from": self.root / "c", "to": self.root / "x/b"}
        self.change_fails(409, "file_exists", "move", **both, overwrite=False)
        self.change("move", **both)
        self.assertEqual((self.root / "x/b").read_text(), "22")
        error = self.change_fails(404, "file_not_found", "move", **both)
        self.assertEqual(error["path"], str(self.root / "c"))
        self.put("d/e", "3")
        self.change_fails(409, "not_empty", "move", **{"from": self.root / "d", "to": self.root / "x"})
        self.change_fails(400, "invalid", "move", **{"from": self.root / "d", "to": self.root / "d/e2/f"})
        link = self.root / "link"
        link.symlink_to("x/b")
        self.change("move", **{"from": link, "to": self.root / "link2"})
        self.assertEqual(os.readlink(self.root / "link2"), "x/b")
        self.change_fails(422, "invalid_field", "move", to="x")

    @unittest.skipUnless(os.path.isdir("/dev/shm") and os.stat("/dev/shm").st_dev != os.stat("/tmp").st_dev,
                         "needs two file systems")
    def test_move_between_file_systems(self):
        other = pathlib.Path("/dev/shm") / self.root.parent.name
        other.mkdir()
        self.addCleanup(lambda: self.ask_files("DELETE", path=other, recursive="1"))
        self.put("d/e/f", "3")
        (self.root / "d/link").symlink_to("nowhere")
        self.change("move", **{"from": self.root / "d", "to": other / "d"})
        self.assertEqual((other / "d/e/f").read_text(), "3")
        self.assertEqual(os.readlink(other / "d/link"), "nowhere")
        self.assertFalse((self.root / "d").exists())
        self.change("move", **{"from": other / "d/link", "to": self.root / "link"})
        self.assertEqual(os.readlink(self.root / "link"), "nowhere")
        with socket.socket(socket.AF_UNIX) as s:
            s.bind(str(other / "d/socket"))
        self.change_fails(400, "not_regular", "move", **{"from": other / "d", "to": self.root / "d2"})
        self.assertTrue((other / "d/e/f").exists())

    def test_copy(self):
        data = os.urandom(2 * MIB)
        path = self.put("a", data)
        path.chmod(0o751)
        entry = self.change("copy", **{"from": path, "to": self.root / "x/b"})
        self.assertEqual((entry["size"], entry["mode"]), (len(data), "0751"))
        self.assertTrue((self.root / "x/b").read_bytes() == data)
        self.change_fails(409, "file_exists", "copy", **{"from": path, "to": self.root / "x/b"}, overwrite=False)
        self.change_fails(400, "invalid", "copy", **{"from": path, "to": path})
        self.assertEqual(path.stat().st_size, len(data))
        self.put("d/e/f", "3")
        (self.root / "d/e").chmod(0o555)
        self.addCleanup(lambda: [p.chmod(0o755) for p in self.root.rglob("e")])
        (self.root / "d/link").symlink_to("/etc")
        os.mkfifo(self.root / "d/fifo")
        both = {"from": self.root / "d", "to": self.root / "copy/of"}
        self.change_fails(400, "is_directory", "copy", **both, recursive=False)
        entry = self.change("copy", **both)
        self.assertEqual((entry["type"], entry["skipped"]), ("directory", 1))
        copy = self.root / "copy/of"
        self.assertEqual((copy / "e/f").read_text(), "3")
        self.assertEqual((copy / "e").stat().st_mode & 0o777, 0o555)
        self.assertEqual(os.readlink(copy / "link"), "/etc")
        self.change_fails(409, "file_exists", "copy", **both, overwrite=False)
        self.change_fails(400, "invalid", "copy", **{"from": self.root / "d", "to": self.root / "d/x/y"})
        self.change_fails(400, "invalid", "copy", **{"from": self.root / "d", "to": self.root / "d"})
        self.change_fails(404, "file_not_found", "copy", **{"from": self.root / "no", "to": self.root / "n"})
        self.change_fails(400, "not_regular", "copy", **{"from": self.root / "d/fifo", "to": self.root / "n"})
        self.nothing_left()

    def test_copy_does_not_follow_links_of_the_target(self):
        outside = self.put("outside/f", "keep")
        self.put("d/f", "new")
        self.put("d/sub/g", "new")
        (self.root / "to").mkdir()
        (self.root / "to/f").symlink_to(outside)
        (self.root / "to/sub").symlink_to(outside.parent)
        self.change_fails(400, "not_directory", "copy", **{"from": self.root / "d", "to": self.root / "to"})
        self.assertEqual(outside.read_text(), "keep")
        self.assertEqual(os.listdir(outside.parent), ["f"])


@unittest.skipUnless(os.geteuid() == 0, "needs root")
class FullTest(FilesTest):
    """The home is a file system of 1 MiB."""

    def agent_argv(self, argv):
        script = 'mount -t tmpfs -o size=1m none "$0" && exec "$@"'
        return ["unshare", "-m", "--propagation", "private", "sh", "-c", script, str(self.home), *argv]

    def test_no_space(self):
        self.good("PUT", body=b"old", path="f")
        self.bad(507, "no_space", "PUT", body=b"x" * 2 * MIB, path="f")
        self.assertEqual(self.ask_files("GET", path="f").body, b"old")
        self.assertEqual([e["name"] for e in self.good("GET", "/list", path=".")["entries"]], ["f"])
        big = self.put("big", b"x" * 2 * MIB)
        self.change_fails(507, "no_space", "copy", **{"from": big, "to": "g"})
        self.assertEqual([e["name"] for e in self.good("GET", "/list", path=".")["entries"]], ["f"])


if __name__ == "__main__":
    main()
