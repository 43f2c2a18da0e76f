"""Boxes that reach only what is on a list. The test is alone in a network namespace in which it plays the internet: servers on
addresses that look public, private or like a cloud's, and servers of DNS, one of which lies."""

import contextlib
import http.client
import json
import os
import pathlib
import re
import shutil
import socket
import struct
import subprocess
import sys
import threading

if __name__ == "__main__" and os.geteuid() == 0 and "SANDPOOL_TEST_APART" not in os.environ:
    os.environ["SANDPOOL_TEST_APART"] = "1"
    os.execvp("unshare", ["unshare", "--net", "--mount", sys.executable, *sys.argv])

from fixtures import WAIT_S, in_threads, main, skip, wait_until
from box import Box
from host import read_of
from oci_case import HAS_CGROUPS, BoxCase

PUBLIC = "203.0.113.10"
OTHER = "203.0.113.11"
NAMED_NET = "198.51.100.7"
NAMED_HIGH = "198.51.100.200"
PRIVATE = "10.9.9.9"
NAMED_PRIVATE = "10.7.0.1"
METADATA = "169.254.169.254"
SERVERS = (PUBLIC, OTHER, NAMED_NET, NAMED_HIGH, PRIVATE, NAMED_PRIVATE, METADATA)
RESOLVER = "203.0.113.53"
OTHER_RESOLVER = "203.0.113.54"
PORT = 8001  # this network is ours
TOKEN = "bob-0123456789abcdef"
FORGED = "172.20.0.1"
INSIDE = "192.0.0.1"  # what boxes ask

ALLOW = ["good.test", "*.below.test", "rebind.test", "alias.test", "many.test", "brief.test", "mixed.test", "slow.test", "spoof.test",
         "named.test", "late.test", "twice.test", "198.51.100.0/24", "10.7.0.0/16"]


# --- the internet ---

class Names:
    """A server of DNS. What it answers to a name: addresses, ("alias", name), or a function of how often it was asked."""

    def __init__(self):
        self.records = {
            "good.test": [PUBLIC], "a.below.test": [PUBLIC], "below.test": [PUBLIC], "secret.test": [PUBLIC],
            "rebind.test": lambda n: [PUBLIC] if n == 1 else [METADATA], "alias.test": ("alias", "inner.elsewhere.test"),
            "inner.elsewhere.test": [PRIVATE], "many.test": [f"203.0.113.{i}" for i in range(100, 164)],
            "brief.test": [OTHER], "mixed.test": [PRIVATE, PUBLIC, METADATA, "127.0.0.1"],
            "named.test": [NAMED_PRIVATE], "spoof.test": [PUBLIC], "late.test": [PUBLIC], "twice.test": [PUBLIC, PUBLIC]}
        self.late = threading.Event()  # until then nobody knows where that is
        self.asked = []
        self.lock = threading.Lock()

    def answer(self, query):
        name, at = read_name(query, 12)
        kind = struct.unpack_from(">H", query, at)[0]
        with self.lock:
            self.asked.append((name, kind))
            count = sum(1 for n, _ in self.asked if n == name)
        if name == "slow.test":
            return []
        records = b""
        found = self.records.get(name)
        owner = b"\xc0\x0c"
        n = 0
        while isinstance(found, tuple):
            target = put_name(found[1])
            records += owner + struct.pack(">HHIH", 5, 1, 60, len(target)) + target
            owner, found, n = target, self.records.get(found[1]), n + 1
        if callable(found):
            found = found(count)
        for address in found or []:
            records += owner + struct.pack(">HHIH", 1, 1, 0 if name == "brief.test" else 60, 4) + socket.inet_aton(address)
            n += 1
        head = query[:2] + struct.pack(">HHHHH", 0x8180 | (3 if found is None else 0), 1, n, 0, 0)
        right = head + query[12:at + 4] + records
        if name != "spoof.test":
            return [right]
        lie = right.replace(socket.inet_aton(PUBLIC), socket.inet_aton(OTHER))
        return [bytes([lie[0] ^ 1]) + lie[1:], lie.replace(put_name(name), put_name("proof.test")), right]


def put_name(name):
    return b"".join(bytes([len(part)]) + part.encode() for part in name.split(".")) + b"\0"


