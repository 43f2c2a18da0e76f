"""The file API: reading, writing, finding, searching, and what is denied."""

import pathlib
import base64
import os
import shutil
import subprocess
import threading
import time
import unittest

from agent_client import BIN, TOKEN, at_most, main
from file_client import MIB, FileTest


class ReadTest(FileTest):
    def test_text(self):
        text = 'a\r\nü "€" \\ 😀\t\x01\0end\n'
        path = self.put("a.txt", text)
        self.assertEqual(self.ok("read", file=path), {"content": text, "file": str(path)})
        self.assertEqual(self.ok("read", file=self.put("empty", ""))["content"], "")

    def test_lines(self):
        path = self.put("a", "0\n1\n2\n" + "x" * 100000 + "\nlast")
        read = lambda **kw: self.ok("read", file=path, **kw)["content"]
        self.assertEqual(read(start_line=1, end_line=3), "1\n2\n")
        self.assertEqual(read(end_line=1), "0\n")
        self.assertEqual(read(start_line=3), "x" * 100000 + "\nlast")
        self.assertEqual(read(start_line=4, end_line=100), "last")
        self.assertEqual(read(start_line=2, end_line=2), "")
        self.assertEqual(read(start_line=99), "")

    def test_relative_to_home(self):
        (self.home / "h.txt").write_text("home")
        for name in ("h.txt", "~/h.txt", "./h.txt"):
            self.assertEqual(self.ok("read", file=name)["content"], "home")

    def test_errors(self):
        error = self.fails(404, "not_found", self.ask("read", file="/nonexistent/ü"))
        self.assertEqual((error["path"], error["operation"], error["errno"], error["errno_name"]),
                         ("/nonexistent/ü", "read", 2, "ENOENT"))
        self.fails(400, "is_directory", self.ask("read", file=self.root))
        self.fails(400, "not_regular", self.ask("read", file="/dev/zero"))
        fifo = self.root / "fifo"
        os.mkfifo(fifo)
        self.fails(400, "not_regular", self.ask("read", file=fifo))
        self.fails(400, "not_text", self.ask("read", file=self.put("b", b"\xff\xfe\0")))
        loop = self.root / "loop"
        loop.symlink_to(loop)
        self.fails(400, "too_many_links", self.ask("read", file=loop))
        self.fails(400, "name_too_long", self.ask("read", file="/" + "x" * 300))

    def test_bad_requests(self):
        for fields in ({}, {"file": ""}, {"file": 7}, {"file": "/x", "start_line": -1},
                       {"file": "/" + "x/" * 4000}):
            self.assertEqual(self.ask("read", **fields).status, 422, fields)
        for body in (b"{", b"[]", b'{"file":"a\\u0000b"}', b""):
            answer = self.call("POST", "/v1/file/read", body)
            self.assertIn(answer.status, (400, 422), answer)
        self.assertEqual(self.call("POST", "/v1/file/read", {"file": "/x"}, token=None).status, 401)

    def test_too_large_is_an_error(self):
        path = self.root / "big"
        with open(path, "wb") as f:
            f.write(b"first\n")
            f.truncate(17 * MIB)
        self.fails(413, "too_large", self.ask("read", file=path))
        self.assertEqual(self.ok("read", file=path, end_line=1)["content"], "first\n")


