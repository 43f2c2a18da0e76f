"""An agent that is root and serves a user of a box: the box is a mount namespace with its own
/etc/passwd and /etc/group, a home and a workspace."""

import os
import pathlib
import unittest

from file_client import FileTest

UID, GID, EXTRA_GID = 4242, 4343, 4444
PASSWD = f"""root:x:0:0:root:/root:/bin/bash
boxer:x:{UID}:{GID}:a user:HOME:/bin/bash
other:x:4250:4250::/nonexistent:/bin/sh
"""
GROUP = f"root:x:0:\nboxer:x:{GID}:\nextra:x:{EXTRA_GID}:other,boxer\nnone:x:4445:other\n"
SCRIPT = 'mount --bind "$0/passwd" /etc/passwd && mount --bind "$0/group" /etc/group && exec "$@"'


@unittest.skipUnless(os.geteuid() == 0, "needs root")
class UserTest(FileTest):
    """self.root is a directory that the user cannot write; self.work belongs to the user."""
    options = ()

    def agent_argv(self, argv):
        top = pathlib.Path(self.dir.name)
        top.chmod(0o755)
        os.chown(self.home, UID, GID)
        self.work = top / "work"
        self.work.mkdir()
        os.chown(self.work, UID, GID)
        (top / "passwd").write_text(PASSWD.replace("HOME", str(self.home)))
        (top / "group").write_text(GROUP)
        return ["unshare", "-m", "--propagation", "private", "sh", "-c", SCRIPT, str(top), *argv,
                "--user", "boxer", "--workdir", str(self.work), *self.options]

    def run_as(self, command, **fields):
        pid = self.start(command=command, **fields)
        ended = self.wait(pid)
        return ended["exit_code"], self.process(pid, "/output").body.decode()

    def owner(self, path):
        st = os.lstat(path)
        return st.st_uid, st.st_gid

    def secret(self, name="secret", mode=0o600):
        path = self.put(name, "not for users\n")
        path.chmod(mode)
        return path
