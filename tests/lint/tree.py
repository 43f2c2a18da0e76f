"""What every check shares: which files are ours, and how an offence is reported (file:line: why)."""

import functools
import os
import re
import subprocess
import sys

C_DIRS = ("src", "include", "pool", "store", "tests", "bench")
JS = (".js", ".mjs", ".cjs", ".ts", ".mts", ".cts")
# Of both kinds: in a work tree of git .git is a file.
SKIP = {".git", "build", ".deps", ".run", ".cache", "__pycache__", "node_modules"}
COMMENT_OR_STRING = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)

ASK_HOSTS = (
    ["apt-get", "indextargets", "--format", "$(SITE)"],
    ["npm", "config", "get", "registry"],
    [sys.executable, "-m", "pip", "config", "get", "global.index-url"],
)


def files(root, dirs=(".",), endings=None):
    """Paths relative to root, sorted."""
    found = set()
    for top in dirs:
        for here, subdirs, names in os.walk(os.path.join(root, top)):
            subdirs[:] = [d for d in subdirs if d not in SKIP]
            for name in names:
                if name not in SKIP and (endings is None or name.endswith(endings)):
                    found.add(os.path.relpath(os.path.join(here, name), root))
    return sorted(found)


def c_files(root):
    return files(root, C_DIRS, (".c", ".h"))


def js_files(root):
    return files(root, ("clients", "src/ui/web", "tests/browser"), JS)


def read(root, path):
    with open(os.path.join(root, path), encoding="utf-8", errors="replace") as f:
        return f.read()


def code_only(text, keep_strings=False):
    """The text with comments (and strings) blanked; line numbers stay."""

    def blank(match):
        found = match.group(0)
        if keep_strings and found[0] in "\"'":
            return found
        return re.sub(r"[^\n]", " ", found)

    return COMMENT_OR_STRING.sub(blank, text)


def start(command):
    try:
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    except OSError:
        return None


def answer_of(process):
    if process is None:
        return ""
    try:
        return process.communicate(timeout=30)[0]
    except subprocess.TimeoutExpired:
        process.kill()
        return process.communicate()[0]


@functools.cache
def package_hosts():
    """Where the package managers of this machine fetch from. They take a second, so a process asks them once."""
    hosts = set()
    for process in [start(command) for command in ASK_HOSTS]:
        hosts.update(re.findall(r"https?://(?:[^/@\s]*@)?([^/:\s]+)", answer_of(process)))
    return frozenset(hosts)


def finish(name, checked, offences):
    """Prints the offences and ends the check. A check that looked at nothing has failed."""
    for path, line, why in offences:
        print(f"{path}:{line}: {why}")
    print(f"{name}: {checked} checked, {len(offences)} offences")
    sys.exit(1 if offences or not checked else 0)
