"""Proves the checks: a small tree with one offence of each kind, and every check must name its line."""

import contextlib
import io
import os
import runpy
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
MARK = "TO" + "DO"
BEGIN, END = "<!-- layers.txt: begin -->", "<!-- layers.txt: end -->"


def call(check, *args):
    """A check as a program, in this process: its exit code and what it printed. 60 new interpreters take half a minute."""
    out = io.StringIO()
    argv, sys.argv = sys.argv, [check, *args]
    try:
        with contextlib.redirect_stdout(out):
            runpy.run_path(os.path.join(HERE, check + ".py"), run_name="__main__")
        code = 0
    except SystemExit as end:
        code = end.code or 0
    finally:
        sys.argv = argv
    return code, out.getvalue()


sys.path.insert(0, HERE)
TABLE = call("layers", "--table")[1]

CLEAN = "/* Fine. */\n#include <stddef.h>\n"
# check, file, text, line that must be named, words that must be in the report
CASES = (
    ("layers", "pool/a.c", '#include "store/store.h"\n', 1, "may see"),
    ("layers", "pool/a.c", '#include "base/rt.h"\n', 1, "may see"),
    ("layers", "pool/a.c", "#include <stddef.h>\n#include <uv.h>\n", 2, "layers.txt"),
    ("layers", "pool/a.c", "#include <time.h>\n", 1, "not for this"),
    ("layers", "pool/a.c", "int f(void)\n{\n    return (int) time(NULL);\n}\n", 3, "time()"),
    ("layers", "pool/a.c", "int f(void)\n{\n    return xcalloc(1, 1) != NULL;\n}\n", 3, "xcalloc()"),
    ("layers", "store/a.c", "#include <uv.h>\n", 1, "layers.txt"),
    ("layers", "src/base/a.c", "#include <yyjson.h>\n", 1, "layers.txt"),
    ("layers", "src/engine/a.c", '#include "http/conn.h"\n', 1, "may see"),
    ("layers", "src/engine/a.c", '#include "pool/internal.h"\n', 1, "alone"),
    ("layers", "src/cli/a.c", '#include "daemon/daemon.h"\n', 1, "may see"),
    ("layers", "src/http/a.c", "#include <curl/curl.h>\n", 1, "layers.txt"),
    ("layers", "src/http/a.c", '/* . */\n#include "conn.h"\n', 2, "which directory"),
    ("layers", "src/nowhere/a.c", CLEAN, 1, "no rule"),
    ("layers", "src/agent/file/a.c", '#include "agent/aio/envelope.h"\n', 1, "may see"),
    ("layers", "src/agent/core/a.c", '#include "agent/serve.h"\n', 1, "may see"),
    ("layers", "ARCHITECTURE.md", f"a\n{BEGIN}\n| a | b |\n{END}\n", 2, "differs from layers.txt"),
    ("layers", "ARCHITECTURE.md", "a\n", 1, "must stand around"),
    ("layers", "tests/lint/layers.txt", "pool sees a\nstore sees base\n", 2, "'store' is not there"),
    ("length", "src/base/a.c", "/* . */\n" * 501, 501, "split"),
    ("length", "src/base/a.c", "int f(void)\n{\n" + "    f();\n" * 61 + "}\n", 2, "f() has 61"),
    ("length", "clients/js/a.mjs", "// .\n" * 501, 501, "split"),
    ("length", "clients/js/a.js", "class A {\n  async* b(c = {}) {\n" + "    f();\n" * 61 + "  }\n}\n", 2, "b() has 61"),
    ("banned", "src/base/a.c", "int f(char *a)\n{\n    return atoi(a);\n}\n", 3, "atoi()"),
    ("banned", "src/base/a.c", "/* . */\nint a; // b\n", 2, "comments"),
    ("banned", "src/base/a.c", "/* . */\ntypedef struct a b;\n", 2, "typedef"),
    ("words", "src/base/a.c", f"\n/* {MARK}: later */\n", 2, MARK),
    ("words", "docs/a.md", f"a\nb {MARK}\n", 2, MARK),
    ("words", "src/base/a.c", "int a;\n/* The caller is told. */\n", 2, "'told': say 'report"),
    ("words", "src/base/a.h", "int a;\nvoid a_tell(void);\n", 2, "'tell': say 'report"),
    ("words", "docs/internals/a.md", "# A\n\nThe owner is told.\n", 3, "'told': say 'report"),
    ("words", "tests/lib/a.py", "a = 1  # buried by its parent\n", 1, "'buried': say 'reap"),
    ("words", "clients/python/a.py", 'def a():\n    """A.\n\n    Nobody tells.\n    """\n', 4, "'tells': say 'report"),
    ("words", "store/a.c", "/* Events are\n * Worked off here. */\n", 2, "say 'process'"),
    ("words", "clients/js/a.js", "// The caller is told.\n", 1, "'told': say 'report"),
    ("links", "docs/a.md", "a\n[b](c.md)\n", 2, "not there"),
    ("links", "docs/a.md", "# Title\n[b](#other)\n", 2, "no heading"),
    ("links", "docs/a.md", "a\n```\n$ ls\n```\n", 3, "pasted"),
    ("format", "src/base/a.c", "int a;\nint   b;\n", 2, "format"),
)
# What looks like an offence and is none.
HARMLESS = (
    ("layers", "pool/a.c", '/* #include "store/store.h" */\n#include "base/list.h"\n'),
    ("layers", "pool/pool.c", "int f(void)\n{\n    return xcalloc(1, 1) != NULL;\n}\n"),
    ("layers", "src/base/json_read.c", "#include <yyjson.h>\n"),
    ("layers", "src/engine/a.c", '#include "pool/pool.h"\n#include "engine/internal.h"\n'),
    ("layers", "ARCHITECTURE.md", f"a\n{BEGIN}\n{TABLE}{END}\n"),
    ("layers", "src/agent/aio/a.c", '#include "agent/aio/envelope.h"\n#include "agent/file/job.h"\n'),
    ("banned", "src/base/a.c", '/* atoi() */\nconst char *a = "strcpy(a, b) // c";\nint my_atoi(int);\n'),
    ("length", "src/base/a.c", "int f(void)\n{\n" + "    f();\n" * 60 + "}\n"),
    ("length", "clients/js/a.js", "function f() {\n" + "  if (a) {\n    g();\n  }\n" * 20 + "}\n"),
    ("words", "clients/js/node_modules/a.js", "// The caller is told.\n"),
    ("words", "src/base/a.c", "/* The teller recommends a heartbeat. */\n"),
    ("links", "docs/a.md", "# A title\n[b](#a-title) [c](../src/base/ok.c) [d](https://example.org/x.md)\n"),
)


