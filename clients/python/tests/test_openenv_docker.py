"""OpenEnv's sandbox protocol with boxes that are containers of an engine."""

import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "clients" / "python"), str(ROOT / "tests" / "lib"), str(ROOT / "tests" / "integration")]

from docker_case import DockerCase  # noqa: E402
import conformance  # noqa: E402
from testlib import main  # noqa: E402

from sandpool import openenv  # noqa: E402


class Docker(DockerCase):
    sandbox = conformance.Conformance.sandbox

    def make_backend(self):
        backend = openenv.SandpoolBackend(str(self.server.socket))
        self.addCleanup(backend.close)
        return backend

    def test_conformance(self):
        """All cases with one daemon: an engine needs longer for its end than they do."""
        self.server = self.start(warm=2)
        for name in dir(conformance.Conformance):
            if name.startswith("test_"):
                with self.subTest(name):
                    getattr(conformance.Conformance, name)(self)


if __name__ == "__main__":
    main()
