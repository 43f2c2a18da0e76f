"""`cmake --install`: what it puts where is enough to start, and a second one leaves the configuration alone."""

import gzip
import os
import re
import shutil
import subprocess
import unittest

from fixtures import BIN, SOURCE, main, tmpdir


@unittest.skipUnless(shutil.which("cmake") and (BIN / "cmake_install.cmake").exists(), "no build directory to install")
class Install(unittest.TestCase):
    def setUp(self):
        self.top = tmpdir(self)

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

    def page(self, name):
        """The text of a manual page, without what man(7) makes of it."""
        found = list((self.top / "usr/share/man").glob(f"man*/{name}.gz"))
        self.assertEqual(len(found), 1, name)
        return gzip.decompress(found[0].read_bytes()).decode().replace("\\-", "-").replace("\\&", "")

    def help_of(self, program, *words):
        return subprocess.run([BIN / program, *words], capture_output=True, text=True, check=True, timeout=60).stdout

    def test_there_is_a_manual_page_for_each_program_and_each_command_with_all_options(self):
        self.install("/usr")
        whole = self.page("sandpool.1")
        commands = re.findall(r"^  ([a-z-]+) ", self.help_of("sandpool", "help").split("\nOptions")[0], re.M)
        self.assertGreater(len(commands), 25)
        for command in commands:
            text = self.page(f"sandpool-{command}.1")
            self.assertRegex(whole, rf"\n\\fB{command}[ \\]", command)
            for option in re.findall(r"(--[a-z-]+)", self.help_of("sandpool", "help", command).split("\nExamples")[0]):
                self.assertIn(option, text, command)
        for program, section in (("sandpoold", 8), ("sandpool-agent", 1), ("sandpool-helper", 8)):
            text = self.page(f"{program}.{section}")
            for option in re.findall(r"(--[a-z-]+)", self.help_of(program, "--help")):
                self.assertIn(option, text, program)

    def test_the_manual_page_of_the_configuration_has_every_key_with_its_default(self):
        self.install("/usr")
        text = self.page("sandpool.yaml.5")
        keys = re.findall(r"^( *)([a-z_]+):", self.help_of("sandpoold", "--example"), re.M)
        self.assertGreater(len(keys), 150)
        for _, key in keys:
            if key not in ("profiles", "default"):
                self.assertRegex(text, rf"(\\fB|\.|SS ){key}", key)
        self.assertIn("[default 1M; 1k to 1G; reload: yes]", text)

    def test_the_scripts_of_the_package_are_well_formed(self):
        scripts = SOURCE / "src/dist/debian"
        for name in ("postinst", "prerm", "postrm"):
            subprocess.run(["sh", "-n", scripts / name], check=True, timeout=60)
            self.assertTrue(os.access(scripts / name, os.X_OK), name)
        # A removal keeps what is hibernated, and a purge the notes of other daemons.
        prerm = (scripts / "prerm").read_text()
        self.assertRegex(prerm, r"for state in starting blank leased parked; do\n +sandpool ls --quiet --state \"\$state\" \|")
        self.assertEqual(prerm.count("sandpool ls"), 1)
        self.assertNotIn("stamp", (scripts / "postrm").read_text())
        self.install("/usr")
        for path in (scripts / "conffiles").read_text().split():
            self.assertTrue((self.top / path[1:]).exists(), path)

    def test_what_is_for_tests_is_not_installed(self):
        self.install("/usr")
        self.assertEqual({p.name for p in (self.top / "usr/bin").iterdir()},
                         {"sandpoold", "sandpool", "sandpool-agent", "sandpool-helper"})

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
