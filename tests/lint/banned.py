"""Functions that have no safe use here (and what to use instead), and a few forms we do not write."""

import re
import sys

import tree

BANNED = {
    "strcpy": "base/str or base/buf",
    "strcat": "base/buf",
    "strncpy": "snprintf or memcpy with a checked length",
    "strncat": "base/buf",
    "sprintf": "snprintf or buf_printf",
    "vsprintf": "vsnprintf",
    "strtok": "the views of base/str",
    "atoi": "the parsers of base/str",
    "atol": "the parsers of base/str",
    "atoll": "the parsers of base/str",
    "atof": "the parsers of base/str",
    "rand": "base/rand",
    "srand": "base/rand",
    "random": "base/rand",
    "gets": "read",
    "alloca": "a bounded array",
    "tmpnam": "mkstemp",
    "mktemp": "mkstemp",
    "system": "posix_spawn or loop/child",
    "popen": "posix_spawn or loop/child",
}
CALL = re.compile(r"(?<![\w.>])(" + "|".join(BANNED) + r")\s*\(")
RULES = (
    (CALL, lambda m: f"{m.group(1)}() is banned: use {BANNED[m.group(1)]}"),
    (re.compile(r"^\s*#\s*define\s+NDEBUG\b", re.M), lambda m: "assert() is never compiled out"),
    (re.compile(r"^\s*typedef\s+(struct|union)\b", re.M), lambda m: "no typedef for structs"),
)


def main():
    root = sys.argv[1]
    offences = []
    paths = tree.c_files(root)
    for path in paths:
        text = tree.read(root, path)
        code = tree.code_only(text)
        for pattern, why in RULES:
            for match in pattern.finditer(code):
                line = code.count("\n", 0, match.end()) + 1
                offences.append((path, line, why(match)))
        for match in tree.COMMENT_OR_STRING.finditer(text):
            if match.group(0).startswith("//"):
                line = text.count("\n", 0, match.start()) + 1
                offences.append((path, line, "write /* */ comments"))
    tree.finish("banned", len(paths), offences)


main()
