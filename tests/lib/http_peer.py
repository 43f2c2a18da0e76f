"""A box for tests of the proxy: a server on raw sockets that notes what reaches it, byte by byte, and
misbehaves when asked to. It is also the provisioner that a daemon's `remote` profile gets it from, so
that a daemon hands it out as its own."""

import json
import socket
import threading
import time

from testlib import free_port

CHUNK = b"0123456789abcdef" * 4096


class Upstream:
    def __init__(self, is_root=False):
        self.is_root = is_root  # its one box is at "/", else each has a path
        self.acts = {}          # path of a box: what is called with the call, instead of what is below
        self.tunnels = []       # heads of CONNECT
        self.flood = None       # what CONNECT is answered with, before bytes without an end
        self.is_flood_over = threading.Event()
        self.port = free_port()
        self.server = socket.create_server(("127.0.0.1", self.port), backlog=512)
        self.boxes = {}
        self.seen = []      # heads of what came for the box
        self.ended = []     # (path, bytes) of requests whose client went away
        self.raw = b""       # what /raw answers
        self.listing = b""   # what it lists as a provisioner, instead of what it has
        self.deleted = 0    # boxes, as a provisioner
        self.may_delete = threading.Event()  # until then it does not answer
        self.may_delete.set()
        self.moved = 0      # bytes of bodies, both ways
        self.go = threading.Event()
        self.lock = threading.Lock()
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                connection, _ = self.server.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def close(self):
        self.go.set()
        self.may_delete.set()
        self.stop_listening()

    def stop_listening(self):
        try:
            self.server.shutdown(socket.SHUT_RDWR)  # wakes accept()
        except OSError:
            pass  # it is not listening any more
        self.server.close()

    def serve(self, connection):
        with connection, connection.makefile("rb") as stream:
            try:
                while self.serve_one(connection, stream):
                    pass
            except OSError:
                pass

    def serve_one(self, connection, stream):
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            line = stream.readline(65536)
            if not line:
                return False
            head += line
        request, *lines = head.decode("latin-1").split("\r\n")[:-2]
        method, target, _ = request.split(" ", 2)
        headers = [tuple(line.split(": ", 1)) if ": " in line else (line.rstrip(":"), "")
                   for line in lines]
        names = {name.lower(): value for name, value in headers}
        call = Call(self, connection, stream, method, target, headers, names, head)
        if target.startswith("/api/"):
            return call.provision()
        if method == "CONNECT":
            return call.tunnel()
        if self.is_root:
            call.path = target
        elif not target.startswith("/box/"):
            return call.reply(404, b"{}")
        else:
            call.path = "/" + target.split("/", 3)[3] if target.count("/") >= 3 else ""
        if call.path != "/v1/sandbox":
            self.seen.append(call)
        return call.act()


def pump(read, to):
    while True:
        try:
            data = read(65536)
            if data:
                to.sendall(data)
            else:
                to.shutdown(socket.SHUT_WR)
        except OSError:
            return
        if not data:
            return


