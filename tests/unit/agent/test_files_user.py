"""/v1/agent/files as the user of a box, and as its root."""

import io
import os
import tarfile

from agent_client import main
from files_client import FilesTest
from user_client import GID, UID, UserTest


class FilesUserTest(UserTest, FilesTest):
    def test_owners(self):
        self.good("PUT", body=b"x", path="new/f")
        self.assertEqual(self.owner(self.work / "new/f"), (UID, GID))
        self.assertEqual(self.owner(self.work / "new"), (UID, GID))
        answer = self.ask_files("GET", path="new/f")
        self.assertEqual(answer.headers["X-Sandpool-Owner"], f"{UID}:{GID}")
        self.good("PUT", body=b"x", path="root", user="root")
        self.assertEqual(self.owner(self.work / "root"), (0, 0))
        self.good("PUT", body=b"x", path="given", user="root", owner="4250:4250", mode="0640")
        self.assertEqual(self.owner(self.work / "given"), (4250, 4250))
        self.assertEqual((self.work / "given").stat().st_mode & 0o7777, 0o640)
        self.bad(403, "permission_denied", "PUT", body=b"x", path="no", owner="0:0")
        self.assertFalse((self.work / "no").exists())
        self.good("PUT", body=b"y", path="given", user="root")
        self.assertEqual(self.owner(self.work / "given"), (4250, 4250))
        self.change("mkdir", path="rooted", user="root")
        self.assertEqual(self.owner(self.work / "rooted"), (0, 0))

    def test_rights(self):
        secret = self.secret()
        self.assertEqual(self.bad(403, "permission_denied", "GET", path=secret)["path"], str(secret))
        self.assertEqual(self.ask_files("GET", path=secret, user="root").body, b"not for users\n")
        self.bad(403, "permission_denied", "PUT", body=b"x", path=secret)
        self.bad(403, "permission_denied", "PUT", body=b"x", path=self.root / "new")
        self.bad(403, "permission_denied", "DELETE", path=secret)
        self.change_fails(403, "permission_denied", "mkdir", path=self.root / "d")
        self.change_fails(403, "permission_denied", "move", **{"from": secret, "to": "x"})
        self.change_fails(403, "permission_denied", "copy", **{"from": secret, "to": "x"})
        self.bad(422, "invalid_field", "GET", path=secret, user="other")
        hidden = self.root / "hidden"
        hidden.mkdir(mode=0o700)
        (hidden / "f").touch()
        self.bad(403, "permission_denied", "GET", "/list", path=hidden)
        self.bad(403, "permission_denied", "GET", "/watch", path=hidden)
        answer = self.good("GET", "/list", path=self.root, recursive="1")
        self.assertEqual((len(answer["entries"]), answer["unreadable"]), (2, 1))
        error = self.bad(403, "permission_denied", "GET", "/tar", path=self.root)
        self.assertIn(error["path"], (str(secret), str(hidden)))
        self.assertEqual(len(self.good("GET", "/list", path=hidden, user="root")["entries"]), 1)
        self.assertTrue(secret.exists())

    def test_tar(self):
        data = io.BytesIO()
        with tarfile.open(fileobj=data, mode="w") as archive:
            for name, kind in (("d", tarfile.DIRTYPE), ("d/f", tarfile.REGTYPE), ("d/l", tarfile.SYMTYPE)):
                info = tarfile.TarInfo(name)
                info.type, info.uid, info.gid, info.mode, info.linkname = kind, 4250, 4250, 0o750, "f"
                archive.addfile(info)
        for user, owner in (("boxer", (UID, GID)), ("root", (4250, 4250))):
            self.good("PUT", "/tar", body=data.getvalue(), path=f"to-{user}", user=user)
            for name in ("d", "d/f", "d/l"):
                self.assertEqual(self.owner(self.work / f"to-{user}" / name), owner, (user, name))
        self.assertEqual(self.owner(self.work / "to-root"), (0, 0))

    def test_root_is_not_led_away(self):
        """A tree of the user with links to what only root may touch."""
        secret = self.secret()
        tree = self.work / "tree"
        tree.mkdir()
        os.chown(tree, UID, GID)
        (tree / "link").symlink_to(self.root)
        (tree / "file").symlink_to(secret)
        self.good("DELETE", path=tree, recursive="1", user="root")
        self.assertTrue(secret.exists())
        self.assertFalse(tree.exists())
        (self.work / "to").mkdir()
        (self.work / "to/secret").symlink_to(secret)
        (self.work / "from").mkdir()
        (self.work / "from/secret").write_text("new")
        self.change("copy", **{"from": "from", "to": "to"}, user="root")
        self.assertEqual(secret.read_text(), "not for users\n")
        self.assertEqual((self.work / "to/secret").read_text(), "new")


if __name__ == "__main__":
    main()
