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


JS_FUNCTION = re.compile(r"^( *)(?:export |default |static |async ?)*(?:function\b\*? ?)?\*? ?([\w$.\[\]]*)\(.*\) \{$")
JS_BLOCKS = {"if", "for", "while", "switch", "catch", "with"}


def js_functions(text):
    """(name, first line, length): functions and methods end at a brace in the column where they begin."""
    lines = text.split("\n")
    for i, line in enumerate(lines):
        match = JS_FUNCTION.match(line)
        if match is None or match.group(2) in JS_BLOCKS:
            continue
        end = next((j for j in range(i + 1, len(lines)) if lines[j].startswith(match.group(1) + "}")), i)
        yield match.group(2) or "function", i + 1, end - i - 1


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
    for path in tree.js_files(root):
        for name, line, length in js_functions(tree.read(root, path)):
            if length > FUNCTION_MAX:
                offences.append((path, line, f"{name}() has {length} lines, {FUNCTION_MAX} are allowed"))
    scripts = tree.files(root, endings=(".py", *tree.JS))
    for path in scripts:
        count = tree.read(root, path).count("\n")
        if count > FILE_MAX:
            offences.append((path, FILE_MAX + 1, f"{count} lines; split the file by responsibility"))
    tree.finish("length", len(paths) + len(scripts), offences)


main()
