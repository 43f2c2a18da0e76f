"""What a box of test_boxes_egress.py tries, all in one process: a list of [what, arguments] comes in, a line with [result,
seconds] for each goes out."""

import json, os, socket, struct, sys, time

def name(text):
    return b"".join(bytes([len(p)]) + p.encode() for p in text.split(".")) + b"\0"

def ask(text, kind=1, server="192.0.0.1", tcp=False, raw=None):
    query = raw or struct.pack(">HHHHHH", 77, 0x100, 1, 0, 0, 0) + name(text) + struct.pack(">HH", kind, 1)
    s = socket.socket(socket.AF_INET, socket.SOCK_STREAM if tcp else socket.SOCK_DGRAM)
    s.settimeout(8)
    s.connect((server, 53))
    s.sendall((struct.pack(">H", len(query)) if tcp else b"") + query)
    data = s.recv(4096)
    if tcp:
        while len(data) < 2 + struct.unpack(">H", data[:2])[0]:
            data += s.recv(4096)
        data = data[2:]
    count = struct.unpack_from(">H", data, 6)[0]
    found = []
    at = 12
    while data[at]:
        at += data[at] + 1
    at += 5
    for _ in range(count):
        found.append([socket.inet_ntoa(data[at + 12:at + 16]), struct.unpack_from(">I", data, at + 6)[0]])
        at += 16
    return [data[3] & 15, found]

def tcp(host, port=80):
    with socket.create_connection((host, port), 8) as s:
        return s.recv(100).decode()

def udp(host, port=9000, own=0):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.settimeout(8)
    s.bind(("0.0.0.0", own))
    s.connect((host, port))
    s.send(b"x")
    return s.recv(10).decode()

def udp_from(path, host):
    """From the port that somebody writes into the file."""
    print("waiting", flush=True)
    while True:
        try:
            with open(path) as f:
                if (text := f.read()).endswith("\n"):
                    return udp(host, 9000, int(text))
        except FileNotFoundError:
            pass
        time.sleep(0.01)

def raw(kind):
    socket.socket(socket.AF_INET, socket.SOCK_RAW, kind)
    return "made"

def packet():
    socket.socket(17, socket.SOCK_RAW, 0x300)
    return "made"

def ping(host):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP)
    s.settimeout(8)
    s.connect((host, 1))
    s.send(struct.pack(">BBHHH", 8, 0, 0xf7fd, 1, 1))
    return len(s.recv(100))

def six(host):
    with socket.create_connection((host, 80), 8) as s:
        return "connected"

def netlink(kind, message):
    s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, kind)
    s.settimeout(8)
    s.send(bytes.fromhex(message))
    data = s.recv(4096)
    return struct.unpack_from("i", data, 16)[0]

def flood(count):
    import random
    r = random.Random(7)
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.connect(("192.0.0.1", 53))
    good = struct.pack(">HHHHHH", 77, 0x100, 1, 0, 0, 0) + name("good.test") + struct.pack(">HH", 28, 1)
    for i in range(count):
        text = bytearray(good if i % 2 else r.randbytes(r.randrange(600)))
        for _ in range(3):
            if text:
                text[r.randrange(len(text))] = r.randrange(256)
        try:
            s.send(text)
        except OSError:
            pass
    for i in range(20):
        with socket.create_connection(("192.0.0.1", 53), 8) as t:
            t.sendall(struct.pack(">H", [0, 5, 600, 65535][i % 4]) + r.randbytes(i * 3))
    return "sent"

def forge(source, *hosts):
    """A packet with another sender, which takes more rights than anybody in a box has."""
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.bind((source, 0))
    for host in hosts:
        s.sendto(b"x", (host, 9000))
    return "sent"

def ports(host, count):
    """A packet to each of so many ports, by one socket."""
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    return sum(s.sendto(b"x", (host, 1000 + i)) for i in range(count))

def junk(count):
    """Connections to the resolver that it ends, as what comes is no question."""
    for _ in range(count):
        with socket.create_connection(("192.0.0.1", 53), 8) as s:
            s.sendall(struct.pack(">HHHQ", 12, 1, 0x8000, 0))
            s.recv(10)
    return "closed"

def hold(*hosts):
    """Connections that are open while something changes: which of them are there afterwards?"""
    held = [socket.create_connection((host, 80), 8) for host in hosts]
    for s in held:
        s.recv(100)
    print("open", flush=True)
    found = ["open"] * len(held)
    end = time.monotonic() + 20
    while "ended" not in found and time.monotonic() < end:
        for i, s in enumerate(held):
            for again in (True, True, False):  # what was lost at that moment comes again when we send
                try:
                    s.settimeout(2)
                    s.sendall(b"x")
                    s.recv(10)
                    break
                except TimeoutError:
                    found[i] = found[i] if again else "ended"
                except OSError:
                    found[i] = "ended"
                    break
        time.sleep(0.02)
    return found

def run(*argv):
    import subprocess
    done = subprocess.run(argv, capture_output=True, text=True, timeout=20)
    return [done.returncode, (done.stdout + done.stderr)[:300]]

def users():
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(0x10000000 | 0x40000000) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    return "made"

for what, args in json.loads(sys.argv[1]):
    begun = time.monotonic()
    try:
        result = globals()[what](*args)
    except Exception as problem:
        result = f"{type(problem).__name__} {getattr(problem, 'errno', '')} {problem}"
    print(json.dumps([result, time.monotonic() - begun]), flush=True)
