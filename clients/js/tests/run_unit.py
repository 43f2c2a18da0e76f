"""The tests of the JavaScript client that need no box: Node's own test runner over *.test.mjs, against a scripted daemon.
The types are checked where `./dev deps` could install the compiler."""

import pathlib
import re
import shutil
import subprocess
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[2] / "tests" / "lib"))

from testlib import main, skip  # noqa: E402

NODE_MIN = 18


def node():
    """The program; the test is skipped without one that is new enough."""
    program = shutil.which("node")
    if program is None:
        skip("Node.js is not installed")
    version = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=60, check=True).stdout
    if int(re.match(r"v(\d+)", version).group(1)) < NODE_MIN:
        skip(f"Node.js {version.strip()} is older than {NODE_MIN}")
    return program


def run_tests(case, files, timeout, env=None):
    """Every file must pass; what was left out is named at the end of `./dev test`."""
    done = subprocess.run([node(), "--test", "--test-reporter", "tap", *map(str, files)], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=timeout, check=False, env=env)
    for name, reason in re.findall(r"^ *ok \d+ - (.*?) # SKIP (.*)$", done.stdout, re.M):
        print(f"SKIPPED: {name}: {reason}", file=sys.stderr)
    case.assertEqual(done.returncode, 0, done.stdout[-20000:])
    counts = dict(re.findall(r"^# (tests|pass|fail) (\d+)$", done.stdout, re.M))
    case.assertGreater(int(counts["pass"]), 0, done.stdout[-20000:])
    return counts


class Unit(unittest.TestCase):
    def test_all(self):
        files = sorted(HERE.glob("*.test.mjs"))
        self.assertGreater(len(files), 3)
        run_tests(self, files, 280)


if __name__ == "__main__":
    main()
