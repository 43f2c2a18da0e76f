"""The extension for sand-boxer: the contract signature by signature, with and without its package; and a manager whose every
step is a process of its own, with real boxes."""

import inspect
import json
import os
import pathlib
import signal
import subprocess
import sys
import types
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "clients" / "python"), str(ROOT / "tests" / "lib"), str(ROOT / "tests" / "integration")]

from extension_manager import PROFILE  # noqa: E402
from fixtures import TestCase  # noqa: E402
from oci_case import BoxCase  # noqa: E402
from testlib import WAIT_S, main  # noqa: E402

import sandpool  # noqa: E402
from sandpool import extension  # noqa: E402

EMPTY = inspect.Parameter.empty
# Of the contract: names, kinds and defaults of the parameters of each method.
CONTRACT = {
    "__init__": ["self", ("config", None)],
    "new_sandbox_id": ["inputs"],
    "provision": ["self", "profile", "inputs", "host"],
    "wait_ready": ["self", "handle"],
    "teardown": ["self", "handle"],
    "estimate_cost": ["self", "profile", "inputs", "*", ("duration_s", 3600)],
    "meter_actual": ["self", "handle", "*", "duration_s"],
    "supports_snapshots": ["self"],
    "snapshot": ["self", "handle"],
    "restore_from_snapshot": ["self", "profile", "snapshot_meta", "inputs", "host"],
}

# A package with the shape of sand-boxer's, to be installed for one process.
PACKAGE = '''
from abc import ABC, abstractmethod
class SandboxExtension(ABC):
    def __init__(self, config=None):
        self.config = config or {}
        self.is_real = True
    @staticmethod
    def new_sandbox_id(inputs):
        return inputs.get("sandbox_id") or "from-base"
    @abstractmethod
    def provision(self, profile, inputs, host): ...
    @abstractmethod
    def wait_ready(self, handle): ...
    @abstractmethod
    def teardown(self, handle): ...
    def estimate_cost(self, profile, inputs, *, duration_s=3600): ...
    def meter_actual(self, handle, *, duration_s): ...
    def supports_snapshots(self): ...
    def snapshot(self, handle): ...
    def restore_from_snapshot(self, profile, snapshot_meta, inputs, host): ...
'''


def shape(function):
    found = []
    is_named = False
    for one in inspect.signature(function).parameters.values():
        if one.kind is one.KEYWORD_ONLY and not is_named:
            is_named = True
            found.append("*")
        found.append(one.name if one.default is EMPTY else (one.name, one.default))
    return found


class Contract(unittest.TestCase):
    def test_every_signature(self):
        for kind in (extension.SandboxExtension, extension.SandpoolExtension):
            self.assertEqual({name: shape(getattr(kind, name)) for name in CONTRACT}, CONTRACT)
            self.assertIsInstance(inspect.getattr_static(kind, "new_sandbox_id"), staticmethod)
        self.assertEqual(extension.SandboxExtension.__abstractmethods__, {"provision", "wait_ready", "teardown"})
        self.assertEqual(extension.SandpoolExtension.__abstractmethods__, frozenset())
        self.assertTrue(issubclass(extension.SandpoolExtension, extension.SandboxExtension))

    def test_defaults_of_the_base(self):
        class Small(extension.SandboxExtension):
            provision = wait_ready = teardown = lambda self, *_: {}
        small = Small({"a": 1})
        self.assertEqual((small.config, Small().config, small.supports_snapshots()), ({"a": 1}, {}, False))
        self.assertIsNone(small.estimate_cost(None, {}))
        self.assertIsNone(small.meter_actual({}, duration_s=1.0))
        for call in (lambda: small.snapshot({}), lambda: small.restore_from_snapshot(None, {}, {}, "h")):
            self.assertRaises(NotImplementedError, call)
        self.assertEqual(small.new_sandbox_id({"sandbox_id": "x"}), "x")
        self.assertNotEqual(small.new_sandbox_id({}), small.new_sandbox_id({}))


class Packages(TestCase):
    def python(self, program):
        return subprocess.run([sys.executable, "-B", "-c", program], capture_output=True, text=True, timeout=WAIT_S, check=False,
                              env={**os.environ, "PYTHONPATH": f"{self.directory}:{ROOT / 'clients' / 'python'}"})

    def install(self, base):
        home = pathlib.Path(self.directory) / "sandboxer"
        (home / "extensions").mkdir(parents=True)
        for path in (home / "__init__.py", home / "extensions" / "__init__.py"):
            path.write_text("")
        (home / "extensions" / "base.py").write_text(base)
        (home / "models.py").write_text("import dataclasses\n@dataclasses.dataclass\nclass MeterQuote:\n    amount_usd: float\n"
                                        "    duration_s: int\n")

    def test_the_real_base_class(self):
        self.install(PACKAGE)
        done = self.python(
            "from sandboxer.extensions.base import SandboxExtension as Base\nfrom sandboxer.models import MeterQuote\n"
            "from sandpool.extension import SandpoolExtension as E, make_quote\n"
            "e = E({'wait_s': 1})\nassert issubclass(E, Base) and e.is_real and e.config == {'wait_s': 1}\n"
            "print(E.new_sandbox_id({}), make_quote(MeterQuote, 1.5, 60, 90.0))")
        self.assertEqual((done.returncode, done.stdout), (0, "from-base MeterQuote(amount_usd=1.5, duration_s=60)\n"), done)

    def test_a_broken_package_is_not_taken_for_none(self):
        self.install("import no_such_module\n")
        self.assertIn("no_such_module", self.python("import sandpool.extension").stderr)

    def test_alone(self):
        done = self.python("import sys, sandpool.extension\nprint(sorted(m for m in sys.modules if 'sandboxer' in m))")
        self.assertEqual((done.returncode, done.stdout), (0, "[]\n"), done)

    def test_a_quote_that_wants_more(self):
        def odd(secret):
            return secret
        self.assertEqual(extension.make_quote(odd, 2.0, 60, 120.0), extension.MeterQuote(2.0, 60, 120.0))


