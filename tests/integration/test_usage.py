"""Metered time: sums, intervals and costs by the API and the command line, and that nothing a daemon goes through changes them."""

import asyncio
import contextlib
import csv
import datetime
import io
import json
import os
import pathlib
import sqlite3
import subprocess
import sys
import time
import urllib.request

from fixtures import BIN, SOURCE, WAIT_S, TestCase, free_port, main, wait_until

sys.path.insert(0, str(SOURCE / "clients/python"))
import sandpool  # noqa: E402

SHIM = os.environ.get("SANDPOOL_TEST_CLOCK_SHIM", "")
PRICED = {"warm": {"min": 1, "max": 2}, "park_timeout_s": 3600, "idle_timeout_s": 0,
          "price": {"currency": "EUR", "per_start": 5, "per_hour": 3600}}
TOKEN = "0123456789abcdef"


class UsageCase(TestCase):
    def usage(self, client, query=""):
        return self.assertOk(client.get(f"/v1/usage{query}"))

    def total(self, client, query="?group_by="):
        rows = self.usage(client, query)["usage"]
        self.assertLessEqual(len(rows), 1, rows)
        return rows[0] if rows else {"leased_ms": 0, "parked_ms": 0, "paused_ms": 0, "cost_micros": 0}

    def intervals(self, client, query=""):
        return self.usage(client, f"?intervals=1{query}")["intervals"]

    def cli(self, daemon, *args, status=0):
        done = subprocess.run([BIN / "sandpool", "--socket", daemon.socket, "usage", *args], capture_output=True, text=True,
                              timeout=60, check=False)
        self.assertEqual(done.returncode, status, done)
        return done.stdout if status == 0 else done.stderr

    def wait_ms(self, client, least, state="leased_ms"):
        wait_until(lambda: self.total(client)[state] >= least, f"{least} ms {state}")


class Sampled(UsageCase):
    """Boxes of the simulator use a hundredth of a processor, 32 MB, two bytes from the network and to the disk in a millisecond."""

    COUNTS = ("cpu_ms", "memory_mb_s", "net_in_bytes", "net_out_bytes", "disk_read_bytes", "disk_write_bytes")

    def sampled(self, **usage):
        daemon = self.daemon(PRICED, usage=usage)
        client = self.client(daemon)
        return daemon, client, self.assertOk(client.acquire("t1", user_id="ana", wait_ms=20000))

    def test_sums_and_the_report(self):
        daemon, client, lease = self.sampled(sample_s=1)
        wait_until(lambda: (self.total(client).get("net_in_bytes") or 0) > 2000, "more than one sample")
        report = self.assertOk(client.delete(f"/v1/sandboxes/{lease['sandbox_id']}"))["report"]["usage"]
        row = self.total(client)
        self.assertEqual({key: row[key] for key in report}, report)
        self.assertLessEqual(row["net_in_bytes"], 2 * row["leased_ms"] + 100)
        self.assertLessEqual(row["cpu_ms"], row["leased_ms"] / 100 + 1)
        self.assertLessEqual(row["memory_mb_s"], 32 * row["leased_ms"] / 1000 + 1)
        self.assertEqual(row["disk_read_bytes"], 0)
        self.assertEqual([sum(r[key] or 0 for r in self.intervals(client)) for key in self.COUNTS[2:]], [row[key] for key in self.COUNTS[2:]])
        read = list(csv.DictReader(io.StringIO(client.get("/v1/usage?group_by=&format=csv").text)))
        self.assertEqual([read[0][key] for key in self.COUNTS], [str(row[key]) for key in self.COUNTS])
        with sandpool.Client(str(daemon.socket)) as pool:
            other = pool.acquire("t2").sandbox.sandbox_id
            self.assertEqual(pool.get(other, stats=True).stats["memory_bytes"], 32 << 20)
            self.assertIsNone(pool.get(other).stats)

    def test_off(self):
        for usage in ({"sample_s": 0}, {"enabled": False}):
            daemon, client, lease = self.sampled(**usage)
            report = self.assertOk(client.delete(f"/v1/sandboxes/{lease['sandbox_id']}"))["report"]["usage"]
            if usage.get("enabled", True):
                self.assertEqual([report[key] for key in self.COUNTS], [None] * 6)
                self.assertEqual([self.total(client)[key] for key in self.COUNTS], [None] * 6)
            else:
                self.assertIsNone(report)
            daemon.stop()
            with contextlib.closing(sqlite3.connect(daemon.state / "sandpool.db")) as db:
                self.assertEqual(db.execute("SELECT count(*) FROM counters").fetchone(), (0,))


