"""`sandpool doctor` without a daemon: sandpoold examines, the answer has the same form."""

import json
import os
import pathlib
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
        self.assertEqual(len(answer["backends"]), 1)  # the two share it
        for finding in answer["backends"][0]["findings"]:
            self.assertEqual(set(finding), {"level", "subject", "text"})
            self.assertIn(finding["level"], ("ok", "warn", "fail"))

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
