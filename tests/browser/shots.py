"""Makes the pictures of the web page in docs/images: a daemon with simulated boxes and callers who come and go, in which an hour
passes in forty seconds (SANDPOOL_HURRY, builds of tests only). By hand, after a change of the page is worth it:

    SANDPOOL_BIN_DIR=build/dev python3 tests/browser/shots.py docs/images
"""

import os
import pathlib
import random
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from daemon import Client, Daemon  # noqa: E402
from testlib import SOURCE, free_port  # noqa: E402

TOKEN = "for-the-pictures-0123456789"
HURRY = 100
CALLERS = 24
USERS = ("ana", "ben", "chloe", "dmitri", "eun-ji")


def profiles():
    sim = {"create_ms": 6, "create_jitter_ms": 6, "destroy_ms": 5}
    return {"default": {"backend": "sim", "warm": {"min": 6, "max": 16}, "park_timeout_s": 1, "sim": sim},
            "browser": {"backend": "sim", "warm": {"min": 2, "max": 6}, "park_timeout_s": 1, "sim": {**sim, "create_ms": 40}},
            "gpu": {"backend": "sim", "warm": {"min": 1, "max": 2}, "sim": {**sim, "fail_percent": 100},
                    "create": {"backoff_max_ms": 30000}}}


def come_and_go(path, number, start, is_over):
    """More of them in the middle of the hour."""
    client = Client(path)
    chance = random.Random(number)
    while not is_over.is_set():
        passed = (time.monotonic() - start) / 40
        if chance.random() > 0.25 + 0.7 * max(0, 1 - abs(passed - 0.6) * 2):
            is_over.wait(0.4)
            continue
        profile = "browser" if chance.random() < 0.15 else "default"
        thread = f"chat-{chance.randrange(400)}-{profile[0]}"
        box = client.acquire(thread, user_id=USERS[number % len(USERS)], profile=profile, wait_ms=2000, metadata={"task": "review"})
        is_over.wait(chance.expovariate(1.5))
        if box.status == 200:
            client.release(box.json["sandbox_id"])
        is_over.wait(chance.expovariate(4))
    client.close()


def main():
    target = pathlib.Path(sys.argv[1]).resolve()
    target.mkdir(parents=True, exist_ok=True)
    port = free_port()
    is_over = threading.Event()
    with tempfile.TemporaryDirectory(prefix="sandpool-shots-") as home:
        daemon = Daemon(home, {"instance": "pool-1", "tcp": {"listen": f"127.0.0.1:{port}", "tokens": {"boss": TOKEN}, "operators": ["boss"]},
                               "pool": {"max_boxes": 80}, "profiles": profiles()}, env={"SANDPOOL_HURRY": str(HURRY)})
        daemon.start()
        try:
            start = time.monotonic()
            callers = [threading.Thread(target=come_and_go, args=(daemon.socket, n, start, is_over)) for n in range(CALLERS)]
            for caller in callers:
                caller.start()
            time.sleep(38)
            env = {**os.environ, "SANDPOOL_URL": f"http://127.0.0.1:{port}", "SANDPOOL_TOKENS": f'{{"boss":"{TOKEN}"}}'}
            subprocess.run(["node", SOURCE / "tests/browser/shots.mjs", target], env=env, check=True, timeout=120)
        finally:
            is_over.set()
            for caller in threading.enumerate():
                if caller is not threading.main_thread():
                    caller.join()
            daemon.process.kill()


if __name__ == "__main__":
    main()
