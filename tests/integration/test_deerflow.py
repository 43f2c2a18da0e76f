"""DeerFlow's threads on boxes of this machine."""

import os

from deerflow_case import OWNER, Conversation
from fixtures import free_port, main, wait_until
from oci_case import BoxCase
from provisioner import KEY, ProvisionerCase


class OnThisMachine(Conversation, BoxCase):
    box_user = "user"

    @classmethod
    def make_config(cls):
        cls.make_home(cls.home)
        cls.port = free_port()
        cls.config = {"provisioner": {"enabled": True, "listen": f"127.0.0.1:{cls.port}", "api_key": KEY,
                                      "thread_data": str(cls.deer / cls.template)},
                      "mounts": {"allow": [str(cls.deer)]}}
        return super().make_config()

    def output(self):
        return self.server.process.output()

    def wait_warm(self):
        self.wait_blank(self.pool, 1)

    def restart(self):
        self.server.stop()
        self.server.start()
        self.pool.close()
        type(self).pool = self.server.client()

    def test_other_callers_cannot_mount_it(self):
        """The directory that may be mounted has the data of all threads in it."""
        (self.data("nora", "t1") / "workspace").mkdir(parents=True)
        (self.deer / "other").mkdir()
        os.chown(self.deer / "other", OWNER, OWNER)
        (self.deer / "other" / "file").write_text("for everybody\n")
        (self.deer / "other" / "link").symlink_to("../users/nora")
        (self.deer / "other" / "file-link").symlink_to("../users/nora/threads")
        for path in (self.deer, self.deer / "users", self.data("nora", "t1"), self.deer / "other" / "link",
                     self.deer / "other" / "link" / "threads", self.deer / "other" / "file-link"):
            answer = self.server.acquire("native", mounts=[{"host_path": str(path), "container_path": "/data"}])
            self.assertCode(answer, 403, "forbidden")
            self.assertIn("provisioner.thread_data", answer.text, path)
        box = self.acquire("native", mounts=[{"host_path": str(self.deer / "other"), "container_path": "/data"}])
        self.assertEqual(box.sh("cat /data/file"), "for everybody\n")

    def test_doctor_says_where_the_space_is_shared(self):
        def finding():
            return [f for b in self.pool.get("/v1/doctor").json["backends"] for f in b["findings"]
                    if f["subject"] == "thread data"]

        wait_until(finding, "it was looked at")
        self.assertEqual(finding()[0]["level"], "warn")
        self.assertIn("Put it on a file system of its own", finding()[0]["text"])
        self.assertIn(str(self.deer / "users"), finding()[0]["text"])


class Settings(ProvisionerCase):
    """What is said when it cannot be."""

    def detail(self, provisioner, status, **kw):
        daemon = self.serve(provisioner, **kw)
        answer = self.caller().create("a", thread_id="t1", extra_mounts=[
            {"host_path": "/srv/x", "container_path": "/mnt/acp-workspace"}] if status == 400 else [])
        self.assertEqual(answer.status, status, answer.text)
        daemon.stop()
        return answer.json["detail"]

    def test_mounts_that_no_setting_allows(self):
        self.assertIn("mounts.allow of sandpool's configuration is empty: list the directories that boxes may mount",
                      self.detail({}, 400))
        self.assertIn("'/srv/x'", self.detail({}, 400))
        self.assertIn("host_path is not below any of mounts.allow of sandpool's configuration: list it there",
                      self.detail({}, 400, mounts={"allow": ["/srv/y"]}))

    def test_boxes_that_take_no_mounts_late(self):
        text = self.detail({"thread_data": "/srv/{user_id}/{thread_id}"}, 500,
                           profile={"sim": {"late": False}})
        self.assertIn("provisioner.thread_data is for boxes that take mounts while they run", text)


if __name__ == "__main__":
    main()
