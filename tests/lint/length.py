"""Files of at most 500 lines, functions of at most 60 (a state machine's tick: 120)."""

import re
import sys

import tree

FILE_MAX = 500
FUNCTION_MAX = 60
TICK_MAX = 120


def functions(text):
    """(name, first line, length): a body is what stands between '{' and '}' in the first column."""
    lines = tree.code_only(text).split("\n")
    start = None
    for i, line in enumerate(lines):
        if line == "{":
            start = i
        elif line == "}" and start is not None:
            head = " ".join(lines[max(0, start - 4) : start])
            names = re.findall(r"(\w+)\s*\(", head)
            yield (names[0] if len(names) == 1 else (names or ["?"])[-1]), start + 1, i - start - 1
            start = None


def main():
    root = sys.argv[1]
    offences = []
    paths = tree.c_files(root)
    for path in paths:
        text = tree.read(root, path)
        count = text.count("\n")
        if count > FILE_MAX:
            offences.append((path, FILE_MAX + 1, f"{count} lines; split the file by responsibility"))
        for name, line, length in functions(text):
            limit = TICK_MAX if name.endswith("_tick") else FUNCTION_MAX
            if length > limit:
                offences.append((path, line, f"{name}() has {length} lines, {limit} are allowed"))
    scripts = tree.files(root, endings=(".py",))
    for path in scripts:
        count = tree.read(root, path).count("\n")
        if count > FILE_MAX:
            offences.append((path, FILE_MAX + 1, f"{count} lines; split the file by responsibility"))
    tree.finish("length", len(paths) + len(scripts), offences)


main()