def run(check, path, text):
    with tempfile.TemporaryDirectory() as root:
        for name, body in (("src/base/ok.c", CLEAN), (path, text)):
            full = os.path.join(root, name)
            os.makedirs(os.path.dirname(full), exist_ok=True)
            with open(full, "w", encoding="utf-8") as f:
                f.write(body)
        with open(os.path.join(HERE, "../../.clang-format"), encoding="utf-8") as f:
            style = f.read()
        with open(os.path.join(root, ".clang-format"), "w", encoding="utf-8") as f:
            f.write(style)
        return call(check, root)


def main():
    wrong = 0
    for check, path, text, line, words in CASES:
        code, out = run(check, path, text)
        hits = [o for o in out.split("\n") if o.startswith(f"{path}:{line}: ") and words in o]
        if code != 1 or not hits:
            wrong += 1
            print(f"{check} missed {path}:{line} ({words}):\n{text[:200]}\n{out}exit: {code}")
    for check, path, text in HARMLESS:
        code, out = run(check, path, text)
        if code != 0:
            wrong += 1
            print(f"{check} refused what is right:\n{text[:200]}\n{out}exit: {code}")
    print(f"{len(CASES) + len(HARMLESS)} cases, {wrong} wrong")
    sys.exit(1 if wrong else 0)


main()
