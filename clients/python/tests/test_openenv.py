"""OpenEnv's sandbox protocol with real boxes of the `oci` backend."""

import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "clients" / "python"), str(ROOT / "tests" / "lib"), str(ROOT / "tests" / "integration")]

from conformance import Conformance  # noqa: E402
from oci_case import BoxCase  # noqa: E402
from testlib import main  # noqa: E402

from sandpool import openenv  # noqa: E402


class Oci(Conformance, BoxCase):
    profiles = {"default": {"warm": {"min": 2, "max": 4}}}

    def make_backend(self):
        backend = openenv.SandpoolBackend(str(self.server.socket))
        self.addCleanup(backend.close)
        return backend

    def test_metadata_and_lifetime_reach_the_daemon(self):
        handle = self.sandbox(timeout_s=700, metadata={"episode_id": "e1"})
        row = self.pool.get(f"/v1/sandboxes/{handle.sandbox_id}").json
        self.assertEqual(row["metadata"], {"episode_id": "e1"})
        self.assertLess(row["ends_in_s"], 701)

    def test_the_key_is_in_no_view_and_no_log(self):
        handle = self.sandbox(envs={"A": "sk-at-create"})
        job = handle.start_bg("sleep 600", envs={"B": "sk-in-job"})
        shown = str(handle.box.job(handle.box.jobs()[0].id).view) + self.pool.get("/v1/sandboxes").text
        for secret in ("sk-at-create", "sk-in-job"):
            self.assertNotIn(secret, shown + self.server.process.output())
        job.kill()


if __name__ == "__main__":
    main()
