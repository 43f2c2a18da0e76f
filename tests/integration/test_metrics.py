"""GET /metrics: what Prometheus reads is well-formed, agrees with the API, and does not grow with boxes and threads."""

import json
import re
import subprocess
import unittest

from fixtures import SOURCE, WAIT_S, TestCase, main, wait_until

SAMPLE = re.compile(r'^([a-z_]+)(?:\{(.*)\})? (\S+)$')
DOCS = SOURCE / "docs" / "prometheus"


def promtool(*args, text=None):
    return subprocess.run(["promtool", *args], input=text, capture_output=True, text=True, timeout=WAIT_S)


class Metrics(TestCase):
    def read(self, client):
        answer = client.get("/metrics")
        self.assertEqual(answer.status, 200, answer)
        samples = {}
        for line in answer.text.splitlines():
            if not line.startswith("#"):
                name, labels, value = SAMPLE.match(line).groups()
                key = (name, *sorted((labels or "").split(",")))
                self.assertNotIn(key, samples)
                samples[key] = float(value)
        return answer, samples

    def test_it_is_what_the_pool_shows(self):
        daemon = self.daemon({"warm": {"min": 3, "max": 3}}, pool={"max_boxes": 5, "max_waiters": 8})
        client = self.client(daemon)
        wait_until(lambda: client.get("/v1/pool").json["by_state"]["blank"] == 3, "warm")
        answer, before = self.read(client)
        self.assertEqual(answer.headers["Content-Type"], "text/plain; version=0.0.4; charset=utf-8")
        self.assertEqual(before["sandpool_boxes", 'profile="default"', 'state="blank"'], 3)
        for n in range(5):
            self.assertOk(client.acquire(f"t{n}"))
        self.assertOk(client.acquire("t0"))
        self.assertCode(client.acquire("more", wait_ms=0), 429, "pool_exhausted")
        answer, after = self.read(client)
        pool = client.get("/v1/pool").json
        shown = pool["profiles"][0]
        for state in ("starting", "blank", "leased", "parked", "deleting"):
            self.assertEqual(after["sandpool_boxes", 'profile="default"', f'state="{state}"'], shown[state], state)
        for source in ("kept", "parked", "discovered", "warm", "cold", "restored"):
            label = f'source="{source}"'
            count = after["sandpool_acquire_duration_seconds_count", label]
            self.assertEqual(count, pool["acquires"][source], source)
            self.assertEqual(count, after["sandpool_acquire_duration_seconds_bucket", 'le="+Inf"', label])
            self.assertLess(after["sandpool_acquire_duration_seconds_sum", label], WAIT_S)
        self.assertEqual(pool["acquires"]["kept"], 1)
        self.assertEqual(after["sandpool_acquires_refused_total", 'code="pool_exhausted"'], 1)
        self.assertEqual(after["sandpool_profile_ready", 'profile="default"'], 0, "nobody would get a box now")
        self.assertEqual(before["sandpool_profile_ready", 'profile="default"'], 1)
        self.assertEqual(after["sandpool_boxes_max", ""], 5)
        self.assertEqual(after["sandpool_store_up", ""], 1)
        self.assertEqual(after["sandpool_mode", 'mode="running"'], 1)
        self.assertGreater(after["process_resident_memory_bytes", ""], 1e6)
        extra = {key for key in set(after) - set(before) if key[0] != "sandpool_acquires_refused_total"}
        self.assertEqual(extra, set(), "more boxes and threads are no more lines")

    @unittest.skipUnless(promtool("--version").returncode == 0, "no promtool")
    def test_promtool_finds_nothing_wrong(self):
        daemon = self.daemon({"warm": {"min": 1, "max": 1}}, pool={"max_boxes": 1, "max_waiters": 8})
        client = self.client(daemon)
        self.assertOk(client.acquire("a"))
        self.assertCode(client.acquire("b", wait_ms=0), 429, "pool_exhausted")
        answer, _ = self.read(client)
        found = promtool("check", "metrics", text=answer.text)
        self.assertEqual((found.returncode, found.stdout, found.stderr), (0, "", ""))

    def test_names_in_the_documents(self):
        """The dashboard and the rules ask for what there is, and promtool accepts the rules."""
        daemon = self.daemon({"warm": {"min": 0, "max": 0}}, pool={"max_boxes": 1, "max_waiters": 8})
        client = self.client(daemon)
        self.assertOk(client.acquire("a"))
        self.assertCode(client.acquire("b", wait_ms=0), 429, "pool_exhausted")
        _, samples = self.read(client)
        known = {key[0] for key in samples}
        dashboard = json.loads((DOCS / "dashboard.json").read_text())
        asked = "\n".join(target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", []))
        asked += (DOCS / "alerts.yaml").read_text()
        asked += (SOURCE / "docs" / "metrics.md").read_text()
        names = set(re.findall(r"\b(?:sandpool|process)_[a-z_]+[a-z]\b", asked))
        self.assertGreater(len(names), 10)
        self.assertEqual({n for n in names if n not in known and f"{n}_count" not in known}, set())
        missing = {n for n in known if not re.search(r"_(bucket|sum|count)$", n)} - set(
            re.findall(r"\w+", (SOURCE / "docs" / "metrics.md").read_text()))
        self.assertEqual(missing, set(), "docs/metrics.md has them all")
        if promtool("--version").returncode == 0:
            found = promtool("check", "rules", str(DOCS / "alerts.yaml"))
            self.assertEqual(found.returncode, 0, found.stdout + found.stderr)


if __name__ == "__main__":
    main()