class Priced(UsageCase):
    """What is used has a price, too: of the simulated network and disk a byte costs about ten millionths."""

    RATES = {"per_used_cpu_hour": 36, "per_used_gb_hour": 720, "per_used_net_gb": 10000, "per_used_disk_gb": 9000}
    PROFILE = {**PRICED, "ttl_s": 3600, "price": {"currency": "EUR", **RATES}}

    def least_and_most(self, row, rates=None):
        """The cost in millionths: milliseconds and MB seconds are shown rounded down."""
        rates = {**self.RATES, **(rates or {})}
        exact = (rates["per_used_net_gb"] * (row["net_in_bytes"] + row["net_out_bytes"]) +
                 rates["per_used_disk_gb"] * (row["disk_read_bytes"] + row["disk_write_bytes"])) / 1024 ** 3
        used = rates["per_used_cpu_hour"] * row["cpu_ms"] / 3600e3 + rates["per_used_gb_hour"] * row["memory_mb_s"] / 1024 / 3600
        more = rates["per_used_cpu_hour"] / 3600e3 + rates["per_used_gb_hour"] / 1024 / 3600
        return [1e6 * (exact + used) - 0.51, 1e6 * (exact + used + more) + 0.51]

    def check_cost(self, row, rates=None):
        least, most = self.least_and_most(row, rates)
        self.assertGreaterEqual(row["cost_micros"], least, row)
        self.assertLessEqual(row["cost_micros"], most, row)

    def begin(self):
        daemon = self.daemon(self.PROFILE, usage={"sample_s": 1}, budgets={"currency": "EUR", "period": "total", "amount": 1000})
        client = self.client(daemon)
        return daemon, client, self.assertOk(client.acquire("t1", user_id="ana", wait_ms=20000))

    def sample(self, client, more=500):
        """Another sample has come."""
        before = self.total(client).get("net_in_bytes") or 0
        wait_until(lambda: (self.total(client).get("net_in_bytes") or 0) > before + more, "another sample")

    def test_sums_reports_and_budgets(self):
        daemon, client, lease = self.begin()
        self.sample(client)
        self.assertOk(client.release(lease["sandbox_id"]))
        self.sample(client)
        self.assertOk(client.acquire("t1", user_id="ana", wait_ms=20000))
        self.sample(client)
        report = self.assertOk(client.delete(f"/v1/sandboxes/{lease['sandbox_id']}"))["report"]
        row = self.total(client)
        self.check_cost(row)
        self.assertGreater(row["cost_micros"], 9000)
        self.assertEqual((report["cost_micros"], report["cost"]), (row["cost_micros"], row["cost"]))
        rows = self.intervals(client)
        self.assertEqual([r["state"] for r in rows], ["leased", "parked", "leased"])
        for one in rows:
            self.check_cost(one)
        self.assertAlmostEqual(sum(r["cost_micros"] for r in rows), row["cost_micros"], delta=2)
        read = list(csv.DictReader(io.StringIO(self.cli(daemon, "--by", "", "--csv"))))
        self.assertEqual(read[0]["cost_micros"], str(row["cost_micros"]))
        self.assertIn(f"{row['cost']} EUR", self.cli(daemon))
        budget = self.assertOk(client.get("/v1/budgets/ana"))
        self.assertAlmostEqual(budget["spent_micros"], row["cost_micros"], delta=1)  # one is rounded down
        self.assertOk(client.call("PUT", "/v1/budgets/ana", {"amount": budget["spent"]}))
        self.assertCode(client.acquire("t1", user_id="ana", wait_ms=20000), 402, "budget_exceeded")
        self.assertOk(client.acquire("t1", user_id="bea", wait_ms=20000))

    def test_price_changed(self):
        daemon, client, lease = self.begin()
        self.sample(client)
        text = pathlib.Path(daemon.config).read_text()
        pathlib.Path(daemon.config).write_text(text.replace('"per_used_net_gb": 10000', '"per_used_net_gb": 0'))
        self.assertOk(client.post("/v1/pool/reload"))
        wait_until(lambda: len(self.intervals(client)) == 2, "the interval has ended")
        before = min(self.intervals(client), key=lambda r: r["began_at"])
        self.check_cost(before)
        self.sample(client)
        self.assertOk(client.delete(f"/v1/sandboxes/{lease['sandbox_id']}"))
        first, last = sorted(self.intervals(client), key=lambda r: r["began_at"])
        self.assertEqual(first, before)
        self.check_cost(last, {"per_used_net_gb": 0})
        self.assertGreater(last["net_in_bytes"], 500)


