"""/v1/agent/files/watch: what changes in a tree, and that watches leave nothing behind."""

import json
import os
import pathlib
import shutil
import signal
import tempfile

from agent_client import main, wait_until
from files_client import FilesTest, target


class Watch:
    """A watch that is ready; events are read when they are needed."""

    def __init__(self, test, path, accept="application/x-ndjson", **query):
        self.test = test
        self.connection, self.response = test.open("GET", target("/watch", path=path, **query),
                                                   headers={"Accept": accept})
        if self.response.status == 503 and b"no_descriptors" in self.response.read():
            test.skipTest("others on this machine have the inotify instances of this user")
        test.assertEqual(self.response.status, 200)
        test.assertEqual(self.response.getheader("Content-Type"), accept)
        self.top = str(path)
        test.addCleanup(self.close)
        if accept != "text/event-stream":
            test.assertEqual(self.next(), {"event": "ready", "path": self.top})

    def close(self):
        self.response.close()
        self.connection.close()

    def next(self):
        line = self.response.readline()
        return json.loads(line) if line else None

    def until(self, event, path, to=None):
        """What came before and with this event, as short texts."""
        seen = []
        silences = 0
        while True:
            e = self.next()
            self.test.assertIsNotNone(e, seen)
            silences += e["event"] == "keepalive"
            self.test.assertLess(silences, 4, seen)  # a minute
            short = [e["event"]] + [os.path.relpath(e[k], self.top) for k in ("path", "to") if k in e]
            seen.append(" ".join(short))
            if e["event"] == event and short[1:] == [path] + ([to] if to else []):
                self.last = e
                return seen


