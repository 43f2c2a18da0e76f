"""The fixtures of tests/lib, for the tests of this directory: daemon, box, engine, http_peer, tmpdir(). It puts that
directory into sys.path, so that each test can be run by hand as well, and names what nearly all of them use."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from daemon import (Answer, Client, Daemon, Process, SimMachine, TestCase, fewer, forget_stamp, in_threads,  # noqa: E402
                    remove_groups)
from testlib import (BIN, IS_SANITIZED, MIB, SLOW, SOURCE, WAIT_S, UnixConnection, at_most, free_port, happens,  # noqa: E402
                     is_alive, main, receive, skip, tmpdir, wait_until)

__all__ = ["BIN", "IS_SANITIZED", "MIB", "SLOW", "SOURCE", "WAIT_S", "Answer", "Client", "Daemon", "Process", "SimMachine",
           "TestCase", "UnixConnection", "at_most", "fewer", "forget_stamp", "free_port", "happens", "in_threads", "is_alive",
           "main", "receive", "remove_groups", "skip", "tmpdir", "wait_until"]
