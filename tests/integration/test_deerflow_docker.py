"""DeerFlow's threads in containers: with our agent in them, and of an image that serves the API itself, as the AIO sandbox's
does."""

import json
import pathlib
import sys
import urllib.parse

from docker_case import DockerCase, engines
from aio_image import ANSWERS, PORT, START, tar_of
from deerflow_case import OWNER, Conversation, id_of
from fixtures import free_port, main, tmpdir
from provisioner import KEY, Caller
from test_provisioner_boxes import Sandbox

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "unit" / "agent"))
from aio_types import answer_problems  # noqa: E402


class ContainerCase(DockerCase):
    profile_fields = {}

    def setUp(self):
        super().setUp()
        self.port = free_port()
        home = tmpdir(self, "sandpool-deer-")
        self.make_home(home)
        self.server = self.start(config={
            "provisioner": {"enabled": True, "listen": f"127.0.0.1:{self.port}", "api_key": KEY,
                            "thread_data": str(self.deer / self.template)},
            "mounts": {"allow": [str(self.deer)]}}, **self.profile_fields)

    def output(self):
        return self.server.process.output()

    def wait_warm(self):
        self.wait_blank(self.client(self.server), 1)

    def restart(self):
        self.server.stop()
        self.server.start()


class OurAgent(Conversation, ContainerCase):
    box_user = "ann"  # the image's own


class AioImage(Conversation, ContainerCase):
    """What the box answers is the image's; what the tests of the class above do by commands cannot be done."""
    profile_fields = {"image": "aio:1", "agent": "image", "network": "nat", "docker": {"port": PORT}, "ready_timeout_s": 60}
    test_conversation = test_directories_are_the_users = test_a_link_that_a_box_has_left = None
    test_what_the_gateway_made_as_root = test_extra_mounts_beside_it = test_names_that_would_lead_elsewhere = None
    test_extra_mounts_of_others = None

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.engine.call("POST", "/images/create?fromSrc=-&repo=aio&tag=1&changes=" +
                        urllib.parse.quote("CMD " + json.dumps(START)), tar_of(engines.image_tar()), "application/x-tar")

    def check_answers(self, call):
        for name, (status, answer) in ANSWERS.items():
            method, path = name.split(" ")
            got = call(method, path, {} if method == "POST" else None)
            self.assertEqual((got[0], json.loads(got[1])), (status, answer), name)
            self.assertEqual(answer_problems(name, status, answer), [], name)

    def test_every_answer_comes_through(self):
        self.wait_warm()
        box = self.acquire_thread("alice", "t1")
        self.check_answers(box.call)
        self.assertEqual(box.call("GET", "/v1/nosuch"), (404, b'{"detail": "Not Found"}'))
        self.assertTrue((self.data("alice", "t1") / "workspace").is_dir())
        self.assertEqual(self.data("alice", "t1").stat().st_uid, OWNER)

    def test_a_native_caller_needs_no_token(self):
        answer = self.assertOk(self.server.acquire("t9"))
        box = Sandbox(answer["sandbox_url"])
        self.addCleanup(box.close)
        self.check_answers(box.call)

    def test_data_of_the_thread_outlives_the_box(self):
        """What is mounted is seen from outside: the container's own processes."""
        self.acquire_thread("alice", "t2")

        def inside(path):
            caller = Caller(self.port)
            box_id = caller.get(id_of("alice", "t2")).json["container_id"]
            caller.close()
            pid = self.engine.json("GET", f"/containers/{self.containers()[box_id]['Id']}/json")["State"]["Pid"]
            return pathlib.Path(f"/proc/{pid}/root{path}")

        inside("/mnt/user-data/workspace/note").write_text("kept\n")
        self.assertEqual((self.data("alice", "t2") / "workspace" / "note").read_text(), "kept\n")
        for name in ("user-data", "user-data/outputs", "skills", "acp-workspace"):
            self.assertEqual(inside(f"/mnt/{name}").stat().st_mode & 0o777, 0o777, name)  # whoever it runs commands as
        self.release_thread("alice", "t2")
        self.restart()
        self.acquire_thread("alice", "t2")
        self.assertEqual(inside("/mnt/user-data/workspace/note").read_text(), "kept\n")


if __name__ == "__main__":
    main()