class WatchTest(FilesTest):
    def quick_dir(self):
        """In memory, where there is such a place."""
        place = tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
        self.addCleanup(place.cleanup)
        return pathlib.Path(place.name)

    def test_events_of_files(self):
        (self.root / "sub").mkdir()
        watch = Watch(self, self.root)
        self.put("f", "x")
        self.assertEqual(watch.until("modified", "f")[0], "created f")
        self.assertEqual(watch.last["type"], "file")
        with open(self.root / "f", "a") as f:
            f.write("more")
        self.assertEqual(set(watch.until("modified", "f")), {"modified f"})
        (self.root / "f").rename(self.root / "g")
        self.assertEqual(watch.until("moved", "f", "g")[-1], "moved f g")
        (self.root / "g").chmod(0o600)
        watch.until("modified", "g")
        (self.root / "g").unlink()
        watch.until("deleted", "g")
        self.assertIsNone(watch.last["type"])
        (self.root / "link").symlink_to("nowhere")
        watch.until("created", "link")
        self.assertEqual(watch.last["type"], "symlink")
        self.put("sub/not-watched", "x")
        (self.root / "dir").mkdir()
        self.assertEqual([e for e in watch.until("created", "dir") if "not-watched" in e], [])
        self.assertEqual(watch.last["type"], "directory")
        (self.root / "dir").rmdir()
        watch.until("deleted", "dir")
        self.assertEqual(watch.last["type"], "directory")

    def test_tree(self):
        (self.root / "a/b").mkdir(parents=True)
        watch = Watch(self, self.root, recursive="1")
        self.put("a/b/f", "x")
        watch.until("created", "a/b/f")
        (self.root / "new/deep/er").mkdir(parents=True)
        self.put("new/deep/er/f", "x")
        watch.until("created", "new/deep/er/f")
        (self.root / "new").rename(self.root / "a/b/moved")
        watch.until("moved", "new", "a/b/moved")
        self.put("a/b/moved/deep/er/g", "x")
        watch.until("created", "a/b/moved/deep/er/g")
        (self.root / "a").rename(self.root / "z")
        watch.until("moved", "a", "z")
        self.put("z/b/moved/deep/h", "x")
        watch.until("created", "z/b/moved/deep/h")
        shutil.rmtree(self.root / "z")
        watch.until("deleted", "z")
        (self.root / "z").mkdir()
        watch.until("created", "z")
        self.put("z/f", "x")
        watch.until("created", "z/f")

    def test_temporary_names_are_not_shown(self):
        (self.root / "sub").mkdir()
        watch = Watch(self, self.root, recursive="1")
        for content in (b"first", b"second"):
            self.good("PUT", path=self.root / "f", body=content)
            self.good("PUT", path=self.root / "sub/g", body=content)
            seen = watch.until("created", "sub/g")
            self.assertIn("created f", seen)
            self.assertEqual([e for e in seen if ".sandpool-" in e], [])
        (self.root / "sub/g").rename(self.root / "sub/.sandpool-0123456789abcdef")
        self.put(".sandpool-of-mine", "x")
        seen = watch.until("created", ".sandpool-of-mine")
        self.assertIn("deleted sub/g", seen)
        self.assertEqual([e for e in seen if "0123456789abcdef" in e], [])

    def test_moves_over_the_border(self):
        inside = self.root / "in"
        inside.mkdir()
        self.put("out/d/f", "x")
        watch = Watch(self, inside, recursive="1")
        (self.root / "out/d").rename(inside / "d")
        self.assertEqual(watch.until("created", "d/f"), ["created d", "created d/f"])
        self.put("in/d/g", "x")
        watch.until("created", "d/g")
        (inside / "d").rename(self.root / "out/e")
        watch.until("deleted", "d")
        self.put("out/e/h", "x")
        self.put("in/last", "x")
        self.assertEqual([e for e in watch.until("created", "last") if "h" in e.split("/")[-1]], [])

    def test_names_of_the_directory(self):
        """Parts that mean nothing are in no path of what is in it."""
        (self.root / "a").mkdir()
        top = os.path.relpath(self.root / "a", self.home)
        for given, path in ((f"{self.root}/./a", self.root / "a"), (f"{self.root}//a/.", self.root / "a"), (".", self.home),
                            ("./", self.home), ("~/.", self.home), (f"{top}/.", self.home / top), ("/./", "/")):
            _, response = self.open("GET", target("/watch", path=given), headers={"Accept": "application/x-ndjson"})
            self.assertEqual(json.loads(response.readline()), {"event": "ready", "path": str(path)})
            if path == "/":
                continue
            (pathlib.Path(path) / "x").touch()
            self.assertEqual(json.loads(response.readline()), {"event": "created", "path": f"{path}/x", "type": "file"})
            listed = self.good("GET", "/list", path=given)
            self.assertEqual((listed["path"], listed["entries"][0]["path"]), (str(path), f"{path}/x"))
            (pathlib.Path(path) / "x").unlink()
        self.assertIn("path", self.bad(400, "invalid", "DELETE", path="./", recursive=1))

    def test_the_directory_itself_goes(self):
        for end in (os.rmdir, lambda p: os.rename(p, self.root / "elsewhere")):
            top = self.root / "top"
            top.mkdir()
            watch = Watch(self, top)
            end(top)
            watch.until("deleted", ".")
            self.assertIsNone(watch.next())
        wait_until(self.no_helpers, "the helpers have ended")

    def test_events_form(self):
        watch = Watch(self, self.root, accept="text/event-stream")
        self.put("f", "x")
        lines = [watch.response.readline() for _ in range(6)]
        self.assertEqual(lines[0], b"event: ready\n")
        self.assertEqual(json.loads(lines[1][6:]), {"event": "ready", "path": str(self.root)})
        self.assertEqual((lines[2], lines[3]), (b"\n", b"event: created\n"))
        self.assertEqual(json.loads(lines[4][6:])["path"], str(self.root / "f"))

    def test_overflow(self):
        """The helper is stopped until the kernel's queue is full."""
        with open("/proc/sys/fs/inotify/max_queued_events") as f:
            queued = int(f.read())
        if queued > 100000:
            self.skipTest("the queue is too long to fill it here")
        top = self.quick_dir()
        names = [str(top / (c * 200)) for c in "ab"]
        for name in names:
            open(name, "wb").close()
        watch = Watch(self, top, recursive="1")
        helper, = self.children()
        os.kill(helper, signal.SIGSTOP)
        for i in range(queued + 100):
            os.chmod(names[i % 2], 0o600)
        os.kill(helper, signal.SIGCONT)
        while True:
            seen = watch.next()
            self.assertIn(seen and seen["event"], ("modified", "overflow"))
            if seen["event"] == "overflow":
                break
        (top / "sub").mkdir()
        (top / "sub/after").touch()
        watch.until("created", "sub/after")

    def test_errors_and_limits(self):
        self.bad(404, "file_not_found", "GET", "/watch", path=self.root / "no")
        self.bad(400, "not_directory", "GET", "/watch", path=self.put("f", "x"))
        self.bad(403, "permission_denied", "GET", "/watch", path="/proc/self")
        self.bad(422, "invalid_field", "GET", "/watch", path=self.root, recursive="x")
        self.assertEqual(self.ask_files("HEAD", "/watch", path=self.root).status, 405)
        many = self.quick_dir() / "many"
        for i in range(8192):
            (many / str(i // 100) / str(i)).mkdir(parents=True)
        answer = self.ask_files("GET", "/watch", path=many, recursive="1")
        self.assertIn((answer.status, answer.json["error"]["code"]), ((413, "too_many_directories"), (507, "no_space")))
        Watch(self, many)

    def test_at_most_64(self):
        watches = [Watch(self, self.root) for _ in range(64)]
        self.bad(503, "busy", "GET", "/watch", path=self.root)
        self.assertEqual(self.good("GET", "/stat", path=self.root)["type"], "directory")
        self.assertIs(self.get("/v1/agent/activity").json["busy"], False)
        for watch in watches:
            watch.close()
        wait_until(self.no_helpers, "the helpers have ended")
        Watch(self, self.root)


if __name__ == "__main__":
    main()
