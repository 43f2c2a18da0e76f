"""Words that must not be in the tree: marks of unfinished work, and names of the machine it was written on.

The machine's names (package hosts, the place of the clone) are asked from the machine, never listed here."""

import os
import re
import subprocess
import sys

import tree

# In two pieces, so that this file does not offend.
MARKS = re.compile(r"\b(" + "|".join(("TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK")) + r")\b")
USUAL_DIRS = {"", "bin", "etc", "home", "media", "mnt", "opt", "root", "run", "srv", "tmp", "usr", "var"}
ASK_HOSTS = (
    ["apt-get", "indextargets", "--format", "$(SITE)"],
    ["npm", "config", "get", "registry"],
    [sys.executable, "-m", "pip", "config", "get", "global.index-url"],
)


def ask(command):
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout


def machine_names(root):
    names = set()
    for command in ASK_HOSTS:
        names.update(re.findall(r"https?://(?:[^/@\s]*@)?([^/:\s]+)", ask(command)))
    top = os.path.abspath(root).split("/")[1]
    if top not in USUAL_DIRS:
        names.add(f"/{top}/")
    return sorted(n for n in names if len(n) > 3 and n != "localhost")


def main():
    root = sys.argv[1]
    names = machine_names(root)
    offences = []
    paths = [p for p in tree.files(root) if p != "LICENSE" and "/corpus/" not in p]
    for path in paths:
        for number, line in enumerate(tree.read(root, path).split("\n"), 1):
            mark = MARKS.search(line)
            if mark:
                offences.append((path, number, f"'{mark.group(0)}': finish it, or leave it out"))
            offences += [(path, number, f"'{n}' is a name of this machine") for n in names if n in line]
    tree.finish("words", len(paths), offences)


main()
