"""Documents: what a relative link names is there, and what is in a block can be pasted as it is."""

import os
import re
import sys

import tree

LINK = re.compile(r"\]\(([^)\s]+)\)")
BLOCK = re.compile(r"^```.*?^```", re.M | re.S)
PROMPT = re.compile(r"^[ \t]*\$ ", re.M)


def anchors(text):
    """The names under which a page's headings can be linked to."""
    titles = re.findall(r"^#+ (.*)$", BLOCK.sub("", text), re.M)
    return {re.sub(r"[^\w\- ]", "", t.lower()).strip().replace(" ", "-") for t in titles}


def check(root, path):
    offences = []
    text = tree.read(root, path)
    for match in LINK.finditer(text):
        target, _, anchor = match.group(1).partition("#")
        if "://" in match.group(1) or match.group(1).startswith("mailto:"):
            continue
        line = text.count("\n", 0, match.start()) + 1
        where = os.path.normpath(os.path.join(os.path.dirname(path), target)) if target else path
        if not os.path.exists(os.path.join(root, where)):
            offences.append((path, line, f"'{target}' is not there"))
        elif anchor and where.endswith(".md") and anchor not in anchors(tree.read(root, where)):
            offences.append((path, line, f"'{where}' has no heading '#{anchor}'"))
    for match in PROMPT.finditer(text):
        offences.append((path, text.count("\n", 0, match.start()) + 1, "no '$ ' before a command: it is pasted with it"))
    return offences


def main():
    root = sys.argv[1]
    paths = [p for p in tree.files(root) if p.endswith(".md")]
    tree.finish("links", len(paths), [o for p in paths for o in check(root, p)])


main()