class WriteTest(FileTest):
    def test_write(self):
        path = self.root / "new/deep/ü.txt"
        self.assertEqual(self.ok("write", file=path, content="é\n"),
                         {"file": str(path), "bytes_written": 3})
        self.assertEqual(path.read_text(), "é\n")
        self.ok("write", file=path, content="")
        self.assertEqual(path.read_bytes(), b"")
        self.ok("write", file=path, content="a", leading_newline=True, trailing_newline=True)
        self.assertEqual(path.read_bytes(), b"\na\n")
        self.nothing_left()

    def test_base64(self):
        data = bytes(range(256)) * 100
        path = self.root / "bin"
        self.ok("write", file=path, content=base64.b64encode(data).decode(), encoding="base64")
        self.assertEqual(path.read_bytes(), data)
        for fields in ({"encoding": "base64"}, {"encoding": "latin-1"}):
            answer = self.ask("write", file=path, content="!", **fields)
            self.assertEqual(answer.status, 422, answer)
        self.assertEqual(self.ask("write", file=path).status, 422)
        self.assertEqual(path.read_bytes(), data)

    def test_large(self):
        data = os.urandom(20 * MIB)
        path = self.root / "bin"
        self.ok("write", file=path, content=base64.b64encode(data).decode(), encoding="base64")
        self.assertTrue(path.read_bytes() == data)
        connection = self.connect()
        connection.putrequest("POST", "/v1/file/write")
        connection.putheader("Authorization", f"Bearer {TOKEN}")
        connection.putheader("Content-Length", str(65 * MIB))
        connection.endheaders()
        self.assertEqual(connection.getresponse().status, 413)

    def test_mode_links_and_names_are_kept(self):
        path = self.put("script", "old")
        path.chmod(0o750)
        link = self.root / "link"
        link.symlink_to("script")
        self.ok("write", file=link, content="new")
        self.assertTrue(link.is_symlink())
        self.assertEqual((path.read_text(), path.stat().st_mode & 0o7777), ("new", 0o750))
        other = self.root / "other"
        os.link(path, other)
        self.ok("write", file=path, content="both")
        self.assertEqual(other.read_text(), "both")
        dangling = self.root / "dangling"
        dangling.symlink_to("made")
        self.ok("write", file=dangling, content="x")
        self.assertEqual((self.root / "made").read_text(), "x")

    def test_errors(self):
        self.fails(400, "is_directory", self.ask("write", file=self.root, content="x"))
        path = self.put("file", "x")
        self.fails(400, "not_directory", self.ask("write", file=path / "y", content="x"))
        answer = self.ask("write", file="/proc/nothing/here", content="x")
        self.assertIn(answer.status, (403, 404), answer)
        self.fails(400, "not_regular", self.ask("write", file="/dev/full", content="x"))
        self.fails(400, "not_regular", self.ask("write", file="/dev/null", content="x"))

    def test_append_race(self):
        path = self.root / "log"
        count = 150
        errors = []

        def append(name):
            for i in range(count):
                answer = self.ask("write", file=path, content=f"{name}{i} " + name * 500,
                                  append=True, trailing_newline=True)
                if answer.status != 200:
                    errors.append(answer)

        threads = [threading.Thread(target=append, args=(n,)) for n in "ab"]
        for t in threads:
            t.start()
        for t in threads:
            t.join(60)
        self.assertEqual(errors, [])
        lines = path.read_text().splitlines()
        for name in "ab":
            self.assertEqual([l for l in lines if l[0] == name],
                             [f"{name}{i} " + name * 500 for i in range(count)])

    def test_readers_never_see_half(self):
        path = self.put("f", "a" * 300000)
        done = threading.Event()
        bad = []

        def look():
            while not done.is_set():
                data = path.read_text()
                if len(data) != 300000 or len(set(data)) != 1:
                    bad.append(len(data))

        thread = threading.Thread(target=look)
        thread.start()
        for i in range(30):
            self.ok("write", file=path, content="ab"[i % 2] * 300000)
        done.set()
        thread.join(30)
        self.assertEqual(bad, [])

    def test_replace(self):
        path = self.put("f", b"x\xff foo fo\xc3\xb6 foo\0foo\n")
        path.chmod(0o600)
        self.assertEqual(self.ok("replace", file=path, old_str="foo", new_str="ü"),
                         {"file": str(path), "replaced_count": 3})
        self.assertEqual(path.read_bytes(), "x".encode() + b"\xff \xc3\xbc fo\xc3\xb6 \xc3\xbc\0\xc3\xbc\n")
        self.assertEqual(path.stat().st_mode & 0o777, 0o600)
        self.assertEqual(self.ok("replace", file=path, old_str="nope", new_str="")["replaced_count"], 0)
        self.assertEqual(self.ask("replace", file=path, old_str="", new_str="x").status, 422)
        self.fails(404, "not_found", self.ask("replace", file="/no/f", old_str="a", new_str="b"))
        self.nothing_left()


