"""`sandpool doctor` without a daemon: sandpoold examines, the answer has the same form."""

import json
import os
import pathlib
import socket
import subprocess

from fixtures import BIN, TestCase, main


class Doctor(TestCase):
    def examine(self, profiles, *args, program="sandpool", status=0, **config):
        path = pathlib.Path(self.directory) / "sandpool.yaml"
        path.write_text(json.dumps({"profiles": profiles, **config}))
        argv = [BIN / "sandpool", "doctor"] if program == "sandpool" else [BIN / program, "--doctor"]
        done = subprocess.run(
            [*argv, "--config", path, *args], capture_output=True, text=True, timeout=120,
            env={**os.environ, "SANDPOOL_SOCKET": self.directory + "/none", "TMPDIR": self.directory})
        self.assertEqual(done.returncode, status, (done.stdout, done.stderr))
        left = [name for name in os.listdir(self.directory) if name.startswith("sandpool-doctor-")]
        self.assertEqual(left, [])
        return done

    def test_same_form_as_the_daemon(self):
        done = self.examine({"default": {"backend": "sim"}, "b": {"backend": "sim"}}, program="sandpoold")
        answer = json.loads(done.stdout)
        self.assertTrue(answer["ok"])
        self.assertEqual([b["name"] for b in answer["backends"]], ["sim:", "machine"])  # the two share it
        for finding in answer["backends"][0]["findings"] + answer["backends"][1]["findings"]:
            self.assertEqual(set(finding), {"level", "subject", "text"})
            self.assertIn(finding["level"], ("ok", "warn", "fail"))
        subjects = {f["subject"] for f in answer["backends"][1]["findings"]}
        self.assertLessEqual({"kernel features", "open files", "socket", "clock", "disk"}, subjects)

    def test_before_it_is_started(self):
        """What would keep the daemon from starting, or from making boxes."""
        taken = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(taken.close)
        port = taken.getsockname()[1]
        done = self.examine({"default": {"backend": "sim"}}, program="sandpoold", status=1, store={"min_free": "64T"},
                            state_dir=self.directory, socket={"path": self.directory + "/s.sock"},
                            tcp={"listen": f"127.0.0.1:{port}", "tokens": {"ci": "t" * 32}})
        found = {f["subject"]: (f["level"], f["text"]) for b in json.loads(done.stdout)["backends"] for f in b["findings"]}
        self.assertEqual(found["disk"][0], "fail", found)
        self.assertIn("below the floor", found["disk"][1])
        self.assertEqual(found["tcp.listen"][0], "warn", found)
        self.assertIn("Address already in use", found["tcp.listen"][1])
        self.assertEqual(found["socket"][0], "ok", found)

    def test_for_people_and_for_machines(self):
        done = self.examine({"default": {"backend": "sim"}})
        self.assertIn("start sandpoold", done.stderr)
        self.assertIn("--doctor", done.stderr)
        self.assertTrue(done.stdout.startswith("sim"), done.stdout)
        self.assertTrue(json.loads(self.examine({"default": {"backend": "sim"}}, "--json").stdout)["ok"])

    def test_backend_that_cannot_work(self):
        done = self.examine({"default": {"backend": "oci"}}, program="sandpoold", status=1,
                            agent={"path": "/no/such/agent"})
        answer = json.loads(done.stdout)
        self.assertFalse(answer["ok"])
        self.assertIn("/no/such/agent", " ".join(f["text"] for b in answer["backends"]
                                                 for f in b["findings"] if f["level"] == "fail"))

    def test_bad_configuration(self):
        done = self.examine({"default": {"backend": "nope"}}, status=1)
        self.assertIn("FAIL", done.stdout)
        self.assertIn("'nope'", done.stdout)
        self.assertFalse(json.loads(self.examine({"default": {"backend": "nope"}}, "--json",
                                                 status=1).stdout)["ok"])


if __name__ == "__main__":
    main()
