"""The agent serves a user and is root itself: who commands and file operations are."""

import os
import pathlib
import select
import shutil
import stat
import subprocess
import tempfile
import unittest

from agent_client import BIN, TOKEN, AgentTest, main
from user_client import EXTRA_GID, GID, UID, UserTest

IDS = f"{UID}:{GID}:{GID} {EXTRA_GID}"
SHOW_IDS = "echo $(id -u):$(id -g):$(id -G)"


class Commands(UserTest):
    def test_every_kind_of_command_is_the_user(self):
        self.assertEqual(self.run_as(SHOW_IDS), (0, IDS + "\n"))
        self.assertEqual(self.bash(SHOW_IDS)["stdout"], IDS + "\n")
        shell = self.post("/v1/shell/exec", {"command": SHOW_IDS})
        self.assertEqual(shell.data["output"], IDS + "\n")

    def test_environment_and_directory(self):
        show = "echo $HOME $USER $LOGNAME $PWD"
        expected = f"{self.home} boxer boxer {self.work}\n"
        self.assertEqual(self.run_as(show)[1], expected)
        self.assertEqual(self.bash(show)["stdout"], expected)
        self.assertEqual(self.post("/v1/shell/exec", {"command": show}).data["output"], expected)
        (self.work / "sub").mkdir()
        self.assertEqual(self.run_as("pwd", cwd="sub")[1], f"{self.work}/sub\n")
        self.assertEqual(self.bash("pwd", exec_dir="sub")["stdout"], f"{self.work}/sub\n")
        sandbox = self.get("/v1/sandbox").json
        self.assertEqual((sandbox["home_dir"], sandbox["workspace"]),
                         (str(self.home), str(self.work)))

    def test_without_the_directory_it_is_the_home(self):
        self.work.rmdir()
        self.assertEqual(self.run_as("pwd")[1], f"{self.home}\n")
        self.home.rmdir()
        self.assertEqual(self.run_as("pwd")[1], "/\n")

    def test_directories_are_entered_as_the_user(self):
        closed = self.root / "closed"
        closed.mkdir(mode=0o700)
        for target, field in (("/v1/agent/jobs", "cwd"), ("/v1/bash/exec", "exec_dir"),
                              ("/v1/shell/exec", "exec_dir")):
            answer = self.post(target, {"command": "pwd", field: str(closed)})
            self.assertEqual(answer.status, 422, answer)

    def test_other_users(self):
        self.assertEqual(self.run_as("echo $(id -u):$(id -g):$(id -G) $HOME $USER", user="root")[1],
                         "0:0:0 /root root\n")
        self.assertEqual(self.run_as(SHOW_IDS, user="boxer")[1], IDS + "\n")
        self.assertEqual(self.run_as("id -u; id -G; echo $HOME", user="other")[1],
                         f"4250\n4250 {EXTRA_GID} 4445\n/nonexistent\n")
        self.assertEqual(self.run_as("id -u; echo $HOME", user="user")[1], "1000\n/home/user\n")
        for name in ("nobody-here", "", "a:b", "x" * 64, "../etc"):
            answer = self.post("/v1/agent/jobs", {"command": "id", "user": name})
            self.assertEqual(answer.status, 422, name)

    def test_streams_can_be_opened_again(self):
        code, out = self.run_as("echo a >/dev/stdout; echo b >/dev/stderr; echo c >/proc/self/fd/1")
        self.assertEqual((code, out), (0, "a\nc\n"))
        code, out = self.run_as('test -O "$(tty)" && echo mine > "$(tty)"', pty={})
        self.assertEqual((code, out), (0, "mine\r\n"))

    def test_no_privileges_are_left(self):
        code, out = self.run_as("grep ^Cap /proc/self/status")
        caps = {line.split()[0]: int(line.split()[1], 16) for line in out.splitlines()}
        self.assertEqual([caps["CapPrm:"], caps["CapEff:"], caps["CapAmb:"]], [0, 0, 0])

    def test_long_output_still_has_its_file(self):
        code, out = self.run_as("head -c 3000000 /dev/zero | tr '\\0' x")
        self.assertEqual((code, len(out)), (0, 3000000))