class FindTest(FileTest):
    def tree(self):
        for name in ("a.py", "b.txt", ".hidden.py", "d/c.py", "d/e/ü.py", ".git/g.py", "d/x.TSX"):
            self.put(name, f"# {name}\n")
        (self.root / "loop").symlink_to(".")
        (self.root / "link.py").symlink_to("a.py")
        (self.root / "gone").symlink_to("nowhere")

    def names(self, files):
        return [os.path.relpath(f["path"] if isinstance(f, dict) else f, self.root) for f in files]

    def test_find(self):
        self.tree()
        find = lambda glob: self.names(self.ok("find", path=self.root, glob=glob)["files"])
        self.assertEqual(find("*.py"), ["a.py", "link.py"])
        self.assertEqual(find("**/*.py"), ["a.py", "d/c.py", "d/e/ü.py", "link.py"])
        self.assertEqual(find("**/.*.py"), [".hidden.py"])
        self.assertEqual(find("d/**"), ["d/c.py", "d/e/ü.py", "d/x.TSX"])
        self.assertEqual(find("**/*.{txt,TSX}"), ["b.txt", "d/x.TSX"])
        self.assertEqual(find(f"{self.root}/d/*.py"), ["d/c.py"])
        self.assertEqual(find("nothing"), [])
        self.fails(404, "not_found", self.ask("find", path="/no/where", glob="*"))
        self.fails(400, "not_directory", self.ask("find", path=self.root / "a.py", glob="*"))
        self.assertEqual(self.ask("find", path=self.root, glob="").status, 422)
        self.assertEqual(self.ask("find", path=self.root, glob="/etc/*").status, 422)

    def test_glob(self):
        self.tree()
        data = self.ok("glob", path=self.root, pattern="**", include_hidden=True)
        self.assertIn(".git/g.py", self.names(data["files"]))
        self.assertEqual(data["total_count"], len(data["files"]))
        self.assertIs(data["truncated"], False)
        kinds = {f["name"]: f["is_directory"] for f in data["files"]}
        self.assertEqual((kinds["d"], kinds["a.py"], kinds["loop"], kinds["gone"]),
                         (True, False, True, False))
        self.assertEqual(data["files"][0]["size"] >= 0, True)
        data = self.ok("glob", path=self.root, pattern="**/*.py", max_results=2)
        self.assertEqual((len(data["files"]), data["truncated"]), (2, True))

    def test_list(self):
        self.tree()
        data = self.ok("list", path=self.root)
        self.assertEqual(self.names(data["files"]), [
            ".git", ".hidden.py", "a.py", "b.txt", "d", "gone", "link.py", "loop"])
        self.assertEqual((data["total_count"], data["directory_count"], data["file_count"]), (8, 3, 5))
        entry = data["files"][2]
        self.assertEqual((entry["name"], entry["is_directory"], entry["size"], entry["extension"]),
                         ("a.py", False, 7, ".py"))
        self.assertRegex(entry["modified_time"], r"^20\d\d-\d\d-\d\dT")
        self.assertRegex(entry["permissions"], r"^6[04]{2}$")
        data = self.ok("list", path=self.root, recursive=True, show_hidden=False)
        self.assertEqual(self.names(data["files"]), [
            "a.py", "b.txt", "d", "d/c.py", "d/e", "d/e/ü.py", "d/x.TSX", "gone", "link.py", "loop"])
        data = self.ok("list", path=self.root, recursive=True, max_depth=2, file_types=[".py", "tsx"])
        self.assertEqual([n for n in self.names(data["files"]) if "." in n[1:]], [
            ".git/g.py", ".hidden.py", "a.py", "d/c.py", "d/x.TSX", "link.py"])
        self.fails(404, "not_found", self.ask("list", path=self.root / "no"))

    def test_list_sorted(self):
        for i, size in enumerate((30, 10, 20)):
            os.utime(self.put(f"{i}", "x" * size), (1000 - i, 1000 - i))
        order = lambda **kw: self.names(self.ok("list", path=self.root, **kw)["files"])
        self.assertEqual(order(sort_by="size"), ["1", "2", "0"])
        self.assertEqual(order(sort_by="size", sort_desc=True), ["0", "2", "1"])
        self.assertEqual(order(sort_by="modified"), ["2", "1", "0"])
        self.assertEqual(self.ask("list", path=self.root, sort_by="colour").status, 422)

    def test_huge_directory(self):
        for i in range(12000):
            (self.root / f"f{i:05}").touch()
        data = self.ok("list", path=self.root)
        self.assertEqual((len(data["files"]), data["truncated"]), (10000, True))
        data = self.ok("find", path=self.root, glob="f0*", max_results=20000)
        self.assertEqual((len(data["files"]), data["truncated"]), (10000, False))

    def test_deep_tree(self):
        os.chdir(self.root)
        try:
            for _ in range(100):
                os.mkdir("d")
                os.chdir("d")
        finally:
            os.chdir("/")
        data = self.ok("list", path=self.root, recursive=True)
        self.assertEqual((len(data["files"]), data["truncated"]), (64, True))


