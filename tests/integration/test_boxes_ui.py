"""The web page and a real box: its processes, its files and a terminal in it, in a real browser (tests/browser/inside.mjs)."""

import json
import os
import shutil
import subprocess
import sys

from fixtures import SLOW, SOURCE, free_port, main, skip, wait_until
from oci_case import BoxCase

TOKENS = {"boss": "boss-0123456789+/=abc", "other": "other-0123456789abcdef"}
HOSTILE = "<img src=x onerror=alert(1)>"


class InsideCase(BoxCase):
    port = free_port()
    config = {"tcp": {"listen": f"127.0.0.1:{port}", "tokens": TOKENS, "operators": ["boss"]}}

    def test_inside(self):
        if shutil.which("chromium") is None or shutil.which("node") is None:
            skip("the web page is not looked at: there is no chromium, or no Node.js")
        box = self.pool.acquire("page").json["sandbox_id"]
        path = f"/v1/sandboxes/{box}"
        self.assertOk(self.pool.post(f"{path}/exec", {"argv": ["sh", "-c", 'mkdir d && printf "%s" "$1" >"d/$2" && printf "a\\0b" >d/bytes',
                                                               "sh", "<script>alert(1)</script>", HOSTILE.replace("/", "")]}))
        job = self.assertOk(self.pool.post(f"{path}/jobs", {"command": f"sleep 300 # {HOSTILE}"}))["job"]
        downloads = self.home / "downloads"
        downloads.mkdir()
        has_terminal = self.pool.get("/ui/xterm.js").status == 200
        if not has_terminal:
            print("SKIPPED: the terminal of the web page: xterm.js could not be had", file=sys.stderr)
        env = {**os.environ, "SANDPOOL_TERMINAL": str(int(has_terminal)), "SANDPOOL_URL": f"http://127.0.0.1:{self.port}", "SANDPOOL_TOKENS": json.dumps(TOKENS),
               "SANDPOOL_BOX": box, "SANDPOOL_JOB": str(job), "SANDPOOL_HOSTILE": HOSTILE, "SANDPOOL_DOWNLOADS": str(downloads),
               "SANDPOOL_TEST_SLOW": str(SLOW)}
        walk = subprocess.run(["node", SOURCE / "tests/browser/inside.mjs"], env=env, capture_output=True, text=True, timeout=240)
        self.assertEqual(walk.returncode, 0, walk.stdout[-6000:] + walk.stderr[-6000:])
        self.assertEqual((downloads / "bytes").read_bytes(), b"a\0b")
        self.assertNotIn(TOKENS["boss"], self.server.log.read_text(), "a token is in the log")

        def is_over():
            jobs = self.assertOk(self.pool.get(f"{path}/jobs?tag=ui"))["jobs"]
            return jobs and all(j["outcome"] != "running" for j in jobs)
        if has_terminal:
            wait_until(is_over, "the shell has ended with the page")


main()