class AgentIsOutOfReach(UserTest):
    def test_memory_and_descriptors(self):
        pid = self.agent.pid
        for name in ("environ", "mem", "maps", "auxv"):
            code, _ = self.run_as(f"head -c 1 /proc/{pid}/{name}")
            self.assertNotEqual(code, 0, name)
        for command in (f"ls /proc/{pid}/fd/", f"readlink /proc/{pid}/exe",
                        f"cat < /proc/{pid}/fd/0", f"ls /proc/{pid}/map_files/"):
            self.assertNotEqual(self.run_as(command)[0], 0, command)

    def test_ptrace(self):
        code, out = self.run_as(
            "python3 -c 'import ctypes; l = ctypes.CDLL(None, use_errno=True); "
            f"print(l.ptrace(16, {self.agent.pid}, 0, 0), ctypes.get_errno())'")
        self.assertEqual((code, out), (0, "-1 1\n"))

    def test_signals(self):
        for name in ("TERM", "KILL", "STOP", "0"):
            code, _ = self.run_as(f"kill -{name} {self.agent.pid}")
            self.assertNotEqual(code, 0, name)
        self.assertEqual(self.get("/healthz").status, 200)

    def test_token_is_not_to_be_found(self):
        code, out = self.run_as(f"env; cat /proc/{self.agent.pid}/cmdline; cat /proc/self/environ")
        self.assertEqual(code, 0)
        self.assertNotIn(TOKEN, out)
        everything = pathlib.Path(f"/proc/{self.agent.pid}/environ").read_bytes()
        self.assertNotIn(TOKEN.encode(), everything)
        answer = self.ask("read", file=f"/proc/{self.agent.pid}/environ")
        self.assertEqual(answer.status, 403, answer)
        self.assertEqual(self.ask("read", file="/proc/self/environ").status, 403)


