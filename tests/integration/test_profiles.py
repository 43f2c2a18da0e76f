"""Profiles: what the API and the command line show of them, and that one which fails disturbs no other."""

import asyncio
import json
import subprocess
import sys
import urllib.request

from fixtures import BIN, SOURCE, WAIT_S, TestCase, free_port, main, wait_until

sys.path.insert(0, str(SOURCE / "clients/python"))
import sandpool  # noqa: E402

TWO = {
    "default": {"backend": "sim", "warm": {"min": 0, "max": 0}},
    "base": {"backend": "sim", "warm": {"min": 0, "max": 0}, "env": {"SECRET": "hunter2"}, "limits": {"memory": "256M", "cpus": 0.5}},
    "small": {"extends": "base", "warm": {"min": 1, "max": 2}, "ttl_s": 60, "ttl_max_s": 100, "labels": {"tier": "low"}, "env": {"MORE": "x"}},
}


class ProfilesCase(TestCase):
    def cli(self, daemon, *args, status=0):
        done = subprocess.run([BIN / "sandpool", "--socket", daemon.socket, *args], capture_output=True, text=True,
                              timeout=60, check=False)
        self.assertEqual(done.returncode, status, done)
        return done.stdout if status == 0 else done.stderr

    def profile(self, client, name):
        return self.assertOk(client.get(f"/v1/profiles/{name}"))


class Shown(ProfilesCase):
    def test_api(self):
        client = self.client(self.daemon(profiles=TWO))
        found = self.assertOk(client.get("/v1/profiles"))["profiles"]
        self.assertEqual([p["name"] for p in found], ["base", "default", "small"])
        small = self.profile(client, "small")
        self.assertEqual(small["extends"], "base")
        self.assertEqual(small["backend"], "sim")
        self.assertEqual(small["limits"], {"memory": 256 << 20, "cpus": 0.5, "pids": 512, "disk": 2 << 30})
        self.assertEqual(small["warm"], {"min": 1, "max": 2})
        self.assertEqual((small["ttl_s"], small["network"], small["env"]), (60, "none", ["SECRET", "MORE"]))
        self.assertEqual((small["ttl_max_s"], small["labels"]), (100, {"tier": "low"}))
        self.assertEqual((small["ready"], small["reason"], small["breaker"]["open"]), (True, None, False))
        self.assertNotIn("hunter2", json.dumps(found))
        self.assertCode(client.get("/v1/profiles/none"), 404, "not_found")

    def test_the_longest_lease(self):
        daemon = self.daemon(profiles=TWO)
        client = self.client(daemon)
        lease = self.assertOk(client.acquire("t", profile="small", ttl_s=3600))
        self.assertLessEqual(lease["ends_in_s"], 100)
        again = self.assertOk(client.post(f"/v1/sandboxes/{lease['sandbox_id']}/renew", {"ttl_s": 3600}))
        self.assertEqual(again["expires_at"], lease["expires_at"])

    def test_only_operators_see_the_machine(self):
        port = free_port()
        daemon = self.daemon({"mounts": [f"{self.directory}:/data:ro"]}, mounts={"allow": [self.directory]},
                             tcp={"listen": f"127.0.0.1:{port}", "tokens": {"bob": "0123456789abcdef"}})
        mine = self.profile(self.client(daemon), "default")
        self.assertEqual(mine["mounts"], [{"host_path": self.directory, "container_path": "/data", "read_only": True}])
        self.assertEqual(mine["rootfs"], "host")
        request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/profiles/default",
                                         headers={"Authorization": "Bearer 0123456789abcdef"})
        with urllib.request.urlopen(request, timeout=WAIT_S) as answer:
            theirs = json.load(answer)
        self.assertEqual(theirs["mounts"], [{"container_path": "/data", "read_only": True}])
        self.assertNotIn("rootfs", theirs)

    def test_command_line(self):
        daemon = self.daemon(profiles=TWO)
        listed = self.cli(daemon, "profile", "ls").splitlines()
        self.assertEqual([line.split()[0] for line in listed], ["PROFILE", "base", "default", "small"])
        self.assertIn("256M", listed[1])
        self.assertIn("small", self.cli(daemon, "profile", "show", "small"))
        self.assertEqual(json.loads(self.cli(daemon, "profile", "show", "small", "--json"))["extends"], "base")
        self.assertEqual(len(json.loads(self.cli(daemon, "profile", "ls", "--json"))["profiles"]), 3)
        self.cli(daemon, "profile", "show", "none", status=4)
        self.cli(daemon, "profile", "show", status=2)
        self.cli(daemon, "profile", "rm", status=2)