class Shown(UsageCase):
    def test_api_and_command_line(self):
        port = free_port()
        daemon = self.daemon(PRICED, tcp={"listen": f"127.0.0.1:{port}", "tokens": {"bob": TOKEN}})
        client = self.client(daemon)
        self.assertEqual(self.usage(client)["usage"], [])
        before = time.monotonic()
        lease = self.assertOk(client.acquire("t1", user_id="ana", wait_ms=20000))
        self.wait_ms(client, 20)
        self.assertOk(client.release(lease["sandbox_id"]))
        self.wait_ms(client, 10, "parked_ms")
        self.assertEqual(self.assertOk(client.acquire("t1", user_id="ana", wait_ms=20000))["source"], "parked")
        other = self.assertOk(client.acquire("t2", user_id="bea", wait_ms=20000))
        self.wait_ms(client, 60)
        for box in (lease, other):
            self.check_report(client, box)
        took_ms = (time.monotonic() - before) * 1000 + 1
        total = self.total(client)
        self.assertEqual(total, self.total(client))  # nothing is open any more
        self.assertLess(total["leased_ms"] + total["parked_ms"], 2 * took_ms)
        # a millionth for each thousandth of a millisecond, and the start of two boxes
        self.assertEqual(total["cost_micros"], 10000000 + 1000 * (total["leased_ms"] + total["parked_ms"]))
        rows = self.intervals(client)
        self.assertEqual([(r["user_id"], r["state"]) for r in rows],
                         [("ana", "leased"), ("ana", "parked"), ("ana", "leased"), ("bea", "leased")])
        for one, next_one in zip(rows[:2], rows[1:3]):
            self.assertEqual(one["ended_at"], next_one["began_at"])
        self.assertEqual(sum(r["wall_ms"] for r in rows), total["leased_ms"] + total["parked_ms"])
        self.assertEqual(sum(r["cost_micros"] for r in rows), total["cost_micros"])
        self.check_filters(client, rows)
        self.check_pages(client, rows)
        self.check_csv(client, daemon, rows, total)
        self.check_clients(daemon, total)
        self.check_others(port)

    def check_report(self, client, box):
        report = self.assertOk(client.delete(f"/v1/sandboxes/{box['sandbox_id']}"))["report"]
        used = self.total(client, f"?group_by=&sandbox_id={box['sandbox_id']}")
        self.assertEqual({**report["usage"], **{key: report[key] for key in ("currency", "cost", "cost_micros")}}, used)
        self.assertGreater(report["usage"]["leased_ms"], 0)
        self.assertEqual(client.reports(box["box_id"]), [report])

    def check_filters(self, client, rows):
        ana = sum(r["wall_ms"] for r in rows if r["user_id"] == "ana" and r["state"] == "leased")
        by_user = {r["user_id"]: r for r in self.usage(client)["usage"]}
        self.assertEqual((set(by_user), by_user["ana"]["leased_ms"]), ({"ana", "bea"}, ana))
        for query in ("&user_id=ana", "&thread_id=t1", f"&sandbox_id={rows[0]['sandbox_id']}",
                      "&sandbox_id=thread:ana/t1", "&sandbox_id=thread:ana%2Ft1"):
            self.assertEqual(self.total(client, f"?group_by={query}")["leased_ms"], ana)
        both = self.usage(client, f"?group_by=thread,profile,principal,sandbox&principal={os.getuid()}")["usage"]
        self.assertEqual([(r["thread_id"], r["profile"], r["principal"]) for r in both],
                         [(t, "default", f"{os.getuid():016x}") for t in ("t1", "t2")])
        for query in ("sandbox_id=box:0123456789abcdef", "sandbox_id=thread:ana", "sandbox_id="):
            self.assertCode(client.get(f"/v1/usage?{query}"), 422, "invalid_field")
        for query in ("user_id=x", "profile=x", "principal=12345", f"since_ms={int(time.time() * 1000) + 999999}", "until_ms=5"):
            self.assertEqual(self.usage(client, f"?{query}")["usage"], [], query)
        began = round(datetime.datetime.fromisoformat(rows[1]["began_at"].replace("Z", "+00:00")).timestamp() * 1000)
        cut = self.total(client, f"?group_by=&since_ms={began + 2}&until_ms={began + 7}")
        self.assertEqual((cut["leased_ms"], cut["parked_ms"], cut["cost_micros"]), (0, 5, 5000))
        for query in ("group_by=x", "group_by=user,,x", "since_ms=0", "since_ms=x", "since_ms=9223372036854775807", "until_ms=-1",
                      "principal=zz", "format=xml", "intervals=1&limit=0", "intervals=1&limit=1001", "intervals=1&cursor=x",
                      "intervals=1&cursor=open:", "user_id=%00", f"user_id={'x' * 200}"):
            self.assertCode(client.get(f"/v1/usage?{query}"), 422, "invalid_field")

    def check_pages(self, client, rows):
        found, cursor = [], ""
        while cursor is not None:
            page = self.usage(client, f"?intervals=1&limit=1{cursor and '&cursor='}{cursor}")
            found += page["intervals"]
            cursor = page["next_cursor"]
        self.assertEqual(found, rows)

    def check_csv(self, client, daemon, rows, total):
        answer = client.get("/v1/usage?intervals=1&format=csv&limit=2")
        self.assertEqual((answer.headers["Content-Type"], answer.headers["X-Next-Cursor"][:7]), ("text/csv", "closed:"))
        read = list(csv.DictReader(io.StringIO(answer.text)))
        self.assertEqual([(r["user_id"], r["wall_ms"]) for r in read], [(r["user_id"], str(r["wall_ms"])) for r in rows[:2]])
        read = list(csv.DictReader(io.StringIO(self.cli(daemon, "--by", "", "--csv"))))
        self.assertEqual([(r["leased_ms"], r["currency"]) for r in read], [(str(total["leased_ms"]), "EUR")])
        lines = self.cli(daemon).splitlines()
        self.assertEqual(lines[0].split(), ["USER", "LEASED", "PARKED", "PAUSED", "CPU", "MEMORY", "NET", "DISK", "COST"])
        self.assertEqual([line.split()[0] for line in lines[1:]], ["ana", "bea"])
        self.assertIn("EUR", lines[1])
        self.assertEqual(len(self.cli(daemon, "--intervals", "--since", "1h", "--user", "ana").splitlines()), 4)
        self.assertEqual(json.loads(self.cli(daemon, "--until", "1h", "--json"))["usage"], [])
        self.cli(daemon, "--by", "x", status=1)
        self.cli(daemon, "--since", "x", status=2)

    def check_clients(self, daemon, total):
        with sandpool.Client(str(daemon.socket)) as pool:
            self.assertEqual(pool.usage(group_by="")["usage"], [total])

        async def ask():
            async with sandpool.AsyncClient(str(daemon.socket)) as pool:
                return await pool.usage(intervals=1, user_id="bea")

        self.assertEqual(len(asyncio.run(ask())["intervals"]), 1)

    def check_others(self, port):
        def ask(query, body=None):
            request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/{query}", data=body,
                                             headers={"Authorization": f"Bearer {TOKEN}"})
            with urllib.request.urlopen(request, timeout=WAIT_S) as answer:
                return json.load(answer)

        self.assertEqual(ask("usage")["usage"], [])
        self.assertEqual(ask(f"usage?principal={os.getuid()}")["usage"], [])
        ask("acquire", b'{"thread_id": "mine", "wait_ms": 20000}')
        wait_until(lambda: len(ask(f"usage?intervals=1")["intervals"]) == 1, "its own is shown")

    def test_off(self):
        daemon = self.daemon(PRICED, usage={"enabled": False})
        client = self.client(daemon)
        box = self.assertOk(client.acquire("t", wait_ms=20000))["sandbox_id"]
        self.assertOk(client.release(box))
        report = self.assertOk(client.delete(f"/v1/sandboxes/{box}"))["report"]
        self.assertEqual([report[key] for key in ("usage", "currency", "cost", "cost_micros")], [None] * 4)
        self.assertEqual(self.usage(client)["usage"], [])


