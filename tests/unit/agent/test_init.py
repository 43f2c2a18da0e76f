"""The agent as it is in a box: process 1, root of a user namespace with few capabilities."""

import ctypes
import os
import pathlib
import shutil
import signal
import unittest

from agent_client import is_alive, main, wait_until
from user_client import GID, UID, UserTest

CLONE_NEWUSER = 0x10000000
BASE, COUNT = 3_000_000, 65536
CAPABILITIES = "chown dac_override fowner fsetid kill setgid setuid setfcap net_bind_service sys_chroot"


def enter_user_namespace():
    """This process becomes root of a new one with a range of ids."""
    ready, go = os.pipe()
    parent = os.getpid()
    writer = os.fork()
    if writer == 0:
        code = 1
        try:
            os.read(ready, 1)
            for name in ("uid_map", "gid_map"):
                pathlib.Path(f"/proc/{parent}/{name}").write_text(f"0 {BASE} {COUNT}\n")
            code = 0
        finally:
            os._exit(code)
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWUSER) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    os.write(go, b"x")
    if os.waitpid(writer, 0)[1] != 0:
        raise OSError("the ids cannot be mapped")
    os.setgroups([])
    os.setresgid(0, 0, 0)
    os.setresuid(0, 0, 0)


@unittest.skipUnless(shutil.which("setpriv") and shutil.which("unshare"), "needs util-linux")
class Init(UserTest):
    def prepare_agent(self):
        for path in (self.home, self.work):
            os.chown(path, BASE + UID, BASE + GID)
        os.chown(self.spill, BASE, BASE)
        enter_user_namespace()

    def agent_argv(self, argv):
        # The build may lie where only root of the host can look.
        argv = [shutil.copy(argv[0], self.dir.name), *argv[1:]]
        inner = super().agent_argv(argv)
        at = inner.index(argv[0])
        self.program = argv[0]
        bounding = "-all," + ",".join("+" + c for c in CAPABILITIES.split())
        return (["unshare", "--pid", "--fork", "--mount-proc", "--kill-child=TERM"] + inner[:at] +
                ["setpriv", "--no-new-privs", "--bounding-set", bounding, "--inh-caps", "-all"] +
                inner[at:])

    def init_pid(self):
        """As seen from here."""
        path = f"/proc/{self.agent.pid}/task/{self.agent.pid}/children"
        return int(pathlib.Path(path).read_text().split()[0])

    def stop_agent(self):
        init = self.init_pid()
        os.kill(init, signal.SIGTERM)
        self.agent.wait(60)
        self.agent.stdout.close()
        self.assertFalse(is_alive(init))

    def test_what_it_is(self):
        self.assertEqual(self.get("/v1/agent").json["pid"], 1)
        status = pathlib.Path(f"/proc/{self.init_pid()}/status").read_text()
        self.assertIn(f"Uid:\t{BASE}\t{BASE}\t{BASE}\t{BASE}\n", status)

    def test_commands_and_files_are_the_users(self):
        self.assertEqual(self.run_as("id -u; id -g; pwd")[1], f"{UID}\n{GID}\n{self.work}\n")
        self.assertEqual(self.run_as("id -u", user="root")[1], "0\n")
        self.ok("write", file="a/b", content="x")
        self.assertEqual(self.owner(self.work / "a/b"), (BASE + UID, BASE + GID))
        self.assertEqual(self.upload([("path", None, b"c"), ("file", "c", b"x")]).status, 200)
        self.assertEqual(self.owner(self.work / "c"), (BASE + UID, BASE + GID))
        secret = self.work / "secret"
        secret.write_text("x")
        os.chown(secret, BASE, BASE)
        secret.chmod(0o600)
        self.fails(403, "permission_denied", self.ask("read", file=secret))
        self.assertEqual(self.ok("read", file=secret, sudo=True)["content"], "x")

    def test_out_of_reach(self):
        for command in ("head -c 1 /proc/1/environ", "head -c 1 /proc/1/mem", "ls /proc/1/fd/",
                        "kill -TERM 1", "kill -KILL 1"):
            self.assertNotEqual(self.run_as(command)[0], 0, command)
        # as root of the box: signals of its own namespace do not reach an init that has no
        # handler for them, and its memory is closed to those without the right to trace
        for command in ("head -c 1 /proc/1/mem", "readlink /proc/1/fd/0",
                        "head -c 1 /proc/1/environ"):
            self.assertNotEqual(self.run_as(command, user="root")[0], 0, command)
        self.run_as("kill -KILL 1; kill -STOP 1", user="root")
        self.assertEqual(self.get("/v1/agent").json["pid"], 1)

    def test_terminal_and_shell(self):
        answer = self.post("/v1/shell/exec", {"command": "test -O $(tty) && X=1; echo $X $(id -u)"})
        self.assertEqual(answer.data["output"], f"1 {UID}\n")

    def test_dies_with_everything(self):
        stray = self.start(command="setsid sleep 300 & setsid sleep 301 & wait")
        wait_until(lambda: self.run_as("pgrep -c sleep")[1] == "2\n", "both run")
        self.assertEqual(self.process(stray).json["outcome"], "running")


if __name__ == "__main__":
    main()