class Quotes(ProfilesCase):
    PRICED = {"backend": "sim", "limits": {"cpus": 2, "memory": "512M"},
              "price": {"currency": "EUR", "per_hour": 0.05, "per_cpu_hour": 0.0125}}

    def test_quote(self):
        daemon = self.daemon(profiles={"dear": self.PRICED, "child": {"extends": "dear", "limits": {"cpus": 1}},
                                       "default": {"backend": "sim"}})
        client = self.client(daemon)
        self.assertEqual(self.assertOk(client.get("/v1/quote?profile=dear&duration_s=7200")), {
            "profile": "dear", "duration_s": 7200, "currency": "EUR",
            "parts": [
                {"name": "per_hour", "rate": "0.05", "rate_micros": 50000, "amount": "0.1", "amount_micros": 100000},
                {"name": "per_cpu_hour", "rate": "0.0125", "rate_micros": 12500, "amount": "0.05", "amount_micros": 50000}],
            "total": "0.15", "total_micros": 150000})
        self.assertEqual(self.assertOk(client.get("/v1/quote?profile=child"))["total"], "0.0625")
        self.assertEqual(self.assertOk(client.get("/v1/quote")), {
            "profile": "default", "duration_s": 3600, "currency": None, "parts": None, "total": None, "total_micros": None})
        self.assertEqual(self.profile(client, "dear")["price"]["per_cpu_hour"], "0.0125")
        self.assertIsNone(self.profile(client, "default")["price"])
        for query in ("profile=none", "duration_s=-1", "duration_s=31622401", "duration_s=1.5", "duration_s=", "profile=%00"):
            self.assertCode(client.get(f"/v1/quote?{query}"), 422, "invalid_field")
        self.assertIn("0.15 EUR", self.cli(daemon, "quote", "dear", "--for", "2h"))
        self.assertIn("no price", self.cli(daemon, "quote"))
        self.assertEqual(json.loads(self.cli(daemon, "quote", "dear", "--json"))["total_micros"], 75000)
        self.cli(daemon, "quote", "none", status=1)

    def test_what_is_paid_by_use_is_not_in_the_total(self):
        price = {"currency": "EUR", "per_hour": 0.05, "per_used_cpu_hour": 0.04, "per_used_gb_hour": 0.01, "per_used_net_gb": 0.02}
        daemon = self.daemon(profiles={"used": {"backend": "sim", "price": price}, "default": {"backend": "sim"}})
        quote = self.assertOk(self.client(daemon).get("/v1/quote?profile=used"))
        self.assertEqual((quote["total"], quote["parts"][0]["amount"]), ("0.05", "0.05"))
        self.assertEqual(quote["parts"][1:], [
            {"name": name, "rate": str(price[name]), "rate_micros": round(price[name] * 1e6), "amount": None, "amount_micros": None}
            for name in ("per_used_cpu_hour", "per_used_gb_hour", "per_used_net_gb")])
        shown = self.cli(daemon, "quote", "used")
        self.assertRegex(shown, r"per_used_net_gb +0.02 +by use")
        self.assertIn("Not in the total", shown)
        self.assertNotIn("Not in the total", self.cli(daemon, "quote"))

    def test_python(self):
        daemon = self.daemon(profiles={"dear": self.PRICED, "default": {"backend": "sim"}})
        with sandpool.Client(str(daemon.socket)) as pool:
            self.assertEqual([p["name"] for p in pool.profiles()], ["dear", "default"])
            self.assertEqual(pool.profile("dear")["price"]["currency"], "EUR")
            self.assertEqual(pool.quote("dear", duration_s=7200)["total"], "0.15")
            self.assertIsNone(pool.quote()["total"])
            with self.assertRaises(sandpool.NotFound):
                pool.profile("a/b")

        async def ask():
            async with sandpool.AsyncClient(str(daemon.socket)) as pool:
                return await pool.profiles(), await pool.profile("dear"), await pool.quote("dear")

        profiles, one, quote = asyncio.run(ask())
        self.assertEqual((len(profiles), one["name"], quote["total_micros"]), (2, "dear", 75000))


