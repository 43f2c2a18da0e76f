"""clang-format over our C files: reports the lines it would change, or with --fix changes them."""

import os
import re
import subprocess
import sys

import tree


def main():
    root = sys.argv[1]
    paths = tree.c_files(root)
    if "--fix" in sys.argv:
        subprocess.run(["clang-format", "-i", *paths], cwd=root, check=True)
        return
    offences = []
    jobs = os.cpu_count() or 1
    running = [
        subprocess.Popen(
            ["clang-format", "--dry-run", *paths[i::jobs]], cwd=root, text=True, stderr=subprocess.PIPE
        )
        for i in range(jobs)
        if paths[i::jobs]
    ]
    for process in running:
        _, errors = process.communicate(timeout=100)
        for match in re.finditer(r"^([^:\n]+):(\d+):\d+: (?:warning|error): (.*)$", errors, re.M):
            offences.append((match.group(1), int(match.group(2)), "format differs (./dev fmt)"))
        if process.returncode != 0 and not offences:
            sys.exit(f"clang-format failed:\n{errors}")
    tree.finish("format", len(paths), sorted(set(offences)))


main()
