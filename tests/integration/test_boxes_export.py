"""Snapshots as files: what is in a box comes back as it was, on other layers, for another owner; nothing of a caller that goes
away, a daemon that dies or a file that is not good stays."""

import contextlib
import io
import json
import subprocess
import tarfile
import unittest

from bundle_case import BundleCase, unpack
from fixtures import Client, UnixConnection, main, wait_until
from hostile import as_nobody
from test_boxes_flatten import FlattenCase
from test_crash import fault_names

class Exported(BundleCase, FlattenCase):
    def test_there_and_back(self):
        """A chain of layers with everything that files can be."""
        box, made = self.chain(3)
        box.sh(["sh", "-c", "export SECRET=x; echo $SECRET > /workspace/last; ln -s /etc/passwd /workspace/to; "
                            "truncate -s 5T /workspace/vast; printf tail >> /workspace/vast"])
        shown = self.shown(box)
        snapshot = self.take(box, name="there", metadata={"a": {"b": [1, "ü"]}})
        data = self.file_of(snapshot)
        back = self.imported(data)
        self.assertEqual((back["name"], back["profile"], back["metadata"], back["layers"], back["parent"]),
                         ("there", "default", {"a": {"b": [1, "ü"]}}, 1, None))
        self.assertNotEqual(back["snapshot_id"], snapshot["snapshot_id"])
        for gone in (snapshot, *(m[0] for m in made)):
            self.delete(gone)
        restored = self.restored(back, "back")
        self.assertSame(self.shown(restored), shown, "the same")
        self.assertEqual(restored.sh(["stat", "-c", "%s", "/workspace/vast"]).strip(), str(5 * 2**40 + 4))
        again = self.imported(self.file_of(back), "?name=again")
        self.assertEqual(again["name"], "again")
        self.assertSame(self.shown(self.restored(again, "again")), shown, "twice")

    def test_programs_that_are_not_ours_read_it(self):
        box = self.acquire("tools")
        box.sh(["sh", "-c", "echo text > /workspace/file; rm /etc/debian_version"], user="root")
        head, archive = unpack(self.file_of(self.take(box)))
        self.assertEqual((head["format"], head["version"], head["snapshot"]["backend"]), ("sandpool-snapshot", 1, "oci"))
        names = {}
        with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
            for member in tar:
                names[member.name] = member
            self.assertEqual(tar.extractfile("files/workspace/file").read(), b"text\n")
        self.assertEqual(list(names)[-1], "digest")
        self.assertEqual(names["files/etc/debian_version"].pax_headers, {"SANDPOOL.whiteout": "1"})
        listed = subprocess.run(["tar", "-t", "--warning=no-unknown-keyword"], input=archive, stdout=subprocess.PIPE,
                                check=True, timeout=60).stdout
        self.assertIn(b"files/workspace/file\n", listed)

    def test_no_secrets(self):
        """What the lease was given stays out, and who has it."""
        answer = self.pool.acquire("secret", envs={"KEY": "hunter2"}, user_id="alice")
        self.assertEqual(answer.status, 200, answer)
        box = answer.json
        snapshot = self.pool.post(f"/v1/sandboxes/{box['sandbox_id']}/snapshots", {}).json
        self.assertEqual(snapshot["env_count"], 1)
        head, archive = unpack(self.file_of(snapshot))
        for text in ("hunter2", box["token"], box["sandbox_id"], "alice"):
            self.assertNotIn(text, json.dumps(head))
            self.assertNotIn(text.encode(), archive)
        self.assertEqual(self.imported(self.file_of(snapshot))["env_count"], 0)
        self.pool.delete(f"/v1/sandboxes/{box['sandbox_id']}")

    def test_whose_it_is(self):
        snapshot = self.take(self.acquire("own"))
        data = self.file_of(snapshot)

        def work():
            other = Client(self.server.socket)
            return [other.get(f"/v1/snapshots/{snapshot['snapshot_id']}/export").status, self.send(data), self.listed(other)]
        status, (code, theirs), listed = as_nobody(work)
        self.assertEqual((status, code, listed), (404, 200, [theirs["snapshot_id"]]), theirs)
        self.assertEqual(self.pool.get(f"/v1/snapshots/{theirs['snapshot_id']}").status, 200, "of an operator")

    def test_command_line(self):
        box = self.acquire("line")
        box.sh(["sh", "-c", "echo line > /workspace/line"])
        snapshot = self.take(box, name="line")["snapshot_id"]
        path = self.home / "line.tar.zst"
        done = self.cli("snapshot", "export", snapshot, str(path))
        self.assertEqual((done.returncode, done.stdout), (0, b""), done)
        self.assertEqual(path.stat().st_mode & 0o777, 0o600)
        piped = self.cli("snapshot", "export", snapshot, "-")
        self.assertEqual((piped.returncode, len(piped.stdout)), (0, path.stat().st_size), piped.stderr)
        for source, given in ((str(path), None), ("-", piped.stdout)):
            done = self.cli("snapshot", "import", source, "--name", "other", input=given)
            self.assertEqual(done.returncode, 0, done)
            back = {"snapshot_id": done.stdout.decode().strip()}
            self.assertEqual(self.pool.get(f"/v1/snapshots/{back['snapshot_id']}").json["name"], "other")
        self.assertEqual(self.restored(back, "line-back").sh(["cat", "/workspace/line"]), "line\n")
        refused = self.cli("snapshot", "export", snapshot, str(path))
        self.assertIn(b"File exists", refused.stderr)
        refused = self.cli("snapshot", "export", "0" * 16, str(self.home / "none"))
        self.assertIn(b"no such snapshot", refused.stderr)
        self.assertFalse((self.home / "none").exists())
        refused = self.cli("snapshot", "import", "/dev/null")
        self.assertIn(b"snapshot that was exported", refused.stderr)


