"""An image that answers as the AIO sandbox's does: on port 8080, without a token, with all published fields, and with 502
until what is behind its front server is up."""

import io
import json
import tarfile

PORT = 8080
TIME = "2026-11-17T04:05:06.789012"
ERROR = {"path": "/nosuch", "operation": "read", "message": "File not found: /nosuch", "error_type": "not_found",
         "retryable": False, "errno": 2, "errno_name": "ENOENT", "exception_type": "FileNotFoundError"}


def envelope(data, **fields):
    return {"success": True, "message": "Operation successful", "data": data, "hint": None, **fields}


SANDBOX = {"success": True, "message": "Sandbox environment", "data": "Sandbox is running", "hint": None,
           "home_dir": "/home/gem", "workspace": "/home/gem", "version": "1.9.4",
           "detail": {"system": {"os": "Linux", "os_version": "Ubuntu 22.04.5 LTS", "arch": "x86_64", "user": "gem",
                                 "home_dir": "/home/gem", "workspace": "/home/gem", "timezone": "Asia/Singapore",
                                 "occupied_ports": ["8080", "8091", "8888"]},
                      "runtime": {"python": [{"ver": "3.10.12", "bin": "/usr/bin/python3.10", "alias": ["python", "python3"]}],
                                  "nodejs": [{"ver": "22.16.0", "bin": "/usr/bin/node", "alias": ["node"]}]},
                      "utils": [{"category": "text", "tools": [{"name": "jq", "description": "JSON processor"},
                                                               {"name": "rg", "description": None}]}]}}
COMMAND = {"session_id": "s", "command": "echo hi", "status": "completed", "output": "hi",
           "console": [{"ps1": "gem@box:~ $", "command": "echo hi", "output": "hi"}], "exit_code": 0}

# method and path -> (status, answer)
ANSWERS = {
    "GET /v1/sandbox": (200, SANDBOX),
    "POST /v1/shell/exec": (200, envelope(COMMAND)),
    "POST /v1/shell/view": (200, envelope(COMMAND)),
    "POST /v1/shell/wait": (200, envelope({"status": "completed"})),
    "POST /v1/shell/write": (200, envelope({"status": "running"})),
    "POST /v1/shell/kill": (200, envelope({"status": "terminated", "exit_code": None, "returncode": -9})),
    "POST /v1/shell/sessions/create": (200, envelope({"session_id": "s", "working_dir": "/home/gem"})),
    "GET /v1/shell/sessions": (200, envelope({"sessions": {"s": {
        "working_dir": "/home/gem", "created_at": TIME + "Z", "last_used_at": TIME + "Z", "age_seconds": 3, "status": "ready",
        "current_command": None}}})),
    "GET /v1/shell/sessions/stats": (200, envelope({
        "total_sessions": 1, "active_sessions": 0, "idle_sessions": 1, "max_sessions": 10, "session_timeout": 3600,
        "usage_ratio": 0.1})),
    "GET /v1/shell/terminal-url": (200, envelope("http://localhost:8080/terminal")),
    "POST /v1/bash/exec": (200, envelope({
        "session_id": "b", "command_id": "c", "command": "echo hi", "status": "completed", "stdout": "hi\n", "stderr": "",
        "exit_code": 0, "offset": 3, "stderr_offset": 0})),
    "POST /v1/bash/output": (404, {"success": False, "message": "Session not found", "data": None, "hint": None}),
    "GET /v1/bash/sessions": (200, envelope([{
        "session_id": "b", "status": "ready", "working_dir": "/home/gem", "created_at": TIME + "Z",
        "last_used_at": TIME + "Z", "current_command": None, "command_count": 1}])),
    "POST /v1/file/write": (200, envelope({"file": "/tmp/a", "bytes_written": 2})),
    "POST /v1/file/read": (404, {"success": False, "message": "File not found: /nosuch", "data": ERROR, "hint": None}),
    "POST /v1/file/list": (200, envelope({
        "path": "/tmp", "total_count": 1, "directory_count": 0, "file_count": 1, "files": [{
            "name": "a", "path": "/tmp/a", "is_directory": False, "size": 2, "modified_time": "1763352306", "permissions": "644",
            "extension": ""}]})),
    "POST /v1/file/find": (422, {"success": False, "message": "Validation error", "data": None, "hint": None, "detail": [
        {"loc": ["body", "glob"], "msg": "Field required", "type": "missing"}]}),
}

# One process per connection. Whoever comes is served: a token is not looked at.
SERVER = """#!/bin/sh
cr=$(/bin/busybox printf '\\r')
read -r method target version
len=0
while read -r line; do
    line=${line%$cr}
    [ -n "$line" ] || break
    case $line in [Cc]ontent-[Ll]ength:*) len=${line#*:} ;; esac
done
[ "$len" -eq 0 ] || /bin/busybox head -c $len >/tmp/body.$$
answer=/aio/$method${target%%\\?*}/answer
status="200 OK"
if [ ! -e /tmp/up ]; then
    status="502 Bad Gateway" answer=/aio/bad-gateway
elif [ -e "$answer" ]; then
    read -r status <"${answer%answer}status"
else
    status="404 Not Found" answer=/aio/not-found
fi
/bin/busybox printf 'HTTP/1.1 %s\\r\\nServer: nginx/1.18.0 (Ubuntu)\\r\\nContent-Type: application/json\\r\\n' "$status"
/bin/busybox printf 'Content-Length: %s\\r\\nConnection: close\\r\\n\\r\\n' "$(/bin/busybox wc -c <$answer)"
/bin/busybox cat $answer
"""

START = ["/bin/sh", "-c", f"(/bin/sleep 1; /bin/busybox touch /tmp/up) & exec /bin/busybox nc -ll -p {PORT} -e /aio/serve"]


def tar_of(base_tar):
    """The layer: that of `base_tar`, the server and its answers."""
    out = io.BytesIO(base_tar)
    with tarfile.open(fileobj=out, mode="a") as tar:
        def text(name, data, mode=0o644):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), mode
            tar.addfile(entry, io.BytesIO(data))

        text("aio/serve", SERVER.encode(), 0o755)
        text("aio/bad-gateway", b"<html>502 Bad Gateway</html>")
        text("aio/not-found", json.dumps({"detail": "Not Found"}).encode())
        for call, (status, answer) in ANSWERS.items():
            method, path = call.split(" ")
            text(f"aio/{method}{path}/answer", json.dumps(answer).encode())
            text(f"aio/{method}{path}/status", f"{status} As Said\n".encode())
    return out.getvalue()
