"""A conversation as DeerFlow has it: the sandbox comes from the provisioner's API, its client knows an address and
nothing else, and what the agent leaves in /mnt/user-data belongs to the thread."""

import hashlib
import os

from fixtures import wait_until
from provisioner import Caller
from test_provisioner_boxes import Sandbox

OWNER = 4321  # of the directory that holds the threads' data; no user of this machine


def id_of(user, thread):
    return hashlib.sha256(f"{user}:{thread}".encode()).hexdigest()[:16]


class Conversation:
    """For a test case with self.port, self.deer (the directory), restart(), wait_warm() and box_user."""

    template = "users/{user_id}/threads/{thread_id}/user-data"

    @classmethod
    def make_home(cls, home):
        """DeerFlow's home; what is fixed in the template is there."""
        cls.deer = home / "deer-flow"
        (cls.deer / "users").mkdir(parents=True)
        os.chown(cls.deer / "users", OWNER, OWNER)
        os.chmod(home, 0o755)
        cls.secret = home / "secret"
        cls.secret.mkdir()
        (cls.secret / "key").write_text("not for boxes\n")

    def ask(self, user, thread, **fields):
        caller = Caller(self.port)
        try:
            return caller.create(id_of(user, thread), user_id=user, thread_id=thread, **fields)
        finally:
            caller.close()

    def acquire_thread(self, user, thread, **fields):
        answer = self.ask(user, thread, **fields)
        self.assertEqual(answer.status, 200, (answer.text, self.output()[-3000:]))
        box = Sandbox(answer.json["sandbox_url"])
        box.container_id = answer.json.get("container_id")
        self.addCleanup(box.close)
        return box

    def release_thread(self, user, thread):
        caller = Caller(self.port)
        try:
            self.assertEqual(caller.delete(id_of(user, thread)).status, 200)
            wait_until(lambda: caller.get(id_of(user, thread)).status == 404, "the box is gone")
        finally:
            caller.close()

    def data(self, user, thread):
        return self.deer / "users" / user / "threads" / thread / "user-data"

    def test_conversation(self):
        self.wait_warm()
        box = self.acquire_thread("alice", "t1")
        self.assertEqual(box.sh("cd /mnt/user-data; echo *"), "outputs uploads workspace\n")
        box.sh("echo first > /mnt/user-data/workspace/note; mkdir /mnt/user-data/outputs/sub")
        box.post("/v1/file/write", file="/mnt/user-data/uploads/up.txt", content="pushed\n")
        note = self.data("alice", "t1") / "workspace" / "note"
        self.assertEqual((note.read_text(), note.stat().st_uid, note.stat().st_gid), ("first\n", OWNER, OWNER))
        for path in (self.data("alice", "t1"), note.parent, self.data("alice", "t1").parent, self.deer / "users/alice"):
            self.assertEqual((path.stat().st_uid, path.stat().st_mode & 0o777), (OWNER, 0o755), path)
        again = self.acquire_thread("alice", "t1")  # the same box, which has it already
        self.assertEqual(again.container_id, box.container_id)
        self.release_thread("alice", "t1")
        self.restart()
        (self.data("alice", "t1") / "uploads" / "from-outside").write_text("by the gateway\n")
        box2 = self.acquire_thread("alice", "t1")
        self.assertNotEqual(box2.container_id, box.container_id)
        self.assertEqual(box2.sh("cat /mnt/user-data/workspace/note"), "first\n")
        box2.sh("echo second >> /mnt/user-data/workspace/note; rmdir /mnt/user-data/outputs/sub")
        self.assertEqual(note.read_text(), "first\nsecond\n")
        self.assertEqual(box2.sh("cat /mnt/user-data/uploads/*"), "by the gateway\npushed\n")
        for user, thread in (("alice", "t2"), ("bob", "t1")):
            other = self.acquire_thread(user, thread)
            self.assertEqual(other.sh("cat /mnt/user-data/workspace/note; ls /mnt/user-data/*/*").count("first"), 0)

    def test_directories_are_the_users(self):
        """Also without a place on the host: a box that nobody named a thread for."""
        caller = Caller(self.port)
        self.addCleanup(caller.close)
        box = Sandbox(caller.create("nobodys").json["sandbox_url"])
        self.addCleanup(box.close)
        for path in ("user-data", "user-data/workspace", "user-data/uploads", "user-data/outputs", "skills", "acp-workspace"):
            owner = box.sh(f"cd /mnt/{path} && echo x > mine && busybox stat -c %U . || stat -c %U .")
            self.assertEqual(owner.strip(), self.box_user, path)
        self.assertEqual([p for p in self.deer.rglob("*") if "nobodys" in p.name], [])

    def test_names_that_would_lead_elsewhere(self):
        before = sorted(p for p in self.deer.parent.rglob("*") if "boxes" not in p.parts and "state" not in p.parts)
        for name in ("..", ".", "", "../../x", "a/b", "/etc", "a\nb", "a\0b", "a b", "ä", "x" * 300, "{user_id}"):
            for user, thread in ((name, "t1"), ("alice", name)):
                answer = self.ask(user, thread)
                self.assertIn(answer.status, (422, 500) if len(name) > 64 else (422,), (user, thread, answer.text))
        long = self.ask("u" * 128, "t" * 64)
        self.assertIn(long.status, (200, 500), long.text)
        if long.status == 500:
            self.assertIn("provisioner.thread_data", long.json["detail"])
        after = sorted(p for p in self.deer.parent.rglob("*") if "boxes" not in p.parts and "state" not in p.parts)
        self.assertEqual([p for p in after if p not in before and "u" * 128 not in str(p) and self.deer in p.parents], [])

    def test_links_are_not_followed(self):
        users = self.deer / "users"
        inside = users / "mallory" / "threads"
        inside.mkdir(parents=True)
        (inside / "t1").symlink_to(self.secret)
        (inside / "t2").mkdir()
        (inside / "t2" / "user-data").symlink_to(self.secret)
        (users / "eve").symlink_to("../../secret")
        for user, thread in (("mallory", "t1"), ("mallory", "t2"), ("eve", "t1")):
            answer = self.ask(user, thread)
            self.assertEqual(answer.status, 500, answer.text)
            self.assertIn("links are not followed", answer.json["detail"])
            self.assertIn("provisioner.thread_data", answer.json["detail"])
        self.assertEqual(sorted(p.name for p in self.secret.iterdir()), ["key"])
        self.assertEqual(self.secret.stat().st_uid, 0)

    def test_the_fixed_part_is_missing(self):
        (self.deer / "users").rename(self.deer / "away")
        try:
            answer = self.ask("heidi", "t1")
        finally:
            (self.deer / "away").rename(self.deer / "users")
        self.assertEqual(answer.status, 500, answer.text)
        self.assertIn("provisioner.thread_data: make it, for the user who shall own", answer.json["detail"])
        self.assertIn("'…/users'", answer.json["detail"])  # its caller may be a stranger to this machine
        self.assertIn(str(self.deer / "users"), self.output())

    def test_a_link_that_a_box_has_left(self):
        box = self.acquire_thread("carol", "t1")
        box.sh(f"cd /mnt/user-data && rmdir workspace outputs && ln -s {self.secret} workspace && ln -s / outputs")
        self.release_thread("carol", "t1")
        box = self.acquire_thread("carol", "t1")
        self.assertEqual(box.sh("cat /mnt/user-data/workspace/key 2>&1").count("not for boxes"), 0)
        self.assertEqual((self.secret.stat().st_uid, sorted(p.name for p in self.secret.iterdir())), (0, ["key"]))
        self.assertTrue((self.data("carol", "t1") / "workspace").is_symlink())

    def test_what_the_gateway_made_as_root(self):
        """DeerFlow makes a thread's directories before it asks, and in a container it is root."""
        for name in ("workspace", "uploads", "outputs"):
            path = self.data("dora", "t1") / name
            path.mkdir(parents=True)
            path.chmod(0o777)
        (self.data("dora", "t1") / "uploads" / "root").write_text("readable\n")
        box = self.acquire_thread("dora", "t1")
        self.assertEqual(box.sh("cat /mnt/user-data/uploads/root; echo x > /mnt/user-data/outputs/mine"), "readable\n")
        self.assertEqual((self.data("dora", "t1") / "outputs" / "mine").stat().st_uid, OWNER)

    def test_extra_mounts_beside_it(self):
        """What DeerFlow's provider always sends."""
        acp = self.data("frank", "t1").parent / "acp-workspace"
        acp.mkdir(parents=True)
        (acp / "plan").write_text("from the host\n")
        mounts = [{"host_path": str(acp), "container_path": "/mnt/acp-workspace", "read_only": True}]
        box = self.acquire_thread("frank", "t1", extra_mounts=mounts)
        self.assertEqual(box.sh("cat /mnt/acp-workspace/plan"), "from the host\n")
        self.assertIn("Read-only", box.sh("echo x > /mnt/acp-workspace/new 2>&1; echo x 2>&1 > /mnt/acp-workspace/new"))
        box.sh("echo x > /mnt/user-data/workspace/x; echo x > /mnt/skills/x")
        answer = self.ask("gina", "t1", extra_mounts=[{"host_path": str(self.secret), "container_path": "/mnt/acp-workspace"}])
        self.assertEqual(answer.status, 400, answer.text)
        self.assertIn("mounts.allow of sandpool's configuration: list it there", answer.json["detail"])

    def test_extra_mounts_of_others(self):
        """Only what is the thread's own, or its user's beside the threads, by whatever name."""
        mine = self.data("hans", "t1").parent
        for path in (mine / "acp-workspace", self.data("ida", "t1") / "workspace", self.data("hans", "t2")):
            path.mkdir(parents=True)
        skills = self.deer / "users" / "hans" / "skills"
        skills.mkdir()
        (skills / "skill").write_text("a skill\n")
        (mine / "acp-workspace" / "way-out").symlink_to("../../../../ida")
        (self.deer / "by-a-link").symlink_to("users/ida")

        def mount(path):
            return [{"host_path": str(path), "container_path": "/mnt/acp-workspace", "read_only": True}]

        for path in (self.deer, self.deer / "users", self.deer / "users" / "hans", mine.parent, self.data("hans", "t2"),
                     self.data("ida", "t1") / "workspace", mine / "acp-workspace" / "way-out", self.deer / "by-a-link"):
            answer = self.ask("hans", "t1", extra_mounts=mount(path))
            self.assertEqual(answer.status, 400, (path, answer.text))
            self.assertIn("thread_data", answer.json["detail"], path)
        box = self.acquire_thread("hans", "t1", extra_mounts=mount(skills))
        self.assertEqual(box.sh("cat /mnt/acp-workspace/skill"), "a skill\n")
