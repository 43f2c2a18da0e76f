"""What the end of a Docker or Podman box has released: counted by the kernel, not by the engine, and null where nobody
counts."""

import os
import signal

from docker_case import DockerCase, main, wait_until
from host import read_of


class DockerEnd(DockerCase):
    def test_reports(self):
        daemon = self.start(warm=0)
        client = self.client(daemon)
        box = self.box(daemon, "one")
        for _ in range(3):
            box.start("exec sleep 300")
        mounts = len(read_of(self.container(box)["State"]["Pid"], "mountinfo").splitlines())
        report = self.assertOk(client.delete(f"/v1/sandboxes/{box.id}"))["report"]
        self.assertEqual((report["processes"], report["mounts"], report["layers"], report["bytes"]),
                         (4, mounts, 1, None), report)  # the agent, too
        self.assertGreater(report["lived_s"], 0)
        self.assertEqual(client.reports(box.box_id), [report])

        box = self.box(daemon, "two")  # one that stands still
        self.assertOk(client.post(f"/v1/sandboxes/{box.id}/pause"))
        report = self.assertOk(client.release(box.id, destroy=True))["report"]
        self.assertEqual((report["processes"], report["layers"]), (1, 1), report)

        box = self.box(daemon, "three")  # one that has died
        os.kill(self.container(box)["State"]["Pid"], signal.SIGKILL)
        report = wait_until(lambda: client.reports(box.box_id), "its end is in the audit trail")[0]
        self.assertEqual((report["processes"], report["mounts"], report["layers"]), (0, 0, 1), report)


class PodmanEnd(DockerEnd):
    kind = "podman"


if __name__ == "__main__":
    main()
