"""What a container cannot take once it runs, it is made with: the environment of an image that serves itself, mounts of
an engine elsewhere."""

import os
import pathlib

import engine_case
from engine_case import EngineCase, Proxy
from fixtures import main

SERVES = ("CMD%20%5B%22/bin/sh%22,%22-c%22,%22mkdir%20-p%20/tmp/v1%20%26%26%20echo%20%24WORD%20%24SANDBOX_API_KEY%3E"
          "/tmp/v1/sandbox%20%26%26%20exec%20/bin/busybox%20httpd%20-f%20-p%209000%20-h%20/tmp%22%5D")


class FromBirth(EngineCase):
    def test_environment_of_an_image_that_serves_itself(self):
        status, data = self.engine.call("POST", "/images/create?fromSrc=-&repo=says&tag=1&changes=" + SERVES,
                                        engine_case.engines.image_tar(), "application/x-tar")
        self.assertEqual(status, 200, data)
        daemon = self.daemon_on({"default": self.config(warm=1, image="says:1", agent="image", network="nat",
                                                        docker={"port": 9000}, env={"WORD": "profile"})})
        client = self.client(daemon)
        self.wait_blank(client, 1)
        box = self.box(daemon, "one", envs={"WORD": "caller"}, limits={"memory": "48M"})
        self.assertEqual(box.lease["source"], "cold")
        self.assertEqual(box.call("GET", "/v1/sandbox")[1].decode().split(), ["caller", box.lease["token"]])
        made = self.engine.json("GET", f"/containers/{self.container(box)}/json")
        self.assertEqual(made["HostConfig"]["Memory"], 48 << 20)  # by an update
        again = daemon.acquire("one", envs={"WORD": "caller"})
        self.assertEqual((again.status, again.json["source"]), (200, "kept"))
        self.assertCode(daemon.acquire("one", envs={"WORD": "other"}), 409, "spec_conflict")
        plain = self.box(daemon, "two")
        self.assertEqual((plain.lease["source"], plain.call("GET", "/v1/sandbox")[1].decode().split()[0]),
                         ("warm", "profile"))

    def test_mounts_of_an_engine_elsewhere(self):
        share = pathlib.Path(self.directory, "share")
        share.mkdir()
        (share / "hello").write_text("from the host\n")
        os.chmod(self.directory, 0o755)
        proxy = Proxy(self, self.engine.socket, tcp=True)
        daemon = self.daemon_on({"default": self.config(proxy.address, network="nat")},
                                mounts={"allow": [str(share)]})
        mounts = [{"host_path": str(share), "container_path": "/data", "read_only": True}]
        box = self.box(daemon, "one", mounts=mounts)
        self.assertEqual((box.lease["source"], box.sh("cat /data/hello")), ("cold", "from the host\n"))
        self.assertNotEqual(box.run("touch /data/x").exit_code, 0)
        daemon.kill()
        daemon.start()
        self.assertEqual(self.box(daemon, "one", mounts=mounts).box_id, box.box_id)
        for i in range(5):  # nobody else suffers for a wrong path
            missing = [{"host_path": str(share / "missing"), "container_path": "/data"}]
            self.assertCode(daemon.acquire(f"wrong{i}", mounts=missing, wait_ms=20000), 422, "invalid_field")
        self.box(daemon, "two", mounts=mounts)


if __name__ == "__main__":
    main()