class Files(UserTest):
    def test_what_is_made_belongs_to_the_user(self):
        self.ok("write", file="deep/er/a", content="x")
        self.ok("write", file="b", content="x", append=True)
        self.assertEqual(self.upload([("file", "c", b"x"), ("path", None, b"c")]).status, 200)
        self.assertEqual(self.upload([("path", None, b"new/d"), ("file", "d", b"x")]).status, 200)
        for name in ("deep", "deep/er", "deep/er/a", "b", "c", "new", "new/d"):
            self.assertEqual(self.owner(self.work / name), (UID, GID), name)
        self.ok("write", file="~/e", content="x")
        self.assertEqual(self.owner(self.home / "e"), (UID, GID))

    def directories(self, *paths):
        return self.post("/v1/agent/directories", {"sudo": True, "paths": [str(p) for p in paths]})

    def test_directories_for_the_user(self):
        """Where only root can make them; what is there already of somebody else, or is a link, stays as it is."""
        top = self.root / "mnt"
        (top / "rooted").mkdir(parents=True)
        (top / "other").mkdir()
        os.chown(top / "other", 4250, 4250)
        (top / "link").symlink_to(self.root)
        self.assertEqual(self.directories(top / "a" / "b", top / "a", top / "rooted", top / "other").status, 200)
        for name, owner in (("a/b", (UID, GID)), ("a", (UID, GID)), ("rooted", (UID, GID)), ("other", (4250, 4250))):
            self.assertEqual(self.owner(top / name), owner, name)
        before = self.owner(self.root)
        self.assertEqual(self.directories(top / "link", top / "link" / "x", top / "c").status, 400)
        self.assertEqual((self.owner(self.root), (self.root / "x").exists()), (before, False))
        self.assertEqual(self.owner(top / "c"), (UID, GID))  # made all the same
        self.assertEqual(self.post("/v1/agent/directories", {"paths": [str(top / "d")]}).status, 403)  # the user may not
        for paths in ([], "x", ["x"], ["/a/../b"], ["/./a"], ["//a"], ["/a/"], [7], ["/x"] * 33):
            answer = self.post("/v1/agent/directories", {"sudo": True, "paths": paths})
            self.assertEqual(answer.status, 422, paths)

    def test_relative_paths_begin_in_the_workspace(self):
        (self.work / "f").write_text("here")
        self.assertEqual(self.ok("read", file="f"), {"content": "here", "file": f"{self.work}/f"})
        self.assertEqual(self.download("f").body, b"here")
        self.assertEqual(self.ok("list", path=".")["total_count"], 1)

    def test_a_users_limits(self):
        secret = self.secret()
        self.fails(403, "permission_denied", self.ask("read", file=secret))
        self.fails(403, "permission_denied", self.ask("write", file=secret, content="x"))
        self.fails(403, "permission_denied", self.ask("write", file=secret, content="x", append=True))
        self.fails(403, "permission_denied", self.ask("replace", file=secret, old_str="n", new_str="m"))
        self.fails(403, "permission_denied", self.ask("search", file=secret, regex="n"))
        self.fails(403, "permission_denied", self.ask("write", file=self.root / "new", content="x"))
        self.fails(403, "permission_denied", self.download(secret))
        answer = self.upload([("path", None, str(secret).encode()), ("file", "s", b"x")])
        self.fails(403, "permission_denied", answer)
        self.assertEqual(self.ok("grep", path=self.root, pattern="users")["matches"], [])
        self.assertEqual(secret.read_text(), "not for users\n")
        closed = self.root / "closed"
        closed.mkdir(mode=0o700)
        self.fails(403, "permission_denied", self.ask("list", path=closed))

    def test_sudo_is_root(self):
        secret = self.secret()
        self.assertEqual(self.ok("read", file=secret, sudo=True)["content"], "not for users\n")
        self.assertEqual(self.ok("grep", path=self.root, pattern="users", sudo=True)["match_count"], 1)
        self.ok("replace", file=secret, old_str="not ", new_str="", sudo=True)
        self.assertEqual(secret.read_text(), "for users\n")
        self.assertEqual((self.owner(secret), stat.S_IMODE(secret.stat().st_mode)), ((0, 0), 0o600))
        self.ok("write", file=self.root / "made", content="x", sudo=True)
        self.assertEqual(self.owner(self.root / "made"), (0, 0))
        self.fails(403, "permission_denied", self.ask("read", file=secret, sudo=False))
        self.assertEqual(self.ask("read", file=secret, sudo="yes").status, 422)

    def test_sudo_keeps_the_owner(self):
        self.ok("write", file="mine", content="1")
        self.ok("write", file="mine", content="2", sudo=True)
        self.assertEqual(self.owner(self.work / "mine"), (UID, GID))

    def test_a_file_of_another_stays_its_owners(self):
        path = self.work / "shared"
        path.write_text("1")
        path.chmod(0o666)
        self.ok("write", file=path, content="two")
        self.assertEqual((self.owner(path), path.read_text()), ((0, 0), "two"))
        self.assertEqual(os.listdir(self.work), ["shared"])

    def test_a_file_is_not_replaced_around_its_own_rights(self):
        for owner, mode in (((0, 0), 0o644), ((UID, GID), 0o444)):
            path = self.work / f"kept-{mode:o}"
            path.write_text("kept")
            os.chown(path, *owner)
            path.chmod(mode)
            self.fails(403, "permission_denied", self.ask("write", file=path, content="x"))
            answer = self.upload([("path", None, str(path).encode()), ("file", "f", b"x")])
            self.fails(403, "permission_denied", answer)
            self.assertEqual(path.read_text(), "kept")

    def test_groups_count(self):
        path = self.secret("for-group", 0o640)
        os.chown(path, 0, EXTRA_GID)
        self.assertEqual(self.ok("read", file=path)["content"], "not for users\n")
        os.chown(path, 0, 4445)
        self.fails(403, "permission_denied", self.ask("read", file=path))

    def test_threads_do_not_stay_who_they_were(self):
        secret = self.secret()
        for _ in range(24):
            self.ok("read", file=secret, sudo=True)
            self.assertEqual(self.ask("read", file=secret).status, 403)
        status = [pathlib.Path(p, "status").read_text()
                  for p in pathlib.Path(f"/proc/{self.agent.pid}/task").iterdir()]
        for text in status:
            self.assertIn("Uid:\t0\t0\t0\t0\n", text)
            self.assertIn("Gid:\t0\t0\t0\t0\n", text)