class Mapping(unittest.TestCase):
    def test_times(self):
        def times(inputs=None, **ttl):
            return extension._lifetime({"ttl": ttl}, inputs or {})
        self.assertEqual(times(default="4h", max="24h"), (86400, 86400))
        self.assertEqual(times(default="90", idle_reap="15m"), (90, 900))
        self.assertEqual(times({"ttl": "2h"}, default="4h"), (7200, 7200))
        self.assertEqual(times({"ttl": "2h"}, default="4h", max="3h"), (10800, 10800))
        self.assertEqual(times(max="999d"), (30 * 86400, 30 * 86400))
        self.assertEqual(extension._lifetime(None, {}), (None, None))
        for bad in ("", "0", "-1s", "1w", "x", "1.5h"):
            with self.assertRaisesRegex(ValueError, "no duration"):
                times(default=bad)

    def test_limits_and_names(self):
        self.assertEqual(extension._limits({"resources": {"cpu": "2", "memory_mb": 512, "pids": 9}}),
                         {"cpus": 2.0, "memory": 512 << 20, "pids": 9})
        self.assertIsNone(extension._limits(types.SimpleNamespace(id="x")))
        one = extension.SandpoolExtension({"profile": "all", "profiles": {"profile.a": "a"}})
        self.assertEqual(one._profile({"id": "profile.a"}), "a")
        self.assertEqual(one._profile(types.SimpleNamespace(name="profile.a")), "a")
        self.assertEqual(one._profile({"id": "b", "metadata": {"sandpool_profile": "c"}}), "c")
        self.assertEqual(one._profile({"id": "b"}), "all")
        self.assertIsNone(extension.SandpoolExtension()._profile({"id": "b"}))

    def test_networks(self):
        one = extension.SandpoolExtension()
        self.assertEqual(one._network({"network": {"default": "deny", "egress": []}}), "none")
        self.assertIsNone(one._network({"network": {"default": "allow"}}))
        self.assertIsNone(one._network({}))
        with self.assertRaises(sandpool.SandpoolError) as caught:
            one._network({"network": {"default": "deny", "egress": ["example.org"]}})
        self.assertEqual(caught.exception.code, "unsupported")
        self.assertIsNone(extension.SandpoolExtension({"network": "any"})._network({"network": {"default": "deny", "egress": ["x"]}}))

    def test_currencies(self):
        one = extension.SandpoolExtension({"usd_rates": {"EUR": "1.1"}})
        self.assertEqual((one._usd("USD", 2500000), one._usd("EUR", 1000000)), (2.5, 1.1))
        with self.assertRaises(sandpool.SandpoolError):
            one._usd("CHF", 1)


