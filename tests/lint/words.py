"""Words that must not be in the tree: marks of unfinished work, names of the machine it was written on, and in C and
JavaScript, documents, and comments and docstrings of Python, words that have a standard technical one.

The machine's names (package hosts, the place of the clone) are asked from the machine, never listed here."""

import ast
import io
import os
import re
import sys
import tokenize

import tree

# In two pieces, so that this file does not offend.
MARKS = re.compile(r"\b(" + "|".join(("TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK")) + r")\b")
REPORT = "report, return, notify or show"
# Also as a part of a name.
PLAIN = (
    ("tell", REPORT), ("tells", REPORT), ("telling", REPORT), ("told", REPORT), ("untold", REPORT),
    ("hears", "is notified"), ("heard", "is notified"),
    ("bury", "reap or free"), ("buries", "reap or free"), ("buried", "reap or free"),
    ("mend", "fix"), ("mends", "fix"), ("mended", "fix"),
    ("worked off", "process"), ("work off", "process"),
    ("senseless", "malformed"), ("make no sense", "malformed"), ("makes no sense", "malformed"),
    ("unspoken", "implicit"),
    ("wish", "request or option"), ("wishes", "request or option"),
)
INSTEAD = dict(PLAIN)
PLAIN_WORD = re.compile("(?<![a-z])(" + "|".join(sorted(INSTEAD, key=len, reverse=True)) + ")(?![a-z])", re.IGNORECASE)
USUAL_DIRS = {"", "bin", "etc", "home", "media", "mnt", "opt", "root", "run", "srv", "tmp", "usr", "var"}


def machine_names(root):
    names = set(tree.package_hosts())
    top = os.path.abspath(root).split("/")[1]
    if top not in USUAL_DIRS:
        names.add(f"/{top}/")
    return sorted(n for n in names if len(n) > 3 and n != "localhost")


def has_docstring(node):
    return (isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and node.body
            and isinstance(node.body[0], ast.Expr) and isinstance(node.body[0].value, ast.Constant)
            and isinstance(node.body[0].value.value, str))


def python_prose(text):
    """Lines of docstrings, and comments, with their numbers."""
    lines = text.split("\n")
    for node in ast.walk(ast.parse(text)):
        if has_docstring(node):
            first, last = node.body[0].lineno, node.body[0].end_lineno
            yield from enumerate(lines[first - 1:last], first)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def prose(root, path):
    """The lines that people read, numbered."""
    text = tree.read(root, path)
    if not PLAIN_WORD.search(text):
        return ()  # reading all of Python takes ten seconds
    return python_prose(text) if path.endswith(".py") else enumerate(text.split("\n"), 1)


def plain_offences(root):
    paths = tree.c_files(root) + tree.js_files(root) + tree.files(root, endings=".md")
    paths += tree.files(root, ("tests", "clients", "bench"), (".py",)) + [p for p in tree.files(root) if p == "dev"]
    for path in paths:
        for number, line in prose(root, path):
            for word in PLAIN_WORD.findall(line):
                yield path, number, f"'{word}': say '{INSTEAD[word.lower()]}' instead"


def main():
    root = sys.argv[1]
    names = machine_names(root)
    offences = []
    paths = [p for p in tree.files(root) if p != "LICENSE" and "/corpus/" not in p]
    for path in paths:
        text = tree.read(root, path)
        if not MARKS.search(text) and not any(n in text for n in names):
            continue
        for number, line in enumerate(text.split("\n"), 1):
            mark = MARKS.search(line)
            if mark:
                offences.append((path, number, f"'{mark.group(0)}': finish it, or leave it out"))
            offences += [(path, number, f"'{n}' is a name of this machine") for n in names if n in line]
    offences += plain_offences(root)
    tree.finish("words", len(paths), offences)


main()
