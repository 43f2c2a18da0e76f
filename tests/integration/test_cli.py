"""The command line against a real daemon: what people see, what machines see, exit codes."""

import json
import os
import subprocess
import threading

from fixtures import BIN, TestCase, main, wait_until


class Cli(TestCase):
    def setUp(self):
        super().setUp()
        self.daemon_under_test = self.daemon({"warm": {"min": 2, "max": 4}})
        self.wait_blank(self.client(self.daemon_under_test), 2)

    def run_cli(self, *args, status=0, env=None):
        done = subprocess.run([BIN / "sandpool", *args], capture_output=True, text=True, timeout=60,
                              env={**os.environ,
                                   "SANDPOOL_SOCKET": str(self.daemon_under_test.socket),
                                   **(env or {})})
        self.assertEqual(done.returncode, status, (args, done.stdout, done.stderr))
        return done

    def test_a_lease_from_acquire_to_release(self):
        lease = json.loads(self.run_cli("acquire", "demo", "--json").stdout)
        self.assertEqual(lease["source"], "warm")
        table = self.run_cli("ls").stdout
        self.assertIn(lease["sandbox_id"], table)
        self.assertIn("leased", table)
        self.assertIn("demo", self.run_cli("get", lease["sandbox_id"]).stdout)
        self.run_cli("renew", lease["sandbox_id"], "--ttl", "60")
        self.run_cli("release", lease["sandbox_id"])
        listed = json.loads(self.run_cli("ls", "--json").stdout)
        states = {b["sandbox_id"]: b["state"] for b in listed["sandboxes"]}
        self.assertEqual(states[lease["sandbox_id"]], "parked")
        self.run_cli("destroy", lease["sandbox_id"])
        self.assertIn("no such sandbox", self.run_cli("get", lease["sandbox_id"], status=4).stderr)

    def test_top_once(self):
        lease = json.loads(self.run_cli("acquire", "demo", "--user", "ana", "--json").stdout)
        picture = self.run_cli("top", "--once", "--interval", "100ms").stdout
        self.assertEqual(picture, "".join(line.rstrip() + "\n" for line in picture.splitlines()))
        self.assertNotIn("\x1b", picture)
        for wanted in ("running  boxes ", "default ", "hit rate 100.0%", "warm  ", "ana/demo", "32M"):
            self.assertIn(wanted, picture)
        known = json.loads(self.run_cli("top", "--json", "--interval", "100ms").stdout)
        self.assertEqual(known["acquires"]["warm"]["all"]["count"], 1)
        box = next(b for b in known["boxes"] if b["name"] == lease["sandbox_id"])
        self.assertEqual((box["state"], box["thread_id"], box["memory_bytes"]), ("leased", "demo", 32 << 20))
        self.assertGreaterEqual(box["cpu_percent"], 0)
        self.assertIn("from 100ms", self.run_cli("top", "--interval", "1ms", status=2).stderr)
        self.assertIn("sandpoold", self.run_cli("top", status=3, env={"SANDPOOL_SOCKET": self.directory + "/none"}).stderr)

    def test_a_thread_is_as_good_as_an_id(self):
        self.run_cli("acquire", "demo")
        self.assertIn("demo", self.run_cli("get", "demo").stdout)
        self.assertRegex(self.run_cli("get", "demo", "--stats").stdout, r"(?m)^cpu_ms +\d+$")
        self.assertIn("has no sandbox", self.run_cli("get", "demo", "--user", "ana", status=4).stderr)
        self.run_cli("acquire", "demo", "--user", "ana@example.org")
        self.run_cli("renew", "demo", "--user", "ana@example.org", "--ttl", "1h")
        self.run_cli("release", "demo")
        self.assertIn("destroyed demo", self.run_cli("destroy", "demo").stdout)
        left = json.loads(self.run_cli("ls", "--json", "--state", "leased").stdout)["sandboxes"]
        self.assertEqual([b["user_id"] for b in left], ["ana@example.org"])
        for bad in ("thread:", "thread:a/b/c", "thread:/x", "thread:a b", "thread:x/" + "y" * 129):
            failed = json.loads(self.run_cli("get", bad, "--json", status=4).stdout)
            self.assertIn("not an id", failed["error"]["message"])

    def test_operating_the_pool(self):
        self.assertIn("default", self.run_cli("pool").stdout)
        self.run_cli("pause")
        self.run_cli("acquire", "x", "--wait", "100ms", status=5)
        self.run_cli("resume")
        self.run_cli("reconcile")
        self.run_cli("reload")
        said = self.run_cli("drain", "--profile", "default", "-m", "back at 14:00").stdout
        self.assertEqual(said, "profile default is draining: no new leases until 'sandpool resume --profile default'\n")
        self.assertIn("back at 14:00", self.run_cli("acquire", "x", status=5).stderr)
        self.assertIn("profile default is draining", self.run_cli("resume").stdout)
        self.assertEqual(self.run_cli("resume", "-p", "default").stdout, "profile default serves again\n")
        self.run_cli("pause", "x", "--profile", "default", status=2)
        self.run_cli("drain")
        self.assertEqual(json.loads(self.run_cli("pool", "--json").stdout)["mode"], "draining")
        self.run_cli("resume")
        self.assertIn("mode", self.run_cli("events", "--since", "0", "--no-follow").stdout)
        self.assertIn("0.1.0", self.run_cli("version").stdout)

    def test_errors_say_what_to_do(self):
        gone = self.run_cli("pool", status=3, env={"SANDPOOL_SOCKET": self.directory + "/none"})
        self.assertIn("sandpoold", gone.stderr)
        self.run_cli("acquire", "--thraed", "x", status=2)
        self.run_cli("nonsense", status=2)
        self.run_cli("release", status=2)
        self.assertIn("profile", self.run_cli("acquire", "--profile", "nope", status=1).stderr)
        wrong = subprocess.run([BIN / "sandpoold", "--confg", "x"], capture_output=True, text=True, timeout=20, check=False)
        self.assertEqual(wrong.returncode, 2)
        self.assertIn("did you mean '--config'?", wrong.stderr)

    def test_help_teaches_every_command(self):
        top = self.run_cli("--help").stdout
        for name in ("acquire release renew get ls destroy pool events pause resume drain "
                     "reconcile reload version").split():
            self.assertIn(name, top)
            text = self.run_cli(name, "--help").stdout
            self.assertIn("sandpool " + name, text)
            self.assertIn("xample", text)

    def test_completions(self):
        for shell in ("bash", "zsh", "fish"):
            self.assertIn("acquire", self.run_cli("completion", shell).stdout)

    def test_events_follow(self):
        child = subprocess.Popen([BIN / "sandpool", "--socket",
                                  str(self.daemon_under_test.socket), "events"],
                                 stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.addCleanup(child.wait, 20)
        self.addCleanup(child.stdout.close)
        self.addCleanup(child.kill)
        lines = []
        reader = threading.Thread(target=lambda: lines.extend(iter(child.stdout.readline, "")),
                                  daemon=True)
        reader.start()

        def seen():
            self.run_cli("acquire", "follow")
            self.run_cli("release", self.run_cli_id("follow"))
            return any("leased" in line for line in lines)

        wait_until(seen, "the follower prints a lease")

    def run_cli_id(self, thread):
        listed = json.loads(self.run_cli("ls", "--thread", thread, "--json").stdout)
        return listed["sandboxes"][0]["sandbox_id"]


if __name__ == "__main__":
    main()