class Call:
    def __init__(self, upstream, connection, stream, method, target, headers, names, head):
        self.up, self.connection, self.stream = upstream, connection, stream
        self.method, self.target, self.headers, self.names = method, target, headers, names
        self.head = head
        self.path = target

    # -- the message --

    def pieces(self):
        """The body, as it comes."""
        if self.names.get("transfer-encoding") == "chunked":
            while True:
                size = int(self.stream.readline().split(b";")[0], 16)
                data = self.stream.read(size)
                self.stream.readline()
                if size == 0:
                    return
                yield data
        left = int(self.names.get("content-length", 0))
        while left > 0:
            data = self.stream.read1(min(left, 65536))
            if not data:
                self.up.ended.append((self.path, left))
                raise OSError("the client went away")
            left -= len(data)
            self.up.moved += len(data)
            yield data

    def reply(self, status, body, *extra):
        lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body)}", *extra, "", ""]
        self.connection.sendall("\r\n".join(lines).encode() + (b"" if self.method == "HEAD" else body))
        return True

    def reply_json(self, status, value, *extra):
        return self.reply(status, json.dumps(value).encode(), "Content-Type: application/json",
                          *extra)

    # -- as a provisioner --

    def provision(self):
        body = b"".join(self.pieces())
        parts = self.target.split("/")[3:]
        boxes = self.up.boxes
        if self.method == "POST":
            box = json.loads(body)["sandbox_id"]
            boxes.setdefault(box, {
                "sandbox_id": box, "status": "Running", "container_id": f"uid-{box}",
                "sandbox_url": f"http://127.0.0.1:{self.up.port}" + ("" if self.up.is_root else f"/box/{box}")})
            return self.reply_json(200, boxes[box])
        if not parts and self.up.listing:
            return self.reply(200, self.up.listing)
        if not parts:
            return self.reply_json(200, {"sandboxes": list(boxes.values()), "count": len(boxes)})
        if self.method == "DELETE":
            self.up.may_delete.wait()
            boxes.pop(parts[0], None)
            self.up.deleted += 1
            return self.reply_json(200, {"ok": True, "sandbox_id": parts[0]})
        if parts[0] not in boxes:
            return self.reply_json(404, {"detail": f"Sandbox '{parts[0]}' not found"})
        if parts[1:] == ["presence"]:
            return self.reply_json(200, {"sandbox_id": parts[0], "exists": True,
                                         "container_id": f"uid-{parts[0]}"})
        return self.reply_json(200, boxes[parts[0]])

    # -- as a box --

    def tunnel(self):
        """As an agent does: bytes to and from a port of the loopback."""
        self.up.tunnels.append(self.head.decode("latin-1"))
        if self.up.flood is not None:
            self.connection.sendall(self.up.flood)
            while not self.up.is_flood_over.is_set():
                self.connection.sendall(b"x: y\r\n" * 1000)
            return False
        try:
            other = socket.create_connection(("127.0.0.1", int(self.target.rsplit(":", 1)[1])))
        except OSError:
            return self.reply(502, b'{"error":{"code":"port_closed","message":"no"}}')
        self.connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        with other:
            back = threading.Thread(target=pump, args=(other.recv, self.connection), daemon=True)
            back.start()
            pump(self.stream.read1, other)
            back.join()
        return False

    def act(self):
        path = self.path.split("?")[0]
        if path in self.up.acts:
            return self.up.acts[path](self)
        name = self.path.split("?")[0].strip("/").replace("/", "_") or "echo"
        action = getattr(self, f"do_{name}", self.do_echo)
        return action()

    def do_echo(self):
        size = sum(len(piece) for piece in self.pieces())
        return self.reply_json(200, {"line": self.head.decode("latin-1").split("\r\n")[0],
                                     "headers": self.headers, "size": size},
                               "X-Twice: a", "X-Twice: b", "Set-Cookie: c=d", "Connection: X-Hop",
                               "X-Hop: stays", "Keep-Alive: timeout=5")

    def do_v1_sandbox(self):
        """Health, with what distinguishes one start of a box from the next: the daemon then asks for nothing else."""
        box = next(iter(self.up.boxes), "") if self.up.is_root else self.target.split("/")[2]
        if box not in self.up.boxes:
            return self.reply(404, b"{}")
        return self.reply(200, b"{}", f"X-Sandbox-Life: {box}")

    def do_nothing(self):
        self.connection.sendall(b"HTTP/1.1 204 No\r\nX-A: b\r\n\r\n")
        return True

    def do_unmodified(self):
        self.connection.sendall(b"HTTP/1.1 304 No\r\nETag: \"1\"\r\n\r\n")
        return True

    def do_moved(self):
        return self.reply(302, b"", "Location: http://127.0.0.1:1/elsewhere")

    def do_raw(self):
        """Whatever the test has set: bytes, or what is called with the connection and sends them."""
        for _ in self.pieces():
            pass
        if callable(self.up.raw):
            self.up.raw(self.connection)
            return False
        self.connection.sendall(self.up.raw)
        return True

    def do_die(self):
        return False

    def do_junk(self):
        self.connection.sendall(b"this is not HTTP\r\n\r\n")
        return False

    def do_half(self):
        self.connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf")
        return False

    def do_broken_chunks(self):
        self.connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n")
        return False

    def do_early(self):
        """Answers without having read the body, and hangs up."""
        self.reply(413, b"too much", "Connection: close")
        time.sleep(0.2)
        return False

    def do_events(self):
        """One event at once, the next when the test says so."""
        self.connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
                                b"Transfer-Encoding: chunked\r\n\r\n")
        for event in (b"data: one\n\n", b"data: two\n\n"):
            self.connection.sendall(b"%x\r\n%s\r\n" % (len(event), event))
            if not self.up.go.wait(60):
                return False
        self.connection.sendall(b"0\r\n\r\n")
        return True

    def do_wait(self):
        """Answers when the test says so, or notes that the client went away."""
        self.connection.settimeout(0.05)
        while not self.up.go.is_set():
            try:
                if self.connection.recv(1, socket.MSG_PEEK) == b"":
                    self.up.ended.append((self.path, 0))
                    return False
            except TimeoutError:
                pass
        self.connection.settimeout(None)
        return self.reply(200, b"at last")

    def do_big(self):
        """?n bytes."""
        left = int(self.path.split("?")[1])
        self.connection.sendall(f"HTTP/1.1 200 OK\r\nContent-Length: {left}\r\n\r\n".encode())
        while left > 0:
            piece = CHUNK[:left]
            try:
                self.connection.sendall(piece)
            except OSError:
                self.up.ended.append((self.path, left))
                raise
            left -= len(piece)
            self.up.moved += len(piece)
        return True

    def do_stuck(self):
        """Takes nothing of the body until the test says so."""
        self.up.go.wait(60)
        return self.do_echo()