class Cut(BundleCase):
    """One that ends in the middle leaves nothing: no snapshot, no file, no process, no device."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        case = cls()
        box = case.acquire("cut")
        box.sh(["sh", "-c", "head -c 40000000 /dev/urandom > /workspace/large"])
        cls.data = case.file_of(case.take(box))
        case.setUp()
        case.tearDown()

    def setUp(self):
        super().setUp()
        self.snapshot = self.imported(self.data)

    def helpers(self):
        """Processes that pack or unpack."""
        listed = subprocess.run(["ps", "-eo", "args"], stdout=subprocess.PIPE, check=True, timeout=30).stdout.decode()
        return [line for line in listed.splitlines() if str(self.home) in line and line.endswith("pack")]

    def stands_still(self):
        """Whether the process that packs waits in the kernel until its socket has room."""
        for pid in self.left.running():
            with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as line, \
                    open(f"/proc/{pid}/syscall", encoding="ascii") as call:
                if line.read().endswith(b"\0pack\0") and call.read().startswith("1 0x3 "):  # write(3, ...)
                    return True
        return False

    def assertNothing(self, what):
        only = [self.snapshot["snapshot_id"]]
        wait_until(lambda: (self.helpers(), self.on_disk(), self.listed()) == ([], only, only),
                   lambda: f"{what}: {self.helpers()} {self.on_disk()} {self.listed()}")

    def test_caller_goes_while_it_sends(self):
        for part in (4, 100, 20_000_000, len(self.data)):
            connection = UnixConnection(self.server.socket, 60)
            connection.putrequest("POST", "/v1/snapshots/import")
            connection.putheader("Content-Length", str(len(self.data) + 1))
            connection.endheaders()
            connection.send(self.data[:part])
            if part > 100:
                wait_until(self.helpers, "it is unpacked")
            connection.close()
            self.assertNothing(part)

    def test_caller_goes_while_it_receives(self):
        connection = UnixConnection(self.server.socket, 60)
        connection.request("GET", f"/v1/snapshots/{self.snapshot['snapshot_id']}/export")
        self.assertEqual(len(connection.getresponse().read(1000)), 1000)
        self.assertEqual(len(self.helpers()), 1, "it waits for its reader")
        connection.close()
        self.assertNothing("receiver")

    def test_a_slow_reader_costs_no_memory(self):
        """What it does not take is not made."""
        def memory():
            with open(f"/proc/{self.server.process.pid}/status", encoding="ascii") as f:
                return int(next(line for line in f if line.startswith("VmRSS")).split()[1])
        before = memory()
        connection = UnixConnection(self.server.socket, 60)
        connection.request("GET", f"/v1/snapshots/{self.snapshot['snapshot_id']}/export")
        response = connection.getresponse()
        part = response.read(1_000_000)
        wait_until(self.stands_still, "what packs it waits for us")
        self.assertLess(memory() - before, 4096, "KiB")
        self.assertAlmostEqual(len(part) + len(response.read()), len(self.data), delta=4096)  # as it is compressed in other pieces
        connection.close()

    def test_deleted_while_it_is_sent(self):
        copy = self.imported(self.data)
        connection = UnixConnection(self.server.socket, 60)
        connection.request("GET", f"/v1/snapshots/{copy['snapshot_id']}/export")
        response = connection.getresponse()
        part = response.read(1000)
        self.assertEqual(self.delete(copy).status, 200)
        data = part + response.read()
        connection.close()
        self.assertNothing("deleted")
        self.delete(self.imported(data))

    def test_too_many_at_once(self):
        held = []
        for _ in range(2):
            held.append(UnixConnection(self.server.socket, 60))
            held[-1].request("GET", f"/v1/snapshots/{self.snapshot['snapshot_id']}/export")
            held[-1].getresponse().read(10)
        status, answer = self.send(self.data)
        self.assertEqual((status, answer["error"]["code"]), (429, "too_many_calls"), answer)
        for connection in held:
            connection.close()
        self.assertNothing("held")

    def test_stop(self):
        """A daemon that is stopped in the middle of both."""
        reader, writer = UnixConnection(self.server.socket, 60), UnixConnection(self.server.socket, 60)
        reader.request("GET", f"/v1/snapshots/{self.snapshot['snapshot_id']}/export")
        reader.getresponse().read(10)
        writer.putrequest("POST", "/v1/snapshots/import")
        writer.putheader("Content-Length", str(len(self.data)))
        writer.endheaders()
        writer.send(self.data[:10_000_000])
        wait_until(lambda: len(self.helpers()) == 2, self.helpers)
        self.restart()
        reader.close()
        writer.close()
        self.assertNothing("stop")


@unittest.skipUnless(fault_names(), "this build has no crash points")
class Killed(BundleCase):
    def test_at_every_named_point(self):
        """A daemon that dies leaves the snapshot or nothing."""
        box = self.acquire("killed")
        box.sh(["sh", "-c", "echo kept > /workspace/kept"])
        first = self.take(box)
        data = self.file_of(first)
        for point in ("snapshot.unpacked", "snapshot.recorded", "snapshot.made"):
            with self.subTest(point=point):
                self.server.stop()
                self.server.start(env={"SANDPOOL_CRASH_AT": f"{point}:1"})
                with self.assertRaises((OSError, Exception)):
                    self.send(data)
                wait_until(lambda: not self.server.process.is_running(), "crash")
                self.server.start()
                type(self).pool = self.server.client()
                found = [s for s in self.listed() if s != first["snapshot_id"]]
                self.assertEqual(len(found), 1 if point == "snapshot.made" else 0, found)
                self.assertEqual(self.on_disk(), sorted([first["snapshot_id"], *found]))
                for snapshot in found:
                    restored = self.restored({"snapshot_id": snapshot}, f"from-{point}")
                    self.assertEqual(restored.sh(["cat", "/workspace/kept"]), "kept\n")

    def test_kill_in_the_middle(self):
        box = self.acquire("middle")
        box.sh(["sh", "-c", "head -c 20000000 /dev/urandom > /workspace/large"])
        first = self.take(box)
        data = self.file_of(first)
        for part in (len(data) // 3, len(data) - 1):
            connection = UnixConnection(self.server.socket, 60)
            connection.putrequest("POST", "/v1/snapshots/import")
            connection.putheader("Content-Length", str(len(data)))
            connection.endheaders()
            connection.send(data[:part])
            wait_until(lambda: any(n.startswith("new-") for n in self.on_disk()), self.on_disk)
            self.restart(kill=True)
            connection.close()
            self.assertEqual(self.listed(), [first["snapshot_id"]])
            wait_until(lambda: self.on_disk() == [first["snapshot_id"]], self.on_disk)


if __name__ == "__main__":
    main()
