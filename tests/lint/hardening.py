"""The release programs: position independent, full RELRO, no executable stack, stack protector, assert. The agent, which
hostile code talks to from inside its box, in more detail: static, every function of ours compiled with the protections, and
no loader of shared libraries. The loader is looked for in the second directory, too, which may hold any build.

Ends with 77 (skipped) when there is nothing to look at."""

import os
import subprocess
import sys

import tree

AGENT = "sandpool-agent"
# What turns a file into code of the process, and what would ask for it: NSS, character sets, name look-ups.
LOADER = {"dlopen", "__dlopen", "__libc_dlopen_mode", "_dl_open", "_dl_map_object", "_dl_map_object_from_fd",
          "__nss_lookup", "__nss_module_load", "getaddrinfo", "getpwnam_r", "getgrouplist"}
PROGRAMS = ("sandpoold", "sandpool", "sandpool-agent", "sandpool-sim")


def readelf(flags, path):
    command = ["readelf", "--wide", *flags, path]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout


def weaknesses(path):
    header = readelf(["-h"], path)
    segments = readelf(["-l"], path)
    dynamic = readelf(["-d"], path)
    symbols = readelf(["-s"], path)
    stack = [line for line in segments.split("\n") if "GNU_STACK" in line]
    if "DYN (" not in header:
        yield "not position independent"
    if "GNU_RELRO" not in segments or "NOW" not in dynamic:
        yield "RELRO is not full"
    if not stack or "RWE" in stack[0]:
        yield "the stack is executable"
    if "__stack_chk_fail" not in symbols:
        yield "no stack protector"
    if "__assert_fail" not in symbols:
        yield "assert() is compiled out"


def is_static(path):
    return "INTERP" not in readelf(["-l"], path)


def loader_in(path):
    """A program without symbols passes for one with all of them."""
    names = {line.split()[7].split("@")[0] for line in readelf(["-s"], path).split("\n") if len(line.split()) >= 8}
    if "main" not in names:
        yield "has no symbols: the loader cannot be looked for"
    for name in sorted(LOADER & names):
        yield f"can load shared libraries: {name} is linked in"


def agent_weaknesses(path):
    command = ["objdump", "--disassemble=main", "--no-show-raw-insn", path]
    code = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    symbols = readelf(["-s"], path)
    if not is_static(path):
        yield "not static: it would run libraries of the box"
    if "__stack_chk_fail" not in code:
        yield "main() has no stack protector"
    if "_chk\n" not in symbols:
        yield "no checked string functions (_FORTIFY_SOURCE)"
    if "Advanced Micro Devices X86-64" in readelf(["-h"], path) and "endbr64" not in code:
        yield "main() has no marks for indirect branches (-fcf-protection)"
    yield from loader_in(path)


def main():
    paths = [os.path.join(sys.argv[1], p) for p in PROGRAMS if os.path.exists(os.path.join(sys.argv[1], p))]
    found = [(p, 0, w) for p in paths for w in weaknesses(p)]
    for path in paths:
        if os.path.basename(path) == AGENT:
            found += [(path, 0, w) for w in agent_weaknesses(path)]
    for other in (os.path.join(d, AGENT) for d in sys.argv[2:]):
        if os.path.exists(other) and is_static(other):
            paths.append(other)
            found += [(other, 0, w) for w in loader_in(other)]
    if not paths:
        print("hardening: no build to look at")
        sys.exit(77)
    tree.finish("hardening", len(paths), found)


main()