class Start(unittest.TestCase):
    def refused(self, *options, program=BIN / "sandpool-agent", **kw):
        result = subprocess.run([str(program), "--port", "0", *options],
                                capture_output=True, text=True, timeout=60, **kw)
        self.assertNotEqual(result.returncode, 0)
        self.assertEqual(result.stdout, "")
        return result.stderr

    def test_refusals(self):
        self.assertIn("no user 'no-such-user'", self.refused("--user", "no-such-user"))
        for options in (("--channel-fd", "2"), ("--workdir", "relative"), ("--user",)):
            self.assertIn("usage:" if len(options) == 2 else "user", self.refused(*options))

    @unittest.skipUnless(os.geteuid() == 0, "needs root")
    def test_other_than_root_is_only_itself(self):
        with tempfile.TemporaryDirectory(prefix="sandpool-agent-") as top:
            os.chmod(top, 0o755)  # the build may lie where only root can look
            text = self.refused("--user", "root", program=shutil.copy(BIN / "sandpool-agent", top),
                                user=65534, group=65534, extra_groups=[])
        self.assertIn("not root", text)

    def test_detached_streams(self):
        agent = subprocess.Popen([str(BIN / "sandpool-agent"), "--port", "0", "--detach-stdio"],
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            text = os.read(agent.stdout.fileno(), 4096)
            self.assertRegex(text, rb"^sandpool-agent: ready on 127.0.0.1:\d+\n$")
            for stream in (agent.stdout, agent.stderr):  # nobody holds the other ends any more
                self.assertEqual(select.select([stream], [], [], 20)[0], [stream])
                self.assertEqual(os.read(stream.fileno(), 4096), b"")
            if os.geteuid() == 0:
                links = {os.readlink(f"/proc/{agent.pid}/fd/{fd}") for fd in range(3)}
                self.assertEqual(links, {"/dev/null"})
            self.assertIsNone(agent.poll())
        finally:
            agent.terminate()
            self.assertEqual(agent.wait(60), 0)
            agent.stdout.close()
            agent.stderr.close()


@unittest.skipUnless(os.geteuid() == 0, "needs root")
class NotRoot(AgentTest):
    """The agent itself is an ordinary user."""

    def prepare_agent(self):
        os.chmod(self.dir.name, 0o755)
        for path in (self.home, self.spill):
            os.chown(path, 65534, 65534)
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)

    def agent_argv(self, argv):
        return ["/proc/self/fd/%d" % self.agent_fds()[0], *argv[1:]]

    def agent_fds(self):
        if not hasattr(self, "program"):
            self.program = os.open(BIN / "sandpool-agent", os.O_RDONLY)
            self.addCleanup(os.close, self.program)
        return (self.program,)

    def test_only_its_own_name(self):
        self.assertEqual(self.wait(self.start(command="id -u", user="nobody"))["exit_code"], 0)
        for name in ("root", "user"):
            answer = self.post("/v1/agent/jobs", {"command": "id", "user": name})
            self.assertEqual((answer.status, answer.json["error"]["code"]), (403, "forbidden"))
        self.assertEqual(self.bash("id -u")["stdout"], "65534\n")

    def test_its_memory_is_closed_to_its_own_user(self):
        pid = self.agent.pid
        for command in (f"cat /proc/{pid}/environ", f"ls /proc/{pid}/fd/", f"cat /proc/{pid}/maps",
                        f"readlink /proc/{pid}/exe", f"exec 9</proc/{pid}/mem"):
            self.assertNotEqual(self.bash(command)["exit_code"], 0, command)

    def test_its_commands_die_first(self):
        own = int(pathlib.Path(f"/proc/{self.agent.pid}/oom_score_adj").read_text())
        self.assertEqual(int(self.bash("cat /proc/self/oom_score_adj")["stdout"]), min(1000, own + 500))


if __name__ == "__main__":
    main()
