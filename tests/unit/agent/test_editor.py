"""/v1/file/str_replace_editor: view, create, str_replace, insert."""


from agent_client import main
from file_client import FileTest


class Editor(FileTest):
    def edit(self, command, path, **fields):
        return self.ask("str_replace_editor", command=command, path=path, **fields)

    def done(self, command, path, **fields):
        answer = self.edit(command, path, **fields)
        self.assertEqual(answer.status, 200, answer)
        self.assertIsNone(answer.data["error"])
        self.assertEqual(answer.data["path"], str(path))
        return answer.data

    def test_view(self):
        path = self.put("f", "one\ntwo\n\nfour\nlast")
        data = self.done("view", path)
        self.assertEqual(data["output"], "     1\tone\n     2\ttwo\n     3\t\n     4\tfour\n     5\tlast\n")
        self.assertEqual((data["prev_exist"], data["old_content"], data["new_content"]),
                         (True, "one\ntwo\n\nfour\nlast", None))
        self.assertEqual(self.done("view", path, view_range=[2, 3])["output"], "     2\ttwo\n     3\t\n")
        self.assertEqual(self.done("view", path, view_range=[4, -1])["output"], "     4\tfour\n     5\tlast\n")
        for bad in ([0, 1], [3, 2], [1], [1, 2, 3], "1", [6, 7], [1, -2], [1.5, 2], ["a", 2]):
            self.assertEqual(self.edit("view", path, view_range=bad).status, 422, bad)
        self.assertEqual(self.done("view", self.put("empty", ""))["output"], "")

    def test_view_of_a_directory(self):
        for name in ("a/b/c", "a/d", ".hidden", "e"):
            self.put(name, "x")
        lines = self.done("view", self.root)["output"].splitlines()
        self.assertEqual(sorted(lines[1:]), [f"{self.root}/{n}" for n in ("a/", "a/b/", "a/d", "e")])
        self.assertEqual(self.edit("view", self.root, view_range=[1, 2]).status, 422)

    def test_create(self):
        path = self.root / "new/er/f"
        data = self.done("create", path, file_text="text\n")
        self.assertEqual((data["prev_exist"], data["old_content"], data["new_content"]),
                         (False, None, "text\n"))
        self.assertEqual(path.read_text(), "text\n")
        self.fails(409, None, self.edit("create", path, file_text="other"))
        self.assertEqual(path.read_text(), "text\n")
        self.assertEqual(self.edit("create", self.root / "g").status, 422)
        self.done("create", self.root / "empty", file_text="")

    def test_str_replace(self):
        path = self.put("f", "a\nb x\nc\n")
        data = self.done("str_replace", path, old_str="b x", new_str="B\nB")
        self.assertEqual(path.read_text(), "a\nB\nB\nc\n")
        self.assertEqual((data["old_content"], data["new_content"]), ("a\nb x\nc\n", "a\nB\nB\nc\n"))
        self.assertIn("     2\tB\n     3\tB\n     4\tc\n", data["output"])
        self.fails(400, "not_unique", self.edit("str_replace", path, old_str="B", new_str="x"))
        self.fails(400, "no_match", self.edit("str_replace", path, old_str="zz", new_str="x"))
        self.assertEqual(path.read_text(), "a\nB\nB\nc\n")
        self.done("str_replace", path, old_str="a\n")
        self.assertEqual(path.read_text(), "B\nB\nc\n")
        for fields in ({}, {"old_str": ""}, {"old_str": "B", "new_str": "x", "replace_mode": "SOME"}):
            self.assertEqual(self.edit("str_replace", path, **fields).status, 422)

    def test_replace_modes(self):
        for mode, expected in (("ALL", "y.y.y"), ("FIRST", "y.x.x"), ("LAST", "x.x.y")):
            path = self.put(mode, "x.x.x")
            self.done("str_replace", path, old_str="x", new_str="y", replace_mode=mode)
            self.assertEqual(path.read_text(), expected)

    def test_insert(self):
        for line, expected in ((0, "new\na\nb"), (1, "a\nnew\nb"), (2, "a\nb\nnew")):
            path = self.put(f"f{line}", "a\nb")
            self.done("insert", path, insert_line=line, new_str="new")
            self.assertEqual(path.read_text(), expected)
        path = self.put("g", "a\nb\n")
        self.done("insert", path, insert_line=2, new_str="new")
        self.assertEqual(path.read_text(), "a\nb\nnew")
        for fields in ({"insert_line": 9, "new_str": "x"}, {"insert_line": 1}, {"new_str": "x"},
                       {"insert_line": -1, "new_str": "x"}):
            self.assertEqual(self.edit("insert", path, **fields).status, 422, fields)
        empty = self.put("empty", "")
        self.done("insert", empty, insert_line=0, new_str="x")
        self.assertEqual(empty.read_text(), "x")

    def test_what_is_no_text(self):
        binary = self.put("binary", b"\xff\xfe")
        self.fails(400, "not_text", self.edit("view", binary))
        self.fails(400, "not_text", self.edit("str_replace", binary, old_str="a", new_str="b"))
        self.fails(404, "not_found", self.edit("view", self.root / "none"))
        self.fails(404, "not_found", self.edit("insert", self.root / "none", insert_line=0, new_str="x"))

    def test_commands(self):
        path = self.put("f", "x")
        for command in ("undo_edit", "", "remove", None):
            self.assertEqual(self.edit(command, path).status, 422, command)


if __name__ == "__main__":
    main()
