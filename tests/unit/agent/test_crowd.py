"""Many connections of strangers: whoever has the token still gets in."""

import socket

from agent_client import TOKEN, AgentTest, main

LIMIT = 256  # connections of an agent


class Crowd(AgentTest):
    def strangers(self, count):
        found = []
        for _ in range(count):
            sock = socket.create_connection(("127.0.0.1", self.port), timeout=20)
            self.addCleanup(sock.close)
            found.append(sock)
        return found

    def test_strangers_push_out_each_other_only(self):
        kept = self.connect()
        kept.request("GET", "/v1/agent/env", headers={"Authorization": f"Bearer {TOKEN}"})
        kept.getresponse().read()
        strangers = self.strangers(LIMIT * 2)
        for _ in range(5):
            self.assertEqual(self.get("/v1/agent/env").status, 200)
        strangers[0].settimeout(20)
        self.assertEqual(strangers[0].recv(10), b"")  # the oldest had to go
        sock = kept.sock
        kept.request("GET", "/v1/agent/env", headers={"Authorization": f"Bearer {TOKEN}"})
        self.assertEqual(kept.getresponse().status, 200)
        self.assertIs(kept.sock, sock)  # the same connection: it was never in danger

    def test_a_wrong_token_and_a_look_at_the_health_prove_nothing(self):
        first = []
        for token, target in (("wrong", "/v1/agent/env"), (None, "/v1/sandbox")):
            connection = self.connect()
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            connection.request("GET", target, headers=headers)
            connection.getresponse().read()
            first.append(connection.sock)
        self.strangers(LIMIT + 8)
        for sock in first:
            if sock is not None:
                sock.settimeout(20)
                self.assertEqual(sock.recv(10), b"")

    def test_with_the_token_the_limit_holds(self):
        proven = []
        for _ in range(LIMIT):
            connection = self.connect()
            connection.request("GET", "/v1/agent/env", headers={"Authorization": f"Bearer {TOKEN}"})
            connection.getresponse().read()
            proven.append(connection)
        self.assertEqual(self.get("/v1/sandbox").status, 503)
        proven[0].close()


if __name__ == "__main__":
    main()
