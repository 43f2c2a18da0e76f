"""A daemon is replaced under load by another one: no connection is refused, no request is lost, no
answer comes twice, no lease changes."""

import json
import os
import signal
import socket
import threading
import time

from fixtures import SLOW, WAIT_S, free_port, main, wait_until
from provisioner import ProvisionerCase
from takeover_case import TakeoverCase, TcpClient


class OtherServers(ProvisionerCase):
    def test_connections_of_the_provisioner_stay_with_it(self):
        sim = self.sim()
        daemon = self.serve(profile={"warm": {"min": 1, "max": 2}}, sim=sim)
        caller = self.caller()
        self.assertEqual(caller.create("one", thread_id="t", user_id="u").status, 200)
        kept = caller.connection.sock
        self.addCleanup(daemon.process.kill)
        daemon.takeover()
        self.assertEqual(caller.get("one").status, 200)
        self.assertEqual(caller.ids(), ["one"])
        self.assertIs(caller.connection.sock, kept)


class UnderLoad(TakeoverCase):
    def test_nothing_is_refused_lost_or_doubled(self):
        sim, daemon = self.setting()
        inode = os.stat(daemon.socket).st_ino
        callers = self.callers(daemon, 12)
        for _ in range(4):
            before = sum(c.answers for c in callers)
            wait_until(lambda: sum(c.answers for c in callers) > before + 100 / SLOW, "load")
            self.takeover(daemon)
        before = sum(c.answers for c in callers)
        wait_until(lambda: sum(c.answers for c in callers) > before + 100 / SLOW, "load")
        self.finish(callers)
        self.check_leases(daemon, sim, callers)
        self.assertEqual(os.stat(daemon.socket).st_ino, inode, "it is the same socket")
        log = daemon.process.output()
        self.assertNotIn("daemon.connection_dropped", log)
        self.assertGreater(log.count("daemon.connections_taken"), 0)

    def test_idle_connections_and_halves_of_requests_go_over(self):
        _, daemon = self.setting()
        idle = [self.client(daemon) for _ in range(500)]
        for client in idle:
            self.assertOk(client.get("/healthz"))
        half = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.addCleanup(half.close)
        half.settimeout(WAIT_S)
        half.connect(str(daemon.socket))
        body = json.dumps({"thread_id": "half"}).encode()
        half.sendall(b"POST /v1/acquire HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(body)
                     + body[:5])
        self.takeover(daemon)
        self.takeover(daemon)
        half.sendall(body[5:])
        self.assertIn(b'"thread_id":"half"', half.recv(65536))
        sockets = [client.connection.sock for client in idle]
        for client in idle:
            self.assertOk(client.get("/healthz"))
        self.assertEqual(sockets, [client.connection.sock for client in idle], "none was closed")

    def test_callers_that_wait_go_on_waiting(self):
        sim = self.sim()
        daemon = self.daemon({"warm": {"min": 0, "max": 1}}, sim=sim, pool={"max_boxes": 1})
        lease = self.assertOk(daemon.acquire("holder"))
        answers = []
        waiters = [threading.Thread(target=lambda i=i: answers.append(
            daemon.acquire(f"waiter-{i}", wait_ms=int(WAIT_S * 1000)))) for i in range(3)]
        for waiter in waiters:
            waiter.start()
        client = self.client(daemon)
        wait_until(lambda: client.get("/v1/pool").json["waiting"] == 3, "three wait")
        self.takeover(daemon)
        wait_until(lambda: client.get("/v1/pool").json["waiting"] == 3, "three wait again")
        self.assertEqual(answers, [])
        self.assertOk(client.release(lease["sandbox_id"], destroy=True))
        for _ in range(3):
            wait_until(lambda: answers, "one is served")
            got = answers.pop()
            self.assertOk(got)
            self.assertOk(client.release(got.json["sandbox_id"], destroy=True))
        for waiter in waiters:
            waiter.join(WAIT_S)

    def test_followers_of_events_end_in_order_and_resume(self):
        _, daemon = self.setting()
        client = self.client(daemon)
        follower = self.client(daemon)
        answers = []
        thread = threading.Thread(target=lambda: answers.append(follower.get("/v1/events?since=0")))
        thread.start()
        self.assertOk(client.acquire("t"))
        time.sleep(0.1)  # likely it follows by now; the outcome is the same when it does not
        self.takeover(daemon)
        thread.join(WAIT_S)
        self.assertEqual(answers[0].status, 200)
        resumed = follower.get("/v1/events?since=0&follow=0")
        self.assertIn("event: ", resumed.text)

    def test_a_deleted_socket_is_made_anew_and_served(self):
        _, daemon = self.setting()
        kept = self.client(daemon)
        self.assertOk(kept.get("/healthz"))
        os.unlink(daemon.socket)
        self.takeover(daemon)
        self.assertOk(self.client(daemon).get("/healthz"))
        self.assertOk(kept.get("/healthz"))
        # A successor that failed leaves a socket that nobody serves.
        os.unlink(daemon.socket)
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stale:
            stale.bind(str(daemon.socket))
            stale.listen()
        self.takeover(daemon)
        self.assertOk(self.client(daemon).get("/healthz"))
        inode = os.stat(daemon.socket).st_ino
        self.takeover(daemon)
        self.assertEqual(os.stat(daemon.socket).st_ino, inode, "it is the same socket")
        self.assertOk(kept.get("/healthz"))

    def test_a_changed_configuration_holds_afterwards(self):
        _, daemon = self.setting()
        client = self.client(daemon)
        old_port, new_port = self.port, free_port()
        daemon.write_config(daemon.config.read_text().replace(str(old_port), str(new_port)))
        self.takeover(daemon)
        self.assertOk(client.get("/healthz"))
        with self.assertRaises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", old_port), 5)
        self.port = new_port
        tcp = TcpClient(new_port)
        self.addCleanup(tcp.close)
        self.assertOk(tcp.get("/healthz"))

    def test_the_service_manager_is_told(self):
        path = os.path.join(self.directory, "notify")
        manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(manager.close)
        manager.bind(path)
        manager.settimeout(WAIT_S)
        daemon = self.daemon(env={"NOTIFY_SOCKET": path})
        self.assertIn(b"READY=1", manager.recv(4096))
        daemon.env = {}  # the successor is started by hand
        self.takeover(daemon)
        heard = {manager.recv(4096) for _ in range(2)}
        pid = b"%d" % daemon.process.pid
        self.assertEqual(heard, {b"MAINPID=" + pid, b"READY=1\nMAINPID=" + pid})

    def test_a_signal_makes_the_daemon_replace_itself(self):
        sim, daemon = self.setting()
        callers = self.callers(daemon, 4)
        old = self.watch(daemon.process)
        old.child.send_signal(signal.SIGUSR2)
        self.assertEqual(old.child.wait(WAIT_S), 0)
        client = self.client(daemon)
        pid = self.assertOk(client.get("/v1/version"))["pid"]
        self.finish(callers)
        self.check_leases(daemon, sim, callers)
        self.assertNotEqual(pid, old.pid)
        os.kill(pid, signal.SIGTERM)  # not our child, so it is watched by its socket
        wait_until(lambda: not daemon.socket.exists(), "it has stopped")

    def test_a_standby_does_not_slip_in(self):
        _, daemon = self.setting()
        standby = self.watch(daemon.spawn(args=["--standby"]))
        wait_until(lambda: "daemon.standby" in standby.output(), "the standby waits")
        self.takeover(daemon)
        self.takeover(daemon)
        self.assertTrue(standby.is_running())
        self.assertEqual(self.client(daemon).get("/v1/version").json["pid"], daemon.process.pid)

    def test_nobody_runs(self):
        daemon = self.daemon(start=False)
        daemon.process = daemon.spawn(args=["--takeover"])
        daemon.wait_ready()

    def test_stop_after_a_takeover_leaves_nothing(self):
        _, daemon = self.setting()
        self.takeover(daemon)
        daemon.stop()
        self.assertFalse(daemon.socket.exists())
        self.assertFalse((daemon.state / "takeover.sock").exists())
        daemon.start()


if __name__ == "__main__":
    main()
