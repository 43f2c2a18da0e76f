#!/usr/bin/python3
"""In the machine: runs what comes over the virtio port, one JSON object per line, and answers with one per line.

{"id": 1, "command": "...", "timeout": 60}  ->  {"id": 1, "status": 0, "output": "..."}
"""

import json
import os
import signal
import subprocess
import time

PORT = "/dev/virtio-ports/sandpool.commands"


def perform(request):
    with subprocess.Popen(["bash", "-c", request["command"]], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, start_new_session=True) as child:
        try:
            output = child.communicate(timeout=request["timeout"])[0]
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            output = child.communicate()[0] + b"\n(not done in time, killed)\n"
        return {"id": request["id"], "status": child.returncode, "output": output.decode(errors="replace")}


def main():
    port = os.open(PORT, os.O_RDWR)
    text = b""
    while True:
        piece = os.read(port, 65536)
        if not piece:  # nobody has the other end open
            time.sleep(0.05)
            continue
        text += piece
        while b"\n" in text:
            line, text = text.split(b"\n", 1)
            answer = json.dumps(perform(json.loads(line))).encode() + b"\n"
            while answer:
                answer = answer[os.write(port, answer):]


if __name__ == "__main__":
    main()
