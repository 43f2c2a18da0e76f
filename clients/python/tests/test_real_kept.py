"""The Python client with real boxes that are kept: snapshots and boxes made from them, forks, boxes that stand still."""

import asyncio
import dataclasses
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "clients" / "python"), str(ROOT / "tests" / "lib"), str(ROOT / "tests" / "integration")]

from host import is_frozen  # noqa: E402
from oci_case import HAS_CGROUPS  # noqa: E402
from test_real_boxes import RealCase  # noqa: E402
from testlib import main, wait_until  # noqa: E402

import sandpool  # noqa: E402


class Kept(RealCase):
    def test_one_and_what_is_made_of_it(self):
        with self.box("source") as box:
            box.files.write("a.txt", "before")
            snapshot = box.snapshot("one", metadata={"k": 1})
            box.files.write("a.txt", "after")
            self.addCleanup(self.client.delete_snapshot, snapshot.snapshot_id)
            self.assertEqual((snapshot.name, snapshot.parent, snapshot.thread_id), ("one", None, "source"))
            self.assertEqual([s.snapshot_id for s in self.client.snapshots()], [snapshot.snapshot_id])
            self.assertEqual(self.client.snapshot(snapshot.snapshot_id), snapshot)
            with self.client.restore(snapshot.snapshot_id, "copy") as copy:
                self.assertEqual((copy.sandbox.source, copy.files.read_text("a.txt")), ("restored", "before"))
                self.assertEqual(copy.sandbox.metadata, {"k": 1})
        with self.assertRaises(sandpool.NotFound):
            self.client.restore("0" * 16)
        self.there_and_back(snapshot)
        asyncio.run(self.same_for_asyncio(snapshot))

    def there_and_back(self, snapshot):
        path = self.home / "one.tar.zst"
        self.assertEqual(self.client.export_snapshot(snapshot.snapshot_id, path), path.stat().st_size)
        back = self.client.import_snapshot(path)
        self.assertEqual((back.name, back.metadata, back.layers), ("one", {"k": 1}, 1))
        with self.client.restore(back.snapshot_id, "back") as copy:
            self.assertEqual(copy.files.read_text("a.txt"), "before")
        self.client.delete_snapshot(back.snapshot_id)
        path.write_bytes(path.read_bytes()[:-1])
        with self.assertRaises(sandpool.SandpoolError) as caught:
            self.client.import_snapshot(path)
        self.assertEqual(caught.exception.code, "invalid_field")
        with self.assertRaises(sandpool.NotFound):
            self.client.export_snapshot("0" * 16, self.home / "none")
        with self.assertRaises(sandpool.SandpoolError) as caught:
            self.client.export_snapshot(snapshot.snapshot_id, self.home / "none", format="zip")
        self.assertIn("'sandpool' or 'oci'", str(caught.exception))
        self.assertFalse((self.home / "none").exists())

    def test_forks(self):
        with self.box("source") as box:
            box.files.write("a.txt", "here")
            copies = box.fork(2)
            self.assertEqual([copy.files.read_text("a.txt") for copy in copies], ["here"] * 2)
            for copy in copies:
                copy.destroy()
            with self.assertRaises(sandpool.SandpoolError) as caught:
                box.fork(threads=["fresh", "source"])
            self.assertEqual(caught.exception.code, "spec_conflict")
            self.assertEqual(list(self.client.list(thread_id="fresh", state="leased")), [])
        asyncio.run(self.forks_for_asyncio())

    async def forks_for_asyncio(self):
        async with sandpool.AsyncClient(str(self.server.socket)) as client:
            async with await client.acquire("source") as box:
                copy, = await box.fork(threads=["named"], envs={"A": "b"})
                async with copy:
                    self.assertEqual((await copy.run("cat a.txt; echo $A")).stdout, "hereb\n")
                    self.assertEqual(copy.sandbox.thread_id, "named")
                await copy.destroy()

    async def same_for_asyncio(self, snapshot):
        async with sandpool.AsyncClient(str(self.server.socket)) as client:
            seen = [s async for s in client.snapshots()]
            self.assertEqual([dataclasses.replace(s, last_used_at=snapshot.last_used_at) for s in seen], [snapshot])
            async with await client.restore(snapshot.snapshot_id) as box:
                self.assertEqual((await box.run("cat a.txt")).stdout, "before")
                second = await box.snapshot()
            self.assertEqual(second.parent, snapshot.snapshot_id)
            path = self.home / "second.tar.zst"
            self.assertEqual(await client.export_snapshot(second.snapshot_id, path), path.stat().st_size)
            back = await client.import_snapshot(path, name="back")
            self.assertEqual(((await client.delete_snapshot(back.snapshot_id)).name, back.layers), ("back", 1))
            gone = await client.delete_snapshot(second.snapshot_id)
            self.assertEqual(dataclasses.replace(gone, last_used_at=second.last_used_at), second)

    # --- those that stand still ---

    def assertPaused(self, box, is_paused):
        self.assertEqual(self.client.get(box.sandbox_id).paused, is_paused)
        self.assertEqual(is_frozen(self.instance, box.sandbox.box_id), is_paused)

    def test_over_a_take_over(self):
        if not HAS_CGROUPS:
            self.skipTest("no control groups with this runtime")
        with self.box("still") as box:
            box.start("while :; do date +%s%N > now; sleep 0.01; done")
            wait_until(lambda: box.files.exists("now"), "it works")
            self.assertTrue(box.pause().paused)
            self.assertPaused(box, True)
            self.server.takeover()
            self.assertPaused(box, True)
            self.assertTrue(box.pause().paused)  # once more, for the new daemon
            self.assertFalse(box.resume().paused)
            self.assertPaused(box, False)
            before = box.files.read("now")
            wait_until(lambda: box.files.read("now") != before, "it goes on")
            box.pause()
            self.assertEqual(box.run("echo needed").stdout, "needed\n")
            self.assertPaused(box, False)
            box.pause()
            copy, = box.fork(1)
            self.assertTrue(copy.files.exists("now"))
            copy.destroy()
            asyncio.run(self.for_asyncio(box))
        with self.assertRaises(sandpool.NotFound):
            self.client.open("nobody")

    async def for_asyncio(self, box):
        async with sandpool.AsyncClient(str(self.server.socket)) as client:
            same = await client.open(box.sandbox_id)
            self.assertTrue((await same.pause()).paused)
            self.assertPaused(box, True)
            self.assertFalse((await same.resume()).paused)
            self.assertEqual((await same.run("echo $0")).outcome, "exited")


if __name__ == "__main__":
    main()