class GrepTest(FileTest):
    def hits(self, data):
        return [(os.path.relpath(m["file"], self.root), m["line_number"], m["line_content"])
                for m in data["matches"]]

    def grep(self, pattern, **kw):
        return self.ok("grep", path=self.root, pattern=pattern, **kw)

    def test_grep_over_lines(self):
        self.put("f", "one\ndef f(a,\n      b):\n  pass\nend\ndef f(x): pass\nlast\n")
        self.put("g", "def f(\nnever closed")

        def found(pattern, **fields):
            data = self.ok("grep", path=self.root, pattern=pattern, multiline=True, **fields)
            return [(m["line_number"], m["line_content"]) for m in data["matches"]]

        both = [(2, "def f(a,\n      b):"), (6, "def f(x): pass")]
        self.assertEqual(found(r"def f\([^)]*\):"), both)
        self.assertEqual(found(r"def f\([^)]*\):", case_insensitive=True), both)
        self.assertEqual(found(r"def f.*?\):"), both)
        self.assertEqual(found(r"^end\ndef"), [(5, "end\ndef f(x): pass")])
        self.assertEqual(found(r"^nd"), [])
        self.assertEqual(found(r"pass$"), [(4, "  pass"), (6, "def f(x): pass")])
        self.assertEqual(found("one\ndef", fixed_strings=True), [(1, "one\ndef f(a,")])
        self.assertEqual(found("last\n"), [(7, "last")])
        self.assertEqual(found(r"def f\([^)]*\):", offset=1), both[1:])
        data = self.ok("grep", path=self.root, pattern=r"a,\s+b", multiline=True, context=1)
        self.assertEqual((data["matches"][0]["context_before"], data["matches"][0]["context_after"]),
                         (["one"], ["  pass"]))
        self.assertEqual((data["match_count"], data["files_searched"], data["files_matched"]), (1, 2, 1))
        data = self.ok("grep", path=self.root, pattern="f", multiline=True, max_results=1)
        self.assertEqual((data["match_count"], data["truncated"]), (1, True))

    def test_grep_over_many_lines(self):
        line = "x" * 99 + "\n"
        self.put("far", line * 1000 + "begin\n" + line * 100 + "end\n" + line * 1000)
        data = self.ok("grep", path=self.root, pattern="begin.*end", multiline=True)
        self.assertEqual([m["line_number"] for m in data["matches"]], [1001])
        self.put("long", "y" * 100000 + "\nbegin\nend\n")
        self.put("large", line * 100000)  # over what is searched this way
        data = self.ok("grep", path=self.root, pattern="begin\nend", multiline=True)
        self.assertEqual([m["line_number"] for m in data["matches"]], [2])
        self.assertEqual(data["files_skipped"], 1)

    def test_grep_kinds_of_files(self):
        for name in ("a.py", "b.pyi", "c.txt", "d.ts", "Makefile", "sub/e.py", "py"):
            self.put(name, "word\n")
        for kind, expected in (("py", "a.py b.pyi sub/e.py"), ("python", "a.py b.pyi sub/e.py"),
                               ("make", "Makefile"), ("ts", "d.ts"), ("rust", ""),
                               ("", "Makefile a.py b.pyi c.txt d.ts py sub/e.py")):
            data = self.ok("grep", path=self.root, pattern="word", type=kind)
            files = [str(pathlib.Path(m["file"]).relative_to(self.root)) for m in data["matches"]]
            self.assertEqual(" ".join(files), expected, kind)
        data = self.ok("grep", path=self.root, pattern="word", type="py", include="a*")
        self.assertEqual(data["match_count"], 1)
        for kind in ("cobol", "py ts", " ", 1):
            self.assertEqual(self.ask("grep", path=self.root, pattern="x", type=kind).status, 422, kind)

    def test_grep(self):
        self.put("a.py", "import os\ndef Foo(x):\r\n    return 1\n")
        self.put("d/b.py", "foo = 12\nüber foo")
        self.put("c.bin", b"foo\0foo\n")
        self.put("d/big.txt", "foo\n" + "x" * 2000)
        (self.root / "loop").symlink_to(".")
        data = self.grep(r"foo", max_file_size="1K")
        self.assertEqual(self.hits(data), [("d/b.py", 1, "foo = 12"), ("d/b.py", 2, "über foo")])
        self.assertEqual((data["match_count"], data["files_matched"], data["files_searched"],
                          data["files_skipped"], data["truncated"]), (2, 1, 2, 2, False))
        self.assertEqual(len(self.grep("foo", case_insensitive=True)["matches"]), 4)
        self.assertEqual(self.hits(self.grep(r"^def \w+\(\w\):$")), [("a.py", 2, "def Foo(x):")])
        self.assertEqual(self.hits(self.grep(r"= \d{2}$")), [("d/b.py", 1, "foo = 12")])
        self.assertEqual(self.grep("o = \\d", fixed_strings=True)["matches"], [])
        self.assertEqual(len(self.grep("foo", recursive=False)["matches"]), 0)
        self.assertEqual({h[0] for h in self.hits(self.grep("foo", include="*.{txt,md}"))}, {"d/big.txt"})
        self.assertEqual({h[0] for h in self.hits(self.grep("foo", include=["d/*.py"]))}, {"d/b.py"})
        self.assertEqual(self.hits(self.grep("foo", exclude=["d"])), [])
        data = self.ok("grep", path=self.root / "a.py", pattern="import")
        self.assertEqual(self.hits(data), [("a.py", 1, "import os")])

    def test_context_and_limits(self):
        self.put("f", "".join(f"line {i}\n" for i in range(10)))
        data = self.grep("line [35]", context_before=2, context_after=3)
        first, second = data["matches"]
        self.assertEqual(first["context_before"], ["line 1", "line 2"])
        self.assertEqual(first["context_after"], ["line 4", "line 5", "line 6"])
        self.assertEqual(second["context_before"], ["line 3", "line 4"])
        self.assertEqual(second["context_after"], ["line 6", "line 7", "line 8"])
        data = self.grep("line", max_results=3, context_after=1)
        self.assertEqual([m["line_number"] for m in data["matches"]], [1, 2, 3])
        self.assertEqual(data["matches"][2]["context_after"], ["line 3"])
        self.assertIs(data["truncated"], True)
        self.assertIs(self.grep("line", max_results=10)["truncated"], False)
        self.assertEqual([m["line_number"] for m in self.grep("line", offset=8)["matches"]], [9, 10])

    def test_errors(self):
        for fields in ({"pattern": "("}, {"pattern": ""}, {"pattern": r"(a)\1"}, {"pattern": "(?=a)"},
                       {"pattern": "a", "max_file_size": "lots"}, {"pattern": "a", "multiline": True, "invert_match": True},
                       {"pattern": "a", "include": 7}):
            self.assertEqual(self.ask("grep", path=self.root, **fields).status, 422, fields)
        self.fails(404, "not_found", self.ask("grep", path=self.root / "no", pattern="x"))

    def test_long_lines_are_cut(self):
        self.put("f", "needle" + "x" * 200000 + "needle2\nneedle3\n")
        data = self.grep("needle")
        self.assertEqual([(m["line_number"], len(m["line_content"])) for m in data["matches"]],
                         [(1, 4096), (2, 7)])
        self.assertEqual(self.grep("needle2")["matches"], [])

    def test_search(self):
        path = self.put("f", "one\ntwo\nthree tw\n")
        data = self.ok("search", file=path, regex="tw")
        self.assertEqual(data, {"file": str(path), "matches": ["two", "three tw"],
                                "line_numbers": [1, 2], "truncated": False})
        self.assertEqual(self.ask("search", file=path, regex="[").status, 422)
        self.assertEqual(self.ask("search", file=path).status, 422)
        self.fails(404, "not_found", self.ask("search", file="/no/f", regex="x"))

    def test_the_loop_stays_free(self):
        """Hostile patterns on all lanes; everything else is served at once, and they do end."""
        line = "".join("ab"[b & 1] for b in os.urandom(30000))
        self.put("f", "\n".join(line[i:] + line[:i] for i in range(300)))
        answers = []
        threads = [threading.Thread(target=lambda: answers.append(
            self.ask("grep", path=self.root, pattern="(a|b)*a(a|b){30}c"))) for _ in range(4)]
        for t in threads:
            t.start()
        time.sleep(0.3)
        path = self.put("g", "x")
        for _ in range(20):
            start = time.monotonic()
            self.assertEqual(self.get("/healthz", token=None).status, 200)
            self.ok("read", file=path)
            self.assertEqual(self.download(path).body, b"x")
            self.assertLess(time.monotonic() - start, at_most(5))
        for t in threads:
            t.join(90)
        self.assertEqual(len(answers), 4)
        self.assertEqual({a.status for a in answers} - {200, 504}, set(), answers)  # 504: it did not get far enough
        self.assertEqual({a.data["truncated"] for a in answers if a.status == 200} - {True}, set(), answers)