class Managed(BoxCase):
    profiles = {"default": {"warm": {"min": 1, "max": 2}},
                "dear": {"extends": "default", "warm": {"min": 0, "max": 0},
                         "price": {"currency": "USD", "per_hour": "1.50", "per_used_cpu_hour": 36}}}

    def setUp(self):
        super().setUp()
        self.store = pathlib.Path(self.directory) / "store.json"

    def manage(self, *commands, **config):
        """Commands of the manager in a process of their own; their answers."""
        done = subprocess.run(
            [sys.executable, "-B", str(pathlib.Path(__file__).parent / "extension_manager.py"), str(self.store),
             json.dumps({"address": str(self.server.socket), **config}), json.dumps(commands)], capture_output=True, text=True,
            timeout=2 * WAIT_S, check=False, env={**os.environ, "PYTHONPATH": str(ROOT / "clients" / "python")})
        self.assertEqual((done.returncode, done.stderr), (0, ""), done)
        return json.loads(done.stdout)

    def test_a_life(self):
        inputs = {"thread_id": "chat", "user_id": "ana", "env.KEY": "sk-secret", "metadata.project": "p", "other": "x"}
        handle, again = self.manage(["create", "one", inputs], ["create", "again", inputs])
        self.assertEqual((handle["sandbox_id"], handle["host"], handle["generation"]),
                         (sandpool.sandbox_id_of("ana", "chat"), "here", "1"))
        self.assertEqual((again["box_id"], again["generation"]), (handle["box_id"], "1"))
        row = self.pool.get(f"/v1/sandboxes/{handle['sandbox_id']}").json
        self.assertEqual(row["metadata"], {"profile_id": "profile.test", "project": "p"})
        self.assertTrue(86000 < row["ends_in_s"] <= 86400, row)
        for secret in ("token", row["token"], "sk-secret"):
            self.assertNotIn(secret, self.store.read_text())
        ready, output, kept = self.manage(["ready", "one"], ["run", "one", "echo $KEY; echo kept > f"], ["snapshot", "one", "first"])
        self.addCleanup(self.pool.delete, f"/v1/snapshots/{kept['snapshot_id']}")
        self.assertEqual((ready["sandbox_url"], ready["remote_dir"], ready["state"]), (row["sandbox_url"], "/workspace", "leased"))
        self.assertNotIn(row["token"], json.dumps(ready))
        self.assertEqual((output, kept["sandbox_id"], kept["memory"]), ("sk-secret\n", handle["sandbox_id"], "false"))
        copy, report, twice, gone, there = self.manage(
            ["restore", "first", "two", {"sandbox_id": handle["sandbox_id"]}], ["destroy", "one"], ["destroy", "one"],
            ["ready", "one"], ["run", "two", "cat f"])
        self.assertNotEqual(copy["sandbox_id"], handle["sandbox_id"])
        self.assertEqual((copy["source"], there), ("restored", "kept\n"))
        self.assertEqual((report["outcome"], report["why"]), ("destroyed", "destroyed"))
        self.assertIn("the box was stopped", report["released"])
        self.assertEqual((report["processes"], report["layers"]), ("1", "1"))
        self.assertGreater(float(report["lived_s"]), 0)
        self.assertIn(twice["outcome"], ("destroyed", "gone"))
        self.assertEqual(gone["error"], "not_found")
        again, old, lost, new, ended = self.manage(
            ["create", "three", inputs], ["destroy", "one"], ["ready", "one"], ["ready", "three"], ["destroy", "two"])
        self.assertEqual((again["sandbox_id"], again["generation"]), (handle["sandbox_id"], "2"))
        self.assertEqual((old["outcome"], lost["error"], new["state"]), ("replaced", "sandbox_lost", "leased"))
        self.assertEqual(ended["outcome"], "destroyed")

    def test_a_box_that_is_lost(self):
        handle, = self.manage(["create", "one", {}])
        self.assertRegex(handle["sandbox_id"], "^[0-9a-f]{8}$")
        os.kill(int((self.server.state / "oci" / "boxes" / handle["box_id"] / "pid").read_text()), signal.SIGKILL)
        self.wait_lost(types.SimpleNamespace(id=handle["sandbox_id"]))
        ready, *reports = self.manage(["ready", "one"], ["destroy", "one"], ["destroy", "one"])
        self.assertEqual(ready["error"], "sandbox_lost")
        for report in reports:
            self.assertEqual((report["outcome"], report["usd"]), ("lost", None))  # no price
            self.assertIn("died", report["why"])

    def test_a_daemon_that_is_away(self):
        self.manage(["create", "one", {}])
        self.server.kill()
        self.assertEqual(self.manage(["destroy", "one"])[0]["error"], "connect_failed")
        self.server.start()
        self.assertEqual(self.manage(["destroy", "one"])[0]["outcome"], "destroyed")

    def test_prices_and_refusals(self):
        free, bad = self.manage(["quote", 3600], ["create", "one", {"sandbox_id": "no good"}])
        self.assertEqual((free, bad["error"]), (None, "invalid_field"))
        quote, = self.manage(["quote", 1800], profiles={"profile.test": "dear"})
        self.assertEqual(quote, {"estimate_usd": 0.75, "duration_s": 1800, "usd_per_hour": 1.5})
        busy = "python3 -c 'import time\nwhile time.process_time() < 1: pass'"
        _, _, ended, again = self.manage(["create", "paid", {}], ["run", "paid", busy], ["destroy", "paid"],
                                         ["destroy", "paid"], profiles={"profile.test": "dear"})
        self.assertTrue(0.5 * 36 / 3600 <= ended["usd"] < 1, ended)  # most of what it used, at least
        self.assertEqual(again["usd"], ended["usd"])
        refused, = self.manage(["create", "one", {}], profile="none-such")
        self.assertEqual(refused["error"], "invalid_field")
        self.assertNotIn("one", json.loads(self.store.read_text())["handles"])

    def test_snapshots_are_of_one_daemon(self):
        one = extension.SandpoolExtension({"address": str(self.server.socket), "hosts": {"far": "http://127.0.0.1:1"}})
        self.addCleanup(one.close)
        self.assertTrue(one.supports_snapshots())
        with self.assertRaises(sandpool.SandpoolError) as caught:
            one.restore_from_snapshot(PROFILE, {"snapshot_id": "0" * 16, "host": "here"}, {}, "far")
        self.assertEqual(caught.exception.code, "unsupported")
        with self.assertRaises(sandpool.NotFound):
            one.restore_from_snapshot(PROFILE, {"snapshot_id": "0" * 16, "host": "here"}, {}, "here")


if __name__ == "__main__":
    main()
