"""The C library as it is installed: a program finds it by pkg-config, static and shared, and works with a real box."""

import os
import pathlib
import shutil
import subprocess

from fixtures import BIN, WAIT_S, main, skip
from oci_case import BoxCase

HERE = pathlib.Path(__file__).parent
COUNT = "for i in $(seq 1000); do echo line-$i; sleep 0.003; done; exit 4"
COUNTED = "".join(f"line-{i}\n" for i in range(1, 1001))


class Library(BoxCase):
    profiles = {"default": {"warm": {"min": 0, "max": 1}, "ttl_s": 3600, "park_timeout_s": 600}}

    @classmethod
    def setUpClass(cls):
        cls.instrumented = BIN / "tests/integration/c_client"  # linked by the build, where the library has sanitizers
        if not cls.instrumented.exists() and not all(map(shutil.which, ("pkg-config", "cc"))):
            skip("nothing to compile with")
        super().setUpClass()
        cls.libraries = BIN
        cls.shared = cls.static = cls.instrumented
        if not cls.instrumented.exists():
            cls.install()

    @classmethod
    def install(cls):
        cls.prefix = cls.home / "prefix"
        subprocess.run(["cmake", "--install", BIN, "--prefix", cls.prefix], check=True, stdout=subprocess.DEVNULL,
                       timeout=WAIT_S)
        cls.libraries = next(cls.prefix.glob("lib/**/pkgconfig")).parent
        cls.flags = subprocess.run(["pkg-config", "--cflags", "--libs", "sandpool"], check=True, capture_output=True,
                                   text=True, timeout=WAIT_S,
                                   env={**os.environ, "PKG_CONFIG_PATH": str(cls.libraries / "pkgconfig")}).stdout.split()
        cls.shared = cls.compile(HERE / "c_client.c", "shared")
        cls.static = cls.compile(HERE / "c_client.c", "static", "-static")

    @classmethod
    def compile(cls, source, name, *more):
        program = cls.home / name
        subprocess.run(["cc", "-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", *more, source, "-o", program,
                        *cls.flags], check=True, timeout=WAIT_S)
        return program

    def popen(self, program, *args):
        child = subprocess.Popen([program, self.server.socket, self.box.id, *args], bufsize=0, stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, env={**os.environ, "LD_LIBRARY_PATH": str(self.libraries)})
        self.addCleanup(child.kill)
        return child

    def test_all_calls(self):
        self.box = self.acquire("calls")
        for program in (self.shared, self.static):
            child = self.popen(program)
            _, err = child.communicate(timeout=WAIT_S)
            self.assertEqual((child.returncode, err), (0, b""), program)  # it has destroyed the box
            self.box = self.acquire("calls")

    def test_daemon_killed_in_the_middle(self):
        self.box = self.acquire("restart")
        child = self.popen(self.shared, COUNT)
        begun = child.stdout.read(1000)
        self.server.kill()
        self.server.start()
        type(self).pool = self.server.client()
        out, err = child.communicate(timeout=WAIT_S)
        self.assertEqual(((begun + out).decode(), err, child.returncode), (COUNTED, b"exited 4", 0))

    def test_box_lost(self):
        self.box = self.acquire("lost")
        child = self.popen(self.shared, "echo on; sleep 1000")
        self.assertEqual(child.stdout.read(3), b"on\n")
        self.pool.delete(f"/v1/sandboxes/{self.box.id}")
        _, err = child.communicate(timeout=WAIT_S)
        self.assertEqual((err, child.returncode), (b"sandbox_lost -1", 0))

    def test_only_our_names_are_exported(self):
        if self.instrumented.exists():
            self.skipTest("the library with sanitizers is not installed")
        for options, name in ((["-D"], "libsandpool.so.0"), (["-g"], "libsandpool.a")):
            lines = subprocess.run(["nm", "--defined-only", "--format=posix", *options, self.libraries / name], check=True,
                                   capture_output=True, text=True, timeout=WAIT_S).stdout.splitlines()
            names = {line.split()[0] for line in lines if len(line.split()) > 1} - {"SANDPOOL_0"}
            self.assertIn("sp_exec", {n.split("@")[0] for n in names})
            self.assertEqual([n for n in names if not n.startswith("sp_")], [])

    def test_example(self):
        if self.instrumented.exists():
            self.skipTest("the library with sanitizers is not installed")
        example = self.compile(HERE.parents[1] / "examples/exec.c", "example")
        done = subprocess.run([example, "cat note.txt; exit 2"], capture_output=True, text=True, timeout=WAIT_S,
                              env={**os.environ, "LD_LIBRARY_PATH": str(self.libraries),
                                   "SANDPOOL_SOCKET": str(self.server.socket)})
        self.assertRegex(done.stdout, r"^a note\nexited, exit code 2, \d+ ms\n$", done.stderr)


if __name__ == "__main__":
    main()