@unittest.skipIf(os.geteuid() != 0, "needs a second user")
class DeniedTest(FileTest):
    """An agent that is not root, in a tree that it may only look at."""

    def setUp(self):
        super().setUp()
        os.chmod(self.dir.name, 0o755)
        # The build may be in a home that the other user cannot look into.
        program = shutil.copy(BIN / "sandpool-agent", self.dir.name)
        self.other = subprocess.Popen(
            [program, "--port", "0", "--spill-dir", "/tmp"], cwd=self.dir.name,
            stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, user=65534, group=65534,
            extra_groups=[], env={**os.environ, "SANDPOOL_AGENT_TOKEN": TOKEN, "HOME": "/tmp"})
        self.addCleanup(self.stop_other)
        self.port = int(self.other.stdout.readline().decode().rsplit(":", 1)[1])

    def stop_other(self):
        self.other.terminate()
        self.assertEqual(self.other.wait(60), 0)
        self.other.stdout.close()

    def test_permission_denied(self):
        secret = self.put("secret", "x\n")
        secret.chmod(0o600)
        shown = self.put("shown", "x\n")
        self.put("closed/f", "x\n")
        (self.root / "closed").chmod(0o700)
        self.fails(403, "permission_denied", self.ask("read", file=secret))
        self.fails(403, "permission_denied", self.download(secret))
        self.fails(403, "permission_denied", self.ask("search", file=secret, regex="x"))
        self.fails(403, "permission_denied", self.ask("list", path=self.root / "closed"))
        self.fails(403, "permission_denied", self.ask("write", file=shown, content="y"))
        self.fails(403, "permission_denied", self.ask("write", file=shown, content="y", append=True))
        self.fails(403, "permission_denied", self.ask("replace", file=shown, old_str="x", new_str="y"))
        self.fails(403, "permission_denied", self.ask("write", file=self.root / "n/m", content=""))
        self.fails(403, "permission_denied", self.upload([
            ("path", None, str(self.root / "new").encode()), ("file", "f", b"x")]))
        self.assertEqual(shown.read_text(), "x\n")
        data = self.ok("grep", path=self.root, pattern="x")
        self.assertEqual([m["file"] for m in data["matches"]], [str(shown)])
        self.assertEqual(len(self.ok("list", path=self.root, recursive=True)["files"]), 3)

    def test_a_file_in_a_closed_directory_is_written_in_place(self):
        path = self.put("open", "old and longer")
        path.chmod(0o666)
        self.ok("write", file=path, content="new")
        self.assertEqual(path.read_text(), "new")


if __name__ == "__main__":
    main()