class Lives(UsageCase):
    """Crashes, restarts, take-overs, a clock that is set, a price that changes, a box that is lost."""

    def begin(self, **more):
        self.machine = self.sim()
        daemon = self.daemon(PRICED, sim=self.machine, **more)
        client = self.client(daemon)
        self.lease = self.assertOk(client.acquire("t", wait_ms=20000))
        self.began = time.monotonic()
        self.wait_ms(client, 5)
        return daemon, client

    def check_whole(self, client):
        """One binding, without a gap and without overlap, as long as it took."""
        rows = sorted(self.intervals(client), key=lambda r: r["began_at"])
        for one, next_one in zip(rows, rows[1:]):
            self.assertEqual(one["ended_at"], next_one["began_at"])
        return sum(r["wall_ms"] for r in rows)

    def test_restart_crash_and_take_over(self):
        daemon, client = self.begin()
        for change in (daemon.restart, lambda: (daemon.kill(), daemon.start()), daemon.takeover):
            change()
            client.close()
            since = (time.monotonic() - self.began) * 1000
            self.assertEqual(len(self.intervals(client)), 1)
            self.wait_ms(client, since - 2)  # the box was its owner's all the time
            self.assertLessEqual(self.check_whole(client), (time.monotonic() - self.began) * 1000 + 1000)

    def test_crash_points(self):
        daemon, client = self.begin()
        daemon.stop()
        states = ("parked", "leased")
        for point in ("store.before_commit", "store.after_commit"):
            for hit in range(1, 9):
                daemon.start(env={"SANDPOOL_CRASH_AT": f"{point}:{hit + 3}"}, wait=False)
                try:
                    daemon.wait_ready()
                    for _ in range(20):
                        client.close()
                        client.release(self.lease["sandbox_id"])
                        client.acquire("t", wait_ms=20000)
                except Exception:  # it is killed somewhere in between
                    pass
                daemon.kill()
                client.close()
        daemon.start()
        total = self.check_whole(client)
        self.assertLessEqual(total, (time.monotonic() - self.began) * 1000 + 1000)
        rows = self.intervals(client)
        self.assertGreater(len(rows), 4)
        self.assertTrue(all(r["state"] in states and r["wall_ms"] >= 0 for r in rows))
        self.assertEqual(sum(1 for r in rows if r["ended_at"] is None), 1)

    def test_report_after_a_crash(self):
        """It is killed when the end is recorded, before the box is destroyed: the next life reports what was used."""
        daemon, client = self.begin()
        daemon.stop()
        daemon.start(env={"SANDPOOL_CRASH_AT": "engine.before_destroy:1"})
        client.close()
        try:
            client.delete(f"/v1/sandboxes/{self.lease['sandbox_id']}")
        except OSError:
            pass  # it is killed before it answers
        daemon.kill()
        daemon.start()
        client.close()
        wait_until(lambda: client.reports(self.lease["box_id"]), "the box is gone")
        report, = client.reports(self.lease["box_id"])
        self.assertEqual(report["cost_micros"], self.total(client)["cost_micros"])
        self.assertEqual(report["usage"]["leased_ms"], self.total(client)["leased_ms"])
        self.assertGreater(report["usage"]["leased_ms"], 4)

    def test_lost_while_it_was_off(self):
        daemon, client = self.begin()
        daemon.stop()
        stopped = (time.monotonic() - self.began) * 1000
        for box_id in self.machine.boxes():
            self.machine.kill_box(box_id)
        with sqlite3.connect(daemon.state / "sandpool.db") as db:  # it stopped an hour ago, and its box began before
            db.execute("UPDATE boxes SET meter_ms = meter_ms - 3600000 WHERE meter_ms > 0")
            db.execute("UPDATE boxes SET leased_ms = leased_ms - 3600000 WHERE leased_ms > 0")
            db.execute("UPDATE meta SET value = value - 3600000 WHERE key = 'watched_ms'")
        db.close()
        daemon.start()
        client.close()
        wait_until(lambda: self.intervals(client)[0]["ended_at"] is not None, "its end is metered")
        row = self.intervals(client)[0]
        self.assertLessEqual(row["wall_ms"], stopped + 1)
        self.assertGreater(row["wall_ms"], 4)

    def test_lost_while_it_ran(self):
        daemon, client = self.begin()
        self.machine.kill_box(self.lease["box_id"])
        wait_until(lambda: self.intervals(client)[0]["ended_at"] is not None, "its end is metered")
        self.assertLess(self.intervals(client)[0]["wall_ms"], (time.monotonic() - self.began) * 1000 + 1000)

    def change_price(self, daemon, per_hour):
        text = pathlib.Path(daemon.config).read_text()
        new = text.replace('"per_hour": 3600', f'"per_hour": {per_hour}')
        self.assertNotEqual(text, new)
        pathlib.Path(daemon.config).write_text(new)

    def test_price_changed(self):
        daemon, client = self.begin()
        self.change_price(daemon, 7200)
        self.assertOk(client.post("/v1/pool/reload"))
        wait_until(lambda: len(self.intervals(client)) == 2, "the interval has ended")
        self.assertOk(client.delete(f"/v1/sandboxes/{self.lease['sandbox_id']}"))
        first, last = sorted(self.intervals(client), key=lambda r: r["began_at"])
        self.assertEqual(first["ended_at"], last["began_at"])
        self.assertEqual(first["cost_micros"], 5000000 + 1000 * first["wall_ms"])
        self.assertEqual(last["cost_micros"], 2000 * last["wall_ms"])

    def test_price_changed_while_it_was_off(self):
        daemon, client = self.begin()
        daemon.stop()
        self.change_price(daemon, 0)
        daemon.start()
        client.close()
        wait_until(lambda: len(self.intervals(client)) == 2, "the interval has ended")
        self.assertOk(client.delete(f"/v1/sandboxes/{self.lease['sandbox_id']}"))
        first, last = sorted(self.intervals(client), key=lambda r: r["began_at"])
        self.assertEqual((first["cost_micros"], last["cost_micros"]), (5000000 + 1000 * first["wall_ms"], 0))

    def test_clock_set(self):
        if not SHIM:
            self.skipTest("no library that sets the clock: run it by ctest")
        offset = pathlib.Path(self.directory) / "offset"
        offset.write_text("0")
        daemon, client = self.begin(env={"LD_PRELOAD": SHIM, "SANDPOOL_TEST_CLOCK_FILE": str(offset)})
        for seconds in (86400, -86400):
            offset.with_suffix(".new").write_text(str(seconds))
            offset.with_suffix(".new").rename(offset)
            day = (datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H")
            wait_until(lambda: self.usage(client)["until"][:13] >= day[:13] if seconds > 0 else self.usage(client)["until"][:13] <= day,
                       "the daemon has seen the clock")
            self.assertOk(client.release(self.lease["sandbox_id"]))
            self.assertOk(client.acquire("t", wait_ms=20000))
        daemon.restart()
        client.close()
        self.assertLessEqual(self.check_whole(client), (time.monotonic() - self.began) * 1000 + 1000)


if __name__ == "__main__":
    main()
