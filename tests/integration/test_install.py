"""`cmake --install`: what it puts where is enough to start, and a second one leaves the configuration alone."""

import os
import re
import shutil
import subprocess
import unittest

from harness import BIN, main, make_directory


@unittest.skipUnless(shutil.which("cmake") and (BIN / "cmake_install.cmake").exists(), "no build directory to install")
class Install(unittest.TestCase):
    def setUp(self):
        self.top = make_directory(self)

    def install(self, prefix):
        subprocess.run(["cmake", "--install", BIN, "--prefix", prefix], check=True, stdout=subprocess.DEVNULL, timeout=120,
                       env={**os.environ, "DESTDIR": str(self.top)})

    def test_a_fresh_one_has_all_that_the_units_name(self):
        self.install("/usr")
        config = self.top / "etc/sandpool/config.yaml"
        self.assertEqual(config.stat().st_mode & 0o777, 0o640)
        found = subprocess.run([BIN / "sandpoold", "--check", "--config", config], capture_output=True, text=True,
                               timeout=60)
        self.assertEqual((found.returncode, found.stdout), (0, "configuration is fine\n"), found.stderr)
        units = list((self.top / "usr/lib/systemd").glob("*/*"))
        self.assertEqual({u.name for u in units}, {"sandpoold.service", "sandpoold.socket", "sandpool-group.service"})
        self.assertEqual(len(units), 4)  # one of them for users
        for unit in units:
            text = unit.read_text()
            for program in re.findall(r"^Exec\w+=(sand\S+)", text, re.M):
                self.assertTrue((self.top / "usr/bin" / program).exists(), program)
            for path in re.findall(r"^Exec\w+=sandpoold .*--config (/\S+)", text, re.M):
                self.assertTrue((self.top / path[1:]).exists(), path)
            for name in re.findall(r"^(?:Wants|Requires)=(\S+)", text, re.M):
                self.assertTrue((unit.parent / name).exists(), name)
        self.assertIn("g sandpool", (self.top / "usr/lib/sysusers.d/sandpool.conf").read_text())

    def test_a_second_one_keeps_the_configuration(self):
        self.install("/usr/local")
        config = self.top / "etc/sandpool/config.yaml"
        config.write_text("# mine\n")
        self.install("/usr/local")
        self.assertEqual(config.read_text(), "# mine\n")

    def test_another_prefix_does_not_touch_etc(self):
        self.install("/opt/sandpool")
        self.assertFalse((self.top / "etc").exists())
        self.assertTrue((self.top / "opt/sandpool/etc/sandpool/config.yaml").exists())


if __name__ == "__main__":
    main()