def read_name(data, at):
    parts = []
    while data[at]:
        parts.append(data[at + 1:at + 1 + data[at]].decode())
        at += data[at] + 1
    return ".".join(parts).lower(), at + 1


class Internet:
    def __init__(self):
        self.reached = []
        self.sockets = []
        self.names = Names()
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True, timeout=30)
        for address in (*SERVERS, RESOLVER, OTHER_RESOLVER):
            subprocess.run(["ip", "addr", "add", f"{address}/32", "dev", "lo"], check=True, timeout=30)
        for address in SERVERS:
            for port in (80, 853):
                self.serve(socket.SOCK_STREAM, address, port, self.greet)
            self.serve(socket.SOCK_DGRAM, address, 9000, self.echo)
        for address in (RESOLVER, OTHER_RESOLVER):
            self.serve(socket.SOCK_DGRAM, address, 53, self.resolve)
            self.serve(socket.SOCK_STREAM, address, 53, self.greet)

    def serve(self, kind, address, port, work):
        server = socket.socket(socket.AF_INET, kind)
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind((address, port))
        if kind == socket.SOCK_STREAM:
            server.listen(64)
        self.sockets.append(server)
        threading.Thread(target=self.loop, args=(server, work), daemon=True).start()

    @staticmethod
    def loop(server, work):
        with contextlib.suppress(OSError):
            while True:
                work(server)

    def greet(self, server):
        connection, _ = server.accept()
        self.reached.append(server.getsockname())
        with contextlib.suppress(OSError):
            connection.sendall(b"hello from " + server.getsockname()[0].encode())
        threading.Thread(target=self.keep, args=(connection,), daemon=True).start()

    @staticmethod
    def keep(connection):
        with contextlib.suppress(OSError):
            while data := connection.recv(100):
                connection.sendall(data)
        connection.close()

    def echo(self, server):
        data, source = server.recvfrom(2048)
        self.reached.append(server.getsockname())
        server.sendto(data, source)

    def resolve(self, server):
        query, source = server.recvfrom(2048)
        if server.getsockname()[0] == OTHER_RESOLVER:
            self.reached.append(server.getsockname())
        answers = self.names.answer(query)
        if read_name(query, 12)[0] == "late.test":
            threading.Thread(target=self.answer_late, args=(server, answers, source), daemon=True).start()
        else:
            self.send(server, answers, source)

    @staticmethod
    def send(server, answers, source):
        for answer in answers:
            server.sendto(answer, source)

    def answer_late(self, server, answers, source):
        self.names.late.wait(WAIT_S)
        self.send(server, answers, source)


PROBE = pathlib.Path(__file__).with_name("egress_probe.py").read_text()