class Auto(ProfilesCase):
    def profiles(self, **more):
        def one(per_hour, memory, **fields):
            return {"backend": "sim", "warm": {"min": 0, "max": 0}, "limits": {"memory": memory}, "sim": {"create_ms": 1, "create_jitter_ms": 0},
                    "price": {"currency": "EUR", "per_hour": per_hour}, **fields}
        return {"default": {"backend": "sim", "warm": {"min": 0, "max": 0}},
                "big": one(3, "8G", labels={"gpu": "a100", "tier": "high"}), "mid": one(1, "2G", labels={"tier": "high"}),
                "online": one(2, "4G", network="nat"), "small": one(1, "512M"), **more}

    def start(self, strategy, listed=("big", "mid", "online", "small"), **more):
        daemon = self.daemon(profiles=self.profiles(**more), auto={"strategy": strategy, "profiles": list(listed)})
        return daemon, self.client(daemon)

    def chosen(self, client, **fields):
        lease = self.assertOk(client.acquire(None, profile="auto", **fields))
        self.assertOk(client.delete(f"/v1/sandboxes/{lease['sandbox_id']}"))
        return lease["profile"]

    def test_what_is_asked_for(self):
        daemon, client = self.start("cheapest")
        self.assertEqual(self.chosen(client), "mid")  # of two that cost the same the first
        self.assertEqual(self.chosen(client, limits={"memory": "3G"}), "online")
        self.assertEqual(self.chosen(client, limits={"memory": "5G"}), "big")
        self.assertEqual(self.chosen(client, network="nat"), "online")
        self.assertEqual(self.chosen(client, labels={"gpu": "a100"}), "big")
        self.assertEqual(self.chosen(client, labels={"tier": "high"}, network="none"), "mid")
        for fields, reason in (({"limits": {"memory": "9G"}}, "'big': its limits are lower"), ({"network": "host"}, "'mid': its network is none"),
                               ({"labels": {"gpu": "h100"}}, "'big': its label 'gpu' is 'a100'; 'mid': its label 'gpu' is not there")):
            answer = client.acquire(None, profile="auto", **fields)
            self.assertCode(answer, 422, "invalid_field")
            self.assertIn(reason, answer.json["error"]["message"])
        for fields in ({"labels": {"a": 1}}, {"labels": []}, {"labels": {str(i): "" for i in range(65)}}, {"network": 1}):
            self.assertCode(client.acquire(None, profile="auto", **fields), 422, "invalid_field")
        self.assertCode(client.acquire(None, profile="small", network="nat"), 422, "invalid_field")
        self.assertOk(client.acquire("named", profile="big", labels={"tier": "high"}, network="none"))
        self.assertEqual(self.assertOk(client.get("/v1/quote?profile=auto"))["profile"], "mid")
        out = json.loads(self.cli(daemon, "acquire", "-p", "auto", "--label", "gpu=a100", "--network", "none", "--json"))
        self.assertEqual(out["profile"], "big")

    def test_a_thread_keeps_its_box(self):
        _, client = self.start("cheapest")
        self.assertOk(client.acquire("t", profile="big"))
        lease = self.assertOk(client.acquire("t", profile="auto"))
        self.assertEqual((lease["profile"], lease["source"]), ("big", "kept"))
        self.assertCode(client.acquire("t", profile="auto", network="nat"), 409, "spec_conflict")

    def test_ordered_falls_back(self):
        failing = {"backend": "sim", "warm": {"min": 1, "max": 1}, "sim": {"fail_percent": 100, "create_ms": 1},
                   "create": {"breaker_failures": 1, "backoff_min_ms": 1, "backoff_max_ms": 5}}
        _, client = self.start("ordered", ("first", "small"), first=failing)
        wait_until(lambda: self.profile(client, "first")["breaker"]["open"], "it fails")
        for _ in range(5):
            self.assertEqual(self.chosen(client), "small")

    def test_fastest(self):
        _, client = self.start("fastest", ("big", "ready"), ready={"backend": "sim", "warm": {"min": 1, "max": 1}})
        wait_until(lambda: self.profile(client, "ready")["blank"] == 1, "a ready box")
        self.assertEqual(self.chosen(client), "ready")

    def test_all_when_none_are_listed(self):
        _, client = self.start("ordered", ())
        self.assertEqual(self.chosen(client), "big")
        self.assertEqual(self.chosen(client, network="nat"), "online")


