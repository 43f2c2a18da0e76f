"""The release programs: position independent, full RELRO, no executable stack, stack protector, assert.

Looks at the directory given; ends with 77 (skipped) when no release build is there."""

import os
import subprocess
import sys

import tree

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


def main():
    build = sys.argv[1]
    paths = [os.path.join(build, p) for p in PROGRAMS if os.path.exists(os.path.join(build, p))]
    if not paths:
        print("hardening: no release build")
        sys.exit(77)
    tree.finish("hardening", len(paths), [(p, 0, w) for p in paths for w in weaknesses(p)])


main()