class Egress(BoxCase):
    config = {"pool": {"max_boxes": 20}, "tcp": {"listen": f"127.0.0.1:{PORT}", "tokens": {"bob": TOKEN}}}

    @classmethod
    def setUpClass(cls):
        for program in ("nft", "slirp4netns", "unshare", "ip"):
            if os.geteuid() == 0 and shutil.which(program, path="/usr/sbin:/usr/bin:/sbin:/bin") is None:
                skip(f"{program} is not installed")
        if "SANDPOOL_TEST_APART" not in os.environ:
            skip("network namespaces are made by root here")
        if not HAS_CGROUPS:
            skip("runsc has no network")
        cls.internet = Internet()
        conf = pathlib.Path("/etc/resolv.conf").resolve()
        own = pathlib.Path(os.environ.get("TMPDIR", "/tmp")) / f"resolv-{os.getpid()}"
        own.write_text(f"nameserver {RESOLVER}\n")
        subprocess.run(["mount", "--bind", own, conf], check=True, timeout=30)
        own.unlink()
        cold = {"warm": {"min": 0, "max": 0}}
        cls.profiles = {"default": {**cold, "network": {"mode": "nat", "allow": ALLOW}},
                        "open": {**cold, "network": "nat"},
                        "closed": {**cold, "network": {"mode": "nat", "allow": ["only.test"]}}}
        super().setUpClass()

    def attempts(self, box, *tries, user="root"):
        """What came of each, and how long each took."""
        text = json.dumps([[what, args] for what, *args in tries])
        ended = box.run(["python3", "-c", PROBE, text], user=user)
        self.assertEqual(ended.exit_code, 0, ended)
        found = [json.loads(line) for line in ended.out.splitlines()]
        self.assertEqual(len(found), len(tries), ended)
        return found

    def results(self, box, *tries, user="root"):
        return [result for result, _ in self.attempts(box, *tries, user=user)]


    def assertRefused(self, found, what):
        """At once, and as an error."""
        result, seconds = found
        self.assertRegex(str(result), "rror ", what)
        self.assertNotIn("timed out", str(result), what)
        self.assertLess(seconds, 2, (what, result))

    def number_of(self, box, name):
        return int((self.server.state / "oci" / "boxes" / box.box_id / name).read_text().split()[0])

    def assertEnforced(self, box):
        name, address, private = self.attempts(box, ("tcp", "good.test"), ("tcp", OTHER), ("tcp", PRIVATE))
        self.assertEqual(name[0], f"hello from {PUBLIC}")
        self.assertRefused(address, "not named")
        self.assertRefused(private, "private")

    def test_what_is_named_is_reached_and_nothing_else(self):
        box = self.acquire("names", "cold")
        good = [(("tcp", "good.test"), f"hello from {PUBLIC}"), (("tcp", "A.Below.TEST"), f"hello from {PUBLIC}"),
                (("tcp", PUBLIC), f"hello from {PUBLIC}"),  # a name has led there
                (("tcp", "good.test", 853), f"hello from {PUBLIC}"), (("udp", "good.test"), "x"),
                (("tcp", NAMED_NET), f"hello from {NAMED_NET}"), (("tcp", NAMED_PRIVATE), f"hello from {NAMED_PRIVATE}"),
                (("tcp", "named.test"), f"hello from {NAMED_PRIVATE}"),
                (("ask", "good.test", 1, INSIDE, True), [0, [[PUBLIC, 60]]]),
                (("ask", "twice.test"), [0, [[PUBLIC, 60]]]),
                (("ask", "spoof.test"), [0, [[PUBLIC, 60]]]),  # two answers before it were to other questions
                *((("ask", "good.test", kind), [0, []]) for kind in (28, 65, 64, 16, 15, 5, 255)),
                *((("ask", name, kind), [3, []]) for name in ("secret.test", "below.test", "xgood.test", "good.test.elsewhere.test")
                  for kind in (1, 28))]
        for (what, wanted), result in zip(good, self.results(box, *(what for what, _ in good), user="user")):
            self.assertEqual(result, wanted, what)
        del self.internet.reached[:]
        bad = [("tcp", OTHER), ("udp", OTHER), ("tcp", PRIVATE), ("udp", PRIVATE), ("tcp", METADATA), ("ping", PRIVATE), ("ping", OTHER),
               ("tcp", "127.0.0.1"), ("tcp", INSIDE), ("udp", INSIDE, 67), ("tcp", "10.0.2.2"), ("tcp", "10.0.2.3", 53), ("tcp", OTHER, 853),
               *(("ask", "good.test", 1, server, tcp) for server in (RESOLVER, OTHER_RESOLVER, NAMED_NET, PUBLIC, "10.0.2.3")
                 for tcp in (False, True)),
               ("tcp", "secret.test"), ("six", "2001:db8::1"), ("six", "::ffff:" + OTHER)]
        for what, found in zip(bad, self.attempts(box, *bad)):
            self.assertRefused(found, what)
        self.assertEqual(self.internet.reached, [])
        asked = {name for name, _ in self.internet.names.asked}
        self.assertFalse({"secret.test", "below.test"} & asked, "questions tell something to whoever is asked")

    def test_names_that_lead_elsewhere(self):
        box = self.acquire("lies", "cold")
        slow = box.start(["python3", "-c", PROBE, json.dumps([["ask", ["slow.test"]]])])
        tries = [(("ask", "rebind.test"), [0, [[PUBLIC, 60]]]), (("ask", "rebind.test"), [5, []]), (("ask", "alias.test"), [5, []]),
                 (("ask", "mixed.test"), [0, [[PUBLIC, 60]]]), (("ask", "brief.test"), [0, [[OTHER, 0]]]),
                 (("tcp", OTHER), f"hello from {OTHER}"), (("ask", "named.test"), [0, [[NAMED_PRIVATE, 60]]])]
        for (what, wanted), result in zip(tries, self.results(box, *(what for what, _ in tries))):
            self.assertEqual(result, wanted, what)
        for what, found in zip((METADATA, PRIVATE), self.attempts(box, ("tcp", METADATA), ("tcp", PRIVATE))):
            self.assertRefused(found, what)
        code, many = self.results(box, ("ask", "many.test"))[0]
        self.assertEqual((code, len(many)), (0, 16))
        self.assertLessEqual({a for a, _ in many}, self.named(box))
        # Whatever a box sends, it is answered afterwards.
        self.assertEqual(self.results(box, ("flood", 300), ("ask", "good.test"))[1], [0, [[PUBLIC, 60]]])
        box.wait(slow)
        self.assertEqual(json.loads(box.output(slow))[0], [2, []])

    def test_connections_are_bounded(self):
        """Each takes memory that the machine charges to nobody, and so does what is remembered of those that are refused."""
        box = self.acquire("many", "cold")
        self.assertEqual(self.results(box, ("tcp", "good.test"), ("ports", OTHER, 8000), ("tcp", "good.test")),
                         [f"hello from {PUBLIC}", 8000, f"hello from {PUBLIC}"])
        self.assertEqual(self.results(box, ("junk", 200)), ["closed"])
        sockets = pathlib.Path(f"/proc/{self.number_of(box, 'resolver.pid')}/net/sockstat").read_text()
        waiting = re.search(r"^TCP:.* tw (\d+)", sockets, re.M)
        self.assertLessEqual(int(waiting.group(1)), 64)
        self.assertEqual(self.results(box, ("tcp", "good.test"), ("ports", PUBLIC, 3000))[1], 3000)
        resolver = self.number_of(box, "resolver.pid")
        done = subprocess.run(["nsenter", f"--net=/proc/{resolver}/ns/net", "cat", "/proc/sys/net/netfilter/nf_conntrack_count"],
                              capture_output=True, text=True, timeout=30, check=True)
        self.assertTrue(1000 <= int(done.stdout) <= 1100, done.stdout)
        self.assertEqual(self.results(box, ("ask", "good.test"))[0], [0, [[PUBLIC, 60]]])  # questions are not counted

    def test_answers_to_the_resolver_are_not_the_box_s(self):
        """slirp4netns takes all that comes from one port for one sender: a box must not have the resolver's."""
        box = self.acquire("ports", "cold")
        self.assertEqual(self.results(box, ("tcp", "good.test")), [f"hello from {PUBLIC}"])
        taker = box.start(["python3", "-c", PROBE, json.dumps([["udp_from", ["/tmp/port", PUBLIC]]])])
        wait_until(lambda: box.output(taker) != "", "it waits for a port")
        late = box.start(["python3", "-c", PROBE, json.dumps([["ask", ["late.test"]]])])
        wait_until(lambda: ("late.test", 1) in self.internet.names.asked, "the question is under way")
        table = pathlib.Path(f"/proc/{self.number_of(box, 'resolver.pid')}/net/udp").read_text()
        port = int(re.search(r":([0-9A-F]{4}) 0302000A:0035 ", table).group(1), 16)
        box.sh(f"echo {port} > /tmp/port")
        box.wait(taker)
        self.assertEqual(json.loads(box.output(taker).splitlines()[-1])[0], "x")
        self.internet.names.late.set()
        box.wait(late)
        self.assertEqual(json.loads(box.output(late))[0], [0, [[PUBLIC, 60]]])

    def named(self, box):
        """The set of what names have led to."""
        resolver = self.number_of(box, "resolver.pid")
        done = subprocess.run(["nsenter", f"--user=/proc/{resolver}/ns/user", f"--net=/proc/{resolver}/ns/net", "nft", "-j", "list", "set",
                               "inet", "egress", "named"], capture_output=True, text=True, timeout=30, check=True)
        found = [e["set"] for e in json.loads(done.stdout)["nftables"] if "set" in e]
        return {e["elem"]["val"] for e in found[0].get("elem", [])}

    def test_the_box_cannot_change_the_rules(self):
        """As its root; and not even with all rights over its own namespaces, which nobody in it has."""
        box = self.acquire("rules", "cold")
        del self.internet.reached[:]
        self.assertEnforced(box)
        tries = [("raw", 1), ("raw", 255), ("packet",), ("users",), ("netlink", 12, "00"),
                 ("run", "nft", "flush", "ruleset"), ("run", "ip", "addr", "add", "192.0.0.3/29", "dev", "eth0"),
                 ("run", "ip", "link", "set", "eth0", "down"), ("run", "ip", "route", "add", f"{PRIVATE}/32", "via", INSIDE)]
        for what, result in zip(tries, self.results(box, *tries)):
            self.assertTrue("Error" in str(result) or (isinstance(result, list) and result[0] != 0), (what, result))
        effective = int(next(line for line in box.sh("cat /proc/self/status", user="root").splitlines()
                             if line.startswith("CapBnd")).split()[1], 16)
        self.assertEqual(effective & (1 << 12 | 1 << 13 | 1 << 21), 0, "NET_ADMIN, NET_RAW, SYS_ADMIN")
        init, resolver = self.init_of(box), self.number_of(box, "resolver.pid")
        for space in ("net", "user"):
            self.assertNotEqual(os.readlink(f"/proc/{init}/ns/{space}"), os.readlink(f"/proc/{resolver}/ns/{space}"))
        status = read_of(resolver, "status")
        self.assertRegex(status, r"Seccomp:\s+2\n")
        self.assertRegex(status, r"CapEff:\s+0000000000001000\n")  # NET_ADMIN, over its own namespace
        self.assertNotRegex(status, r"Uid:\s+0\s")
        self.assertNotIn("sandpool-names", box.sh("cat /proc/[0-9]*/comm", user="root"))
        inside = ["nsenter", f"--user=/proc/{init}/ns/user", f"--net=/proc/{init}/ns/net"]
        for command in (["nft", "flush", "ruleset"], ["ip", "route", "add", f"{PRIVATE}/32", "via", INSIDE],
                        ["ip", "addr", "add", f"{FORGED}/32", "dev", "eth0"]):
            subprocess.run([*inside, *command], check=True, timeout=30)
        self.assertEnforced(box)
        forged = subprocess.run([*inside, "python3", "-c", PROBE, json.dumps([["forge", [FORGED, PRIVATE, PUBLIC]]])],
                                capture_output=True, text=True, timeout=30, check=True)
        self.assertIn("sent", forged.stdout)
        self.assertEqual(self.results(box, ("udp", PUBLIC)), ["x"])  # the same way, and later
        self.assertEqual([r for r in self.internet.reached if r[0] == PRIVATE or r[1] == 9000], [(PUBLIC, 9000)])

    def test_another_list_for_a_running_box(self):
        box = self.acquire("changed", "cold")
        self.assertEnforced(box)
        target = f"/v1/sandboxes/{box.id}/network"
        self.assertEqual(self.row(box)["network_allow"], ALLOW)
        kept = box.start(["python3", "-c", PROBE, json.dumps([["hold", [PUBLIC, NAMED_NET]]])])
        wait_until(lambda: box.output(kept) != "", "connections are open")
        self.assertEqual(self.results(box, ("tcp", NAMED_HIGH)), [f"hello from {NAMED_HIGH}"])
        narrow = ["brief.test", "198.51.100.0/25"]
        answer = self.assertOk(self.pool.post(target, {"allow": narrow}))
        self.assertEqual((answer["network_allow"], self.row(box)["network_allow"]), (narrow, narrow))
        box.wait(kept)
        self.assertEqual(json.loads(box.output(kept).splitlines()[-1])[0], ["ended", "open"])
        closed, private, high, name, net = self.attempts(box, ("tcp", PUBLIC), ("tcp", NAMED_PRIVATE), ("tcp", NAMED_HIGH),
                                                         ("tcp", "brief.test"), ("tcp", NAMED_NET))
        self.assertRefused(closed, "a name that is not on the list any more had led there")
        self.assertRefused(private, "not on the list any more")
        self.assertRefused(high, "in the old network, not in the part of it that is the new one")
        self.assertEqual([name[0], net[0]], [f"hello from {OTHER}", f"hello from {NAMED_NET}"])
        self.assertEqual(self.results(box, ("ask", "good.test"))[0], [3, []])
        for body, status, code in (({"allow": ["a b"]}, 422, "invalid_field"), ({"allow": ["10.0.0.1/8"]}, 422, "invalid_field"),
                                   ({"allow": ["a"] * 129}, 422, "invalid_field"), ({}, 422, "invalid_field"),
                                   ({"allow": "a.test"}, 422, "invalid_field"), ({"allow": [1]}, 422, "invalid_field")):
            self.assertCode(self.pool.post(target, body), status, code)
        self.assertCode(self.pool.post("/v1/sandboxes/0123456789abcdef/network", {"allow": []}), 404, "not_found")
        # It outlives the daemon, and an operator may give more than the profile has; many at once end in one of them.
        self.server.kill()
        self.server.start()
        self.pool.close()
        self.assertEqual(self.row(box)["network_allow"], narrow)
        lists = [[PRIVATE], [METADATA], [OTHER]]
        for done in in_threads(3, lambda i: self.server.client().post(target, {"allow": lists[i]})):
            self.assertOk(done)
        last = self.row(box)["network_allow"]
        self.assertIn(last, lists)
        for address in (PRIVATE, METADATA, OTHER):
            found = self.attempts(box, ("tcp", address))[0]
            if [address] == last:
                self.assertEqual(found[0], f"hello from {address}")
            else:
                self.assertRefused(found, address)
        self.assertOk(self.pool.post(target, {"allow": []}))
        self.assertRefused(self.attempts(box, ("tcp", last[0]))[0], "nothing is allowed")
        open_box = self.acquire("open", "cold", profile="open")
        self.assertCode(self.pool.post(f"/v1/sandboxes/{open_box.id}/network", {"allow": []}), 501, "unsupported")

    @staticmethod
    def as_bob(method, target, body):
        connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=WAIT_S)
        with contextlib.closing(connection):
            connection.request(method, target, json.dumps(body), {"Authorization": f"Bearer {TOKEN}"})
            response = connection.getresponse()
            return response.status, json.loads(response.read())

    def test_callers_stay_within_the_profile(self):
        status, lease = self.as_bob("POST", "/v1/acquire", {"thread_id": "bobs"})
        self.assertEqual(status, 200, lease)
        target = f"/v1/sandboxes/{lease['sandbox_id']}/network"
        status, answer = self.as_bob("POST", target, {"allow": ["x.below.test", "198.51.100.7", "good.test"]})
        self.assertEqual((status, answer.get("network_allow")), (200, ["x.below.test", "198.51.100.7", "good.test"]))
        for entry in ("secret.test", "*.test", "below.test", PRIVATE, "0.0.0.0/0", "198.51.0.0/16", METADATA):
            status, answer = self.as_bob("POST", target, {"allow": ["good.test", entry]})
            self.assertEqual((status, answer["error"]["code"]), (403, "forbidden"), entry)
            self.assertIn(entry, answer["error"]["message"])
        box = Box(self.assertOk(self.pool.acquire("not-bobs")))
        status, answer = self.as_bob("POST", f"/v1/sandboxes/{box.id}/network", {"allow": []})
        self.assertEqual(status, 404, answer)
        self.assertEqual(self.row(box)["network_allow"], ALLOW)

    def test_a_box_without_its_resolver_is_lost(self):
        self.assertLostWithout(lambda: self.acquire("alone", "cold"), lambda box: self.number_of(box, "resolver.pid"), "network")

    def test_lists_outlive_daemons_and_boxes(self):
        box = self.acquire("kept")
        self.server.kill()
        self.assertEnforced(box)
        self.server.start()
        self.pool.close()
        self.assertEnforced(box)
        self.server.takeover()
        self.pool.close()
        self.assertEnforced(box)
        closed = self.acquire("closed", profile="closed")
        self.assertRefused(self.attempts(closed, ("tcp", "good.test"))[0], "of another profile")
        profiles = {p["name"]: p for p in self.assertOk(self.pool.get("/v1/profiles"))["profiles"]}
        self.assertEqual(profiles["default"]["network_allow"], ALLOW)
        forked = self.assertOk(self.pool.post(f"/v1/sandboxes/{box.id}/fork", {"count": 1}))["sandboxes"][0]
        self.assertEnforced(Box(forked))


if __name__ == "__main__":
    main()