class Apart(ProfilesCase):
    """One that fails is fenced off; a changed one replaces its ready boxes; the others go on."""

    FAILING = {"backend": "sim", "warm": {"min": 1, "max": 1}, "sim": {"fail_percent": 100, "create_ms": 1},
               "create": {"breaker_failures": 2, "backoff_min_ms": 1, "backoff_max_ms": 5}}
    GOOD = {"backend": "sim", "warm": {"min": 2, "max": 2}}

    def test_a_failing_profile(self):
        daemon = self.daemon(profiles={"good": self.GOOD, "bad": self.FAILING, "default": {"backend": "sim", "warm": {"min": 0, "max": 0}}})
        client = self.client(daemon)
        wait_until(lambda: self.profile(client, "bad")["breaker"]["failures"] >= 2, "it fails")
        bad = wait_until(lambda: not (p := self.profile(client, "bad"))["ready"] and p, "it is fenced off")
        self.assertIn("could not be made", bad["reason"])
        self.assertTrue(bad["breaker"]["reason"])
        self.assertIn("could not be made", self.cli(daemon, "profile", "ls"))
        self.assertEqual(client.acquire("x", profile="bad", wait_ms=20000).status, 503)
        for i in range(5):
            self.assertOk(client.acquire(f"t{i}", profile="good"))
        good = self.profile(client, "good")
        self.assertEqual((good["ready"], good["breaker"]["failures"], good["breaker"]["open"]), (True, 0, False))

    def test_a_changed_base_rolls_what_extends_it(self):
        def config(value):
            return {"base": {**self.GOOD, "env": {"A": value}}, "child": {"extends": "base"}, "other": self.GOOD,
                    "default": {"backend": "sim", "warm": {"min": 0, "max": 0}}}

        daemon = self.daemon(profiles=config("1"))
        client = self.client(daemon)
        self.wait_blank(client, 6)

        def boxes(profile):
            found = client.get(f"/v1/sandboxes?profile={profile}&state=blank").json["sandboxes"]
            return {box["box_id"] for box in found}

        before = {name: boxes(name) for name in ("base", "child", "other")}
        daemon.write_config({"profiles": config("2")})
        self.assertOk(client.post("/v1/pool/reload"))
        for name in ("base", "child"):
            wait_until(lambda n=name: len(boxes(n)) == 2 and not boxes(n) & before[n], f"the boxes of {name} are new")
        self.assertEqual(boxes("other"), before["other"])


if __name__ == "__main__":
    main()
